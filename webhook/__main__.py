"""`python -m webhook` is `rollcall`."""

from webhook.cli import main

if __name__ == "__main__":
    main()

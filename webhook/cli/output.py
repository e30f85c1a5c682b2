"""Output that all commands share: exit codes, and lines on standard error."""

from __future__ import annotations

import sys

CLEAN, REFUSED, UNREADABLE, NOT_EVALUATED = 0, 1, 2, 3


def tell(message: str) -> None:
    """Print one line on standard error."""
    print(f"rollcall: {printable(message)}", file=sys.stderr)


def printable(text: str) -> str:
    """Return `text` with all control characters for terminals escaped: manifests come from anywhere."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )

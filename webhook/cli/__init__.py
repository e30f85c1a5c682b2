"""The command line, without logic of its own.

Exit codes: 0 clean, 1 something is refused, 2 usage error or unreadable input, 3 could not be evaluated.
"""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
from pathlib import Path

from webhook.cli.output import CLEAN, NOT_EVALUATED, UNREADABLE, tell
from webhook.errors import AccessError, CertificateError, ConfigurationError, FactsUnavailable, InputError

# The code that a shell shows for a command ended by SIGPIPE. It is not a verdict, because output is missing.
PIPE_CLOSED = 141
# What is imported and manifests that were read stay until the end. With the usual threshold the collector visits all of
# them again and again: a tenth of the time for 4,000 documents, and more for one, as imports make 200,000 objects.
_GC_THRESHOLD = 500_000


def main(arguments: list[str] | None = None) -> None:
    gc.set_threshold(_GC_THRESHOLD)
    code = run(sys.argv[1:] if arguments is None else arguments, _called(sys.argv[0]))
    # The interpreter collects garbage before it ends, a fifth of the time of a check: nothing is left to find.
    gc.freeze()
    sys.exit(code)


def _called(program: str) -> str:
    """Returns how a person calls the program: kubectl finds a plugin by the name of its file."""
    return "kubectl rollcall" if Path(program).name.startswith("kubectl-") else "rollcall"


def run(arguments: list[str], program: str = "rollcall") -> int:
    """Runs the command line and returns the exit code. Known errors are printed on standard error, one line each.
    `program` is its name in help.
    """
    debug = arguments[:1] == ["--debug"]
    output = sys.stdout
    if isinstance(output, io.TextIOWrapper):
        # A terminal that cannot show a character must still show the verdict.
        output.reconfigure(errors="backslashreplace")
    try:
        # Imported here, so that an error in our own imports is reported like any other.
        from webhook.cli.commands import app

        app(arguments[1:] if debug else arguments, prog_name=program)
    except SystemExit as ended:
        if sys.stdout is not output:
            # Typer's answer to a closed pipe: it mutes the output and exits with 1, which would be a verdict here.
            return PIPE_CLOSED
        return ended.code if isinstance(ended.code, int) else CLEAN
    except BrokenPipeError:
        # The reader of our output has closed the pipe; flushing the rest at exit would raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except (ConfigurationError, InputError, CertificateError, AccessError) as error:
        return _failed(str(error), UNREADABLE)
    except FactsUnavailable as error:
        return _failed(str(error), NOT_EVALUATED)
    except Exception as error:  # noqa: BLE001 - our own fault must not look like a verdict on the input
        if debug:
            traceback.print_exc()
        return _failed(
            f"internal error: {type(error).__name__}: {error} (rollcall --debug ... shows where)", NOT_EVALUATED
        )
    return CLEAN


def _failed(message: str, code: int) -> int:
    for line in message.splitlines():
        tell(line)
    return code

"""The commands of `rollcall`, run within the process of the tests: a process of its own takes two seconds to start.

`rollcall_server.ran` starts the installed command instead.
"""

from __future__ import annotations

import gc
import io
import sys
import threading
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

from webhook.cli import run

# The streams belong to the whole process.
_STREAMS = threading.Lock()


def run_here(*arguments: str | Path, stdin: str = "") -> CompletedProcess[str]:
    """Runs a command and returns its exit code and what it prints."""
    command = [str(argument) for argument in arguments]
    output, errors = _stream(), _stream()
    with _STREAMS, redirect_stdout(output), redirect_stderr(errors), warnings.catch_warnings():
        # The end of a process closes what was still being connected.
        warnings.simplefilter("ignore", ResourceWarning)
        before, sys.stdin = sys.stdin, _stream(stdin)
        try:
            code = run(command)
        finally:
            sys.stdin = before
            gc.collect()
    return CompletedProcess(["rollcall", *command], code, _content(output), _content(errors))


def _stream(content: str = "") -> io.TextIOWrapper:
    """Returns a stream with a `buffer`, as those of a process have."""
    return io.TextIOWrapper(io.BytesIO(content.encode()), encoding="utf-8", write_through=True)


def _content(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()

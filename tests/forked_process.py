"""Processes of `rollcall` that begin in a moment: each is forked from one that has imported everything.

A start takes a second of a processor otherwise, nearly all of it for imports.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from multiprocessing import connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from webhook.cli import main

_IMPORTED = ["tests.warm_process", __name__]
# `multiprocessing` has one list of children: a start polls the others, and only the first poll reads an exit code.
_CHILDREN = threading.RLock()


@cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    return context


class ForkedProcess:
    """A running `rollcall`, with the part of the interface of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        open_files: int | None = None,
        look_seconds: float | None = None,
        start_new_session: bool = False,
    ) -> None:
        """Begin it: what it prints goes to `log`, and it may have `open_files` open. Its environment is `env`, if that
        is given, and it looks at watched files each `look_seconds`. What is read at import, such as the seed of hashes,
        all processes share.
        """
        self._arguments = tuple(arguments)
        begun = (self._arguments, log, dict(os.environ if env is None else env), open_files, look_seconds)
        target = _run_in_session if start_new_session else _run
        with _CHILDREN:
            self._process = _context().Process(target=target, args=begun, daemon=True)
            self._process.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, or None while it runs."""
        return self.poll()

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""
        with _CHILDREN:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code once it has ended. Raises `subprocess.TimeoutExpired`."""
        connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self._arguments, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            # Its exit code comes a moment after its end.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send it SIGTERM, if it runs."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL, if it runs."""
        self.send_signal(signal.SIGKILL)


def _run_in_session(*begun: Any) -> None:
    os.setsid()
    _run(*begun)


def _run(
    arguments: Sequence[str], log: Path, env: Mapping[str, str], open_files: int | None, look_seconds: float | None
) -> None:
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(env)
    if open_files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))
    if look_seconds is not None:
        import webhook.server.serving

        webhook.server.serving.LOOK_SECONDS = look_seconds
    sys.argv = ["rollcall"]
    main(list(arguments))

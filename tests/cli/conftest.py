"""Running the command line in this process, as its console script does."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import NamedTuple

import pytest

from webhook.cli import run


class Ran(NamedTuple):
    """What a command left: exit code, standard output and standard error."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def rollcall(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `rollcall` with these arguments, `stdin` on its standard input."""

    def ran(*arguments: str, stdin: str = "") -> Ran:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = run(list(arguments))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return ran

"""Running the command line in this process, as its console script does."""

from __future__ import annotations

import io
import ssl
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import typer

from webhook.cli import run
from webhook.cluster import access
from webhook.cluster.httpx_transport import HttpxTransport
from webhook.cluster.pooled_transport import PooledTransport

CONFIG = """\
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
scheduler: {defaultProfileName: koord-scheduler, profiles: [{name: koord-scheduler, gate: true}]}
"""


class Ran(NamedTuple):
    """What a command left: exit code, standard output and standard error."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]

# A process builds its commands once, which takes longer than most of them.
COMMANDS = cache(typer.main.get_command)


@pytest.fixture
def config_option(tmp_path: Path) -> str:
    """The option that names a file with `CONFIG`."""
    file = tmp_path / "rollcall.yaml"
    file.write_text(CONFIG)
    return f"--config={file}"


@pytest.fixture
def rollcall(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `rollcall` with these arguments, `stdin` on its standard input."""

    monkeypatch.setattr(typer.main, "get_command", COMMANDS)

    def ran(*arguments: str, stdin: str = "") -> Ran:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = run(list(arguments))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return ran


def answer_for_the_cluster(cluster: httpx.AsyncBaseTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `cluster` answer all requests of a command."""

    async def sent(_: httpx.AsyncBaseTransport, request: httpx.Request) -> httpx.Response:
        return await cluster.handle_async_request(request)

    reached = access.Access("https://cluster", ssl.create_default_context(), lambda: None)
    monkeypatch.setattr(access, "find", lambda *_: reached)
    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", sent)
    monkeypatch.setattr(PooledTransport, "send", HttpxTransport(reached).send)

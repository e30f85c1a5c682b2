"""Running the command line in this process, as its console script does."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import typer
import yaml

from tests.played import START, PlayedClock, PlayedLoop
from tests.unit.cluster.scripted import NO_TLS
from webhook.cli import manifest_files, run
from webhook.cluster import access
from webhook.cluster.client import HttpxTransport
from webhook.cluster.clock import MACHINE_CLOCK
from webhook.cluster.pooled_transport import PooledTransport
from webhook.config.defaults import built_in_kinds
from webhook.installation.chart_data import chart_data
from webhook.model.reading import Manifest
from webhook.workloads.workload_kinds import WorkloadKinds

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

# A process builds its commands, and what is the same in every chart, once: both take longer than most commands.
_COMMANDS = cache(typer.main.get_command)
_CHART_DATA = cache(lambda: chart_data(built_in_kinds()))


def share_what_is_built(patch: pytest.MonkeyPatch) -> None:
    """Let the commands that run from now on share what each builds."""
    patch.setattr(typer.main, "get_command", _COMMANDS)
    patch.setattr(manifest_files, "chart_data", _chart_data)


def _chart_data(kinds: WorkloadKinds) -> dict[str, Manifest]:
    assert kinds == built_in_kinds()
    return deepcopy(_CHART_DATA())


def documents(text: str) -> list[Any]:
    """The documents of a YAML text."""
    return list(yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def without_prose(text: str) -> list[str]:
    """The lines of a report without its reasons and remedies, whose words the pages of the reference hold."""
    return [line for line in text.splitlines() if line.split()[:1] not in (["why"], ["do"])]


def unframed(text: str) -> str:
    """The words of a usage error, which Typer breaks into lines and draws a frame around."""
    return " ".join(text.replace("│", " ").split())


@pytest.fixture
def config_option(tmp_path: Path) -> str:
    """The option that names a file with `CONFIG`."""
    file = tmp_path / "rollcall.yaml"
    file.write_text(CONFIG)
    return f"--config={file}"


@pytest.fixture
def rollcall(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `rollcall` with these arguments, `stdin` on its standard input."""
    share_what_is_built(monkeypatch)

    def ran(*arguments: str, stdin: str = "") -> Ran:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = run(list(arguments))
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return ran


def play_time(monkeypatch: pytest.MonkeyPatch, start: datetime = START) -> PlayedClock:
    """Play the time of the commands that run from now on: each begins at `start`, and no wait takes time."""
    clock = PlayedClock(start)
    for name in ("monotonic", "now", "processor"):
        monkeypatch.setattr(MACHINE_CLOCK, name, getattr(clock, name))
    monkeypatch.setattr(asyncio.events, "new_event_loop", PlayedLoop)
    return clock


def answer_for_the_cluster(
    cluster: httpx.AsyncBaseTransport, monkeypatch: pytest.MonkeyPatch, start: datetime = START
) -> None:
    """Let `cluster` answer all requests of a command, and play its time."""

    async def sent(_: httpx.AsyncBaseTransport, request: httpx.Request) -> httpx.Response:
        return await cluster.handle_async_request(request)

    reached = access.Access("https://cluster", NO_TLS, lambda: None)
    monkeypatch.setattr(access, "find_access", lambda *_: reached)
    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", sent)
    monkeypatch.setattr(PooledTransport, "send", HttpxTransport(reached).send)
    play_time(monkeypatch, start)

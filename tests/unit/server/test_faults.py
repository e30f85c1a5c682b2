"""The effect of an internal error outside the answers: an error in reading files logs a line, any other ends the
process.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.waiting import until
from webhook.certificates.files import CERTIFICATE_FILE, KEY_FILE
from webhook.server import serving
from webhook.server.serving import ServingPlan, _Server
from webhook.server.state import ServerState
from webhook.server.tls import PairFiles


class Broken(Exception):
    """A fault of ours."""


@pytest.fixture
def plan(certificates: Path) -> ServingPlan:
    """A port that is free, with development certificates."""
    return ServingPlan(("127.0.0.1", 0), PairFiles(certificates / CERTIFICATE_FILE, certificates / KEY_FILE))


async def test_an_error_in_reading_files_keeps_the_serving_pair(
    state: ServerState, plan: ServingPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "LOOK_SECONDS", 0.005)

    with capture_logs() as lines:
        server = _Server(state, plan)
        server._serving.open()
        before, looks = state.certificate, 0
        assert before is not None

        def broken() -> None:
            nonlocal looks
            looks += 1
            raise Broken

        monkeypatch.setattr(server._tls, "look", broken)
        watching = asyncio.create_task(server._watch())
        await until(lambda: looks == 3 or watching.done(), "files are read again")
        assert not watching.done()
        assert state.certificate is before
        watching.cancel()
        await server._serving.close()
    assert {line["event"] for line in lines} == {"certificates not checked"}


async def test_a_failed_background_task_ends_the_process_with_its_error(
    state: ServerState, plan: ServingPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart is better than a process that lost a task; and its exit differs from a requested stop."""

    async def broken(*_: Any) -> None:
        raise Broken

    monkeypatch.setattr(state.metrics, "run", broken)

    with pytest.raises(Broken):
        await _Server(state, plan).serve()

"""Time is played: a pause costs nothing, and a deadline passes only when nothing else is left to do. A collector of
spans, and fixtures that tests of logs and metrics share with those of the server.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.played import PlayedLoop
from tests.unit.cluster.receiver import Receiver, receiving
from tests.unit.server.conftest import certificates, state
from tests.waiting import LIMIT_SECONDS
from webhook.cluster import span_export, spans

__all__ = ["certificates", "state"]


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The event loop of these tests."""
    return "asyncio", {"loop_factory": PlayedLoop}


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A collector that is not behind a proxy, and has as much time as it needs. Spans are sent at once."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(span_export, "DELAY_SECONDS", 0.01)
    monkeypatch.setattr(span_export, "EXPORT_SECONDS", LIMIT_SECONDS)
    monkeypatch.setattr(spans, "STOP_SECONDS", LIMIT_SECONDS)
    with receiving() as collector:
        yield collector


@pytest.fixture
def impatient(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Gives up sending soon. The threads that send have ended when the test has: they log, and draw random numbers."""
    monkeypatch.setattr(span_export, "EXPORT_SECONDS", 0.05)
    monkeypatch.setattr(spans, "STOP_SECONDS", 0.05)
    before = set(threading.enumerate())
    yield
    receiver.answers.set()
    # One that is about to start is listed, and cannot be joined yet.
    while left := set(threading.enumerate()) - before:
        for thread in left:
            if thread.ident is not None:
                thread.join()

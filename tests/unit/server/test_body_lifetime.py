"""A large body is freed when its charge is paid back. A reference cycle would keep it, uncharged, until the garbage
collector runs, which is off while a large review is judged.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.server.conftest import Call, HeldThread, body, review
from tests.waiting import LIMIT_SECONDS, turns, until
from webhook import admission
from webhook.model.admission_request import ALLOWED
from webhook.server import large_review
from webhook.server.admission_endpoint import AdmissionEndpoint
from webhook.server.state import ServerState

DECODED_IN_PIECES = large_review.WHOLE_BYTES + 1
EMPTY_LISTS = b"[" + b"[]," * (DECODED_IN_PIECES // 3) + b"[]]"


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    """No automatic collection, even after `gc.enable`."""
    threshold = gc.get_threshold()
    gc.set_threshold(0)
    yield
    gc.set_threshold(*threshold)


async def paid_back(state: ServerState) -> None:
    """Wait until nothing is charged and all work of the lane has ended."""
    await until(lambda: not (state.intake.used or state.reviews._held), "all is paid back")


def of(content: bytes, *more: dict[str, Any], seconds: str = "30s") -> Call:
    """A call with this body, which keeps no reference to it after it was read."""
    return Call(body(content), *more, query=f"timeout={seconds}")


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (json.dumps(review()).encode() + b" " * DECODED_IN_PIECES, 200, '"allowed":true'),
        (EMPTY_LISTS[:-1] + b"}", 400, "not JSON"),
        (b"{" + b"," * DECODED_IN_PIECES, 400, "not JSON"),
        (EMPTY_LISTS, 400, "not a JSON object"),
        (EMPTY_LISTS * 2, 413, "brackets and strings"),
    ],
    ids=["judged", "invalid", "invalid at once", "not a review", "too many values"],
)
async def test_an_answered_body_is_freed(
    state: ServerState, monkeypatch: pytest.MonkeyPatch, content: bytes, status: int, said: str
) -> None:
    monkeypatch.setattr(large_review, "MAX_TOKENS", EMPTY_LISTS.count(b"[") * 2)
    before = sys.getrefcount(content)
    call = await of(content).to(AdmissionEndpoint("validate", admission.validate, state))
    await paid_back(state)
    assert (call.status, said in call.text) == (status, True)
    assert sys.getrefcount(content) == before


async def test_a_body_whose_judgement_failed_is_freed(state: ServerState) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError

    content = json.dumps(review()).encode() + b" " * DECODED_IN_PIECES
    before = sys.getrefcount(content)
    call = await of(content).to(AdmissionEndpoint("validate", broken, state))
    await paid_back(state)
    assert call.status == 500
    assert sys.getrefcount(content) == before


async def test_a_body_that_is_judged_beyond_its_deadline_is_freed_when_the_thread_stops(state: ServerState) -> None:
    answered = threading.Event()

    def slow(_: object, __: object, settings: Any) -> Any:
        assert answered.wait(LIMIT_SECONDS)
        settings.proceed()
        return ALLOWED

    content = json.dumps(review()).encode() + b" " * DECODED_IN_PIECES
    before = sys.getrefcount(content)
    call = await of(content, seconds="50ms").to(AdmissionEndpoint("validate", slow, state))
    answered.set()
    await paid_back(state)
    assert call.status == 504
    assert sys.getrefcount(content) == before


async def test_bodies_that_never_have_the_thread_are_freed(state: ServerState) -> None:
    app = AdmissionEndpoint("validate", admission.validate, state)
    late, full, gone = (EMPTY_LISTS + b" " * number for number in range(3))
    before = [sys.getrefcount(content) for content in (late, full, gone)]
    async with HeldThread(state.reviews):
        left = await of(gone, {"type": "http.disconnect"}).to(app)
        # One body of any size can wait; the second is refused.
        state.reviews._waiting_bytes = 1
        calls = [asyncio.create_task(of(late, seconds="200ms").to(app))]
        await turns()
        calls.append(asyncio.create_task(of(full).to(app)))
        answered = await asyncio.gather(*calls)
    del calls
    await paid_back(state)
    assert ([call.status for call in answered], left.sent) == ([504, 503], [])
    assert [sys.getrefcount(content) for content in (late, full, gone)] == before

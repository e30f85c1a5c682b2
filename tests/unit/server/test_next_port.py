"""The next port below HTTP: its answers, and that each answer closes its connection."""

from __future__ import annotations

import asyncio
import json

from tests.unit.server.conftest import Call, body, review
from tests.waiting import turns
from webhook.errors import TooLarge
from webhook.server.connections import SHOWN
from webhook.server.routes import MAX_BODY_BYTES, create_next_app
from webhook.server.state import ServerState

FINGERPRINT = "ab" * 32
STALLED = 40


def asked(*messages: object, query: str = "") -> Call:
    made = Call(*messages, path="/next", query=query)  # type: ignore[arg-type]
    made.scope["state"] = {SHOWN: FINGERPRINT}  # type: ignore[assignment]
    return made


async def test_stalled_uploads_do_not_block_probes(state: ServerState) -> None:
    app = create_next_app(state.intake)
    waiting = [asyncio.create_task(asked(body(b"{", more=True)).to(app)) for _ in range(STALLED)]
    await turns()
    answered = await asked(body(review())).to(app)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert answered.status == 200
    assert json.loads(answered.text)["response"]["warnings"] == [f"rollcall: next certificate {FINGERPRINT}"]
    assert (b"connection", b"close") in answered.sent[0]["headers"]
    assert state.intake.used == 0


def test_a_body_that_does_not_arrive_in_time_is_504(state: ServerState) -> None:
    made = asked(body(b"{", more=True), query="timeout=20ms").answered_by(create_next_app(state.intake))
    assert (made.status, made.text.endswith(" within 0.01 s\n")) == (504, True)


def test_without_memory_for_its_body_a_probe_is_rejected(state: ServerState) -> None:
    state.intake.limit = state.intake.kept = 10
    made = asked(body(review())).answered_by(create_next_app(state.intake))
    assert (made.status, "memory" in made.text) == (503, True)
    assert (b"connection", b"close") in made.sent[0]["headers"]


def test_a_probe_that_is_too_long_is_not_decoded(state: ServerState) -> None:
    question = json.dumps(review()).encode()
    longest, longer = (question.ljust(MAX_BODY_BYTES + more) for more in (0, 1))
    assert asked(body(longest)).answered_by(create_next_app(state.intake)).status == 200
    made = asked(body(longer)).answered_by(create_next_app(state.intake))
    assert (made.status, made.text) == (413, f"{TooLarge(MAX_BODY_BYTES)}\n")
    assert state.intake.used == 0

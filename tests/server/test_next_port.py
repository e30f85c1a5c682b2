"""The next port below HTTP: how many it answers at once, and that each answer is its connection's last."""

from __future__ import annotations

import asyncio
import json

from tests.server.conftest import Call, body, review
from webhook.server.connections import SHOWN
from webhook.server.next_port import MAX_IN_FLIGHT, create_next_app

FINGERPRINT = "ab" * 32


def asked(*messages: object) -> Call:
    made = Call(*messages, path="/next")  # type: ignore[arg-type]
    made.scope["state"] = {SHOWN: FINGERPRINT}  # type: ignore[assignment]
    return made


def test_beyond_the_bound_a_question_is_turned_away_at_once() -> None:
    async def crowd() -> tuple[Call, Call]:
        app = create_next_app()
        waiting = [asyncio.create_task(asked(body(b"", more=True)).to(app)) for _ in range(MAX_IN_FLIGHT)]
        await asyncio.sleep(0)
        turned_away = await asked(body(review())).to(app)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return turned_away, await asked(body(review())).to(app)

    turned_away, afterwards = asyncio.run(crowd())
    assert (turned_away.status, turned_away.text) == (503, f"more than {MAX_IN_FLIGHT} calls at once\n")
    assert (b"retry-after", b"1") in turned_away.sent[0]["headers"]
    assert afterwards.status == 200
    assert json.loads(afterwards.text)["response"]["warnings"] == [f"rollcall: next certificate {FINGERPRINT}"]
    for made in (turned_away, afterwards):
        assert (b"connection", b"close") in made.sent[0]["headers"]

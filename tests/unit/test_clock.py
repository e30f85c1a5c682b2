"""The turns of tasks on the event loop."""

from __future__ import annotations

import asyncio

from tests.played import PlayedClock
from webhook.cluster.clock import TURN_SECONDS, LoopTurn


async def test_a_long_task_lets_others_run_after_each_turn() -> None:
    clock, done = PlayedClock(), list[str]()

    async def long() -> None:
        turn = LoopTurn(clock)
        for step in range(6):
            done.append(f"long {step}")
            clock.used += TURN_SECONDS / 2
            await turn.pause()

    async def short() -> None:
        done.append("short")

    await asyncio.gather(long(), short())
    assert done == ["long 0", "long 1", "short", *(f"long {step}" for step in range(2, 6))]

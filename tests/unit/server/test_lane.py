"""A lane: one at a time, in turns by caller, stopped when no caller waits, and bounded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.played import PlayedClock
from tests.waiting import LIMIT_SECONDS, turns
from webhook.errors import DeadlineExceeded, Overloaded, Stopped
from webhook.server.intake import ClientGone
from webhook.server.lane import MAX_WAITING, Lane, Turn
from webhook.server.metrics import REVIEWS, lane_metrics

# More than any test asks, but where this is the subject.
ENOUGH = 1 << 40


class Asked:
    """A lane whose thread waits for the test, and its calls."""

    def __init__(self, waiting_bytes: int = ENOUGH) -> None:
        self.registry = CollectorRegistry()
        self.clock = PlayedClock()
        self.lane = Lane(REVIEWS, lane_metrics(self.registry)[REVIEWS], waiting_bytes, clock=self.clock)
        self.let_go = threading.Event()
        self.entered = threading.Event()
        self.done: list[str] = []
        self.order: list[str] = []

    def work(self, name: str) -> Callable[[Turn], Awaitable[str]]:
        def judged() -> str:
            self.order.append(name)
            self.entered.set()
            assert self.let_go.wait(LIMIT_SECONDS), "the test released no thread"
            return name

        return lambda turn: turn.run(judged)

    async def ask(
        self, name: str, caller: str = "a", size: int = 1, seconds: float = 3600, receive: Any = None, work: Any = None
    ) -> Any:
        return await self.lane.run(
            work or self.work(name),
            size=size,
            caller=caller,
            deadline=self.clock.monotonic() + seconds,
            receive=receive or _never,
            done=lambda: self.done.append(name),
        )

    def count(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {"lane": REVIEWS, **labels})

    async def busy(self) -> asyncio.Task[Any]:
        """One that holds the thread."""
        task = asyncio.create_task(self.ask("first"))
        await asyncio.to_thread(self.entered.wait, LIMIT_SECONDS)
        return task


async def _never() -> Any:
    await asyncio.Event().wait()


async def _hangs_up() -> Any:
    return {"type": "http.disconnect"}


async def _queue(asked: Asked, *calls: tuple[str, str, int]) -> list[asyncio.Task[Any]]:
    tasks = []
    for name, caller, size in calls:
        tasks.append(asyncio.create_task(asked.ask(name, caller, size)))
        await turns()
    return tasks


async def test_callers_take_turns_and_smaller_bodies_go_first() -> None:
    asked = Asked()
    first = await asked.busy()
    others = await _queue(
        asked, ("large", "a", 3 << 20), ("second", "a", 1 << 20), ("small", "a", 1), ("other", "b", 3 << 20)
    )
    assert asked.count("rollcall_lane_waiting") == 4
    asked.let_go.set()
    assert await asyncio.gather(first, *others) == ["first", "large", "second", "small", "other"]
    assert asked.count("rollcall_lane_wait_seconds_count") == 5
    assert asked.order == ["first", "small", "other", "second", "large"]


async def test_at_a_deadline_the_caller_is_answered_and_the_thread_is_stopped() -> None:
    asked, told = Asked(), threading.Event()

    def judged(turn: Turn) -> None:
        asked.entered.set()
        while True:
            try:
                turn.proceed()
            except Stopped:
                told.set()
                raise

    with pytest.raises(DeadlineExceeded, match="not answered within"):
        await asked.ask("late", seconds=0.05, work=lambda turn: turn.run(judged, turn))
    assert await asyncio.to_thread(told.wait, LIMIT_SECONDS)
    # The next has the thread for itself.
    asked.let_go.set()
    assert await asked.ask("next") == "next"
    assert asked.done == ["late", "next"]
    assert asked.count("rollcall_lane_dropped_total", reason="late") == 1


async def test_a_call_that_waits_too_long_or_disconnects_is_never_started() -> None:
    asked = Asked()
    first = await asked.busy()
    with pytest.raises(DeadlineExceeded):
        await asked.ask("late", seconds=0.02)
    with pytest.raises(ClientGone):
        await asked.ask("gone", receive=_hangs_up)
    assert asked.count("rollcall_lane_dropped_total", reason="gone") == 1
    asked.let_go.set()
    await first
    assert await asked.ask("next") == "next"
    assert asked.order == ["first", "next"]
    assert sorted(asked.done) == ["first", "gone", "late", "next"]


async def test_waiting_bodies_are_bounded_in_bytes_and_small_ones_displace_large_ones() -> None:
    asked = Asked(1000)
    first = await asked.busy()
    large = await _queue(asked, *((f"{number}", "a", 300) for number in range(3)))
    with pytest.raises(Overloaded, match="or 1000 bytes of them, at once"):
        await asked.ask("too large", "a", 10_000_000)
    (small,) = await _queue(asked, ("small", "b", 100))
    # Of the caller that has most waiting one goes for the next.
    (other,) = await _queue(asked, ("other", "b", 100))
    asked.let_go.set()
    *kept, last = await asyncio.gather(*large, return_exceptions=True)
    assert (kept, type(last)) == (["0", "1"], Overloaded)
    assert [await small, await other] == ["small", "other"]
    assert asked.count("rollcall_lane_dropped_total", reason="full") == 2
    await first


async def test_one_body_of_any_size_can_wait() -> None:
    asked = Asked(1000)
    first = await asked.busy()
    (huge,) = await _queue(asked, ("huge", "a", 10_000_000))
    asked.let_go.set()
    assert [await first, await huge] == ["first", "huge"]


async def test_a_full_lane_rejects_the_caller_with_the_most_requests() -> None:
    asked = Asked()
    first = await asked.busy()
    many = await _queue(asked, *((f"{number}", "a", number) for number in range(MAX_WAITING)))
    with pytest.raises(Overloaded, match=f"more than 16 large requests, or {ENOUGH} bytes of them, at once"):
        await asked.ask("one too many", "a", 1 << 30)
    other = asyncio.create_task(asked.ask("other", "b"))
    await turns()
    asked.let_go.set()
    assert await other == "other"
    *kept, last = await asyncio.gather(*many, return_exceptions=True)
    assert isinstance(last, Overloaded)
    assert kept == [f"{number}" for number in range(MAX_WAITING - 1)]
    assert asked.count("rollcall_lane_dropped_total", reason="full") == 2
    await first


async def test_an_exception_reaches_its_caller_and_the_lane_continues() -> None:
    asked = Asked()

    def fails() -> None:
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        await asked.ask("wrong", work=lambda turn: turn.run(fails))
    asked.let_go.set()
    assert await asked.ask("next") == "next"


async def test_memory_is_freed_in_the_thread_before_the_next_call() -> None:
    asked = Asked()
    asked.let_go.set()

    def work(turn: Turn) -> Awaitable[str]:
        turn.clear = lambda: asked.order.append(threading.current_thread().name)
        return asked.work("first")(turn)

    await asked.ask("first", work=work)
    await asked.ask("next")
    first, freed, following = asked.order
    assert (first, following) == ("first", "next")
    assert freed.startswith("rollcall-reviews")


async def test_the_processor_time_of_a_turn_is_that_of_its_thread_since_it_began() -> None:
    asked = Asked()
    asked.let_go.set()
    used: list[float] = []

    def spend(turn: Turn, seconds: float) -> None:
        asked.clock.used += seconds
        used.append(turn.used())

    async def work(turn: Turn) -> None:
        assert turn.used() == 0
        await turn.run(spend, turn, 2)
        await turn.run(spend, turn, 3)

    asked.clock.used = 100
    await asked.ask("first", work=work)
    await asked.ask("next", work=lambda turn: turn.run(spend, turn, 1))
    assert used == [2, 5, 1]

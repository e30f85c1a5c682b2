"""The queue of keys: each once, none twice at a time, and failures later and later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from webhook.reconciler import queue as queues
from webhook.reconciler.queue import KeyQueue


def told(story: Callable[[KeyQueue[str]], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(10):
            await story(KeyQueue())

    asyncio.run(run())


def test_a_key_that_is_added_twice_is_taken_once() -> None:
    async def story(queue: KeyQueue[str]) -> None:
        for key in ("a", "b", "a"):
            queue.add(key)
        assert len(queue) == 2
        assert [await queue.take(), await queue.take()] == ["a", "b"]
        assert len(queue) == 0

    told(story)


def test_a_key_that_changes_while_it_is_worked_on_comes_again_when_that_is_done() -> None:
    async def story(queue: KeyQueue[str]) -> None:
        queue.add("a")
        await queue.take()
        queue.add("a")
        queue.add("a")
        assert len(queue) == 0, "nobody else may take it"
        queue.done("a")
        assert await queue.take() == "a"
        queue.done("a")
        assert len(queue) == 0

    told(story)


def test_a_key_for_later_comes_at_its_time_or_when_something_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(queue: KeyQueue[str]) -> None:
        queue.add_later("a", 0.01)
        assert len(queue) == 1
        assert await queue.take() == "a"
        queue.done("a")
        queue.add_later("a", 60)
        queue.add("a")
        assert await queue.take() == "a"
        queue.done("a")
        assert len(queue) == 0, "the later time is forgotten"

    told(story)


def test_a_key_for_later_that_waits_already_does_not_wait_longer() -> None:
    async def story(queue: KeyQueue[str]) -> None:
        queue.add("a")
        queue.add_later("a", 60)
        assert await queue.take() == "a"

    told(story)


def test_failures_wait_twice_as_long_each_time_up_to_a_limit_and_are_forgotten_by_a_success() -> None:
    async def story(queue: KeyQueue[str]) -> None:
        waits = [queue.failed("a") for _ in range(12)]
        first, most = queues.BACKOFF_SECONDS
        for failures, seconds in enumerate(waits):
            longest = min(most, first * 2**failures)
            assert longest / 2 <= seconds <= longest
        assert queue.failing == 1
        queue.succeeded("a")
        assert queue.failing == 0
        assert queue.failed("a") <= first

    told(story)


def test_who_is_asked_to_wait_waits_at_least_so_long() -> None:
    async def story(queue: KeyQueue[str]) -> None:
        assert queue.failed("a", 30) == 30

    told(story)


def test_while_the_queue_is_held_no_key_is_taken_and_none_is_lost() -> None:
    async def story(queue: KeyQueue[str]) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        queue.hold(0.3)
        queue.hold(0.1)
        for key in ("a", "b", "a"):
            queue.add(key)
        assert len(queue) == 2
        assert [await queue.take(), await queue.take()] == ["a", "b"]
        assert loop.time() - begun >= 0.3

    told(story)

"""The key queue: each key once, never twice at the same time, and growing delays after failures."""

from __future__ import annotations

import asyncio

import pytest

from tests.played import PlayedClock
from webhook.reconciler import queue as queues
from webhook.reconciler.queue import KeyQueue


@pytest.fixture
def queue() -> KeyQueue[str]:
    return KeyQueue(clock=PlayedClock())


async def test_a_key_that_is_added_twice_is_processed_once(queue: KeyQueue[str]) -> None:
    for key in ("a", "b", "a"):
        queue.add(key)
    assert len(queue) == 2
    assert [await queue.take(), await queue.take()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_that_changes_while_it_is_processed_is_processed_again(queue: KeyQueue[str]) -> None:
    queue.add("a")
    await queue.take()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0, "no other worker may take it"
    queue.done("a")
    assert await queue.take() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_a_delayed_key_is_processed_at_its_time_or_at_an_event(queue: KeyQueue[str]) -> None:
    queue.add_later("a", 0.01)
    assert len(queue) == 1
    assert await queue.take() == "a"
    queue.done("a")
    queue.add_later("a", 60)
    queue.add("a")
    assert await queue.take() == "a"
    queue.done("a")
    assert len(queue) == 0, "the later time is forgotten"


async def test_delaying_a_waiting_key_again_does_not_extend_its_wait(queue: KeyQueue[str]) -> None:
    queue.add("a")
    queue.add_later("a", 60)
    assert await queue.take() == "a"


async def test_failures_double_the_delay_up_to_a_limit_and_a_success_resets_it(queue: KeyQueue[str]) -> None:
    waits = [queue.failed("a") for _ in range(12)]
    first, most = queues.BACKOFF_SECONDS
    for failures, seconds in enumerate(waits):
        longest = min(most, first * 2**failures)
        assert longest / 2 <= seconds <= longest
    assert queue.failing == 1
    queue.succeeded("a")
    assert queue.failing == 0
    assert queue.failed("a") <= first


async def test_a_requested_delay_is_the_minimum_delay(queue: KeyQueue[str]) -> None:
    assert queue.failed("a", 30) == 30


async def test_a_paused_queue_hands_out_no_key_and_loses_none(queue: KeyQueue[str]) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    queue.hold(0.3)
    queue.hold(0.1)
    for key in ("a", "b", "a"):
        queue.add(key)
    assert len(queue) == 2
    assert [await queue.take(), await queue.take()] == ["a", "b"]
    assert loop.time() - begun >= 0.3


async def test_a_failed_key_is_retried_at_once_without_its_failures(queue: KeyQueue[str]) -> None:
    for key in ("a", "b"):
        queue.add(key)
        await queue.take()
        queue.done(key)
    for _ in range(queues.TRIES):
        queue.failed("a", 60)
    queue.put_off("b", 60)
    assert queue.stuck == 1
    queue.retry_failed()
    assert (queue.stuck, queue.failing) == (0, 0)
    assert await queue.take() == "a"
    assert queue.failed("a") <= queues.BACKOFF_SECONDS[0], "as after the first failure"
    queue.done("a")
    assert len(queue) == 2, "the other still waits for its time"

"""The key queue: each key once, never twice at the same time, and growing delays after failures."""

from __future__ import annotations

import asyncio

import pytest

from tests.played import PlayedClock
from tests.waiting import turns
from webhook.model.keys import ObjectKey
from webhook.reconciler import work_queue as queues
from webhook.reconciler.work_queue import KeyQueue

A, B = ("team", "a"), ("team", "b")


@pytest.fixture
def queue() -> KeyQueue[ObjectKey]:
    return KeyQueue(8, clock=PlayedClock())


async def test_a_key_that_is_added_twice_is_processed_once(queue: KeyQueue[ObjectKey]) -> None:
    for key in (A, B, A):
        queue.add(key)
    assert len(queue) == 2
    assert [await queue.take(), await queue.take()] == [A, B]
    assert len(queue) == 0


async def test_a_key_that_changes_while_it_is_processed_is_processed_again(queue: KeyQueue[ObjectKey]) -> None:
    queue.add(A)
    await queue.take()
    queue.add(A)
    queue.add(A)
    assert len(queue) == 0, "no other worker may take it"
    queue.done(A)
    assert await queue.take() == A
    queue.done(A)
    assert len(queue) == 0


async def test_a_delayed_key_is_processed_at_its_time_or_at_an_event(queue: KeyQueue[ObjectKey]) -> None:
    queue.add_later(A, 0.01)
    assert len(queue) == 1
    assert await queue.take() == A
    queue.done(A)
    queue.add_later(A, 60)
    queue.add(A)
    assert await queue.take() == A
    queue.done(A)
    assert len(queue) == 0, "the later time is forgotten"


async def test_delaying_a_waiting_key_again_does_not_extend_its_wait(queue: KeyQueue[ObjectKey]) -> None:
    queue.add(A)
    queue.add_later(A, 60)
    assert await queue.take() == A


async def test_failures_double_the_delay_up_to_a_limit_and_a_success_resets_it(queue: KeyQueue[ObjectKey]) -> None:
    waits = [queue.failed(A) for _ in range(12)]
    first, most = queues.BACKOFF_SECONDS
    for failures, seconds in enumerate(waits):
        longest = min(most, first * 2**failures)
        assert longest / 2 <= seconds <= longest
    assert queue.failing == 1
    queue.succeeded(A)
    assert queue.failing == 0
    assert queue.failed(A) <= first


async def test_a_requested_delay_is_the_minimum_delay(queue: KeyQueue[ObjectKey]) -> None:
    assert queue.failed(A, 30) == 30


async def test_a_paused_queue_hands_out_no_key_and_loses_none(queue: KeyQueue[ObjectKey]) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    queue.hold(0.3)
    queue.hold(0.1)
    for key in (A, B, A):
        queue.add(key)
    assert len(queue) == 2
    assert [await queue.take(), await queue.take()] == [A, B]
    assert loop.time() - begun >= 0.3


async def test_a_failed_key_is_retried_at_once_without_its_failures(queue: KeyQueue[ObjectKey]) -> None:
    for key in (A, B):
        queue.add(key)
        await queue.take()
        queue.done(key)
    for _ in range(queues.TRIES):
        queue.failed(A, 60)
    queue.put_off(B, 60)
    assert queue.stuck == 1
    queue.retry_failed()
    assert (queue.stuck, queue.failing) == (0, 0)
    assert await queue.take() == A
    assert queue.failed(A) <= queues.BACKOFF_SECONDS[0], "as after the first failure"
    queue.done(A)
    assert len(queue) == 2, "the other still waits for its time"


async def test_namespaces_take_turns(queue: KeyQueue[ObjectKey]) -> None:
    crowd = [("crowd", str(number)) for number in range(1000)]
    for key in (*crowd, ("team", "late"), ("other", "later")):
        queue.add(key)
    taken = [await queue.take() for _ in range(4)]
    assert taken == [crowd[0], ("team", "late"), ("other", "later"), crowd[1]]


async def test_one_namespace_does_not_get_all_workers(queue: KeyQueue[ObjectKey]) -> None:
    for number in range(1000):
        queue.add(("crowd", str(number)))
    for number in range(6):
        assert await queue.take() == ("crowd", str(number))
    seventh = asyncio.create_task(queue.take())
    await turns()
    queue.add(A)
    assert await seventh == A
    eighth = asyncio.create_task(queue.take())
    await turns()
    queue.done(("crowd", "3"))
    assert await eighth == ("crowd", "6")


async def test_an_only_worker_serves_every_namespace() -> None:
    queue: KeyQueue[ObjectKey] = KeyQueue(1)
    for key in (A, B):
        queue.add(key)
        assert await queue.take() == key
        queue.done(key)


async def test_urgent_keys_come_first_and_others_are_not_forgotten() -> None:
    queue: KeyQueue[ObjectKey] = KeyQueue(100, urgent=lambda key: key[0] == "new")
    for number in range(20):
        queue.add(("stands", str(number)))
        queue.add(("new", str(number)))
    taken = [(await queue.take())[0] for _ in range(40)]
    assert taken[:8] == ["new"] * queues.URGENT_IN_A_ROW + ["stands"]
    assert taken.index("stands", 8) == 15
    assert taken.count("stands") == 20


async def test_a_worker_that_is_cancelled_takes_no_key_with_it(queue: KeyQueue[ObjectKey]) -> None:
    waiting = asyncio.create_task(queue.take())
    await turns()
    queue.add(A)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await queue.take() == A


async def test_keys_wait_since_one_was_last_done_with_or_the_first_of_them_came() -> None:
    clock = PlayedClock()
    queue: KeyQueue[ObjectKey] = KeyQueue(8, clock=clock)
    clock.move(100)
    assert queue.waited() == 0
    for key in (A, B):
        queue.add(key)
    clock.move(10)
    assert queue.waited() == 10
    taken = await queue.take()
    assert queue.waited() == 10, "taken, but not done with"
    queue.failed(taken)
    queue.done(taken)
    assert queue.waited() == 10, "an attempt that failed"
    queue.succeeded(B)
    clock.move(1)
    assert queue.waited() == 1
    queue.hold(60)
    clock.move(50)
    assert queue.waited() == 0, "the API server asked for a pause"
    clock.move(12)
    assert queue.waited() == 2
    queue.put_off(B, 60)
    assert queue.waited() == 0


async def test_a_key_that_fails_is_not_urgent_when_it_is_tried_again() -> None:
    queue: KeyQueue[ObjectKey] = KeyQueue(8, urgent=lambda key: key[0] == "new")
    refused = ("new", "refused")
    queue.add(refused)
    queue.failed(await queue.take())
    queue.done(refused)
    for key in (A, refused, ("new", "other")):
        queue.add(key)
    assert [await queue.take() for _ in range(3)] == [("new", "other"), A, refused]

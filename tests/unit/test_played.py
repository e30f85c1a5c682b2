"""Played time: it moves on at once where nothing else is left to do, and waits for what happens elsewhere."""

from __future__ import annotations

import asyncio
import socket
import threading
from datetime import timedelta
from typing import Any

import pytest

from tests.played import START, PlayedClock, PlayedLoop
from tests.waiting import turns

HOUR = 3600.0


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": PlayedLoop}


async def later(seconds: float, value: str, order: list[str]) -> None:
    reached = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, reached.set_result, None)
    await reached
    order.append(value)


async def test_timers_run_in_their_order_and_take_no_time() -> None:
    order: list[str] = []
    clock = PlayedClock()
    begun = clock.monotonic()
    await asyncio.gather(later(3 * HOUR, "third", order), later(HOUR, "first", order), later(2 * HOUR, "second", order))
    assert order == ["first", "second", "third"]
    assert clock.monotonic() - begun == pytest.approx(3 * HOUR)
    assert clock.now() - START == pytest.approx(timedelta(hours=3), abs=timedelta(seconds=1))


async def test_time_stands_still_while_there_is_work() -> None:
    loop = asyncio.get_running_loop()
    order: list[str] = []
    timer = asyncio.create_task(later(0.001, "timer", order))
    await turns(1000)
    assert (loop.time(), order) == (0.0, [])
    await timer


async def test_another_thread_is_waited_for() -> None:
    loop = asyncio.get_running_loop()
    begin, done = threading.Event(), threading.Event()

    def work() -> str:
        begin.wait()
        done.set()
        return "worked"

    order: list[str] = []
    hour = asyncio.create_task(later(HOUR, "hour", order))
    working = loop.run_in_executor(None, work)
    loop.call_soon(begin.set)
    assert await working == "worked"
    assert order == [], "the hour has not passed"
    await hour


async def test_a_socket_is_waited_for() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    order: list[str] = []
    hour = asyncio.create_task(later(HOUR, "hour", order))
    sender = threading.Thread(target=far.sendall, args=(b"hello",))
    asyncio.get_running_loop().call_soon(sender.start)
    assert await asyncio.get_running_loop().sock_recv(near, 5) == b"hello"
    assert order == [], "the hour has not passed"
    await hour
    sender.join()
    near.close()
    far.close()


def test_a_clock_without_a_loop_moves_only_when_it_is_moved() -> None:
    clock = PlayedClock()
    before = clock.monotonic(), clock.now(), clock.processor()
    assert before == (0.0, START, 0.0)
    clock.move(HOUR)
    clock.used += 2
    assert (clock.monotonic(), clock.now(), clock.processor()) == (HOUR, START + timedelta(hours=1), 2)

"""An audit beside other work: in a thread, with pauses, and cancelled with its caller."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.waiting import LIMIT_SECONDS, turns
from webhook.operations.auditor import run_in_thread


async def test_the_work_runs_in_another_thread_and_its_result_is_returned() -> None:
    async def work() -> int:
        await turns()
        return threading.get_ident()

    assert await run_in_thread(work) != threading.get_ident()


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault"):
        await run_in_thread(work)


async def test_the_callers_loop_goes_on_while_the_work_computes() -> None:
    begun, stop = threading.Event(), threading.Event()

    async def work() -> int:
        count = 0
        begun.set()
        while not stop.is_set():
            count += 1
        return count

    computing = asyncio.create_task(run_in_thread(work))
    await asyncio.to_thread(begun.wait, LIMIT_SECONDS)
    await turns(20)
    assert not computing.done()
    stop.set()
    assert await computing > 0


async def test_the_work_is_cancelled_with_its_caller() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            # Not at once: its caller has to wait for it.
            await turns(100)
            ended.set()

    task = asyncio.create_task(run_in_thread(work))
    await asyncio.to_thread(begun.wait, LIMIT_SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # Not after its caller: what it closes belongs to an event loop that ends with it.
    assert ended.is_set()

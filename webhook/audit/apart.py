"""How an audit runs beside other work: on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


# How long a cancelled caller waits for the work to end.
CLOSE_SECONDS = 2.0


async def apart(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return the result of `work()`, which runs on an event loop in a thread of its own: nothing that it computes holds
    up the caller's loop for longer than Python switches threads. If the caller is cancelled, so is the work.
    """
    found: Future[T] = Future()
    ended: Future[None] = Future()
    loop, tasks = asyncio.new_event_loop(), list[asyncio.Task[T]]()

    async def noted() -> T:
        task = asyncio.current_task()
        if task is not None:
            tasks.append(task)
        if found.cancelled():
            raise asyncio.CancelledError
        try:
            return await work()
        finally:
            # Connections that were closed just now end in the next turn of the loop.
            await asyncio.sleep(0)

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                result = runner.run(noted())
        except BaseException as error:  # noqa: BLE001 - the caller gets it, whatever it is
            if found.set_running_or_notify_cancel():
                found.set_exception(error)
        else:
            if found.set_running_or_notify_cancel():
                found.set_result(result)
        finally:
            ended.set_result(None)

    threading.Thread(target=run, name="audit", daemon=True).start()
    try:
        return await asyncio.wrap_future(found)
    except asyncio.CancelledError:
        for task in tasks:
            # The loop may have ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
        # What it closes is closed before the caller goes on.
        await asyncio.wait([asyncio.wrap_future(ended)], timeout=CLOSE_SECONDS)
        raise

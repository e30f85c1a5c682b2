"""An event loop in a separate thread, for work that must continue while a test waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

# After so long what was asked of it has not ended.
_SECONDS = 30.0


class Background:
    """The loop. `close` cancels what still runs on it."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work` on the loop; this thread waits for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_SECONDS)

    def close(self) -> None:
        """End what runs on it, and then itself."""
        self.call(self._cancel())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)
        self._loop.close()

    async def _cancel(self) -> None:
        for task in self._others():
            task.cancel()
        await asyncio.gather(*self._others(), return_exceptions=True)
        # What a task read from may still be open; closing it may have begun as a task.
        await self._loop.shutdown_asyncgens()
        await asyncio.gather(*self._others(), return_exceptions=True)

    def _others(self) -> list[asyncio.Task[Any]]:
        return [task for task in asyncio.all_tasks(self._loop) if task is not asyncio.current_task(self._loop)]

"""The keys that want attention: each once, none twice at a time, and those that failed later and later.

The semantics of client-go's workqueue, for one event loop.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# After a failure: doubled each time, up to the second, and each time a random part of it.
BACKOFF_SECONDS = (0.2, 60.0)
# A key that failed so often is stuck. The pauses between come to three to six seconds: after four tries, less than one
# second, a busy API server's hiccup was taken for the last word.
TRIES = 6


class KeyQueue(Generic[K]):
    """A queue of keys. Whoever takes one says `done` when it is done with it."""

    def __init__(self) -> None:
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()
        self._running: set[K] = set()
        # Those that changed while they were being worked on.
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        # How often in a row each was put off.
        self._put_off: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        # Until when nobody is given any key.
        self._held = 0.0

    def __len__(self) -> int:
        """How many keys wait, those that wait for their time included."""
        return len(self._waiting) + len(self._timers)

    @property
    def failing(self) -> int:
        """How many keys failed when they were last worked on."""
        return len(self._failures)

    @property
    def stuck(self) -> int:
        """How many keys only time can help: those that failed often, or were put off more than once in a row."""
        failed = sum(times >= TRIES for times in self._failures.values())
        return failed + sum(times > 1 for times in self._put_off.values())

    def add(self, key: K) -> None:
        """`key` wants attention, now."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_later(self, key: K, seconds: float) -> None:
        """`key` wants attention in so many seconds, unless something happens before."""
        if key in self._waiting or key in self._again:
            return
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self.add, key)

    async def take(self) -> K:
        """The next key, when there is one."""
        key = await self._ready.get()
        while (seconds := self._held - time.monotonic()) > 0:
            await asyncio.sleep(seconds)
        self._waiting.discard(key)
        self._running.add(key)
        return key

    def hold(self, seconds: float) -> None:
        """Give nobody a key for so long: whoever asked for that cares not which."""
        self._held = max(self._held, time.monotonic() + seconds)

    def done(self, key: K) -> None:
        """`key` has been worked on; if it changed meanwhile, it comes again."""
        self._running.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def failed(self, key: K, at_least: float = 0.0) -> float:
        """`key` could not be worked on: it comes again after a pause, whose seconds are returned."""
        self._put_off.pop(key, None)
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        first, most = BACKOFF_SECONDS
        longest = min(most, first * 2.0 ** min(failures - 1, 20))
        seconds = max(at_least, longest * (0.5 + random.random() / 2))  # noqa: S311 - spreading load is no secret
        self.add_later(key, seconds)
        return seconds

    def put_off(self, key: K, seconds: float) -> None:
        """`key` waits for somebody else: it comes again after so many seconds, unless something happens before."""
        self._failures.pop(key, None)
        self._put_off[key] = self._put_off.get(key, 0) + 1
        self.add_later(key, seconds)

    def succeeded(self, key: K) -> None:
        """`key` is as it should be: its failures are forgotten."""
        self._failures.pop(key, None)
        self._put_off.pop(key, None)

"""The queue of keys to work on: each key once, never twice in parallel, failed keys after growing pauses.

It has the semantics of client-go's workqueue, for one event loop.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Hashable
from typing import Generic, TypeVar

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster.backoff import doubled, spread

K = TypeVar("K", bound=Hashable)

# Pause after a failure: doubled each time up to the second value. The actual pause is a random part of it.
BACKOFF_SECONDS = (0.2, 60.0)
# A key that failed this often is stuck. The pauses add up to three to six seconds. Four tries (less than one second)
# were too few: a short overload of the API server counted as final.
TRIES = 6


class KeyQueue(Generic[K]):
    """A queue of keys. A worker must call `done` for each key it took."""

    def __init__(self, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._clock = clock
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()
        self._running: set[K] = set()
        # Keys that changed while they were worked on.
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        # How often in a row each key was put off.
        self._put_off: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        # Until when no key is handed out.
        self._held = 0.0

    def __len__(self) -> int:
        """The number of waiting keys, including those waiting for their time."""
        return len(self._waiting) + len(self._timers)

    @property
    def failing(self) -> int:
        """The number of keys whose last attempt failed."""
        return len(self._failures)

    @property
    def stuck(self) -> int:
        """The number of keys that cannot proceed now: they failed often, or were put off more than once in a row."""
        failed = sum(times >= TRIES for times in self._failures.values())
        return failed + sum(times > 1 for times in self._put_off.values())

    def has_turn(self, key: K) -> bool:
        """Whether a worker has `key`, or takes it as soon as it can."""
        return key in self._waiting or key in self._running

    def add(self, key: K) -> None:
        """Queue `key` now."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_later(self, key: K, seconds: float) -> None:
        """Queue `key` after this many seconds, unless a change queues it earlier."""
        if key in self._waiting or key in self._again:
            return
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self.add, key)

    async def take(self) -> K:
        """Wait for the next key and return it."""
        key = await self._ready.get()
        while (seconds := self._held - self._clock.monotonic()) > 0:
            await asyncio.sleep(seconds)
        self._waiting.discard(key)
        self._running.add(key)
        return key

    def hold(self, seconds: float) -> None:
        """Hand out no keys for this many seconds: the API server asked for a pause, regardless of the key."""
        self._held = max(self._held, self._clock.monotonic() + seconds)

    def done(self, key: K) -> None:
        """Mark `key` as worked on; if it changed meanwhile, queue it again."""
        self._running.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def failed(self, key: K, at_least: float = 0.0) -> float:
        """Queue `key` again after a failure; return the seconds of the pause."""
        self._put_off.pop(key, None)
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        longest = doubled(BACKOFF_SECONDS, failures)
        seconds = max(at_least, spread(longest, random.random()))  # noqa: S311 - spreading load is no secret
        self.add_later(key, seconds)
        return seconds

    def retry_failed(self) -> None:
        """Queue every failed key now, as if it had not failed: what it lacked may be known since."""
        failed = list(self._failures)
        self._failures.clear()
        for key in failed:
            self.add(key)

    def put_off(self, key: K, seconds: float) -> None:
        """Queue `key` again after this many seconds, because it waits for another party; a change queues it earlier."""
        self._failures.pop(key, None)
        self._put_off[key] = self._put_off.get(key, 0) + 1
        self.add_later(key, seconds)

    def succeeded(self, key: K) -> None:
        """Reset the failures of `key`."""
        self._failures.pop(key, None)
        self._put_off.pop(key, None)

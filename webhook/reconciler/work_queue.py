"""The queue of keys to work on, and its workers: each key once, never twice in parallel, failed keys after growing
pauses.

It has the semantics of client-go's workqueue, for one event loop, but namespaces take turns: ten thousand gangs of one
namespace delay those of another little.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Generic

from webhook.cluster import spans
from webhook.cluster.clock import MACHINE_CLOCK, Clock, doubled, spread
from webhook.cluster.logs import log, outline
from webhook.errors import FactsUnavailable, NotLeading, RequestFailed
from webhook.model.bounds import share_of
from webhook.reconciler.held_gangs import HeldBackNote, K, Turns, not_noted

# Pause after a failure: doubled each time up to the second value. The actual pause is a random part of it.
BACKOFF_SECONDS = (0.2, 60.0)
# A key that failed this often is stuck. The pauses add up to three to six seconds. Four tries (less than one second)
# were too few: a short overload of the API server counted as final.
TRIES = 6
# After so many urgent keys one that is not urgent is handed out, so that each has its time.
URGENT_IN_A_ROW = 7


class KeyQueue(Generic[K]):
    """A queue of keys. A worker must call `done` for each key it took."""

    def __init__(
        self,
        workers: int,
        *,
        urgent: Callable[[K], bool] = lambda _: False,
        held_back: HeldBackNote = not_noted,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """Of the `workers` one namespace gets three quarters at most. Keys that are `urgent` when added come first."""
        self._clock = clock
        self._urgent = urgent
        self._held_back = held_back
        self._share = share_of(workers)
        self._first: Turns[K] = Turns()
        self._then: Turns[K] = Turns()
        # How many urgent keys were handed out since one that was not.
        self._row = 0
        # Set while a key may be ready to be handed out.
        self._ready = asyncio.Event()
        self._running: set[K] = set()
        # Keys that changed while they were worked on.
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        # How often in a row each key was put off.
        self._put_off: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        # When a key was last done with, or the first of those that wait came; no earlier than the end of a hold.
        self._moved = clock.monotonic()
        # Until when no key is handed out.
        self._held = 0.0

    def __len__(self) -> int:
        """The number of waiting keys, including those waiting for their time."""
        return len(self._first) + len(self._then) + len(self._timers)

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
        """Returns whether a worker has `key`, or takes it as soon as it can."""
        return self._is_waiting(key) or key in self._running

    def waited(self) -> float:
        """Returns for how many seconds keys have waited and none was done with; 0 if none waits."""
        return max(self._clock.monotonic() - self._moved, 0.0) if self._first or self._then else 0.0

    def add(self, key: K) -> None:
        """Queues `key` now."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if key in self._running:
            self._again.add(key)
        elif not self._is_waiting(key):
            if not (self._first or self._then):
                self._moved = self._clock.monotonic()
            # A key that fails again and again must not delay what stands.
            (self._first if key not in self._failures and self._urgent(key) else self._then).put(key)
            self._ready.set()

    def add_later(self, key: K, seconds: float) -> None:
        """Queues `key` after this many seconds, unless a change queues it earlier."""
        if self._is_waiting(key) or key in self._again:
            return
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self.add, key)

    async def take(self) -> K:
        """Waits for the next key and returns it."""
        while True:
            while (seconds := self._held - self._clock.monotonic()) > 0:
                await asyncio.sleep(seconds)
            if (key := self._next()) is not None:
                self._running.add(key)
                return key
            self._ready.clear()
            await self._ready.wait()

    def _is_waiting(self, key: K) -> bool:
        return key in self._first or key in self._then

    def _next(self) -> K | None:
        """Returns the key whose turn it is; None if there is none, or if each is of a namespace that has its share."""
        workers = Counter(key[0] for key in self._running)

        def may(namespace: str) -> bool:
            if workers[namespace] < self._share:
                return True
            self._held_back(namespace)
            return False

        turns = (self._first, self._then) if self._row < URGENT_IN_A_ROW else (self._then, self._first)
        for level in turns:
            if (key := level.take(may)) is not None:
                self._row = self._row + 1 if level is self._first else 0
                return key
        return None

    def hold(self, seconds: float) -> None:
        """Hands out no keys for this many seconds: the API server asked for a pause, regardless of the key."""
        self._held = max(self._held, self._clock.monotonic() + seconds)
        self._moved = max(self._moved, self._held)

    def done(self, key: K) -> None:
        """Marks `key` as worked on; queues it again if it changed meanwhile."""
        self._running.discard(key)
        self._ready.set()
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def failed(self, key: K, at_least: float = 0.0) -> float:
        """Queues `key` again after a failure. Returns the seconds of the pause."""
        self._put_off.pop(key, None)
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        longest = doubled(BACKOFF_SECONDS, failures)
        seconds = max(at_least, spread(longest, random.random()))  # noqa: S311 - spreading load is no secret
        self.add_later(key, seconds)
        return seconds

    def retry_failed(self) -> None:
        """Queues every failed key now, as if it had not failed: what it lacked may be known since."""
        failed = list(self._failures)
        self._failures.clear()
        for key in failed:
            self.add(key)

    def put_off(self, key: K, seconds: float) -> None:
        """Queues `key` again after so many seconds, because it waits for another party, or at a change."""
        self._failures.pop(key, None)
        self._moved = self._clock.monotonic()
        self._put_off[key] = self._put_off.get(key, 0) + 1
        self.add_later(key, seconds)

    def succeeded(self, key: K) -> None:
        """Resets the failures of `key`."""
        self._moved = self._clock.monotonic()
        self._failures.pop(key, None)
        self._put_off.pop(key, None)


# Time for a running write to finish after the process is told to stop.
DRAIN_SECONDS = 5.0


class Workers(Generic[K]):
    """Workers of one queue. `reconcile` returns the seconds after which to check again, None for not before a change.
    `log_fields` names a key in the log. `failed` is called with each error, and `done` after each key.
    """

    def __init__(
        self,
        queue: KeyQueue[K],
        reconcile: Callable[[K], Awaitable[float | None]],
        *,
        log_fields: Callable[[K], dict[str, str]],
        failed: Callable[[Exception], None],
        done: Callable[[], None] = lambda: None,
    ) -> None:
        self._queue = queue
        self._reconcile = reconcile
        self._log_fields = log_fields
        self._failed = failed
        self._done = done
        # How many work on a key now.
        self.busy = 0
        # Why the last unfinished key failed.
        self.why = ""

    async def run(self) -> None:
        """Runs one worker until cancelled."""
        while True:
            key = await self._queue.take()
            self.busy += 1
            try:
                await self._work_on(key)
            finally:
                self.busy -= 1
                self._queue.done(key)
                self._done()

    async def _work_on(self, key: K) -> None:
        try:
            about = {f"rollcall.{what}": value for what, value in self._log_fields(key).items()}
            with spans.span("reconcile", spans.Side.INTERNAL, about):
                # A shutdown does not interrupt a write: half of a gang's objects could start half of the gang.
                again = await _unbroken(self._reconcile(key))
        except NotLeading:
            # A new leader checks everything.
            self._queue.succeeded(key)
        except (RequestFailed, FactsUnavailable) as error:
            wait = getattr(error, "wait", None) or 0.0
            # The API server asked for a pause, so it applies to all keys.
            self._queue.hold(wait)
            seconds = self._queue.failed(key, wait)
            self.why = str(error)
            self._failed(error)
            log.info("not reconciled", **self._log_fields(key), why=outline(error), againIn=round(seconds, 1))
        except Exception as error:  # noqa: BLE001 - a fault of ours with one gang must not stop the others
            seconds = self._queue.failed(key)
            self.why = f"of an internal error, {type(error).__name__}; see the log"
            self._failed(error)
            log.exception("not reconciled", **self._log_fields(key), againIn=round(seconds, 1))
        else:
            if again is None:
                self._queue.succeeded(key)
            else:
                self._queue.put_off(key, again)
                self.why = "it waits for another system"


async def _unbroken(work: Awaitable[Any]) -> Any:
    """Returns the result of `work`, which runs to its end even if the caller is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(Exception):
            async with asyncio.timeout(DRAIN_SECONDS):
                await task
        raise


async def ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels tasks, and waits until they have ended."""
    every = list(tasks)
    for task in every:
        task.cancel()
    await asyncio.gather(*every, return_exceptions=True)

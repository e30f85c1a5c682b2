"""Time that a test plays: an event loop and a clock whose time moves only when nothing else is left to do.

With them a test never waits for time to pass, and its result does not depend on how fast the machine is. What runs in
other threads, and what comes over sockets, is still waited for.
"""

from __future__ import annotations

import asyncio
import re
import selectors
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple

from webhook.cluster.clock import Clock

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
# A thread of a pool may be idle. Its work is known to the event loop that gave it.
_POOLED = re.compile(r"_\d+$")
# The longest wait for another thread or a socket before the timers are looked at again, in real seconds.
_GLANCE_SECONDS = 0.02


class PlayedLoop(asyncio.SelectorEventLoop):
    """An event loop that goes on to its next timer at once when there is nothing else to do."""

    def __init__(self) -> None:
        self._played = 0.0
        self._given = 0
        self._threads = set(threading.enumerate())
        self._selecting = _PlayedSelector(self)
        super().__init__(self._selecting)

    def time(self) -> float:
        """Returns the played time, in seconds."""
        return self._played

    def advance(self, seconds: float) -> None:
        """Moves the time on, as for a process that was frozen."""
        self._played += seconds

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], Result], *args: *Arguments
    ) -> asyncio.Future[Result]:
        """Runs `func` in a thread, and waits for it as long as it takes."""
        future = super().run_in_executor(executor, func, *args)
        self._given += 1
        future.add_done_callback(self._taken)
        return future

    def _taken(self, _: Any) -> None:
        self._given -= 1

    def is_alone(self) -> bool:
        """Returns whether nothing outside of this loop can wake it: no thread and no socket."""
        # One file is the loop's own, with which other threads wake it.
        return self._given == 0 and len(self._selecting.get_map()) <= 1 and not any(map(self._is_at_work, _others()))

    def _is_at_work(self, thread: threading.Thread) -> bool:
        return thread not in self._threads and not _POOLED.search(thread.name)


class _PlayedSelector(selectors.DefaultSelector):
    def __init__(self, loop: PlayedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Asked first: what a thread said before it ended is then among the events.
        is_alone = self._loop.is_alone()
        events = super().select(0)
        if events or timeout is None or timeout <= 0:
            return events if events or timeout is not None else super().select(None)
        if not is_alone:
            waited = min(timeout, _GLANCE_SECONDS)
            events = super().select(waited)
            timeout = 0 if events else waited
        self._loop.advance(timeout)
        return events


def _others() -> list[threading.Thread]:
    current = threading.current_thread()
    return [thread for thread in threading.enumerate() if thread is not current]


class PlayedClock(Clock):
    """A clock that goes with the time of a `PlayedLoop`, or, without a loop, only when it is moved."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._moved = 0.0
        self._jumped = 0.0
        # The last loop that asked. Its time also holds in its threads and after its end.
        self._loop: PlayedLoop | None = None
        self.used = 0.0

    def monotonic(self) -> float:
        """Returns the seconds of the loop and those that were moved."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            if isinstance(loop, PlayedLoop) and loop is not self._loop:
                # The next loop begins at zero, and no clock goes back.
                self._moved += 0.0 if self._loop is None else self._loop.time()
                self._loop = loop
        return self._moved + (0.0 if self._loop is None else self._loop.time())

    def now(self) -> datetime:
        """Returns the date at `monotonic`, and where it has jumped to."""
        return self._start + timedelta(seconds=self.monotonic() + self._jumped)

    def processor(self) -> float:
        """Returns `used`, which a test sets."""
        return self.used

    def jump(self, seconds: float) -> None:
        """Sets the date forward or back, as a person or NTP does. `monotonic` does not notice."""
        self._jumped += seconds

    def move(self, seconds: float) -> None:
        """Moves the clock alone: timers do not notice."""
        self._moved += seconds


async def elapse(seconds: float) -> None:
    """Returns when so much of the played time has passed."""
    assert isinstance(asyncio.get_running_loop(), PlayedLoop), "the test would wait"
    await asyncio.sleep(seconds)


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine on a `PlayedLoop`, and returns its result."""
    with asyncio.Runner(loop_factory=PlayedLoop) as runner:
        return runner.run(coroutine)

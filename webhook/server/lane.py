"""A lane: one thread for work that would block the event loop, one piece of work at a time.

The caller waits for an answer, for its deadline, or until its client has gone, whichever is first. The work calls
`Turn.proceed` often, which raises when the caller no longer waits, so the thread ends soon after. Callers take turns
by address, so a caller that sends many requests delays another by one piece of work. Of one caller, the smaller
request goes first unless the larger has waited long: behind kube-proxy all callers may have the same address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from heapq import heapify, heappop, heappush
from itertools import count
from traceback import clear_frames
from typing import Any, ParamSpec, TypeVar

from starlette.types import Receive

from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.errors import DeadlineExceeded, Overloaded, Stopped
from webhook.server.intake import ClientGone
from webhook.server.metrics import Dropped, LaneMetrics

# Waiting bodies are held in memory, and requests behind so many would mostly not be answered in time.
MAX_WAITING = 16
# A later request goes first if it is smaller by this many bytes for each second that it came later.
_BYTES_A_SECOND = 1 << 20

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Turn:
    """The right to use the thread. `clear`, if set, runs in the thread after the answer."""

    def __init__(self, thread: ThreadPoolExecutor, size: int, caller: str, *, clock: Clock = MACHINE_CLOCK) -> None:
        self.caller = caller
        self.size = size
        self.due = clock.monotonic() + size / _BYTES_A_SECOND
        # True when the turn begins; False if it never will.
        self.begun: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.stopped = False
        self.clear: Callable[[], None] | None = None
        self._thread = thread
        self._clock = clock
        # The processor time of the thread when this turn began to use it.
        self._entered: float | None = None

    def proceed(self) -> None:
        """Returns while a caller waits for the answer. Raises `Stopped` otherwise."""
        if self.stopped:
            raise Stopped("no caller waits for the answer any more")

    async def run(
        self, work: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        """Runs `work` in the thread and returns its result."""
        self.proceed()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: self._enter(work, *args, **kwargs))

    def _enter(self, work: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if self._entered is None:
            self._entered = self._clock.processor()
        return work(*args, **kwargs)

    def used(self) -> float:
        """Returns the seconds of a processor that the thread has used in this turn. Only the thread may ask."""
        return 0.0 if self._entered is None else self._clock.processor() - self._entered


class Lane:
    """The thread and the queue for it. Must be used on the event loop."""

    def __init__(self, name: str, metrics: LaneMetrics, waiting_bytes: int, *, clock: Clock = MACHINE_CLOCK) -> None:
        """Allows at most `waiting_bytes` of waiting bodies, or one of any size."""
        self._thread = ThreadPoolExecutor(1, f"rollcall-{name}")
        self._metrics = metrics
        self._waiting_bytes = waiting_bytes
        self._clock = clock
        self._number = count()
        self._busy = False
        # By caller, in the order of their next turns; for each caller a heap by `due`.
        self._waiting: dict[str, list[tuple[float, int, Turn]]] = {}
        self._held: set[asyncio.Task[None]] = set()
        self._too_many = f"more than {MAX_WAITING} large requests, or {waiting_bytes} bytes of them, at once"
        metrics.waiting.set_function(lambda: sum(map(len, self._waiting.values())))

    async def run(
        self,
        work: Callable[[Turn], Awaitable[Result]],
        *,
        size: int,
        caller: str,
        deadline: float,
        receive: Receive,
        done: Callable[[], None],
    ) -> Result:
        """Runs `work` with its turn and returns its result; `work` awaits `Turn.run`. `size` is the size of the body.
        `deadline` is in seconds of `Clock.monotonic`. `receive` reports that the client has gone. `done` is called when
        the thread has ended, which may be after this returns.

        Raises `Overloaded`, `DeadlineExceeded` and `ClientGone`.
        """
        begun = self._clock.monotonic()
        turn = Turn(self._thread, size, caller, clock=self._clock)
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        holding = asyncio.create_task(self._hold(turn, work, result, done))
        self._held.add(holding)
        holding.add_done_callback(self._held.discard)
        self._enqueue(turn)
        gone = asyncio.create_task(_gone(receive))
        try:
            awaited: set[asyncio.Future[Any]] = {result, gone}
            await asyncio.wait(awaited, timeout=deadline - begun, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                return result.result()
            if gone.done():
                self._metrics.dropped[Dropped.GONE].inc()
                raise ClientGone
            self._metrics.dropped[Dropped.LATE].inc()
            raise DeadlineExceeded(f"not answered within {deadline - begun:.1f} s")
        finally:
            gone.cancel()
            turn.stopped = True
            self._leave(turn)
            # An error refers to this frame and to those of the callers, which hold the body. If this frame referred to
            # the error, all would be kept until the garbage collector runs, although the body is no longer charged.
            del result, awaited

    async def _hold(
        self,
        turn: Turn,
        work: Callable[[Turn], Awaitable[Result]],
        result: asyncio.Future[Result],
        done: Callable[[], None],
    ) -> None:
        """Waits for the turn, runs the work, and passes the turn on."""
        entered = self._clock.monotonic()
        try:
            if await turn.begun:
                self._metrics.waited.observe(self._clock.monotonic() - entered)
                await self._work(turn, work, result)
            else:
                _fail(result, Overloaded(self._too_many))
        finally:
            if turn.begun.done() and not turn.begun.cancelled() and turn.begun.result():
                self._next()
            done()
            # As in `_work`.
            del result

    async def _work(
        self, turn: Turn, work: Callable[[Turn], Awaitable[Result]], result: asyncio.Future[Result]
    ) -> None:
        try:
            value = await work(turn)
        except Exception as error:  # noqa: BLE001 - the caller gets any error
            # The frames refer to decoded values, and the result refers to the frames. This one is still running: it is
            # left out, because it refers to the result.
            trace = error.__traceback__
            clear_frames(trace)
            _fail(result, error.with_traceback(trace and trace.tb_next))
            del trace
        else:
            if not result.done():
                result.set_result(value)
        # On Python 3.13 the frames of the error also refer to their callers: this one, and that of `_hold`.
        del result
        if turn.clear is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, turn.clear)
            # It refers to the turn.
            turn.clear = None

    @property
    def is_awaited(self) -> bool:
        """Whether a request waits for the thread. Any thread may ask."""
        return bool(self._waiting)

    def _enqueue(self, turn: Turn) -> None:
        if not self._busy:
            self._busy = True
            turn.begun.set_result(True)
            return
        while not turn.begun.done() and self._full(turn):
            self._make_room(turn)
        if not turn.begun.done():
            heappush(self._waiting.setdefault(turn.caller, []), (turn.due, next(self._number), turn))

    def _full(self, turn: Turn) -> bool:
        waiting = [entry[2].size for turns in self._waiting.values() for entry in turns]
        return len(waiting) >= MAX_WAITING or (bool(waiting) and sum(waiting) + turn.size > self._waiting_bytes)

    def _make_room(self, turn: Turn) -> None:
        """Refuses the last request of the caller with most waiting; that may be the new request itself."""
        longest = max(self._waiting, key=lambda caller: len(self._waiting[caller]))
        turns = self._waiting.get(turn.caller, [])
        last = max(self._waiting[longest])[2]
        away = turn if len(turns) >= len(self._waiting[longest]) and last.due <= turn.due else last
        self._leave(away)
        self._metrics.dropped[Dropped.FULL].inc()
        away.begun.set_result(False)

    def _next(self) -> None:
        if not self._waiting:
            self._busy = False
            return
        caller = next(iter(self._waiting))
        turns = self._waiting.pop(caller)
        _, _, turn = heappop(turns)
        if turns:
            # The caller goes behind all others.
            self._waiting[caller] = turns
        turn.begun.set_result(True)

    def _leave(self, turn: Turn) -> None:
        """Removes `turn` from the queue."""
        turns = self._waiting.get(turn.caller, [])
        left = [entry for entry in turns if entry[2] is not turn]
        if len(left) == len(turns):
            return
        heapify(left)
        if left:
            self._waiting[turn.caller] = left
        else:
            del self._waiting[turn.caller]
        if not turn.begun.done() and turn.stopped:
            turn.begun.set_result(False)


def _fail(result: asyncio.Future[Result], error: Exception) -> None:
    if not result.done():
        result.set_exception(error)
        # Read here, so that asyncio does not log the exception as never retrieved.
        with suppress(Exception):
            result.exception()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

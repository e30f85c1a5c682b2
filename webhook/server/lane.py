"""A lane: one thread for work that would keep the event loop from everybody else, one piece of work at a time.

Who asks waits for an answer, for its deadline, or until its client has gone, whichever comes first. The thread is told
by `Turn.proceed`, which the work calls often, and ends soon after. Callers take turns by address, so that one that asks
without pause delays another by one piece of work; of one caller the smaller goes first, unless the larger has waited
for long: behind kube-proxy all may have the same address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from heapq import heapify, heappop, heappush
from itertools import count
from time import perf_counter
from traceback import clear_frames
from typing import Any, ParamSpec, TypeVar

from starlette.types import Receive

from webhook.errors import DeadlineExceeded, Overloaded, Stopped
from webhook.server.answers import ClientGone
from webhook.server.lane_metrics import Dropped, LaneMetrics

# Bodies that wait are held in memory, and most of those behind so many would not be answered in time.
MAX_WAITING = 16
# What comes later goes first where it is smaller by so many bytes for each second.
_BYTES_A_SECOND = 1 << 20

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Turn:
    """The right to the thread. `clear`, where it is set, is run there when the answer has been given."""

    def __init__(self, thread: ThreadPoolExecutor, size: int, caller: str) -> None:
        self.caller = caller
        self.size = size
        self.due = perf_counter() + size / _BYTES_A_SECOND
        self.begun = asyncio.get_running_loop().create_future()
        self.stopped = False
        self.clear: Callable[[], None] | None = None
        self._thread = thread

    def proceed(self) -> None:
        """Nothing, while somebody waits for the answer. Raises `Stopped`."""
        if self.stopped:
            raise Stopped("nobody waits for the answer any more")

    async def run(
        self, work: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        """What `work` returns in the thread."""
        self.proceed()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: work(*args, **kwargs))


class Lane:
    """The thread, and those who wait for it. For the event loop alone."""

    def __init__(self, name: str, metrics: LaneMetrics, waiting_bytes: int) -> None:
        """Bodies of `waiting_bytes` may wait, or one of any size."""
        self._thread = ThreadPoolExecutor(1, f"rollcall-{name}")
        self._metrics = metrics
        self._waiting_bytes = waiting_bytes
        self._number = count()
        self._busy = False
        # By caller, in the order in which they are next; of each what is due first.
        self._waiting: dict[str, list[tuple[float, int, Turn]]] = {}
        self._held: set[asyncio.Task[None]] = set()
        self._too_many = f"more than {MAX_WAITING} large requests, or {waiting_bytes} bytes of them, at once"
        metrics.waiting.set_function(self._length)

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
        """What `work` returns, given its turn; it awaits `Turn.run`. `size` is that of the body. `receive` says
        that the client has gone. `done` is called when the thread has ended, which may be after this returns.

        Raises `Overloaded`, `DeadlineExceeded` and `ClientGone`.
        """
        begun = perf_counter()
        turn = Turn(self._thread, size, caller)
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

    async def _hold(
        self,
        turn: Turn,
        work: Callable[[Turn], Awaitable[Result]],
        result: asyncio.Future[Result],
        done: Callable[[], None],
    ) -> None:
        """The whole of a turn, from waiting for it to passing it on."""
        entered = perf_counter()
        try:
            await turn.begun
            self._metrics.waited.observe(perf_counter() - entered)
            await self._work(turn, work, result)
        except (Overloaded, Stopped) as error:
            _fail(result, error)
        finally:
            if turn.begun.done() and not turn.begun.cancelled() and turn.begun.exception() is None:
                self._next()
            done()

    async def _work(
        self, turn: Turn, work: Callable[[Turn], Awaitable[Result]], result: asyncio.Future[Result]
    ) -> None:
        try:
            found = await work(turn)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is for whoever asked
            # Its frames hold what was decoded, and are held by the result.
            clear_frames(error.__traceback__)
            _fail(result, error)
        else:
            if not result.done():
                result.set_result(found)
        if turn.clear is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, turn.clear)

    def _enqueue(self, turn: Turn) -> None:
        if not self._busy:
            self._busy = True
            turn.begun.set_result(None)
            return
        while not turn.begun.done() and self._full(turn):
            self._make_room(turn)
        if not turn.begun.done():
            heappush(self._waiting.setdefault(turn.caller, []), (turn.due, next(self._number), turn))

    def _full(self, turn: Turn) -> bool:
        """Whether one must be turned away before `turn` may wait."""
        waiting = [entry[2].size for turns in self._waiting.values() for entry in turns]
        return len(waiting) >= MAX_WAITING or (bool(waiting) and sum(waiting) + turn.size > self._waiting_bytes)

    def _make_room(self, turn: Turn) -> None:
        """Turn away the last of the caller that has most waiting: the new one, where that is its own."""
        longest = max(self._waiting, key=lambda caller: len(self._waiting[caller]))
        own = self._waiting.get(turn.caller, [])
        last = max(self._waiting[longest])[2]
        away = turn if len(own) >= len(self._waiting[longest]) and last.due <= turn.due else last
        self._leave(away)
        self._metrics.dropped[Dropped.FULL].inc()
        away.begun.set_exception(Overloaded(self._too_many))

    def _next(self) -> None:
        if not self._waiting:
            self._busy = False
            return
        caller = next(iter(self._waiting))
        turns = self._waiting.pop(caller)
        _, _, turn = heappop(turns)
        if turns:
            # Behind all others.
            self._waiting[caller] = turns
        turn.begun.set_result(None)

    def _leave(self, turn: Turn) -> None:
        """Wait no longer."""
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
            turn.begun.set_exception(Stopped("nobody waits for the answer any more"))

    def _length(self) -> int:
        return sum(map(len, self._waiting.values()))


def _fail(result: asyncio.Future[Result], error: Exception) -> None:
    """Hand an error to whoever asked; where nobody does any more there is nobody to tell."""
    if not result.done():
        result.set_exception(error)
        # Asked for here, so that it does not count as one that was overlooked.
        with suppress(Exception):
            result.exception()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

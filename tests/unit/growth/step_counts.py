"""The cost of some work without a clock: how often each line of Python runs, and how much memory is allocated.

So a test sees how work grows with its size, and says the same on every machine.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

import webhook

Result = TypeVar("Result")
_OURS = str(Path(webhook.__file__).parent)
# By how much more than the object the cost of a line may grow: n log n, with room. Where an object becomes four times
# as large, that is nearly 2, and n² is 4.
_ROOM = 2.2
# What a line may do for each item before its growth counts: a few items may be sorted already, and more of them not.
_FREE_RUNS = 8
_FREE_BYTES = 256
# By how much work is enlarged.
TIMES = 4
# What a look at the memory takes itself, at most.
_LOOK = 256

Line = tuple[CodeType, int]
Trace = Callable[[FrameType, str, Any], Any]


class Cost:
    """How often each line of ours ran, and, where `memory` is counted, how many bytes were taken there, kept or not.

    Python code that a line calls elsewhere is counted at that line, by calls. So a loop in C over what Python compares
    is seen, and by its memory one that copies.
    """

    def __init__(self, work: Callable[[], object] | None = None, *, memory: bool = False) -> None:
        # By the identity of the code: the hash of a code object is that of all its constants, and is not kept.
        self._codes: dict[int, CodeType] = {}
        self._ours: dict[int, bool] = {}
        self._runs: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._bytes: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._memory = memory
        self._counting = self._counted_memory if memory else self._counted_run
        # The line that runs, and what memory was held when it began.
        self._last: tuple[int, int] | None = None
        self._held = 0
        self.runs: Counter[Line] = Counter()
        self.bytes: Counter[Line] = Counter()
        if work is not None:
            self.add(work)

    def add(self, work: Callable[[], Result]) -> Result:
        """Does this work too, counts it, and returns its result."""
        before, collects = sys.gettrace(), gc.isenabled()
        # A collection may end what other tests left, whose lines and memory would be counted here.
        gc.disable()
        if self._memory:
            tracemalloc.start()
        sys.settrace(self._called_with_memory if self._memory else self._called)
        try:
            return work()
        finally:
            sys.settrace(before)
            if self._memory:
                tracemalloc.stop()
            if collects:
                gc.enable()
            self.runs, self.bytes = self._by_line(self._runs), self._by_line(self._bytes)

    def _by_line(self, counted: Mapping[tuple[int, int], int]) -> Counter[Line]:
        return Counter({(self._codes[code], number): count for (code, number), count in counted.items()})

    def _called(self, frame: FrameType, event: str, _: Any) -> Trace | None:
        return self._counting(frame, event, None) if self._noted(frame) else None

    def _called_with_memory(self, frame: FrameType, event: str, _: Any) -> Trace | None:
        peak, known = tracemalloc.get_traced_memory()[1], len(self._runs) + len(self._codes)
        ours = self._noted(frame)
        if len(self._runs) + len(self._codes) > known:
            # What is kept here takes kilobytes whenever a table grows, which are not those of the line that runs.
            self._take(peak - _LOOK)
            self._hold()
        return self._counting(frame, event, None) if ours else None

    def _noted(self, frame: FrameType) -> bool:
        """Whether a call is one of our code. Any other is counted at the line that makes it."""
        code = frame.f_code
        ours = self._ours.get(id(code))
        if ours is None:
            ours = self._ours[id(code)] = code.co_filename.startswith(_OURS)
            # Kept, so that no other code gets its identity.
            self._codes[id(code)] = code
        caller = frame.f_back
        if not ours and caller is not None:
            self._codes.setdefault(id(caller.f_code), caller.f_code)
            self._runs[id(caller.f_code), caller.f_lineno] += 1
        return ours

    def _counted_run(self, frame: FrameType, _: str, __: Any) -> Trace:
        self._runs[id(frame.f_code), frame.f_lineno] += 1
        return self._counted_run

    def _counted_memory(self, frame: FrameType, _: str, __: Any) -> Trace:
        self._take(tracemalloc.get_traced_memory()[1])
        self._last = (id(frame.f_code), frame.f_lineno)
        self._runs[self._last] += 1
        self._hold()
        return self._counted_memory

    def _take(self, peak: int) -> None:
        """Count what was taken since the line began."""
        if self._last is not None and peak > self._held:
            self._bytes[self._last] += peak - self._held

    def _hold(self) -> None:
        """Begin to count. What is kept here takes memory as well."""
        self._held = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()


def grows_too_fast(small: Cost, large: Cost, items: int, times: float) -> Iterator[str]:
    """The lines that cost more than n log n, where `large` is the cost of an object `times` as large as that of `small`
    with its `items`.
    """
    bound = times * _ROOM
    for line, runs in large.runs.items():
        if runs > bound * max(small.runs[line], items * _FREE_RUNS):
            yield f"{_place(line)} runs {runs} times, and {small.runs[line]} times for the smaller object"
    for line, taken in large.bytes.items():
        if taken > bound * max(small.bytes[line], items * _FREE_BYTES):
            yield f"{_place(line)} takes {taken} bytes, and {small.bytes[line]} for the smaller object"


def growing(work: Callable[[int], object], size: int, *, memory: bool = False) -> list[str]:
    """Returns the lines that cost more than n log n, from what they cost for `size` and for four times as much."""
    work(size)  # values that are computed once and cached do not count
    small, large = (Cost(partial(work, count), memory=memory) for count in (size, size * TIMES))
    return list(grows_too_fast(small, large, size, TIMES))


def _place(line: Line) -> str:
    code, number = line
    return f"{code.co_filename.removeprefix(_OURS)}:{number} ({code.co_name})"

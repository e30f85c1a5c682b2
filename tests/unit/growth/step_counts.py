"""The cost of some work without a clock: how often each line of Python runs, and how much memory is allocated."""

from __future__ import annotations

import sys
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import webhook

_OURS = str(Path(webhook.__file__).parent)
# By how much more than the object the cost of a line may grow: n log n, with room. Where an object becomes four times
# as large, that is nearly 2, and n² is 4.
_ROOM = 2.2
# What a line may do for each item before its growth counts: a few items may be sorted already, and more of them not.
_FREE_RUNS = 8
_FREE_BYTES = 256

Line = tuple[CodeType, int]
Trace = Callable[[FrameType, str, Any], Any]


class Cost:
    """How often each line of ours ran, and, where `memory` is counted, how many bytes were taken there, kept or not.

    Python code that a line calls elsewhere is counted at that line, by calls. So a loop in C over what Python compares
    is seen, and by its memory one that copies.
    """

    def __init__(self, work: Callable[[], object], *, memory: bool) -> None:
        # By the identity of the code: the hash of a code object is that of all its constants, and is not kept.
        self._codes: dict[int, CodeType] = {}
        self._ours: dict[int, bool] = {}
        self._runs: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._bytes: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._counting = self._counting_memory() if memory else self._counting_runs()
        before = sys.gettrace()
        if memory:
            tracemalloc.start()
        sys.settrace(self._called)
        try:
            work()
        finally:
            sys.settrace(before)
            tracemalloc.stop()
        self.runs: Counter[Line] = self._by_line(self._runs)
        self.bytes: Counter[Line] = self._by_line(self._bytes)

    def _by_line(self, counted: Mapping[tuple[int, int], int]) -> Counter[Line]:
        return Counter({(self._codes[code], number): count for (code, number), count in counted.items()})

    def _called(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        ours = self._ours.get(id(code))
        if ours is None:
            ours = self._ours[id(code)] = code.co_filename.startswith(_OURS)
            # Kept, so that no other code gets its identity.
            self._codes[id(code)] = code
        if ours:
            return self._counting(frame, event, None)
        caller = frame.f_back
        if caller is not None:
            self._codes.setdefault(id(caller.f_code), caller.f_code)
            self._runs[id(caller.f_code), caller.f_lineno] += 1
        return None

    def _counting_runs(self) -> Trace:
        runs = self._runs

        def ran(frame: FrameType, _: str, __: Any) -> Trace:
            runs[id(frame.f_code), frame.f_lineno] += 1
            return ran

        return ran

    def _counting_memory(self) -> Trace:
        runs, taken = self._runs, self._bytes
        traced, forget = tracemalloc.get_traced_memory, tracemalloc.reset_peak
        last: tuple[int, int] | None = None
        held = 0

        def ran(frame: FrameType, _: str, __: Any) -> Trace:
            nonlocal last, held
            peak = traced()[1]
            if last is not None and peak > held:
                taken[last] += peak - held
            last = (id(frame.f_code), frame.f_lineno)
            runs[last] += 1
            # What is counted takes memory as well.
            held = traced()[0]
            forget()
            return ran

        return ran


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


def _place(line: Line) -> str:
    code, number = line
    return f"{code.co_filename.removeprefix(_OURS)}:{number} ({code.co_name})"

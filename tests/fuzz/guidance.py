"""The code of `webhook` that a call reaches: the guidance of the fuzzer.

Python 3.12 tells of lines and branches through `sys.monitoring`, and is asked to stop telling of what is known: what
has been seen costs nothing, so the code runs at its full speed. Python 3.11 has only `sys.settrace`, many times slower.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Protocol

import webhook

_FOLDER = str(Path(webhook.__file__).parent)
# A branch that went the same way so often is asked about no more until the next `again`: most never go the other.
_PATIENCE = 500

# A line of a piece of code, or a branch and where it went.
Place = tuple[str, str, int, int]


class Guide(Protocol):
    """Who watches. `seen` are the places reached so far."""

    seen: set[Place]

    def start(self) -> None:
        """Begin to watch."""

    def stop(self) -> None:
        """Watch no more."""

    def again(self) -> None:
        """Tell of everything again, also of what is known."""


def guide() -> Guide:
    """The best that this Python has."""
    return Monitoring() if sys.version_info >= (3, 12) else Tracing()


def _place(code: CodeType, at: int, to: int) -> Place:
    return (code.co_filename[len(_FOLDER) + 1 :], code.co_qualname, at, to)


class Monitoring:
    """By `sys.monitoring`."""

    def __init__(self) -> None:
        self.seen: set[Place] = set()
        self._monitoring: Any = getattr(sys, "monitoring")  # noqa: B009 - unknown to the type checker of 3.11
        self._tool: int = self._monitoring.COVERAGE_ID
        # Of each branch: where it went, and how often that is known.
        self._branches: dict[tuple[CodeType, int], list[Any]] = {}

    def start(self) -> None:
        """Begin to watch."""
        events = self._monitoring.events
        while self._monitoring.get_tool(self._tool) is not None:
            # Coverage is being measured.
            self._tool += 1
        self._monitoring.use_tool_id(self._tool, "rollcall fuzz")
        self._monitoring.register_callback(self._tool, events.LINE, self._line)
        self._monitoring.register_callback(self._tool, events.BRANCH, self._branch)
        self._monitoring.set_events(self._tool, events.LINE | events.BRANCH)

    def stop(self) -> None:
        """Watch no more."""
        self._monitoring.set_events(self._tool, 0)
        self._monitoring.free_tool_id(self._tool)

    def again(self) -> None:
        """Tell of everything again."""
        self._branches.clear()
        self._monitoring.restart_events()

    def _line(self, code: CodeType, line: int) -> Any:
        if code.co_filename.startswith(_FOLDER):
            self.seen.add(_place(code, line, 0))
        return self._monitoring.DISABLE

    def _branch(self, code: CodeType, offset: int, to: int) -> Any:
        if not code.co_filename.startswith(_FOLDER):
            return self._monitoring.DISABLE
        known = self._branches.get((code, offset))
        if known is None:
            self._branches[code, offset] = [to, 1]
            self.seen.add(_place(code, -1 - offset, to))
            return None
        if known[0] == to:
            known[1] += 1
            return self._monitoring.DISABLE if known[1] > _PATIENCE else None
        self.seen.add(_place(code, -1 - offset, to))
        return self._monitoring.DISABLE


class Tracing:
    """By `sys.settrace`: lines only, and of the thread that starts it."""

    def __init__(self) -> None:
        self.seen: set[Place] = set()
        self._left: dict[CodeType, set[int]] = {}
        self._before: Any = None

    def start(self) -> None:
        """Begin to watch."""
        self._before = sys.gettrace()
        sys.settrace(self._call)

    def stop(self) -> None:
        """Watch no more."""
        sys.settrace(self._before)

    def again(self) -> None:
        """Tell of everything again."""
        self._left.clear()

    def _call(self, frame: FrameType, _: str, __: object) -> Any:
        code = frame.f_code
        left = self._left.get(code)
        if left is None:
            ours = code.co_filename.startswith(_FOLDER)
            left = {line for *_, line in code.co_lines() if line is not None} if ours else set()
            self._left[code] = left
        if not left:
            return None

        def local(frame: FrameType, event: str, _: object) -> Any:
            if event == "line" and frame.f_lineno in left:
                left.discard(frame.f_lineno)
                self.seen.add(_place(code, frame.f_lineno, 0))
            return local

        return local

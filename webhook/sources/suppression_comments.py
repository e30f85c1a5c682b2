"""Find suppressions in the comments of a YAML text (`# rollcall:ignore RULE: reason`).

At the end of a line a comment is about that line. On a line of its own it is about the next line that is not a comment.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import Any

import yaml

from webhook.offline.suppression import COMMENT, Directive, directive

_Loader: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_COMMENT = re.compile(rf"(?:^|(?<=\s))#\s*{COMMENT}\s+(.*)$", re.MULTILINE)
_PASSED = re.compile(r"\s*(?:#.*)?\Z")


def suppressions_in(text: str) -> tuple[Directive, ...]:
    """Return the suppressions in the comments of a text. A text that is not YAML has none."""
    if COMMENT not in text:
        return ()
    try:
        spans = _scalars(text)
    except yaml.YAMLError:
        return ()
    lines, found = _CommentedLines(text), []
    for match in _COMMENT.finditer(text):
        index = bisect_right(spans, (match.start(), len(text)))
        # Within a text between quotes, or a block such as a script, this is no comment.
        if index and spans[index - 1][1] > match.start():
            continue
        written = directive(match[1].rstrip("\r"), lines.about(match.start()))
        if written is not None:
            found.append(written)
    return tuple(found)


def _scalars(text: str) -> list[tuple[int, int]]:
    """Return start and end of each value in quotes or in a block."""
    return [
        (event.start_mark.index, event.end_mark.index)
        for event in yaml.parse(text, Loader=_Loader)
        if isinstance(event, yaml.ScalarEvent) and event.style is not None
    ]


class _CommentedLines:
    """The lines of a text, to find the line that a comment is about. A text may have very many comments."""

    def __init__(self, text: str) -> None:
        self._text = text
        lines = text.split("\n")
        self._starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        # Of each line, the first line from there on with something besides a comment; none stands for the one behind.
        self._next = [*range(len(lines)), -1]
        for number in range(len(lines) - 1, -1, -1):
            if _PASSED.match(lines[number]):
                self._next[number] = self._next[number + 1]
        # Comments above the first `---` are about what is behind it.
        self._first = first = self._next[0]
        while first >= 0 and lines[first].startswith("---"):
            first = self._next[first + 1]
        self._after_first = first

    def about(self, start: int) -> int:
        """Return the line that the comment at `start` is about, from 1."""
        own = bisect_right(self._starts, start) - 1
        if self._text[self._starts[own] : start].strip():
            return own + 1
        found = self._after_first if own < self._first or self._first < 0 else self._next[own]
        return (own if found < 0 else found) + 1

"""Find suppressions in the comments of a YAML text (`# rollcall:ignore RULE: reason`).

At the end of a line a comment is about that line. On a line of its own it is about the next line that is not a comment.
"""

from __future__ import annotations

import re
from bisect import bisect_right
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
    lines, found = text.split("\n"), []
    for match in _COMMENT.finditer(text):
        index = bisect_right(spans, (match.start(), len(text)))
        # Within a text between quotes, or a block such as a script, this is no comment.
        if index and spans[index - 1][1] > match.start():
            continue
        written = directive(match[1].rstrip("\r"), _line(text, match.start(), lines))
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


def _line(text: str, start: int, lines: list[str]) -> int:
    """Return the line that a comment is about, from 1."""
    own = text.count("\n", 0, start)
    if text[text.rfind("\n", 0, start) + 1 : start].strip():
        return own + 1
    before = all(_PASSED.match(line) for line in lines[:own])
    for number in range(own + 1, len(lines)):
        opens = before and lines[number].startswith("---")
        if not opens and not _PASSED.match(lines[number]):
            return number + 1
    return own + 1

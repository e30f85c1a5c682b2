"""Positions of the fields of a document in its text: a tree of indexes, and the conversion of a path to line and
column.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, TypeVar, cast

from webhook.model.fields import FieldPath, Item

_T = TypeVar("_T")


class Root(NamedTuple):
    """The index at which a value begins (or its key, for a value of a mapping), and the positions below it."""

    start: int
    places: Places


# By key for a mapping, in order for a list, None for a scalar.
Places = dict[str, Root] | list[Root] | None


class Lines:
    """The lines of a text, as editors count them. The text is split once, and only when a position is needed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._found: dict[object, object] = {}
        self._last: dict[object, tuple[int, object]] = {}

    def cached(self, read: Callable[[str], _T]) -> _T:
        """Return what a function reads from the text. It is read once for all documents of a file."""
        if read not in self._found:
            self._found[read] = read(self.text)
        return cast("_T", self._found[read])

    def last_cached(self, read: Callable[[str, int], _T], start: int) -> _T:
        """Return what a function reads from the document at `start`. It is read once for all objects of a list, and
        kept until another document is read, or `forget` is called.
        """
        if self._last.get(read, (-1,))[0] != start:
            self._last[read] = start, read(self.text, start)
        return cast("_T", self._last[read][1])

    def forget(self) -> None:
        """Drop what `last_cached` keeps, which is larger than the text."""
        self._last.clear()

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def place_of(self, index: int) -> tuple[int, int]:
        """Return line and column of an index, from 1."""
        line = bisect_right(self._starts, index)
        return line, index - self._starts[line - 1] + 1


def find(root: Root, path: FieldPath) -> int:
    """Return the index of the key or list item at `path`, or of its nearest parent if it does not exist."""
    for part in path.parts:
        below = root.places
        if isinstance(part, Item) and isinstance(below, list) and 0 <= part.index < len(below):
            root = below[part.index]
        elif isinstance(part, str) and isinstance(below, dict) and part in below:
            root = below[part]
        else:
            break
    return root.start

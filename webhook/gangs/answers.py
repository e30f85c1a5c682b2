"""Answers about shapes of gangs, kept until what they depend on changes.

An answer costs some milliseconds, and a thousand gangs may wait. So each shape is judged once, and again only after a
change. A look judges few shapes; the others keep the answer that they have until the next look.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from webhook.model.fair_memory import FairMemory

# Answers that are kept: of the shapes that were asked for last.
MEMORY = 2048

A = TypeVar("A")


class Answers(Generic[A]):
    """Answers by shape. `shapes_a_look` is how many shapes are judged between two calls of `look`."""

    def __init__(self, shapes_a_look: int) -> None:
        self._revision = 0
        self._most = self._left = shapes_a_look
        self._known: FairMemory[Hashable, tuple[int, A]] = FairMemory(MEMORY)
        self._behind = False

    def changed(self) -> None:
        """Judge every shape again when it is asked for."""
        self._revision += 1

    def look(self, times: int = 1) -> None:
        """Begin a look: as many shapes as `times` looks allow may be judged again."""
        self._left = self._most * times

    @property
    def has_left(self) -> bool:
        """Whether this look may judge another shape."""
        return self._left > 0

    def take_behind(self) -> bool:
        """Whether a shape was not judged since the last call, because this look had judged enough."""
        behind, self._behind = self._behind, False
        return behind

    def of(self, namespace: str, key: Hashable, judged: Callable[[], A]) -> A | None:
        """The answer for a shape in a namespace; an old one, or None, if this look has judged enough shapes."""
        known = self._known.get(key)
        if known is not None and known[0] == self._revision:
            return known[1]
        if not self._left:
            self._behind = True
            return None if known is None else known[1]
        self._left -= 1
        found = judged()
        self._known.put(namespace, key, (self._revision, found))
        return found

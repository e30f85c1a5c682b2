"""Bins: the nodes that first fit fills, equal ones together, and what is placed so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from webhook.fit.placement import Spot


class Bin(NamedTuple):
    """Equal nodes of a class: from number `start` on, what is free on each of them, and the pods that each has."""

    start: int
    number: int
    free: tuple[int, ...]
    taken: tuple[int, ...]


class State:
    """What is placed so far. One that begins `before` another one changes that only when it is `kept`."""

    def __init__(self, before: State | None = None) -> None:
        self.before = before
        self.bins: dict[int, tuple[Bin, ...]] = {}
        self.cells: dict[tuple[int, str], tuple[int, ...]] = {}
        self.spots: list[Spot] = []

    def bins_of(self, index: int) -> tuple[Bin, ...] | None:
        """Return the nodes of a class, or None if none of them has pods."""
        found = self.bins.get(index)
        return self.before.bins_of(index) if found is None and self.before is not None else found

    def pods_in(self, key: int, cell: str) -> tuple[int, ...] | None:
        """Return the pods by kind in a value of a conflict key, or None if there are none."""
        found = self.cells.get((key, cell))
        return self.before.pods_in(key, cell) if found is None and self.before is not None else found

    def kept(self) -> State:
        """Return the state that this one began with, with what was placed since."""
        assert self.before is not None  # noqa: S101 - the first state is never an attempt
        self.before.bins.update(self.bins)
        self.before.cells.update(self.cells)
        self.before.spots += self.spots
        return self.before


def cut(bins: Sequence[Bin], ordinal: int) -> tuple[Bin, ...]:
    """Return the bins with the node of that number in a bin of its own."""
    found: list[Bin] = []
    for one in bins:
        if one.start <= ordinal < one.start + one.number:
            for start, end in ((one.start, ordinal), (ordinal, ordinal + 1), (ordinal + 1, one.start + one.number)):
                if end > start:
                    found.append(one._replace(start=start, number=end - start))
        else:
            found.append(one)
    return tuple(found)

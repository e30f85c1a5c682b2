"""Cycles among things that each name a parent. Groups in a cycle have no root.

The request that closes a cycle is refused if the rest of the cycle is known. Requests at the same instant do not see
each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

K = TypeVar("K", bound=tuple[Any, ...])


def circles(starts: Iterable[K], above: Callable[[K], K | None]) -> list[tuple[K, ...]]:
    """The cycles that the ways up from `starts` end in: each once, in the order of the way, beginning with the smallest
    key.

    Each key is visited once, so the cost is the number of ancestors of the starts.
    """
    # By key: the number of the way that visited it first. A way that meets itself is a cycle.
    met: dict[K, int] = {}
    found = []
    for number, start in enumerate(starts):
        way: list[K] = []
        key: K | None = start
        while key is not None and key not in met:
            met[key] = number
            way.append(key)
            key = above(key)
        if key is not None and met[key] == number:
            around = way[way.index(key) :]
            first = around.index(min(around))
            found.append((*around[first:], *around[:first]))
    return found

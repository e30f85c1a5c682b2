"""Circles among things of which each names one above it, pure: groups that are above each other have no root.

Whoever closes a circle is refused where the rest of it is known. Of what comes in the same instant nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

K = TypeVar("K", bound=tuple[Any, ...])


def circles(starts: Iterable[K], above: Callable[[K], K | None]) -> list[tuple[K, ...]]:
    """The circles that the ways up from `starts` end in: each once, in the order of the way, from its least key.

    What one way has met no other goes again, so all of it costs what lies above the starts, and nothing beside it.
    """
    # By key the number of the way that met it first: a way that meets itself goes around.
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

"""Patterns: which pods can be on one node together. A pattern is the number of pods of each kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from webhook.fit.budget import Budget
from webhook.fit.ground import Ground

Pattern = tuple[int, ...]


def patterns_on(shape: int, most: Sequence[int], ground: Ground, budget: Budget) -> list[Pattern]:
    """Return the patterns of an empty node of a shape that no further pod fits into, with at most so many of each kind.

    Every way to fill such a node is one of them or a part of one.
    """
    found: list[Pattern] = []
    filling = _Filling(shape, most, ground, budget)
    for pattern in filling.patterns(0, ground.shapes[shape].capacity):
        budget.spend(1 + len(found) // 4)
        if not any(_covers(known, pattern) for known in found):
            found = [known for known in found if not _covers(pattern, known)]
            found.append(pattern)
    return found


def _covers(large: Pattern, small: Pattern) -> bool:
    return all(one >= other for one, other in zip(large, small, strict=True))


class _Filling:
    """Fills a node with pods of one kind after the other."""

    def __init__(self, shape: int, most: Sequence[int], ground: Ground, budget: Budget) -> None:
        self.budget = budget
        self.requests = ground.requests
        self.conflicts = ground.node_conflicts[shape]
        self.most = [min(limit, floor) for limit, floor in zip(most, ground.floors[shape], strict=True)]
        self.kinds = [kind for kind, limit in enumerate(self.most) if limit]
        self.taken = [0] * ground.kinds

    def patterns(self, index: int, free: Sequence[int]) -> Iterator[Pattern]:
        """Every number of pods of the kinds from an index on; of the last one as many as fit, as fewer are a part."""
        if index == len(self.kinds):
            yield tuple(self.taken)
            return
        kind = self.kinds[index]
        self.budget.spend(2 + len(free) // 2)
        fits = self._fits(kind, free)
        least = fits if index == len(self.kinds) - 1 else 0
        for pods in range(fits, least - 1, -1):
            self.taken[kind] = pods
            left = [have - wanted * pods for have, wanted in zip(free, self.requests[kind], strict=True)]
            yield from self.patterns(index + 1, left)
        self.taken[kind] = 0

    def _fits(self, kind: int, free: Sequence[int]) -> int:
        row = self.conflicts[kind] & ~(1 << kind)
        if row and any(self.taken[other] for other in self.kinds if row >> other & 1):
            return 0
        fits = self.most[kind]
        for have, wanted in zip(free, self.requests[kind], strict=True):
            if wanted:
                fits = min(fits, have // wanted)
        return fits

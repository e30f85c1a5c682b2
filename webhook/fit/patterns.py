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
    kinds = [kind for kind in range(ground.kinds) if most[kind] and ground.floors[shape][kind]]
    if not kinds:
        return [(0,) * ground.kinds]
    taken = [0] * ground.kinds
    for pattern in _filled(shape, kinds, 0, list(ground.shapes[shape].capacity), taken, most, ground, budget):
        budget.spend(1 + len(found) // 4)
        if not any(all(one >= other for one, other in zip(known, pattern, strict=True)) for known in found):
            found = [known for known in found if not _covers(pattern, known)]
            found.append(pattern)
    return found


def _covers(large: Pattern, small: Pattern) -> bool:
    return all(one >= other for one, other in zip(large, small, strict=True))


def _filled(
    shape: int,
    kinds: Sequence[int],
    index: int,
    free: list[int],
    taken: list[int],
    most: Sequence[int],
    ground: Ground,
    budget: Budget,
) -> Iterator[Pattern]:
    kind = kinds[index]
    request = ground.requests[kind]
    budget.spend(2 + len(request) // 2)
    fits = min(ground.floors[shape][kind], most[kind])
    if any(taken[other] for other in kinds if ground.node_conflicts[shape][kind] >> other & 1 and other != kind):
        fits = 0
    for have, wanted in zip(free, request, strict=True):
        if wanted:
            fits = min(fits, have // wanted)
    last = index == len(kinds) - 1
    # The last kind takes all that fit: fewer are a part of that.
    for pods in range(fits, fits - 1 if last else -1, -1):
        taken[kind] = pods
        if last:
            yield tuple(taken)
        else:
            left = [have - wanted * pods for have, wanted in zip(free, request, strict=True)]
            yield from _filled(shape, kinds, index + 1, left, taken, most, ground, budget)
    taken[kind] = 0

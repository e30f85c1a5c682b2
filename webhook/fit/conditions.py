"""Conditions that the nodes of an area must meet to take the pods of a part, whatever is placed where.

Each is a sum of integers: so much is needed at least, so much the nodes can give at most. The numbers C1 to C4b are
those of docs/explanation/fit.md, which has the proofs. Required domains inside of the area are not looked at here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import gcd

from webhook.fit.budget import Budget
from webhook.fit.ground import Area, Ground
from webhook.fit.parts import Part, least
from webhook.fit.refusal import Refusal
from webhook.fit.room import OWN_VALUE

# Up to so many kinds all subsets are looked at.
_ALL_SUBSETS = 8
# The sums that pods can reach on a node are worked out up to so many units of the resource.
_MOST_UNITS = 4096


def simply_refused(part: Part, area: Area, ground: Ground, budget: Budget) -> Refusal | None:
    """C1 to C3: each kind by itself, and each resource in all."""
    budget.spend(2 + (ground.kinds + len(ground.resources)) // 2)
    floors = ground.floors_in(area)
    totals = ground.totals_in(area)
    if part.vector is None:
        return _choice_refused(part, area, ground, budget)
    for kind, pods in enumerate(part.vector):
        if pods > floors[kind]:
            return Refusal("C2" if floors[kind] else "C1", part, area, (kind,), None, pods, floors[kind])
    for k, needed in enumerate(part.sums):
        if needed > totals[k]:
            return Refusal("C3", part, area, kinds_of(part.vector), k, needed, totals[k])
    return None


def refused_by_subsets(part: Part, area: Area, ground: Ground, budget: Budget) -> Refusal | None:
    """C4 and C4b: each set of kinds on the nodes that it can use, with the sums that its pods can reach on a node.

    Then the kinds of which only one pod can be in each value of a label.
    """
    kinds = tuple(kind for kind in range(ground.kinds) if part.vector is None or part.vector[kind])
    floors = ground.floors_in(area)
    for k in range(-1, len(ground.resources)):
        weights = [1 if k < 0 else request[k] for request in ground.requests]
        asked = None if part.vector is None else [pods * one for pods, one in zip(part.vector, weights, strict=True)]
        # One kind by itself can use so much, so all of them can, too.
        alone = [floor * one for floor, one in zip(floors, weights, strict=True)]
        for subset in _subsets(kinds):
            budget.spend(2 if asked else 8)
            needed = (
                sum([asked[kind] for kind in subset])
                if asked
                else least(part, [one if kind in subset else 0 for kind, one in enumerate(weights)])
            )
            if needed <= max([alone[kind] for kind in subset]):
                continue
            usable = usable_by(sum(1 << kind for kind in subset), k, ground, budget)
            budget.spend(1 + len(area.counts) // 2)
            there = sum(usable[shape] * count for shape, count in area.counts)
            if needed > there:
                return Refusal("C4", part, area, subset, None if k < 0 else k, needed, there)
    return _refused_by_cells(part, area, kinds, ground, budget)


def usable_by(mask: int, k: int, ground: Ground, budget: Budget) -> list[int]:
    """Return, by shape, how much of a resource (-1: how many) pods of some kinds can have on one node at most.

    The steps are spent also where it is known already, so that an answer does not depend on what was asked before.
    """
    budget.spend(len(ground.shapes) * (1 + mask.bit_count() // 2))
    found = ground.usable.get((mask, k))
    if found is None:
        found = ground.usable[mask, k] = [_usable_on(shape, mask, k, ground) for shape in range(len(ground.shapes))]
    return found


def kinds_of(vector: tuple[int, ...]) -> tuple[int, ...]:
    """Return the kinds that have pods in a vector."""
    return tuple(kind for kind, pods in enumerate(vector) if pods)


def _choice_refused(part: Part, area: Area, ground: Ground, budget: Budget) -> Refusal | None:
    """C1 to C3 where a number of children is enough: each sum counts its own cheapest ones."""
    floors, totals = ground.floors_in(area), ground.totals_in(area)
    budget.spend((ground.kinds + len(ground.resources)) * (1 + len(part.children)))
    for kind, floor in enumerate(floors):
        needed = least(part, [int(one == kind) for one in range(ground.kinds)])
        if needed > floor:
            return Refusal("C2" if floor else "C1", part, area, (kind,), None, needed, floor)
    for k, there in enumerate(totals):
        needed = least(part, [request[k] for request in ground.requests])
        if needed > there:
            return Refusal("C3", part, area, tuple(range(ground.kinds)), k, needed, there)
    return None


def _subsets(kinds: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if len(kinds) > _ALL_SUBSETS:
        yield kinds
        yield from combinations(kinds, 2)
        return
    # A kind by itself is C2.
    for size in range(len(kinds), 1, -1):
        yield from combinations(kinds, size)


def _usable_on(shape: int, mask: int, k: int, ground: Ground) -> int:
    floors = ground.floors[shape]
    pods = [
        (ground.requests[kind][k] if k >= 0 else 1, floors[kind], kind)
        for kind in range(ground.kinds)
        if mask >> kind & 1 and floors[kind]
    ]
    rows = ground.node_conflicts[shape]
    if len(pods) > 1 and all(rows[one] >> other & 1 for (_, _, one), (_, _, other) in combinations(pods, 2)):
        # One kind excludes the others.
        return max(request * floor for request, floor, _ in pods)
    everything = sum(request * floor for request, floor, _ in pods)
    if k < 0:
        return min(everything, _most_pods(shape, [kind for _, _, kind in pods], ground))
    return (
        everything
        if everything <= ground.shapes[shape].capacity[k]
        else _reachable(pods, ground.shapes[shape].capacity[k])
    )


def _most_pods(shape: int, kinds: list[int], ground: Ground) -> int:
    """How many pods of some kinds a node can have: of each resource at least the smallest request is used."""
    most = sum(ground.floors[shape][kind] for kind in kinds)
    for k, have in enumerate(ground.shapes[shape].capacity):
        smallest = min((ground.requests[kind][k] for kind in kinds), default=0)
        if smallest:
            most = min(most, have // smallest)
    return most


def _reachable(pods: list[tuple[int, int, int]], capacity: int) -> int:
    """The largest sum within a capacity, with at most so many pods of each request."""
    requests = [(request, floor) for request, floor, _ in pods if request]
    unit = gcd(*(request for request, _ in requests))
    units = capacity // unit
    if units > _MOST_UNITS:
        return units * unit
    within = (1 << units + 1) - 1
    sums = 1
    for request, floor in requests:
        step, left = request // unit, floor
        taken = 1
        while left > 0:
            # 1, 2, 4, ... pods at a time make up every number.
            some = min(taken, left)
            sums |= (sums << some * step) & within
            left -= some
            taken *= 2
    return (sums.bit_length() - 1) * unit


def _refused_by_cells(part: Part, area: Area, kinds: tuple[int, ...], ground: Ground, budget: Budget) -> Refusal | None:
    """Of kinds that all conflict with one another over a label, each value has one pod. Nodes without it have any."""
    for key, name in enumerate(ground.keys):
        rows = ground.conflicts.apart.get(name)
        if rows is None:
            continue
        for clique in _cliques(rows, kinds):
            budget.spend(1 + len(clique) + len(area.counts))
            needed = least(part, [int(kind in clique) for kind in range(ground.kinds)])
            there = _values(area, key, clique, ground)
            if needed > there:
                return Refusal("A", part, area, clique, None, needed, there, key=name)
    return None


def _cliques(rows: tuple[int, ...], kinds: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The largest sets of kinds that conflict with themselves and one another, one for each kind that begins it."""
    found = set()
    for first in kinds:
        clique: list[int] = []
        for kind in (first, *kinds):
            if kind not in clique and all(rows[kind] >> other & 1 for other in (*clique, kind)):
                clique.append(kind)
        if clique:
            found.add(tuple(sorted(clique)))
    yield from sorted(found)


def _values(area: Area, key: int, clique: tuple[int, ...], ground: Ground) -> int:
    cells: set[str] = set()
    there = 0
    for shape, count in area.counts:
        pods = sum(ground.floors[shape][kind] for kind in clique)
        cell = ground.shapes[shape].cells[key]
        if pods and cell is not None and cell != OWN_VALUE:
            cells.add(cell)
        else:
            there += count * (pods if cell is None else min(pods, 1))
    return there + len(cells)

"""C6: every way to place the pods of a part in an area, where these are few enough to be looked at.

Nodes are added one after the other, each with the patterns that it can have. Where values of a label or domains keep
pods apart or together, the nodes of each are added by themselves first, and count as one node with more patterns.

What cannot be looked at so is left out, which makes the gang easier to place: a *no* stays a proof, and a *yes* has to
be checked by `placement.holds`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from webhook.fit.budget import Budget
from webhook.fit.domains import Domain, domains_in, outside
from webhook.fit.ground import Area, Ground
from webhook.fit.parts import Content, Item, Part, Path, content_of, free_vector, partitions_below
from webhook.fit.patterns import patterns_on
from webhook.fit.reachable import Space, Steps
from webhook.fit.room import OWN_VALUE
from webhook.fit.selections import selections_of

# The largest set of vectors that is looked at, in bits.
_MOST_VECTORS = 1 << 17
# In how many ways equal children may be in one domain.
_MOST_WAYS = 256


class TooLargeError(Exception):
    """Raised when there is too much to look at."""


class Filled(NamedTuple):
    """A node with pods: its area and shape, the pods by kind, and the places of the needs that they are of.

    `pool` is where its pods may be counted: the items that are in its domain, by path, and the free pods.
    """

    area: Area
    shape: int
    pods: tuple[int, ...]
    items: tuple[tuple[Path, Part], ...]
    ordinal: int | None = None


class Arrangement(NamedTuple):
    """Nodes with pods, and the content that they hold."""

    content: Content
    nodes: tuple[Filled, ...]


class Exact:
    """Looks at every placement of parts on one ground."""

    def __init__(self, ground: Ground, budget: Budget) -> None:
        self.ground = ground
        self.budget = budget

    def arranged(self, part: Part, area: Area) -> Arrangement | None:
        """Return nodes for a part whose domain is the area, or None: there is none. Raises `TooLargeError`."""
        for content in selections_of(part, self.budget):
            found = self._content(content, area)
            if found is not None:
                return Arrangement(content, tuple(found))
        return None

    def _content(self, content: Content, area: Area) -> list[Filled] | None:
        if not content.items:
            most = free_vector(content.free, self.ground.kinds)
            steps = self._reached(area, self._space(most))
            return list(self._nodes(steps, most, area, ())) if steps.has(most) else None
        first = max(content.items, key=lambda item: len(item.paths) * sum(item.part.vector or (0,)))
        together = [item for item in content.items if item.part.within == first.part.within]
        others = [item for item in content.items if item not in together]
        return self._in_domains(together, others, content, area)

    def _space(self, most: Sequence[int]) -> Space:
        if prod(limit + 1 for limit in most) > _MOST_VECTORS:
            raise TooLargeError
        space = Space(most)
        self.budget.spend(space.steps * len(most))
        return space

    def _reached(self, area: Area, space: Space) -> Steps:
        """All that the nodes of an area can take, with the values of one shared label by themselves."""
        key = self._shared_key(area)
        steps = Steps(space)
        cells: dict[str, list[tuple[int, int]]] = {}
        for shape, count in area.counts:
            cell = None if key is None else self.ground.shapes[shape].cells[key]
            if cell is None or cell == OWN_VALUE:
                self._add_nodes(steps, shape, count)
            else:
                cells.setdefault(cell, []).append((shape, count))
        for counts in cells.values() if key is not None else ():
            inner = self._in_cell(counts, key or 0, space)
            patterns = list(space.largest(inner.reached))
            self.budget.spend(len(patterns))
            steps.add(patterns, inner, self.budget)
        return steps

    def _shared_key(self, area: Area) -> int | None:
        """The conflict key of which several nodes of the area share a value."""
        for key in range(len(self.ground.keys)):
            if any(self.ground.shapes[shape].cells[key] not in (None, OWN_VALUE) for shape, _ in area.counts):
                return key
        return None

    def _in_cell(self, counts: Sequence[tuple[int, int]], key: int, space: Space) -> Steps:
        """What the nodes that share a value can take, without pods that must not share it."""
        caps = [self.ground.cell_caps(kind, key) for kind in range(self.ground.kinds)]
        limits = [limit if cap is None else min(limit, cap) for limit, cap in zip(space.most, caps, strict=True)]
        steps = Steps(space)
        for shape, count in counts:
            self._add_nodes(steps, shape, count)
        allowed = steps.reached
        self.budget.spend(space.steps * self.ground.kinds)
        for axis, limit in enumerate(limits):
            if limit < space.most[axis]:
                allowed &= space.up_to(axis, limit)
        rows = self.ground.conflicts.apart.get(self.ground.keys[key], ())
        for one, row in enumerate(rows):
            for other in range(one):
                if row >> other & 1:
                    allowed &= space.up_to(one, 0) | space.up_to(other, 0)
        steps.reached = allowed
        return steps

    def _add_nodes(self, steps: Steps, shape: int, count: int) -> None:
        patterns = patterns_on(shape, steps.space.most, self.ground, self.budget)
        full = steps.space.size - 1
        for _ in range(count):
            if steps.reached >> full & 1 or not steps.add(patterns, shape, self.budget):
                return

    def _nodes(
        self, steps: Steps, vector: Sequence[int], area: Area, items: tuple[tuple[Path, Part], ...]
    ) -> Iterator[Filled]:
        for source, pods in steps.back(vector):
            if isinstance(source, Steps):
                yield from self._nodes(source, pods, area, items)
            elif isinstance(source, int):
                yield Filled(area, source, pods, items, area.ordinal)

    def _in_domains(
        self, items: Sequence[Item], others: Sequence[Item], content: Content, area: Area
    ) -> list[Filled] | None:
        """Each domain takes some of the items, and pods that may be anywhere."""
        ground = self.ground
        vectors = [_vector(item) for item in items]
        free = list(free_vector(content.free, ground.kinds))
        for item in others:
            for kind, pods in enumerate(_vector(item)):
                free[kind] += pods * len(item.paths)
        numbers = [len(item.paths) for item in items]
        if prod(number + 1 for number in numbers) > _MOST_WAYS:
            raise TooLargeError
        total = [
            free[kind] + sum(vector[kind] * number for vector, number in zip(vectors, numbers, strict=True))
            for kind in range(ground.kinds)
        ]
        inner, outer = self._space(total), self._space([*numbers, *free])
        steps = Steps(outer)
        within = items[0].part.within
        assert within is not None  # noqa: S101 - an item has a domain
        deeper = [one for item in items for one in partitions_below(item.part)]
        for domain in domains_in(area, within, ground, deeper):
            reached = self._reached(domain.area, inner)
            patterns = list(self._domain_patterns(reached, inner, vectors, numbers, free))
            for number in range(domain.number):
                if not steps.add(patterns, (domain, number, reached), self.budget):
                    break
        rest = ground.area(outside(area, within, ground))
        for shape, count in rest.counts if any(free) else ():
            patterns = [(*(0 for _ in items), *one) for one in patterns_on(shape, free, ground, self.budget)]
            for _ in range(count):
                if not steps.add(patterns, shape, self.budget):
                    break
        goal = (*numbers, *free)
        return self._unfolded(steps, goal, items, vectors, rest) if steps.has(goal) else None

    def _domain_patterns(
        self,
        reached: Steps,
        inner: Space,
        vectors: Sequence[Sequence[int]],
        numbers: Sequence[int],
        free: Sequence[int],
    ) -> Iterator[tuple[int, ...]]:
        """The items that fit into a domain together, with all the free pods that fit beside them."""
        kinds = range(self.ground.kinds)
        for ways in product(*(range(number, -1, -1) for number in numbers)):
            base = [sum(way * vector[kind] for way, vector in zip(ways, vectors, strict=True)) for kind in kinds]
            self.budget.spend(1 + inner.steps * (1 + len(base)))
            if not reached.has(base):
                continue
            left = reached.reached >> inner.index(base)
            for kind in kinds:
                most = min(inner.most[kind] - base[kind], free[kind])
                if most < inner.most[kind]:
                    left &= inner.up_to(kind, most)
            for pods in inner.largest(left):
                self.budget.spend(1)
                yield (*ways, *pods)

    def _unfolded(
        self,
        steps: Steps,
        goal: tuple[int, ...],
        items: Sequence[Item],
        vectors: Sequence[Sequence[int]],
        rest: Area,
    ) -> list[Filled]:
        """The nodes of each domain, for what the domains take."""
        waiting = [list(item.paths) for item in items]
        found: list[Filled] = []
        for source, taken in steps.back(goal):
            ways, pods = taken[: len(items)], taken[len(items) :]
            if isinstance(source, int):
                found.append(Filled(rest, source, pods, ()))
                continue
            assert isinstance(source, tuple)  # noqa: S101 - the only other source
            domain, number, reached = source
            base = [
                pods[kind] + sum(way * vector[kind] for way, vector in zip(ways, vectors, strict=True))
                for kind in range(len(pods))
            ]
            here = tuple(
                (places.pop(), item.part)
                for item, places, way in zip(items, waiting, ways, strict=True)
                for _ in range(way)
            )
            found += self._nodes(reached, base, _area_of(domain, number), here)
        return found


def _area_of(domain: Domain, number: int) -> Area:
    if number < len(domain.areas) and not domain.area.single:
        return domain.areas[number]
    single = Area(domain.area.counts, domain.area.classes, single=True)
    single.ordinal = number
    return single


def _vector(item: Item) -> tuple[int, ...]:
    if item.part.vector is None:
        raise TooLargeError
    return item.part.vector


def pools(content: Content, filled: Filled) -> Iterator[tuple[Path, int, int]]:
    """Return the places of the pods that may be on a node: those of the items in its domain, then the free ones."""
    for path, part in filled.items:
        inner = content_of(part, path)
        yield from inner.free
        for item in inner.items:
            for place in item.paths:
                yield from pools(content, filled._replace(items=((place, item.part),)))
    yield from content.free

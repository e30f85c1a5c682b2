"""C6: every way to place the pods of a part in an area, where these are few enough to be looked at.

Nodes are added one after the other, each with the patterns that it can have: the pods that can be on it together.
Where values of a label or domains keep pods apart or together, the nodes of each are added first, and count as one
node with more patterns. The numbers of pods that can be reached are one integer with a bit for each. That set is
closed downwards, so the largest patterns of a node are enough. What cannot be looked at is left out, which makes the
gang easier to place: a *no* stays a proof, and a *yes* has to be checked by `placement.holds`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from webhook.fit import domains
from webhook.fit.ground import Area, Ground
from webhook.fit.packing import OWN_VALUE
from webhook.fit.placement import Spot
from webhook.fit.verdict import StepBudget

Pattern = tuple[int, ...]


def patterns_on(shape: int, most: Sequence[int], ground: Ground, budget: StepBudget) -> list[Pattern]:
    """Returns the patterns of an empty node of a shape that no further pod fits into, with at most so many of each
    kind. Every way to fill such a node is one of them or a part of one.
    """
    patterns: list[Pattern] = []
    filling = _Filling(shape, most, ground, budget)
    for pattern in filling.patterns(0, ground.shapes[shape].capacity):
        budget.spend(1 + len(patterns) // 4)
        if not any(_covers(other, pattern) for other in patterns):
            patterns = [*(other for other in patterns if not _covers(pattern, other)), pattern]
    return patterns


def _covers(large: Pattern, small: Pattern) -> bool:
    return all(pods >= other for pods, other in zip(large, small, strict=True))


class _Filling:
    """Fills a node with pods of one kind after the other."""

    def __init__(self, shape: int, most: Sequence[int], ground: Ground, budget: StepBudget) -> None:
        self.budget = budget
        self.requests = ground.requests
        self.conflicts = ground.node_conflicts[shape]
        self.most = [min(limit, floor) for limit, floor in zip(most, ground.floors[shape], strict=True)]
        self.kinds = [kind for kind, limit in enumerate(self.most) if limit]
        self.taken = [0] * ground.kinds

    def patterns(self, index: int, free: Sequence[int]) -> Iterator[Pattern]:
        """Yields every number of pods of the kinds from an index on; of the last one as many as fit."""
        if index == len(self.kinds):
            yield tuple(self.taken)
            return
        kind = self.kinds[index]
        self.budget.spend(2 + len(free) // 2)
        fits = self._fits(kind, free)
        least = fits if index == len(self.kinds) - 1 else 0
        for pods in range(fits, least - 1, -1):
            self.taken[kind] = pods
            left = [have - request * pods for have, request in zip(free, self.requests[kind], strict=True)]
            yield from self.patterns(index + 1, left)
        self.taken[kind] = 0

    def _fits(self, kind: int, free: Sequence[int]) -> int:
        row = self.conflicts[kind] & ~(1 << kind)
        if row and any(self.taken[other] for other in self.kinds if row >> other & 1):
            return 0
        fits = self.most[kind]
        for have, request in zip(free, self.requests[kind], strict=True):
            if request:
                fits = min(fits, have // request)
        return fits


# A step is about a tenth of a microsecond. A shift of so many bits takes as long.
_BITS_A_STEP = 2048


class Space:
    """The vectors from 0 to `most`, each coordinate by itself, numbered."""

    def __init__(self, most: Sequence[int]) -> None:
        self.most = tuple(most)
        self.strides: list[int] = []
        size = 1
        for limit in most:
            self.strides.append(size)
            size *= limit + 1
        self.size = size
        self.steps = 1 + size // _BITS_A_STEP
        self._masks: dict[tuple[int, int], int] = {}

    def index(self, vector: Sequence[int]) -> int:
        return sum(value * stride for value, stride in zip(vector, self.strides, strict=True))

    def vector(self, index: int) -> tuple[int, ...]:
        coordinates = []
        for limit in self.most:
            index, value = divmod(index, limit + 1)
            coordinates.append(value)
        return tuple(coordinates)

    def bounded(self, axis: int, value: int) -> int:
        """Returns the set of vectors whose coordinate is not larger than a value."""
        if (mask := self._masks.get((axis, value))) is None:
            stride = self.strides[axis]
            period = stride * (self.most[axis] + 1)
            mask = (1 << stride * (value + 1)) - 1
            while period < self.size:
                mask |= mask << period
                period *= 2
            mask &= (1 << self.size) - 1
            self._masks[axis, value] = mask
        return mask

    def added(self, reached: int, pattern: Sequence[int]) -> int:
        """Returns the vectors of a closed set with a pattern added. What is above the most is left out."""
        shift = 0
        for axis, value in enumerate(pattern):
            if value:
                added = min(value, self.most[axis])
                if added:
                    reached &= self.bounded(axis, self.most[axis] - added)
                    shift += added * self.strides[axis]
        return reached << shift

    def closed(self, reached: int) -> int:
        """Returns the set with all vectors below its own."""
        for axis, limit in enumerate(self.most):
            step = 1
            stride = self.strides[axis]
            while step <= limit:
                # Down by 1, 2, 4 ... where the coordinate is large enough.
                low = self.bounded(axis, min(step - 1, limit))
                reached |= (reached & ~low) >> step * stride
                step *= 2
        return reached

    def largest(self, reached: int) -> Iterator[tuple[int, ...]]:
        """Returns the vectors of a closed set that have no other above them."""
        tops = reached
        for axis, limit in enumerate(self.most):
            if limit:
                tops &= ~((reached >> self.strides[axis]) & self.bounded(axis, limit - 1))
        while tops:
            lowest = tops & -tops
            yield self.vector(lowest.bit_length() - 1)
            tops ^= lowest


class Steps:
    """The sets that are reached after each of several nodes, in order, and the patterns that were added."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.reached = 1
        self._steps: list[tuple[int, Sequence[Sequence[int]], object]] = []

    def add(self, patterns: Sequence[Sequence[int]], source: object, budget: StepBudget) -> bool:
        """Adds a node that can have one of the patterns, or a part of it. Returns whether that reaches more."""
        space = self.space
        budget.spend((len(patterns) + 2 * len(space.most)) * space.steps)
        reached = self.reached
        for pattern in patterns:
            reached |= space.added(self.reached, pattern)
        reached = space.closed(reached)
        if reached == self.reached:
            return False
        self._steps.append((self.reached, patterns, source))
        self.reached = reached
        return True

    def has(self, vector: Sequence[int]) -> bool:
        return bool(self.reached >> self.space.index(vector) & 1)

    def back(self, vector: Sequence[int]) -> Iterator[tuple[object, tuple[int, ...]]]:
        """Yields what each node takes of a vector that is reached, from the last node to the first."""
        left = tuple(vector)
        for before, patterns, source in reversed(self._steps):
            if before >> self.space.index(left) & 1:
                continue
            for pattern in patterns:
                less = tuple(max(value - taken, 0) for value, taken in zip(left, pattern, strict=True))
                if before >> self.space.index(less) & 1:
                    yield source, tuple(value - rest for value, rest in zip(left, less, strict=True))
                    left = less
                    break


# More ways than this are not looked at.
_MOST = 64


class TooManyError(Exception):
    """Raised when there are too many ways to choose."""


def _chosen(part: domains.NeedPart, path: domains.Path, budget: StepBudget) -> Iterator[domains.PartContent]:
    if not part.chooses:
        yield from _resolved(domains.content_of(part, path), budget)
        return
    for numbers in _numbers([len(child.indexes) for child in part.children], part.count):
        budget.spend(1)
        partial = [domains.PartContent((), (), ())]
        for child, number in zip(part.children, numbers, strict=True):
            for index in child.indexes[:number]:
                place = (*path, index)
                if child.part.within is not None:
                    ways = [domains.PartContent((), (domains.DomainItem(child.part, (place,)),), ())]
                else:
                    ways = list(_chosen(child.part, place, budget))
                partial = [_joined(prefix, way) for prefix in partial for way in ways]
                if len(partial) > _MOST:
                    raise TooManyError
        yield from partial


def _resolved(content: domains.PartContent, budget: StepBudget) -> Iterator[domains.PartContent]:
    partial = [domains.PartContent(content.free, content.items, ())]
    for path, choice in content.choices:
        ways = list(_chosen(choice, path, budget))
        partial = [_joined(prefix, way) for prefix in partial for way in ways]
        if len(partial) > _MOST:
            raise TooManyError
    yield from partial


def _numbers(available: list[int], count: int) -> Iterator[tuple[int, ...]]:
    """Yields how many of each sort of children to take."""
    if not available:
        if not count:
            yield ()
        return
    for number in range(min(available[0], count), -1, -1):
        if count - number <= sum(available[1:]):
            for rest in _numbers(available[1:], count - number):
                yield (number, *rest)


def _joined(first: domains.PartContent, other: domains.PartContent) -> domains.PartContent:
    items = {item.part.key: item for item in first.items}
    for item in other.items:
        before = items.get(item.part.key)
        items[item.part.key] = item if before is None else domains.DomainItem(before.part, before.paths + item.paths)
    return domains.PartContent(first.free + other.free, tuple(items.values()), ())


# The largest set of vectors that is looked at, in bits.
_MOST_VECTORS = 1 << 17
# In how many ways equal children may be in one domain.
_MOST_WAYS = 256


class TooLargeError(Exception):
    """Raised when there is too much to look at."""


_Items = tuple[tuple[domains.Path, domains.NeedPart], ...]


class FilledNode(NamedTuple):
    """A node with pods: its area and shape, the pods by kind, and the items that are in its domain, by path."""

    area: Area
    shape: int
    pods: tuple[int, ...]
    items: _Items


class Exact:
    """Looks at every placement of parts on one ground."""

    def __init__(self, ground: Ground, budget: StepBudget) -> None:
        self.ground = ground
        self.budget = budget

    def placed(self, part: domains.NeedPart, area: Area) -> list[Spot] | None:
        """Returns where the pods of a part whose domain is the area can be; None if nowhere. Raises `TooLargeError` and
        `TooManyError`.
        """
        # One content for each way to choose.
        contents: list[domains.PartContent] = []
        for content in _chosen(part, (), self.budget):
            self.budget.spend(1 + len(content.free) + len(content.items))
            contents.append(content)
            if len(contents) > _MOST:
                raise TooManyError
        for content in contents:
            nodes = self._content(content, area)
            if nodes is not None:
                return self._spots(content, nodes)
        return None

    def _spots(self, content: domains.PartContent, nodes: Iterable[FilledNode]) -> list[Spot]:
        used: dict[int, int] = {}
        left: dict[domains.Path, int] = {}
        spots: list[Spot] = []
        for filled in nodes:
            if filled.area.ordinal is not None:
                index, ordinal = filled.area.classes[0], filled.area.ordinal
            else:
                # The next node of the shape in its area.
                classes = self.ground.shaped_in(filled.area)[filled.shape]
                free = (index for index in classes if used.get(index, 0) < self.ground.number(index))
                index = next(free, classes[-1])
                ordinal = used.get(index, 0)
                used[index] = ordinal + 1
            waiting = list(filled.pods)
            for path, kind, count in _pools(content, filled.items):
                pods = min(left.setdefault(path, count), waiting[kind])
                if pods:
                    left[path] -= pods
                    waiting[kind] -= pods
                    spots.append(Spot(path, index, ordinal, 1, pods))
        return spots

    def _content(self, content: domains.PartContent, area: Area) -> list[FilledNode] | None:
        if not content.items:
            most = self._free_vector(content)
            steps = self._reached(area, self._space(most))
            return list(self._nodes(steps, most, area, ())) if steps.has(most) else None
        first = max(content.items, key=lambda item: len(item.paths) * sum(item.part.vector or (0,)))
        together = [item for item in content.items if item.part.within == first.part.within]
        others = [item for item in content.items if item not in together]
        return self._domain_nodes(together, others, content, area)

    def _free_vector(self, content: domains.PartContent) -> list[int]:
        """Returns how many pods of each kind may be anywhere."""
        vector = [0] * self.ground.kinds
        for _, kind, count in content.free:
            vector[kind] += count
        return vector

    def _space(self, most: Sequence[int]) -> Space:
        if prod(limit + 1 for limit in most) > _MOST_VECTORS:
            raise TooLargeError
        space = Space(most)
        self.budget.spend(space.steps * len(most))
        return space

    def _reached(self, area: Area, space: Space) -> Steps:
        """Returns all that the nodes of an area can take, with the values of one shared label by themselves."""
        shapes = [self.ground.shapes[shape] for shape, _ in area.counts]
        keys = range(len(self.ground.keys))
        key = next((key for key in keys if any(shape.cells[key] not in (None, OWN_VALUE) for shape in shapes)), None)
        steps = Steps(space)
        cells: dict[str, list[tuple[int, int]]] = {}
        for shape, count in area.counts:
            cell = None if key is None else self.ground.shapes[shape].cells[key]
            if cell is None or cell == OWN_VALUE:
                self._add_nodes(steps, shape, count)
            else:
                cells.setdefault(cell, []).append((shape, count))
        for counts in cells.values() if key is not None else ():
            inner = self._cell_steps(counts, key or 0, space)
            patterns = list(space.largest(inner.reached))
            self.budget.spend(len(patterns))
            steps.add(patterns, inner, self.budget)
        return steps

    def _cell_steps(self, counts: Sequence[tuple[int, int]], key: int, space: Space) -> Steps:
        """Returns what the nodes that share a value can take, without pods that must not share it."""
        caps = [self.ground.cell_caps(kind, key) for kind in range(self.ground.kinds)]
        limits = [limit if cap is None else min(limit, cap) for limit, cap in zip(space.most, caps, strict=True)]
        steps = Steps(space)
        for shape, count in counts:
            self._add_nodes(steps, shape, count)
        allowed = steps.reached
        self.budget.spend(space.steps * self.ground.kinds)
        for axis, limit in enumerate(limits):
            if limit < space.most[axis]:
                allowed &= space.bounded(axis, limit)
        rows = self.ground.conflicts.apart.get(self.ground.keys[key], ())
        for first, row in enumerate(rows):
            for other in range(first):
                if row >> other & 1:
                    allowed &= space.bounded(first, 0) | space.bounded(other, 0)
        steps.reached = allowed
        return steps

    def _add_nodes(self, steps: Steps, shape: int, count: int) -> None:
        patterns = patterns_on(shape, steps.space.most, self.ground, self.budget)
        full = steps.space.size - 1
        for _ in range(count):
            if steps.reached >> full & 1 or not steps.add(patterns, shape, self.budget):
                return

    def _nodes(self, steps: Steps, vector: Sequence[int], area: Area, items: _Items) -> Iterator[FilledNode]:
        for source, pods in steps.back(vector):
            if isinstance(source, Steps):
                yield from self._nodes(source, pods, area, items)
            elif isinstance(source, int):
                yield FilledNode(area, source, pods, items)

    def _domain_nodes(
        self,
        items: Sequence[domains.DomainItem],
        others: Sequence[domains.DomainItem],
        content: domains.PartContent,
        area: Area,
    ) -> list[FilledNode] | None:
        """Returns the nodes with pods, where each domain takes some of the items, and pods that may be anywhere."""
        ground = self.ground
        vectors = [_vector(item) for item in items]
        free = self._free_vector(content)
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
        deeper = [partition for item in items for partition in domains.partitions_below(item.part)]
        for domain in domains.domains_in(area, within, ground, deeper):
            reached = self._reached(domain.area, inner)
            patterns = list(self._domain_patterns(reached, inner, vectors, numbers, free))
            for number in range(domain.number):
                if not steps.add(patterns, (domain, number, reached), self.budget):
                    break
        of_nodes = domains.domains_by_node(within)
        in_none = [
            index
            for index in area.classes
            if domains.membership_of(ground.room.classes[index], within, of_nodes) == domains.NO_DOMAIN
        ]
        rest = ground.area(in_none)
        for shape, count in rest.counts if any(free) else ():
            patterns = [(*(0 for _ in items), *pattern) for pattern in patterns_on(shape, free, ground, self.budget)]
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
        """Yields the items that fit into a domain together, with all the free pods that fit beside them."""
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
                    left &= inner.bounded(kind, most)
            for pods in inner.largest(left):
                self.budget.spend(1)
                yield (*ways, *pods)

    def _unfolded(
        self,
        steps: Steps,
        goal: tuple[int, ...],
        items: Sequence[domains.DomainItem],
        vectors: Sequence[Sequence[int]],
        rest: Area,
    ) -> list[FilledNode]:
        waiting = [list(item.paths) for item in items]
        nodes: list[FilledNode] = []
        for source, taken in steps.back(goal):
            ways, pods = taken[: len(items)], taken[len(items) :]
            if isinstance(source, int):
                nodes.append(FilledNode(rest, source, pods, ()))
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
            has_area = number < len(domain.areas) and not domain.area.single
            area = domain.areas[number] if has_area else domain.area.node(number)
            nodes += self._nodes(reached, base, area, here)
        return nodes


def _vector(item: domains.DomainItem) -> tuple[int, ...]:
    if item.part.vector is None:
        raise TooLargeError
    return item.part.vector


def _pools(content: domains.PartContent, items: _Items) -> Iterator[tuple[domains.Path, int, int]]:
    """Yields the places of the pods that may be on a node: those of the items in its domain, then the free ones."""
    for path, part in items:
        inner = domains.content_of(part, path)
        yield from inner.free
        for item in inner.items:
            for place in item.paths:
                yield from _pools(content, ((place, item.part),))
    yield from content.free

"""First fit: a quick placement of a part in an area, largest pods first, each domain in turn.

It finds a placement for most gangs that fit. That it finds none proves nothing. Equal nodes are filled together, as
one bin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import le
from typing import Any, NamedTuple

from webhook.fit.domains import NeedPart, PartContent, Path, content_of, domains_in, partitions_below
from webhook.fit.ground import Area, Ground
from webhook.fit.packing import OWN_VALUE
from webhook.fit.placement import Spot
from webhook.fit.verdict import StepBudget


class Bin(NamedTuple):
    """Equal nodes of a class: from number `start` on, what is free on each of them, and the pods that each has."""

    start: int
    number: int
    free: tuple[int, ...]
    taken: tuple[int, ...]


class PlacementState:
    """What is placed so far. One that begins `before` another one changes that only when it is `kept`."""

    def __init__(self, before: PlacementState | None = None) -> None:
        self.before = before
        self.bins: dict[int, tuple[Bin, ...]] = {}
        self.cells: dict[tuple[int, str], tuple[int, ...]] = {}
        self.spots: list[Spot] = []

    def bins_of(self, index: int) -> tuple[Bin, ...] | None:
        bins = self.bins.get(index)
        return self.before.bins_of(index) if bins is None and self.before is not None else bins

    def pods_in(self, key: int, cell: str) -> tuple[int, ...] | None:
        """Returns the pods by kind in a value of a conflict key, or None if there are none."""
        pods = self.cells.get((key, cell))
        return self.before.pods_in(key, cell) if pods is None and self.before is not None else pods

    def keep(self) -> PlacementState:
        assert self.before is not None  # noqa: S101 - the first state is never an attempt
        self.before.bins.update(self.bins)
        self.before.cells.update(self.cells)
        self.before.spots += self.spots
        return self.before


def split_bins(bins: Sequence[Bin], ordinal: int) -> tuple[Bin, ...]:
    """Returns the bins with the node of that number in a bin of its own."""
    parts: list[Bin] = []
    for nodes in bins:
        if nodes.start <= ordinal < nodes.start + nodes.number:
            edges = (nodes.start, ordinal, ordinal + 1, nodes.start + nodes.number)
            for start, end in pairwise(edges):
                if end > start:
                    parts.append(nodes._replace(start=start, number=end - start))
        else:
            parts.append(nodes)
    return tuple(parts)


class PlacementOrder(NamedTuple):
    """In which order pods and domains are tried: `scarce`: the kinds first that have least room left, not the largest;
    `roomy`: the domains with most room first.
    """

    scarce: bool
    roomy: bool


# The path of pods that several equal parts have together begins so.
_COPIES = (-1,)
ORDERS = (PlacementOrder(scarce=False, roomy=True), PlacementOrder(scarce=True, roomy=False))


class FirstFit:
    """Places parts on one ground."""

    def __init__(self, ground: Ground, budget: StepBudget, order: PlacementOrder) -> None:
        self.ground = ground
        self.budget = budget
        self.order = order
        # Without domains below, all nodes of a shape are alike, and bins are of shapes instead of classes.
        self._pooled = False
        self._counts: dict[int, int] = {}
        self._failed: set[tuple[Any, Area]] = set()
        # The places of equal pods that were placed together, and how many each of them needs.
        self._copies: list[tuple[list[Path], int]] = []

    def placed(self, part: NeedPart, area: Area) -> list[Spot] | None:
        """Returns where the pods of a part can be, once the area is its domain, or None if no place was found."""
        state = self._begun(part, area)
        if state is None:
            return None
        spots = list(self._spots_of_classes(state.spots, area)) if self._pooled else state.spots
        return list(self._spots_of_copies(spots)) if self._copies else spots

    def fits(self, part: NeedPart, area: Area) -> bool:
        return self._begun(part, area) is not None

    def _begun(self, part: NeedPart, area: Area) -> PlacementState | None:
        self._pooled = not area.single and not partitions_below(part)
        self._counts = dict(area.counts)
        return self._content(part, (), area, PlacementState())

    def _spots_of_copies(self, spots: Sequence[Spot]) -> Iterator[Spot]:
        """Yields the pods that several equal parts have together, as pods of each of them."""
        waiting = [list(paths) for paths, _ in self._copies]
        left = [count for _, count in self._copies]
        for spot in spots:
            if spot.path[:1] != _COPIES:
                yield spot
                continue
            of = spot.path[1]
            for start in range(spot.start, spot.start + spot.number):
                pods = spot.pods
                while pods:
                    some = min(pods, left[of])
                    yield Spot(waiting[of][-1], spot.node_class, start, 1, some)
                    pods -= some
                    left[of] -= some
                    if not left[of]:
                        waiting[of].pop()
                        left[of] = self._copies[of][1]

    def _spots_of_classes(self, spots: Sequence[Spot], area: Area) -> Iterator[Spot]:
        """Yields the nodes of shapes as nodes of the classes that have these shapes, one class after the other."""
        for spot in spots:
            first = 0
            for index in self.ground.shaped_in(area)[spot.node_class]:
                after = first + self.ground.number(index)
                start, end = max(spot.start, first), min(spot.start + spot.number, after)
                if start < end:
                    yield spot._replace(node_class=index, start=start - first, number=end - start)
                first = after
                if first >= spot.start + spot.number:
                    break

    def _content(self, part: NeedPart, path: Path, area: Area, state: PlacementState) -> PlacementState | None:
        if part.chooses:
            return self._choice(part, path, area, state)
        content = content_of(part, path)
        self.budget.spend(1 + len(content.free) + len(content.items))
        for item in sorted(content.items, key=lambda item: self._size(item.part), reverse=True):
            places = list(item.paths)
            if len(places) > 1:
                self._together(item.part, places, area, state)
            for place in places:
                next_state = self._place_in_domain(item.part, place, area, state)
                if next_state is None:
                    return None
                state = next_state
        for place, choice in content.choices:
            next_state = self._choice(choice, place, area, state)
            if next_state is None:
                return None
            state = next_state
        for place, kind, count in sorted(content.free, key=lambda entry: self._rank(entry[1], entry[2], area)):
            if self._pods(place, kind, count, area, state) < count:
                return None
        return state

    def _together(self, part: NeedPart, places: list[Path], area: Area, state: PlacementState) -> None:
        """Places many equal parts, as many in one domain as fit, and takes away their places."""
        content = content_of(part)
        if content.items or content.choices or part.vector is None:
            return
        for domain in self._domains(part, area, state):
            self.budget.spend(1)
            # How often the part could be in an empty domain, as far as each kind and each sum by itself shows.
            floors, totals = self.ground.floors_in(domain), self.ground.totals_in(domain)
            rooms = [floor // pods for pods, floor in zip(part.vector, floors, strict=True) if pods]
            rooms += [there // needed for needed, there in zip(part.sums, totals, strict=True) if needed]
            number = min(len(places), min(rooms, default=0))
            while number and not domain.single:
                attempt = PlacementState(state)
                before = len(self._copies)
                if self._all_free(content, number, places, domain, attempt):
                    attempt.keep()
                    del places[-number:]
                    break
                del self._copies[before:]
                number //= 2
            if not places:
                return

    def _all_free(
        self, content: PartContent, number: int, places: list[Path], area: Area, state: PlacementState
    ) -> bool:
        """Places the pods of the last `number` of some equal parts."""
        self.budget.spend(1 + len(content.free))
        for place, kind, count in sorted(content.free, key=lambda entry: self._rank(entry[1], entry[2], area)):
            path = (*_COPIES, len(self._copies))
            self._copies.append(([(*copy, *place) for copy in places[-number:]], count))
            if self._pods(path, kind, count * number, area, state) < count * number:
                return False
        return True

    def _choice(self, part: NeedPart, path: Path, area: Area, state: PlacementState) -> PlacementState | None:
        """Places the cheapest children first, until there are enough."""
        left = part.count
        children = sorted(part.children, key=lambda child: self._size(child.part))
        for child in children:
            indexes = list(child.indexes)
            if child.part.kind >= 0 and child.part.count == 1 and child.part.within is None:
                # Single pods: as many as fit, at once.
                places = [(*path, index) for index in indexes]
                self._copies.append((places, 1))
                pooled = (*_COPIES, len(self._copies) - 1)
                left -= self._pods(pooled, child.part.kind, min(left, len(places)), area, state)
                continue
            while indexes and left:
                place = (*path, indexes.pop(0))
                self.budget.spend(2)
                if child.part.within is not None:
                    next_state = self._place_in_domain(child.part, place, area, state)
                else:
                    attempt = self._content(child.part, place, area, PlacementState(state))
                    next_state = None if attempt is None else attempt.keep()
                if next_state is None:
                    break
                state, left = next_state, left - 1
        return state if not left else None

    def _place_in_domain(self, part: NeedPart, path: Path, area: Area, state: PlacementState) -> PlacementState | None:
        for domain in self._domains(part, area, state):
            self.budget.spend(1)
            # Where an equal part did not fit with fewer pods there, this one is not tried.
            key = (part.key, domain)
            if key in self._failed or not self._may_fit(part, domain):
                continue
            if (next_state := self._content(part, path, domain, PlacementState(state))) is not None:
                return next_state.keep()
            if not domain.single:
                self._failed.add(key)
        return None

    def _domains(self, part: NeedPart, area: Area, state: PlacementState) -> Iterator[Area]:
        if part.within is None:
            yield area
            return
        domains = domains_in(area, part.within, self.ground, partitions_below(part))
        for domain in reversed(domains) if self.order.roomy else domains:
            for domain_area in domain.areas:
                yield from _ordinals(domain_area, state) if domain_area.single else (domain_area,)

    def _may_fit(self, part: NeedPart, area: Area) -> bool:
        if part.vector is None:
            return True
        floors, totals = self.ground.floors_in(area), self.ground.totals_in(area)
        return all(map(le, part.vector, floors)) and all(map(le, part.sums, totals))

    def _size(self, part: NeedPart) -> float:
        if part.vector is None:
            return 0.0
        totals = self.ground.totals_in(self.ground.whole)
        return max((need / there for need, there in zip(part.sums, totals, strict=True) if there), default=0.0)

    def _rank(self, kind: int, count: int, area: Area) -> tuple[float, ...]:
        floor = self.ground.floors_in(area)[kind]
        share = count / floor if floor else 1.0
        largest = self.ground.largest(kind)
        return (-share, -largest) if self.order.scarce else (-largest, -share)

    def _pods(self, path: Path, kind: int, count: int, area: Area, state: PlacementState) -> int:
        """Places pods of a kind, first on nodes that have some already, and returns how many were placed."""
        left = count
        shaped = {shape: [shape] for shape, _ in area.counts} if self._pooled else self.ground.shaped_in(area)
        order = [shape for shape in self.ground.preferred(kind) if shape in shaped]
        self.budget.spend(1 + len(order))
        for used in (True, False):
            for shape in order:
                for index in shaped[shape]:
                    if used == (state.bins_of(index) is not None):
                        left -= self._place_in_class(path, kind, left, index, area, state)
                    if not left:
                        return count
        return count - left

    def _place_in_class(self, path: Path, kind: int, count: int, index: int, area: Area, state: PlacementState) -> int:
        ground = self.ground
        shape = index if self._pooled else ground.shape_of[index]
        self.budget.spend(4)
        left = limit = min(count, self._cell_room(kind, shape, state))
        bins = state.bins_of(index)
        if bins is None:
            number = self._counts[index] if self._pooled else ground.number(index)
            bins = (Bin(0, number, ground.shapes[shape].capacity, (0,) * ground.kinds),)
        if area.ordinal is not None:
            bins = split_bins(bins, area.ordinal)
        new: list[Bin] = []
        # Nodes with pods come first.
        for nodes in sorted(bins, key=lambda nodes: not any(nodes.taken)):
            self.budget.spend(2 + len(nodes.free) // 2)
            allowed = area.ordinal is None or nodes.start == area.ordinal
            fits = self._fits(kind, shape, nodes) if left and allowed else 0
            if not fits:
                new.append(nodes)
                continue
            for filled, pods in self._filled(nodes, kind, min(left, fits * nodes.number), fits):
                new.append(filled)
                if pods:
                    state.spots.append(Spot(path, index, filled.start, filled.number, pods))
                left -= filled.number * pods
        if left == limit:
            return 0
        state.bins[index] = tuple(new)
        for key, cell in enumerate(ground.shapes[shape].cells):
            if cell is not None and cell != OWN_VALUE:
                there = list(state.pods_in(key, cell) or (0,) * ground.kinds)
                there[kind] += limit - left
                state.cells[key, cell] = tuple(there)
        return limit - left

    def _filled(self, nodes: Bin, kind: int, pods: int, fits: int) -> Iterator[tuple[Bin, int]]:
        """Yields the nodes of a bin with pods on them, one node after the other, and how many pods each has got."""
        self.budget.spend(6)
        full, rest = divmod(pods, fits)
        requests = self.ground.requests[kind]
        start = nodes.start
        for number, each in ((full, fits), (1 if rest else 0, rest)):
            if number:
                free = tuple(have - each * request for have, request in zip(nodes.free, requests, strict=True))
                taken = tuple(there + each * (other == kind) for other, there in enumerate(nodes.taken))
                yield Bin(start, number, free, taken), each
                start += number
        if start < nodes.start + nodes.number:
            yield nodes._replace(start=start, number=nodes.start + nodes.number - start), 0

    def _fits(self, kind: int, shape: int, nodes: Bin) -> int:
        ground = self.ground
        row = ground.node_conflicts[shape][kind]
        if row and any(there and row >> other & 1 for other, there in enumerate(nodes.taken)):
            return 0
        fits = ground.floors[shape][kind] - nodes.taken[kind]
        for have, request in zip(nodes.free, ground.requests[kind], strict=True):
            if request:
                fits = min(fits, have // request)
        return max(fits, 0)

    def _cell_room(self, kind: int, shape: int, state: PlacementState) -> int:
        """Returns how many more pods of a kind may be where the labels of a shape are shared."""
        ground = self.ground
        room = sum(ground.floors_in(ground.whole))
        for key, cell in enumerate(ground.shapes[shape].cells):
            if cell is None or cell == OWN_VALUE:
                continue
            there = state.pods_in(key, cell) or (0,) * ground.kinds
            row = ground.conflicts.apart.get(ground.keys[key], (0,) * ground.kinds)[kind]
            if any(pods and row >> other & 1 for other, pods in enumerate(there)):
                return 0
            if (cap := ground.cell_caps(kind, key)) is not None:
                room = min(room, cap - there[kind])
        return max(room, 0)


def _ordinals(area: Area, state: PlacementState) -> Iterator[Area]:
    """Yields one node of a class for each way that its nodes are filled."""
    index = area.classes[0]
    starts = [nodes.start for nodes in state.bins_of(index) or ()] or [0]
    for start in starts if area.ordinal is None else (area.ordinal,):
        yield area.node(start)

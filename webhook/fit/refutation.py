"""Refutation: whether a part cannot be placed in an area, with the domains that it and its children need.

A required domain is refuted if each domain is. Equal children of a group that each need a domain are refuted if all
domains together have room for fewer of them. A choice is refuted if too few of its children can be placed alone, or if
the cheapest of them need too much.
"""

from __future__ import annotations

from typing import Any

from webhook.fit.budget import Budget
from webhook.fit.conditions import refused_by_subsets, simply_refused
from webhook.fit.domains import Domain, domains_in
from webhook.fit.ground import UNLIMITED, Area, Ground
from webhook.fit.parts import Item, Part, content_of, only, partitions_below
from webhook.fit.refusal import Refusal


class Refuter:
    """Refutes parts on one ground. `strong` also looks at all subsets of kinds."""

    def __init__(self, ground: Ground, budget: Budget, *, strong: bool) -> None:
        self.ground = ground
        self.budget = budget
        self.strong = strong
        # An area stands for itself, and stays as long as what is known of it.
        self._known: dict[tuple[Any, Area], Refusal | None] = {}

    def refused(self, part: Part, area: Area) -> Refusal | None:
        """Return why the part cannot be placed, or None if that is not shown."""
        if part.within is None:
            return self.refused_inside(part, area)
        key = part.key, area
        if key not in self._known:
            self._known[key] = self._refused_in_each(part, area)
        return self._known[key]

    def refused_inside(self, part: Part, area: Area) -> Refusal | None:
        """Return why the part cannot be placed in the area once that is its domain."""
        found = simply_refused(part, area, self.ground, self.budget)
        if found is None and self.strong:
            found = refused_by_subsets(part, area, self.ground, self.budget)
        if found is not None or part.kind >= 0:
            return found
        if part.chooses:
            return self._choice_refused(part, area)
        content = content_of(part)
        self.budget.spend(len(content.items) + len(content.choices))
        for item in content.items:
            if (found := self.refused(item.part, area) or self._too_many(item, area)) is not None:
                return found
        for _, choice in content.choices:
            if (found := self.refused_inside(choice, area)) is not None:
                return found
        return None

    def domains(self, part: Part, area: Area) -> tuple[Domain, ...]:
        """Return the domains that the part may choose from."""
        if part.within is None:
            return (Domain((area,), ("",), 1),)
        return tuple(domains_in(area, part.within, self.ground, partitions_below(part)))

    def _refused_in_each(self, part: Part, area: Area) -> Refusal | None:
        nearest: Refusal | None = None
        domains = self.domains(part, area)
        self.budget.spend(1)
        for domain in reversed(domains):
            found = self.refused_inside(part, domain.area)
            if found is None:
                return None
            found = Refusal("D", part, area, partition=part.within, domain=domain, inner=found)
            if nearest is None or nearness(found) > nearness(nearest):
                nearest = found
        return nearest or Refusal("D", part, area, partition=part.within)

    def _too_many(self, item: Item, area: Area) -> Refusal | None:
        """Equal children that each need a domain: the sum over the domains of how many each could have."""
        wanted = len(item.paths)
        if wanted == 1:
            return None
        there = 0
        domains = self.domains(item.part, area)
        # The largest first: mostly there is room enough.
        for domain in reversed(domains):
            self.budget.spend(1)
            there += min(domain.number, UNLIMITED) * self.copies(item.part, domain.area, wanted)
            if there >= wanted:
                return None
        nearest = domains[-1] if domains else None
        return Refusal("D", item.part, area, (), None, wanted, there, item.part.within, nearest)

    def copies(self, part: Part, area: Area, most: int) -> int:
        """Return how many times the part could be in the area, at most."""
        if self.refused_inside(part, area) is not None:
            return 0
        if part.vector is None:
            return most
        self.budget.spend(1)
        floors, totals = self.ground.floors_in(area), self.ground.totals_in(area)
        for pods, floor in zip(part.vector, floors, strict=True):
            if pods:
                most = min(most, floor // pods)
        for needed, there in zip(part.sums, totals, strict=True):
            if needed:
                most = min(most, there // needed)
        return most

    def _choice_refused(self, part: Part, area: Area) -> Refusal | None:
        dead, first = [], None
        self.budget.spend(len(part.children))
        for index, child in enumerate(part.children):
            if (found := self.refused(child.part, area)) is not None:
                dead.append(index)
                first = first or found
        placeable = self._placeable(part, frozenset(dead), area)
        if placeable < part.count:
            return Refusal("T", part, area, (), None, part.count, placeable, inner=first)
        left = only(part, frozenset(dead), self.ground) if dead else None
        if left is None:
            return None
        found = simply_refused(left, area, self.ground, self.budget)
        if found is None and self.strong:
            found = refused_by_subsets(left, area, self.ground, self.budget)
        return found

    def _placeable(self, part: Part, dead: frozenset[int], area: Area) -> int:
        """How many children could be placed, each sort of them alone."""
        total = 0
        for index, child in enumerate(part.children):
            if index in dead:
                continue
            most = len(child.indexes)
            if child.part.within is None:
                total += self.copies(child.part, area, most)
            else:
                domains = self.domains(child.part, area)
                self.budget.spend(len(domains))
                total += min(most, sum(one.number * self.copies(child.part, one.area, most) for one in domains))
        return total


def nearness(refusal: Refusal) -> tuple[float, int]:
    """Return how near a refusal is to none: larger is nearer. Only what is shown depends on it, never an answer."""
    inner = refusal.inner or refusal
    while inner.inner is not None:
        inner = inner.inner
    return (inner.there / inner.needed if inner.needed else 0.0), refusal.area.nodes

"""Remedies: what would make a gang fit, worked out on the same nodes: fewer pods, or a broader domain.

A remedy is named only if a placement was found with it. The work is bounded, so that none may be named though one is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from webhook.fit.amounts import counted
from webhook.fit.budget import Budget, OutOfStepsError
from webhook.fit.domains import domains_in
from webhook.fit.first_fit import ORDERS, FirstFit
from webhook.fit.ground import Area, Ground
from webhook.fit.packing import GroupNeed, Need, Partition, PodsNeed
from webhook.fit.parts import part_of, partitions_below
from webhook.fit.set_judgement import SetOutcome
from webhook.fit.verdict import Family, Witness
from webhook.fit.witnesses import no_node_admits

# What all remedies of a verdict may take together, and one of them.
_STEPS, _EACH = 2_500, 1_000
# In how many domains a broader partition is tried.
_LARGEST = 3

_OTHERWISE = {
    Family.NODE: "request less for each pod, or add nodes that are large enough and that the pods may use",
    Family.TOTAL: "lower the minimum of the gang, or add nodes",
    Family.TOPOLOGY: "lower the minimum of the gang, require a broader domain, or add nodes to a domain",
    Family.APART: "lower the minimum of the gang, relax what keeps its pods apart, or add nodes",
    Family.DEVICES: "request fewer devices, or add nodes that have them",
}


def remedy_for(witness: Witness, outcome: SetOutcome, ground: Ground) -> Witness:
    """Return the witness with its remedy."""
    trial = _Trial(outcome, ground)
    found = [one for one in (trial.fewer(witness), trial.broader()) if one]
    return replace(witness, remedy=", or ".join(found) or _otherwise(witness, outcome, ground))


def _otherwise(witness: Witness, outcome: SetOutcome, ground: Ground) -> str:
    if outcome.refusal is not None and witness.family is Family.NODE and no_node_admits(outcome.refusal, ground):
        return "change their node selector, affinity or tolerations, or add nodes that these admit"
    return _OTHERWISE.get(witness.family, "add nodes")


class _Trial:
    """Other needs, tried where the refused one came nearest to fit."""

    def __init__(self, outcome: SetOutcome, ground: Ground) -> None:
        self.need = outcome.part.need
        self.refusal = outcome.refusal
        self.ground = ground
        self.budget = Budget(_STEPS)

    def fewer(self, witness: Witness) -> str:
        """The most pods of a role, or the most children of a group, with which the rest still fits."""
        for name in witness.members[:2]:
            count = _pods_of(name, self.need)
            most = self._largest(min(count - 1, self._room_for(name)), partial(_with_pods, name, self.need))
            if most:
                return f"lower the minimum of {name} to {counted(most, 'pod')}"
        if isinstance(self.need, GroupNeed) and self.need.count > 1 and not witness.members:
            group = self.need
            most = self._largest(group.count - 1, lambda number: replace(group, count=number))
            if most:
                return f"lower the minimum of {group.name} from {group.count} to {most}"
        return ""

    def broader(self) -> str:
        """The broader domain, or none, with which the gang fits."""
        for partition in _partitions(self.need):
            if partition.broader is not None and self._fits(_within(self.need, partition, partition.broader)):
                return f"require one {partition.broader.named} instead of one {partition.named}"
            if self._fits(_within(self.need, partition, None)):
                return f"do not require one {partition.named}"
        return ""

    def _largest(self, most: int, changed: Callable[[int], Need]) -> int:
        """The largest number that fits, by halves: if one fits, fewer do. None does if not even one pod does. What the
        nodes have room for is often the answer, so it is tried early.
        """
        if most < 1 or not self._fits(changed(1)):
            return 0
        if most == 1 or self._fits(changed(most)):
            return most
        low, high = 1, most - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._fits(changed(middle)):
                low = middle
            else:
                high = middle - 1
        return low

    def _fits(self, need: Need) -> bool:
        """Whether first fit places the pods."""
        ground = self.ground
        part = part_of(need, ground)
        for area in self._areas(need):
            share = self.budget.share(_EACH)
            try:
                if FirstFit(ground, share, ORDERS[0]).fits(part, area):
                    return True
            except OutOfStepsError:
                return False
            finally:
                self.budget.left -= share.used
        return False

    def _room_for(self, name: str) -> int:
        """How many pods of a role there could be at most, if there were no others."""
        kind = self.ground.kind_of[name]
        return max((self.ground.floors_in(area)[kind] for area in self._areas(self.need)), default=0)

    def _areas(self, need: Need) -> list[Area]:
        """Where to try: in the domain that came nearest, or in some large ones if another partition is tried."""
        refusal = self.refusal
        if need.within is None:
            return [self.ground.whole]
        if refusal is not None and refusal.domain is not None and refusal.partition == need.within:
            return [refusal.domain.area]
        domains = domains_in(self.ground.whole, need.within, self.ground, partitions_below(part_of(need, self.ground)))
        return [one.area for one in sorted(domains, key=lambda one: -one.area.nodes)[:_LARGEST]]


def _partitions(need: Need) -> list[Partition]:
    own = [] if need.within is None else [need.within]
    if isinstance(need, PodsNeed):
        return own
    seen = {id(child): child for child in need.needs}
    below = [partition for child in seen.values() for partition in _partitions(child)]
    found: list[Partition] = []
    for partition in own + below:
        if partition not in found:
            found.append(partition)
    return found


def _within(need: Need, partition: Partition, other: Partition | None) -> Need:
    within = other if need.within == partition else need.within
    if isinstance(need, PodsNeed):
        return replace(need, within=within)
    return replace(need, within=within, needs=tuple(_within(child, partition, other) for child in need.needs))


def _pods_of(name: str, need: Need) -> int:
    """The pods of a role in the one place where it is needed, or none if there are several."""
    counts = _counts(name, need)
    return counts[0] if len(counts) == 1 else 0


def _counts(name: str, need: Need) -> list[int]:
    if isinstance(need, PodsNeed):
        return [need.count] if need.role.name == name else []
    return [count for child in need.needs for count in _counts(name, child)]


def _with_pods(name: str, need: Need, number: int) -> Need:
    if isinstance(need, PodsNeed):
        return replace(need, count=number) if need.role.name == name else need
    return replace(need, needs=tuple(_with_pods(name, child, number) for child in need.needs))

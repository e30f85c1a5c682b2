"""Remedies: what would make a gang fit, worked out on the same nodes: fewer pods, or a broader domain.

A remedy is named only if a placement was found with it. The work is bounded, so that none may be named though one is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from webhook.fit.amounts import counted
from webhook.fit.budget import Budget
from webhook.fit.ground import Ground
from webhook.fit.packing import GroupNeed, Need, Partition, PodsNeed
from webhook.fit.set_judgement import SetOutcome, judge_set
from webhook.fit.verdict import Family, Witness

# What all remedies of a verdict may take together, and one of them.
_STEPS, _EACH = 8_000, 2_500

_OTHERWISE = {
    Family.NODE: "request less for each pod, or add nodes that are large enough and that the pods may use",
    Family.TOTAL: "lower the minimum of the gang, or add nodes",
    Family.TOPOLOGY: "lower the minimum of the gang, require a broader domain, or add nodes to a domain",
    Family.APART: "lower the minimum of the gang, relax what keeps its pods apart, or add nodes",
    Family.DEVICES: "request fewer devices, or add nodes that have them",
}


def remedy_for(witness: Witness, outcome: SetOutcome, ground: Ground) -> Witness:
    """Return the witness with its remedy."""
    budget = Budget(_STEPS)
    need = outcome.part.need
    found = [one for one in (_fewer(witness, need, ground, budget), _broader(need, ground, budget)) if one]
    return replace(witness, remedy=", or ".join(found) or _OTHERWISE.get(witness.family, "add nodes"))


def _fits(need: Need, ground: Ground, budget: Budget) -> bool:
    share = budget.share(_EACH)
    fits = judge_set(need, ground, share).spots is not None
    budget.left -= share.used
    return fits


def _fewer(witness: Witness, need: Need, ground: Ground, budget: Budget) -> str:
    """The most pods of a role, or the most children of a group, with which the rest still fits."""
    for name in witness.members[:1]:
        count = _pods_of(name, need)
        most = _largest(count - 1, lambda number: _fits(_with_pods(name, number, need), ground, budget))  # noqa: B023
        if most:
            return f"lower the minimum of {name} to {counted(most, 'pod')}"
    if isinstance(need, GroupNeed) and need.count > 1:
        most = _largest(need.count - 1, lambda number: _fits(replace(need, count=number), ground, budget))
        if most:
            return f"lower the minimum of {need.name} from {need.count} to {most}"
    return ""


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number that fits, by halves: if one fits, fewer do."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _broader(need: Need, ground: Ground, budget: Budget) -> str:
    """The broader domain, or none, with which the gang fits."""
    required = _partitions(need)
    for partition in required:
        if partition.broader is not None and _fits(_within(need, partition, partition.broader), ground, budget):
            return f"require one {partition.broader.named} instead of one {partition.named}"
        if _fits(_within(need, partition, None), ground, budget):
            return f"do not require one {partition.named}"
    return ""


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


def _with_pods(name: str, number: int, need: Need) -> Need:
    if isinstance(need, PodsNeed):
        return replace(need, count=number) if need.role.name == name else need
    return replace(need, needs=tuple(_with_pods(name, number, child) for child in need.needs))

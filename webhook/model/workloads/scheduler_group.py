"""SchedulerGroups: the groups that a scheduler itself makes of the pods of a workload, as trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from webhook.model.workloads.workload import Part


@dataclass(frozen=True, slots=True)
class SchedulerGroup:
    """A group of pods, or of the groups `below` it. It starts with `minimum` of its `pods`.

    `needed` of the groups below must have their minimum; all of them without a number. A leaf has the pods of one
    `part`. `more` counts further equal groups, `last` is the name of the last one. `waits_for` is what has pods before
    this group has some.
    """

    name: str
    pods: int
    minimum: int
    part: Part | None = None
    needed: int | None = None
    required: str | None = None
    preferred: str | None = None
    waits_for: str | None = None
    more: int = 0
    last: str | None = None
    below: tuple[SchedulerGroup, ...] = ()


class SchedulerGroups(NamedTuple):
    """The groups of a workload. Without groups, `why` says why the scheduler makes none, or why they are not known."""

    groups: tuple[SchedulerGroup, ...]
    why: str = ""


def group_of(
    name: str,
    below: tuple[SchedulerGroup, ...],
    needed: int | None = None,
    domains: tuple[str | None, str | None] = (None, None),
) -> SchedulerGroup:
    """The group that needs `needed` of the groups below it, those with the fewest pods, or all of them. `domains` are
    those that it requires and prefers.
    """
    pods = sum(group.pods * (1 + group.more) for group in below)
    if needed is None or needed >= len(below):
        return SchedulerGroup(
            name, pods, sum(group.minimum * (1 + group.more) for group in below), None, None, *domains, below=below
        )
    minimum = sum(sorted(group.minimum for group in below)[: max(needed, 0)])
    return SchedulerGroup(name, pods, minimum, None, needed, *domains, below=below)

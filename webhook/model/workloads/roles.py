"""Workloads that make a LeaderWorkerSet for each of their roles, as a DisaggregatedSet does.

Such a workload serves nothing before each role has a group. So the first groups of all roles are one gang, and each
further group is a gang of its own. A rollout makes new LeaderWorkerSets beside the old ones, and their first groups are
another gang. Source: kubernetes-sigs/lws v0.9, pkg/controllers/disaggregatedset: the planner's first step gives each
role of the new revision at least one group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.model.reading import integer, mapping, text

# On the workload: how many groups of which role start together, such as "prefill=2,decode=1"; one of a role without an
# entry.
GROUPS_TOGETHER = "rollcall.dev/groups-together"
# A larger number is not counted: all members of a gang are in one object.
MOST_TOGETHER = 64
# Roles that are read. A DisaggregatedSet has at most ten.
_MOST_ROLES = 16
_PERCENT = re.compile(r"([0-9]{1,3})%")
_ENTRY = re.compile(r"\s*([a-z0-9]([-a-z0-9]*[a-z0-9])?)=([1-9][0-9]?)\s*")


class Stated(NamedTuple):
    """One entry of the annotation: the number of groups of a role, None if the entry says none."""

    entry: str
    role: str
    groups: int | None


def stated(annotations: Mapping[str, Any]) -> Iterator[Stated]:
    """What the annotation says, entry by entry."""
    said = text(annotations.get(GROUPS_TOGETHER))
    if said is None:
        return
    for entry in said.split(",", _MOST_ROLES)[:_MOST_ROLES]:
        found = _ENTRY.fullmatch(entry)
        groups = None if found is None else int(found[3])
        yield Stated(entry, found[1] if found else "", groups if groups and groups <= MOST_TOGETHER else None)


def together_in(annotations: Mapping[str, Any]) -> Mapping[str, int]:
    """By role, how many of its groups start together."""
    return {one.role: one.groups for one in stated(annotations) if one.groups is not None}


def groups_together(role: str, together: Mapping[str, int]) -> int:
    """How many groups of a role start together."""
    return together.get(role, 1)


def shared_name(leader_worker_set: str, role: str) -> str:
    """The gang of the first groups: the name of any of the LeaderWorkerSets without its role, which is at its end."""
    return leader_worker_set.removesuffix(f"-{role}")


def group_name(leader_worker_set: str, index: int) -> str:
    """The member of that gang for one group."""
    return f"{leader_worker_set}-{index}"


def surge_of(spec: Mapping[str, Any], groups: int) -> int:
    """How many groups one step of a rollout makes, from the spec of a LeaderWorkerSet: maxSurge, or maxUnavailable."""
    stated = mapping(mapping(spec.get("rolloutStrategy")).get("rollingUpdateConfiguration"))
    surge = _scaled(stated.get("maxSurge"), groups, up=True)
    return max(surge or _scaled(stated.get("maxUnavailable"), groups, up=False), 1)


def _scaled(value: object, groups: int, *, up: bool) -> int:
    """A number, or a percentage of `groups`."""
    if not isinstance(value, str):
        return integer(value) or 0
    percent = _PERCENT.fullmatch(value)
    if percent is None:
        return 0
    share = int(percent[1]) * groups
    return -(-share // 100) if up else share // 100

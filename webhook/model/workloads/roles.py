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

from webhook.model.reading import plain_object, text

# On the workload: how many groups of which role start together, such as "prefill=2,decode=1"; one of a role without an
# entry.
GROUPS_TOGETHER = "rollcall.dev/groups-together"
# A larger number is not counted: all members of a gang are in one object.
MOST_TOGETHER = 64
# Entries that are read. A DisaggregatedSet has at most ten roles.
_MOST_ENTRIES = 16
_PERCENT = re.compile(r"([0-9]{1,3})%")
_ENTRY = re.compile(r"\s*([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)=([1-9][0-9]?)\s*")


class GroupsEntry(NamedTuple):
    """One entry of the annotation. Without `groups` it does not count, because of `why`."""

    entry: str
    role: str = ""
    groups: int | None = None
    why: str = ""


def entries_of(annotations: Mapping[str, Any]) -> Iterator[GroupsEntry]:
    """What the annotation says, entry by entry."""
    said = text(annotations.get(GROUPS_TOGETHER))
    if said is None:
        return
    entries, seen = said.split(",", _MOST_ENTRIES), set[str]()
    for entry in entries[:_MOST_ENTRIES]:
        found = _ENTRY.fullmatch(entry)
        if found is None or int(found[2]) > MOST_TOGETHER:
            yield GroupsEntry(entry, why=f"it is not ROLE=NUMBER with a number from 1 to {MOST_TOGETHER}")
        elif found[1] in seen:
            yield GroupsEntry(entry, why="the role has an entry already")
        else:
            seen.add(found[1])
            yield GroupsEntry(entry, found[1], int(found[2]))
    for entry in entries[_MOST_ENTRIES:]:
        yield GroupsEntry(entry, why=f"only {_MOST_ENTRIES} entries are read")


def together_in(annotations: Mapping[str, Any]) -> Mapping[str, int]:
    """By role, how many of its groups start together."""
    return {one.role: one.groups for one in entries_of(annotations) if one.groups is not None}


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
    stated = plain_object(plain_object(spec.get("rolloutStrategy")).get("rollingUpdateConfiguration"))
    surge = _scaled(stated.get("maxSurge"), groups, up=True)
    return max(surge or _scaled(stated.get("maxUnavailable"), groups, up=False), 1)


def _scaled(value: object, groups: int, *, up: bool) -> int:
    """A number, or a percentage of `groups`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if percent is None:
        return 0
    share = int(percent[1]) * groups
    return -(-share // 100) if up else share // 100

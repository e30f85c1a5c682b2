"""A PodGroup's subgroups as kai-scheduler reads them. Subgroups with children are sets, which count groups; subgroups
without children are leaves, which count pods. A PodGroup without subgroups is one leaf.

Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info (2026-08).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.reading import integer, mapping, sequence, text


class SubGroup(NamedTuple):
    """One subgroup; the root of the tree has no name. `pods` is its minMember, `groups` its minSubGroup."""

    name: str
    parent: str | None
    pods: int | None
    groups: int | None
    topology: Mapping[str, Any] | None
    path: FieldPath

    @property
    def states_both(self) -> bool:
        """Whether it states a minimum of pods and one of groups."""
        return bool(self.pods) and self.groups is not None


class Tree:
    """The subgroups of one PodGroup by name, and the children of each."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        """Raises `Malformed`."""
        self.root = _subgroup(spec, "", None, SPEC)
        self.by_name: dict[str, SubGroup] = {}
        self.below: dict[str, list[SubGroup]] = {}
        # Those whose name an earlier one has.
        self.twins: list[SubGroup] = []
        for index, raw in enumerate(sequence(spec.get("subGroups"))):
            found = mapping(raw)
            name, parent = text(found.get("name")) or "", text(found.get("parent"))
            group = _subgroup(found, name, parent, SPEC / "subGroups" / Item(index, name))
            if name in self.by_name:
                self.twins.append(group)
            self.by_name[name] = group
            self.below.setdefault(parent or "", []).append(group)

    @property
    def sets(self) -> list[SubGroup]:
        """The subgroups with children, and the root if it has children."""
        return [group for group in (self.root, *self.by_name.values()) if group.name in self.below]

    @property
    def leaves(self) -> list[SubGroup]:
        """The leaves, which pods belong to."""
        return [group for group in self.by_name.values() if group.name not in self.below]

    @property
    def minimums(self) -> dict[str, int]:
        """The minimum of each leaf. A PodGroup without subgroups needs one pod if it states no minimum."""
        if not self.by_name:
            return {"": 1 if self.root.pods is None else self.root.pods}
        return {leaf.name: leaf.pods or 0 for leaf in self.leaves}

    def demanding(self) -> set[str]:
        """The sets that have, at any depth, a leaf that needs pods."""
        found: set[str] = set()
        for leaf in self.leaves:
            above = leaf.parent or ""
            # If a set is already in the result, its ancestors are as well.
            while leaf.pods and above not in found and (not above or above in self.by_name):
                found.add(above)
                above = (self.by_name[above].parent or "") if above else ""
        return found

    def lost(self) -> set[str]:
        """The subgroups that cannot be reached from the root: their parent is missing, or they are in a cycle."""
        reached: set[str] = set()
        waiting = [""]
        while waiting:
            for group in self.below.get(waiting.pop(), ()):
                if group.name not in reached:
                    reached.add(group.name)
                    waiting.append(group.name)
        return self.by_name.keys() - reached


def _subgroup(raw: Mapping[str, Any], name: str, parent: str | None, path: FieldPath) -> SubGroup:
    topology = raw.get("topologyConstraint")
    return SubGroup(
        name,
        parent,
        integer(raw.get("minMember")),
        integer(raw.get("minSubGroup")),
        None if topology is None else mapping(topology),
        path,
    )

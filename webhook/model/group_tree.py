"""Trees of pod groups in the Workload API: the facts about each PodGroup, CompositePodGroup and Workload, and their
parents and children.

A tree is walked up from any of its groups, and down through its composites. It is never walked over all its leaves,
because a namespace may have thousands. Source: k8s.io/api scheduling (1.35 to 1.37), KEP-6012.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from webhook.model.disruption import Disruption
from webhook.model.indexed import Indexed, Overlay
from webhook.model.keys import ObjectKey, SharedClaim
from webhook.model.projections import Resource

# The levels of a tree, including its leaves, that a Workload can declare (WorkloadMaxTreeDepth, k8s.io/api
# scheduling/v1beta1).
MAX_DEPTH = 4


class Trees(NamedTuple):
    """The kind of groups that can form a tree, and the spec field that names a group's parent."""

    resource: Resource
    parent: str


@dataclass(frozen=True, slots=True)
class Group:
    """A PodGroup or a CompositePodGroup, or a template of one. `minimum` is the number of pods, or child groups, that
    it starts with; None for a group that is not a gang. `workload` and `template` name what it was made from.
    `preemption` is its preemption policy, and `claims` has the first of its claims, up to a limit.
    """

    composite: bool
    minimum: int | None
    parent: str | None = None
    workload: str | None = None
    template: str | None = None
    disruption: Disruption = Disruption.SINGLE
    topology: str | None = None
    priority_class: str | None = None
    priority: int | None = None
    preemption: str | None = None
    claims: tuple[SharedClaim, ...] = ()


class Workload(NamedTuple):
    """A Workload's templates by name; the `parent` of each names the template above it."""

    templates: Mapping[str, Group]

    def below(self, name: str) -> int:
        """The number of templates directly below a template."""
        return sum(template.parent == name for template in self.templates.values())


class Groups(Indexed[ObjectKey, Group]):
    """Groups by namespace and name, indexed by their parent as well, whether the parent exists or not."""

    @staticmethod
    def terms(key: ObjectKey, value: Group) -> Iterable[Hashable]:
        """The parent of the group."""
        return () if value.parent is None else ((key[0], value.parent),)

    def below(self, parent: ObjectKey) -> Iterable[ObjectKey]:
        """The groups directly below a group, whether that group exists or not."""
        return self.having(parent)

    def overlaid(self, changes: Mapping[ObjectKey, Group | None]) -> Groups:
        """These groups with some of them changed (None for a removed one), without a copy. So one live read costs the
        same no matter how many groups are known.
        """
        return _Overlaid(self, changes)


class _Overlaid(Overlay[ObjectKey, Group], Groups):
    """Groups with a few changes."""


def ancestors(key: ObjectKey, group: Group, composites: Mapping[ObjectKey, Group]) -> Iterator[tuple[ObjectKey, Group]]:
    """The known ancestors of a group, nearest first, up to the greatest height of a tree, so that the walk also ends in
    a cycle. The last one may be the group itself, which is then its own ancestor.
    """
    for _ in range(MAX_DEPTH):
        if group.parent is None:
            return
        above = (key[0], group.parent)
        found = composites.get(above)
        if found is None:
            return
        yield above, found
        group = found

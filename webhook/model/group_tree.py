"""Groups of pods in trees, as the Workload API has them: what is known of each PodGroup, CompositePodGroup and
Workload, and who is below whom.

A tree is followed from any of its groups up, and down by its composites: never over all its leaves, of which a
namespace may have thousands. Source: k8s.io/api scheduling (1.35 to 1.37), KEP-6012.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from webhook.model.indexed import Indexed, Overlay
from webhook.model.keys import ObjectKey

# Levels of a tree, its leaves included, that a Workload can declare (WorkloadMaxTreeDepth, k8s.io/api
# scheduling/v1beta1).
MAX_DEPTH = 4


class Disruption(StrEnum):
    """How pods of a group may be disrupted: each by itself, or only all of them."""

    SINGLE = "single"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Group:
    """A PodGroup or a CompositePodGroup, or a template of one. `minimum` is how many pods, or groups below, it starts
    with; None for a group that is no gang. `workload` and `template` are what it says it was made from.
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


@dataclass(frozen=True, slots=True)
class Workload:
    """A Workload's templates by name; `parent` of each is the template above it."""

    templates: Mapping[str, Group]

    def below(self, name: str) -> int:
        """How many templates are right below one."""
        return sum(template.parent == name for template in self.templates.values())


class Groups(Indexed[ObjectKey, Group]):
    """Groups by namespace and name, found by the group above them as well, whether that is there or not."""

    @staticmethod
    def terms(key: ObjectKey, value: Group) -> Iterable[Hashable]:
        """The group above it."""
        return () if value.parent is None else ((key[0], value.parent),)

    def below(self, parent: ObjectKey) -> Iterable[ObjectKey]:
        """The groups right below one, whether that is there or not."""
        return self.having(parent)

    def overlaid(self, changes: Mapping[ObjectKey, Group | None]) -> Groups:
        """These groups with some of them changed, None for one that is gone; without a copy, so that one live read
        costs the same however many groups are known.
        """
        return _Overlaid(self, changes)


class _Overlaid(Overlay[ObjectKey, Group], Groups):
    """Groups as they were, but for a few."""


def ancestors(key: ObjectKey, group: Group, composites: Mapping[ObjectKey, Group]) -> Iterator[tuple[ObjectKey, Group]]:
    """The groups above one, from the nearest, as far as they are known: no further than a tree may be high, so that a
    cycle ends as well. The last may be the one that was asked about, which then is its own ancestor.
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

"""Koordinator's PodGroups as they refer to each other: each lists those that it starts together with, its GangGroup.

Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go, apis/extension/network_topology.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import dataclass

from webhook.model.bounds import is_cut
from webhook.model.indexed import Indexed, Overlay
from webhook.model.keys import ObjectKey


@dataclass(frozen=True, slots=True, order=True)
class GatherRule:
    """One entry of a network-topology-spec's `gatherStrategy`."""

    layer: str
    strategy: str
    pod_count_multiple: int


@dataclass(frozen=True, slots=True)
class KoordinatorPodGroup:
    """A PodGroup as koord-scheduler reads it. `groups` are the ids (`namespace/name`) of its GangGroup, sorted, as
    `list_kept` keeps them: its own alone where it lists none that can be read. `topology` is None where it has none
    that can be read.
    """

    minimum: int
    groups: tuple[str, ...]
    topology: tuple[GatherRule, ...] | None = None


class KoordinatorPodGroups(Indexed[ObjectKey, KoordinatorPodGroup]):
    """PodGroups by namespace and name, found by the ids that they list as well: kept, not searched."""

    @staticmethod
    def terms(key: ObjectKey, value: KoordinatorPodGroup) -> Iterable[Hashable]:
        """The ids of the others that it lists, those of other namespaces apart, and the namespace of one whose list is
        too long to keep.
        """
        cut = {_too_long_in(key[0])} if is_cut(value.groups) else set()
        home = f"{key[0]}/"
        return {id_ if id_.startswith(home) else _abroad(id_) for id_ in value.groups} - {gang_id(key)} | cut

    def listing(self, key: ObjectKey) -> Set[ObjectKey]:
        """The other PodGroups of its namespace that list this one, whether it is there or not."""
        return self.having(gang_id(key))

    def listing_from_abroad(self, key: ObjectKey) -> Set[ObjectKey]:
        """The PodGroups of other namespaces that list this one, whether it is there or not."""
        return self.having(_abroad(gang_id(key)))

    def too_long(self, namespace: str) -> Set[ObjectKey]:
        """The PodGroups of a namespace that may list others than are known."""
        return self.having(_too_long_in(namespace))

    def overlaid(self, changes: Mapping[ObjectKey, KoordinatorPodGroup | None]) -> KoordinatorPodGroups:
        """These PodGroups with some of them changed, None for one that is gone; without a copy."""
        return _Overlaid(self, changes)


class _Overlaid(Overlay[ObjectKey, KoordinatorPodGroup], KoordinatorPodGroups):
    """PodGroups as they were, but for a few."""


def _abroad(listed: str) -> Hashable:
    return "abroad", listed


def _too_long_in(namespace: str) -> Hashable:
    return "too long", namespace


def gang_id(key: ObjectKey) -> str:
    """What koord-scheduler calls a gang."""
    return "/".join(key)

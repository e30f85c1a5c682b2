"""Koordinator's PodGroups and their references: each lists the PodGroups that it starts together with, its GangGroup.

Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go, apis/extension/network_topology.go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

from webhook.model.bounds import is_cut
from webhook.model.indexed import Indexed, Overlay
from webhook.model.keys import ObjectKey


@dataclass(frozen=True, slots=True, order=True)
class GatherRule:
    """One entry of a network-topology-spec's `gatherStrategy`."""

    layer: str
    strategy: str
    pod_count_multiple: int


class KoordinatorPodGroup(NamedTuple):
    """A PodGroup as koord-scheduler reads it. `groups` are the ids (`namespace/name`) of its GangGroup, sorted, as
    `list_kept` keeps them; only its own id if it lists none that can be read. `topology` is None if it has none that
    can be read.
    """

    minimum: int
    groups: tuple[str, ...]
    topology: tuple[GatherRule, ...] | None = None


class KoordinatorPodGroups(Indexed[ObjectKey, KoordinatorPodGroup]):
    """PodGroups by namespace and name, indexed by the ids that they list, so that no search is needed."""

    @staticmethod
    def terms(key: ObjectKey, value: KoordinatorPodGroup) -> Iterable[Hashable]:
        """The ids of the others that it lists, separately for its own and for other namespaces, and the namespace of
        one whose list is too long to keep.
        """
        cut = {_too_long_in(key[0])} if is_cut(value.groups) else set()
        home = f"{key[0]}/"
        return {id_ if id_.startswith(home) else _abroad(id_) for id_ in value.groups} - {gang_id(key)} | cut

    def listing(self, key: ObjectKey) -> Set[ObjectKey]:
        """The other PodGroups of its namespace that list this one, whether this one exists or not."""
        return self.having(gang_id(key))

    def listing_from_abroad(self, key: ObjectKey) -> Set[ObjectKey]:
        """The PodGroups of other namespaces that list this one, whether this one exists or not."""
        return self.having(_abroad(gang_id(key)))

    def too_long(self, namespace: str) -> Set[ObjectKey]:
        """The PodGroups of a namespace whose lists are too long to keep and may name further gangs."""
        return self.having(_too_long_in(namespace))

    def overlaid(self, changes: Mapping[ObjectKey, KoordinatorPodGroup | None]) -> KoordinatorPodGroups:
        """These PodGroups with some of them changed (None for a removed one), without a copy."""
        return _Overlaid(self, changes)


class _Overlaid(Overlay[ObjectKey, KoordinatorPodGroup], KoordinatorPodGroups):
    """PodGroups with a few changes."""


def _abroad(listed: str) -> Hashable:
    return "abroad", listed


def _too_long_in(namespace: str) -> Hashable:
    return "too long", namespace


def gang_id(key: ObjectKey) -> str:
    """The id of a gang in koord-scheduler."""
    return "/".join(key)

"""Koordinator's PodGroups as they refer to each other: each lists those that it starts together with, its GangGroup.

Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go, apis/extension/network_topology.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook.model.facts import ObjectKey


@dataclass(frozen=True, slots=True, order=True)
class GatherRule:
    """One entry of a network-topology-spec's `gatherStrategy`."""

    layer: str
    strategy: str
    pod_count_multiple: int


@dataclass(frozen=True, slots=True)
class KoordinatorPodGroup:
    """A PodGroup as koord-scheduler reads it. `groups` are the ids (`namespace/name`) of its GangGroup, sorted: its own
    alone where it lists none that can be read. `topology` is None where it has none that can be read.
    """

    minimum: int
    groups: tuple[str, ...]
    topology: tuple[GatherRule, ...] | None = None


class KoordinatorPodGroups(dict[ObjectKey, KoordinatorPodGroup]):
    """PodGroups by namespace and name, and for each id those that list it: kept, not searched.

    What lists an id is a tuple, never changed: a decision that learns of one more PodGroup works on a copy of all, and
    that copies two dicts and nothing in them.
    """

    def __init__(self, known: Mapping[ObjectKey, KoordinatorPodGroup] | None = None) -> None:
        super().__init__()
        self._listing: dict[str, tuple[ObjectKey, ...]] = {}
        if isinstance(known, KoordinatorPodGroups):
            super().update(known)
            self._listing = dict(known._listing)
        else:
            self.update(known or {})

    def __setitem__(self, key: ObjectKey, group: KoordinatorPodGroup) -> None:
        self._forget(key)
        super().__setitem__(key, group)
        for member in {*group.groups} - {gang_id(key)}:
            self._listing[member] = (*self._listing.get(member, ()), key)

    def __delitem__(self, key: ObjectKey) -> None:
        self._forget(key)
        super().__delitem__(key)

    def update(self, *known: Any, **_: Any) -> None:
        """Add all of these."""
        for found in known:
            for key, group in dict(found).items():
                self[key] = group

    def pop(self, key: ObjectKey, *default: Any) -> Any:
        """Remove a PodGroup, and return it."""
        self._forget(key)
        return super().pop(key, *default)

    def listing(self, key: ObjectKey) -> tuple[ObjectKey, ...]:
        """The other PodGroups that list this one, whether it is there or not."""
        return self._listing.get(gang_id(key), ())

    def _forget(self, key: ObjectKey) -> None:
        before = self.get(key)
        for member in () if before is None else {*before.groups} - {gang_id(key)}:
            left = tuple(other for other in self._listing[member] if other != key)
            if left:
                self._listing[member] = left
            else:
                del self._listing[member]


def gang_id(key: ObjectKey) -> str:
    """What koord-scheduler calls a gang."""
    return "/".join(key)

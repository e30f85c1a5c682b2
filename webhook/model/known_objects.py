"""What is kept of single objects of the cluster: the little that rules need of each.

`ClusterFacts` holds them by kind; projections make them of plain objects.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from webhook.model.indexed import Indexed
from webhook.model.keys import Api, ObjectKey


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace's labels, among them the choice of scheduler and the enforcement mode. Of very many only some are
    kept, and always those of Rollcall.
    """

    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PodGangFacts:
    """A PodGang in the cluster: its PodCliqueSet, and the names of its members; None for more than are kept."""

    workload: str
    cliques: frozenset[str] | None = frozenset()


class PodGangs(Indexed[ObjectKey, PodGangFacts]):
    """PodGangs by namespace and name, found by their PodCliqueSet as well: a cluster has many for each review."""

    @staticmethod
    def terms(key: ObjectKey, value: PodGangFacts) -> Iterable[Hashable]:
        """The namespace and name of its PodCliqueSet."""
        return ((key[0], value.workload),)

    def of_set(self, key: ObjectKey) -> Iterable[ObjectKey]:
        """Those of a PodCliqueSet."""
        return self.having(key)


@dataclass(frozen=True, slots=True)
class Quota:
    """A Koordinator ElasticQuota. Only a leaf takes pods. Which of two that have one name counts is told by where and
    since when they are there.
    """

    is_parent: bool
    namespace: str = field(default="", compare=False)
    created: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class TopologyBinding:
    """A Grove ClusterTopologyBinding: the node label key of each domain, broadest first, and for the schedulers whose
    topology is kept by somebody else the name of that object.
    """

    keys: Mapping[str, str]
    references: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopologyLayer:
    """One entry of a ClusterNetworkTopology's spec."""

    name: str
    parent: str | None
    label_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A PriorityClass, by what it gives a pod."""

    value: int
    is_default: bool
    preemption_policy: str = "PreemptLowerPriority"


@dataclass(frozen=True, slots=True)
class VolcanoQueue:
    """A Volcano Queue. A fresh one has no state until Volcano's controller has seen it."""

    parent: str | None
    state: str | None


@dataclass(frozen=True, slots=True)
class HyperNode:
    """A Volcano HyperNode: the smaller the tier, the closer its nodes."""

    tier: int
    tier_name: str | None


@dataclass(frozen=True, slots=True)
class KaiQueue:
    """A KAI Queue. Its labels say which node pool it is of, under a key that the administrator chose; of a queue with
    more than are kept it is not known which others it has.
    """

    parent: str | None
    labels: Mapping[str, str] = field(default_factory=dict)
    has_more_labels: bool = False


class QueueTree(Indexed[str, Any]):
    """Queues by name, found by their parent as well, whether that is there or not."""

    _leaves: list[str] | None = None

    @staticmethod
    def terms(_: str, value: Any) -> Iterable[Hashable]:
        """Its parent."""
        return (value.parent,)

    @property
    def leaves(self) -> list[str]:
        """Those without children, sorted: once between two changes, and not for each that names a wrong queue."""
        if self._leaves is None:
            self._leaves = sorted(self.keys() - self.every_term)
        return self._leaves

    def _forget(self, key: str) -> None:
        self._leaves = None
        super()._forget(key)


class HyperNodes(Indexed[str, HyperNode]):
    """HyperNodes by name, found by their tier and by its name as well: a cluster may have one for each of its nodes."""

    @staticmethod
    def terms(_: str, value: HyperNode) -> Iterable[Hashable]:
        """Its tier, and what that is called."""
        return (value.tier,) if value.tier_name is None else (value.tier, (value.tier_name, value.tier))

    @property
    def tiers(self) -> list[int]:
        """The tiers that there are, the closest first."""
        return sorted(term for term in self.every_term if isinstance(term, int))

    def tiers_named(self, name: str) -> set[int]:
        """The tiers that bear a name."""
        return {term[1] for term in self.every_term if isinstance(term, tuple) and term[0] == name}


class ElasticQuotas(dict[str, Quota]):
    """ElasticQuotas by name, whatever their namespace. Of those that have one name the oldest counts."""

    def __setitem__(self, name: str, quota: Quota) -> None:
        before = self.get(name)
        if before is None or before.namespace == quota.namespace or _age(quota) < _age(before):
            super().__setitem__(name, quota)

    def update(self, *known: Any, **_: Any) -> None:
        """Add all of these."""
        for found in known:
            for name, quota in dict(found).items():
                self[name] = quota

    def overlaid(self, changes: Mapping[str, Quota | None]) -> ElasticQuotas:
        """These with some read anew, None for one that is gone."""
        found = ElasticQuotas()
        found.update({name: quota for name, quota in self.items() if name not in changes})
        found.update({name: quota for name, quota in changes.items() if quota is not None})
        return found


def _age(quota: Quota) -> tuple[str, str]:
    # RFC 3339 in UTC, as the API server writes it: the order of the texts is that of the times.
    return quota.created, quota.namespace


class KaiLevels(tuple[str, ...]):
    """The levels of a KAI Topology, as node label keys, broadest first; `aliases` are other names of some of them."""

    aliases: Mapping[str, str]

    def __new__(cls, keys: Iterable[str], aliases: Mapping[str, str] = MappingProxyType({})) -> KaiLevels:
        """Levels with these keys; each alias says the key that it stands for."""
        found = super().__new__(cls, keys)
        found.aliases = aliases
        return found


@dataclass(frozen=True, slots=True)
class QueuedGroup:
    """A PodGroup of KAI or Volcano: the Queue that it is in."""

    queue: str | None


class QueuedGroups(Indexed[ObjectKey, QueuedGroup]):
    """PodGroups by namespace and name, found by their bare name and by their queue as well."""

    @staticmethod
    def terms(key: ObjectKey, value: QueuedGroup) -> Iterable[Hashable]:
        """Its name and its queue."""
        return (("name", key[1]), ("queue", value.queue))

    def called(self, name: str) -> Iterable[ObjectKey]:
        """Those of that name, in any namespace."""
        return self.having(("name", name))

    def in_queue(self, queue: str) -> Iterable[ObjectKey]:
        """Those in a queue."""
        return self.having(("queue", queue))


class SpecField(NamedTuple):
    """A field of a kind's spec that a scheduler's backend writes, and `since` when there is one, in words.

    An API server whose CRD is older drops it in silence.
    """

    api: Api
    name: str
    since: str

    def __str__(self) -> str:
        return f"{self.api} spec.{self.name}"

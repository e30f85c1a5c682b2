"""The values that are kept of single objects of a cluster, and the mappings with indexes that hold them.

`ClusterFacts` has them by kind; projections make them from plain objects. `Indexed` finds entries by a common
property, such as a parent or a queue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from webhook.model.keys import Api, ObjectKey
from webhook.model.quantity import Amounts, nothing_stated

K = TypeVar("K")
V = TypeVar("V")


class Indexed(dict[K, V], Generic[K, V]):
    """A dict with an index. A subclass defines by `terms` the index terms of an entry."""

    def __init__(self, entries: Mapping[K, V] | None = None) -> None:
        super().__init__()
        # By term: the keys that have it. A tuple of the only key, as most terms have, takes a third of a dict. A dict
        # instead of a set, so that the keys stay in insertion order.
        self._keys: dict[Hashable, tuple[K] | dict[K, None]] = {}
        self.update(entries or {})

    @staticmethod
    def terms(key: Any, value: Any) -> Iterable[Hashable]:
        """Returns the index terms of an entry."""
        raise NotImplementedError

    def having(self, term: Hashable) -> Set[K]:
        """Returns the keys of the entries that have a term."""
        keys = self._keys.get(term, ())
        return (keys if isinstance(keys, dict) else dict.fromkeys(keys)).keys()

    @property
    def every_term(self) -> Set[Hashable]:
        return self._keys.keys()

    def __setitem__(self, key: K, value: V) -> None:
        self._forget(key)
        super().__setitem__(key, value)
        for term in self.terms(key, value):
            keys = self._keys.get(term)
            if keys is None:
                self._keys[term] = (key,)
            elif isinstance(keys, dict):
                keys[key] = None
            elif keys != (key,):
                self._keys[term] = {keys[0]: None, key: None}

    def __delitem__(self, key: K) -> None:
        self._forget(key)
        super().__delitem__(key)

    def update(self, *sources: Any, **_: Any) -> None:
        for source in sources:
            for key, value in dict(source).items():
                self[key] = value

    def pop(self, key: K, *default: Any) -> Any:
        """Removes an entry, and returns it."""
        self._forget(key)
        return super().pop(key, *default)

    def _forget(self, key: K) -> None:
        if key not in self:
            return
        for term in self.terms(key, self[key]):
            keys = self._keys[term]
            if isinstance(keys, dict):
                del keys[key]
            if not isinstance(keys, dict) or not keys:
                del self._keys[term]


class Overlay(Indexed[K, V]):
    """Entries with a few changes. It supports only what rules ask for: an entry by its key, and the keys of a term."""

    def __init__(self, base: Indexed[K, V], changes: Mapping[K, V | None]) -> None:
        """`changes` has None for a removed entry."""
        self._base = base
        self._changed = frozenset(changes)
        super().__init__({key: value for key, value in changes.items() if value is not None})

    def having(self, term: Hashable) -> Set[K]:
        """Returns the keys of the entries that have a term."""
        before = (key for key in self._base.having(term) if key not in self._changed)
        return dict.fromkeys((*super().having(term), *before)).keys()

    def get(self, key: K, default: Any = None) -> Any:
        """Returns one entry."""
        try:
            return self[key]
        except KeyError:
            return default

    def __missing__(self, key: K) -> V:
        if key in self._changed:
            raise KeyError(key)
        return self._base[key]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (key not in self._changed and key in self._base)

    def _forget(self, key: K) -> None:
        """Does nothing: each key is written once."""


class Namespace(NamedTuple):
    """A namespace's labels, which include the choice of scheduler and the enforcement mode. Of very many labels only
    some are kept, and always Rollcall's own.
    """

    labels: Mapping[str, str]


class PodGangFacts(NamedTuple):
    """A PodGang in the cluster: its PodCliqueSet, and the names of its members (None if there are too many to keep)."""

    workload: str
    cliques: frozenset[str] | None = frozenset()


class PodGangIndex(ABC):
    """PodGangs that are found by their PodCliqueSet: a cluster has too many to search them for each question."""

    @abstractmethod
    def gangs_of_set(self, key: ObjectKey) -> Iterable[ObjectKey]:
        """Returns the namespaces and names of the PodGangs of a PodCliqueSet."""


class PodGangs(Indexed[ObjectKey, PodGangFacts], PodGangIndex):
    """PodGangs by namespace and name."""

    @staticmethod
    def terms(key: ObjectKey, value: PodGangFacts) -> Iterable[Hashable]:
        """Returns the namespace and name of its PodCliqueSet."""
        return ((key[0], value.workload),)

    def gangs_of_set(self, key: ObjectKey) -> Iterable[ObjectKey]:
        """Returns the namespaces and names of the PodGangs of a PodCliqueSet."""
        return self.having(key)


@dataclass(frozen=True, slots=True)
class Quota:
    """A Koordinator ElasticQuota. Only a leaf takes pods. Its namespace and creation time decide which of two quotas
    with the same name counts. `max` limits what it names; its pods may have more than that up to `min` and
    `guaranteed`. Each is None where it cannot be read. `parent` is None below the root.
    """

    is_parent: bool
    namespace: str = field(default="", compare=False)
    created: str = field(default="", compare=False)
    max: Amounts | None = field(default_factory=nothing_stated)
    min: Amounts | None = field(default_factory=nothing_stated)
    guaranteed: Amounts | None = field(default_factory=nothing_stated)
    parent: str | None = None
    tree: str = ""
    # The namespaces whose pods it takes if they name no quota. None if there are too many to keep.
    namespaces: frozenset[str] | None = frozenset()

    @property
    def limited(self) -> bool:
        """Whether it has a max."""
        return self.max is None or bool(self.max)


@dataclass(frozen=True, slots=True)
class TopologyBinding:
    """A Grove ClusterTopologyBinding: the node label key of each domain, broadest first, and the names of topology
    objects that others manage for their schedulers.
    """

    keys: Mapping[str, str]
    references: Mapping[str, str] = field(default_factory=dict)


class TopologyLayer(NamedTuple):
    """One entry of a ClusterNetworkTopology's spec."""

    name: str
    parent: str | None
    label_keys: tuple[str, ...]


class PriorityClass(NamedTuple):
    """A PriorityClass: what it gives a pod."""

    value: int
    is_default: bool
    preemption_policy: str = "PreemptLowerPriority"


@dataclass(frozen=True, slots=True)
class VolcanoQueue:
    """A Volcano Queue. A new queue has no state until Volcano's controller has seen it. `capability` limits what it
    names; its gangs may have more than that up to `guarantee`. Each is None where it cannot be read.
    """

    parent: str | None
    state: str | None
    capability: Amounts | None = field(default_factory=nothing_stated)
    guarantee: Amounts | None = field(default_factory=nothing_stated)

    @property
    def limited(self) -> bool:
        """Whether it has a capability."""
        return self.capability is None or bool(self.capability)


class HyperNodeMembers(NamedTuple):
    """What a HyperNode says are its members: nodes by name (in one text, with spaces between), by regular expressions
    and by label selectors (as JSON), and other HyperNodes by name.
    """

    nodes: str = ""
    patterns: tuple[str, ...] = ()
    selectors: tuple[str, ...] = ()
    hyper_nodes: tuple[str, ...] = ()


class HyperNode(NamedTuple):
    """A Volcano HyperNode: the smaller the tier, the closer its nodes. `members` is None: unknown, or too many."""

    tier: int
    tier_name: str | None
    members: HyperNodeMembers | None = None


@dataclass(frozen=True, slots=True)
class KaiQueue:
    """A KAI Queue. Its labels say which node pool it is in, under a key that the administrator chose. If a queue has
    more labels than the limit, its other labels are unknown.

    `limit` and `quota` have the stated resources of gpu (in milli), cpu (in milli) and memory (in bytes), with None for
    one without a limit. A resource that is not stated is not given at all. None for unknown.
    """

    parent: str | None
    labels: Mapping[str, str] = field(default_factory=dict)
    has_more_labels: bool = False
    limit: Mapping[str, int | None] | None = None
    quota: Mapping[str, int | None] | None = None

    @property
    def limited(self) -> bool:
        """Whether it states a limit of any resource."""
        return any(amount is not None for amount in (self.limit or {}).values())


class QueueTree(Indexed[str, Any]):
    """Queues by name, indexed by their parent as well, whether the parent exists or not."""

    _leaves: list[str] | None = None

    @staticmethod
    def terms(_: str, value: Any) -> Iterable[Hashable]:
        """Returns the parent of the queue."""
        return (value.parent,)

    @property
    def leaves(self) -> list[str]:
        """The queues without children, sorted. Computed once after each change."""
        if self._leaves is None:
            self._leaves = sorted(self.keys() - self.every_term)
        return self._leaves

    def _forget(self, key: str) -> None:
        self._leaves = None
        super()._forget(key)


class HyperNodes(Indexed[str, HyperNode]):
    """HyperNodes by name, indexed by their tier and by the tier's name as well: a cluster may have one for each of its
    nodes. `state` is another object after each change, so that what is worked out of all of them can be kept.
    """

    __slots__ = ("state",)

    def __init__(self, entries: Mapping[str, HyperNode] | None = None) -> None:
        self.state = object()
        super().__init__(entries)

    def _forget(self, key: str) -> None:
        self.state = object()
        super()._forget(key)

    @staticmethod
    def terms(_: str, value: HyperNode) -> Iterable[Hashable]:
        """Returns the tier of the HyperNode, and the name of the tier."""
        return (value.tier,) if value.tier_name is None else (value.tier, (value.tier_name, value.tier))

    @property
    def tiers(self) -> list[int]:
        """All tiers, the closest first."""
        return sorted(term for term in self.every_term if isinstance(term, int))

    def tiers_with_name(self, name: str) -> set[int]:
        return {term[1] for term in self.every_term if isinstance(term, tuple) and term[0] == name}


class ElasticQuotas(dict[str, Quota]):
    """ElasticQuotas by name, over all namespaces. Of quotas with the same name the oldest is kept, and the name is
    `disputed`: koord-scheduler takes the one that it saw first, and then each that is updated.
    """

    def __init__(self, entries: Mapping[str, Quota] | None = None) -> None:
        super().__init__()
        self.disputed: set[str] = set()
        # The quotas that take pods of a namespace, under None those that may take pods of any; and those within it.
        self._takers: dict[str | None, dict[str, None]] = {}
        self._within: dict[str | None, dict[str, None]] = {}
        self.update(entries or {})

    def __setitem__(self, name: str, quota: Quota) -> None:
        before = self.get(name)
        if before is not None and before.namespace != quota.namespace:
            self.disputed.add(name)
        if before is None or before.namespace == quota.namespace or _age(quota) < _age(before):
            self._forget(name)
            super().__setitem__(name, quota)
            for index, namespace in self._places(quota):
                index.setdefault(namespace, {})[name] = None

    def __delitem__(self, name: str) -> None:
        self.disputed.discard(name)
        self._forget(name)
        super().__delitem__(name)

    def _forget(self, name: str) -> None:
        if (quota := self.get(name)) is None:
            return
        for index, namespace in self._places(quota):
            del index[namespace][name]
            if not index[namespace]:
                del index[namespace]

    def _places(self, quota: Quota) -> Iterator[tuple[dict[str | None, dict[str, None]], str | None]]:
        yield self._within, quota.namespace
        for namespace in (None,) if quota.namespaces is None else quota.namespaces:
            yield self._takers, namespace

    def takers(self, namespace: str) -> list[str]:
        """Returns the quotas that take, or may take, the pods of a namespace that name none."""
        return [*self._takers.get(None, ()), *self._takers.get(namespace, ())]

    def visible_in(self, namespace: str) -> Collection[str]:
        """Returns the quotas that users of a namespace may know: those in it, and those that take its pods."""
        return {*self._within.get(namespace, ()), *self._takers.get(namespace, ())}

    def update(self, *sources: Any, **_: Any) -> None:
        for source in sources:
            for name, quota in dict(source).items():
                self[name] = quota
            self.disputed |= getattr(source, "disputed", set())

    def copy(self) -> ElasticQuotas:
        """Returns a copy with the disputed names. A plain dict of the quotas would not have these."""
        return ElasticQuotas(self)

    def overlaid(self, changes: Mapping[str, Quota | None]) -> ElasticQuotas:
        """Returns these quotas with some of them replaced by a live read; None for a removed one."""
        quotas = ElasticQuotas()
        quotas.update({name: quota for name, quota in self.items() if name not in changes})
        quotas.update({name: quota for name, quota in changes.items() if quota is not None})
        # A live read finds one of them.
        quotas.disputed |= self.disputed & quotas.keys()
        return quotas


def _age(quota: Quota) -> tuple[str, str]:
    # RFC 3339 in UTC, as the API server writes it: the order of the texts is the order of the times.
    return quota.created, quota.namespace


class KaiLevels(tuple[str, ...]):
    """The levels of a KAI Topology, as node label keys, broadest first; `aliases` are other names of some levels."""

    aliases: Mapping[str, str]

    def __new__(cls, keys: Iterable[str], aliases: Mapping[str, str] = MappingProxyType({})) -> KaiLevels:
        """Levels with these keys; each alias maps to the key that it stands for."""
        levels = super().__new__(cls, keys)
        levels.aliases = aliases
        return levels


class QueuedGroup(NamedTuple):
    """The Queue of a PodGroup of KAI or Volcano."""

    queue: str | None


class QueuedGroups(Indexed[ObjectKey, QueuedGroup]):
    """PodGroups by namespace and name, indexed by their name without namespace and by their queue as well."""

    @staticmethod
    def terms(key: ObjectKey, value: QueuedGroup) -> Iterable[Hashable]:
        """Returns the name and the queue of the group."""
        return (("name", key[1]), ("queue", value.queue))

    def called(self, name: str) -> Iterable[ObjectKey]:
        """Returns the PodGroups with that name, in any namespace."""
        return self.having(("name", name))

    def groups_in_queue(self, queue: str) -> Iterable[ObjectKey]:
        """Returns the PodGroups in a queue."""
        return self.having(("queue", queue))


class SpecField(NamedTuple):
    """A spec field of a kind that a scheduler's backend writes. `since` says in words which version added it.

    An API server whose CRD is older drops the field silently.
    """

    api: Api
    name: str
    since: str

    def __str__(self) -> str:
        return f"{self.api} spec.{self.name}"

"""Nodes: what a scheduler can use of each node, the groups of nodes that a gang cannot tell apart, and what may add
nodes.

Groups are changed node by node, so a changed node costs as much in a large cluster as in a small one. Nothing here
depends on what passes, such as readiness: a heartbeat changes no group. A node keeps the most devices that it ever
had, because the kubelet states none while a device plugin restarts. Of the Cluster Autoscaler, Cluster API and
Karpenter only their existence and Karpenter's startup taints are used. Source: Kubernetes 1.37,
pkg/kubelet/cm/devicemanager/manager.go (GetCapacity).
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar

from webhook.model.bounds import Row, latest_equal, name_text
from webhook.model.keys import Api, ObjectKey
from webhook.model.projections import Projection, Resource, key_of, name_of
from webhook.model.quantity import LARGEST_AMOUNT, parse_quantity
from webhook.model.reading import Malformed, Manifest, flag, mapping, sequence, text

# Labels of node feature discovery are a hundred and more. A node with more than these is not known well enough.
_MOST_LABELS, _MOST_LABEL_CHARACTERS = 512, 32 * 1024
_MOST_RESOURCES, _MOST_TAINTS = 128, 64
# What one node may take in the facts. A node is never left out, as others would then look like all nodes.
NODE_BYTES = 256 * 1024
# Volcano adds these to allocatable: CPU in milli, memory in bytes.
OVERSUBSCRIPTION = {"cpu": "volcano.sh/oversubscription-cpu", "memory": "volcano.sh/oversubscription-memory"}
# More than any node has.
LIMITLESS = 2**62


class Taint(NamedTuple):
    """A taint of a node."""

    key: str
    value: str
    effect: str


class Node(NamedTuple):
    """A node. `allocatable` is in the units of schedulers: cpu in milli, everything else in units, rounded up.

    `highest` is the most that it can have without pods: for devices and storage the highest of allocatable, capacity
    and all earlier values. `oversubscribed` is what Volcano adds. `problem` says why the rest is not known, if so.
    """

    name: str
    allocatable: Row[int]
    highest: Row[int]
    labels: Row[str]
    taints: tuple[Taint, ...] = ()
    ready: bool = False
    unschedulable: bool = False
    oversubscribed: Row[int] | None = None
    problem: str | None = None

    def keep_devices_of(self, before: Node) -> Node:
        more = {
            resource: amount
            for resource, amount in before.highest.items()
            if _may_vanish(resource) and amount > self.highest.get(resource, 0)
        }
        return self._replace(highest=_row_of(self.highest, more)) if more else self

    def looks_like(self, other: Node) -> bool:
        """Returns whether both give the same room: they differ at most in what passes, as readiness."""
        return (
            self.highest == other.highest
            and self.labels == other.labels
            and self.taints == other.taints
            and self.oversubscribed == other.oversubscribed
            and self.problem == other.problem
        )


_NOTHING: Row[int] = Row.from_mapping({})
_NO_LABELS: Row[str] = Row.from_mapping({})


def _may_vanish(resource: str) -> bool:
    """Returns whether a node states less of a resource for a while: devices, and storage before it was measured."""
    return "/" in resource or resource == "ephemeral-storage"


def is_device(resource: str) -> bool:
    """Returns whether a resource is an extended one, as device plugins have."""
    return "/" in resource and "kubernetes.io/" not in resource


def node_of(raw: Manifest) -> Node:
    """Returns the projection of a Node. A node that cannot be read has a `problem`. Raises `Missing`."""
    name = name_of(raw)
    try:
        return _read(name, raw)
    except Malformed as error:
        return Node(name, _NOTHING, _NOTHING, _NO_LABELS, problem=str(error))


def _read(name: str, raw: Manifest) -> Node:
    metadata, spec, status = mapping(raw.get("metadata")), mapping(raw.get("spec")), mapping(raw.get("status"))
    labels = mapping(metadata.get("labels"))
    capacity = mapping(status.get("capacity"))
    # The API server sets a missing allocatable to the capacity.
    allocatable = capacity if status.get("allocatable") is None else mapping(status["allocatable"])
    taints = sequence(spec.get("taints"))
    problem = _too_large(labels, allocatable, capacity, taints)
    if problem is not None:
        return Node(name, _NOTHING, _NOTHING, _NO_LABELS, problem=problem)
    amounts = _amounts(allocatable)
    devices = {resource: amount for resource, amount in _amounts(capacity).items() if _may_vanish(resource)}
    return Node(
        name,
        amounts,
        _row_of(amounts, devices),
        Row.from_mapping({key: text(value) or "" for key, value in labels.items()}),
        tuple(taint_of(taint) for taint in taints),
        any(
            mapping(state).get("type") == "Ready" and state.get("status") == "True"
            for state in sequence(status.get("conditions"))
        ),
        flag(spec.get("unschedulable")),
        _oversubscribed(mapping(metadata.get("annotations"))),
    )


def _too_large(labels: Any, allocatable: Any, capacity: Any, taints: Any) -> str | None:
    """Returns why a node is not known, if it has more of something than is kept."""
    characters = sum(len(key) + len(str(value)) for key, value in labels.items())
    if len(labels) > _MOST_LABELS or characters > _MOST_LABEL_CHARACTERS:
        return "it has more labels than are kept"
    if max(len(allocatable), len(capacity)) > _MOST_RESOURCES:
        return "it has more resources than are kept"
    return "it has more taints than are kept" if len(taints) > _MOST_TAINTS else None


def taint_of(raw: object) -> Taint:
    """Returns a taint as a node, or a NodePool, states it. Raises `Malformed`."""
    taint = mapping(raw)
    return _latest_taint(Taint(*(name_text(taint.get(field)) or "" for field in ("key", "value", "effect"))))


_latest_taint = latest_equal(4096)


def _amounts(quantities: Mapping[str, Any]) -> Row[int]:
    amounts = {resource: amount_of(resource, quantity) for resource, quantity in quantities.items()}
    return _shared_row(tuple(sorted(amounts.items())))


def amount_of(resource: str, quantity: object) -> int:
    """Returns a quantity of a resource in the units of schedulers, rounded up. Raises `Malformed`."""
    amount = _amount_of_text(resource, quantity) if isinstance(quantity, str) else _amount(resource, quantity)
    if amount is None:
        raise Malformed(quantity, f"a quantity of {resource[:80]}")
    return amount


@lru_cache(maxsize=16384)
def _amount_of_text(resource: str, quantity: str) -> int | None:
    return _amount(resource, quantity)


def _amount(resource: str, quantity: object) -> int | None:
    """Returns an amount in the units of schedulers; None for one that the API server does not keep."""
    number = parse_quantity(quantity)
    amount = None if number is None else math.ceil(number * 1000 if resource == "cpu" else number)
    return amount if amount is not None and 0 <= amount <= LARGEST_AMOUNT else None


def _row_of(amounts: Mapping[str, int], more: Mapping[str, int]) -> Row[int]:
    """Returns the amounts, raised to those of `more`."""
    both = {**amounts, **{resource: max(amount, amounts.get(resource, 0)) for resource, amount in more.items()}}
    return _shared_row(tuple(sorted(both.items())))


@lru_cache(maxsize=8192)
def _shared_row(items: tuple[tuple[str, int], ...]) -> Row[int]:
    return Row.from_mapping(dict(items))


def _oversubscribed(annotations: Mapping[str, Any]) -> Row[int] | None:
    amounts = {
        resource: amount
        for resource, key in OVERSUBSCRIPTION.items()
        if key in annotations and (amount := _whole(name_text(annotations[key]) or "")) > 0
    }
    return _shared_row(tuple(sorted(amounts.items()))) if amounts else None


def _whole(written: str) -> int:
    """Returns a number as Volcano reads it (Go's ParseFloat), rounded up; 0 if it is not a number."""
    try:
        number = float.fromhex(written) if "0x" in written.lower() else float("" if "_" in written else written)
    except OverflowError:
        return LIMITLESS
    except ValueError:
        return 0
    if math.isnan(number):
        return 0
    return LIMITLESS if number > LIMITLESS else math.ceil(max(number, 0.0))


T = TypeVar("T")
V = TypeVar("V", bound="NodesView")
_Keys = tuple[tuple[str, ...], tuple[str, ...]]

# How many sets of label keys, and label keys, are followed at once. A gang names a handful.
_MOST_GROUPINGS, _MOST_COUNTED = 32, 256
# How many results of others are remembered until a node changes, and how many views are kept over changes.
_MOST_REMEMBERED, _MOST_VIEWS = 64, 32
# How many groups, and classes of nodes, all of these may have together, at about a kilobyte each. Anybody who creates
# workloads may ask for others, and in a large cluster all nodes may differ by some bytes of memory.
_MOST_KEPT = 60_000


# No label has this value.
SOME = "*"


class NodeGroup(NamedTuple):
    """What equal nodes have: `values` are those of the label keys that they were grouped by, None for no label and
    `SOME` for any value of a label that is only looked at for being there.
    """

    highest: Row[int]
    oversubscribed: Row[int] | None
    taints: tuple[Taint, ...]
    values: tuple[str | None, ...]


class NodeNames(dict[str, None]):
    """The names of the nodes of a group. `touched` is the revision of the nodes at which one of them changed last."""

    __slots__ = ("_ordered", "touched")

    def __init__(self) -> None:
        super().__init__()
        self.touched = 0
        self._ordered: tuple[str, ...] | None = None

    def ordered(self) -> tuple[str, ...]:
        """Returns the names in order: the same object until a node is added or removed."""
        if self._ordered is None:
            self._ordered = tuple(sorted(self))
        return self._ordered

    def add(self, name: str) -> None:
        self[name] = None
        self._ordered = None

    def remove(self, name: str) -> None:
        del self[name]
        self._ordered = None


class NodesView(Protocol):
    """What is known of the nodes for one question. `weight` is how many classes of nodes it keeps."""

    @property
    def weight(self) -> int:
        """The number of classes, once for each time that something is known of them."""


class NodeGroups(dict[NodeGroup, NodeNames]):
    """The groups of nodes. `changed` is the revision of the nodes at which one moved to another group last."""

    __slots__ = ("changed",)

    def __init__(self) -> None:
        super().__init__()
        self.changed = 0

    def add(self, group: NodeGroup, name: str) -> None:
        names = self.get(group)
        if names is None:
            names = self[group] = NodeNames()
        names.add(name)

    def move(self, name: str, before: NodeGroup | None, after: NodeGroup | None, revision: int) -> None:
        """Takes a changed node from its group to another one. None is that of a node that is not there."""
        if before != after:
            self.changed = revision
            if before is not None:
                self[before].remove(name)
                if not self[before]:
                    del self[before]
            if after is not None:
                self.add(after, name)
        if after is not None:
            self[after].touched = revision


class Nodes(dict[str, Node]):
    """Nodes by name. It only changes by single nodes, as a watch does; a copy shares nothing that changes.

    `revision` grows with every change that a gang may see.
    """

    def __init__(self, nodes: Mapping[str, Node] | Iterable[tuple[str, Node]] = ()) -> None:
        super().__init__(nodes)
        self._reset()

    def _reset(self) -> None:
        self.revision = 0
        self._groupings: OrderedDict[_Keys, NodeGroups] = OrderedDict()
        self._views: OrderedDict[Hashable, Any] = OrderedDict()
        self._counts: OrderedDict[str, Counter[str]] = OrderedDict()
        self._remembered: OrderedDict[Hashable, Any] = OrderedDict()
        # How many nodes have the same set of label keys, and how many such sets have a key.
        self._key_sets: Counter[tuple[str, ...]] = Counter()
        self._keys: Counter[str] = Counter()
        self._problems: dict[str, None] = {}
        for node in self.values():
            self._count(node, 1)

    def __setitem__(self, name: str, node: Node) -> None:
        before = self.get(name)
        if before is not None:
            node = node.keep_devices_of(before)
            if before.looks_like(node):
                super().__setitem__(name, node)
                return
        super().__setitem__(name, node)
        self._changed(name, before, node)

    def __delitem__(self, name: str) -> None:
        before = self[name]
        super().__delitem__(name)
        self._changed(name, before, None)

    def pop(self, name: str, *default: Any) -> Any:
        """Removes a node and returns it, or the default."""
        if name not in self:
            return super().pop(name, *default)
        node = self[name]
        del self[name]
        return node

    def update(self, *sources: Any, **by_name: Node) -> None:
        super().update(*sources, **by_name)
        self._reset()

    def clear(self) -> None:
        """Removes all nodes."""
        super().clear()
        self._reset()

    def has_key(self, key: str) -> bool:
        """Returns whether any node has a label with that key."""
        return self._keys[key] > 0

    def values_of(self, key: str) -> Mapping[str, int]:
        """Returns the values that nodes have for a label key, with the number of nodes of each."""
        if not self.has_key(key):
            return {}
        return _kept(
            self._counts,
            key,
            lambda: Counter(value for node in self.values() if (value := node.labels.get(key)) is not None),
            _MOST_COUNTED,
        )

    def is_unique(self, key: str) -> bool:
        """Returns whether no two nodes have the same value for a label key."""
        values = self.values_of(key)
        return sum(values.values()) == len(values)

    def groups(self, keys: tuple[str, ...], present: tuple[str, ...] = ()) -> NodeGroups:
        """Returns the names of the nodes by group, for the values of label `keys` and for having those of `present`."""
        both = (keys, present)
        groups = _kept(self._groupings, both, lambda: self._grouped(both), _MOST_GROUPINGS)
        _lighten(self._groupings, len)
        return groups

    def remembered(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Returns what `compute` returns, until a node changes."""
        value: T = _kept(self._remembered, key, compute, _MOST_REMEMBERED)
        return value

    def view(self, key: Hashable, compute: Callable[[], V]) -> V:
        """Returns what `compute` returned, also after nodes changed: it looks itself at what did since."""
        view: V = _kept(self._views, key, compute, _MOST_VIEWS)
        _lighten(self._views, lambda kept: kept.weight)
        return view

    @property
    def problem(self) -> str | None:
        """Why the nodes are not known well, if so: one of them could not be read."""
        name = next(iter(self._problems), None)
        return None if name is None else f"node {name} could not be read: {self[name].problem}"

    def _grouped(self, keys: _Keys) -> NodeGroups:
        groups = NodeGroups()
        for name, node in self.items():
            groups.add(_group(node, *keys), name)
        groups.changed = self.revision
        return groups

    def _changed(self, name: str, before: Node | None, after: Node | None) -> None:
        """Follows a node that changed, was added (`before` is None) or was removed."""
        self.revision += 1
        self._remembered.clear()
        for node, by in ((before, -1), (after, 1)):
            if node is not None:
                self._count(node, by)
        if not self:
            self._groupings.clear()
        for keys, groups in self._groupings.items():
            old, new = (None if node is None else _group(node, *keys) for node in (before, after))
            groups.move(name, old, new, self.revision)

    def _count(self, node: Node, by: int) -> None:
        keys = tuple(node.labels)
        before = self._key_sets[keys]
        _add(self._key_sets, keys, by)
        if not before or not self._key_sets[keys]:
            for key in keys:
                _add(self._keys, key, by)
        for key, values in list(self._counts.items()):
            value = node.labels.get(key)
            if value is not None:
                _add(values, value, by)
            if not values:
                del self._counts[key]
        if node.problem is not None:
            if by > 0:
                self._problems[node.name] = None
            else:
                self._problems.pop(node.name, None)


def _group(node: Node, keys: tuple[str, ...], present: tuple[str, ...]) -> NodeGroup:
    values = [node.labels.get(key) for key in keys]
    values += [SOME if key in node.labels.places else None for key in present]
    return NodeGroup(node.highest, node.oversubscribed, node.taints, tuple(values))


def _add(counts: Counter[Any], key: Any, by: int) -> None:
    counts[key] += by
    if not counts[key]:
        del counts[key]


def _kept(cache: OrderedDict[Any, T], key: Hashable, compute: Callable[[], T], most: int) -> T:
    """Returns the value of a key, computed if it is not there. The one that was not asked for longest is dropped."""
    if key in cache:
        cache.move_to_end(key)
        return cache[key]
    value = cache[key] = compute()
    while len(cache) > most:
        cache.popitem(last=False)
    return value


def _lighten(cache: OrderedDict[Any, T], weight: Callable[[T], int]) -> None:
    """Drops those that were not asked for longest, until all together are light enough. The last one stays."""
    total = sum(map(weight, cache.values()))
    while total > _MOST_KEPT and len(cache) > 1:
        total -= weight(cache.popitem(last=False)[1])


def _node(raw: Manifest) -> tuple[str, Node]:
    node = node_of(raw)
    return node.name, node


# Missing rights must not keep a server from being ready: without nodes nothing is said of them.
NODES = Projection(
    "nodes",
    Resource(Api("", "v1", "Node"), "nodes", namespaced=False),
    _node,
    Nodes,
    awaited=False,
    most=NODE_BYTES,
    fields=(
        "metadata.labels",
        "metadata.annotations",
        "spec.taints",
        "spec.unschedulable",
        "status.allocatable",
        "status.capacity",
        "status.conditions.type",
        "status.conditions.status",
    ),
)


_CLUSTER_API = "cluster.x-k8s.io"
# Without it, the autoscaler leaves a group of machines alone.
_MOST_MACHINES = f"{_CLUSTER_API}/cluster-api-autoscaler-node-group-max-size"
# The Cluster Autoscaler can be told to write it elsewhere. Then it is only seen in files, by its annotation.
_STATUS = ("kube-system", "cluster-autoscaler-status")
_UPDATED = "cluster-autoscaler.kubernetes.io/last-updated"
_MOST_STARTUP_TAINTS = 64
_OF_EVERY_NODE = ("cpu", "memory")
# The label of nodes that Karpenter made.
NODE_POOL_LABEL = "karpenter.sh/nodepool"


class NodeGrower(NamedTuple):
    """Something that may add nodes. `startup_taints` are on its nodes until they are set up, and pass."""

    startup_taints: tuple[Taint, ...] = ()


def _status(raw: Manifest) -> tuple[ObjectKey, NodeGrower] | None:
    key, annotations = key_of(raw), mapping(mapping(raw.get("metadata")).get("annotations"))
    return (key, NodeGrower()) if key == _STATUS or _UPDATED in annotations else None


def _machines(raw: Manifest) -> tuple[ObjectKey, NodeGrower] | None:
    # Also at their highest number some may have no node yet.
    scaled = _MOST_MACHINES in mapping(mapping(raw.get("metadata")).get("annotations"))
    return (key_of(raw), NodeGrower()) if scaled else None


def _node_pool(raw: Manifest) -> tuple[str, NodeGrower] | None:
    """Returns a NodePool. A limit of 0 on what every node has switches it off; one on GPUs allows nodes without any."""
    spec = mapping(raw.get("spec"))
    limits = mapping(spec.get("limits"))
    if any(parse_quantity(limits.get(resource)) == 0 for resource in _OF_EVERY_NODE):
        return None
    template = mapping(mapping(spec.get("template")).get("spec"))
    taints = sequence(template.get("startupTaints"))[:_MOST_STARTUP_TAINTS]
    return name_of(raw), NodeGrower(tuple(taint_of(taint) for taint in taints))


def _cluster_api_projections(
    part: str, kind: str, read: Callable[[Manifest], tuple[Any, Any] | None] = _machines
) -> tuple[Projection, ...]:
    return tuple(
        Projection(
            part,
            Resource(Api(_CLUSTER_API, version, kind), f"{kind.lower()}s"),
            read,
            awaited=False,
            fields=("metadata.annotations",),
        )
        for version in ("v1beta1", "v1beta2")
    )


CLUSTER_AUTOSCALER = Projection(
    "cluster_autoscaler",
    Resource(Api("", "v1", "ConfigMap"), "configmaps"),
    _status,
    field_selector="metadata.namespace={},metadata.name={}".format(*_STATUS),
    awaited=False,
    fields=("metadata.annotations",),
)
NODE_POOLS = Projection(
    "node_pools",
    Resource(Api("karpenter.sh", "v1", "NodePool"), "nodepools", namespaced=False),
    _node_pool,
    awaited=False,
    fields=("spec.limits", "spec.template.spec.startupTaints"),
)
GROWTH = (
    CLUSTER_AUTOSCALER,
    *_cluster_api_projections("machine_deployments", "MachineDeployment"),
    *_cluster_api_projections("machine_sets", "MachineSet"),
    *_cluster_api_projections("machine_pools", "MachinePool"),
    NODE_POOLS,
)

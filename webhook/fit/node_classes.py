"""The nodes of a cluster as one gang sees them: by class, with what each class can give to pods of which roles.

Nothing is subtracted: pods end, and what DaemonSets and the system take only makes less of it. A node that is
cordoned, not ready or tainted for a while counts as usable. What is known of a group of nodes is kept until one of
them changes in a way that the gang can see.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from webhook.fit.packing import (
    OWN_VALUE,
    FitSettings,
    GroupNeed,
    NodeClass,
    NodeTemplate,
    Packing,
    PackingRole,
    Partition,
    PodReading,
    Room,
    all_needs,
    growth_of,
    startup_taints,
)
from webhook.fit.pod_needs import Eligibility, Requirement
from webhook.fit.resource_requests import ALL_DRIVERS, GPU_MEMORY, GPU_PARTS, GPUS, SLOTS, is_gpu_name
from webhook.model.bounds import Row
from webhook.model.facts import ClusterFacts
from webhook.model.nodes import LIMITLESS, NodeGroup, NodeNames, Nodes, Taint, amount_of, is_device
from webhook.model.quantity import int64
from webhook.model.reading import Malformed
from webhook.model.resources import DEVICE_CLASSES, RESOURCE_SLICES

# The label by which KAI knows the memory of the GPUs of a node, in MiB, or in bytes if it is this much.
GPU_MEMORY_LABEL = "nvidia.com/gpu.memory"
_TEBIBYTE_IN_MIB, _BYTES_IN_MIB = 2**20, 2**20
# Stands for the devices of ResourceSlices, which KAI adds to the GPUs of device plugins.
GPUS_BY_CLAIMS = "claims/gpu"
KAI_GPUS = frozenset({GPUS, GPU_PARTS, GPU_MEMORY})
# The allocatable of a node group that is not there yet is an estimate. This much more is allowed for, in percent.
_ESTIMATED = frozenset({"cpu", "memory", "ephemeral-storage"})
_MARGIN = 5
# What a node group in the configuration need not state.
_UNSTATED = ("ephemeral-storage", SLOTS)


def capacity_of(
    resources: Iterable[str],
    highest: Mapping[str, int],
    oversubscribed: Row[int] | None,
    gpu_memory: str | None,
    reading: PodReading,
) -> dict[str, int]:
    """Returns what a node can give of these resources. `gpu_memory` is the value of its label."""
    capacity = {resource: highest.get(resource, 0) for resource in resources}
    if reading.oversubscribes and oversubscribed is not None:
        for resource, amount in oversubscribed.items():
            if resource in capacity:
                capacity[resource] += amount
    if reading.requests.kai_gpus and not KAI_GPUS.isdisjoint(capacity):
        gpus = sum(amount for resource, amount in highest.items() if is_gpu_name(resource))
        pooled = {GPUS: gpus, GPU_PARTS: 1000 * gpus, GPU_MEMORY: gpus * memory_of_gpu(gpu_memory)}
        capacity |= {resource: amount for resource, amount in pooled.items() if resource in capacity}
    return capacity


def memory_of_gpu(label: str | None) -> int:
    """Returns the MiB that a GPU of a node has at most; 0 without a label, as KAI then places no such pod there."""
    memory = int64(label or "0") or 0
    return memory if memory < _TEBIBYTE_IN_MIB else math.ceil(memory / _BYTES_IN_MIB)


def template_amounts(template: NodeTemplate) -> dict[str, int]:
    """Returns the allocatable of a configured node group, rounded up; unstated storage and pod slots have no limit."""
    amounts = dict.fromkeys(_UNSTATED, LIMITLESS)
    for resource, quantity in template.allocatable.items():
        try:
            amount = amount_of(resource, quantity)
        except Malformed:
            amount = LIMITLESS
        amounts[resource] = -(-amount * (100 + _MARGIN) // 100) if resource in _ESTIMATED else amount
    return amounts


class Identity:
    """A value that is equal only to itself. It stays alive as long as the key that it is a part of."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class NodeTraits(NamedTuple):
    """`read` are the label keys of the roles' eligibility. `shown` are those of partitions, anti-affinity and spread:
    their values are part of a class. `members` are the partitions whose domains name their nodes.
    """

    roles: tuple[tuple[str, Eligibility], ...]
    resources: tuple[str, ...]
    read: tuple[str, ...]
    shown: tuple[str, ...]
    members: tuple[Identity, ...]
    with_devices: bool
    # Whether the domains of all nodes count, also of those that no role may use: a spread constraint counts them.
    every_domain: bool

    @property
    def compared(self) -> frozenset[str]:
        """The label keys whose values are compared as numbers."""
        return frozenset(requirement.key for requirement in self._requirements if requirement.operator in {"Gt", "Lt"})

    @property
    def _requirements(self) -> Iterator[Requirement]:
        terms = (term for _, eligibility in self.roles for term in eligibility.terms or ())
        return chain.from_iterable(terms)

    @property
    def named_nodes(self) -> frozenset[str]:
        names = {eligibility.node_name for _, eligibility in self.roles if eligibility.node_name is not None}
        for requirement in self._requirements:
            if requirement.field:
                names.update(requirement.values)
        return frozenset(names)

    def named_values(self, key: str) -> frozenset[str]:
        values = {value for _, eligibility in self.roles for label, value in eligibility.selector if label == key}
        for requirement in self._requirements:
            if requirement.key == key and not requirement.field:
                values.update(requirement.values)
        return frozenset(values)


def traits_of(packing: Packing) -> NodeTraits:
    roles: dict[tuple[str, Eligibility], PackingRole] = {}
    partitions: dict[int, Partition] = {}
    for need in all_needs(packing.sets):
        if need.within is not None:
            partitions[id(need.within)] = need.within
        if not isinstance(need, GroupNeed):
            roles[need.role.name, need.role.pods.eligibility] = need.role
    shown: set[str] = set()
    for partition in partitions.values():
        shown.update(partition.keys, partition.required_keys)
    resources: dict[str, None] = {}
    for role in roles.values():
        shown.update(rule.key for rule in role.pods.apart)
        shown.update(limit.key for limit in role.pods.spread)
        resources |= dict.fromkeys(role.pods.request)
    read = {key for _, eligibility in roles for key in eligibility.keys}
    objects: dict[int, Mapping[str, frozenset[str]]] = {
        id(partition.members): partition.members for partition in partitions.values() if partition.members is not None
    }
    return NodeTraits(
        tuple(roles),
        tuple(sorted(resources)),
        tuple(sorted(read)),
        tuple(sorted(shown)),
        tuple(map(Identity, objects.values())),
        any(role.pods.devices or role.pods.shared_devices for role in roles.values()),
        any(role.pods.spread for role in roles.values()),
    )


# A gang whose roles differ more is not judged by nodes: the work is bounded. Each requirement of a role is one check on
# each kind of nodes.
_MOST_CHECKS = 30_000
# A label with more values, each on one node alone, does not divide nodes into classes.
_FEW_VALUES = 32
# What is known of so many more parts of groups than there are now is forgotten.
_SPARE = 64
_NO_DEVICES: Mapping[str, int] = {}


class _TooManyChecksError(Exception):
    """The roles of a gang, and the nodes, differ too much."""


class RoomConditions(NamedTuple):
    """What else a room depends on. `by_class` are extended resources that a DeviceClass stands for, and of which
    therefore every node may have some. `gpus_unknown`: ResourceSlices may have GPUs that are not known.
    """

    reading: PodReading
    settings: Identity
    grows: bool
    startup_taints: frozenset[Taint]
    by_class: frozenset[str]
    gpus_unknown: bool
    devices: Identity | None

    def devices_of(self, name: str) -> Mapping[str, int]:
        by_node: Mapping[str, Mapping[str, int]] = {} if self.devices is None else self.devices.value
        return by_node.get(name) or {}


class NodeView:
    """The classes of the nodes for one question about them. It is kept with the nodes."""

    def __init__(self, traits: NodeTraits, around: RoomConditions) -> None:
        self._traits = traits
        self._around = around
        by_memory = (GPU_MEMORY_LABEL,) if GPU_MEMORY in traits.resources else ()
        self._read = frozenset((*traits.read, *by_memory))
        self._label_keys = tuple(dict.fromkeys((*traits.read, *traits.shown, *by_memory)))
        # Of the memory of GPUs each node needs its own value.
        self._compared = traits.compared
        self._by_memory = frozenset(by_memory)
        self._named_nodes = traits.named_nodes
        domains_by_node: dict[str, list[tuple[int, str]]] = {}
        for index, members in enumerate(traits.members):
            for domain, node_names in members.value.items():
                for node_name in node_names:
                    domains_by_node.setdefault(node_name, []).append((index, domain))
        self._domains = {name: tuple(sorted(domains)) for name, domains in domains_by_node.items()}
        self._by_eligibility: dict[Eligibility, set[str]] = {}
        for name, eligibility in traits.roles:
            self._by_eligibility.setdefault(eligibility, set()).add(name)
        self._checks = sum(eligibility.size for eligibility in self._by_eligibility)
        # At which change of the groups the classes were made.
        self._changed: tuple[int, int] | None = None
        self._classes: tuple[NodeClass, ...] | None = None
        # The devices of which some node states none: its device plugin may have stopped before it was ever seen.
        self.stopped: frozenset[str] = frozenset()
        self._forget((), ())

    def _forget(self, keys: tuple[str, ...], own_keys: tuple[str, ...]) -> None:
        """Begins again, with nodes grouped by the values of `keys`. Of `own_keys` each node has its own value."""
        self._keys, self._own_keys = keys, own_keys
        self._named_values = {key: values for key in own_keys if (values := self._traits.named_values(key))}
        self._alone = bool(self._named_values or self._named_nodes or self._domains or self._around.devices)
        places = {key: place for place, key in enumerate((*keys, *own_keys))}
        # Among the values of a group, those that roles and capacities depend on, and those that a class shows.
        self._deciding = _picked([place for key, place in places.items() if key in self._read])
        shown = [key for key in self._traits.shown if key in places]
        self._shown, self._showing = tuple(shown), _picked([places[key] for key in shown])
        self._roles: dict[tuple[Any, ...], frozenset[str]] = {}
        self._kinds = _Kinds()
        self._groups: dict[int, _Group] = {}
        self._numbers: dict[_Class, int] = {}
        self._of_numbers: dict[int, tuple[list[tuple[str, ...]], NodeClass]] = {}
        self._labels: dict[tuple[str | None, ...], Mapping[str, str]] = {}

    @property
    def weight(self) -> int:
        """How many classes or groups are kept."""
        return max(len(self._of_numbers), len(self._groups))

    def classes(self, nodes: Nodes) -> tuple[NodeClass, ...] | None:
        """Returns the classes by their first nodes, the same object if nothing changed; None if that takes long."""
        keys, own_keys = self._split(nodes)
        if not self._compared.isdisjoint(own_keys):
            # A number that each node has its own of makes each node a kind of its own.
            return None
        if (keys, own_keys) != (self._keys, self._own_keys):
            self._forget(keys, own_keys)
            self._changed = None
        groups = nodes.groups(keys, own_keys)
        # Labels of single nodes may change without their group.
        changed = (groups.changed, nodes.revision if self._named_values else 0)
        if changed != self._changed:
            kept = bool(self._groups)
            parts = self._parts(groups, nodes)
            if parts is None and kept:
                # Much of it may be of nodes that are gone.
                self._forget(keys, own_keys)
                parts = self._parts(groups, nodes)
            self._classes = None if parts is None else self._classes_of(parts)
            self._changed = changed
        return self._classes

    def _split(self, nodes: Nodes) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Returns the label keys of the question that nodes have: those to group by, and those of own values."""
        keys = [key for key in self._label_keys if nodes.has_key(key)]
        # These divide the nodes into so many that each is better taken as one of its kind.
        many = (key for key in keys if key not in self._by_memory and len(nodes.values_of(key)) > _FEW_VALUES)
        own_keys = tuple(key for key in many if nodes.is_unique(key))
        return tuple(key for key in keys if key not in own_keys), own_keys

    def _parts(self, groups: Mapping[NodeGroup, NodeNames], nodes: Nodes) -> dict[int, list[tuple[str, ...]]] | None:
        """Returns the names of the nodes of each class, by its number; None if that takes too much work."""
        self._kinds.begin()
        before, self._groups = self._groups, {}
        parts: dict[int, list[tuple[str, ...]]] = {}
        stopped: set[str] = set()
        by_label = bool(self._named_values)
        for group, names in groups.items():
            ordered = names.ordered()
            kept = before.get(id(names))
            if kept is None or kept.ordered is not ordered or (by_label and kept.touched != names.touched):
                try:
                    kept = self._group(group, names, nodes)
                except _TooManyChecksError:
                    return None
            self._groups[id(names)] = kept
            for number, some in kept.parts:
                parts.setdefault(number, []).append(some)
            if kept.stopped:
                stopped |= kept.stopped
        self.stopped = frozenset(stopped)
        return parts

    def _group(self, group: NodeGroup, names: NodeNames, nodes: Nodes) -> _Group:
        ordered = names.ordered()
        if self._alone:
            seen = self._seen_in(ordered, nodes)
            parts = tuple([(self._number(group, view), tuple(some)) for view, some in seen.items()])
        else:
            parts = ((self._number(group, _NOTHING_SEEN), ordered),)
        return _Group(names, ordered, names.touched, parts, self._kinds.stopped(group))

    def _classes_of(self, parts: Mapping[int, list[tuple[str, ...]]]) -> tuple[NodeClass, ...]:
        before, self._of_numbers = self._of_numbers, {}
        numbered = list(self._numbers)
        for number, names in parts.items():
            kept = before.get(number)
            if kept is None or kept[0] != names:
                kept = (names, self._class_of(numbered[number], names))
            self._of_numbers[number] = kept
        classes = tuple(sorted([node for _, node in self._of_numbers.values()], key=lambda node: node.nodes[0]))
        # A group may have many parts, such as the members of a hundred racks.
        if max(len(self._numbers), len(self._roles)) > 2 * sum(map(len, parts.values())) + _SPARE:
            self._forget(self._keys, self._own_keys)
        return classes

    def _class_of(self, class_key: _Class, names: list[tuple[str, ...]]) -> NodeClass:
        every = names[0] if len(names) == 1 else tuple(sorted([name for some in names for name in some]))
        capacity, roles = self._kinds.kinds[class_key.kind]
        labels = self._labels.get(class_key.shown)
        if labels is None:
            shown = zip(self._shown, class_key.shown, strict=False)
            labels = self._labels[class_key.shown] = {key: value for key, value in shown if value is not None}
        devices = dict(class_key.devices) if class_key.devices else _NO_DEVICES
        return NodeClass(capacity, labels, len(every), roles, every, devices)

    def _seen_in(self, names: tuple[str, ...], nodes: Nodes) -> Mapping[_Seen, list[str]]:
        by_view: dict[_Seen, list[str]] = {}
        for name in names:
            labels = nodes[name].labels
            label_values = self._named_values.items()
            own_labels = tuple((key, value) for key, values in label_values if (value := labels.get(key)) in values)
            devices = tuple(sorted(self._around.devices_of(name).items()))
            shown_name = name if name in self._named_nodes else ""
            by_view.setdefault(_Seen(shown_name, own_labels, self._domains.get(name, ()), devices), []).append(name)
        return by_view

    def _number(self, group: NodeGroup, seen: _Seen) -> int:
        deciding = self._deciding(group.values)
        key = (id(group.highest), id(group.oversubscribed), group.taints, deciding, seen)
        kind = self._kinds.by_identity.get(key)
        if kind is None:
            kind = self._kinds.by_identity[key] = self._kind(group, seen)
        shows_labels = self._kinds.kinds[kind][1] or self._traits.every_domain
        shown = self._showing(group.values) if shows_labels else ()
        devices = seen.devices if self._traits.with_devices else ()
        return self._numbers.setdefault(_Class(kind, shown, seen.domains, devices), len(self._numbers))

    def _kind(self, group: NodeGroup, seen: _Seen) -> int:
        values = zip((*self._keys, *self._own_keys), group.values, strict=True)
        labels = {key: value for key, value in values if value is not None}
        claims = dict(seen.devices).get("", 0)
        reading = self._around.reading
        highest = {**group.highest, **({GPUS_BY_CLAIMS: claims} if reading.gpus_by_claims else {})}
        memory = labels.get(GPU_MEMORY_LABEL)
        capacity = capacity_of(self._traits.resources, highest, group.oversubscribed, memory, reading)
        return self._kinds.number(capacity, self._roles_on(group, seen, labels))

    def _roles_on(self, group: NodeGroup, seen: _Seen, labels: Mapping[str, str]) -> frozenset[str]:
        key = (group.taints, self._deciding(group.values), seen.name, seen.labels)
        admitted = self._roles.get(key)
        if admitted is None:
            if len(self._roles) * self._checks > _MOST_CHECKS:
                raise _TooManyChecksError
            taints = [taint for taint in group.taints if taint not in self._around.startup_taints]
            admitted = self._roles[key] = frozenset(
                role
                for eligibility, roles in self._by_eligibility.items()
                if eligibility.admits(seen.name, {**labels, **dict(seen.labels)}, taints)
                for role in roles
            )
        return admitted


class _Kinds:
    """What nodes can give and to which roles: most classes share it, and then it is one object. `by_identity` has its
    number by the identity of what groups have, as long as these groups are there.
    """

    def __init__(self) -> None:
        self.kinds: list[tuple[Mapping[str, int], frozenset[str]]] = []
        self.by_identity: dict[tuple[Any, ...], int] = {}
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._capacities: dict[tuple[tuple[str, int], ...], Mapping[str, int]] = {}
        self._stopped: dict[int, frozenset[str]] = {}

    def begin(self) -> None:
        """Forgets what is known by the identity of what groups have: some may be gone."""
        self.by_identity.clear()
        self._stopped.clear()

    def number(self, capacity: Mapping[str, int], roles: frozenset[str]) -> int:
        # In the order of the resources that are asked for, always.
        amounts = tuple(capacity.items())
        number = self._numbers.setdefault((amounts, roles), len(self.kinds))
        if number == len(self.kinds):
            self.kinds.append((self._capacities.setdefault(amounts, capacity), roles))
        return number

    def stopped(self, group: NodeGroup) -> frozenset[str]:
        """Returns the resources of which such nodes state none."""
        resources = self._stopped.get(id(group.highest))
        if resources is None:
            resources = frozenset(resource for resource, amount in group.highest.items() if not amount)
            self._stopped[id(group.highest)] = resources
        return resources


class _Group(NamedTuple):
    """What is known of a group of nodes. `names` is kept, so that no other group gets its identity."""

    names: NodeNames
    ordered: tuple[str, ...]
    touched: int
    parts: tuple[tuple[int, tuple[str, ...]], ...]
    stopped: frozenset[str]


class _Seen(NamedTuple):
    """What a gang sees of a node alone: name and labels that roles name, objects that list it, and its devices."""

    name: str
    labels: tuple[tuple[str, str], ...]
    domains: tuple[tuple[int, str], ...]
    devices: tuple[tuple[str, int], ...]


_NOTHING_SEEN = _Seen("", (), (), ())


class _Class(NamedTuple):
    """What makes a class: its kind, the values of the labels that it shows, its domains and devices."""

    kind: int
    shown: tuple[str | None, ...]
    domains: tuple[tuple[int, str], ...]
    devices: tuple[tuple[str, int], ...]


def _picked(places: list[int]) -> Callable[[tuple[str | None, ...]], tuple[str | None, ...]]:
    """Returns what takes the values at these places."""
    if not places:
        return lambda _: ()
    if len(places) == 1:
        only = slice(places[0], places[0] + 1)
        return lambda values: values[only]
    return itemgetter(*places)


# A gang that names more label keys of nodes is not judged by nodes: the work is bounded.
_MOST_KEYS = 24
# Nor is one that has too many roles for as many classes of nodes.
_MOST_PAIRS = 60_000
_HOST = "kubernetes.io/hostname"
# Where this label is, a manager may divide the GPUs of a node differently.
_MIG, _MIG_MANAGER = "nvidia.com/mig-", "nvidia.com/mig.config.state"


def room_of(
    packing: Packing,
    facts: ClusterFacts,
    settings: FitSettings,
    reading: PodReading,
    devices: Mapping[str, Mapping[str, int]] | None = None,
) -> Room | None:
    """Returns the nodes by class; None if no nodes are known. The same question about the same nodes has the same Room.
    `devices`: by node name and driver, the devices of ResourceSlices there, "" for all drivers; None if they are
    unknown.
    """
    nodes = facts.nodes
    if nodes is None:
        return None
    unknown = _why_unknown(nodes, facts, settings)
    if unknown is not None:
        return Room((), unknown=unknown)
    traits = traits_of(packing)
    if len({*traits.read, *traits.shown}) > _MOST_KEYS:
        return Room((), unknown="the gang names too many labels of nodes")
    with_devices = devices if traits.with_devices or reading.gpus_by_claims else None
    around = RoomConditions(
        reading,
        Identity(settings),
        growth_of(facts, settings).grows,
        startup_taints(facts),
        frozenset(_named_by_class(traits, facts, reading)),
        reading.gpus_by_claims
        and devices is None
        and not KAI_GPUS.isdisjoint(traits.resources)
        and RESOURCE_SLICES.resource.api in (facts.apis or ()),
        None if with_devices is None else Identity(with_devices),
    )
    return nodes.view((traits, around), lambda: _KeptRoom(traits, around)).room(nodes)


def _why_unknown(nodes: Nodes, facts: ClusterFacts, settings: FitSettings) -> str | None:
    if "nodes" in (facts.partial or ()):
        return "only some of the nodes are known"
    if not nodes and not settings.templates:
        return "no node is known"
    return nodes.problem


def _named_by_class(traits: NodeTraits, facts: ClusterFacts, reading: PodReading) -> Iterator[str]:
    """Yields the requested resources that a DeviceClass stands for, or may where DeviceClasses are not read."""
    if not reading.devices_by_class:
        return
    classes, devices = facts.device_classes, [resource for resource in traits.resources if is_device(resource)]
    all_known = classes is not None and "device_classes" not in (facts.partial or ())
    if not all_known and DEVICE_CLASSES.resource.api in (facts.apis or ()):
        yield from devices
    else:
        resources = {device_class.resource for device_class in (classes or {}).values()}
        yield from (resource for resource in devices if resource in resources)


class _KeptRoom:
    """The room of one question. It stays the same object while a gang cannot see that a node changed."""

    def __init__(self, traits: NodeTraits, around: RoomConditions) -> None:
        settings: FitSettings = around.settings.value
        self._view = NodeView(traits, around)
        self._traits = traits
        self._around = around
        templates = (template for template in settings.templates if template.most != 0)
        self._future = tuple(_future_nodes(template, traits, around) for template in templates)
        self._revision = -1
        self._room = Room(())

    @property
    def weight(self) -> int:
        """How many classes it keeps: for itself, and for each ground of its room."""
        return self._view.weight + len(self._room.classes) * len(self._room.memo)

    def room(self, nodes: Nodes) -> Room:
        if nodes.revision == self._revision:
            return self._room
        node_classes = self._view.classes(nodes)
        classes = (*(node_classes or ()), *self._future)
        if node_classes is None:
            room = Room((), unknown="the pods of the gang differ too much", too_large=True)
        elif len(classes) * len(self._traits.roles) > _MOST_PAIRS:
            room = Room((), unknown="the nodes differ too much for a gang of so many roles", too_large=True)
        else:
            unsure = _unsure(classes, self._view.stopped, nodes, self._traits, self._around)
            room = Room(classes, self._around.grows, unsure=frozenset(unsure))
        self._revision = nodes.revision
        if room != self._room:
            self._room = room
        return self._room


def _future_nodes(template: NodeTemplate, traits: NodeTraits, around: RoomConditions) -> NodeClass:
    # It has no ResourceSlice yet, and the configuration does not tell its devices.
    devices = around.devices_of("")
    amounts = template_amounts(template)
    if around.reading.gpus_by_claims:
        amounts[GPUS_BY_CLAIMS] = devices.get(ALL_DRIVERS, 0)
    labels = dict(template.labels)
    capacity = capacity_of(traits.resources, amounts, None, labels.get(GPU_MEMORY_LABEL), around.reading)
    taints = [taint for taint in template.taints if taint not in around.startup_taints]
    # A new node may get any value of a label that the group does not name, such as its zone.
    unnamed = frozenset(traits.read) - labels.keys()
    roles = frozenset(name for name, eligibility in traits.roles if eligibility.admits(None, labels, taints, unnamed))
    shown = {key: labels.get(key, OWN_VALUE) for key in traits.shown if key in labels or key == _HOST}
    of_claims = dict(devices) if traits.with_devices else {}
    return NodeClass(capacity, shown, template.most, roles, (template.name,), of_claims, future=True)


def _unsure(
    classes: Iterable[NodeClass], stopped: frozenset[str], nodes: Nodes, traits: NodeTraits, around: RoomConditions
) -> Iterator[str]:
    """Yields the requested resources of which nodes may have more than is known, as some node states none."""
    if any(is_gpu_name(resource) for resource in stopped):
        stopped = stopped | KAI_GPUS
    # Most classes share theirs.
    capacities = list({id(node.capacity): node.capacity for node in classes}.values())
    for resource in traits.resources:
        if not is_device(resource) and resource not in KAI_GPUS:
            continue
        amounts = [capacity.get(resource, 0) for capacity in capacities]
        if (
            # No device plugin has started, as far as is known.
            not any(amounts)
            or resource in stopped
            # A node whose device plugin states none at the moment gives those of its ResourceSlices.
            or resource in around.by_class
            or (around.gpus_unknown and resource in KAI_GPUS)
            or (resource.startswith(_MIG) and nodes.has_key(_MIG_MANAGER))
        ):
            yield resource

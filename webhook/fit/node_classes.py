"""The room that nodes give to a packed gang: the nodes by class, with what each class can give to pods of which roles.

Nothing is subtracted: pods end, and what DaemonSets and the system take only makes less of it. A node that is cordoned,
not ready or tainted for a while counts as usable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from webhook.fit.asked import Asked, Same, asked_by
from webhook.fit.capacity import GPU_MEMORY_LABEL, GPUS_BY_CLAIMS, KAI_GPUS, capacity_of, template_amounts
from webhook.fit.eligibility import Eligibility
from webhook.fit.growth import growth_of, startup_taints
from webhook.fit.packing import Packing
from webhook.fit.reading import PodReading
from webhook.fit.requests import GPU_MEMORY, is_gpu_name
from webhook.fit.room import OWN_VALUE, NodeClass, Room
from webhook.fit.settings import FitSettings, NodeTemplate
from webhook.model.devices import DEVICE_CLASSES, RESOURCE_SLICES
from webhook.model.facts import ClusterFacts
from webhook.model.node import Taint, is_device
from webhook.model.nodes import NodeGroup, Nodes

# A gang that names more label keys of nodes, or whose roles differ more, is not judged by nodes: the work is bounded.
_MOST_KEYS = 24
_MOST_CHECKS = 200_000
# A label with more values, each on one node alone, does not divide nodes into classes.
_FEW_VALUES = 32
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
    """Return the nodes by class; None if no nodes are known. The same question about the same nodes has the same Room.

    `devices`: by node name and driver, the devices of ResourceSlices there, "" for all drivers; None if they are
    unknown.
    """
    nodes = facts.nodes
    if nodes is None:
        return None
    unknown = _why_unknown(nodes, facts, settings)
    if unknown is not None:
        return Room((), unknown=unknown)
    asked = asked_by(packing)
    if len({*asked.read, *asked.shown}) > _MOST_KEYS:
        return Room((), unknown="the gang names too many labels of nodes")
    with_devices = devices if asked.with_devices or reading.gpus_by_claims else None
    around = _Around(
        reading,
        Same(settings),
        growth_of(facts, settings).grows,
        startup_taints(facts),
        frozenset(_named_by_class(asked, facts, reading)),
        _claims_unknown(asked, facts, reading, devices),
        None if with_devices is None else Same(with_devices),
    )
    return nodes.remembered((asked, around), lambda: _room(nodes, asked, around))


class _Around(NamedTuple):
    """What else a room depends on. `by_class` are extended resources that a DeviceClass stands for, and of which
    therefore every node may have some. `gpus_unknown`: ResourceSlices may have GPUs that are not known.
    """

    reading: PodReading
    settings: Same
    grows: bool
    startup_taints: frozenset[Taint]
    by_class: frozenset[str]
    gpus_unknown: bool
    devices: Same | None

    def devices_of(self, name: str) -> Mapping[str, int]:
        """Return the devices of a node by driver."""
        known: Mapping[str, Mapping[str, int]] = {} if self.devices is None else self.devices.value
        return known.get(name) or {}


def _why_unknown(nodes: Nodes, facts: ClusterFacts, settings: FitSettings) -> str | None:
    """Why the nodes prove nothing, if so."""
    if "nodes" in (facts.partial or ()):
        return "only some of the nodes are known"
    if not nodes and not settings.templates:
        return "no node is known"
    return nodes.problem


def _named_by_class(asked: Asked, facts: ClusterFacts, reading: PodReading) -> Iterator[str]:
    """Yield the requested resources that a DeviceClass stands for, or may stand for where DeviceClasses are not read.
    Files without a list of served kinds are taken to have none.
    """
    if not reading.devices_by_class:
        return
    known, wanted = facts.device_classes, [resource for resource in asked.resources if is_device(resource)]
    all_known = known is not None and "device_classes" not in (facts.partial or ())
    if not all_known and DEVICE_CLASSES.resource.api in (facts.apis or ()):
        yield from wanted
    else:
        named = {found.resource for found in (known or {}).values()}
        yield from (resource for resource in wanted if resource in named)


def _claims_unknown(asked: Asked, facts: ClusterFacts, reading: PodReading, devices: object) -> bool:
    """Whether the GPUs of ResourceSlices count and are not known."""
    return (
        reading.gpus_by_claims
        and devices is None
        and not KAI_GPUS.isdisjoint(asked.resources)
        and RESOURCE_SLICES.resource.api in (facts.apis or ())
    )


def _room(nodes: Nodes, asked: Asked, around: _Around) -> Room:
    settings: FitSettings = around.settings.value
    view = _View(nodes, asked, around)
    known = view.classes()
    if known is None:
        return Room((), unknown="the pods of the gang differ too much")
    classes = (*known, *(_of_template(one, asked, around) for one in settings.templates))
    return Room(classes, around.grows, unsure=frozenset(_unsure(classes, view.stopped, nodes, asked, around)))


class _View:
    """The nodes of a cluster as one gang sees them."""

    def __init__(self, nodes: Nodes, asked: Asked, around: _Around) -> None:
        self._nodes = nodes
        self._asked = asked
        self._around = around
        by_memory = (GPU_MEMORY_LABEL,) if GPU_MEMORY in asked.resources else ()
        keys = [key for key in dict.fromkeys((*asked.read, *asked.shown, *by_memory)) if nodes.has_key(key)]
        compared = asked.compared
        # Where each node has its own value, a group tells only that there is one.
        self._own = tuple(key for key in keys if key not in compared and _is_own(nodes, key))
        self._keys = tuple(key for key in keys if key not in self._own)
        self._named = {key: values for key in self._own if (values := asked.named_values(key))}
        self._named_nodes = asked.named_nodes
        self._domains = _domains_of(asked)
        self._alone = bool(self._named or self._named_nodes or self._domains or around.devices)
        self._by_eligibility: dict[Eligibility, set[str]] = {}
        for name, eligibility in asked.roles:
            self._by_eligibility.setdefault(eligibility, set()).add(name)
        # Where the keys that roles read are among the values of a group.
        self._read = [index for index, key in enumerate((*self._keys, *self._own)) if key in asked.read]
        self._roles: dict[tuple[Any, ...], frozenset[str]] = {}
        self._capacities: dict[tuple[Any, ...], tuple[tuple[str, int], ...]] = {}
        # The devices of which some node states none: its device plugin may have stopped before it was ever seen.
        self.stopped: set[str] = set()

    def classes(self) -> tuple[NodeClass, ...] | None:
        """Return the classes, in the order of their first nodes; None if that takes too much work."""
        found: dict[_Class, list[str]] = {}
        for group, names in self._nodes.groups(self._keys, self._own).items():
            for seen, members in self._parts(names).items():
                roles = self._roles_on(group, seen)
                if len(self._roles) * len(self._by_eligibility) > _MOST_CHECKS:
                    return None
                found.setdefault(self._class(group, seen, roles), []).extend(members)
        classes = [
            NodeClass(
                dict(one.capacity), dict(one.labels), len(names), one.roles, tuple(sorted(names)), dict(one.devices)
            )
            for one, names in found.items()
        ]
        return tuple(sorted(classes, key=lambda one: one.nodes[0]))

    def _parts(self, names: Mapping[str, None]) -> Mapping[_Seen, Iterable[str]]:
        """Return the nodes of a group by what the gang sees of single nodes."""
        if not self._alone:
            return {_NOTHING_SEEN: names}
        found: dict[_Seen, list[str]] = {}
        for name in names:
            labels = self._nodes[name].labels
            own = tuple((key, value) for key, values in self._named.items() if (value := labels.get(key)) in values)
            devices = tuple(sorted(self._around.devices_of(name).items()))
            known = name if name in self._named_nodes else ""
            found.setdefault(_Seen(known, own, self._domains.get(name, ()), devices), []).append(name)
        return found

    def _labels(self, group: NodeGroup) -> dict[str, str]:
        keys = (*self._keys, *self._own)
        return {key: value for key, value in zip(keys, group.values, strict=True) if value is not None}

    def _roles_on(self, group: NodeGroup, seen: _Seen) -> frozenset[str]:
        """Return the roles that may use such nodes."""
        key = (group.taints, tuple([group.values[index] for index in self._read]), seen.name, seen.labels)
        found = self._roles.get(key)
        if found is None:
            taints = [taint for taint in group.taints if taint not in self._around.startup_taints]
            labels = {**self._labels(group), **dict(seen.labels)}
            found = self._roles[key] = frozenset(
                role
                for eligibility, roles in self._by_eligibility.items()
                if eligibility.admits(seen.name, labels, taints)
                for role in roles
            )
        return found

    def _class(self, group: NodeGroup, seen: _Seen, roles: frozenset[str]) -> _Class:
        labels = self._labels(group)
        memory, claims = labels.get(GPU_MEMORY_LABEL), dict(seen.devices).get("", 0)
        key = (group.highest, group.oversubscribed, memory, claims)
        capacity = self._capacities.get(key)
        if capacity is None:
            highest = {**group.highest, **({GPUS_BY_CLAIMS: claims} if self._around.reading.gpus_by_claims else {})}
            found = capacity_of(self._asked.resources, highest, group.oversubscribed, memory, self._around.reading)
            capacity = self._capacities[key] = tuple(sorted(found.items()))
            self.stopped.update(resource for resource, amount in group.highest.items() if not amount)
        told = self._asked.shown if roles or self._asked.every_domain else ()
        return _Class(
            capacity,
            tuple((key, labels[key]) for key in told if key in labels),
            roles,
            seen.domains,
            seen.devices if self._asked.with_devices else (),
        )


class _Seen(NamedTuple):
    """What a gang sees of a node alone: its name and labels of its own, if a role names them; the objects that have it
    as a member; its devices.
    """

    name: str
    labels: tuple[tuple[str, str], ...]
    domains: tuple[tuple[int, str], ...]
    devices: tuple[tuple[str, int], ...]


_NOTHING_SEEN = _Seen("", (), (), ())


class _Class(NamedTuple):
    capacity: tuple[tuple[str, int], ...]
    labels: tuple[tuple[str, str], ...]
    roles: frozenset[str]
    domains: tuple[tuple[int, str], ...]
    devices: tuple[tuple[str, int], ...]


def _is_own(nodes: Nodes, key: str) -> bool:
    """Whether a label divides the nodes into so many that each is better taken as one of its kind."""
    values = nodes.values_of(key)
    return len(values) > _FEW_VALUES and nodes.is_unique(key)


def _domains_of(asked: Asked) -> dict[str, tuple[tuple[int, str], ...]]:
    """Return the domains of each node, for partitions whose domains name their nodes."""
    found: dict[str, list[tuple[int, str]]] = {}
    for index, members in enumerate(asked.members):
        domains: Mapping[str, frozenset[str]] = members.value
        for domain, names in domains.items():
            for name in names:
                found.setdefault(name, []).append((index, domain))
    return {name: tuple(sorted(domains)) for name, domains in found.items()}


def _of_template(template: NodeTemplate, asked: Asked, around: _Around) -> NodeClass:
    """Return the class of the nodes that a node group of the configuration may get."""
    amounts = template_amounts(template)
    labels = dict(template.labels)
    capacity = capacity_of(asked.resources, amounts, None, labels.get(GPU_MEMORY_LABEL), around.reading)
    taints = [taint for taint in template.taints if taint not in around.startup_taints]
    own = frozenset({_HOST} - labels.keys())
    roles = frozenset(name for name, one in asked.roles if one.admits(None, labels, taints, own))
    shown = {key: labels.get(key, OWN_VALUE) for key in asked.shown if key in labels or key in own}
    return NodeClass(capacity, shown, template.most, roles, (template.name,), future=True)


def _unsure(
    classes: Iterable[NodeClass], stopped: set[str], nodes: Nodes, asked: Asked, around: _Around
) -> Iterator[str]:
    """Yield the requested resources of which nodes may have more than is known. `stopped` are those of which some node
    states none.
    """
    if any(is_gpu_name(resource) for resource in stopped):
        stopped = stopped | KAI_GPUS
    for resource in asked.resources:
        if not is_device(resource) and resource not in KAI_GPUS:
            continue
        amounts = [found.capacity.get(resource, 0) for found in classes]
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

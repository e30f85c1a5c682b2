"""The room that nodes give to a packed gang: the nodes by class, with what each class can give to pods of which roles.

Nothing is subtracted: pods end, and what DaemonSets and the system take only makes less of it. A node that is cordoned,
not ready or tainted for a while counts as usable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from webhook.fit.asked import Asked, Same, asked_by
from webhook.fit.capacity import GPU_MEMORY_LABEL, GPUS_BY_CLAIMS, KAI_GPUS, capacity_of, template_amounts
from webhook.fit.devices import ALL_DRIVERS
from webhook.fit.growth import growth_of, startup_taints
from webhook.fit.node_view import Around, NodeView
from webhook.fit.packing import Packing
from webhook.fit.reading import PodReading
from webhook.fit.requests import is_gpu_name
from webhook.fit.room import OWN_VALUE, NodeClass, Room
from webhook.fit.settings import FitSettings, NodeTemplate
from webhook.model.devices import DEVICE_CLASSES, RESOURCE_SLICES
from webhook.model.facts import ClusterFacts
from webhook.model.node import is_device
from webhook.model.nodes import Nodes

# A gang that names more label keys of nodes is not judged by nodes: the work is bounded.
_MOST_KEYS = 24
# Nor is one that has too many roles for as many classes of nodes.
_MOST_PAIRS = 60_000
_HOST = "kubernetes.io/hostname"
# No node has this name.
_NO_NODE = ""
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
    around = Around(
        reading,
        Same(settings),
        growth_of(facts, settings).grows,
        startup_taints(facts),
        frozenset(_named_by_class(asked, facts, reading)),
        _claims_unknown(asked, facts, reading, devices),
        None if with_devices is None else Same(with_devices),
    )
    return nodes.view((asked, around), lambda: _KeptRoom(asked, around)).of(nodes)


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


class _KeptRoom:
    """The room of one question. It stays the same object while a gang cannot see that a node changed."""

    def __init__(self, asked: Asked, around: Around) -> None:
        settings: FitSettings = around.settings.value
        self._view = NodeView(asked, around)
        self._asked = asked
        self._around = around
        self._future = tuple(_of_template(one, asked, around) for one in settings.templates if one.most != 0)
        self._revision = -1
        self._room = Room(())

    @property
    def weight(self) -> int:
        """How many classes it keeps: for itself, and for each ground of its room."""
        return self._view.weight + len(self._room.classes) * len(self._room.memo)

    def of(self, nodes: Nodes) -> Room:
        """Return the room that the nodes give now."""
        if nodes.revision != self._revision:
            found = self._made(nodes)
            if found != self._room:
                self._room = found
            self._revision = nodes.revision
        return self._room

    def _made(self, nodes: Nodes) -> Room:
        known = self._view.classes(nodes)
        if known is None:
            return Room((), unknown="the pods of the gang differ too much", too_large=True)
        classes = (*known, *self._future)
        if len(classes) * len(self._asked.roles) > _MOST_PAIRS:
            return Room((), unknown="the nodes differ too much for a gang of so many roles", too_large=True)
        unsure = _unsure(classes, self._view.stopped, nodes, self._asked, self._around)
        return Room(classes, self._around.grows, unsure=frozenset(unsure))


def _of_template(template: NodeTemplate, asked: Asked, around: Around) -> NodeClass:
    """Return the class of the nodes that a node group of the configuration may get."""
    # It has no ResourceSlice yet, and the configuration does not tell its devices.
    devices = around.devices_of(_NO_NODE)
    amounts = template_amounts(template)
    if around.reading.gpus_by_claims:
        amounts[GPUS_BY_CLAIMS] = devices.get(ALL_DRIVERS, 0)
    labels = dict(template.labels)
    capacity = capacity_of(asked.resources, amounts, None, labels.get(GPU_MEMORY_LABEL), around.reading)
    taints = [taint for taint in template.taints if taint not in around.startup_taints]
    # A new node may get any value of a label that the group does not name, such as its zone.
    unnamed = frozenset(asked.read) - labels.keys()
    roles = frozenset(name for name, one in asked.roles if one.admits(None, labels, taints, unnamed))
    shown = {key: labels.get(key, OWN_VALUE) for key in asked.shown if key in labels or key == _HOST}
    of_claims = dict(devices) if asked.with_devices else {}
    return NodeClass(capacity, shown, template.most, roles, (template.name,), of_claims, future=True)


def _unsure(
    classes: Iterable[NodeClass], stopped: frozenset[str], nodes: Nodes, asked: Asked, around: Around
) -> Iterator[str]:
    """Yield the requested resources of which nodes may have more than is known. `stopped` are those of which some node
    states none.
    """
    if any(is_gpu_name(resource) for resource in stopped):
        stopped = stopped | KAI_GPUS
    # Most classes share theirs.
    capacities = list({id(found.capacity): found.capacity for found in classes}.values())
    for resource in asked.resources:
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

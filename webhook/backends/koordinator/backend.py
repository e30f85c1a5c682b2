"""The backend of `koord-scheduler`: the contract, and what koord-scheduler places together: the minimum of every gang
in a GangGroup, in one domain of the deepest layer that must gather.

A layer is found in the ClusterNetworkTopology `default`. A node without the label of the layer directly above the
nodes is a domain of its own, and in no domain of a broader layer. A single pod starts anywhere. Pods above the minimum
are packed into the same domain only if they exist when koord-scheduler looks, so they prove nothing.

koord-scheduler keys its tree by layer and value, without the values above. A value that nodes of two zones share is
one domain, below the zone of whichever node it saw first, and all nodes of the value are then in that zone. A layer
whose domains it mixes up in this way is left out. The tree is built anew every 10 seconds, from nodes in any order.

Source: koordinator-sh/koordinator v1.8.0, pkg/scheduler/plugins/coscheduling/core/gang.go and
network_topology_workflow.go, pkg/scheduler/frameworkext/networktopology/tree.go (`addNode`, `getTreeNodesMeta`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from webhook.backends.base import Backend, GangMember, PodChanges, Wake
from webhook.backends.koordinator import gang_groups, gangs, keys, opted_in, pod_clique_sets, pod_groups, quotas
from webhook.backends.koordinator.gang_groups import UnreadableSetting, read_topology
from webhook.backends.koordinator.keys import KoordinatorSettings
from webhook.backends.koordinator.quotas import ceilings_of
from webhook.backends.topologies import UnknownTopology, unfed_topology
from webhook.errors import Inexpressible
from webhook.fit.gang_shapes import GangShape
from webhook.fit.packing import (
    KOORDINATOR,
    Ceilings,
    FitSettings,
    Packing,
    PackingRole,
    Partition,
    PodReading,
    Roles,
    group_of,
    needs_in,
    no_domain,
)
from webhook.model.capabilities import Capability, CapabilityTable
from webhook.model.claims import Mark
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.gang_objects import Frozen
from webhook.model.grove import ClusterTopologyBinding, PodGang
from webhook.model.keys import Record
from webhook.model.known_objects import TopologyLayer
from webhook.model.nodes import Node, Nodes
from webhook.model.projections import Resource
from webhook.model.quantity import Version
from webhook.model.reading import Manifest
from webhook.model.topology_tree import TopologyDrift
from webhook.validators.gang_scheduler import Limit, permit_retry_seconds
from webhook.validators.registry import collect
from webhook.validators.shared_checks import first_name
from webhook.workloads.opted_in_gang import OptedInGang
from webhook.workloads.opted_in_workload import OptedInWorkload

# The label keys of each layer between one and the single nodes, the lowest first.
Below = Sequence[tuple[str, ...]]


def are_domains(key: str, below: Below, nodes: Mapping[str, Node]) -> bool:
    """Returns whether each value of a layer's label is a domain of just its nodes. Kept until a node changes."""
    indexed = nodes if isinstance(nodes, Nodes) else Nodes(nodes)
    if not below:
        # A node without the label joins the value that is its name.
        values = filter(None, indexed.values_of(key))
        return not any(value in indexed and not indexed[value].labels.get(key) for value in values)
    return indexed.remembered(("ClusterNetworkTopology", key, *below), lambda: _are_domains(key, below, indexed))


def _are_domains(key: str, below: Below, nodes: Nodes) -> bool:
    # Groups of nodes are kept over changes, and far fewer values than nodes differ.
    groups = nodes.groups((key, *(lower_key for label_keys in below for lower_key in label_keys)))
    combinations = {group.values for group in groups if group.values[0]}
    seen: list[dict[str, str]] = [{} for _ in below]
    for domain, *values in combinations:
        place = 0
        for label_keys, parents in zip(below, seen, strict=True):
            value = next(filter(None, values[place : place + len(label_keys)]), None)
            place += len(label_keys)
            if value is not None and parents.setdefault(value, domain or "") != domain:
                return False
    # Without a label of the lowest layer a node is a domain of its own name there.
    lowest = seen[0]
    return all(
        lowest.get(name, domain) == domain
        for group, names in groups.items()
        if (domain := group.values[0]) and not any(group.values[1 : 1 + len(below[0])])
        for name in names
    )


def packing_of(
    shape: GangShape, roles: Roles, settings: KoordinatorSettings, version: Version | None, facts: ClusterFacts
) -> Packing:
    layer, at, left_out = _required_layer(shape, settings, version, facts)
    if layer is not None and sum(member.minimum for member in shape.needed) > 1:
        within = _partition(layer, at, facts)
        left_out = left_out or within is None
    else:
        within = None
    needs = needs_in(shape.needed, roles, no_domain)
    if not needs:
        return Packing((), left_out=shape.left_out)
    unknown = ("the layer of the ClusterNetworkTopology that the gang requires",) if left_out else ()
    return Packing((group_of(shape.name, needs, within),), left_out=(*shape.left_out, *unknown))


def _required_layer(
    shape: GangShape, settings: KoordinatorSettings, version: Version | None, facts: ClusterFacts
) -> tuple[str | None, FieldPath | None, bool]:
    """Returns the layer that all pods of the gang must share, where that is required, and whether more is required that
    is not known, or that Koordinator cannot express.
    """
    if shape.opted_in is not None:
        return _carried(shape.opted_in, settings, version, facts)
    required = {member.required or shape.required for member in shape.members}
    if shape.subsets:
        required.add(None)
    if required <= {None}:
        return None, None, bool(shape.subsets)
    if len(required) > 1 or gangs.unavailable(settings, version, facts) is not None:
        return None, None, True
    (key,) = required
    try:
        layer = gangs.layer_of(key or "", settings, facts)
    except UnknownTopology:
        return None, None, True
    first = shape.members[0]
    return layer, first.required_at or shape.required_at, layer is None


def _carried(
    gang: OptedInGang, settings: KoordinatorSettings, version: Version | None, facts: ClusterFacts
) -> tuple[str | None, FieldPath | None, bool]:
    """Returns the same for the annotation of an opted-in workload."""
    try:
        written = gangs.carried_topology(gang, settings, version, facts)
        layers = [] if written is None else gangs.required_layers(read_topology(written))
    except (Inexpressible, UnreadableSetting):
        return None, None, True
    chain = _chain(facts)
    # The deepest layer counts. One outside the chain, such as the root, restricts nothing.
    deepest = next((layer for layer in chain if layer in layers), None)
    return deepest, None, False


def _chain(facts: ClusterFacts) -> list[str]:
    by_name = _layers(facts)
    chain = [keys.NODE_LAYER]
    current = by_name.get(keys.NODE_LAYER)
    while current is not None and current.parent and current.parent not in chain:
        chain.append(current.parent)
        current = by_name.get(current.parent)
    return chain


def _layers(facts: ClusterFacts) -> dict[str, TopologyLayer]:
    return {layer.name: layer for layer in (facts.network_topologies or {}).get(keys.NETWORK_TOPOLOGY, ())}


def _partition(name: str, at: FieldPath | None, facts: ClusterFacts) -> Partition | None:
    """Returns how nodes fall into domains of a layer; None if a domain is not the value of one label."""
    if name == keys.NODE_LAYER:
        return Partition("node", (keys.HOSTNAME,), at, own_domain=True)
    chain = _chain(facts)
    layers = _layers(facts)
    layer = layers.get(name)
    if layer is None or name not in chain or len(layer.label_keys) != 1:
        # Of several keys the first that a node has counts.
        return None
    place = chain.index(name)
    below = tuple(layers[lower].label_keys for lower in chain[1:place])
    if facts.nodes is not None and not are_domains(layer.label_keys[0], below, facts.nodes):
        return None
    broader = _partition(layer.parent, at, facts) if layer.parent in layers else None
    return Partition(name, layer.label_keys, at, own_domain=place == 1, broader=broader)


# Grove puts scheduling gates on every pod. They exist since the kube-scheduler that v1.5 is built on.
FIRST_VERSION = Version(1, 5)


class KoordinatorBackend(Backend[KoordinatorSettings]):
    """Koordinator 1.5 and newer; topology from 1.7."""

    name = keys.NAME
    # v1.8.0, seen: a rejected pod may stay in the queue with JobRejectPlugin as its only reason.
    # A PodGroup that is deleted and made again: koord-scheduler hears of its running pods only when they change
    # (pkg/scheduler/plugins/coscheduling/core/gang_cache.go; seen with v1.8.0).
    when_held = (
        "; if there is room, delete the waiting pods: koord-scheduler may not retry a rejected gang for five minutes; "
        "if its PodGroups were made again, annotate its running pods: koord-scheduler has forgotten them"
    )
    # Nothing but a new pod, or an update by which a PodGroup comes to have as many pods as it needs, activates a pod.
    wake = Wake.RAISE_MINIMUM
    settings_model = KoordinatorSettings
    group_marks = keys.GROUP_MARKS
    gathers_surplus = True
    rules = collect(pod_clique_sets, quotas, gang_groups, pod_groups, opted_in)
    # The scheduler plans a gang with all of its pods and binds those without a gate (seen with v1.8.0;
    # pkg/scheduler/plugins/coscheduling/core/core.go ignores gates). Grove removes its gates one by one, so without the
    # pod gate half a gang would start.
    gate = True
    required_apis = (keys.POD_GROUP,)
    projections = gangs.PROJECTIONS
    reads_claims_of = frozenset({"Koordinator"})
    controllers = keys.CONTROLLERS
    shapes = gangs.SHAPES
    allocates_devices = True

    def __init__(self, settings: KoordinatorSettings, scheduler_version: Version | None = None) -> None:
        super().__init__(settings, scheduler_version)
        self.topology_binding = settings.topologyBinding or ""
        self.topology_written = settings.topologyObjects == "write"
        if self.topology_binding or self.topology_written:
            self.topology_kind = gangs.NETWORK_TOPOLOGIES.resource

    @classmethod
    def version_problem(cls, version: Version) -> str | None:
        if version < FIRST_VERSION:
            return f"koord-scheduler before {FIRST_VERSION} ignores scheduling gates, which Grove puts on every pod"
        return None

    @property
    def judged_marks(self) -> tuple[Mark, ...]:
        return *self.group_marks, Mark("labels", keys.LABEL_OLD_MINIMUM), Mark("annotations", keys.ANNOTATION_MINIMUM)

    @property
    def implied(self) -> tuple[Capability, ...]:
        return () if self.settings.defaultQoSClass is None else (Capability.QOS_CLASS,)

    def init(self, facts: ClusterFacts) -> tuple[str, ...]:
        reason = gangs.unavailable(self.settings, self.scheduler_version, facts)
        degraded = () if reason is None else (f"{self.name}: topology is refused: {reason}",)
        unfed = unfed_topology(self.name, self.settings, "ClusterNetworkTopology")
        return (*super().init(facts), *degraded, *unfed)

    @property
    def gang_heads(self) -> tuple[Resource, ...]:
        return (Resource(keys.POD_GROUP, "podgroups"),)

    @property
    def retry_seconds(self) -> int:
        # It keeps the pods that have a node for the timeout. A rejected gang may not be tried again before its queue is
        # flushed (seen with v1.8.0).
        return permit_retry_seconds(self.settings.scheduleTimeoutSeconds)

    def limits(self, workload: OptedInWorkload, facts: ClusterFacts) -> Iterator[Limit]:
        name = first_name(workload, keys.QUOTA_KEYS, keys.QUOTA_KEYS_OF_PODS)
        quota = None if name is None else (facts.elastic_quotas or {}).get(name)
        if name is not None and quota is not None and quota.limited:
            yield Limit("the ElasticQuota", name, name)

    def ceilings(self, shape: GangShape, roles: Mapping[str, PackingRole], facts: ClusterFacts) -> Ceilings:
        return ceilings_of(shape, roles, facts, self.settings)

    @property
    def capabilities(self) -> CapabilityTable:
        return keys.CAPABILITIES

    @property
    def membership(self) -> tuple[tuple[Mark, ...], ...]:
        return ((Mark("labels", keys.LABEL_POD_GROUP),),)

    def prepare_pod(self, member: GangMember) -> PodChanges:
        return gangs.prepare_pod(member, self.settings)

    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        return gangs.gang_objects(podgang, self.settings, self.scheduler_version, facts)

    def pod_reading(self, settings: FitSettings) -> PodReading:
        return KOORDINATOR.restrict(settings)

    def packing(self, shape: GangShape, facts: ClusterFacts, settings: FitSettings) -> Packing:
        roles = self.roles(shape, facts, settings)
        return packing_of(shape, roles, self.settings, self.scheduler_version, facts)

    def may_be_started(self, objects: Sequence[Manifest]) -> bool:
        return any(map(gangs.remembers_start, objects))

    def adopt(self, desired: Manifest, live: Manifest | None) -> Manifest:
        return desired if desired["kind"] == gangs.NETWORK_TOPOLOGIES.resource.api.kind else gangs.adopt(desired, live)

    def frozen(self, desired: Sequence[Manifest], live: Sequence[Manifest]) -> Frozen | None:
        return gangs.frozen(desired, live)

    def topology_objects(self, binding: ClusterTopologyBinding) -> list[Manifest]:
        return [] if self.topology_kind is None else gangs.network_topology(binding, self.settings)

    def topology_drift(self, binding: ClusterTopologyBinding, live: Manifest | None) -> TopologyDrift | None:
        return gangs.topology_drift(binding, live, self.settings)

"""The backend of `volcano`: the contract, what Volcano places together, and the Queues that limit a gang.

Volcano places the minimum of every member, the gang in one HyperNode of an allowed tier, and each member in one of its
own tier inside it. Pods without any request are counted without a node. A topology counts only if the configuration
says that the plugin network-topology-aware is on and all HyperNodes are known; else Volcano may ignore it. Volcano
wants all pending pods of a gang in one HyperNode, but only the minimum has to exist when it looks, so only that is
packed.

A Queue limits what its `capability` names, and with hierarchical queues those above it limit, too. A cpu or memory of
0 is no limit, but a device of 0 is. A Queue has its `guarantee` in any case. `deserved` is no ceiling: it follows the
requests of other queues. What the nodes have in total is judged with the nodes.

Source: volcano-sh/volcano v1.15.1, pkg/scheduler/api/{job_info,resource_info}.go,
pkg/scheduler/plugins/network-topology-aware, plugins/proportion/proportion.go, plugins/capacity/capacity.go
(`buildQueueAttrs`, `checkHierarchicalQueue`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from webhook.backends.base import Backend, GangMember, PodChanges
from webhook.backends.queues import leaves, limits_of, path_of, place_of
from webhook.backends.topologies import NoTopology, UnknownTopology, unfed_topology
from webhook.backends.volcano import gangs, keys, opted_in, pod_clique_sets, pod_groups
from webhook.backends.volcano.gangs import (
    carried_topology,
    has_effect,
    indexed,
    nodes_of_tier,
    queue_of_record,
    tier_of,
)
from webhook.errors import Inexpressible
from webhook.fit.ceilings import MOST_TRIED, allows, queue_request
from webhook.fit.gang_shapes import GangShape, MemberShape
from webhook.fit.packing import (
    VOLCANO,
    Ceiling,
    Ceilings,
    FitSettings,
    Need,
    Packing,
    PackingRole,
    Partition,
    PodReading,
    PodsNeed,
    Roles,
    group_of,
)
from webhook.fit.resource_requests import is_best_effort
from webhook.fit.verdict import FitFamily, FitScope
from webhook.model.capabilities import VOLCANO_QUEUE, CapabilityTable
from webhook.model.claims import Mark
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, FieldPath
from webhook.model.findings import shown
from webhook.model.grove import ClusterTopologyBinding, PodGang
from webhook.model.keys import Api, Record
from webhook.model.known_objects import SpecField, VolcanoQueue
from webhook.model.projections import Resource
from webhook.model.quantity import Amounts, Version
from webhook.model.reading import Manifest
from webhook.model.topology_tree import DriftReason, NodeLabels, NodeTopology, TopologyDrift, members_of
from webhook.validators.gang_scheduler import Limit
from webhook.validators.registry import collect
from webhook.validators.shared_checks import first_name
from webhook.workloads.opted_in_gang import has_foreign_gang
from webhook.workloads.opted_in_workload import QUEUE_ANNOTATIONS, OptedInWorkload, SchedulerGroups
from webhook.workloads.volcano_job import is_volcano_job, least_pods, pod_groups_of

_BEST_EFFORT = "where pods that request nothing may be, as Volcano starts the gang without them"


class _Tiers(NamedTuple):
    """The tiers that a gang and its members require, by member, and whether more is required that is not known."""

    whole: int | None = None
    parts: Mapping[str, int] = MappingProxyType({})
    unknown: bool = False


def packing_of(shape: GangShape, roles: Roles, settings: keys.VolcanoSettings, facts: ClusterFacts) -> Packing:
    tiers = _carried(shape, settings, facts) if shape.opted_in is not None else _tiers(shape, settings, facts)
    partitions = {
        tier: _partition(tier, shape.required_at, facts)
        for tier in {tiers.whole, *tiers.parts.values()}
        if tier is not None
    }
    unknown = tiers.unknown or None in partitions.values()
    members = [member for member in shape.needed if not _is_best_effort(roles, member)]
    free = (_BEST_EFFORT,) if len(members) < len(tuple(shape.needed)) else ()
    needs: list[Need] = []
    counted: dict[str, int] = {}
    for name, alike in _part_members(members).items():
        within = partitions.get(tiers.parts[name]) if name in tiers.parts else None
        if within is None:
            for member in alike:
                counted[member.called] = counted.get(member.called, 0) + member.minimum
        elif len(alike) == 1:
            needs.append(PodsNeed(roles.role_of(alike[0]), alike[0].minimum, within))
        else:
            needs.append(group_of(name, [PodsNeed(roles.role_of(member), member.minimum) for member in alike], within))
    needs[:0] = [PodsNeed(roles[name], count) for name, count in counted.items()]
    if not needs:
        return Packing((), left_out=(*shape.left_out, *free))
    whole = None if tiers.whole is None else partitions[tiers.whole]
    sets = (group_of(shape.name, needs, whole),)
    unread = ("the HyperNodes that the gang requires are not known",) if unknown else ()
    return Packing(sets, unjudged=free, left_out=(*shape.left_out, *unread))


def _part_members(members: list[MemberShape]) -> dict[str, list[MemberShape]]:
    parts: dict[str, list[MemberShape]] = {}
    for member in members:
        parts.setdefault(member.part or member.name, []).append(member)
    return parts


def _is_best_effort(roles: Roles, member: MemberShape) -> bool:
    needs = roles.role_of(member).pods
    return is_best_effort(needs.request, needs.unjudged)


def _tiers(shape: GangShape, settings: keys.VolcanoSettings, facts: ClusterFacts) -> _Tiers:
    """Returns the tiers of a PodGang. One that Volcano cannot express is not required: its gang is not written."""
    whole: int | None = None
    parts: dict[str, int] = {}
    unknown = False
    constraints: list[tuple[str, tuple[str, ...] | None]] = [] if shape.required is None else [(shape.required, None)]
    constraints += [(subset.required, subset.members) for subset in shape.subsets]
    constraints += [(member.required, (member.name,)) for member in shape.members if member.required is not None]
    for key, members in constraints:
        tier = _tier(key, shape, settings, facts) if members is None or len(members) == 1 else None
        if tier is None:
            unknown = True
        elif members is None:
            whole = tier
        else:
            parts[members[0]] = min(tier, parts.get(members[0], tier))
    return _Tiers(whole, {_part(shape, name): tier for name, tier in parts.items()}, unknown)


def _part(shape: GangShape, name: str) -> str:
    return next((member.part or name for member in shape.members if member.name == name), name)


def _tier(key: str, shape: GangShape, settings: keys.VolcanoSettings, facts: ClusterFacts) -> int | None:
    if settings.topology == "off":
        return None
    try:
        return tier_of(key, shape.topology_name, facts)
    except (NoTopology, UnknownTopology):
        return None


def _carried(shape: GangShape, settings: keys.VolcanoSettings, facts: ClusterFacts) -> _Tiers:
    if shape.opted_in is None:
        return _Tiers()
    if is_volcano_job(shape.opted_in.workload):
        # Volcano reads the topology of its own Job from its spec.
        return _Tiers(unknown=bool(shape.opted_in.workload.spec.get("networkTopology")))
    try:
        whole, parts = carried_topology(shape.opted_in, settings, facts)
    except Inexpressible:
        return _Tiers(unknown=True)
    hard = {name: tier for name, topology in parts.items() if (tier := _hard(topology)) is not None}
    return _Tiers(None if whole is None else _hard(whole), hard)


def _hard(topology: Manifest) -> int | None:
    tier: int | None = topology.get("highestTierAllowed") if topology.get("mode") == "hard" else None
    return tier


def _partition(tier: int, at: FieldPath | None, facts: ClusterFacts) -> Partition | None:
    """Returns the HyperNodes that a tier allows; None if they are not known, or if Volcano ignores the tier."""
    hyper_nodes, nodes = facts.hyper_nodes, facts.nodes
    if hyper_nodes is None or nodes is None or {"hyper_nodes", "nodes"} & (facts.partial or frozenset()):
        return None
    if not has_effect(tier, hyper_nodes):
        return None
    members = nodes_of_tier(tier, hyper_nodes, nodes)
    return None if members is None else Partition(_called(tier, facts), at=at, members=members)


def _called(tier: int, facts: ClusterFacts) -> str:
    """Returns what people call a tier: the name that its HyperNodes give it, if it is one."""
    hyper_nodes = indexed(facts.hyper_nodes or {})
    names = {hyper_nodes[name].tier_name for name in hyper_nodes.having(tier)} - {None}
    return f"{names.pop()}" if len(names) == 1 else f"HyperNode of tier {tier}"


_UNKNOWN_QUEUES = "the Volcano Queues are unknown"
_UNKNOWN_QUEUE = "the Volcano Queue {} is unknown"
_UNREADABLE = "an amount of the Volcano Queue {} cannot be read"
_DEFAULT = f"Volcano's webhook may put a gang in the queue {keys.DEFAULT_QUEUE} into the queue of its namespace"
_PARENTS = "a Volcano Queue above {} may limit the gang; the profile's enableHierarchy says whether it does"
_KEYS = tuple(("annotations", key) for key in QUEUE_ANNOTATIONS)
# 0 is no limit of these.
_NEVER_ZERO = frozenset({"cpu", "memory"})


def ceilings_of(
    shape: GangShape,
    roles: Mapping[str, PackingRole],
    facts: ClusterFacts,
    settings: keys.VolcanoSettings,
    queue: str | None = None,
) -> Ceilings:
    """Returns the queues that limit a gang with these roles. `queue` is that of its PodGroup, where that is known."""
    name = queue or queue_of_record(shape.record, opted_in=shape.opted_in is not None) or settings.defaultQueue
    queues = facts.volcano_queues
    if queues is None:
        return Ceilings(unknown=(_UNKNOWN_QUEUES,))
    if queue == shape.queue and name == keys.DEFAULT_QUEUE:
        return Ceilings(unknown=(_DEFAULT,))
    path = [(above, limiting) for above, limiting in path_of(name, queues) if above != keys.ROOT_QUEUE]
    unknown = [] if name in queues else [_UNKNOWN_QUEUE.format(shown(name))]
    if not settings.enableHierarchy:
        if settings.enableHierarchy is None and any(limiting.limited for _, limiting in path[1:]):
            unknown.append(_PARENTS.format(shown(name)))
        path = path[:1]
    unknown += [_UNREADABLE.format(shown(above)) for above, limiting in path if _limit(limiting) is None]
    at = place_of(shape, _KEYS, ANNOTATIONS / VOLCANO_QUEUE)
    ceilings = [_ceiling(name, above, _limit(limiting) or {}, at) for above, limiting in path]
    if all(allows(ceiling, shape, roles) for ceiling in ceilings):
        return Ceilings(tuple(ceilings), tuple(unknown))
    cure = _cure(name, shape, roles, queues)
    return Ceilings(tuple(ceiling._replace(cure=cure) for ceiling in ceilings), tuple(unknown))


def _ceiling(gang_queue: str, name: str, amounts: Amounts, at: FieldPath | None = None) -> Ceiling:
    called = "the Volcano Queue" if name == gang_queue else "the parent Volcano Queue"
    return Ceiling(called, name, amounts, FitFamily.QUEUE, FitScope.EVER, at=at, counted=queue_request)


def _limit(queue: VolcanoQueue) -> Amounts | None:
    """Returns the most that a queue gives of what it limits; None if it cannot be read."""
    if queue.capability is None or queue.guarantee is None:
        return None
    return {
        resource: max(amount, queue.guarantee.get(resource, 0))
        for resource, amount in queue.capability.items()
        if (amount > 0 or resource not in _NEVER_ZERO) and not resource.startswith(VOLCANO.requests.unsure)
    }


def _cure(name: str, shape: GangShape, roles: Mapping[str, PackingRole], queues: Mapping[str, VolcanoQueue]) -> str:
    """Returns the advice to name another queue that allows the gang, if one is known."""
    for other in leaves(queues)[:MOST_TRIED]:
        if other in {name, keys.ROOT_QUEUE, keys.DEFAULT_QUEUE} or queues[other].state != keys.OPEN:
            continue
        if all(allows(ceiling, shape, roles) for ceiling in _every(other, queues)):
            return f"name the Queue {shown(other)}, which allows it"
    return ""


def _every(name: str, queues: Mapping[str, VolcanoQueue]) -> Iterator[Ceiling]:
    for queue_name, queue in path_of(name, queues):
        yield _ceiling(name, queue_name, queue.capability or {})


RULES = collect(pod_clique_sets, pod_groups, opted_in)

# Subgroups exist since v1.14.0, which schedules them only with a hard topology (fixed by commit 56c69011).
FIRST_VERSION = Version(1, 14, 1)


class VolcanoBackend(Backend[keys.VolcanoSettings]):
    """Volcano 1.14.1 and newer."""

    name = keys.NAME
    settings_model = keys.VolcanoSettings
    group_marks = (keys.GROUP_MARK,)
    gathers_surplus = True
    # A session counts the pods against the minimum and puts the whole PodGroup, with its resourceVersion.
    # Source: volcano-sh/volcano, pkg/scheduler/framework/job_updater.go, pkg/scheduler/cache/cache.go (v1.15.1).
    shows_raises = True
    rules = RULES
    required_apis: tuple[Api, ...] = (keys.POD_GROUP,)
    required_fields = (SpecField(keys.POD_GROUP, "subGroupPolicy", "Volcano 1.14"),)
    projections = keys.PROJECTIONS
    reads_claims_of = frozenset({"Volcano"})
    controllers = keys.CONTROLLERS
    shapes = keys.SHAPES
    topology_from_nodes = True

    def __init__(self, settings: keys.VolcanoSettings, scheduler_version: Version | None = None) -> None:
        super().__init__(settings, scheduler_version)
        if settings.topology == "hypernode":
            self.required_apis = (keys.POD_GROUP, keys.HYPER_NODE)
        self.topology_binding = settings.topologyBinding or ""
        self.topology_written = settings.topologyObjects == "write"
        if self.topology_binding or self.topology_written:
            self.topology_kind = keys.HYPER_NODES.resource

    @classmethod
    def version_problem(cls, version: Version) -> str | None:
        if version < FIRST_VERSION:
            return f"volcano before {FIRST_VERSION} has no subgroups, or never schedules a gang with subgroups"
        return None

    def gang_kinds(self, facts: ClusterFacts) -> tuple[Api, ...]:
        return (keys.POD_GROUP,)

    def init(self, facts: ClusterFacts) -> tuple[str, ...]:
        without = self.settings.topology == "hypernode" and facts.hyper_nodes is not None and not facts.hyper_nodes
        degraded = (f"{self.name}: topology is refused: the cluster has no HyperNode",) if without else ()
        return (*super().init(facts), *degraded, *unfed_topology(self.name, self.settings, "HyperNode"))

    def own_minimums(self, workload: OptedInWorkload) -> Mapping[FieldPath, int]:
        least = least_pods(workload) if is_volcano_job(workload) else None
        return {part.place: (least or {}).get(part.path, 0) for part in workload.parts if least is not None}

    def scheduler_groups(self, workload: OptedInWorkload) -> SchedulerGroups | None:
        return pod_groups_of(workload) if is_volcano_job(workload) else None

    @property
    def gang_heads(self) -> tuple[Resource, ...]:
        return (Resource(keys.POD_GROUP, "podgroups"),)

    def limits(self, workload: OptedInWorkload, facts: ClusterFacts) -> Iterator[Limit]:
        name = first_name(workload, _KEYS, _KEYS)
        if name is None and has_foreign_gang(workload):
            return iter(())
        name = name or self.settings.defaultQueue
        return limits_of(name, facts.volcano_queues, "the Volcano Queue", keys.ROOT_QUEUE)

    def ceilings(self, shape: GangShape, roles: Mapping[str, PackingRole], facts: ClusterFacts) -> Ceilings:
        return ceilings_of(shape, roles, facts, self.settings, shape.queue)

    @property
    def capabilities(self) -> CapabilityTable:
        return keys.capabilities(self.settings)

    @property
    def membership(self) -> tuple[tuple[Mark, ...], ...]:
        return ((keys.GROUP_MARK, Mark("annotations", keys.ANNOTATION_DEVICE_GROUP)),)

    def prepare_pod(self, member: GangMember) -> PodChanges:
        return gangs.prepare_pod(member)

    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        return gangs.gang_objects(podgang, record, self.settings, facts)

    def pod_reading(self, settings: FitSettings) -> PodReading:
        return VOLCANO.restrict(settings)

    def packing(self, shape: GangShape, facts: ClusterFacts, settings: FitSettings) -> Packing:
        return packing_of(shape, self.roles(shape, facts, settings), self.settings, facts)

    def adopt(self, desired: Manifest, live: Manifest | None) -> Manifest:
        return gangs.adopt(desired, live)

    def node_topology_objects(
        self, binding: ClusterTopologyBinding, nodes: NodeLabels, live: Mapping[str, Manifest]
    ) -> NodeTopology:
        if self.topology_kind is None:
            return NodeTopology((), ())
        # A HyperNode of another author may have a name of ours, or one of ours as its member.
        taken = {*live, *(member for stored in live.values() for member in members_of(stored, "HyperNode"))}
        every = gangs.hyper_nodes(binding, nodes)
        names = [hyper_node["metadata"]["name"] for hyper_node in every]
        left_out = tuple(name for name in names if name in taken)
        return NodeTopology(tuple(gangs.hyper_nodes(binding, nodes, left_out) if left_out else every), left_out)

    def node_topology_drift(
        self, binding: ClusterTopologyBinding, nodes: NodeLabels, live: Mapping[str, Manifest]
    ) -> TopologyDrift | None:
        message = gangs.differences(binding, nodes, live)
        return None if message is None else TopologyDrift(binding.name, DriftReason.DRIFT, message)

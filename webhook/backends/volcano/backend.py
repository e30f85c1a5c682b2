"""The backend of `volcano`: implements the contract with the modules of this folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from webhook.backends.base import Backend, GangMember, PodChanges
from webhook.backends.queue_tree import limits_of
from webhook.backends.topology_metadata import unfed_topology
from webhook.backends.volcano import gangs, hyper_nodes, pods
from webhook.backends.volcano.capabilities import capabilities
from webhook.backends.volcano.ceilings import ceilings_of
from webhook.backends.volcano.facts import HYPER_NODES, PROJECTIONS, SHAPES
from webhook.backends.volcano.keys import (
    ANNOTATION_DEVICE_GROUP,
    CONTROLLERS,
    GROUP_MARK,
    HYPER_NODE,
    NAME,
    POD_GROUP,
    ROOT_QUEUE,
)
from webhook.backends.volcano.packing import packing_of
from webhook.backends.volcano.rules import RULES
from webhook.backends.volcano.settings import VolcanoSettings
from webhook.fit.packing import Ceilings, Packing, Role
from webhook.fit.reading import VOLCANO, PodReading
from webhook.fit.settings import FitSettings
from webhook.fit.shape import GangShape
from webhook.model.capabilities import CapabilityTable
from webhook.model.claims import Mark
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.keys import Api, Record
from webhook.model.known_objects import SpecField
from webhook.model.projections import Resource
from webhook.model.reading import Manifest
from webhook.model.topology_binding import ClusterTopologyBinding
from webhook.model.topology_objects import DriftReason, NodeTopology, TopologyDrift
from webhook.model.topology_tree import NodeLabels, members_of
from webhook.model.version import Version
from webhook.model.workloads.gang import made_elsewhere
from webhook.model.workloads.podgang import PodGang
from webhook.model.workloads.scheduler_group import SchedulerGroups
from webhook.model.workloads.volcano_job import is_volcano_job, least_pods, pod_groups_of
from webhook.model.workloads.workload import QUEUE_ANNOTATIONS, OptedInWorkload
from webhook.validators.gang_scheduler import Limit
from webhook.validators.opted_in_names import first_named

# Subgroups exist since v1.14.0, which schedules them only with a hard topology (fixed by commit 56c69011).
FIRST_VERSION = Version(1, 14, 1)


class VolcanoBackend(Backend[VolcanoSettings]):
    """Volcano 1.14.1 and newer."""

    name = NAME
    settings_model = VolcanoSettings
    group_marks = (GROUP_MARK,)
    gathers_surplus = True
    # A session counts the pods against the minimum and puts the whole PodGroup, with its resourceVersion.
    # Source: volcano-sh/volcano, pkg/scheduler/framework/job_updater.go, pkg/scheduler/cache/cache.go (v1.15.1).
    shows_raises = True
    rules = RULES
    required_apis: tuple[Api, ...] = (POD_GROUP,)
    required_fields = (SpecField(POD_GROUP, "subGroupPolicy", "Volcano 1.14"),)
    projections = PROJECTIONS
    reads_claims_of = frozenset({"Volcano"})
    controllers = CONTROLLERS
    shapes = SHAPES
    topology_from_nodes = True

    def __init__(self, settings: VolcanoSettings, scheduler_version: Version | None = None) -> None:
        super().__init__(settings, scheduler_version)
        if settings.topology == "hypernode":
            self.required_apis = (POD_GROUP, HYPER_NODE)
        self.topology_binding = settings.topologyBinding or ""
        self.topology_written = settings.topologyObjects == "write"
        if self.topology_binding or self.topology_written:
            self.topology_kind = HYPER_NODES.resource

    @classmethod
    def version_problem(cls, version: Version) -> str | None:
        if version < FIRST_VERSION:
            return f"volcano before {FIRST_VERSION} has no subgroups, or never schedules a gang with subgroups"
        return None

    def gang_kinds(self, facts: ClusterFacts) -> tuple[Api, ...]:
        return (POD_GROUP,)

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
        return (Resource(POD_GROUP, "podgroups"),)

    def limits(self, workload: OptedInWorkload, facts: ClusterFacts) -> Iterator[Limit]:
        keys = tuple(("annotations", key) for key in QUEUE_ANNOTATIONS)
        name = first_named(workload, keys, keys)
        if name is None and made_elsewhere(workload):
            return iter(())
        name = name or self.settings.defaultQueue
        return limits_of(name, facts.volcano_queues, "the Volcano Queue", ROOT_QUEUE)

    def ceilings(self, shape: GangShape, roles: Mapping[str, Role], facts: ClusterFacts) -> Ceilings:
        return ceilings_of(shape, roles, facts, self.settings, shape.queue)

    @property
    def capabilities(self) -> CapabilityTable:
        return capabilities(self.settings)

    @property
    def membership(self) -> tuple[tuple[Mark, ...], ...]:
        return ((GROUP_MARK, Mark("annotations", ANNOTATION_DEVICE_GROUP)),)

    def prepare_pod(self, member: GangMember) -> PodChanges:
        return pods.prepare_pod(member)

    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        return gangs.gang_objects(podgang, record, self.settings, facts)

    def pod_reading(self, settings: FitSettings) -> PodReading:
        return VOLCANO.under(settings)

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
        taken = {*live, *(member for found in live.values() for member in members_of(found, "HyperNode"))}
        every = hyper_nodes.hyper_nodes(binding, nodes)
        names = [made["metadata"]["name"] for made in every]
        left_out = tuple(name for name in names if name in taken)
        return NodeTopology(tuple(hyper_nodes.hyper_nodes(binding, nodes, left_out) if left_out else every), left_out)

    def node_topology_drift(
        self, binding: ClusterTopologyBinding, nodes: NodeLabels, live: Mapping[str, Manifest]
    ) -> TopologyDrift | None:
        message = hyper_nodes.differences(binding, nodes, live)
        return None if message is None else TopologyDrift(binding.name, DriftReason.DRIFT, message)

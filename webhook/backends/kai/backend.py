"""The backend of `kai-scheduler`: implements the contract with the modules of this folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from webhook.backends.base import Backend, GangMember, PodChanges
from webhook.backends.kai import gangs, pods, topology
from webhook.backends.kai.capabilities import CAPABILITIES
from webhook.backends.kai.ceilings import ceilings_of
from webhook.backends.kai.facts import PROJECTIONS, SHAPES, TOPOLOGIES
from webhook.backends.kai.keys import (
    ANNOTATION_SKIP,
    CONTROLLERS,
    DEFAULT_QUEUE,
    GROUP_MARK,
    GROUPED_KINDS,
    LABEL_SUBGROUP,
    NAME,
    POD_GROUP,
    TOPOLOGY,
)
from webhook.backends.kai.packing import packing_of
from webhook.backends.kai.pod_group_tree import pod_groups_of
from webhook.backends.kai.podgrouper import grouping_of
from webhook.backends.kai.rules import RULES
from webhook.backends.kai.settings import KaiSettings
from webhook.backends.queue_tree import limits_of
from webhook.fit.packing import Ceilings, Packing, Role
from webhook.fit.reading import KAI, PodReading
from webhook.fit.settings import FitSettings
from webhook.fit.shape import GangShape
from webhook.model.capabilities import CapabilityTable
from webhook.model.claims import Mark
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.frozen_changes import Frozen
from webhook.model.keys import GroupKind, Record
from webhook.model.known_objects import SpecField
from webhook.model.projections import Resource
from webhook.model.reading import Manifest
from webhook.model.topology_binding import ClusterTopologyBinding
from webhook.model.topology_objects import TopologyDrift
from webhook.model.version import Version
from webhook.model.workloads.gang import made_elsewhere
from webhook.model.workloads.podgang import PodGang
from webhook.model.workloads.scheduler_group import SchedulerGroups
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.gang_scheduler import Limit

# kai.scheduler/skip-podgrouper and minSubGroup exist since this version.
FIRST_VERSION = Version(0, 15)


class KaiBackend(Backend[KaiSettings]):
    """KAI 0.15 and newer."""

    name = NAME
    settings_model = KaiSettings
    group_marks = (GROUP_MARK,)
    rules = RULES
    required_apis = (POD_GROUP,)
    required_fields = (SpecField(POD_GROUP, "minSubGroup", "KAI 0.15"),)
    projections = PROJECTIONS
    reads_claims_of = frozenset({"KAI"})
    # Its podgrouper makes the group of every pod of the scheduler that names no group itself. Without Rollcall, pods of
    # kinds that it does not know would start one by one.
    groups_opted_in = True
    grouped_kinds = GROUPED_KINDS
    controllers = CONTROLLERS
    shapes = SHAPES
    topology_kind = TOPOLOGIES.resource

    @classmethod
    def version_problem(cls, version: Version) -> str | None:
        if version < FIRST_VERSION:
            return (
                f"kai-scheduler before {FIRST_VERSION} lacks minSubGroup and kai.scheduler/skip-podgrouper, so "
                "its podgrouper would take the pods out of their gangs"
            )
        return None

    def init(self, facts: ClusterFacts) -> tuple[str, ...]:
        drifts = (f"{self.name}: {drift.message}" for drift in topology.known_drifts(facts))
        return (*super().init(facts), *drifts)

    @property
    def configured_keys(self) -> frozenset[str]:
        return frozenset({self.settings.queueLabelKey, self.settings.nodePoolLabelKey})

    def makes_gangs_of(self, kind: GroupKind) -> bool:
        return not self.groups(kind)

    def own_minimums(self, workload: OptedInWorkload) -> Mapping[FieldPath, int]:
        grouping = grouping_of(workload) if self.groups(workload.resource.api.group_kind) else None
        return {} if grouping is None else grouping.minimums

    def scheduler_groups(self, workload: OptedInWorkload) -> SchedulerGroups | None:
        if not self.groups(workload.resource.api.group_kind):
            return None
        return pod_groups_of(workload, self.scheduler_version)

    @property
    def gang_heads(self) -> tuple[Resource, ...]:
        return (Resource(POD_GROUP, "podgroups"),)

    def limits(self, workload: OptedInWorkload, facts: ClusterFacts) -> Iterator[Limit]:
        name = gangs.named_queue(workload, self.settings)
        if name is None and not made_elsewhere(workload):
            name = self.settings.defaultQueue
        name = name or gangs.project_queue(workload, self.settings) or DEFAULT_QUEUE
        return limits_of(name, facts.kai_queues, "the KAI Queue")

    def ceilings(self, shape: GangShape, roles: Mapping[str, Role], facts: ClusterFacts) -> Ceilings:
        return ceilings_of(shape, roles, facts, self.settings)

    @property
    def capabilities(self) -> CapabilityTable:
        return CAPABILITIES

    @property
    def membership(self) -> tuple[tuple[Mark, ...], ...]:
        # If one of them is missing, podgrouper treats the pod as its own.
        return (
            (
                GROUP_MARK,
                Mark("annotations", ANNOTATION_SKIP, "true"),
                Mark("labels", LABEL_SUBGROUP),
            ),
        )

    def prepare_pod(self, member: GangMember) -> PodChanges:
        return pods.prepare_pod(member, self.settings)

    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        return gangs.gang_objects(podgang, record, self.settings, facts)

    def pod_reading(self, settings: FitSettings) -> PodReading:
        return KAI.under(settings)

    def packing(self, shape: GangShape, facts: ClusterFacts, settings: FitSettings) -> Packing:
        return packing_of(shape, self.roles(shape, facts, settings), self.scheduler_version, facts)

    def adopt(self, desired: Manifest, live: Manifest | None) -> Manifest:
        if desired["kind"] == TOPOLOGY.kind:
            return topology.adopt(desired, live)
        return gangs.adopt(desired, live, self.settings)

    def restore(self, desired: Manifest, present: Mapping[str, int]) -> Manifest:
        return gangs.restore(desired, present)

    def frozen(self, desired: Sequence[Manifest], live: Sequence[Manifest]) -> Frozen | None:
        return gangs.frozen(desired, live)

    def topology_objects(self, binding: ClusterTopologyBinding) -> list[Manifest]:
        return topology.topology_objects(binding)

    def topology_must_be_remade(self, desired: Manifest, live: Manifest) -> bool:
        return topology.must_be_remade(desired, live)

    def topology_drift(self, binding: ClusterTopologyBinding, live: Manifest | None) -> TopologyDrift | None:
        return topology.topology_drift(binding, live)

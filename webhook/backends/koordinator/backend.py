"""The backend of `koord-scheduler`: implements the contract with the modules of this folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from webhook.backends.base import Backend, GangMember, PodChanges, Wake
from webhook.backends.koordinator import gangs, network_topology, pods
from webhook.backends.koordinator.capabilities import CAPABILITIES
from webhook.backends.koordinator.ceilings import ceilings_of
from webhook.backends.koordinator.facts import NETWORK_TOPOLOGIES, PROJECTIONS, SHAPES
from webhook.backends.koordinator.keys import (
    ANNOTATION_MINIMUM,
    CONTROLLERS,
    GROUP_MARKS,
    LABEL_OLD_MINIMUM,
    LABEL_POD_GROUP,
    NAME,
    POD_GROUP,
    QUOTA_KEYS,
    QUOTA_KEYS_OF_PODS,
)
from webhook.backends.koordinator.packing import packing_of
from webhook.backends.koordinator.rules import RULES
from webhook.backends.koordinator.settings import KoordinatorSettings
from webhook.backends.koordinator.topology import unavailable
from webhook.backends.topology_metadata import unfed_topology
from webhook.fit.packing import Ceilings, Packing, Role
from webhook.fit.reading import KOORDINATOR, PodReading
from webhook.fit.settings import FitSettings
from webhook.fit.shape import GangShape
from webhook.model.capabilities import Capability, CapabilityTable
from webhook.model.claims import Mark
from webhook.model.facts import ClusterFacts
from webhook.model.frozen_changes import Frozen
from webhook.model.keys import Record
from webhook.model.projections import Resource
from webhook.model.reading import Manifest
from webhook.model.topology_binding import ClusterTopologyBinding
from webhook.model.topology_objects import TopologyDrift
from webhook.model.version import Version
from webhook.model.workloads.podgang import PodGang
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.gang_scheduler import Limit, permit_retry_seconds
from webhook.validators.opted_in_names import first_named

# Grove puts scheduling gates on every pod. They exist since the kube-scheduler that v1.5 is built on.
FIRST_VERSION = Version(1, 5)


class KoordinatorBackend(Backend[KoordinatorSettings]):
    """Koordinator 1.5 and newer; topology from 1.7."""

    name = NAME
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
    group_marks = GROUP_MARKS
    gathers_surplus = True
    rules = RULES
    # The scheduler plans a gang with all of its pods and binds those without a gate (seen with v1.8.0;
    # pkg/scheduler/plugins/coscheduling/core/core.go ignores gates). Grove removes its gates one by one, so without the
    # pod gate half a gang would start.
    gate = True
    required_apis = (POD_GROUP,)
    projections = PROJECTIONS
    reads_claims_of = frozenset({"Koordinator"})
    controllers = CONTROLLERS
    shapes = SHAPES
    allocates_devices = True

    def __init__(self, settings: KoordinatorSettings, scheduler_version: Version | None = None) -> None:
        super().__init__(settings, scheduler_version)
        self.topology_binding = settings.topologyBinding or ""
        self.topology_written = settings.topologyObjects == "write"
        if self.topology_binding or self.topology_written:
            self.topology_kind = NETWORK_TOPOLOGIES.resource

    @classmethod
    def version_problem(cls, version: Version) -> str | None:
        if version < FIRST_VERSION:
            return f"koord-scheduler before {FIRST_VERSION} ignores scheduling gates, which Grove puts on every pod"
        return None

    @property
    def judged_marks(self) -> tuple[Mark, ...]:
        return *self.group_marks, Mark("labels", LABEL_OLD_MINIMUM), Mark("annotations", ANNOTATION_MINIMUM)

    @property
    def implied(self) -> tuple[Capability, ...]:
        return () if self.settings.defaultQoSClass is None else (Capability.QOS_CLASS,)

    def init(self, facts: ClusterFacts) -> tuple[str, ...]:
        reason = unavailable(self.settings, self.scheduler_version, facts)
        degraded = () if reason is None else (f"{self.name}: topology is refused: {reason}",)
        unfed = unfed_topology(self.name, self.settings, "ClusterNetworkTopology")
        return (*super().init(facts), *degraded, *unfed)

    @property
    def gang_heads(self) -> tuple[Resource, ...]:
        return (Resource(POD_GROUP, "podgroups"),)

    @property
    def retry_seconds(self) -> int:
        # It keeps the pods that have a node for the timeout. A rejected gang may not be tried again before its queue is
        # flushed (seen with v1.8.0).
        return permit_retry_seconds(self.settings.scheduleTimeoutSeconds)

    def limits(self, workload: OptedInWorkload, facts: ClusterFacts) -> Iterator[Limit]:
        name = first_named(workload, QUOTA_KEYS, QUOTA_KEYS_OF_PODS)
        found = None if name is None else (facts.elastic_quotas or {}).get(name)
        if name is not None and found is not None and found.limited:
            yield Limit("the ElasticQuota", name, name)

    def ceilings(self, shape: GangShape, roles: Mapping[str, Role], facts: ClusterFacts) -> Ceilings:
        return ceilings_of(shape, roles, facts, self.settings)

    @property
    def capabilities(self) -> CapabilityTable:
        return CAPABILITIES

    @property
    def membership(self) -> tuple[tuple[Mark, ...], ...]:
        return ((Mark("labels", LABEL_POD_GROUP),),)

    def prepare_pod(self, member: GangMember) -> PodChanges:
        return pods.prepare_pod(member, self.settings)

    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        return gangs.gang_objects(podgang, self.settings, self.scheduler_version, facts)

    def pod_reading(self, settings: FitSettings) -> PodReading:
        return KOORDINATOR.under(settings)

    def packing(self, shape: GangShape, facts: ClusterFacts, settings: FitSettings) -> Packing:
        roles = self.roles(shape, facts, settings)
        return packing_of(shape, roles, self.settings, self.scheduler_version, facts)

    def may_be_started(self, objects: Sequence[Manifest]) -> bool:
        return any(map(gangs.remembers_start, objects))

    def adopt(self, desired: Manifest, live: Manifest | None) -> Manifest:
        return desired if desired["kind"] == NETWORK_TOPOLOGIES.resource.api.kind else gangs.adopt(desired, live)

    def frozen(self, desired: Sequence[Manifest], live: Sequence[Manifest]) -> Frozen | None:
        return gangs.frozen(desired, live)

    def topology_objects(self, binding: ClusterTopologyBinding) -> list[Manifest]:
        return [] if self.topology_kind is None else network_topology.network_topology(binding, self.settings)

    def topology_drift(self, binding: ClusterTopologyBinding, live: Manifest | None) -> TopologyDrift | None:
        return network_topology.topology_drift(binding, live, self.settings)

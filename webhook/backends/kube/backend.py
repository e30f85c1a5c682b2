"""The backend of `default-scheduler`: the Workload API if gangs are configured, else nothing; and what kube-scheduler
places together.

1.35 and 1.36, and 1.37 without composites: the pods of one group; groups are independent of each other. 1.37 with
composites: all groups of the tree, each in the domain that it or a group above it requires. Which feature gates the
scheduler has is not visible in the API: without CompositePodGroup in `schedulerGates` only the sum counts, and a
domain only with TopologyAwareWorkloadScheduling, too.

From 1.38 on a node whose label is empty is in no domain. What the API server serves does not show that: its
kube-scheduler may be older. So such nodes count as one domain for *never*, and a gang is not said to fit beside them,
unless nothing was read from a cluster and the release was stated, which is then that of the scheduler as well.

Source: k8s.io/kubernetes pkg/scheduler/schedule_one_podgroup.go, framework/plugins/{gangscheduling,topologyaware}
(v1.35.4, v1.36.3, v1.37.0); k8s.io/api v0.38.0-beta.0, scheduling/v1beta1 (TopologyConstraint).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webhook.backends.base import Backend, GangMember, PodChanges
from webhook.backends.kube import gangs, groups, opted_in, pod_clique_sets, pod_groups, pods, preemption, workload_api
from webhook.backends.kube.groups import PROJECTIONS, SHAPES, TREES, WORKLOADS_OF_GANGS
from webhook.backends.kube.pods import is_merged, named_group
from webhook.backends.kube.workload_api import (
    CONTROLLERS,
    UNREAD,
    Generation,
    KubeSettings,
    capabilities,
    every_kind,
    generation,
    is_assumed,
    is_of_1_38,
    missing,
    served,
    shows_workload_api,
    unread,
    unread_kind,
    workload_apis,
)
from webhook.fit.gang_shapes import GangShape
from webhook.fit.packing import (
    KUBE,
    FitSettings,
    Packing,
    Partition,
    PodReading,
    Roles,
    no_domain,
    pack_members_apart,
    pack_pods_apart,
    pack_together,
)
from webhook.model.capabilities import CapabilityTable, Disruption
from webhook.model.claims import Mark
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ROOT, FieldPath
from webhook.model.findings import Unjudged
from webhook.model.gang_objects import Frozen, JudgedKind, PodsGroup, StoredObject
from webhook.model.grove import PodGang
from webhook.model.keys import Api, Record
from webhook.model.nodes import Nodes
from webhook.model.pod_groups import Trees
from webhook.model.projections import Resource
from webhook.model.reading import Manifest
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER
from webhook.validators.registry import collect

# In 1.37 GangScheduling is merged into GenericWorkload, which the other gates need.
_GANGS = frozenset({"GenericWorkload", "GangScheduling", "CompositePodGroup", "TopologyAwareWorkloadScheduling"})
_TREES, _TOPOLOGY = "CompositePodGroup", "TopologyAwareWorkloadScheduling"


def packing_of(shape: GangShape, roles: Roles, settings: KubeSettings, facts: ClusterFacts) -> Packing:
    gates = settings.schedulerGates
    if not settings.gangScheduling or (gates is not None and _GANGS.isdisjoint(gates)):
        return pack_pods_apart(shape, roles)
    spoken = generation(settings, workload_apis(settings, facts))
    if spoken is None:
        return Packing(
            (),
            unknown=(
                "unknown: which version of the Workload API the cluster serves; set apiGeneration or pass --facts",
            ),
        )
    if spoken is not Generation.TREE:
        return _flat_packing(shape, roles, settings, spoken)
    if gates is None or _TREES not in gates:
        # Whether or not its groups wait for each other, a gang whose sum fits nowhere never runs whole.
        return _leaving_out(pack_together(shape, roles, no_domain), "the gates of kube-scheduler (schedulerGates)")
    if _TOPOLOGY in gates:
        return _packing_in_domains(shape, roles, settings, facts)
    if shape.required or shape.subsets or any(member.required for member in shape.members):
        return _leaving_out(pack_together(shape, roles, no_domain), "topology, as the scheduler's gate for it is off")
    return pack_together(shape, roles)


def _flat_packing(shape: GangShape, roles: Roles, settings: KubeSettings, spoken: Generation) -> Packing:
    """Returns the packing without composites. Rollcall writes no groups for a gang that these cannot express."""
    members = {member.part or member.name for member in shape.members}
    if len(members) <= 1 or is_merged(settings, spoken):
        if len(members) > 1 and any(0 < member.minimum < member.pods for member in shape.members):
            return Packing((), unknown=("how a merged group counts pods above the minimum",))
        return pack_together(shape, roles)
    return pack_members_apart(shape, roles)


def _packing_in_domains(shape: GangShape, roles: Roles, settings: KubeSettings, facts: ClusterFacts) -> Packing:
    filled = is_assumed(settings, facts) and is_of_1_38(workload_apis(settings, facts)) is True
    keys: set[str] = set()

    def domain(key: str, at: FieldPath | None) -> Partition:
        keys.add(key)
        return _domain(key, at, shape.topology_name, facts, filled=filled)

    packing = pack_together(shape, roles, domain)
    empty = [] if filled or facts.nodes is None else [key for key in sorted(keys) if _has_empty(key, facts.nodes)]
    return _leaving_out(packing, f"nodes whose label {empty[0]} is empty") if empty else packing


def _has_empty(key: str, nodes: Nodes) -> bool:
    return nodes.remembered(("empty label", key), lambda: any(node.labels.get(key) == "" for node in nodes.values()))


def _domain(key: str, at: FieldPath | None, binding: str | None, facts: ClusterFacts, *, filled: bool) -> Partition:
    """Returns the domains of a label, and the next broader ones of the same ClusterTopologyBinding."""
    topology = None if binding is None else (facts.topology_bindings or {}).get(binding)
    partition = None
    for domain, label in () if topology is None else topology.keys.items():
        partition = Partition(domain, (label,), at, broader=partition, filled=filled)
        if label == key:
            return partition
    return Partition(key, (key,), at, filled=filled)


def _leaving_out(packing: Packing, what: str) -> Packing:
    return replace(packing, left_out=(*packing.left_out, what))


RULES = collect(pod_clique_sets, pod_groups, preemption, pods, opted_in, groups)

# Each generation reads one of the fields and drops the other.
_MARKS = (Mark("spec", "schedulingGroup"), Mark("spec", "workloadRef"))


class KubeBackend(Backend[KubeSettings]):
    """Always enabled: without configuration it adds nothing to what Kubernetes does."""

    name = DEFAULT_SCHEDULER
    settings_model = KubeSettings
    rules = RULES
    projections = PROJECTIONS
    reads_claims_of = frozenset({"the Workload API"})
    controllers = CONTROLLERS
    shapes = SHAPES
    allocates_devices = True

    @property
    def judged_kinds(self) -> tuple[JudgedKind, ...]:
        return super().judged_kinds if self.settings.gangScheduling else ()

    @property
    def judged_marks(self) -> tuple[Mark, ...]:
        return _MARKS if self.settings.gangScheduling else ()

    @property
    def trees(self) -> tuple[Trees, ...]:
        # Even if Rollcall's own gangs have no trees, other authors may make trees.
        return TREES if self.settings.gangScheduling else ()

    def unread(self, api: Api) -> Unjudged | None:
        needs = unread_kind(api)
        return None if needs is None else Unjudged(ROOT, needs, "kube/workload-api", UNREAD)

    def _apis(self, facts: ClusterFacts) -> frozenset[Api] | None:
        return workload_apis(self.settings, facts)

    def assumed(self, facts: ClusterFacts) -> str | None:
        if not self.settings.gangScheduling or not is_assumed(self.settings, facts):
            return None
        return f"{self.name} is judged as of Kubernetes {facts.kubernetes}, with its feature gates for gangs on"

    @property
    def carries_priority(self) -> bool:
        # kube-scheduler blocks a gang whose pods have another priority than their group, and Grove sets no priority.
        return self.settings.gangScheduling

    def dialect(self, facts: ClusterFacts) -> str | None:
        return generation(self.settings, self._apis(facts)) if self.settings.gangScheduling else ""

    def gang_kinds(self, facts: ClusterFacts) -> tuple[Api, ...]:
        versions = served(self.settings, self._apis(facts)) if self.settings.gangScheduling else None
        return () if versions is None else versions.kinds

    @property
    def writable_kinds(self) -> tuple[Api, ...]:
        return every_kind() if self.settings.gangScheduling else ()

    def init(self, facts: ClusterFacts) -> tuple[str, ...]:
        if (
            not self.settings.gangScheduling
            or not shows_workload_api(self._apis(facts))
            or self.dialect(facts) is not None
        ):
            return ()
        if (needs := unread(self.settings, self._apis(facts))) is not None:
            return (f"{self.name}: {needs} are unknown; no gang is made: {UNREAD}",)
        return (f"{self.name}: the cluster does not serve {missing(self.settings)}; its workloads are refused",)

    @property
    def gang_heads(self) -> tuple[Resource, ...]:
        return WORKLOADS_OF_GANGS if self.settings.gangScheduling else ()

    @property
    def capabilities(self) -> CapabilityTable:
        return capabilities(self.settings)

    def named_group(self, pod: StoredObject, facts: ClusterFacts) -> PodsGroup | None:
        return named_group(pod, facts) if self.settings.gangScheduling else None

    @property
    def membership(self) -> tuple[tuple[Mark, ...], ...]:
        return tuple((mark,) for mark in _MARKS) if self.settings.gangScheduling else ((),)

    def prepare_pod(self, member: GangMember) -> PodChanges:
        return pods.prepare_pod(member, self.settings)

    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        return gangs.gang_objects(podgang, record, self.settings, facts)

    def settle(self, desired: Sequence[Manifest], live: Sequence[Manifest]) -> list[Manifest]:
        return gangs.settled(desired, live)

    def disruption_mode(self, objects: Sequence[Manifest]) -> Disruption | None:
        return workload_api.mode_in(objects)

    def adopt(self, desired: Manifest, live: Manifest | None) -> Manifest:
        return gangs.adopt(desired, live)

    def pod_reading(self, settings: FitSettings) -> PodReading:
        return KUBE.restrict(settings)

    def packing(self, shape: GangShape, facts: ClusterFacts, settings: FitSettings) -> Packing:
        return packing_of(shape, self.roles(shape, facts, settings), self.settings, facts)

    def frozen(self, desired: Sequence[Manifest], live: Sequence[Manifest]) -> Frozen | None:
        return gangs.frozen(desired, live)

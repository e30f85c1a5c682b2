"""scheduler-plugins: a PodGang becomes one PodGroup that counts pods, and its pods name the PodGroup by a label.

Facts here come from kubernetes-sigs/scheduler-plugins at v0.34.7 (pkg/coscheduling, apis/scheduling/v1alpha1,
manifests/install/charts), and from runs of its scheduler on a real API server ("seen"), unless a docstring says
otherwise. The plugin Coscheduling lets a pod go to its node only when `minMember` pods of its group have a node. It
does not matter which pods, and it knows no topology.

A PodGroup has no priority. Pods are queued by their own priority before anything else (`Less`), and Grove does not set
it. No field of a PodGroup is frozen: the plugin reads it again for each pod that it tries.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from webhook.backends import families
from webhook.backends.base import Backend, BackendSettings, GangMember, PodChanges, Wake
from webhook.backends.families import TOPOLOGY, unsupported_nvlink_domains, unsupported_topology
from webhook.backends.topologies import inexpressible, refuse_spare_pods, refuse_twins
from webhook.fit.gang_shapes import GangShape
from webhook.fit.packing import COSCHEDULING, FitSettings, Packing, PodReading, group_of, needs_in, no_domain
from webhook.model.capabilities import SUPPORTED, Capability, CapabilityTable, depends
from webhook.model.claims import Mark
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.findings import Action, Finding
from webhook.model.gang_objects import JUDGED_PODS, JudgedKind, StoredObject, gang_metadata
from webhook.model.grove import PodGang
from webhook.model.keys import LABEL_VALUE_LIMIT, Api, Record, cut_name
from webhook.model.kueue import QUEUE_NAME, REQUIRED_TOPOLOGY
from webhook.model.projections import Resource
from webhook.model.quantity import Version
from webhook.model.reading import Manifest, integer, mapping
from webhook.validators import shared_checks
from webhook.validators.examples import clique, job, pod_clique_set, pod_template
from webhook.validators.gang_scheduler import NAMESPACE, permit_retry_seconds
from webhook.validators.kueue_topology import gangs_of, places_all
from webhook.validators.registry import Context, Example, Results, Subject, rule
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet

# The schedulerName that the project's Helm chart gives its scheduler.
NAME = "scheduler-plugins-scheduler"

# Not Koordinator's kind with the same name: that kind is in the group that scheduler-plugins no longer uses.
POD_GROUP = Api("scheduling.x-k8s.io", "v1alpha1", "PodGroup")

POD_GROUPS = JudgedKind(POD_GROUP.group, POD_GROUP.kind, "podgroups")

# On a pod: the PodGroup in its namespace that the pod belongs to.
LABEL_POD_GROUP = "scheduling.x-k8s.io/pod-group"
GROUP_MARK = Mark("labels", LABEL_POD_GROUP)


def pod_group(podgang: str) -> str:
    """Returns the PodGroup's name: the PodGang's name, cut to the length of a label value. Used for the pods and for
    the object.
    """
    return cut_name(podgang, LABEL_VALUE_LIMIT)


class CoschedulingSettings(BackendSettings):
    """scheduleTimeoutSeconds (seconds, at least 1) is how long a placed pod keeps its place while it waits for the rest
    of its gang. Then all pods of the gang give up their places and start again. kube-scheduler's framework caps it at
    900.

    The default is the plugin's own and Trainer's. No pod is placed before all pods exist and are free, so it is the
    time for one pass. With a longer timeout, a large gang that lacks a tenth of its room blocks the rest of that room.
    """

    scheduleTimeoutSeconds: int = Field(default=60, ge=1, le=2**31 - 1)


# What each rule of this scheduler is called with, besides what it judges.
RuleContext = Context[CoschedulingSettings]

NO_TOPOLOGY = unsupported_topology("coscheduling")
CAPABILITIES: CapabilityTable = {
    Capability.GANG: SUPPORTED,
    Capability.MULTIPLE_POD_GROUPS: depends("cliques without spare pods, because only the sum of pods is counted"),
    Capability.CLIQUE_MINIMUM: depends("a gang of one clique, because only the sum of pods is counted"),
    Capability.SCALE_GANG: SUPPORTED,
    Capability.MULTI_NODE_NVLINK: unsupported_nvlink_domains("coscheduling"),
    # The in-tree plugin of the kube-scheduler that it is built on; its chart grants the rights.
    Capability.RESOURCE_CLAIMS: SUPPORTED,
    Capability.PRIORITY_CLASS: depends("a PriorityClass that exists"),
    **dict.fromkeys(TOPOLOGY, NO_TOPOLOGY),
}


def _refuse_topology(podgang: PodGang) -> None:
    for constraint in podgang.constraints:
        for field, key in (("required", constraint.required), ("preferred", constraint.preferred)):
            if key is not None:
                raise inexpressible("coscheduling/topology", constraint.path / field, key, NO_TOPOLOGY.why)


_INT32 = 2**31 - 1


def _pod_group(minimum: int) -> Manifest:
    head = {"apiVersion": f"{POD_GROUP.group}/{POD_GROUP.version}", "kind": "PodGroup"}
    return {**head, "metadata": {"name": "demo", "namespace": "default"}, "spec": {"minMember": minimum}}


@rule(
    "coscheduling/spare-pods",
    capability=Capability.MULTIPLE_POD_GROUPS,
    fails_closed=True,
    passes=Example(pod_clique_set(clique("leader", replicas=1), clique("worker", replicas=4))),
    fails=Example(pod_clique_set(clique("leader", replicas=1), clique("worker", replicas=4, minimum=2))),
)
def spare_pods(workload: PodCliqueSet, _: RuleContext) -> Results:
    """A PodGroup counts pods of any clique. Three workers would be enough for a gang of two workers and a leader, even
    if the leader has no room. The sum is exact if every clique of the gang needs all its pods.

    Source: kubernetes-sigs/scheduler-plugins, pkg/coscheduling/core/core.go (`Permit`), v0.34.7.
    """
    return shared_checks.spare_pods(
        workload,
        why="coscheduling counts only the sum of pods, so spare pods of this clique could replace pods of another",
        remedy="set minAvailable to replicas and remove autoScalingConfig, or choose another scheduler",
    )


topology = families.no_topology(
    "coscheduling/topology",
    CAPABILITIES,
    """A PodGroup has a number of pods and a timeout, but no topology. The scheduler would spread the gang over the
    cluster.

    Source: kubernetes-sigs/scheduler-plugins, apis/scheduling/v1alpha1/types.go (`PodGroupSpec`), v0.34.7.
    """,
    fails_closed=True,
)

multi_node_nvlink = families.multi_node_nvlink(
    "coscheduling/mnnvl",
    CAPABILITIES,
    """The scheduler ignores NVLink domains when it places the pods of a ComputeDomain. A group may be split over racks,
    and its processes hang or use a slower network.

    Source: ai-dynamo/grove, operator/internal/mnnvl; no plugin of kubernetes-sigs/scheduler-plugins v0.34.7 knows
    ComputeDomains.
    """,
)

priority_class = families.priority_class(
    "coscheduling/priority-class",
    """Pods are queued by their own priority, which they get at creation. A class that does not exist gives them no
    priority, and the gang would wait behind all others.

    Source: kubernetes-sigs/scheduler-plugins, pkg/coscheduling/coscheduling.go (`Less`), v0.34.7; ai-dynamo/grove,
    operator/internal/controller/podclique (pods get no class of their set's).
    """,
    why="the pods would have no priority",
)

claimed_pods = families.claimed_pods(
    "coscheduling/claimed-pods",
    source="kubernetes-sigs/scheduler-plugins, pkg/util/podgroup.go (`GetPodGroupLabel`): a pod has one group.",
    labels={"scheduling.x-k8s.io/pod-group": "training"},
)

foreign_member = families.foreign_member(
    "coscheduling/foreign-member",
    "kubernetes-sigs/scheduler-plugins, pkg/coscheduling/core/core.go (`Permit`: pods are counted by label), v0.34.7.",
    POD_GROUP,
    GROUP_MARK,
)


@rule("coscheduling/group-minimum", kinds=(POD_GROUPS,), passes=Example(_pod_group(4)), fails=Example(_pod_group(0)))
def group_minimum(stored: StoredObject, _: RuleContext) -> Results:
    """The API server refuses a PodGroup whose minMember is below 1, or has more than 32 bits, as its timeout. Without a
    minMember the PodGroup holds no pod, and the pods start one by one.

    Source: kubernetes-sigs/scheduler-plugins, the CRD of scheduling.x-k8s.io/v1alpha1 (minimum: 1) and
    pkg/coscheduling/core/core.go (`Permit`), v0.34.7.
    """
    minimum = integer(stored.spec.get("minMember"))
    if (minimum or 0) <= 0:
        yield Finding(
            at=SPEC / "minMember",
            value=minimum,
            why="coscheduling then waits for no other pod, so the pods start one by one"
            if minimum is None
            else "the API server refuses a minimum below 1",
            remedy="set it to the number of pods that must start together",
            at_most=Action.WARN if minimum is None else Action.DENY,
        )
    for field in ("minMember", "scheduleTimeoutSeconds"):
        number = integer(stored.spec.get(field))
        if number is not None and number > _INT32:
            yield Finding(SPEC / field, number, "the API server refuses a number above 32 bits", "lower it")


group_pods = families.group_pods(
    "coscheduling/group-pods",
    """Coscheduling holds the pods of a PodGroup until as many as its minMember are there. With fewer they wait for
    ever. The rule counts the pods in the same files: pods, and the templates of their controllers.

    Source: kubernetes-sigs/scheduler-plugins, pkg/coscheduling/core/core.go (`PreFilter`), v0.34.7.
    """,
    system="scheduler-plugins",
    kind=POD_GROUPS,
    version="v1alpha1",
)

disruption_ignored = families.pods_are_taken_singly(
    "coscheduling/disruption-ignored",
    """Coscheduling holds a gang until its minimum is there, and has no part in preemption. kube-scheduler's plugin
    DefaultPreemption, which is on in scheduler-plugins too, chooses victims pod by pod on each node. A gang that loses
    a pod keeps the others running below its minimum.

    Source: kubernetes-sigs/scheduler-plugins v0.34.7, pkg/coscheduling/coscheduling.go (its PostFilter only rejects
    pods that wait), manifests/coscheduling/scheduler-config.yaml.
    """,
    why="Coscheduling has no part in preemption, which may take single pods of the gang",
    remedy="remove the label, or give the gang the highest priority",
)

# v0.33.5 counts gated pods, v0.34.7 does not.
_COUNTS_STARTABLE = Version(0, 34)
_PLACED = job(
    scheduler=NAME,
    labels={QUEUE_NAME: "team"},
    template=pod_template(annotations={REQUIRED_TOPOLOGY: "example.com/rack"}),
)


@rule(
    "kueue/gated-pods",
    subject=Subject.ANY_WORKLOAD,
    default=Action.WARN,
    passes=Example(_PLACED, version="0.34.7"),
    fails=Example(_PLACED, version="0.33.5"),
)
def gated_pods(workload: PodCliqueSet | OptedInWorkload, context: RuleContext) -> Results:
    """Kueue's topology-aware scheduling frees the pods of a gang one after another. An old Coscheduling counts the pods
    that are still gated, so the first pods get nodes and keep them while they wait for the others.

    Source: kubernetes-sigs/scheduler-plugins, pkg/coscheduling/core/core.go (`PreFilter`), v0.33.5 and v0.34.7; pull
    request 952.
    """
    version = context.scheduler_version
    if version is None or version >= _COUNTS_STARTABLE or (gangs := gangs_of(workload, context)) is None:
        return
    if any(pod.request is not None for pod in gangs.pods) or places_all(
        gangs.held.queue, workload.namespace, context.facts
    ):
        yield Finding(
            at=gangs.held.path or NAMESPACE,
            value=gangs.held.queue,
            why=f"Kueue frees its pods one after another, and scheduler-plugins {version} counts those still gated",
            remedy="use scheduler-plugins 0.34.7 or newer",
        )


RULES = (
    spare_pods,
    topology,
    multi_node_nvlink,
    priority_class,
    claimed_pods,
    foreign_member,
    group_minimum,
    group_pods,
    disruption_ignored,
    gated_pods,
)

# Grove puts scheduling gates on every pod. They exist since the kube-scheduler that v0.27 is built on.
FIRST_VERSION = Version(0, 27)

# The fields that are read of PodGroups stored by other authors, with the type of each field.
SHAPES: dict[tuple[str, str], dict[str, Any]] = {
    POD_GROUPS[:2]: {"spec": {"minMember": int, "scheduleTimeoutSeconds": int}}
}


class CoschedulingBackend(Backend[CoschedulingSettings]):
    """scheduler-plugins 0.27 and newer, with its plugin Coscheduling."""

    name = NAME
    # v0.34.7, seen: all pods of a rejected gang may stay in the queue with Coscheduling as their only reason. A node
    # event does not requeue them, but any change of a PodGroup does (pkg/coscheduling/coscheduling.go,
    # `EventsToRegister`).
    when_held = "; if there is room, annotate its PodGroup: coscheduling may not retry a rejected gang for five minutes"
    wake = Wake.ANNOTATE
    settings_model = CoschedulingSettings
    group_marks = (GROUP_MARK,)
    rules = RULES
    required_apis = (POD_GROUP,)
    reads_claims_of = frozenset({"scheduler-plugins"})
    shapes = SHAPES
    allocates_devices = True
    # No gate: no pod is bound while a pod of the gang has a gate (seen with v0.34.7) or while the PodGroup is missing.
    # Twenty gangs whose PodGroup came late all started within two seconds.

    @classmethod
    def version_problem(cls, version: Version) -> str | None:
        if version < FIRST_VERSION:
            return f"scheduler-plugins before {FIRST_VERSION} ignores scheduling gates, which Grove puts on every pod"
        return None

    @property
    def carries_priority(self) -> bool:
        return True

    @property
    def gang_heads(self) -> tuple[Resource, ...]:
        return (Resource(POD_GROUP, "podgroups"),)

    @property
    def judged_kinds(self) -> tuple[JudgedKind, ...]:
        # Its one rule about PodGroups counts the pods in the same files.
        return (JUDGED_PODS,)

    @property
    def judged_in_files(self) -> tuple[JudgedKind, ...]:
        return super().judged_kinds

    @property
    def retry_seconds(self) -> int:
        # It keeps the pods that have a node for the timeout. A rejected gang may not be tried again before the queue is
        # flushed (seen with v0.34.7).
        return permit_retry_seconds(self.settings.scheduleTimeoutSeconds)

    @property
    def capabilities(self) -> CapabilityTable:
        return CAPABILITIES

    @property
    def membership(self) -> tuple[tuple[Mark, ...], ...]:
        return ((GROUP_MARK,),)

    def prepare_pod(self, member: GangMember) -> PodChanges:
        group = pod_group(member.podgang)
        return PodChanges(
            scheduler_name=NAME,
            inputs=(f"podGroup={group}", f"priority={member.priority}"),
            labels={LABEL_POD_GROUP: group},
            priority=member.priority,
        )

    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        """Returns the PodGroup of `podgang`. Raises `Inexpressible` for a topology, and for minimums that a sum cannot
        express.

        While a member is released (minReplicas 0, so that a rolling update can go on), minMember is negative. Its
        absolute value is used if there is no earlier minimum to keep. A sum of only the other members would be a
        smaller gang.
        """
        refuse_twins(podgang, "coscheduling/twins")
        _refuse_topology(podgang)
        why = "only the sum of pods is counted, so pods above one clique's minimum could replace pods of another clique"
        refuse_spare_pods(podgang, "coscheduling/spare-pods", why)
        minimums = [member.min_replicas for member in podgang.members]
        released = not all(minimum > 0 for minimum in minimums)
        return [
            {
                "apiVersion": f"{POD_GROUP.group}/{POD_GROUP.version}",
                "kind": POD_GROUP.kind,
                "metadata": gang_metadata(podgang, pod_group(podgang.gang)),
                "spec": {
                    "minMember": -sum(max(minimum, 1) for minimum in minimums) if released else sum(minimums),
                    "scheduleTimeoutSeconds": self.settings.scheduleTimeoutSeconds,
                },
            }
        ]

    def pod_reading(self, settings: FitSettings) -> PodReading:
        return COSCHEDULING.restrict(settings)

    def packing(self, shape: GangShape, facts: ClusterFacts, settings: FitSettings) -> Packing:
        """Returns what the plugin places together. Rollcall writes no PodGroup for several members of which one
        has pods above its minimum.
        """
        members = {member.part or member.name for member in shape.members}
        if len(members) > 1 and any(0 < member.minimum < member.pods for member in shape.members):
            return Packing((), unknown=("how one PodGroup counts pods above the minimum",))
        needs = needs_in(shape.needed, self.roles(shape, facts, settings), no_domain)
        return Packing((group_of(shape.name, needs, None),) if needs else (), left_out=shape.left_out)

    def adopt(self, desired: Manifest, live: Manifest | None) -> Manifest:
        """Keeps the minimum from before Grove released a member; at least one pod, as the CRD requires.

        Fields outside `desired` are not sent and so stay: the status, which the project's controller writes, and a
        minResources that someone else set.
        """
        minimum = desired["spec"]["minMember"]
        if minimum > 0:
            return desired
        recorded = integer(mapping(mapping(live).get("spec")).get("minMember")) or -minimum
        return {**desired, "spec": {**desired["spec"], "minMember": max(recorded, 1)}}

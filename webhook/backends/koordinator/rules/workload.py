"""What koord-scheduler would mishandle silently. Topology, quality of service and quota have their own files."""

from __future__ import annotations

from webhook.backends import families
from webhook.backends.koordinator.capabilities import CAPABILITIES
from webhook.backends.koordinator.keys import (
    ANNOTATION_RESERVE_POD,
    KOORDINATOR_GPUS,
    LABEL_SCHEDULER_NAME,
    NAME,
    ONLY_WAITING,
    VENDOR_GPUS,
)
from webhook.backends.koordinator.settings import RuleContext
from webhook.model.capabilities import Capability
from webhook.model.fields import SPEC, FieldPath
from webhook.model.findings import Action, Finding
from webhook.model.reading import text
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.pod_guard import HasAnnotation, HasLabel, Requests, sees
from webhook.validators.registry import Example, Results, Subject, rule

multi_node_nvlink = families.multi_node_nvlink(
    "koordinator/mnnvl",
    CAPABILITIES,
    """Koordinator ignores ComputeDomains when it places pods, so an NVLink group may be split over racks, and its
    processes hang or use a slower network. The rule judges the group that Grove resolves for each clique that requests
    GPUs (clique over scaling group over set, `none` opts out), and the annotation grove.io/auto-mnnvl of older
    manifests.

    Source: ai-dynamo/grove, operator/internal/mnnvl (2026-08) and GREP-537; koordinator-sh/koordinator mentions neither
    ComputeDomain nor IMEX (v1.4.0 to 2026-07).
    """,
)


resource_claims = families.resource_claims(
    "koordinator/resource-claims",
    CAPABILITIES,
    """Up to v1.7 Koordinator does not support resource.k8s.io/v1 at all. From v1.8 it has the in-tree plugin, but the
    gang planner judges every pod of a gang by the first pod's claims, and DeviceShare does not see the devices that a
    claim allocated.

    Source: koordinator-sh/koordinator, go.mod of v1.4.0 to v1.8.0, config/manager/scheduler-config.yaml,
    pkg/scheduler/plugins/deviceshare.
    """,
)


@rule(
    "koordinator/only-waiting",
    passes=Example(pod_clique_set(), config={"matchPolicy": "waiting-and-running"}),
    fails=Example(pod_clique_set(), config={"matchPolicy": "only-waiting"}),
)
def only_waiting(workload: PodCliqueSet, context: RuleContext) -> Results:
    """Under only-waiting, bound pods do not count. A replacement pod that waits alone never reaches its gang's minimum
    and never binds. Grove replaces single pods.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang.go (`isGangValidForPermit`).
    """
    yield from judge_match_policy(context, "a pod that Grove replaces alone")


def judge_match_policy(context: RuleContext, pod: str) -> Results:
    """The problem of the profile's matchPolicy, for a workload in which single pods are replaced."""
    if context.settings.matchPolicy == ONLY_WAITING:
        yield Finding(
            at=context.choice.path,
            found=ONLY_WAITING,
            why=f"the profile has matchPolicy {ONLY_WAITING}, so {pod} would never bind",
            remedy="set the profile's matchPolicy to waiting-and-running",
        )


@rule(
    "koordinator/priority-class",
    capability=Capability.PRIORITY_CLASS,
    default=Action.WARN,
    passes=Example(pod_clique_set(clique("worker", pod={"priorityClassName": "high"}), priorityClassName="high")),
    fails=Example(pod_clique_set(clique("worker"), priorityClassName="high")),
)
def priority_class(workload: PodCliqueSet, _: RuleContext) -> Results:
    """Koordinator orders pods by their own priority. Its PodGroup has no priority class, and Grove copies the set's
    class to the PodGang but not to the pods.

    Source: the PodGroup CRD of scheduling.sigs.k8s.io/v1alpha1; ai-dynamo/grove,
    operator/internal/controller/podclique.
    """
    for member in workload.cliques:
        own = text(member.pod_spec.get("priorityClassName"))
        if own != workload.priority_class:
            has = own or "none"
            yield Finding(
                at=SPEC / "template" / "priorityClassName",
                found=workload.priority_class,
                why=f"it is not copied to the pods, where koord-scheduler reads it; clique {member.name} has {has}",
                remedy="set the same priorityClassName in every clique's podSpec",
            )
            return


claimed_pods = families.claimed_pods(
    "koordinator/claimed-pods",
    source="koordinator-sh/koordinator, apis/extension/coscheduling.go (`GetGangName`): a pod has one gang.",
    annotations={"scheduling.k8s.io/group-name": "training"},
)


@rule(
    "koordinator/scheduler-name-label",
    subject=Subject.POD,
    guard=sees(HasLabel(LABEL_SCHEDULER_NAME)),
    independent=True,
    passes=Example(pod_clique_set(clique("worker"))),
    fails=Example(pod_clique_set(clique("worker", labels={"scheduling.koordinator.sh/scheduler-name": "batch"}))),
)
def scheduler_name_label(pod: PodTemplate, _: RuleContext) -> Results:
    """In koord-scheduler this label wins over spec.schedulerName, even if it is empty. The pod is then not scheduled by
    any profile, and its gang waits for ever.

    Source: koordinator-sh/koordinator, apis/extension/multi_scheduler.go (`GetSchedulerName`), v1.7.0 and newer.
    """
    if LABEL_SCHEDULER_NAME in pod.labels and pod.labels[LABEL_SCHEDULER_NAME] != NAME:
        yield Finding(
            at=pod.labels_path / LABEL_SCHEDULER_NAME,
            found=pod.labels[LABEL_SCHEDULER_NAME],
            why="koord-scheduler reads it instead of schedulerName and would not schedule the pod",
            remedy="remove the label",
        )


@rule(
    "koordinator/device-requests",
    subject=Subject.POD,
    guard=sees(Requests(KOORDINATOR_GPUS)),
    independent=True,
    passes=Example(pod_clique_set(clique("worker", requests={"nvidia.com/gpu": "1"}))),
    fails=Example(pod_clique_set(clique("worker", requests={"nvidia.com/gpu": "1", "koordinator.sh/gpu-core": "50"}))),
)
def device_requests(pod: PodTemplate, _: RuleContext) -> Results:
    """DeviceShare refuses on every node a pod that requests both whole vendor GPUs and Koordinator's shares of a GPU.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/deviceshare/utils.go (`ValidateDeviceRequest`).
    """
    if pod.request_of(VENDOR_GPUS) is not None and (share := pod.request_of(KOORDINATOR_GPUS)) is not None:
        yield Finding(
            at=FieldPath((*pod.spec_path.parts, *share.path)),
            found=share.resource,
            why="koord-scheduler refuses a pod that requests it together with a vendor's GPU resource",
            remedy="request only one of the two",
        )


@rule(
    "koordinator/reserve-pod",
    subject=Subject.POD,
    guard=sees(HasAnnotation(ANNOTATION_RESERVE_POD)),
    independent=True,
    passes=Example(pod_clique_set(clique("worker"))),
    fails=Example(pod_clique_set(clique("worker", annotations={"scheduling.koordinator.sh/reserve-pod": "true"}))),
)
def reserve_pod(pod: PodTemplate, _: RuleContext) -> Results:
    """koord-manager refuses to create a pod with this annotation, so the gang never starts.

    Source: koordinator-sh/koordinator, pkg/webhook/pod/validating/verify_annotations.go.
    """
    if ANNOTATION_RESERVE_POD in pod.annotations:
        yield Finding(
            at=pod.annotations_path / ANNOTATION_RESERVE_POD,
            found=pod.annotations[ANNOTATION_RESERVE_POD],
            why="koord-manager refuses every pod with this annotation",
            remedy="remove the annotation",
        )

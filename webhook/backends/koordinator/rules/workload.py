"""What koord-scheduler would mishandle silently. Topology, quality of service and quota have their own files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import chain

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
from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding
from webhook.model.quantity import parse_quantity
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.model.workloads.pod_requests import requests_of_container
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
    looks_at=(LABEL_SCHEDULER_NAME,),
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
    looks_at=KOORDINATOR_GPUS,
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


_GPU, _SHARED, _CORE, _MEMORY, _RATIO = (
    f"koordinator.sh/{name}" for name in ("gpu", "gpu.shared", "gpu-core", "gpu-memory", "gpu-memory-ratio")
)
_NPU_CORE = "huawei.com/npu-core"
_WHOLE = 100


def _shares(**amounts: str) -> Manifest:
    requests = {f"koordinator.sh/{name.replace('_', '-')}": amount for name, amount in amounts.items()}
    return pod_clique_set(clique("worker", requests=requests))


@rule(
    "koordinator/gpu-share",
    subject=Subject.POD,
    guard=sees(Requests(KOORDINATOR_GPUS)),
    looks_at=KOORDINATOR_GPUS,
    default=Action.WARN,
    passes=Example(_shares(gpu="50")),
    fails=Example(_shares(gpu="150")),
)
def gpu_share(pod: PodTemplate, _: RuleContext) -> Results:
    """A pod states Koordinator's shares of GPUs in one of two ways: as koordinator.sh/gpu in percent, of several GPUs
    whole ones, or as koordinator.sh/gpu.shared with either gpu-memory or gpu-memory-ratio, each a multiple of the
    number of GPUs. koord-manager refuses others if its gate ValidatePodDeviceResource is on.

    Source: koordinator-sh/koordinator, pkg/webhook/pod/validating/verify_device_resource.go, v1.8.0.
    """
    return share_faults(pod)


def share_faults(template: PodTemplate) -> Iterator[Finding]:
    """One finding for each container with shares of GPUs that Koordinator refuses."""
    if KOORDINATOR_GPUS.isdisjoint(template.resources):
        return
    for index, container in enumerate(sequence(template.spec.get("containers"))):
        requests = requests_of_container(container, from_limits=True)
        amounts = {
            name: parse_quantity(requests[name]) or Fraction(0)
            for name in (*KOORDINATOR_GPUS, _NPU_CORE)
            if name in requests
        }
        if (fault := _share_fault(amounts)) is not None:
            resource, why, remedy = fault
            stated = mapping(mapping(mapping(container).get("resources")).get("requests"))
            place = ("containers", Item(index, text(mapping(container).get("name"))), "resources")
            at = FieldPath(
                (*template.spec_path.parts, *place, "requests" if resource in stated else "limits", resource)
            )
            yield Finding(at=at, found=requests[resource], why=why, remedy=remedy)


def _share_fault(amounts: Mapping[str, Fraction]) -> tuple[str, str, str] | None:
    """What is wrong with the shares that a container requests: the resource, why, and what to do."""
    return next(chain(_whole_faults(amounts), _shared_faults(amounts)), None)


def _whole_faults(amounts: Mapping[str, Fraction]) -> Iterator[tuple[str, str, str]]:
    if _GPU not in amounts:
        return
    if _SHARED in amounts:
        yield _SHARED, "koordinator.sh/gpu is requested as well, and only one of the two may be", "keep one of the two"
    if amounts[_GPU] <= 0:
        yield _GPU, "a share of a GPU must be greater than 0", "set the percentage of a GPU"
    elif amounts[_GPU] > _WHOLE and amounts[_GPU] % _WHOLE:
        yield _GPU, "above 100 percent it must be whole GPUs", "set a multiple of 100, or at most 100"


def _shared_faults(amounts: Mapping[str, Fraction]) -> Iterator[tuple[str, str, str]]:
    if _SHARED not in amounts or _GPU in amounts or amounts.get(_NPU_CORE):
        return
    memory, ratio = amounts.get(_MEMORY), amounts.get(_RATIO)
    if amounts[_SHARED] <= 0:
        yield _SHARED, "the number of shared GPUs must be greater than 0", "set the number of GPUs"
    elif not memory and not ratio:
        yield _SHARED, "neither gpu-memory nor gpu-memory-ratio says how much of each GPU", f"add {_RATIO}"
    elif memory and ratio:
        yield _RATIO, "gpu-memory is requested as well, and only one of the two may be", "keep one of the two"
    else:
        for name in (_CORE, _RATIO):
            if amounts.get(name, 0) % amounts[_SHARED]:
                yield name, "it is no multiple of the number of GPUs in gpu.shared", "set a multiple of gpu.shared"


@rule(
    "koordinator/reserve-pod",
    subject=Subject.POD,
    guard=sees(HasAnnotation(ANNOTATION_RESERVE_POD)),
    looks_at=(ANNOTATION_RESERVE_POD,),
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

"""Rules about gangs that Kueue admits in parts: PodCliqueSets, and serving units of several LeaderWorkerSets.

Kueue knows neither PodClique nor PodGang. It holds each pod by a gate, and makes one Workload for each pod, or for all
pods that name the same pod group. Of a serving unit it admits the groups of each role one by one.

Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/pod; ai-dynamo/grove,
docs/proposals/704-kueue-tas-integration.
"""

from __future__ import annotations

from typing import Any

from webhook.model import kueue
from webhook.model.facts import ClusterFacts
from webhook.model.fields import METADATA
from webhook.model.findings import Action, Finding
from webhook.model.kueue_objects import LocalQueue
from webhook.model.reading import Manifest
from webhook.validators.examples import clique, leader_worker_set, pod_clique_set
from webhook.validators.gang_scheduler import DEFAULT_SCHEDULER, NAMESPACE
from webhook.validators.kueue_holds import HeldClique, growth, held_cliques, pods_of, set_starts_alone
from webhook.validators.registry import Context, Example, Results, Subject, rule
from webhook.workloads.kueue_integration import held
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import PodCliqueSet

# Python refuses to convert a number with thousands of digits, and a count of pods has 32 bits.
_MOST_DIGITS = 10
_DEFAULT = ClusterFacts(local_queues={("default", kueue.DEFAULT_QUEUE): LocalQueue("research")})


def _grouped(total: str = "4", group: str = "demo", **fields: Any) -> Manifest:
    """Returns a clique of four pods, or of `fields`, in a pod group of Kueue."""
    annotations = {kueue.POD_GROUP_NAME: group, kueue.POD_GROUP_TOTAL_COUNT: total}
    return clique("worker", labels={kueue.QUEUE_NAME: "team"}, annotations=annotations, **{"replicas": 4, **fields})


@rule(
    "kueue/pod-by-pod",
    looks_at=(kueue.QUEUE_NAME,),
    default=Action.WARN,
    passes=Example(pod_clique_set(_grouped()), facts=_DEFAULT),
    fails=Example(pod_clique_set(clique("worker")), facts=_DEFAULT),
)
def pod_by_pod(workload: PodCliqueSet, context: Context[Any]) -> Results:
    """Kueue makes a Workload for each pod of a PodCliqueSet and admits these one at a time. If the quota ends in the
    middle of two gangs, each holds a part of it and waits for the other. No pod starts before Kueue has admitted the
    last pod of its gang.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/pod/pod_webhook.go,
    pkg/controller/jobframework/reconciler.go (`FindAncestorJobManagedByKueue` knows no PodClique).
    """
    if set_starts_alone(workload):
        return
    for member in held_cliques(workload, context):
        if member.held.group is not None:
            continue
        if member.held.path is not None:
            why = "Kueue admits the pods of this gang one at a time"
            remedy = "remove the label, or use one pod group for all cliques"
            yield Finding(member.held.path, member.held.queue, why, remedy)
            continue
        by = "it has a LocalQueue default" if member.held.queue is not None else "Kueue manages it"
        why = f"{by}, so Kueue admits the pods of this gang one at a time"
        remedy = "use a namespace that Kueue does not manage, or one pod group for all cliques"
        yield Finding(NAMESPACE, workload.namespace, why, remedy)
        # The namespace is the cause for every clique.
        return


@rule(
    "kueue/pod-group-name",
    looks_at=(kueue.QUEUE_NAME,),
    default=Action.WARN,
    passes=Example(pod_clique_set(_grouped())),
    fails=Example({**pod_clique_set(_grouped("8")), "spec": {**pod_clique_set(_grouped("8"))["spec"], "replicas": 2}}),
)
def pod_group_name(workload: PodCliqueSet, context: Context[Any]) -> Results:
    """Kueue admits a pod group as a whole, and its number of pods is fixed. All gangs of a set share a group that the
    cliques name, so the gangs start together and none can be added. A gang whose cliques name different groups is
    admitted in parts.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/pod/pod_controller.go (`validatePodGroupMetadata`,
    `removeExcessPods`).
    """
    grouped = [member for member in held_cliques(workload, context) if member.held.group is not None]
    if not grouped:
        return
    first = grouped[0]
    for member in grouped:
        if member.held.group != first.held.group:
            why = "another clique names another pod group, and Kueue admits the two apart"
            yield Finding(member.group_path, member.held.group, why, "use one pod group for all cliques")
    if (cause := growth(workload)) is not None:
        yield Finding(first.group_path, first.held.group, cause, "make one PodCliqueSet for each gang")


@rule(
    "kueue/pod-group-size",
    looks_at=(kueue.QUEUE_NAME,),
    passes=Example(pod_clique_set(_grouped("4"))),
    fails=Example(pod_clique_set(_grouped("6"))),
)
def pod_group_size(workload: PodCliqueSet, context: Context[Any]) -> Results:
    """Kueue makes no Workload for a pod group before as many pods exist as the group states. It deletes the pods above
    that number, and Grove creates them again. It refuses a pod that names a group and no number.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/pod/pod_controller.go (`validatePodGroupMetadata`,
    `removeExcessPods`), pod_webhook.go.
    """
    grouped = [member for member in held_cliques(workload, context) if member.held.group is not None]
    sizes: dict[str | None, int] = {}
    for member in grouped:
        sizes[member.held.group] = sizes.get(member.held.group, 0) + pods_of(member.clique, workload)
    for member in grouped:
        yield from _wrong_size(member, sizes[member.held.group])


def _queued_example(minimum: int) -> Example:
    """Returns a clique of four pods in a queue, whose gang kube-scheduler starts with `minimum`."""
    worker = clique("worker", replicas=4, minimum=minimum, labels={kueue.QUEUE_NAME: "team"})
    gates = {"featureGates": {"BringYourOwnPodGroup": True}}
    on = {"gangScheduling": True}
    return Example(pod_clique_set(worker), config=on, kueue=gates, scheduler=DEFAULT_SCHEDULER)


@rule(
    "kueue/counted-minimum",
    looks_at=(kueue.QUEUE_NAME,),
    default=Action.WARN,
    passes=_queued_example(4),
    fails=_queued_example(2),
)
def counted_minimum(workload: PodCliqueSet, context: Context[Any]) -> Results:
    """Kueue's proposal KEP-13150 makes a group of the plain pods that name the same PodGroup of scheduling.k8s.io, and
    takes the minCount of that PodGroup for their number. Rollcall writes the gang's minimum there, so Kueue would
    reserve quota for fewer pods than run. The rule asks nothing unless the configuration states the gate
    BringYourOwnPodGroup, which no release of Kueue has yet.

    Source: kubernetes-sigs/kueue, keps/13150 (Unowned Pods), read on 2026-11-30.
    """
    if not context.kueue.counts_minimums or context.choice.scheduler != DEFAULT_SCHEDULER:
        return
    if not context.gang_scheduler.makes_opted_in_gangs:
        return
    for member, held_clique in held_cliques(workload, context):
        if held_clique.group is None and member.min_available < member.replicas:
            why = (
                f"Kueue counts the pods by the minCount of their PodGroup, {member.min_available}, and "
                f"{member.replicas} run: it reserves too little quota"
            )
            remedy = "set minAvailable to replicas, or turn Kueue's gate BringYourOwnPodGroup off"
            yield Finding(member.path / "spec" / "minAvailable", member.min_available, why, remedy)


def _wrong_size(member: HeldClique, pods: int) -> Results:
    stated = member.held.total or ""
    path = member.clique.template.annotations_path / kueue.POD_GROUP_TOTAL_COUNT
    remedy = f'set the annotation to "{pods}"'
    digits = stated.lstrip("0")
    if not (digits.isascii() and digits.isdigit()):
        why = "Kueue refuses a pod that names a pod group and does not state its number of pods"
        yield Finding(at=path, value=member.held.total, why=why, remedy=remedy)
    elif (above := len(digits) > _MOST_DIGITS or int(digits) > pods) or int(digits) < pods:
        then = "waits for more of them" if above else "deletes those above the stated number"
        yield Finding(
            at=path,
            value=stated,
            why=f"the cliques of the pod group have {pods} pods, and Kueue {then}",
            remedy=remedy,
            # Such a group starts. Kueue stops it later, if it waits for all pods to be ready.
            at_most=Action.WARN if above and member.starts_early else Action.DENY,
        )


_QUEUED = {kueue.QUEUE_NAME: "team"}
_KIND, _GROUP = "DisaggregatedSet", "disaggregatedset.x-k8s.io"


def _role() -> Manifest:
    role = leader_worker_set(labels=_QUEUED)
    owner = {"apiVersion": f"{_GROUP}/v1", "kind": _KIND, "name": "chat", "uid": "1", "controller": True}
    role["metadata"]["ownerReferences"] = [owner]
    return role


@rule(
    "kueue/roles-apart",
    looks_at=(kueue.QUEUE_NAME,),
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(leader_worker_set(labels=_QUEUED)),
    fails=Example(_role()),
)
def roles_apart(workload: OptedInWorkload, context: Context[Any]) -> Results:
    """A DisaggregatedSet makes a LeaderWorkerSet for each role of a slice. Kueue makes a Workload for each group of
    each role and admits these one by one, so a part of a serving unit may hold quota and wait for the rest.

    Source: kubernetes-sigs/lws v0.9, api/disaggregatedset/v1; kubernetes-sigs/kueue v0.19,
    pkg/controller/jobs/leaderworkerset.
    """
    owner = workload.controller
    if not isinstance(workload, LeaderWorkerSet) or owner is None or (owner.group, owner.kind) != (_GROUP, _KIND):
        return
    if held(workload, context.facts, context.kueue) is not None:
        why = "Kueue admits the roles of a slice one by one, so a part of a serving unit may hold quota"
        yield Finding(METADATA / "ownerReferences", owner.name, why, "use a LocalQueue with room for whole slices")

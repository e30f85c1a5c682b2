"""Rules about the pods of gangs: whether a pod is a member of its PodGang, how many pods a scale asks for, who created
a pod, and pods whose controller is of an unknown kind.

Anyone can write labels and the reference to a controller. The rules about `/scale` only warn: an autoscaler shows
nobody a refusal, and Grove stores what they are about.
"""

from __future__ import annotations

from typing import Any

from webhook.model import grove
from webhook.model.admission_request import CONTROLLER_MANAGER, JOB_CONTROLLER, STATEFUL_SET_CONTROLLER, service_account
from webhook.model.facts import ClusterFacts
from webhook.model.fields import METADATA, SPEC
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.model.keys import Needed, Record, Scalable
from webhook.model.known_kinds import JOBS, STATEFUL_SETS
from webhook.model.known_objects import Namespace, PodGangFacts
from webhook.model.pod_template import PodTemplate
from webhook.model.reading import Manifest
from webhook.model.workload_record import SCHEDULER_LABEL, ScaleChange
from webhook.validators.examples import OWNER_UID
from webhook.validators.pod_guard import asks_facts
from webhook.validators.registry import Context, Example, PodCreation, Results, Subject, UnknownOwner, rule
from webhook.workloads.known_workloads import WorkloadFacts

_ONE_GANG = ClusterFacts(pod_gangs={("default", "demo-0"): PodGangFacts("demo", frozenset({"demo-0-worker"}))})


def _pod(podclique: str, **name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **(name or {"generateName": f"{podclique}-"}),
            "namespace": "default",
            "labels": {
                grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE,
                grove.LABEL_PART_OF: "demo",
                grove.LABEL_PODGANG: "demo-0",
                grove.LABEL_PODCLIQUE: podclique,
            },
        },
        "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
    }


@rule(
    "grove/pod-outside-gang",
    looks_at=(grove.LABEL_PODGANG,),
    subject=Subject.POD,
    membership=True,
    guard=asks_facts("pod_gangs"),
    passes=Example(_pod("demo-0-worker"), facts=_ONE_GANG),
    fails=Example(_pod("demo-0-stranger"), facts=_ONE_GANG),
)
def pod_outside_gang(pod: PodTemplate, context: Context[Any]) -> Results:
    """A pod whose PodClique is not a member of its PodGang has no group in the scheduler's objects, so it waits for a
    group that is never written. An unknown PodGang is not refused, because Grove writes PodGangs and pods at the same
    time.

    Source: ai-dynamo/grove, operator/internal/controller/podcliqueset/components/podgang/syncflow.go (members are named
    when the PodGang is created; only their pods are added later).
    """
    podgang, podclique = pod.labels.get(grove.LABEL_PODGANG), pod.labels.get(grove.LABEL_PODCLIQUE)
    if context.workload is not None or podgang is None or podclique is None:
        return
    gang = (context.facts.pod_gangs or {}).get((context.namespace, podgang))
    if gang is None:
        return
    if gang.cliques is None:
        yield Unjudged(
            pod.labels_path / grove.LABEL_PODCLIQUE, f"the members of PodGang {podgang}, which are too many to keep"
        )
    elif podclique not in gang.cliques:
        why = f"the PodGang {podgang} has no such member, so the scheduler has no group for the pod"
        remedy = "let Grove create the pods of its PodCliques, or name the PodGang that has this PodClique"
        absent = Needed("pod_gangs", (context.namespace, podgang))
        yield Finding(pod.labels_path / grove.LABEL_PODCLIQUE, podclique, why, remedy, absent=absent)


_AT = SPEC / "replicas"
_LEADER, _WORKER = Scalable("leader", 1), Scalable("worker", 2)
_FACTS = ClusterFacts(
    pod_clique_sets={
        ("default", "demo"): Record(
            "koord-scheduler",
            scalable=(Scalable("router", 2, most=4), Scalable("decode", 2, cliques=(_LEADER, _WORKER))),
        )
    }
)


def _scale(name: str, replicas: int) -> Manifest:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}}


def _example(name: str, old: int, new: int) -> Example:
    return Example(_scale(name, new), _scale(name, old), facts=_FACTS)


@rule(
    "grove/scale-below-minimum",
    subject=Subject.SCALE,
    default=Action.WARN,
    passes=_example("demo-0-router", 4, 2),
    fails=_example("demo-0-router", 4, 1),
)
def scale_below_minimum(scale: ScaleChange, _: Context[Any]) -> Results:
    """The minimum of a gang is fixed when its PodCliqueSet is created. If a PodClique or a PodCliqueScalingGroup is
    scaled below its minAvailable, the gang has too few pods for good: its scheduler cannot start it again as a whole,
    and Grove ends the gang after its terminationDelay.

    Source: ai-dynamo/grove, operator/internal/controller/podclique and podcliquescalinggroup (reconcilestatus.go:
    MinAvailableBreached); operator/internal/webhook/admission/pcs/validation (minAvailable is immutable).
    """
    minimum = scale.target.minimum
    if scale.new < minimum and scale.new < scale.old:
        needed = "replicas of this scaling group" if scale.is_of_group else "of these pods"
        why = f"the gang needs {minimum} {needed}, so Grove ends it after its terminationDelay"
        remedy = f"keep {minimum} or more, or scale or delete the PodCliqueSet"
        yield Finding(_AT, scale.new, why, remedy, instead=(minimum,))


@rule(
    "grove/scale-of-member",
    subject=Subject.SCALE,
    default=Action.WARN,
    passes=_example("demo-0-decode", 2, 3),
    fails=_example("demo-0-decode-1-worker", 2, 3),
)
def scale_of_member(scale: ScaleChange, _: Context[Any]) -> Results:
    """The replicas of a scaling group are alike. A PodClique that is scaled alone makes one of them different, until
    Grove creates it again from the template. Grove refuses an autoscaler of such a PodClique.

    Source: ai-dynamo/grove, operator/internal/controller/podcliquescalinggroup/components/podclique (keeps the number
    of a PodClique that exists); operator/internal/webhook/admission/pcs/validation (autoScalingConfig).
    """
    if scale.group is not None and scale.new != scale.old:
        why = f"this PodClique is in the scaling group {scale.group}, so only one replica of the group changes"
        yield Finding(_AT, scale.new, why, f"scale podcliquescalinggroup {scale.group}")


@rule(
    "kueue/scale-above-group",
    subject=Subject.SCALE,
    default=Action.WARN,
    passes=_example("demo-0-router", 3, 4),
    fails=_example("demo-0-router", 4, 5),
)
def scale_above_group(scale: ScaleChange, _: Context[Any]) -> Results:
    """A pod group of Kueue has a fixed number of pods. Kueue deletes the pods above it, and Grove creates them again.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/pod/pod_controller.go (`removeExcessPods`).
    """
    most = scale.target.most
    if most is not None and scale.new > max(most, scale.old):
        why = f"the pods are in a pod group of Kueue with room for {most}, and Kueue deletes those above"
        yield Finding(_AT, scale.new, why, "make another PodCliqueSet, or take these pods out of the pod group")


_POD = _pod("demo-0-worker", name="stranger")


@rule(
    "grove/foreign-pod",
    subject=Subject.POD_CREATION,
    default=Action.WARN,
    membership=True,
    passes=Example(_POD, user=service_account("grove-system", "grove-operator")),
    fails=Example(_POD, user="alice"),
)
def foreign_pod(creation: PodCreation, _: Context[Any]) -> Results:
    """A pod with Grove's labels is prepared for the gang in these labels, and schedulers count it. Grove's operator
    creates all pods of a gang, so a pod of another user takes a place in the gang or blocks it. The rule only warns,
    because the labels give the author no new right: a user who may create pods may also write a scheduler's labels. If
    the creator is unknown, as for a file, the rule reports nothing.

    Source: ai-dynamo/grove, operator/internal/controller/podclique/components/pod (creates the pods of a PodClique),
    operator/charts/values.yaml (`serviceAccount.name`).
    """
    podgang, podclique = (creation.pod.labels.get(key) for key in (grove.LABEL_PODGANG, grove.LABEL_PODCLIQUE))
    if podgang is None or podclique is None:
        return
    why = f"{shown(creation.user)} created this pod, and not Grove's operator"
    remedy = "remove Grove's labels, or add that user to tenancy.groveOperators"
    yield Finding(creation.pod.labels_path / grove.LABEL_PODGANG, podgang, why, remedy)


# The controllers of kube-controller-manager by the kind whose pods they create.
_CREATORS = {
    JOBS.api.group_kind: ("Job controller", JOB_CONTROLLER),
    STATEFUL_SETS.api.group_kind: ("StatefulSet controller", STATEFUL_SET_CONTROLLER),
}
_JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": OWNER_UID, "controller": True}
_POD_OF_JOB: Manifest = {
    **_POD,
    "metadata": {
        "name": "train-x7k2p",
        "namespace": "default",
        "labels": {SCHEDULER_LABEL: "koord-scheduler"},
        "ownerReferences": [_JOB],
    },
}
_ONE_JOB = ClusterFacts(jobs={("default", "train"): WorkloadFacts(Record("koord-scheduler"), uid=OWNER_UID)})


@rule(
    "owner/foreign-pod",
    subject=Subject.POD_CREATION,
    default=Action.WARN,
    membership=True,
    passes=Example(_POD_OF_JOB, facts=_ONE_JOB, user=JOB_CONTROLLER),
    fails=Example(_POD_OF_JOB, facts=_ONE_JOB, user="alice"),
)
def foreign_pod_of_workload(creation: PodCreation, _: Context[Any]) -> Results:
    """A pod that names an opted-in workload as its controller is prepared for the gang of that workload, and takes the
    place of one of its pods. Its uid must be that of the workload, if the workload is the pod's own controller. Pods
    of Jobs, JobSets and LeaderWorkerSets are created by kube-controller-manager, for Jobs and StatefulSets. Rollcall
    does not know who creates the pods of other kinds, and a file names no user. A Job that only looks like one of a
    JobSet is not found by this rule.

    Source: kubernetes, cmd/kube-controller-manager (`--use-service-account-credentials`),
    pkg/controller/garbagecollector (an owner with another uid is absent).
    """
    controller = creation.controller
    if controller is None:
        return
    at = METADATA / "ownerReferences"
    if creation.uid is not None and controller.uid != creation.uid:
        yield Finding(
            at=at,
            value=controller.uid,
            why=f"{controller.kind} {shown(controller.name)} has another uid, so it did not make this pod",
            remedy="remove the reference; the controller adds it to the pods that it creates",
            absent=creation.workload,
            # A Job that was just created again is read before anyone is warned.
            hides_more=True,
        )
        return
    name, account = _CREATORS.get((controller.group, controller.kind), ("", ""))
    if account and creation.user not in {"", account, CONTROLLER_MANAGER}:
        why = f"{shown(creation.user)} created this pod, and not the {name}"
        remedy = (
            f"remove the reference to {controller.kind} {shown(controller.name)}, or add that user to "
            "tenancy.exemptUsers"
        )
        yield Finding(at, controller.name, why, remedy)


def _owned_pod(api_version: str, kind: str) -> Manifest:
    owner = {"apiVersion": api_version, "kind": kind, "name": "demo", "uid": "1", "controller": True}
    metadata = {"name": "demo-0", "namespace": "default", "ownerReferences": [owner]}
    container = {"name": "main", "image": "example.com/main"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


_OPTED_IN = ClusterFacts(namespaces={"default": Namespace({SCHEDULER_LABEL: "koord-scheduler"})})


@rule(
    "owner/unknown-kind",
    subject=Subject.UNKNOWN_OWNER,
    default=Action.WARN,
    passes=Example(_owned_pod("apps/v1", "ReplicaSet"), facts=_OPTED_IN),
    fails=Example(_owned_pod("example.com/v1", "Training"), facts=_OPTED_IN),
)
def unknown_kind(pod: UnknownOwner, _: Context[Any]) -> Results:
    """The pods of a kind that Rollcall does not know start one by one, although their namespace, their label or their
    schedulerName asks for a gang scheduler. Pods of Deployments, StatefulSets and DaemonSets, and pods without a
    controller, are not reported.

    Source: webhook/workloads (the kinds that are known are those in Python and the declared ones).
    """
    kind = pod.controller.kind
    why = f"Rollcall does not know this kind, so its pods start one by one, not as a gang of {pod.opted_in_by}"
    remedy = f"declare it by a WorkloadShape: `rollcall shapes init {kind} --from-crd FILE` drafts one"
    yield Finding(METADATA / "ownerReferences", kind, why, remedy)

"""The rules about who created a pod of a gang: anyone can write labels and the reference to a controller."""

from __future__ import annotations

from typing import Any

from webhook.model import grove
from webhook.model.facts import ClusterFacts
from webhook.model.fields import METADATA
from webhook.model.findings import Action, Finding, shown
from webhook.model.keys import Record
from webhook.model.reading import Manifest
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.users import CONTROLLER_MANAGER, JOB_CONTROLLER, STATEFUL_SET_CONTROLLER, service_account
from webhook.model.workloads.facts import KnownWorkload
from webhook.model.workloads.kinds import JOBS, STATEFUL_SETS
from webhook.validators.examples import OWNER_UID
from webhook.validators.registry import Context, Example, PodCreation, Results, Subject, rule

_POD: Manifest = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "stranger",
        "namespace": "default",
        "labels": {
            grove.LABEL_MANAGED_BY: grove.MANAGED_BY_GROVE,
            grove.LABEL_PART_OF: "demo",
            grove.LABEL_PODGANG: "demo-0",
            grove.LABEL_PODCLIQUE: "demo-0-worker",
        },
    },
    "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
}


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
    yield Finding(
        at=creation.pod.labels_path / grove.LABEL_PODGANG,
        found=podgang,
        why=f"{shown(creation.user)} created this pod, and not Grove's operator",
        remedy="remove Grove's labels, or add that user to tenancy.groveOperators",
    )


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
_KNOWN = ClusterFacts(jobs={("default", "train"): KnownWorkload(Record("koord-scheduler"), uid=OWNER_UID)})


@rule(
    "owner/foreign-pod",
    subject=Subject.POD_CREATION,
    default=Action.WARN,
    membership=True,
    passes=Example(_POD_OF_JOB, facts=_KNOWN, user=JOB_CONTROLLER),
    fails=Example(_POD_OF_JOB, facts=_KNOWN, user="alice"),
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
            found=controller.uid,
            why=f"{controller.kind} {shown(controller.name)} has another uid, so it did not make this pod",
            remedy="remove the reference; the controller adds it to the pods that it creates",
            absent=creation.workload,
            # A Job that was just created again is read before anyone is warned.
            hides_more=True,
        )
        return
    name, account = _CREATORS.get((controller.group, controller.kind), ("", ""))
    if account and creation.user not in {"", account, CONTROLLER_MANAGER}:
        yield Finding(
            at=at,
            found=controller.name,
            why=f"{shown(creation.user)} created this pod, and not the {name}",
            remedy=f"remove the reference to {controller.kind} {shown(controller.name)}, or add that user to "
            "tenancy.exemptUsers",
        )

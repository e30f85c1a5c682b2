"""Rules about PodGroups that others make: the operators of declared workloads, and Volcano for each ReplicaSet of a
Deployment. They judge files only: in a cluster `rollcall doctor` compares the PodGroups of operators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from webhook.model.any_object import AnyObject
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS
from webhook.model.findings import Action, Finding
from webhook.model.quantity import int32
from webhook.model.reading import Malformed, Manifest, integer, mapping, text
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.validators.registry import Context, Example, Results, Subject, rule
from webhook.workloads.shaped_workload import KIND, MINIMUMS, GangSize, OperatorGroup

# A RayCluster of a head and four workers.
_SCALED = ClusterFacts(
    gang_sizes={("ray.io", "RayCluster", "default", "demo"): GangSize("RayCluster demo", most=5, enough=5, needed=5)}
)


def _ray_pod_group(minimum: int) -> Manifest:
    """Returns the PodGroup that KubeRay makes for scheduler-plugins."""
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "demo", "uid": "a1"}
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "demo", "namespace": "default", "ownerReferences": [owner]},
        "spec": {"minMember": minimum},
    }


@rule(
    "owner/operator-group",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(_ray_pod_group(5), facts=_SCALED),
    fails=Example(_ray_pod_group(4), facts=_SCALED),
)
def operator_group(manifest: AnyObject, context: Context[Any]) -> Results:
    """An operator may write a PodGroup with a wrong minimum, or not update it when its workload is scaled. A minimum
    above the pods that are created at first is never reached. Below the gang's minimum, a part of the gang starts. The
    rule compares a PodGroup with the workload that owns it, in the same files; the kind of the workload is declared by
    a WorkloadShape.

    Source: ray-project/kuberay issues 5205 and 4643, ray-operator/controllers/ray/batchscheduler (v1.7.0);
    kubeflow/mpi-operator issue 608; kubeflow/trainer issue 1515.
    """
    sizes, group = context.facts.gang_sizes, manifest.kind.group
    if not sizes or manifest.kind.kind != KIND or group not in MINIMUMS:
        return
    try:
        wrong = OperatorGroup(manifest.raw, group).mismatch(sizes)
    except Malformed:
        # The API server refuses such a PodGroup.
        return
    if wrong is not None:
        yield wrong


# The annotation by which Volcano's controller takes the minimum of the PodGroup that it makes for a ReplicaSet.
_GROUP_MINIMUM = "scheduling.volcano.sh/group-min-member"
_PERCENT = re.compile(r"([0-9]{1,3})%\Z")
_QUARTER = "25%"


def _deployment(minimum: str, surge: int | str) -> Manifest:
    container = {"name": "main", "image": "example.com/main"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "demo", "namespace": "default", "annotations": {_GROUP_MINIMUM: minimum}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "demo"}},
            "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": {"app": "demo"}},
                "spec": {"schedulerName": "volcano", "containers": [container]},
            },
        },
    }


@rule(
    "owner/group-rollout",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(_deployment("2", 2)),
    fails=Example(_deployment("2", 1)),
)
def group_rollout(manifest: AnyObject, _: Context[Any]) -> Results:
    """Volcano makes a PodGroup for each ReplicaSet, with the minimum that the Deployment's annotation states. A rollout
    first creates only maxSurge and maxUnavailable pods of the new ReplicaSet. If its group needs more, no pod of it
    starts, and the rollout never ends. An opted-in Deployment has one group for all revisions.

    Source: volcano-sh/volcano issue 4739, pkg/controllers/podgroup/pg_controller_handler.go (v1.15.1); kubernetes,
    pkg/controller/deployment (a ReplicaSet gets the Deployment's annotations; `NewRSNewReplicas`).
    """
    if manifest.kind[::2] != ("apps", "Deployment") or manifest.labels.get(SCHEDULER_LABEL):
        return
    try:
        spec = mapping(manifest.raw.get("spec"))
        written = text(mapping(mapping(manifest.raw.get("metadata")).get("annotations")).get(_GROUP_MINIMUM))
        minimum = None if written is None else int32(written)
        pod = mapping(mapping(spec.get("template")).get("spec"))
        if minimum is None or text(pod.get("schedulerName")) != "volcano":
            return
        replicas = integer(spec.get("replicas"))
        first = _first_pods(mapping(spec.get("strategy")), replicas := 1 if replicas is None else replicas)
    except Malformed:
        # The API server refuses such a Deployment.
        return
    if replicas < minimum and replicas > 0:
        why, remedy = f"the Deployment has {replicas} pods, so its group never starts", f"set at most {replicas}"
    elif first < min(minimum, replicas):
        why = f"each revision is a group of its own, and a rollout first creates {first} of its pods, so it never ends"
        remedy = f"raise maxSurge to {minimum}, use the strategy Recreate, or label it {SCHEDULER_LABEL}"
    else:
        return
    yield Finding(at=ANNOTATIONS / _GROUP_MINIMUM, value=written, why=why, remedy=remedy)


def _first_pods(strategy: Mapping[str, Any], replicas: int) -> int:
    """Returns the pods of a new revision before one of them is ready. Raises `Malformed`."""
    if text(strategy.get("type")) == "Recreate":
        return replicas
    rolling = mapping(strategy.get("rollingUpdate"))
    surge, gone = (rolling.get(field, _QUARTER) for field in ("maxSurge", "maxUnavailable"))
    more, fewer = _share(surge, replicas, up=True), _share(gone, replicas, up=False)
    return more + fewer or 1


def _share(written: object, replicas: int, *, up: bool) -> int:
    """Returns a number of pods, or a percentage of the replicas. Raises `Malformed`."""
    if not isinstance(written, str):
        return max(integer(written) or 0, 0)
    percent = _PERCENT.match(written)
    if percent is None:
        raise Malformed(written, "a number or a percentage")
    parts = int(percent[1]) * replicas
    return -(-parts // 100) if up else parts // 100

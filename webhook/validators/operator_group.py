"""The rule about PodGroups that the operators of declared workloads write. It judges files only: in a cluster
`rollcall doctor` compares both.
"""

from __future__ import annotations

from typing import Any

from webhook.model.any_object import AnyObject
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.reading import Malformed, Manifest
from webhook.model.workloads.operator_group import KIND, MINIMUMS, OperatorGroup
from webhook.model.workloads.shapes.gang_size import GangSize
from webhook.validators.registry import Context, Example, Results, Subject, rule

# A RayCluster of a head and four workers.
_SCALED = ClusterFacts(
    gang_sizes={("ray.io", "RayCluster", "default", "demo"): GangSize("RayCluster demo", most=5, enough=5, needed=5)}
)


def _of_ray(minimum: int) -> Manifest:
    """The PodGroup that KubeRay makes for scheduler-plugins."""
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
    passes=Example(_of_ray(5), facts=_SCALED),
    fails=Example(_of_ray(4), facts=_SCALED),
)
def operator_group(found: AnyObject, context: Context[Any]) -> Results:
    """An operator may write a PodGroup with a wrong minimum, or not update it when its workload is scaled. A minimum
    above the pods that are created at first is never reached. Below the gang's minimum, a part of the gang starts. The
    rule compares a PodGroup with the workload that owns it, in the same files; the kind of the workload is declared by
    a WorkloadShape.

    Source: ray-project/kuberay issues 5205 and 4643, ray-operator/controllers/ray/batchscheduler (v1.7.0);
    kubeflow/mpi-operator issue 608; kubeflow/trainer issue 1515.
    """
    sizes, group = context.facts.gang_sizes, found.kind.group
    if not sizes or found.kind.kind != KIND or group not in MINIMUMS:
        return
    try:
        wrong = OperatorGroup(found.raw, group).mismatch(sizes)
    except Malformed:
        # The API server refuses such a PodGroup.
        return
    if wrong is not None:
        yield wrong

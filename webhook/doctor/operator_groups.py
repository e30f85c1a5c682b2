"""Checks of the PodGroups that the operators of workloads wrote. No admission shows that a workload was scaled and its
PodGroup was not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.examples import installed, thing
from webhook.doctor.parts import OPERATOR_GROUPS, declared_workloads
from webhook.doctor.snapshot import Snapshot
from webhook.model.reading import Manifest
from webhook.model.workloads.operator_group import OperatorGroup
from webhook.offline.operator_groups import operator_groups, sizes_of_owners

# How many PodGroups are named one by one.
_NAMED = 20


def _of_ray(minimum: int) -> tuple[Manifest, Manifest]:
    """A RayCluster of a head and four workers, and the PodGroup that KubeRay makes for scheduler-plugins."""
    workers = {"groupName": "gpu", "replicas": 4, "minReplicas": 0, "maxReplicas": 8, "template": {}}
    spec = {"headGroupSpec": {"template": {}}, "workerGroupSpecs": [workers]}
    group = thing("scheduling.x-k8s.io/v1alpha1", "PodGroup", "train", within="team-a", spec={"minMember": minimum})
    group["metadata"]["ownerReferences"] = [{"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "train"}]
    return thing("ray.io/v1", "RayCluster", "train", within="team-a", spec=spec), group


@check(
    "gangs/operator-group",
    level=Level.WARNING,
    passes=lambda: installed(*_of_ray(5)),
    fails=lambda: installed(*_of_ray(3)),
)
def operator_group(snapshot: Snapshot) -> Symptoms:
    """The minimum of a PodGroup that a workload's own operator wrote is that of the workload. Some operators write it
    once, and not again when the workload is scaled. A minimum above the pods of the workload is never reached: a lost
    pod does not start again. Below the gang's minimum, a part of the gang starts. The kinds of these workloads are
    declared by WorkloadShapes.

    Source: ray-project/kuberay issues 5205 and 4643; kubeflow/mpi-operator issue 608.
    """
    groups = operator_groups(raw for part in OPERATOR_GROUPS for raw in snapshot.all(part))
    sizes = sizes_of_owners(groups, _owners(snapshot, groups), snapshot.settings.kinds)
    wrong = [(group, found) for group in groups if (found := group.mismatch(sizes)) is not None]
    for group, found in wrong[:_NAMED]:
        _, kind, namespace, name = group.key
        where = f"{kind} {namespace}/{name}"
        yield Symptom(where, f"{found.at} is {found.found}", found.why, found.remedy)
    if len(wrong) > _NAMED:
        more = f"{len(wrong) - _NAMED} more with such a minimum"
        yield Symptom("PodGroups", more, "their workloads do not start as gangs", "correct those above and check again")


def _owners(snapshot: Snapshot, groups: Iterable[OperatorGroup]) -> Iterator[Manifest]:
    """The workloads of the kinds that own these PodGroups, and of the kinds that these leave their gangs to. Without
    PodGroups no right to list workloads is needed.
    """
    declared = snapshot.settings.kinds.declared
    owning = {key[:2] for group in groups for key, _ in group.owners}
    left_to = {shape.left_to for shape in declared if shape.group_kind in owning}
    for shape in declared:
        if shape.group_kind in owning or shape.resource.api.kind in left_to:
            yield from snapshot.all(declared_workloads(shape))

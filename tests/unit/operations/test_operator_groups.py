"""The doctor compares PodGroups of operators with their workloads."""

from __future__ import annotations

from dataclasses import replace

from tests.texts import Text
from tests.unit.operations.findings import remedies, reported, unknown
from webhook.model.reading import Manifest
from webhook.operations.diagnosis import Severity, example_object, installed
from webhook.operations.snapshot import OPERATOR_GROUPS, Snapshot, Unread, operator_objects, trimmed

CHECK = "gangs/operator-group"
RAY_JOB = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "train", "controller": True}


def cluster(workers: int = 4, name: str = "train", **metadata: object) -> Manifest:
    groups = [{"groupName": "gpu", "replicas": workers, "minReplicas": 0, "maxReplicas": 8, "template": {}}]
    found = example_object("ray.io/v1", "RayCluster", name, within="team-a")
    found["metadata"].update(metadata)
    return {**found, "spec": {"headGroupSpec": {"template": {}}, "workerGroupSpecs": groups}}


def group(
    minimum: int, kind: str = "RayCluster", name: str = "train", system: str = "scheduling.x-k8s.io/v1alpha1"
) -> Manifest:
    found = example_object(system, "PodGroup", name, within="team-a", spec={"minMember": minimum})
    found["metadata"]["ownerReferences"] = [{"apiVersion": "ray.io/v1", "kind": kind, "name": name}]
    return found


def without(snapshot: Snapshot, *kinds: str) -> Snapshot:
    """The snapshot for a user who may not list these kinds."""
    settings = snapshot.settings
    denied = {
        part: Unread(f"the {part.resource.api.kind} objects", "403")
        for part in operator_objects(settings)
        if part.resource.api.kind in kinds
    }
    return replace(snapshot, parts={**snapshot.parts, **denied})


def test_a_stale_minimum_is_reported_with_what_is_right() -> None:
    scaled = installed(cluster(), group(3))
    assert reported(scaled, CHECK) == [(Severity.WARNING, "PodGroup team-a/train", "spec.minMember is 3")]
    assert remedies(scaled, CHECK) == [Text("set it to 5,")]
    assert not reported(installed(cluster(), group(5)), CHECK)


def test_a_workload_in_another_namespace_is_not_the_owner() -> None:
    assert not reported(installed(cluster(namespace="team-b"), group(3)), CHECK)


def test_the_cluster_that_a_job_has_made_is_compared() -> None:
    job = example_object("ray.io/v1", "RayJob", "train", within="team-a", spec={"rayClusterSpec": cluster(2)["spec"]})
    made = cluster(5, "train-x7k2p", ownerReferences=[RAY_JOB])
    of_job = group(3, "RayJob", system="scheduling.volcano.sh/v1beta1")
    assert not reported(installed(job, of_job), CHECK)
    assert remedies(installed(job, made, of_job), CHECK) == [Text("set it to 6,")]


def test_of_very_many_the_others_are_counted() -> None:
    names = [f"train-{number}" for number in range(30)]
    many = installed(*(one for name in names for one in (cluster(name=name), group(3, name=name))))
    found = reported(many, CHECK)
    assert len(found) == 21
    assert found[-1] == (Severity.WARNING, "PodGroups", "10 more with such a minimum")


def test_rights_to_list_workloads_are_needed_only_for_groups_that_they_own() -> None:
    assert not unknown(without(installed(), "RayCluster", "PyTorchJob"), CHECK)
    assert not unknown(without(installed(cluster(), group(3)), "PyTorchJob"), CHECK)
    assert unknown(without(installed(cluster(), group(3)), "RayCluster"), CHECK) == [
        "the RayCluster objects could not be read: 403"
    ]
    assert unknown(without(installed(cluster(), group(3, "RayJob")), "RayCluster"), CHECK)
    assert unknown(without(installed(), "PodGroup"), CHECK) == ["the PodGroup objects could not be read: 403"]


def test_the_groups_of_rollcall_are_not_among_those_of_others() -> None:
    (of_plugins,) = [part for part in OPERATOR_GROUPS if part.resource.api.group == "scheduling.x-k8s.io"]
    own = group(3)
    own["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "rollcall"}
    others = group(3)
    others["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "kuberay-operator"}
    assert [of_plugins.has(one, "") for one in (own, others, group(3))] == [False, True, True]
    assert of_plugins.right("") == "list podgroups.scheduling.x-k8s.io"


def test_of_a_group_only_its_minimum_is_kept() -> None:
    found = group(3)
    found["spec"]["minResources"] = {"cpu": "1"}
    found["status"] = {"phase": "Running"}
    kept = trimmed(found)
    assert kept["spec"] == {"minMember": 3}
    assert "status" not in kept

"""PodGroups that the operators of declared workloads write: wrong and stale minimums, as the issues report them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from tests.texts import require_like
from tests.unit.admission.opted_in.worlds import EVERY
from tests.unit.workloads.workloads import (
    declared,
    deployment,
    disaggregated_set,
    mpi_job,
    pytorch_job,
    ray_cluster,
    ray_job,
    spark_application,
    view,
    volcano_job,
    with_shapes,
    worker_group,
)
from webhook.model.fields import FieldPath
from webhook.model.findings import Finding
from webhook.model.reading import Manifest
from webhook.offline.group_sizes import operator_groups, sizes_of_owners
from webhook.validators.examples import stateful_set
from webhook.workloads.shaped_workload import gang_size

COSCHEDULING, VOLCANO, KOORDINATOR = "scheduling.x-k8s.io", "scheduling.volcano.sh", "scheduling.sigs.k8s.io"
LIMIT = {"minAvailable": 2}
WAITING: dict[str, Any] = {"launcherCreationPolicy": "WaitForWorkersReady"}


def pod_group(
    owner: Manifest, minimum: int | None, system: str = VOLCANO, name: str = "demo", **metadata: Any
) -> Manifest:
    """A PodGroup that the operator of `owner` wrote."""
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
    return {
        "apiVersion": f"{system}/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [reference], **metadata},
        "spec": {} if minimum is None else {"minMember": minimum},
    }


def native_group(owner: Manifest, minimum: int | None, name: str = "demo-cluster") -> Manifest:
    """A PodGroup of the Workload API; without a minimum, one that is not a gang."""
    policy: Mapping[str, Any] = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
    return {**pod_group(owner, None, "scheduling.k8s.io", name), "spec": {"schedulingPolicy": policy}}


def mismatches(*manifests: Manifest) -> list[Finding]:
    """What is wrong with the PodGroups among these objects."""
    groups = operator_groups(manifests)
    sizes = sizes_of_owners(groups, manifests, EVERY.kinds)
    return [found for group in groups if (found := group.mismatch(sizes)) is not None]


def messages(*manifests: Manifest) -> list[str]:
    """Place, value, why and remedy of each mismatch."""
    return [f"{one.at}: {one.value}: {one.why}; {one.remedy}" for one in mismatches(*manifests)]


def scaled(workers: int, **fields: Any) -> Manifest:
    """A RayCluster of a head and so many workers."""
    return ray_cluster(worker_group(replicas=workers, minReplicas=0, maxReplicas=9, **fields), scheduler=None)


def finished(job: Manifest, status: str = "Complete") -> Manifest:
    """A RayJob that is over."""
    return {**job, "status": {"jobDeploymentStatus": status}}


def made_by(job: Manifest, cluster: Manifest, name: str = "demo-x7k2p") -> Manifest:
    """The RayCluster that KubeRay makes for a RayJob."""
    found = deepcopy(cluster)
    reference = {"apiVersion": "ray.io/v1", "kind": job["kind"], "name": job["metadata"]["name"], "controller": True}
    found["metadata"].update(name=name, ownerReferences=[reference])
    return found


# The field of the workload from which its operator takes the minimum of the group.
MINIMUM = "spec.runPolicy.schedulingPolicy.minAvailable"

# The issues.


def test_kuberay_5205_a_group_that_was_not_raised_with_the_workers_lets_a_part_start() -> None:
    cluster = scaled(4)
    message = "spec.minMember: 4: ...RayCluster demo needs 5 pods...4 of them...; set it to 5, or delete ..."
    require_like(messages(cluster, pod_group(cluster, 4, COSCHEDULING)), [message])


def test_kuberay_5205_a_group_that_was_not_lowered_with_the_workers_is_never_complete() -> None:
    cluster = scaled(1)
    message = "spec.minMember: 4: RayCluster demo has only 2 pods, ...; set it to 2, or delete ..."
    require_like(messages(cluster, pod_group(cluster, 4, COSCHEDULING)), [message])


def test_kuberay_5205_a_suspended_cluster_has_no_pods_to_compare() -> None:
    cluster = scaled(4)
    cluster["spec"]["suspend"] = True
    assert not messages(cluster, pod_group(cluster, 4, COSCHEDULING))


def test_kuberay_4643_the_pods_of_a_finished_job_still_run_and_its_group_needs_none() -> None:
    job = finished(ray_job(scheduler=None))
    group = pod_group(job, 0, name="ray-demo-pg")
    message = "spec.minMember: 0: ...RayCluster demo-x7k2p needs 4 pods...each pod alone; set it to 4, or delete ..."
    require_like(messages(job, made_by(job, scaled(3)), group), [message])
    assert not messages(job, group), "its RayCluster was deleted, so the group needs no pods"
    assert not messages(finished(job, "Failed"), group)


def test_kuberay_4643_a_running_job_is_compared_with_its_own_clusters_pods() -> None:
    job = ray_job(scheduler=None)
    message = "spec.minMember: 0: ...RayJob demo needs 3 pods...each pod alone; set it to 3, or delete ..."
    require_like(messages(job, pod_group(job, 0)), [message])
    assert not messages(job, made_by(job, scaled(5)), pod_group(job, 6)), "the cluster was scaled, and not the job"
    two = (made_by(job, scaled(5)), made_by(job, scaled(1), "demo-aaaaa"))
    assert not messages(job, *two, pod_group(job, 6)), "which of them the group is for is not known"


def test_mpi_operator_608_the_launcher_is_counted_and_created_after_the_workers() -> None:
    job = mpi_job(scheduler=None, **WAITING)
    message = f"spec.minMember: 3: MPIJob demo creates 2 pods first ...; set {MINIMUM} of MPIJob demo to 2: ..."
    require_like(messages(job, pod_group(job, 3)), [message])
    assert not messages(mpi_job(scheduler=None), pod_group(job, 3)), "the launcher comes with the workers"
    assert not messages(mpi_job(runPolicy={"schedulingPolicy": LIMIT}, **WAITING), pod_group(job, 2))


def test_trainer_1515_the_operator_ignores_the_least_replicas_of_an_elastic_job() -> None:
    job = pytorch_job(master=None, worker=4, scheduler=None, elasticPolicy={"minReplicas": 2})
    message = f"spec.minMember: 4: PyTorchJob demo can run with 2 pods, ...; set {MINIMUM} of PyTorchJob demo to 2: ..."
    require_like(messages(job, pod_group(job, 4)), [message])
    job["spec"]["runPolicy"] = {"schedulingPolicy": LIMIT}
    assert not messages(job, pod_group(job, 2))


# Other minimums.

RAY, AUTOSCALED = scaled(4), ray_cluster(enableInTreeAutoscaling=True)


@pytest.mark.parametrize(
    ("workload", "minimum", "why"),
    [
        (RAY, 5, ""),
        (RAY, 6, "RayCluster demo has only 5 pods"),
        (RAY, 4, "the gang of RayCluster demo needs 5 pods"),
        (RAY, None, "the scheduler starts each pod alone"),
        (scaled(2, numOfHosts=4), 9, ""),
        (scaled(2, numOfHosts=4), 3, "needs 9 pods"),
        # With the autoscaler Volcano's group counts minReplicas, and that of scheduler-plugins replicas.
        (AUTOSCALED, 2, ""),
        (AUTOSCALED, 3, "RayCluster demo can run with 2 pods"),
        (AUTOSCALED, 1, "needs 2 pods"),
        (pytorch_job(), 4, ""),
        (pytorch_job(), 3, "needs 4 pods"),
        (pytorch_job(runPolicy={"schedulingPolicy": LIMIT}), 2, ""),
        (pytorch_job(runPolicy={"schedulingPolicy": LIMIT}), 1, "needs 2 pods"),
        (pytorch_job(runPolicy={"schedulingPolicy": {"minAvailable": 9}}), 9, "PyTorchJob demo has only 4 pods"),
        (mpi_job(), 2, ""),
        (mpi_job(), 3, ""),
        (mpi_job(), 4, "MPIJob demo has only 3 pods"),
        (mpi_job(), 1, "needs 2 pods"),
        # The driver creates the executors when it runs.
        (spark_application(), 1, ""),
        (spark_application(), 4, "SparkApplication demo creates 1 pod first"),
        (spark_application(), 0, "needs 1 pod"),
        (spark_application(mode="client"), 1, ""),
        # Volcano's own Jobs say their minimum themselves.
        (volcano_job(), 1, ""),
        (volcano_job(), 3, "Job.batch.volcano.sh demo has only 2 pods"),
        # A service is a gang only on request.
        (stateful_set(scheduler=None), 1, ""),
        (stateful_set(), 1, "needs 3 pods"),
        (deployment(), 4, "Deployment demo has only 3 pods"),
        (deployment(replicas=0), 4, ""),
        # Each group of its LeaderWorkerSets is a gang.
        (disaggregated_set(), 2, ""),
        (disaggregated_set(), 5, "DisaggregatedSet demo has only 4 pods"),
    ],
)
@pytest.mark.parametrize("system", [VOLCANO, COSCHEDULING, KOORDINATOR])
def test_a_minimum_is_compared_with_the_workload(
    workload: Manifest, minimum: int | None, why: str, system: str
) -> None:
    found = messages(workload, pod_group(workload, minimum, system))
    assert len(found) == bool(why)
    assert why in "".join(found)


@pytest.mark.parametrize(("minimum", "why"), [(5, ""), (6, "has only 5 pods"), (1, "needs 5 pods"), (None, "")])
def test_a_group_of_the_workload_api_has_its_minimum_in_another_field(minimum: int | None, why: str) -> None:
    (found,) = mismatches(RAY, native_group(RAY, minimum)) or (None,)
    assert (found is not None) is bool(why)
    if found is not None:
        assert str(found.at) == "spec.schedulingPolicy.gang.minCount"
        assert why in found.why


def test_groups_that_divide_the_pods_of_a_workload_may_each_have_fewer() -> None:
    groups = [native_group(RAY, None, "demo-head"), native_group(RAY, 4, "demo-worker-gpu")]
    assert not messages(RAY, *groups)
    (found,) = messages(RAY, *groups, native_group(RAY, 6, "demo-worker-cpu"))
    assert "has only 5 pods" in found
    (found,) = messages(RAY, pod_group(RAY, 5), pod_group(RAY, 4))
    assert "needs 5 pods" in found, "of two versions of one group the last counts"


@pytest.mark.parametrize(
    "group",
    [
        pod_group(RAY, 1, labels={"app.kubernetes.io/managed-by": "rollcall"}),
        pod_group(RAY, 1, namespace="elsewhere"),
        pod_group(RAY, 1, ownerReferences=[]),
        pod_group(RAY, 1, ownerReferences=[{"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "other"}]),
        pod_group(RAY, 1, ownerReferences=[{"apiVersion": "batch/v1", "kind": "Job", "name": "demo"}]),
        pod_group(RAY, 1, "scheduling.run.ai"),
        # What the API server refuses is not compared.
        pod_group(RAY, 1, ownerReferences="demo"),
        {**pod_group(RAY, 1), "spec": {"minMember": "one"}},
    ],
)
def test_a_group_of_another_author_or_workload_is_not_compared(group: Manifest) -> None:
    assert not messages(RAY, group)


def test_a_group_of_a_deleted_workload_of_the_same_name_is_not_compared() -> None:
    cluster = deepcopy(RAY)
    cluster["metadata"]["uid"] = "new"
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "demo", "uid": "old"}
    assert not messages(cluster, pod_group(cluster, 1, ownerReferences=[owner]))
    assert messages(cluster, pod_group(cluster, 1, ownerReferences=[{**owner, "uid": "new"}]))


def test_the_controller_of_a_group_counts_before_its_other_owners() -> None:
    job = pytorch_job()
    owners = [
        {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "demo"},
        {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "demo", "controller": True},
    ]
    assert not messages(RAY, job, pod_group(job, 4, ownerReferences=owners))


def test_a_workload_that_cannot_be_read_is_reported_by_the_rules_of_its_kind() -> None:
    broken = {**RAY, "spec": {"workerGroupSpecs": "none"}}
    assert not messages(broken, pod_group(broken, 1))


def test_parts_behind_a_part_that_waits_are_not_among_the_first() -> None:
    parts = [
        {"name": "server", "template": "$.spec.server", "pods": 1, "pod": {"labels": {"role": "server"}}},
        {
            "name": "client",
            "template": "$.spec.client",
            "pods": 2,
            "outside": True,
            "after": ["server"],
            "until": "ready",
        },
        {"name": "report", "template": "$.spec.report", "pods": 4, "outside": True, "after": ["client"]},
        {"name": "log", "template": "$.spec.log", "pods": 8, "outside": True, "after": ["server"]},
    ]
    kind = {"group": "example.com", "kind": "Training", "plural": "trainings", "versions": ["v1"]}
    settings = with_shapes(declared({"for": kind, "parts": parts}))
    manifest = {"apiVersion": "example.com/v1", "kind": "Training", "metadata": {"name": "demo"}, "spec": {}}
    size = gang_size(view(manifest, settings))
    assert size is not None
    assert (size.needed, size.most, size.enough, size.later) == (1, 9, 9, 6)


def test_a_finding_names_the_right_minimum() -> None:
    (found,) = mismatches(RAY, pod_group(RAY, 1))
    assert found.instead == (5,)
    assert found.at == FieldPath(("spec", "minMember"))

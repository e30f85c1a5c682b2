"""What a peer's schema, webhook or controller refuses of a workload that is not Grove's, as files show it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Run

TEMPLATE: dict[str, Any] = {
    "spec": {"restartPolicy": "Never", "containers": [{"name": "node", "image": "example.com/x:1"}]}
}


def object_of(api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """An object that is not opted in."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "demo", "namespace": "ml"}, "spec": spec}


def job(**spec: Any) -> dict[str, Any]:
    """A Job."""
    return object_of("batch/v1", "Job", {"template": TEMPLATE, **spec})


def job_set(*, job: dict[str, Any] | None = None, replicas: int = 2, **spec: Any) -> dict[str, Any]:
    """A JobSet of one replicated Job `w`."""
    replicated = {"name": "w", "replicas": replicas, "template": {"spec": {"template": TEMPLATE, **(job or {})}}}
    return object_of("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [replicated], **spec})


def leader_worker_set(size: int = 4, replicas: int = 2, **template: Any) -> dict[str, Any]:
    """A LeaderWorkerSet."""
    workers = {"size": size, "workerTemplate": TEMPLATE, **template}
    return object_of(
        "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": replicas, "leaderWorkerTemplate": workers}
    )


def ray_cluster(**group: Any) -> dict[str, Any]:
    """A RayCluster of one worker group."""
    groups = [{"groupName": "w", "template": TEMPLATE, **group}]
    return object_of("ray.io/v1", "RayCluster", {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": groups})


def pytorch_job(**replicas: Any) -> dict[str, Any]:
    """A PyTorchJob of these replicas."""
    return object_of("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": replicas})


def mpi_job(**spec: Any) -> dict[str, Any]:
    """An MPIJob with a launcher and two workers."""
    parts = {"Launcher": {"template": TEMPLATE}, "Worker": {"replicas": 2, "template": TEMPLATE}}
    return object_of("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": parts, **spec})


def named(name: str) -> dict[str, Any]:
    """A pod template whose container has that name."""
    return {"spec": {"containers": [{"name": name, "image": "example.com/x:1"}]}}


def findings_of(rollcall: Run, folder: Path, manifest: dict[str, Any], rule: str) -> list[tuple[str, str, Any]]:
    """The action, the field and the value of each finding of a rule."""
    path = folder / "object.yaml"
    path.write_text(json.dumps(manifest))
    result = rollcall("check", "--output", "json", str(path))
    assert result.code in (0, 1), result.err
    findings = json.loads(result.out)["findings"]
    return [(one["action"], one["field"], one["found"]) for one in findings if one["rule"] == rule]


NEGATIVE: dict[str, tuple[dict[str, Any], set[tuple[str, str, Any]]]] = {
    "a Job's parallelism": (job(parallelism=-2), {("deny", "spec.parallelism", -2)}),
    "a Job's completions": (job(completions=-1), {("deny", "spec.completions", -1)}),
    "a Job of none": (job(parallelism=0), set()),
    "replicas of a JobSet": (job_set(replicas=-2), {("deny", "spec.replicatedJobs[0].replicas", -2)}),
    "a Job of a JobSet": (
        job_set(job={"parallelism": -3}),
        {("deny", "spec.replicatedJobs[0].template.spec.parallelism", -3)},
    ),
    "groups": (leader_worker_set(replicas=-1), {("deny", "spec.replicas", -1)}),
    "nodes of a TrainJob": (
        object_of(
            "trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "x"}, "trainer": {"numNodes": -1}}
        ),
        {("deny", "spec.trainer.numNodes", -1)},
    ),
    "a Deployment": (
        object_of("apps/v1", "Deployment", {"replicas": -1, "template": TEMPLATE}),
        {("deny", "spec.replicas", -1)},
    ),
    "workers of Ray": (
        ray_cluster(replicas=-3, minReplicas=-5),
        {
            ("warn", "spec.workerGroupSpecs[0].replicas", -3),
            ("warn", "spec.workerGroupSpecs[0].minReplicas", -5),
        },
    ),
    "workers of PyTorch": (
        pytorch_job(Worker={"replicas": -3, "template": named("pytorch")}),
        {("warn", "spec.pytorchReplicaSpecs.Worker.replicas", -3)},
    ),
}


@pytest.mark.parametrize("name", NEGATIVE)
def test_a_negative_number_of_pods_is_reported_at_its_field(rollcall: Run, tmp_path: Path, name: str) -> None:
    """Opted in or not, and as an error where it is refused."""
    manifest, expected = NEGATIVE[name]
    assert set(findings_of(rollcall, tmp_path, manifest, "owner/negative-pods")) == expected


INDEXED = {"completionMode": "Indexed"}
TARGET = {"targetReplicatedJobs": ["zz"]}
POD = "spec.replicatedJobs[0].template.spec"
SUBGROUPS = "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize"
GROUP = "spec.workerGroupSpecs[0].minReplicas"
REPLICAS = "spec.pytorchReplicaSpecs"
MPI = "spec.mpiReplicaSpecs"
ALWAYS = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Always"}}
ONE = {"template": named("pytorch")}


def subgroups(size: int, each: Any, **policy: Any) -> dict[str, Any]:
    """A LeaderWorkerSet with subgroups."""
    return leader_worker_set(size, subGroupPolicy={"subGroupSize": each, **policy})


def rollout(**rolling: Any) -> dict[str, Any]:
    """A LeaderWorkerSet of two groups with these settings of its rollout."""
    found = leader_worker_set()
    found["spec"]["rolloutStrategy"] = {"rollingUpdateConfiguration": rolling}
    return found


def ray_job(**spec: Any) -> dict[str, Any]:
    """A RayJob of one worker group."""
    return object_of("ray.io/v1", "RayJob", {"rayClusterSpec": ray_cluster()["spec"], **spec})


def claims(*names: str) -> list[dict[str, Any]]:
    """A policy of a JobSet for claims of these names."""
    return [{"templates": [{"metadata": {"name": name}, "spec": {}} for name in names]}]


def mounting(name: str) -> dict[str, Any]:
    """A pod template whose container mounts a volume."""
    mounts = [{"name": name, "mountPath": "/data"}]
    container = {"name": "node", "image": "example.com/x:1", "volumeMounts": mounts}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


IN_PLACE: dict[str, Any] = {"failurePolicy": {"restartStrategy": "InPlaceRestart"}}
ONE_JOB: dict[str, Any] = {"failurePolicy": {"rules": [{"action": "RestartJob"}]}}
RESTARTED: dict[str, Any] = {
    "backoffLimit": 2**31 - 1,
    "podReplacementPolicy": "Failed",
    "completions": 2,
    "parallelism": 2,
}
STRATEGY = ("warn", "spec.failurePolicy.restartStrategy", "InPlaceRestart")
ACTION = ("warn", "spec.failurePolicy.rules[0].action", "RestartJob")
CLAIMS = "spec.volumeClaimPolicies[0]"
ROLLING = "spec.rolloutStrategy.rollingUpdateConfiguration"
REFUSED: dict[str, tuple[dict[str, Any], list[tuple[str, str, Any]]]] = {
    "minReplicas above maxReplicas": (ray_cluster(minReplicas=5, maxReplicas=2), [("warn", GROUP, 5)]),
    "minReplicas as maxReplicas": (ray_cluster(minReplicas=2, maxReplicas=2), []),
    "minReplicas of another type": (ray_cluster(minReplicas=2, maxReplicas=[]), []),
    "of a RayJob": (
        object_of("ray.io/v1", "RayJob", {"rayClusterSpec": ray_cluster(minReplicas=5, maxReplicas=2)["spec"]}),
        [("warn", "spec.rayClusterSpec.workerGroupSpecs[0].minReplicas", 5)],
    ),
    "larger subgroups than the group": (subgroups(4, 5), [("deny", SUBGROUPS, 5)]),
    "subgroups of no pod": (subgroups(4, 0), [("deny", SUBGROUPS, 0)]),
    "subgroups that do not divide": (subgroups(6, 4), [("deny", SUBGROUPS, 4)]),
    "subgroups of the size": (subgroups(6, 3), []),
    "subgroups of the workers": (subgroups(5, 4), []),
    "subgroups without the leader": (
        subgroups(6, 3, subGroupPolicyType="LeaderExcluded"),
        [("deny", SUBGROUPS, 3)],
    ),
    "success of a missing Job": (
        job_set(successPolicy=TARGET),
        [("deny", "spec.successPolicy.targetReplicatedJobs[0]", "zz")],
    ),
    "failure of a missing Job": (
        job_set(failurePolicy={"rules": [TARGET]}),
        [("deny", "spec.failurePolicy.rules[0].targetReplicatedJobs[0]", "zz")],
    ),
    "restarts in place": (job_set(job=RESTARTED, **IN_PLACE), [STRATEGY]),
    "restarts in place of Jobs that give up": (
        job_set(job={**RESTARTED, "backoffLimit": 6}, **IN_PLACE),
        [STRATEGY, ("deny", f"{POD}.backoffLimit", 6)],
    ),
    "restarts in place of pods that are replaced early": (
        job_set(job={**RESTARTED, "podReplacementPolicy": None}, **IN_PLACE),
        [STRATEGY, ("deny", f"{POD}.podReplacementPolicy", None)],
    ),
    "restarts in place of more completions": (
        job_set(job={**RESTARTED, "completions": 3}, **IN_PLACE),
        [STRATEGY, ("deny", f"{POD}.completions", 3)],
    ),
    "restarts of one Job": (job_set(**ONE_JOB), [ACTION]),
    "restarts of one Job among many": (
        job_set(replicas=1025, **ONE_JOB),
        [ACTION, ("deny", "spec.replicatedJobs[0].replicas", 1025)],
    ),
    "success of its Job": (job_set(successPolicy={"targetReplicatedJobs": ["w"]}), []),
    "indexed without completions": (job(**INDEXED, parallelism=2), [("deny", "spec.completions", None)]),
    "indexed of one": (job(**INDEXED), []),
    "restarted where nothing is written": (
        job(template=named("main")),
        [("deny", "spec.template.spec.restartPolicy", None)],
    ),
    "restarted by JobSet's webhook": (job_set(job={"template": named("main")}), []),
    "a failure policy beside OnFailure": (
        job_set(job={"template": named("main"), "podFailurePolicy": {"rules": []}}),
        [("deny", f"{POD}.template.spec.restartPolicy", "OnFailure")],
    ),
    "a limit for each index, not indexed": (
        job(backoffLimitPerIndex=1),
        [("deny", "spec.backoffLimitPerIndex", 1)],
    ),
    "a limit for each index": (job(**INDEXED, completions=2, backoffLimitPerIndex=1, maxFailedIndexes=2), []),
    "more failed indexes than completions": (
        job(**INDEXED, completions=2, backoffLimitPerIndex=1, maxFailedIndexes=3),
        [("deny", "spec.maxFailedIndexes", 3)],
    ),
    "more successes than completions": (
        job(**INDEXED, completions=2, successPolicy={"rules": [{"succeededCount": 3}, {"succeededIndexes": "0"}]}),
        [("deny", "spec.successPolicy.rules[0].succeededCount", 3)],
    ),
    "an index that fails without its limit": (
        job(podFailurePolicy={"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}}]}),
        [("deny", "spec.podFailurePolicy.rules[0].action", "FailIndex")],
    ),
    "an unknown mode": (job(completionMode="indexed"), [("deny", "spec.completionMode", "indexed")]),
    "parallelism alone in a JobSet": (job_set(job={"parallelism": 2}), [("deny", f"{POD}.completions", None)]),
    "parallelism alone, not indexed": (
        job_set(job={"parallelism": 2, "completionMode": "NonIndexed"}),
        [],
    ),
    "a RayJob in a cluster without a name": (
        object_of("ray.io/v1", "RayJob", {"clusterSelector": {"app": "ray"}}),
        [("deny", "spec.clusterSelector[ray.io/cluster]", None)],
    ),
    "a RayJob in a cluster that is repeated": (
        object_of("ray.io/v1", "RayJob", {"clusterSelector": {"ray.io/cluster": "ray"}, "backoffLimit": 1}),
        [("warn", "spec.backoffLimit", 1)],
    ),
    "a RayJob that keeps its cluster for a time": (
        ray_job(ttlSecondsAfterFinished=5),
        [("warn", "spec.ttlSecondsAfterFinished", 5)],
    ),
    "an MPIJob of the training operator": (
        object_of("kubeflow.org/v1", "MPIJob", {"mpiReplicaSpecs": {"Launcher": {"template": TEMPLATE}}}),
        [],
    ),
    "two launchers, and a typo, of the training operator": (
        object_of(
            "kubeflow.org/v1",
            "MPIJob",
            {"mpiReplicaSpecs": {"Launcher": {"replicas": 2, "template": TEMPLATE}, "Wroker": {"template": TEMPLATE}}},
        ),
        [("deny", f"{MPI}.Launcher.replicas", 2), ("deny", f"{MPI}.Wroker", "Wroker")],
    ),
    "indexed in a JobSet": (job_set(job={**INDEXED, "parallelism": 2}), [("deny", f"{POD}.completions", None)]),
    "always restarted": (job(template=ALWAYS), [("deny", "spec.template.spec.restartPolicy", "Always")]),
    "always restarted in a JobSet": (
        job_set(job={"template": ALWAYS}),
        [("deny", f"{POD}.template.spec.restartPolicy", "Always")],
    ),
    "two masters": (pytorch_job(Master={**ONE, "replicas": 2}), [("deny", f"{REPLICAS}.Master.replicas", 2)]),
    "a master": (pytorch_job(Master={**ONE, "replicas": 1}, Worker={**ONE, "replicas": 2}), []),
    "another container": (
        pytorch_job(Worker={"template": named("main")}),
        [("deny", f"{REPLICAS}.Worker.template.spec.containers", "main")],
    ),
    "another replica type": (pytorch_job(Boss=ONE), [("deny", f"{REPLICAS}.Boss", "Boss")]),
    "no launcher": (
        mpi_job(mpiReplicaSpecs={"Worker": {"replicas": 2, "template": TEMPLATE}}),
        [("deny", f"{MPI}.Launcher", None)],
    ),
    "no workers": (
        mpi_job(mpiReplicaSpecs={"Launcher": {"template": TEMPLATE}, "Worker": {"replicas": 0, "template": TEMPLATE}}),
        [("deny", f"{MPI}.Worker.replicas", 0)],
    ),
    "an unknown MPI": (mpi_job(mpiImplementation="Foo"), [("deny", "spec.mpiImplementation", "Foo")]),
    "an MPI of another type": (mpi_job(mpiImplementation=["Intel"]), [("deny", "spec.mpiImplementation", None)]),
    "a known MPI": (mpi_job(mpiImplementation="MPICH", slotsPerWorker=0), []),
    "workers without a number": (
        mpi_job(mpiReplicaSpecs={"Launcher": {"template": TEMPLATE}, "Worker": {"template": TEMPLATE}}),
        [("deny", f"{MPI}.Worker.replicas", None)],
    ),
    "workers that always restart": (
        mpi_job(
            mpiReplicaSpecs={
                "Launcher": {"template": TEMPLATE},
                "Worker": {"replicas": 2, "restartPolicy": "Always", "template": TEMPLATE},
            }
        ),
        [("deny", f"{MPI}.Worker.restartPolicy", "Always")],
    ),
    "negative slots": (mpi_job(slotsPerWorker=-1), [("deny", "spec.slotsPerWorker", -1)]),
    "an unknown end of pods": (
        mpi_job(runPolicy={"cleanPodPolicy": "Some"}),
        [("deny", "spec.runPolicy.cleanPodPolicy", "Some")],
    ),
    "a master without a number": (pytorch_job(Master=ONE), [("warn", f"{REPLICAS}.Master.replicas", None)]),
    "a master in lower case": (
        pytorch_job(master={**ONE, "replicas": 1}),
        [("warn", f"{REPLICAS}.master", "master")],
    ),
    "workers of none": (
        pytorch_job(Worker={**ONE, "replicas": 0}),
        [("warn", f"{REPLICAS}.Worker.replicas", 0)],
    ),
    "elastic without workers": (
        object_of(
            "kubeflow.org/v1",
            "PyTorchJob",
            {"elasticPolicy": {}, "pytorchReplicaSpecs": {"Master": {**ONE, "replicas": 1}}},
        ),
        [("deny", f"{REPLICAS}.Worker", None)],
    ),
    "a Job without a container": (
        job(template={"spec": {"restartPolicy": "Never", "containers": []}}),
        [("deny", "spec.template.spec.containers", None)],
    ),
    "a worker group without a container": (
        ray_cluster(template={"spec": {"containers": []}}),
        [("deny", "spec.workerGroupSpecs[0].template.spec.containers", None)],
    ),
    "resources twice": (
        ray_cluster(rayStartParams={"num-gpus": "1"}, resources={"CPU": "1"}),
        [("warn", "spec.workerGroupSpecs[0].resources", "num-gpus")],
    ),
    "labels in the parameters of Ray": (
        ray_cluster(rayStartParams={"labels": "a=b"}),
        [("warn", "spec.workerGroupSpecs[0].rayStartParams.labels", "a=b")],
    ),
    "a RayJob without a cluster": (
        object_of("ray.io/v1", "RayJob", {"entrypoint": "x"}),
        [("deny", "spec.rayClusterSpec", None)],
    ),
    "a RayJob that keeps its cluster": (
        ray_job(suspend=True),
        [("deny", "spec.suspend", True)],
    ),
    "a RayJob that may be suspended": (ray_job(suspend=True, shutdownAfterJobFinishes=True, backoffLimit=1), []),
    "a RayJob without time": (
        ray_job(activeDeadlineSeconds=0, ttlSecondsAfterFinished=-1),
        [("deny", "spec.activeDeadlineSeconds", 0), ("deny", "spec.ttlSecondsAfterFinished", -1)],
    ),
    "a subdomain of capitals": (job_set(network={"subdomain": "A_b"}), [("deny", "spec.network.subdomain", "A_b")]),
    "a coordinator": (
        job_set(job={"completions": 2}, coordinator={"replicatedJob": "w", "jobIndex": 1, "podIndex": 1}),
        [],
    ),
    "a coordinator beyond the Jobs": (
        job_set(job={"completions": 2}, coordinator={"replicatedJob": "w", "jobIndex": 2}),
        [("deny", "spec.coordinator.jobIndex", 2)],
    ),
    "a coordinator of no Job": (
        job_set(coordinator={"replicatedJob": "zz"}),
        [("deny", "spec.coordinator.replicatedJob", "zz")],
    ),
    "a coordinator without completions": (
        job_set(coordinator={"replicatedJob": "w"}),
        [("deny", "spec.replicatedJobs[0].template.spec.completions", None)],
    ),
    "a coordinator with a long address": (
        {
            **job_set(job={"completions": 2}, coordinator={"replicatedJob": "w"}),
            "metadata": {"name": "a" * 29, "namespace": "ml"},
        },
        [("deny", "metadata.name", "a" * 29)],
    ),
    "a coordinator with the longest address": (
        {
            **job_set(job={"completions": 2}, coordinator={"replicatedJob": "w"}),
            "metadata": {"name": "a" * 28, "namespace": "ml"},
        },
        [],
    ),
    "a controller without a domain": (job_set(managedBy="me"), [("deny", "spec.managedBy", "me")]),
    "a long controller": (job_set(managedBy="a.b/" + "c" * 60), [("deny", "spec.managedBy", "a.b/" + "c" * 60)]),
    "a long claim": (
        job_set(job={"template": mounting("d" * 59)}, volumeClaimPolicies=claims("d" * 59)),
        [("deny", f"{CLAIMS}.templates[0].metadata.name", "d" * 59)],
    ),
    "a controller": (job_set(managedBy="jobset.sigs.k8s.io/jobset-controller"), []),
    "claims": (
        job_set(job={"template": mounting("data")}, volumeClaimPolicies=claims("data")),
        [],
    ),
    "wrong claims": (
        job_set(job={"template": mounting("data")}, volumeClaimPolicies=claims("data", "data", "A_b", "other")),
        [
            ("deny", f"{CLAIMS}.templates[1].metadata.name", "data"),
            ("deny", f"{CLAIMS}.templates[2].metadata.name", "A_b"),
            ("deny", f"{CLAIMS}.templates[3].metadata.name", "other"),
        ],
    ),
    "two rules of one name": (
        job_set(failurePolicy={"rules": [{"name": "a"}, {"name": "a"}, {}]}),
        [("deny", "spec.failurePolicy.rules[1].name", "a")],
    ),
    "an unknown reason": (
        job_set(failurePolicy={"rules": [{"onJobFailureReasons": ["Boredom"]}]}),
        [("deny", "spec.failurePolicy.rules[0].onJobFailureReasons[0]", "Boredom")],
    ),
    "an unknown start": (
        object_of(
            "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {**leader_worker_set()["spec"], "startupPolicy": "x"}
        ),
        [("deny", "spec.startupPolicy", "x")],
    ),
    "an unknown restart": (
        leader_worker_set(restartPolicy="Always"),
        [("deny", "spec.leaderWorkerTemplate.restartPolicy", "Always")],
    ),
    "a rollout that moves nothing": (
        rollout(maxUnavailable=0),
        [("deny", f"{ROLLING}.maxUnavailable", 0)],
    ),
    "a rollout of less than one group": (
        rollout(maxUnavailable="10%"),
        [("deny", f"{ROLLING}.maxUnavailable", "10%")],
    ),
    "a rollout that adds groups": (rollout(maxUnavailable=0, maxSurge="10%"), []),
    "a rollout by default": (rollout(), []),
    "more than all groups": (rollout(maxSurge="101%"), [("deny", f"{ROLLING}.maxSurge", "101%")]),
    "a negative partition": (rollout(partition=-1), [("deny", f"{ROLLING}.partition", -1)]),
    "pods beyond all numbers": (leader_worker_set(3000, 1_000_000), [("deny", "spec.replicas", 1_000_000)]),
    "node selectors of application and role": (
        object_of(
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            {"nodeSelector": {"a": "b"}, "driver": {"nodeSelector": {"a": "c"}}, "executor": {}},
        ),
        [("deny", "spec.nodeSelector", "a")],
    ),
    "a template for Spark 2": (
        object_of(
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            {"sparkVersion": "2.4.5", "driver": {"template": TEMPLATE}, "executor": {}},
        ),
        [("deny", "spec.driver.template", "2.4.5")],
    ),
}


def called(name: str, manifest: dict[str, Any]) -> dict[str, Any]:
    """The object under another name."""
    return {**manifest, "metadata": {"name": name, "namespace": "ml"}}


# By kind, the longest name that its owner accepts, and what it does about a longer one.
NAMES: dict[str, tuple[dict[str, Any], int, str]] = {
    "a JobSet by its Jobs": (job_set(), 63 - len("-w-1"), "deny"),
    "a JobSet of no Job": (job_set(replicas=0), 63 - len("-w--1"), "deny"),
    "a JobSet by its pods": (job_set(job={"completions": 20}), 63 - len("-w-1-19-abcde"), "deny"),
    "a JobSet of other pods": (
        job_set(job={"completions": 20, "completionMode": "NonIndexed"}),
        63 - len("-w-1"),
        "deny",
    ),
    "a RayCluster": (ray_cluster(), 53, "warn"),
    "a RayJob": (ray_job(), 47, "warn"),
    "an MPIJob": (mpi_job(), 63 - len("-worker-1"), "deny"),
    "a PyTorchJob": (pytorch_job(Worker={**ONE, "replicas": 1}), 63, "warn"),
    "a TrainJob": (object_of("trainer.kubeflow.org/v1alpha1", "TrainJob", {"runtimeRef": {"name": "x"}}), 63, "deny"),
}


@pytest.mark.parametrize("kind", NAMES)
def test_a_name_that_a_peer_refuses_is_reported(rollcall: Run, tmp_path: Path, kind: str) -> None:
    """A name that is too long, or that begins with a digit."""
    manifest, limit, action = NAMES[kind]
    assert findings_of(rollcall, tmp_path, called("a" * limit, manifest), "owner/refused") == []
    for name in ("a" * (limit + 1), "1a"):
        parsed = findings_of(rollcall, tmp_path, called(name, manifest), "owner/refused")
        assert parsed == [(action, "metadata.name", name)], name


def test_the_name_of_a_stateful_set_leaves_room_for_the_hash_of_its_revision(rollcall: Run, tmp_path: Path) -> None:
    """Both are in a label of its pods. The workers of a group are a StatefulSet."""
    stateful_set = object_of("apps/v1", "StatefulSet", {"replicas": 2, "template": TEMPLATE})
    for manifest, limit in ((stateful_set, 52), (leader_worker_set(), 50), (leader_worker_set(size=1), 52)):
        assert findings_of(rollcall, tmp_path, called("a" * limit, manifest), "owner/refused") == []
        parsed = findings_of(rollcall, tmp_path, called("a" * (limit + 1), manifest), "owner/refused")
        assert parsed == [("warn", "metadata.name", "a" * (limit + 1))]
    for name in ("a" * 64, "1a"):
        parsed = findings_of(rollcall, tmp_path, called(name, leader_worker_set()), "owner/refused")
        assert parsed == [("deny", "metadata.name", name)]


@pytest.mark.parametrize("name", ["${JOB}", "$JOB-a", "{{ .Release.Name }}", "<name>"])
def test_a_name_that_is_not_rendered_is_not_refused(rollcall: Run, tmp_path: Path, name: str) -> None:
    """Its form is not yet known."""
    for manifest in (job_set(), leader_worker_set(), ray_cluster(), mpi_job()):
        assert findings_of(rollcall, tmp_path, called(name, manifest), "owner/refused") == []


def test_a_generated_name_has_five_characters_more(rollcall: Run, tmp_path: Path) -> None:
    """Which the API server adds."""
    manifest = {**ray_cluster(), "metadata": {"generateName": "a" * 49}}
    expected = [("warn", "metadata.generateName", "a" * 49)]
    assert findings_of(rollcall, tmp_path, manifest, "owner/refused") == expected
    manifest["metadata"] = {"generateName": "a" * 48}
    assert findings_of(rollcall, tmp_path, manifest, "owner/refused") == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_peer_refuses_is_reported_at_its_field(rollcall: Run, tmp_path: Path, name: str) -> None:
    """Opted in or not."""
    manifest, expected = REFUSED[name]
    parsed = findings_of(rollcall, tmp_path, manifest, "owner/refused")
    assert sorted(parsed, key=str) == sorted(expected, key=str)


def test_an_empty_amount_is_shown_as_it_is_written(rollcall: Run, tmp_path: Path) -> None:
    """And not as null."""
    container = {"name": "node", "image": "example.com/x:1", "resources": {"limits": {"cpu": ""}}}
    manifest = job(template={"spec": {"restartPolicy": "Never", "containers": [container]}})
    assert [found for _, _, found in findings_of(rollcall, tmp_path, manifest, "resources/quantity")] == [""]

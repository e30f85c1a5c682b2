"""The fixture that plays Trainer's controller, compared with the known behaviour of Trainer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.opted_in_workloads import train_job, training_runtime, training_step
from tests.e2e.pod_life import let_succeed
from tests.e2e.trainer_controller import COSCHEDULING_LABEL, VOLCANO_ANNOTATION, TrainJobController
from tests.e2e.workload_objects import created, deleted, owner_chain, patched, read

pytestmark = pytest.mark.soak
SAMPLES = Path(os.environ.get("ROLLCALL_SAMPLES", "none")) / "trainer"
TRAINER = "trainer.kubeflow.org/v1alpha1"


@pytest.fixture
def train_jobs(plane: ControlPlane, namespace: str, workload_kinds: Callable[..., None]) -> TrainJobController:
    workload_kinds(plane, "trainer", "jobset", "scheduler-plugins")
    return TrainJobController(plane, namespace)


@pytest.fixture
def runtime(plane: ControlPlane, train_jobs: TrainJobController) -> Iterator[Callable[[Manifest], Manifest]]:
    """Store a runtime; one of the whole cluster goes with the test."""
    stored = []

    def store(manifest: Manifest) -> Manifest:
        stored.append(created(plane, manifest))
        return stored[-1]

    yield store
    for one in stored:
        deleted(plane, one, "Background")


def group(plane: ControlPlane, api_version: str, namespace: str, name: str) -> Manifest:
    """The PodGroup of a TrainJob: its spec, and the kinds of its owners."""
    found = read(plane, api_version, "PodGroup", namespace, name)
    return {"owners": [one["kind"] for one in found["metadata"]["ownerReferences"]], **found["spec"]}


@pytest.mark.every_version
@pytest.mark.skipif(not SAMPLES.is_dir(), reason="ROLLCALL_SAMPLES does not name the samples")
def test_a_pod_of_a_train_job_belongs_to_a_job_of_its_job_set(
    plane: ControlPlane, namespace: str, train_jobs: TrainJobController, runtime: Callable[[Manifest], Manifest]
) -> None:
    runtime(yaml.safe_load((SAMPLES / "torch_distributed.yaml").read_text()))
    created(plane, train_job("tune", namespace, "torch-distributed", nodes=3, labels={"team": "blue"}))
    train_jobs.sync("tune")
    pods = train_jobs.pods("tune", 3)
    assert [owner_chain(plane, pod) for pod in pods] == [["Job tune-node-0", "JobSet tune", "TrainJob tune"]] * 3
    labels = pods[0]["metadata"]["labels"]
    assert labels["jobset.sigs.k8s.io/jobset-name"] == "tune"
    # Its own labels go nowhere, and those of the steps stop at the Jobs.
    assert not [key for key in labels if key == "team" or key.startswith("trainer.kubeflow.org/")]
    (job,) = train_jobs.job_sets.jobs("tune")
    assert job["metadata"]["labels"]["trainer.kubeflow.org/trainjob-ancestor-step"] == "trainer"
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (3, 3)
    job_set = read(plane, "jobset.x-k8s.io/v1alpha2", "JobSet", namespace, "tune")
    assert "trainer" in {entry["manager"] for entry in job_set["metadata"]["managedFields"]}


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="ROLLCALL_SAMPLES does not name the samples")
def test_the_patches_of_a_train_job_reach_its_pods(
    plane: ControlPlane, namespace: str, train_jobs: TrainJobController, runtime: Callable[[Manifest], Manifest]
) -> None:
    runtime(yaml.safe_load((SAMPLES / "torch_distributed.yaml").read_text()))
    sample = yaml.safe_load((SAMPLES / "02-runtime-patches.yaml").read_text())
    sample["metadata"]["namespace"] = namespace
    created(plane, sample)
    train_jobs.sync("runtime-patches-example")
    pod = train_jobs.pods("runtime-patches-example", 2)[0]
    assert pod["spec"]["nodeSelector"] == {"node-type": "training"}
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2", "memory": "4Gi"}
    job_set = read(plane, "jobset.x-k8s.io/v1alpha2", "JobSet", namespace, "runtime-patches-example")
    assert job_set["metadata"]["labels"] == {"team": "ml-platform", "cost-center": "research"}


def test_the_plugins_create_one_pod_group_for_all_steps_and_label_the_pods(
    plane: ControlPlane, namespace: str, train_jobs: TrainJobController, runtime: Callable[[Manifest], Manifest]
) -> None:
    """Also of the step that only comes when another has ended."""
    data = training_step("data", "dataset-initializer", cpu="500m")
    node = training_step("node", depends_on={"data": "Complete"}, cpu="2", gpu=8)
    policy = {"coscheduling": {"scheduleTimeoutSeconds": 120}, "volcano": {"networkTopology": {"mode": "hard"}}}
    queue = {"scheduling.volcano.sh/queue-name": "research"}
    runtime(training_runtime("cached", data, node, namespace=namespace, pod_groups=policy, annotations=queue))
    created(plane, train_job("tune", namespace, "cached", kind="TrainingRuntime", nodes=2))
    train_jobs.sync("tune")
    # The GPUs are a limit and no request: Trainer reads the template, in which nothing has become the other yet.
    common = {"owners": ["TrainJob"], "minMember": 3, "minResources": {"cpu": "4.5"}}
    assert group(plane, "scheduling.x-k8s.io/v1alpha1", namespace, "tune") == {**common, "scheduleTimeoutSeconds": 120}
    volcano = group(plane, "scheduling.volcano.sh/v1beta1", namespace, "tune")
    assert volcano.pop("networkTopology")["mode"] == "hard"
    assert volcano == {**common, "queue": "research"}
    (first,) = train_jobs.pods("tune", 1)
    let_succeed(plane, [first])
    train_jobs.job_sets.sync_until("tune", "node")
    for pod in train_jobs.pods("tune", 2, "node"):
        assert pod["metadata"]["labels"][COSCHEDULING_LABEL] == "tune"
        assert pod["metadata"]["annotations"][VOLCANO_ANNOTATION] == "tune"
        assert pod["spec"]["schedulerName"] == "default-scheduler"


def test_a_job_set_follows_changes_of_its_runtime_only_while_suspended(
    plane: ControlPlane, namespace: str, train_jobs: TrainJobController, runtime: Callable[[Manifest], Manifest]
) -> None:
    def nodes() -> list[int]:
        train_jobs.sync("tune")
        return [job["spec"]["parallelism"] for job in train_jobs.job_sets.jobs("tune")]

    stored = runtime(training_runtime("plain", namespace=namespace, nodes=2))
    job = created(plane, train_job("tune", namespace, "plain", kind="TrainingRuntime", suspend=True))
    assert nodes() == [2]
    assert read(plane, "jobset.x-k8s.io/v1alpha2", "JobSet", namespace, "tune")["spec"]["suspend"]
    patched(plane, job, {"spec": {"suspend": False}})
    nodes()
    assert len(train_jobs.pods("tune", 2)) == 2
    patched(plane, stored, {"spec": {"mlPolicy": {"numNodes": 5}}})
    assert nodes() == [2]


def test_the_mpi_launcher_counts_as_one_of_the_nodes(
    plane: ControlPlane, namespace: str, train_jobs: TrainJobController, runtime: Callable[[Manifest], Manifest]
) -> None:
    node = training_step("node", job_labels={}, container="node")
    launcher = training_step("launcher", depends_on={"node": "Ready"})
    mpi = {"mpi": {"runLauncherAsNode": True}}
    runtime(training_runtime("deepspeed", node, launcher, namespace=namespace, policy=mpi))
    created(plane, train_job("tune", namespace, "deepspeed", kind="TrainingRuntime", nodes=4))
    train_jobs.sync("tune")
    assert len(train_jobs.pods("tune", 3, "node")) == 3
    counts = {
        job["name"]: job["template"]["spec"]["parallelism"]
        for job in read(plane, "jobset.x-k8s.io/v1alpha2", "JobSet", namespace, "tune")["spec"]["replicatedJobs"]
    }
    assert counts == {"node": 3, "launcher": 1}

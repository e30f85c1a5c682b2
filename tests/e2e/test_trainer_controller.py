"""What Trainer's controller, with JobSet's, makes of TrainJobs: the facts that Rollcall relies on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers
from tests.e2e.neighbours.systems import runtime_files
from tests.e2e.opted_in_workloads import train_job, training_runtime, training_step
from tests.e2e.pod_life import let_succeed
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import created, found, listed, owner_chain, patched, read, until_pods

pytestmark = pytest.mark.soak
JOBSET_API = "jobset.x-k8s.io/v1alpha2"
Store = Callable[[Manifest], Manifest]


@pytest.fixture(autouse=True)
def running(plane: ControlPlane, controllers: Controllers) -> None:
    controllers(plane, "jobset", "trainer")


def pods_of(plane: ControlPlane, namespace: str, count: int, replicated: str | None = None) -> list[Manifest]:
    """The pods of the TrainJob `tune`, or of one of its steps, once there are so many."""
    selector = "jobset.sigs.k8s.io/jobset-name=tune"
    if replicated is not None:
        selector += f",jobset.sigs.k8s.io/replicatedjob-name={replicated}"
    return until_pods(plane, namespace, selector, count)


def job_set_of(plane: ControlPlane, namespace: str) -> Manifest:
    """The JobSet of the TrainJob, once it is there."""
    return eventually(lambda: found(plane, JOBSET_API, "JobSet", namespace, "tune"), "the JobSet is there")


def group(plane: ControlPlane, api_version: str, namespace: str) -> Manifest:
    """The PodGroup of the TrainJob: its spec, and the kinds of its owners."""
    made = eventually(lambda: found(plane, api_version, "PodGroup", namespace, "tune"), "the PodGroup is there")
    return {"owners": [one["kind"] for one in made["metadata"]["ownerReferences"]], **made["spec"]}


@pytest.mark.every_version
def test_a_pod_of_a_train_job_belongs_to_a_job_of_its_job_set(
    plane: ControlPlane, namespace: str, for_the_test: Store
) -> None:
    for_the_test(yaml.safe_load(runtime_files()["torch_distributed"].read_text()))
    created(plane, train_job("tune", namespace, "torch-distributed", nodes=3, labels={"team": "blue"}))
    pods = pods_of(plane, namespace, 3)
    assert [owner_chain(plane, pod) for pod in pods] == [["Job tune-node-0", "JobSet tune", "TrainJob tune"]] * 3
    labels = pods[0]["metadata"]["labels"]
    assert labels["jobset.sigs.k8s.io/jobset-name"] == "tune"
    # Its own labels go nowhere, and those of the steps stop at the Jobs.
    assert not [key for key in labels if key == "team" or key.startswith("trainer.kubeflow.org/")]
    (job,) = listed(plane, "batch/v1", "Job", namespace)
    assert job["metadata"]["labels"]["trainer.kubeflow.org/trainjob-ancestor-step"] == "trainer"
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (3, 3)
    assert "trainer" in {entry["manager"] for entry in job_set_of(plane, namespace)["metadata"]["managedFields"]}


def test_the_patches_of_a_train_job_reach_its_pods(plane: ControlPlane, namespace: str, for_the_test: Store) -> None:
    for_the_test(training_runtime(f"{namespace}-torch"))
    spec = {"nodeSelector": {"node-type": "training"}}
    node = {"name": "node", "template": {"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}}}
    template = {"metadata": {"labels": {"team": "blue"}}, "spec": {"replicatedJobs": [node]}}
    patch = {"manager": "example.com/tests", "trainingRuntimeSpec": {"template": template}}
    created(plane, train_job("tune", namespace, f"{namespace}-torch", nodes=2, runtimePatches=[patch]))
    pod = pods_of(plane, namespace, 2)[0]
    assert pod["spec"]["nodeSelector"] == {"node-type": "training"}
    assert pod["metadata"]["labels"]["a"] == "b"
    assert job_set_of(plane, namespace)["metadata"]["labels"] == {"team": "blue"}


COSCHEDULING = {"coscheduling": {"scheduleTimeoutSeconds": 120}}
VOLCANO = {"volcano": {"networkTopology": {"mode": "hard"}}}
PLUGINS: dict[str, tuple[Manifest, str, Manifest]] = {
    "coscheduling": (COSCHEDULING, "scheduling.x-k8s.io/v1alpha1", {"scheduleTimeoutSeconds": 120}),
    "volcano": (
        VOLCANO,
        "scheduling.volcano.sh/v1beta1",
        {"queue": "research", "networkTopology": {"mode": "hard", "highestTierAllowed": 1}},
    ),
}


@pytest.mark.parametrize(("policy", "api_version", "more"), PLUGINS.values(), ids=PLUGINS)
def test_a_plugin_creates_one_pod_group_for_all_steps_and_labels_the_pods(
    plane: ControlPlane, namespace: str, policy: Manifest, api_version: str, more: Manifest
) -> None:
    """Also of the step that only comes when another has ended."""
    data = training_step("data", "dataset-initializer", cpu="500m")
    node = training_step("node", depends_on={"data": "Complete"}, cpu="2", gpu=8)
    queue = {"scheduling.volcano.sh/queue-name": "research"}
    runtime = training_runtime("cached", data, node, namespace=namespace, pod_groups=policy, annotations=queue)
    created(plane, runtime)
    created(plane, train_job("tune", namespace, "cached", kind="TrainingRuntime", nodes=2))
    # The GPUs are a limit and no request: Trainer reads the template, in which nothing has become the other yet.
    common = {"owners": ["TrainJob"], "minMember": 3, "minResources": {"cpu": "4500m"}}
    assert group(plane, api_version, namespace) == {**common, **more}
    (first,) = pods_of(plane, namespace, 1)
    let_succeed(plane, [first])
    for pod in pods_of(plane, namespace, 2, "node"):
        marks = {**pod["metadata"]["labels"], **pod["metadata"]["annotations"]}
        key = "scheduling.x-k8s.io/pod-group" if policy is COSCHEDULING else "scheduling.k8s.io/group-name"
        assert marks[key] == "tune"
        assert pod["spec"]["schedulerName"] == "default-scheduler"


def test_a_job_set_follows_changes_of_its_runtime_only_while_suspended(plane: ControlPlane, namespace: str) -> None:
    stored = created(plane, training_runtime("plain", namespace=namespace, nodes=2))
    job = created(plane, train_job("tune", namespace, "plain", kind="TrainingRuntime", suspend=True))
    assert job_set_of(plane, namespace)["spec"]["suspend"]
    patched(plane, job, {"spec": {"suspend": False}})
    assert len(pods_of(plane, namespace, 2)) == 2
    patched(plane, stored, {"spec": {"mlPolicy": {"numNodes": 5}}})
    assert len(pods_of(plane, namespace, 2)) == 2


def test_the_mpi_launcher_counts_as_one_of_the_nodes(plane: ControlPlane, namespace: str) -> None:
    node = training_step("node", job_labels={}, container="node")
    launcher = training_step("launcher", depends_on={"node": "Ready"})
    mpi = {"mpi": {"runLauncherAsNode": True}}
    created(plane, training_runtime("deepspeed", node, launcher, namespace=namespace, policy=mpi))
    created(plane, train_job("tune", namespace, "deepspeed", kind="TrainingRuntime", nodes=4))
    assert len(pods_of(plane, namespace, 3, "node")) == 3
    counts = {
        job["name"]: job["template"]["spec"]["parallelism"]
        for job in read(plane, JOBSET_API, "JobSet", namespace, "tune")["spec"]["replicatedJobs"]
    }
    assert counts == {"node": 3, "launcher": 1}

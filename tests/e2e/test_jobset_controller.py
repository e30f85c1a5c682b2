"""What JobSet's controller makes of JobSets, and the Job controller of Jobs: the facts that Rollcall relies on."""

from __future__ import annotations

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers
from tests.e2e.opted_in_workloads import job, job_set, replicated_job
from tests.e2e.pod_life import let_fail, let_run, let_succeed
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import created, owner_chain, patched, read, until_pods

pytestmark = pytest.mark.soak
API = "jobset.x-k8s.io/v1alpha2"
PREFIX = "jobset.sigs.k8s.io"


@pytest.fixture(autouse=True)
def running(plane: ControlPlane, controllers: Controllers) -> None:
    controllers(plane, "jobset")


def pods_of(plane: ControlPlane, namespace: str, count: int, replicated: str | None = None) -> list[Manifest]:
    """The pods of the JobSet `run`, or of one of its replicatedJobs, once there are so many."""
    selector = f"{PREFIX}/jobset-name=run"
    if replicated is not None:
        selector += f",{PREFIX}/replicatedjob-name={replicated}"
    return until_pods(plane, namespace, selector, count)


def chains(plane: ControlPlane, pods: list[Manifest]) -> list[list[str]]:
    return [owner_chain(plane, pod) for pod in pods]


def labels_of(pods: list[Manifest], *keys: str) -> list[tuple[str, ...]]:
    """The values of some labels of the pods, in order."""
    return sorted(tuple(pod["metadata"]["labels"][f"{PREFIX}/{key}"] for key in keys) for pod in pods)


def stays_without(plane: ControlPlane, namespace: str, replicated: str, after: str) -> None:
    """The JobSet has seen that its Jobs are what `after` says, and there are no pods of this replicatedJob."""

    def told() -> bool:
        status = read(plane, API, "JobSet", namespace, "run").get("status", {})
        found = {one["name"]: one for one in status.get("replicatedJobsStatus", ())}
        assert found.get(after, {}).get("active") == 1, str(status)
        return True

    eventually(told, f"the JobSet reports {after}")
    assert pods_of(plane, namespace, 0, replicated) == []


def test_a_pod_of_a_job_belongs_to_the_job(plane: ControlPlane, namespace: str) -> None:
    created(plane, job("solver", namespace, 2))
    pods = until_pods(plane, namespace, "batch.kubernetes.io/job-name=solver", 2)
    assert chains(plane, pods) == [["Job solver"]] * 2
    assert [pod["metadata"]["generateName"] for pod in pods] == ["solver-0-", "solver-1-"]


def test_a_pod_of_a_job_set_belongs_to_one_of_its_jobs(plane: ControlPlane, namespace: str) -> None:
    driver, worker = replicated_job("driver"), replicated_job("worker", 2, replicas=2)
    stored = created(plane, job_set("run", namespace, driver, worker))
    pods = pods_of(plane, namespace, 5)
    assert chains(plane, pods) == [
        ["Job run-driver-0", "JobSet run"],
        *[["Job run-worker-0", "JobSet run"]] * 2,
        *[["Job run-worker-1", "JobSet run"]] * 2,
    ]
    assert labels_of(pods, "replicatedjob-name", "job-index", "job-global-index", "global-replicas") == [
        ("driver", "0", "0", "3"),
        *[("worker", "0", "1", "3")] * 2,
        *[("worker", "1", "2", "3")] * 2,
    ]
    last = pods[-1]["metadata"]
    keys = {key: value for key, value in last["labels"].items() if key.startswith(PREFIX)}
    # A label alone.
    assert keys.pop(f"{PREFIX}/priority") == "0"
    assert keys.pop(f"{PREFIX}/job-key") and keys == {
        f"{PREFIX}/{key}": value
        for key, value in {
            "jobset-name": "run",
            "jobset-uid": stored["metadata"]["uid"],
            "replicatedjob-name": "worker",
            "replicatedjob-replicas": "2",
            "job-index": "1",
            "job-global-index": "2",
            "global-replicas": "3",
            "group-name": "default",
            "group-replicas": "3",
            "job-group-index": "2",
            "restart-attempt": "0",
        }.items()
    }
    assert keys.items() <= last["annotations"].items(), "each key is a label and an annotation"


def test_a_job_set_in_order_creates_the_next_jobs_once_the_previous_are_ready(
    plane: ControlPlane, namespace: str
) -> None:
    driver, worker = replicated_job("driver"), replicated_job("worker", 2)
    created(plane, job_set("run", namespace, driver, worker, in_order=True))
    first = pods_of(plane, namespace, 1)
    stays_without(plane, namespace, "worker", "driver")
    let_run(plane, first)
    assert chains(plane, pods_of(plane, namespace, 2, "worker")) == [["Job run-worker-0", "JobSet run"]] * 2


def test_a_step_that_depends_on_another_s_completion_waits_for_it(plane: ControlPlane, namespace: str) -> None:
    data = replicated_job("data")
    node = replicated_job("node", 2, depends_on={"data": "Complete"})
    created(plane, job_set("run", namespace, data, node))
    first = pods_of(plane, namespace, 1)
    let_run(plane, first)
    stays_without(plane, namespace, "node", "data")
    let_succeed(plane, first)
    assert len(pods_of(plane, namespace, 2, "node")) == 2


def test_a_suspended_job_set_has_jobs_but_no_pods(plane: ControlPlane, namespace: str) -> None:
    stored = created(plane, job_set("run", namespace, replicated_job("worker", 2), suspend=True))

    def suspended() -> bool:
        assert read(plane, "batch/v1", "Job", namespace, "run-worker-0")["spec"]["suspend"]
        return True

    eventually(suspended, "the Job is there, suspended")
    assert pods_of(plane, namespace, 0) == []
    patched(plane, stored, {"spec": {"suspend": False}})
    assert len(pods_of(plane, namespace, 2)) == 2


def test_a_restarted_job_set_has_jobs_with_the_same_names(plane: ControlPlane, namespace: str) -> None:
    """One failed Job ends the pods of all: they are recreated together."""
    driver, worker = replicated_job("driver"), replicated_job("worker", 2)
    created(plane, job_set("run", namespace, driver, worker, failurePolicy={"maxRestarts": 1}))
    before = pods_of(plane, namespace, 3)
    let_fail(plane, pods_of(plane, namespace, 1, "driver"))

    def again() -> list[Manifest]:
        pods = pods_of(plane, namespace, 3)
        assert labels_of(pods, "restart-attempt") == [("1",)] * 3
        return pods

    pods = eventually(again, "the second attempt has its pods")
    assert chains(plane, pods) == [
        ["Job run-driver-0", "JobSet run"],
        *[["Job run-worker-0", "JobSet run"]] * 2,
    ]
    assert not {pod["metadata"]["uid"] for pod in before} & {pod["metadata"]["uid"] for pod in pods}


def test_a_job_set_whose_success_policy_names_one_job_ends_with_it(plane: ControlPlane, namespace: str) -> None:
    policy = {"operator": "All", "targetReplicatedJobs": ["driver"]}
    created(plane, job_set("run", namespace, replicated_job("driver"), replicated_job("worker"), successPolicy=policy))
    pods_of(plane, namespace, 2)
    let_succeed(plane, pods_of(plane, namespace, 1, "driver"))

    def finished() -> bool:
        status = read(plane, API, "JobSet", namespace, "run").get("status", {})
        assert status.get("terminalState") == "Completed", str(status)
        return True

    eventually(finished, "the JobSet is complete")
    # It deletes what still runs.
    assert pods_of(plane, namespace, 0, "worker") == []

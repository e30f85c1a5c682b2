"""The fixtures that play the controllers of JobSet and LeaderWorkerSet, compared with their known behaviour."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Nodes
from tests.e2e.jobset_controller import JobSetController, defaulted
from tests.e2e.lws_controller import LeaderWorkerSetController
from tests.e2e.lws_webhook import LwsWebhook
from tests.e2e.opted_in_workloads import job, job_set, leader_worker_set, replicated_job
from tests.e2e.pod_life import let_run, let_succeed
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import created, owner_chain, patched, read, until_pods

pytestmark = pytest.mark.soak
JOBSET = "jobset.sigs.k8s.io"
LWS = "leaderworkerset.sigs.k8s.io"


@pytest.fixture
def job_sets(plane: ControlPlane, namespace: str, workload_kinds: Callable[..., None]) -> JobSetController:
    workload_kinds(plane, "jobset")
    return JobSetController(plane, namespace)


@pytest.fixture
def leader_worker_sets(
    plane: ControlPlane, namespace: str, workload_kinds: Callable[..., None], lws_webhook: LwsWebhook
) -> LeaderWorkerSetController:
    workload_kinds(plane, "lws")
    return LeaderWorkerSetController(plane, namespace)


def chains(plane: ControlPlane, pods: list[Manifest]) -> list[list[str]]:
    return [owner_chain(plane, pod) for pod in pods]


def numbered(pods: list[Manifest], prefix: str, *keys: str) -> list[tuple[str, ...]]:
    """The values of some labels of the pods, in order."""
    return sorted(tuple(pod["metadata"]["labels"][f"{prefix}/{key}"] for key in keys) for pod in pods)


def test_a_pod_of_a_job_belongs_to_the_job(plane: ControlPlane, namespace: str) -> None:
    created(plane, job("solver", namespace, 2))
    pods = until_pods(plane, namespace, "batch.kubernetes.io/job-name=solver", 2)
    assert chains(plane, pods) == [["Job solver"]] * 2
    assert [pod["metadata"]["generateName"] for pod in pods] == ["solver-0-", "solver-1-"]


def test_a_pod_of_a_job_set_belongs_to_one_of_its_jobs(
    plane: ControlPlane, namespace: str, job_sets: JobSetController
) -> None:
    driver, worker = replicated_job("driver"), replicated_job("worker", 2, replicas=2)
    stored = created(plane, defaulted(job_set("run", namespace, driver, worker)))
    job_sets.sync("run")
    pods = job_sets.pods("run", 5)
    assert chains(plane, pods) == [
        ["Job run-driver-0", "JobSet run"],
        *[["Job run-worker-0", "JobSet run"]] * 2,
        *[["Job run-worker-1", "JobSet run"]] * 2,
    ]
    assert numbered(pods, JOBSET, "replicatedjob-name", "job-index", "job-global-index", "global-replicas") == [
        ("driver", "0", "0", "3"),
        *[("worker", "0", "1", "3")] * 2,
        *[("worker", "1", "2", "3")] * 2,
    ]
    last = pods[-1]["metadata"]
    keys = {key: value for key, value in last["labels"].items() if key.startswith(JOBSET)}
    assert keys.items() <= last["annotations"].items(), "each key is a label and an annotation"
    assert keys.pop(f"{JOBSET}/job-key") and keys == {
        f"{JOBSET}/{key}": value
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


def test_a_job_set_in_order_creates_the_next_jobs_once_the_previous_are_ready(
    plane: ControlPlane, namespace: str, job_sets: JobSetController
) -> None:
    driver, worker = replicated_job("driver"), replicated_job("worker", 2)
    created(plane, defaulted(job_set("run", namespace, driver, worker, in_order=True)))
    job_sets.sync("run")
    first = job_sets.pods("run", 1)
    assert job_sets.sync("run") == []
    let_run(plane, first)
    job_sets.sync_until("run", "worker")
    assert chains(plane, job_sets.pods("run", 2, "worker")) == [["Job run-worker-0", "JobSet run"]] * 2


def test_a_step_that_depends_on_another_s_completion_waits_for_it(
    plane: ControlPlane, namespace: str, job_sets: JobSetController
) -> None:
    data = replicated_job("data")
    node = replicated_job("node", 2, depends_on={"data": "Complete"})
    created(plane, defaulted(job_set("run", namespace, data, node)))
    job_sets.sync("run")
    first = job_sets.pods("run", 1)
    let_run(plane, first)
    told = read(plane, "batch/v1", "Job", namespace, "run-data-0")
    eventually(
        lambda: read(plane, "batch/v1", "Job", namespace, "run-data-0")["status"].get("ready") == 1,
        f"the Job is ready; first seen {told.get('status')}",
    )
    assert job_sets.sync("run") == []
    let_succeed(plane, first)
    job_sets.sync_until("run", "node")
    assert len(job_sets.pods("run", 2, "node")) == 2


def test_a_suspended_job_set_has_jobs_but_no_pods(
    plane: ControlPlane, namespace: str, job_sets: JobSetController
) -> None:
    stored = created(plane, defaulted(job_set("run", namespace, replicated_job("worker", 2), suspend=True)))
    assert [made["spec"]["suspend"] for made in job_sets.sync("run")] == [True]
    patched(plane, stored, {"spec": {"suspend": False}})
    job_sets.sync("run")
    assert len(job_sets.pods("run", 2)) == 2


def test_a_restarted_job_set_has_jobs_with_the_same_names(
    plane: ControlPlane, namespace: str, job_sets: JobSetController
) -> None:
    created(plane, defaulted(job_set("run", namespace, replicated_job("worker", 2))))
    job_sets.sync("run")
    before = {pod["metadata"]["uid"] for pod in job_sets.pods("run", 2)}
    assert [made["metadata"]["name"] for made in job_sets.restart("run")] == ["run-worker-0"]
    pods = job_sets.pods("run", 2)
    assert not before & {pod["metadata"]["uid"] for pod in pods}
    assert numbered(pods, JOBSET, "restart-attempt") == [("1",)] * 2


@pytest.mark.every_version
def test_the_workers_of_a_leader_worker_set_belong_to_their_leader(
    plane: ControlPlane, namespace: str, leader_worker_sets: LeaderWorkerSetController
) -> None:
    created(plane, leader_worker_set("serve", namespace, groups=2, size=3))
    pods = leader_worker_sets.start("serve")
    above = ["StatefulSet serve", "LeaderWorkerSet serve"]
    assert {pod["metadata"]["name"]: owner_chain(plane, pod) for pod in pods} == {
        "serve-0": above,
        "serve-0-1": ["StatefulSet serve-0", "Pod serve-0", *above],
        "serve-0-2": ["StatefulSet serve-0", "Pod serve-0", *above],
        "serve-1": above,
        "serve-1-1": ["StatefulSet serve-1", "Pod serve-1", *above],
        "serve-1-2": ["StatefulSet serve-1", "Pod serve-1", *above],
    }
    assert numbered(pods, LWS, "name", "group-index", "worker-index") == [
        ("serve", group, worker) for group in "01" for worker in "012"
    ]
    keys = {pod["metadata"]["labels"][f"{LWS}/group-key"] for pod in pods}
    assert len(keys) == 2
    assert {pod["metadata"]["annotations"][f"{LWS}/size"] for pod in pods} == {"3"}
    leaders = [pod["metadata"]["annotations"].get(f"{LWS}/leader-name") for pod in pods]
    assert leaders == [None, "serve-0", "serve-0", None, "serve-1", "serve-1"]


def test_workers_wait_for_a_leader_that_must_be_ready(
    plane: ControlPlane, namespace: str, leader_worker_sets: LeaderWorkerSetController
) -> None:
    created(plane, leader_worker_set("serve", namespace, size=3, leader_ready=True))
    leaders = leader_worker_sets.start("serve")
    assert [pod["metadata"]["name"] for pod in leaders] == ["serve-0"]
    let_run(plane, leaders)
    leader_worker_sets.sync("serve")
    assert len(leader_worker_sets.pods("serve", 3)) == 3


def test_the_workers_of_an_exclusive_group_are_placed_with_their_leader(
    plane: ControlPlane,
    namespace: str,
    nodes: Nodes,
    leader_worker_sets: LeaderWorkerSetController,
) -> None:
    exclusive = {f"{LWS}/exclusive-topology": "example.com/rack"}
    created(plane, leader_worker_set("serve", namespace, size=2, annotations=exclusive))
    leaders = leader_worker_sets.start("serve")
    assert [pod["metadata"]["name"] for pod in leaders] == ["serve-0"]
    (node,) = nodes(1, labels={"example.com/rack": "r1"})
    target = {"target": {"kind": "Node", "name": node}, "metadata": {"name": "serve-0"}}
    plane.http.post(f"/api/v1/namespaces/{namespace}/pods/serve-0/binding", json=target).raise_for_status()
    leader_worker_sets.sync("serve")
    worker = leader_worker_sets.pods("serve", 2)[1]
    assert worker["spec"]["nodeSelector"] == {"example.com/rack": "r1"}
    assert worker["metadata"]["annotations"][f"{LWS}/exclusive-topology"] == "example.com/rack"


def test_where_volcano_manages_the_gangs_each_group_has_a_pod_group_of_its_revision(
    plane: ControlPlane, namespace: str, workload_kinds: Callable[..., None], tmp_path: Path
) -> None:
    """And subgroups, which need no option."""
    workload_kinds(plane, "lws")
    made = leader_worker_set("serve", namespace, size=4)
    made["spec"]["leaderWorkerTemplate"]["subGroupPolicy"] = {"subGroupSize": 2}
    created(plane, made)
    with LwsWebhook(plane, tmp_path, volcano=True):
        pods = LeaderWorkerSetController(plane, namespace, volcano=True).start("serve")
    ((group, revision),) = set(numbered(pods, LWS, "group-index", "template-revision-hash"))
    name = f"serve-{group}-{revision}"
    assert {pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for pod in pods} == {name}
    pod_group = read(plane, "scheduling.volcano.sh/v1beta1", "PodGroup", namespace, name)
    assert pod_group["spec"]["minMember"] == 4
    assert [one["kind"] for one in pod_group["metadata"]["ownerReferences"]] == ["Pod"]
    assert numbered(pods, LWS, "worker-index", "subgroup-index") == [("0", "0"), ("1", "0"), ("2", "1"), ("3", "1")]


def test_a_recreated_group_has_new_pods_with_the_same_names(
    plane: ControlPlane, namespace: str, leader_worker_sets: LeaderWorkerSetController
) -> None:
    created(plane, leader_worker_set("serve", namespace, groups=2, size=2))
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in leader_worker_sets.start("serve")}
    leader_worker_sets.recreate_group("serve", 1)
    leader_worker_sets.sync("serve")
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in leader_worker_sets.pods("serve", 4)}
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == {"serve-1", "serve-1-1"}

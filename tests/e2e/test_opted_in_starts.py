"""JobSets, LeaderWorkerSets and TrainJobs with their own controllers on real schedulers: a gang starts whole or not at
all.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.configurations import configuration_of
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Nodes, Reconcilers, Rollcall
from tests.e2e.opted_in_cluster import EVERY, KOORDINATOR, PLUGINS, Chosen, OptedIn, Start, opted_in
from tests.e2e.opted_in_workloads import (
    job_set,
    leader_worker_set,
    replicated_job,
    train_job,
    training_runtime,
    training_step,
)
from tests.e2e.pod_life import let_fail, let_restart, let_succeed
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import created, found, patched, read, until_pods

GROUP = "leaderworkerset.sigs.k8s.io/group-index"
VOLCANO = "scheduling.volcano.sh/v1beta1"
JOBSET_API = "jobset.x-k8s.io/v1alpha2"
SYSTEMS = ("jobset", "lws", "trainer")


def of_job_set(cluster: OptedIn, name: str, count: int, replicated: str | None = None) -> list[Manifest]:
    """The pods of a JobSet once there are so many."""
    selector = f"jobset.sigs.k8s.io/jobset-name={name}"
    if replicated is not None:
        selector += f",jobset.sigs.k8s.io/replicatedjob-name={replicated}"
    return until_pods(cluster.plane, cluster.namespace, selector, count)


def start_train_job(cluster: OptedIn, nodes: Nodes) -> None:
    """A TrainJob of three pods starts whole or not at all."""
    # Room for two of them.
    nodes(1, cpu=2)
    # A pod that is replaced counts as a failure.
    step = training_step("node", backoff_limit=100)
    created(cluster.plane, training_runtime("torch", step, namespace=cluster.namespace))
    created(cluster.plane, train_job("tune", cluster.namespace, "torch", kind="TrainingRuntime", nodes=3))
    waits_and_starts(cluster, "tune", nodes)


def waits_and_starts(cluster: OptedIn, job_set: str, nodes: Nodes) -> None:
    """The three pods of a JobSet wait together, and start with a second node."""
    of_job_set(cluster, job_set, 3)
    cluster.ungated()
    cluster.all_wait()
    nodes(1, cpu=2)
    cluster.all_bound(3)


@pytest.mark.soak
@pytest.mark.cases(EVERY)
def test_a_train_job_starts_whole_or_not_at_all_on_every_scheduler(
    plane: ControlPlane, start: Start, nodes: Nodes, case: Chosen
) -> None:
    start_train_job(start(case, *SYSTEMS), nodes)


def test_a_train_job_starts_whole_or_not_at_all(plane: ControlPlane, start: Start, nodes: Nodes) -> None:
    start_train_job(start(KOORDINATOR, *SYSTEMS), nodes)


@pytest.mark.soak
@pytest.mark.cases(EVERY)
def test_a_job_set_starts_whole_or_not_at_all(plane: ControlPlane, start: Start, nodes: Nodes, case: Chosen) -> None:
    cluster = start(case, *SYSTEMS)
    # Room for two of the three pods.
    nodes(1, cpu=2)
    driver, workers = replicated_job("driver", backoff_limit=100), replicated_job("worker", 2, backoff_limit=100)
    created(plane, job_set("run", cluster.namespace, driver, workers))
    waits_and_starts(cluster, "run", nodes)


@pytest.mark.soak
@pytest.mark.cases(EVERY)
def test_each_group_of_a_leader_worker_set_starts_whole_or_not_at_all(
    plane: ControlPlane, start: Start, nodes: Nodes, case: Chosen
) -> None:
    cluster = start(case, *SYSTEMS)
    # Room for one group of two and half of the other.
    nodes(1, cpu=3)
    created(plane, leader_worker_set("serve", cluster.namespace, groups=2, size=2))
    until_pods(plane, cluster.namespace, "leaderworkerset.sigs.k8s.io/name=serve", 4)
    cluster.ungated()
    eventually(lambda: 2 in cluster.bound(GROUP).values(), "one group starts", timeout=60)
    cluster.stays(lambda: sorted(cluster.bound(GROUP).values()) == [0, 2], "the other group waits whole")
    nodes(1, cpu=2)
    cluster.all_bound(4)


@pytest.mark.soak
def test_a_train_job_of_the_coscheduling_plugin_gets_its_scheduler_and_starts(
    plane: ControlPlane, start: Start, nodes: Nodes
) -> None:
    """Trainer makes the PodGroup and marks the pods, and leaves them to default-scheduler, which knows of no group."""
    cluster = start(PLUGINS, *SYSTEMS)
    nodes(1, cpu=2)
    runtime = training_runtime("torch", namespace=cluster.namespace, pod_groups={"coscheduling": {}})
    created(plane, runtime)
    created(plane, train_job("tune", cluster.namespace, "torch", kind="TrainingRuntime", nodes=3))
    pods = of_job_set(cluster, "tune", 3)
    assert [pod["spec"]["schedulerName"] for pod in pods] == ["scheduler-plugins-scheduler"] * 3
    group = read(plane, "scheduling.x-k8s.io/v1alpha1", "PodGroup", cluster.namespace, "tune")
    assert [one["kind"] for one in group["metadata"]["ownerReferences"]] == ["TrainJob"]
    cluster.all_wait()
    nodes(1, cpu=2)
    cluster.all_bound(3)


@pytest.mark.soak
def test_volcano_gets_the_pod_group_and_the_pods_of_a_train_job(
    plane: ControlPlane,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    controllers: Controllers,
    namespace: str,
    for_the_test: Callable[[Manifest], Manifest],
) -> None:
    """As its CRD takes them; Volcano itself is no Go module that runs here."""
    controllers(plane, "jobset", "trainer")
    queue = {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": "default"}, "spec": {}}
    patched(plane, for_the_test(queue), {"status": {"state": "Open"}}, "/status")
    config = configuration_of("volcano")
    rollcall(plane, config)
    reconciler(config).until_leading()
    cluster = opted_in(plane, namespace, "volcano")
    created(plane, training_runtime("torch", namespace=namespace))
    created(plane, train_job("tune", namespace, "torch", kind="TrainingRuntime", nodes=3))
    for pod in of_job_set(cluster, "tune", 3):
        assert pod["spec"]["schedulerName"] == "volcano"
        keys = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
        assert [pod["metadata"]["annotations"][key] for key in keys] == ["tune", "tune"]
    made = eventually(lambda: found(plane, VOLCANO, "PodGroup", namespace, "tune"), "the PodGroup is there")
    assert made["spec"] == {
        "minMember": 3,
        "queue": "default",
        "subGroupPolicy": [
            {
                "name": "tune-node",
                "labelSelector": {"matchLabels": {"rollcall.dev/gang-member": "tune-node"}},
                "matchLabelKeys": ["rollcall.dev/gang-member"],
                "minSubGroups": 1,
                "subGroupSize": 3,
            }
        ],
    }


def in_order_and_restarted(cluster: OptedIn, nodes: Nodes) -> None:
    """A JobSet whose driver must be ready before its workers, restarted as a whole, and complete with its driver."""
    plane, namespace = cluster.plane, cluster.namespace
    # Room for the driver and one of the workers.
    nodes(1, cpu=2)
    driver, workers = replicated_job("driver"), replicated_job("worker", 2, backoff_limit=100)
    policies: Manifest = {
        "successPolicy": {"operator": "All", "targetReplicatedJobs": ["driver"]},
        "failurePolicy": {"maxRestarts": 1},
    }
    created(plane, job_set("run", namespace, driver, workers, in_order=True, **policies))
    of_job_set(cluster, "run", 3)
    cluster.ungated()
    cluster.stays(lambda: sum(cluster.bound().values()) == 1, "the workers wait whole")
    nodes(1, cpu=1)
    cluster.all_bound(3)
    first = {pod["metadata"]["uid"] for pod in cluster.pods}
    let_fail(plane, of_job_set(cluster, "run", 1, "driver"))

    def restarted() -> bool:
        assert not first & {pod["metadata"]["uid"] for pod in cluster.pods}
        return True

    eventually(restarted, "no pod of the first attempt is left")
    of_job_set(cluster, "run", 3)
    cluster.all_bound(3)
    let_succeed(plane, of_job_set(cluster, "run", 1, "driver"))

    def complete() -> bool:
        status = read(plane, JOBSET_API, "JobSet", namespace, "run")["status"]
        assert status.get("terminalState") == "Completed", str(status)
        return True

    eventually(complete, "the JobSet is complete")


@pytest.mark.soak
@pytest.mark.cases(EVERY)
@pytest.mark.usefixtures("kubelet")
def test_a_job_set_in_order_is_restarted_whole_on_every_scheduler(
    plane: ControlPlane, start: Start, nodes: Nodes, case: Chosen
) -> None:
    in_order_and_restarted(start(case, *SYSTEMS), nodes)


@pytest.mark.usefixtures("kubelet")
@pytest.mark.soak
def test_a_job_set_in_order_is_restarted_whole(plane: ControlPlane, start: Start, nodes: Nodes) -> None:
    in_order_and_restarted(start(KOORDINATOR, *SYSTEMS), nodes)


def recreated(cluster: OptedIn, nodes: Nodes) -> None:
    """A group with a container that starts again is recreated whole, and no other group."""
    nodes(1, cpu=4)
    created(cluster.plane, leader_worker_set("serve", cluster.namespace, groups=2, size=2))
    selector = "leaderworkerset.sigs.k8s.io/name=serve"
    until_pods(cluster.plane, cluster.namespace, selector, 4)
    cluster.all_bound(4)
    before = {pod["metadata"]["name"]: pod for pod in cluster.pods}
    let_restart(cluster.plane, [before["serve-1-1"]])

    def again() -> bool:
        found = {pod["metadata"]["name"]: pod for pod in cluster.pods}
        new = {name for name, pod in found.items() if pod["metadata"]["uid"] != before[name]["metadata"]["uid"]}
        assert new == {"serve-1", "serve-1-1"}, f"{new} of {sorted(found)}"
        return True

    eventually(again, "the group is recreated")
    cluster.all_bound(4)


@pytest.mark.soak
@pytest.mark.cases(EVERY)
@pytest.mark.usefixtures("kubelet")
def test_a_group_of_a_leader_worker_set_is_recreated_whole_on_every_scheduler(
    plane: ControlPlane, start: Start, nodes: Nodes, case: Chosen
) -> None:
    recreated(start(case, *SYSTEMS), nodes)


@pytest.mark.usefixtures("kubelet")
def test_a_group_of_a_leader_worker_set_is_recreated_whole(plane: ControlPlane, start: Start, nodes: Nodes) -> None:
    recreated(start(KOORDINATOR, *SYSTEMS), nodes)

"""JobSet, LeaderWorkerSet, Trainer, KubeRay and Kueue beside a control plane: that they work, with nothing of ours."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Nodes, Scheduler
from tests.e2e.kubelet import Kubelet
from tests.e2e.kueue_objects import QUEUE_NAME, hold, one_queue, resume, until_workloads
from tests.e2e.neighbours.running import Neighbours
from tests.e2e.opted_in_workloads import (
    job,
    job_set,
    leader_worker_set,
    pod_template,
    ray_cluster,
    replicated_job,
    train_job,
    training_runtime,
)
from tests.e2e.workload_objects import created, deleted, listed, owner_chain, until_pods

pytestmark = pytest.mark.soak


@pytest.mark.every_version
def test_a_job_set_starts_once_kueue_admits_it(
    plane: ControlPlane,
    controllers: Controllers,
    scheduler: Scheduler,
    nodes: Nodes,
    namespace: str,
    kubelet: Kubelet,
) -> None:
    controllers(plane, "jobset", "kueue")
    scheduler(plane, "kube")
    nodes(1)
    queued = {QUEUE_NAME: "queue"}
    with one_queue(plane, namespace, {"cpu": 8}) as queue:
        hold(plane, queue)
        created(plane, job_set("run", namespace, replicated_job("driver"), replicated_job("worker", 2), labels=queued))
        created(plane, job("solver", namespace, 2, labels=queued))
        until_workloads(plane, namespace, 2, QuotaReserved="False")
        assert until_pods(plane, namespace, "", 0) == []
        resume(plane, queue)
        until_workloads(plane, namespace, 2, Admitted="True", PodsReady="True")
        pods = until_pods(plane, namespace, "jobset.sigs.k8s.io/jobset-name=run", 3)
        assert owner_chain(plane, pods[0]) == ["Job run-driver-0", "JobSet run"]


def test_the_pods_of_a_kueue_group_that_are_deleted_stay_until_they_have_ended(
    plane: ControlPlane,
    controllers: Controllers,
    neighbours: Callable[[ControlPlane], Neighbours],
    scheduler: Scheduler,
    nodes: Nodes,
    namespace: str,
    kubelet: Kubelet,
) -> None:
    """And then until their Workload is gone; the fixture `namespace` does not wait for that."""
    controllers(plane, "kueue")
    scheduler(plane, "kube")
    nodes(1)
    labels = {QUEUE_NAME: "queue", "kueue.x-k8s.io/pod-group-name": "group"}
    metadata = {
        "namespace": namespace,
        "labels": labels,
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
    }
    with one_queue(plane, namespace, {"cpu": 8}):
        for name in ("a", "b"):
            pod = {"apiVersion": "v1", "kind": "Pod", **pod_template(), "metadata": {"name": name, **metadata}}
            created(plane, pod)
        until_workloads(plane, namespace, 1, Admitted="True", PodsReady="True")
        for pod in until_pods(plane, namespace, "", 2):
            deleted(plane, pod, "Background")
        until_workloads(plane, namespace, 1, WaitingForReplacementPods="True")
        left = listed(plane, "v1", "Pod", namespace)
        assert [pod["status"]["phase"] for pod in left] == ["Failed", "Failed"]
        assert [pod["metadata"]["finalizers"] for pod in left] == [["kueue.x-k8s.io/managed"]] * 2
        neighbours(plane).release(namespace)
        until_pods(plane, namespace, "", 0)


def test_all_of_them_run_together(
    plane: ControlPlane,
    controllers: Controllers,
    scheduler: Scheduler,
    nodes: Nodes,
    namespace: str,
    for_the_test: Callable[[Manifest], Manifest],
) -> None:
    controllers(plane, "jobset", "lws", "trainer", "kuberay", "kueue")
    scheduler(plane, "kube")
    nodes(2, cpu=32)
    for_the_test(training_runtime(f"{namespace}-torch"))
    created(plane, leader_worker_set("serve", namespace, size=3))
    created(plane, ray_cluster("ray", namespace, 2))
    created(plane, train_job("tune", namespace, f"{namespace}-torch", nodes=3))
    assert len(until_pods(plane, namespace, "jobset.sigs.k8s.io/jobset-name=tune", 3)) == 3
    assert len(until_pods(plane, namespace, "leaderworkerset.sigs.k8s.io/name=serve", 3)) == 3
    assert len(until_pods(plane, namespace, "ray.io/cluster=ray", 3)) == 3

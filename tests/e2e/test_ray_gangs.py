"""RayClusters and RayJobs with KubeRay's operator on real schedulers: head and workers start together or not at all."""

from __future__ import annotations

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Nodes
from tests.e2e.opted_in_cluster import EVERY, KOORDINATOR, Chosen, OptedIn, Start
from tests.e2e.opted_in_workloads import pod_template, ray_cluster
from tests.e2e.pod_life import let_run
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import created, listed, owner_chain, patched, read, until_pods

RAY = "ray.io/v1"


def of_ray(cluster: OptedIn, count: int) -> list[Manifest]:
    """The pods of all RayClusters once there are so many."""
    return until_pods(cluster.plane, cluster.namespace, "ray.io/cluster", count)


def starts_whole(cluster: OptedIn, nodes: Nodes) -> None:
    """Head and two workers wait together on a node with room for two, and start with a second node."""
    nodes(1, cpu=2)
    created(cluster.plane, ray_cluster("ray", cluster.namespace, 2))
    of_ray(cluster, 3)
    cluster.ungated()
    cluster.all_wait()
    nodes(1, cpu=2)
    cluster.all_bound(3)


def test_a_ray_cluster_lives_as_a_gang(plane: ControlPlane, start: Start, nodes: Nodes) -> None:
    """It starts whole, its minimum follows the number of workers, and a lost worker is replaced. The list of worker
    groups is replaced as by `kubectl apply`: by that of the user, without what Rollcall wrote into it.
    """
    cluster = start(KOORDINATOR, "kuberay")
    starts_whole(cluster, nodes)
    assert cluster.minimums == {"ray-headgroup": 1, "ray-workers": 2}
    pods = of_ray(cluster, 3)
    let_run(plane, pods)
    stored = read(plane, RAY, "RayCluster", cluster.namespace, "ray")

    def scaled(workers: int) -> None:
        groups = ray_cluster("ray", cluster.namespace, workers)["spec"]["workerGroupSpecs"]
        patched(plane, stored, {"spec": {"workerGroupSpecs": groups}})

    scaled(3)
    of_ray(cluster, 4)
    cluster.all_bound(4)
    eventually(lambda: cluster.minimums == {"ray-headgroup": 1, "ray-workers": 3}, "the minimum follows")
    lost = next(pod for pod in of_ray(cluster, 4) if pod["metadata"]["labels"]["ray.io/node-type"] == "worker")
    cluster.lose(lost["metadata"]["name"])

    def replaced() -> bool:
        names = {pod["metadata"]["name"] for pod in cluster.pods}
        return lost["metadata"]["name"] not in names and len(names) == len(pods) + 1

    eventually(replaced, "KubeRay replaces the worker", timeout=60)
    cluster.all_bound(4)
    scaled(2)
    eventually(lambda: cluster.minimums == {"ray-headgroup": 1, "ray-workers": 2}, "the minimum follows")
    # Nothing ends the containers of the worker that goes.
    eventually(lambda: len(cluster.pods) == 3, "a worker goes")
    cluster.all_bound(3)


@pytest.mark.soak
@pytest.mark.cases(EVERY)
def test_a_ray_cluster_starts_whole_or_not_at_all_on_every_scheduler(
    plane: ControlPlane, start: Start, nodes: Nodes, case: Chosen
) -> None:
    starts_whole(start(case, "kuberay"), nodes)


def test_a_ray_job_s_cluster_has_the_gang(plane: ControlPlane, start: Start, nodes: Nodes) -> None:
    cluster = start(KOORDINATOR, "kuberay")
    nodes(1, cpu=2)
    spec = {"entrypoint": "python train.py", "rayClusterSpec": ray_cluster("", "", 2)["spec"]}
    metadata = {"name": "train", "namespace": cluster.namespace}
    stored = created(plane, {"apiVersion": RAY, "kind": "RayJob", "metadata": metadata, "spec": spec})
    assert stored["metadata"]["labels"] == {"rollcall.dev/scheduler": "koord-scheduler"}
    pods = of_ray(cluster, 3)
    (made,) = listed(plane, RAY, "RayCluster", cluster.namespace)
    name = made["metadata"]["name"]
    assert owner_chain(plane, pods[0]) == [f"RayCluster {name}", "RayJob train"]
    cluster.ungated()
    cluster.all_wait()
    assert cluster.minimums == {f"{name}-headgroup": 1, f"{name}-workers": 2}
    nodes(1, cpu=2)
    cluster.all_bound(3)


def test_the_workers_of_an_autoscaler_join_one_by_one(plane: ControlPlane, start: Start, nodes: Nodes) -> None:
    """The autoscaler may lower the group to minReplicas, so the gang needs no more, and no worker needs a gang."""
    cluster = start(KOORDINATOR, "kuberay")
    # KubeRay adds a container for the autoscaler to the head, which then requests half a CPU more.
    nodes(1, cpu=3)
    group = {"groupName": "workers", "rayStartParams": {}, "template": pod_template(container="ray-worker")}
    counts = {"replicas": 2, "minReplicas": 0, "maxReplicas": 4}
    spec: Manifest = {"enableInTreeAutoscaling": True, "workerGroupSpecs": [{**group, **counts}]}
    created(plane, ray_cluster("ray", cluster.namespace, 2, **spec))
    of_ray(cluster, 3)
    cluster.ungated()
    eventually(lambda: sum(cluster.bound().values()) == 2, "what has room starts", timeout=60)
    assert cluster.minimums == {"ray-headgroup": 1}


@pytest.mark.soak
def test_the_clusters_of_a_ray_service_are_gangs_of_their_own(plane: ControlPlane, start: Start, nodes: Nodes) -> None:
    """Also during an upgrade, in which the new one starts beside the old one."""
    cluster = start(KOORDINATOR, "kuberay")
    nodes(1, cpu=2)
    metadata = {"name": "serve", "namespace": cluster.namespace}
    spec = {"serveConfigV2": "applications: []", "rayClusterConfig": ray_cluster("", "", 2)["spec"]}
    created(plane, {"apiVersion": RAY, "kind": "RayService", "metadata": metadata, "spec": spec})
    of_ray(cluster, 3)
    cluster.ungated()
    cluster.all_wait()
    (first,) = listed(plane, RAY, "RayCluster", cluster.namespace)
    name = first["metadata"]["name"]
    assert cluster.minimums == {f"{name}-headgroup": 1, f"{name}-workers": 2}
    nodes(1, cpu=2)
    cluster.all_bound(3)
    # As if Serve had answered: nothing runs here.
    stored = read(plane, RAY, "RayService", cluster.namespace, "serve")
    status = {"activeServiceStatus": {"rayClusterName": name}, "pendingServiceStatus": None}
    patched(plane, stored, {"status": status}, "/status")
    other = ray_cluster("", "", 2)["spec"]
    other["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.com/main:2.0"
    patched(plane, stored, {"spec": {"rayClusterConfig": other}})
    of_ray(cluster, 6)
    cluster.ungated()
    cluster.stays(lambda: sum(cluster.bound().values()) == 3, "the new cluster waits whole")
    (second,) = {one["metadata"]["name"] for one in listed(plane, RAY, "RayCluster", cluster.namespace)} - {name}
    assert cluster.minimums == {
        f"{name}-headgroup": 1,
        f"{name}-workers": 2,
        f"{second}-headgroup": 1,
        f"{second}-workers": 2,
    }
    nodes(1, cpu=2)
    cluster.all_bound(6)

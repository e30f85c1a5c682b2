"""Combinations of docs/reference/kueue.md that no other file has: a gang behind the real Kueue starts whole, or waits
where the page says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Controllers, Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.koordinator_gangs import NETWORK
from tests.e2e.kubelet import Kubelet
from tests.e2e.kueue_objects import (
    API,
    QUEUE_NAME,
    cluster_queue,
    hold,
    local_queue,
    one_queue,
    queues,
    resource_flavor,
    resume,
    topology,
    until_condition,
    until_workloads,
)
from tests.e2e.neighbours.running import Neighbour
from tests.e2e.opted_in_cluster import KOORDINATOR, KUBE, PLUGINS, Chosen, OptedIn, Start, opted_in
from tests.e2e.opted_in_workloads import (
    job,
    leader_worker_set,
    pod_template,
    ray_cluster,
    train_job,
    training_runtime,
)
from tests.e2e.programs import eventually
from tests.e2e.test_net import spread
from tests.e2e.test_net_outage import config
from tests.e2e.test_opted_in_topology import asking, spines
from tests.e2e.workload_objects import created, deleted, patched, path_of, read, until_pods

QUEUED = {QUEUE_NAME: "queue"}
# Two pods instead of four, and as many completions.
FEWER = {
    "kueue.x-k8s.io/job-min-parallelism": "2",
    "kueue.x-k8s.io/job-completions-equal-parallelism": "true",
}
PREBUILT, ORIGIN = "kueue.x-k8s.io/prebuilt-workload-name", "kueue.x-k8s.io/multikueue-origin"
REQUIRED, GROUP_NAME = "kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-group-name"
BLOCK, SPINE, HOST = "example.com/block", "example.com/spine", "kubernetes.io/hostname"
SCHEDULERS = {version: {"koordinator": KOORDINATOR, "kube": KUBE} for version in ("1.37", "1.36")}
IGNORED = config("Ignore")


@pytest.fixture
def start(start: Start, kubelet: Kubelet) -> Start:
    """The same with Kueue, and with kubelets for the namespace: `start(KOORDINATOR, "lws")`."""
    return lambda chosen, *systems: start(chosen, *systems, "kueue")


@contextmanager
def placed_queue(plane: ControlPlane, namespace: str, *levels: str) -> Iterator[None]:
    """A LocalQueue `queue` whose only flavor has a Topology of these levels."""
    objects = (
        topology(namespace, *levels),
        resource_flavor(namespace, topology=namespace, labels={"pool": namespace}),
        cluster_queue(namespace, namespace, {"cpu": 64}),
        local_queue("queue", namespace, namespace),
    )
    with queues(plane, *objects):
        until_condition(plane, "ClusterQueue", namespace, "Active")
        yield


def nodes_in(add: Nodes, namespace: str, number: int, cpu: int, **domains: str) -> None:
    """Nodes of the namespace's flavor, in these domains."""
    labels = {"pool": namespace, **{f"example.com/{level}": name for level, name in domains.items()}}
    add(number, cpu=cpu, labels=labels, prefix="-".join((namespace, *domains.values())))


@pytest.mark.beside
@pytest.mark.cases(SCHEDULERS, soak=("1.37-kube", "1.36-kube"))
def test_a_job_that_kueue_resumes_with_fewer_pods_starts_whole(start: Start, nodes: Nodes, case: Chosen) -> None:
    cluster = start(case)
    nodes(1, cpu=8)
    with one_queue(cluster.plane, cluster.namespace, {"cpu": 2}):
        created(cluster.plane, job("train", cluster.namespace, 4, labels=QUEUED, annotations=FEWER))
        cluster.all_bound(2)
        spec = read(cluster.plane, "batch/v1", "Job", cluster.namespace, "train")["spec"]
    assert (spec["parallelism"], spec["completions"], cluster.minimums["train"]) == (2, 2, 2)
    assert not any("schedulingGates" in pod["spec"] for pod in cluster.pods)


def asks(workload: Manifest, level: str) -> Manifest:
    """A Job whose pods Kueue shall place in one domain of a level."""
    workload["spec"]["template"]["metadata"] = {"annotations": {REQUIRED: level}}
    return workload


@pytest.mark.beside
def test_pods_without_a_gang_start_on_the_hosts_that_kueue_chooses(
    plane: ControlPlane, controllers: Controllers, scheduler: Scheduler, namespace: str, nodes: Nodes
) -> None:
    """Kueue's own case, with kube-scheduler."""
    controllers(plane, "kueue")
    scheduler(plane, "kube")
    for spine in ("a", "b"):
        nodes_in(nodes, namespace, 2, 1, spine=spine)
    with placed_queue(plane, namespace, SPINE, HOST):
        created(plane, asks(job("train", namespace, 2, labels=QUEUED), SPINE))

        def placed() -> list[str]:
            pods = until_pods(plane, namespace, "job-name=train", 2)
            assert all("nodeName" in pod["spec"] for pod in pods)
            hosts = [pod["spec"]["nodeName"] for pod in pods]
            assert hosts == [pod["spec"]["nodeSelector"][HOST] for pod in pods]
            return hosts

        hosts = eventually(placed, "both pods are on their hosts")
    assert {host.rpartition("-")[0] for host in hosts} in ({f"{namespace}-a"}, {f"{namespace}-b"})


@pytest.mark.beside
def test_a_job_whose_workload_another_cluster_made_starts_whole(
    start: Start, nodes: Nodes, plane: ControlPlane, namespace: str
) -> None:
    """As MultiKueue does in a worker cluster: first the Workload, with the pods of a cluster in which Rollcall wrote
    nothing, then the Job without `managedBy`.
    """
    controlled = path_of("batch/v1", "Job", "default")
    answer = plane.http.post(controlled, params={"dryRun": "All"}, json=job("train", "default", 3))
    template = {**answer.json()["spec"]["template"], "metadata": {}}
    cluster = start(KOORDINATOR)
    nodes(1, cpu=8)
    with one_queue(plane, namespace, {"cpu": 8}):
        workload = {
            "apiVersion": API,
            "kind": "Workload",
            "metadata": {"name": "remote", "namespace": namespace, "labels": {ORIGIN: "multikueue"}},
            "spec": {"queueName": "queue", "podSets": [{"name": "main", "count": 3, "template": template}]},
        }
        created(plane, workload)
        labels = {**QUEUED, ORIGIN: "multikueue"}
        created(plane, job("train", namespace, 3, suspend=True, labels=labels, annotations={PREBUILT: "remote"}))
        cluster.all_bound(3)
        (found,) = until_workloads(plane, namespace, 1, Admitted="True", Finished="False")
    assert found["metadata"]["name"] == "remote"
    assert [one["kind"] for one in found["metadata"]["ownerReferences"]] == ["Job"]
    assert {pod["spec"]["schedulerName"] for pod in cluster.pods} == {"koord-scheduler"}


@pytest.mark.soak
def test_a_train_job_of_the_coscheduling_plugin_starts_whole_behind_kueue(start: Start, nodes: Nodes) -> None:
    """Trainer's PodGroup is there while Kueue holds the TrainJob, and stays the same when Kueue resumes it."""
    cluster = start(PLUGINS, "jobset", "trainer")
    plane, namespace = cluster.plane, cluster.namespace
    nodes(1, cpu=2)
    created(plane, training_runtime("torch", namespace=namespace, pod_groups={"coscheduling": {}}))
    with one_queue(plane, namespace, {"cpu": 8}) as queue:
        hold(plane, queue)
        created(plane, train_job("tune", namespace, "torch", kind="TrainingRuntime", nodes=3, labels=QUEUED))
        until_workloads(plane, namespace, 1, QuotaReserved="False")
        held = eventually(lambda: trainer_s_group(cluster), "Trainer's PodGroup is there")
        resume(plane, queue)
        until_pods(plane, namespace, "jobset.sigs.k8s.io/jobset-name=tune", 3)
        cluster.all_wait()
        assert trainer_s_group(cluster) == held
        nodes(1, cpu=2)
        cluster.all_bound(3)
    assert held["minMember"] == 3


@pytest.mark.soak
def test_the_pod_group_of_trainer_s_volcano_plugin_is_the_same_before_and_after_kueue_resumes_the_train_job(
    plane: ControlPlane, controllers: Controllers, namespace: str
) -> None:
    """Volcano itself is no Go module that runs here."""
    controllers(plane, "jobset", "trainer", "kueue")
    created(plane, training_runtime("torch", namespace=namespace, pod_groups={"volcano": {}}))
    version = "scheduling.volcano.sh/v1beta1"
    with one_queue(plane, namespace, {"cpu": 8}) as queue:
        hold(plane, queue)
        created(plane, train_job("tune", namespace, "torch", kind="TrainingRuntime", nodes=3, labels=QUEUED))
        until_workloads(plane, namespace, 1, QuotaReserved="False")
        held = eventually(lambda: read(plane, version, "PodGroup", namespace, "tune"), "the PodGroup is there")
        resume(plane, queue)
        pods = until_pods(plane, namespace, "jobset.sigs.k8s.io/jobset-name=tune", 3)
        assert read(plane, version, "PodGroup", namespace, "tune")["spec"] == held["spec"]
    assert held["spec"]["minMember"] == 3
    assert {pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for pod in pods} == {"tune"}


def trainer_s_group(cluster: OptedIn) -> Manifest:
    """What the PodGroup of the TrainJob says."""
    spec: Manifest = read(cluster.plane, "scheduling.x-k8s.io/v1alpha1", "PodGroup", cluster.namespace, "tune")["spec"]
    return spec


@pytest.fixture
def layered(plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane with a ClusterNetworkTopology of spines."""
    plane.apply(NETWORK, check=True)
    yield plane
    plane.kubectl("delete", "clusternetworktopology", "default", check=True)


def until_known(plane: ControlPlane, *expected: str) -> None:
    """Wait until koord-scheduler knows these spines."""
    eventually(lambda: spines(plane) == set(expected), "koord-scheduler knows the spines", timeout=60)


@pytest.mark.soak
def test_a_gang_in_one_spine_waits_if_kueue_chooses_two_and_starts_if_it_chooses_within_one(
    layered: ControlPlane, start: Start, namespace: str, nodes: Nodes
) -> None:
    cluster = start(KOORDINATOR)
    for spine in ("a", "b"):
        nodes_in(nodes, namespace, 1, 2, block="main", spine=spine)
    until_known(layered, "a", "b")
    with placed_queue(layered, namespace, BLOCK, SPINE, HOST):
        narrow = asks(job("narrow", namespace, 2, labels=QUEUED, annotations=asking("SpineLayer")), HOST)
        assert "kueue/two-topologies" in layered.apply(narrow, options=["--dry-run=server"]).err
        stored = created(layered, narrow)
        cluster.all_bound(2)
        deleted(layered, stored, "Background")
        until_workloads(layered, namespace, 0)
        eventually(lambda: cluster.pods == [], "its pods are gone")
        broad = asks(job("broad", namespace, 3, labels=QUEUED, annotations=asking("SpineLayer")), BLOCK)
        assert "kueue/two-topologies" in layered.apply(broad, options=["--dry-run=server"]).err
        created(layered, broad)
        until_pods(layered, namespace, "job-name=broad", 3)
        cluster.ungated()
        assert len({pod["spec"]["nodeSelector"][HOST] for pod in cluster.pods}) == 2
        cluster.all_wait()


@pytest.mark.soak
def test_a_leader_apart_from_its_workers_keeps_a_gang_in_one_spine_from_starting(
    layered: ControlPlane, start: Start, namespace: str, nodes: Nodes
) -> None:
    cluster = start(KOORDINATOR, "lws")
    # Kueue takes the domain with the least room that is enough.
    for spine, cpu in (("a", 1), ("b", 3), ("c", 4)):
        nodes_in(nodes, namespace, 1, cpu, spine=spine)
    until_known(layered, "a", "b", "c")

    def group(**annotations: str) -> Manifest:
        template = pod_template(annotations={REQUIRED: SPINE, **annotations})
        keys = asking("SpineLayer")
        return leader_worker_set(
            "serve", namespace, size=4, leader=template, worker=template, labels=QUEUED, annotations=keys
        )

    with placed_queue(layered, namespace, SPINE, HOST):
        assert "kueue/topology-apart" in layered.apply(group(), options=["--dry-run=server"]).err
        stored = created(layered, group())
        until_pods(layered, namespace, "leaderworkerset.sigs.k8s.io/name=serve", 4)
        cluster.ungated()
        assert len({pod["spec"]["nodeSelector"][HOST] for pod in cluster.pods}) == 2
        cluster.all_wait()
        deleted(layered, stored, "Background")
        until_workloads(layered, namespace, 0)
        eventually(lambda: cluster.pods == [], "its pods are gone")
        together = group(**{GROUP_NAME: "serve"})
        assert "kueue/topology-apart" not in layered.apply(together, options=["--dry-run=server"]).err
        created(layered, together)
        cluster.all_bound(4)


@contextmanager
def without_kueue(kueue: Neighbour, net: AbstractContextManager[None]) -> Iterator[None]:
    """The net, spread and removed while Kueue's webhooks are not called: they refuse the pods that ask for it, whose
    Job does not exist.
    """
    kueue.unregister()
    with net:
        kueue.register()
        try:
            yield
        finally:
            kueue.unregister()


@pytest.mark.soak
def test_the_net_keeps_kueue_from_removing_the_last_gate_of_pods_that_bypassed_rollcall(
    plane: ControlPlane,
    controllers: Controllers,
    rollcall: Rollcall,
    reconciler: Reconcilers,
    scheduler: Scheduler,
    nodes: Nodes,
    namespace: str,
    tmp_path: Path,
) -> None:
    """They are deleted when Rollcall is back. The pods that follow are prepared, and Kueue can let them go."""
    kueue = controllers(plane, "lws", "kueue")["kueue"]
    scheduler(plane, "koordinator")
    nodes(1, cpu=8)
    server = rollcall(plane, IGNORED)
    cluster = opted_in(plane, namespace, "koord-scheduler")
    with (
        without_kueue(kueue, spread(plane, IGNORED, tmp_path, namespace)),
        one_queue(plane, namespace, {"cpu": 8}) as queue,
    ):
        hold(plane, queue)
        stored = created(plane, leader_worker_set("serve", namespace, groups=0, size=2, labels=QUEUED))
        server.program.stop(kill=True)
        patched(plane, stored, {"spec": {"replicas": 1}})
        pods = until_pods(plane, namespace, "leaderworkerset.sigs.k8s.io/name=serve", 2)
        assert {pod["spec"]["schedulerName"] for pod in pods} == {"default-scheduler"}
        resume(plane, queue)
        until_workloads(plane, namespace, 1, Admitted="True")
        cluster.stays(lambda: all("schedulingGates" in pod["spec"] for pod in cluster.pods), "the last gate stays")
        server.program.start()
        server.until_ready()
        reconciler(IGNORED).until_leading()
        cluster.all_bound(2)
    assert {pod["spec"]["schedulerName"] for pod in cluster.pods} == {"koord-scheduler"}


@pytest.mark.soak
def test_with_the_scheduler_library_kueue_admits_no_pods_that_name_another_scheduler(
    plane: ControlPlane, controllers: Controllers, namespace: str, nodes: Nodes
) -> None:
    controllers(plane, "kueue", kueue={"featureGates": {"SchedulerLibraryIntegration": True}})
    nodes_in(nodes, namespace, 2, 2, spine="a")

    def answered(expected: str) -> None:
        def as_expected() -> bool:
            (found,) = until_workloads(plane, namespace, 1)
            told = [one for one in found.get("status", {}).get("conditions", ()) if one["type"] == "QuotaReserved"]
            assert [expected in f"{one['status']}: {one['message']}" for one in told] == [True], str(told)
            return True

        eventually(as_expected, f"Kueue answers {expected}")

    train = asks(job("train", namespace, 2, labels=QUEUED), SPINE)
    named = asks(job("train", namespace, 2, labels=QUEUED, schedulerName="koord-scheduler"), SPINE)
    with placed_queue(plane, namespace, SPINE, HOST):
        stored = created(plane, named)
        answered("profile not found for scheduler name")
        deleted(plane, stored, "Background")
        until_workloads(plane, namespace, 0)
        created(plane, train)
        answered("True: ")


@pytest.mark.soak
def test_a_ray_job_behind_kueue_passes_unchanged(start: Start, nodes: Nodes) -> None:
    cluster = start(KUBE, "kuberay")
    nodes(1, cpu=8)
    spec = {"entrypoint": "python -c 1", "shutdownAfterJobFinishes": True}
    spec["rayClusterSpec"] = ray_cluster("", "", 1)["spec"]
    metadata = {"name": "ray", "namespace": cluster.namespace, "labels": QUEUED}
    with one_queue(cluster.plane, cluster.namespace, {"cpu": 8, "memory": "8Gi"}):
        created(cluster.plane, {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec})
        until_workloads(cluster.plane, cluster.namespace, 1, Admitted="True")
        pods = until_pods(cluster.plane, cluster.namespace, "ray.io/cluster", 2)
    assert [pod["spec"]["schedulerName"] for pod in pods] == ["default-scheduler"] * 2
    keys = {key for pod in pods for key in (*pod["metadata"]["labels"], *pod["metadata"].get("annotations", ()))}
    assert [key for key in keys if key.startswith("rollcall.dev/")] == []

"""Workloads whose kinds are declared, on real schedulers: a gang starts whole or not at all, from a shape alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.declared_workloads import Played, mpi_job, pytorch_job, spark_application, training, volcano_job
from tests.e2e.fixture_types import Nodes, Rollcall
from tests.e2e.opted_in_cluster import KOORDINATOR, KUBE, LABEL, Chosen, OptedIn, Start, opted_in
from tests.e2e.opted_in_workloads import pod_template
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import created, deleted, found, patched, path_of, until_pods

pytestmark = pytest.mark.beside

_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "new-workload.md"


def shape_of_the_page() -> Manifest:
    """The WorkloadShape of the worked example."""
    blocks = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", _PAGE.read_text(), re.DOTALL))
    return next(block for block in blocks if block["kind"] == "WorkloadShape")


def serve(plane: ControlPlane, kind: Played) -> None:
    """Have a kind served, once a control plane."""
    crd, path = kind.crd, f"/apis/{kind.group}/{kind.version}/{kind.plural}"
    if found(plane, crd["apiVersion"], crd["kind"], None, crd["metadata"]["name"]) is None:
        created(plane, crd)
    eventually(lambda: plane.http.get(path).is_success, f"{kind.kind} is served", timeout=30)


@pytest.fixture
def start(start: Start, plane: ControlPlane) -> Start:
    """The same with kinds that operators are played for: `start(KOORDINATOR, pytorch_job())`."""

    def started(chosen: Chosen, *kinds: Played, shapes: tuple[Manifest, ...] = ()) -> OptedIn:
        for kind in kinds:
            serve(plane, kind)
        return start(chosen._replace(config={**chosen.config, "workloads": {"shapes": list(shapes)}}))

    return started


def starts_whole(cluster: OptedIn, kind: Played, nodes: Nodes) -> Manifest:
    """Three pods wait together on a node with room for two, and start with a second node."""
    nodes(1, cpu=2)
    stored = created(cluster.plane, kind.workload(cluster.namespace))
    pods = list(kind.made(cluster.plane, stored))
    assert {pod["metadata"]["labels"]["rollcall.dev/gang"] for pod in pods} == {"run"}
    cluster.ungated()
    cluster.all_wait()
    nodes(1, cpu=2)
    cluster.all_bound(len(pods), lambda: list(kind.made(cluster.plane, stored)))
    return stored


def lives(cluster: OptedIn, smaller: Played, larger: Played, nodes: Nodes) -> None:
    """A workload starts whole, gets a pod more, loses one that its operator creates again, and gets a pod fewer."""
    plane = cluster.plane
    stored = starts_whole(cluster, smaller, nodes)
    cluster.needs(3)

    def made() -> list[Manifest]:
        return list(larger.made(plane, stored))

    stored = patched(plane, stored, {"spec": larger.spec})
    made()
    cluster.all_bound(4, made)
    cluster.needs(4)
    *_, lost, last = larger.pods
    cluster.lose(lost)
    made()
    cluster.all_bound(4, made)
    patched(plane, stored, {"spec": smaller.spec})
    cluster.lose(last)
    cluster.needs(3)
    cluster.all_bound(3)


def test_a_workload_of_a_built_in_shape_lives_as_a_gang(plane: ControlPlane, start: Start, nodes: Nodes) -> None:
    lives(start(KOORDINATOR, pytorch_job()), pytorch_job(), pytorch_job(3), nodes)


@pytest.mark.soak
def test_an_mpi_job_starts_whole_or_not_at_all(plane: ControlPlane, start: Start, nodes: Nodes) -> None:
    starts_whole(start(KOORDINATOR, mpi_job()), mpi_job(), nodes)


PYTORCH_JOB, MPI_JOB, TRAINING = (pytorch_job(), pytorch_job(3)), (mpi_job(), mpi_job(4)), (training(), training(3))


@pytest.mark.soak
@pytest.mark.parametrize("kinds", [MPI_JOB, TRAINING], ids=["MPIJob", "Training"])
def test_every_workload_of_a_shape_lives_as_a_gang(start: Start, nodes: Nodes, kinds: tuple[Played, Played]) -> None:
    lives(start(KOORDINATOR, kinds[0], shapes=(shape_of_the_page(),)), *kinds, nodes)


@pytest.mark.soak
@pytest.mark.every_version(since="1.37")
@pytest.mark.parametrize("kinds", [PYTORCH_JOB, MPI_JOB, TRAINING], ids=["PyTorchJob", "MPIJob", "Training"])
def test_every_workload_of_a_shape_lives_as_a_gang_of_kube_scheduler(
    start: Start, nodes: Nodes, kinds: tuple[Played, Played]
) -> None:
    """Up to 1.36 the API server lets no minimum change, so a gang with a further pod waits until it is recreated."""
    lives(start(KUBE, kinds[0], shapes=(shape_of_the_page(),)), *kinds, nodes)


def test_a_kind_that_nobody_has_seen_is_a_gang_from_its_shape(
    plane: ControlPlane, start: Start, nodes: Nodes, namespace: str
) -> None:
    """In admission, gang objects and health, and its objects go with it."""
    cluster = start(KOORDINATOR, training(), shapes=(shape_of_the_page(),))
    starts_whole(cluster, training(), nodes)
    assert cluster.minimums == {"run-coordinator": 1, "run-trainer": 2}
    stored = found(plane, "example.com/v1", "Training", namespace, "run")
    assert stored is not None
    deleted(plane, stored, "Background")
    if plane.collects_garbage:
        eventually(lambda: cluster.minimums == {}, "its groups go", timeout=60)


def test_the_executors_of_spark_are_a_gang_after_their_driver(
    plane: ControlPlane, start: Start, nodes: Nodes, namespace: str
) -> None:
    """They start together, and the driver replaces one that is lost."""
    kind = spark_application(1, 2, 3)
    cluster = start(KOORDINATOR, kind)
    nodes(1, cpu=3)
    stored = created(plane, kind.workload(namespace))
    pods = kind.made(plane, stored)
    driver = next(pods)
    cluster.all_bound(1, lambda: next(kind.made(plane, stored)))
    executors = list(pods)
    assert {pod["metadata"]["labels"]["rollcall.dev/gang"] for pod in executors} == {"run-executor"}
    assert driver["metadata"]["labels"]["rollcall.dev/gang"] == "run-driver"
    cluster.ungated()
    cluster.stays(lambda: sum(cluster.bound().values()) == 1, "the executors wait for room for all")
    nodes(1, cpu=2)
    cluster.all_bound(4, lambda: list(kind.made(plane, stored)))
    cluster.lose("run-exec-2")
    later = spark_application(1, 3, 4)
    list(later.made(plane, stored))
    cluster.all_bound(4, lambda: list(later.made(plane, stored)))
    assert {pod["metadata"]["name"] for pod in cluster.pods} == set(later.pods)


@pytest.mark.parametrize("kind", ["Deployment", pytest.param("StatefulSet", marks=pytest.mark.soak)])
def test_a_service_lives_as_a_gang_by_its_own_label(
    plane: ControlPlane, start: Start, nodes: Nodes, namespace: str, kind: str
) -> None:
    cluster = start(KOORDINATOR)
    nodes(1, cpu=2)
    labels = {"app": "serve"}
    spec: Manifest = {"replicas": 3, "selector": {"matchLabels": labels}, "template": pod_template(labels=labels)}
    if kind == "StatefulSet":
        spec |= {"serviceName": "serve", "podManagementPolicy": "Parallel"}
    metadata = {"name": "serve", "namespace": namespace, "labels": {LABEL: "koord-scheduler"}}
    stored = created(plane, {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec})
    until_pods(plane, namespace, "app=serve", 3)
    cluster.ungated()
    cluster.all_wait()
    nodes(1, cpu=2)
    cluster.all_bound(3)
    patched(plane, stored, {"spec": {"replicas": 4}})
    cluster.all_bound(4)
    cluster.needs(4)
    lost = until_pods(plane, namespace, "app=serve", 4)[1]["metadata"]
    cluster.lose(lost["name"])
    eventually(lambda: lost["uid"] not in {pod["metadata"]["uid"] for pod in cluster.pods}, "the pod is gone")
    cluster.all_bound(4)
    patched(plane, stored, {"spec": {"replicas": 3}})
    cluster.needs(3)
    cluster.all_bound(3)


def test_a_job_of_volcano_is_judged_and_left_to_volcano(plane: ControlPlane, start: Start, namespace: str) -> None:
    """Rollcall writes neither into its templates and pods nor a PodGroup."""
    kind, never = volcano_job(), volcano_job(dependsOn={"name": ["other"]})
    cluster = start(KOORDINATOR, kind)
    answer = plane.http.post(path_of("batch.volcano.sh/v1alpha1", "Job", namespace), json=never.workload(namespace))
    assert "owner/incomplete at spec.tasks[0].dependsOn" in answer.json()["message"]
    stored = created(plane, kind.workload(namespace))
    assert stored["spec"] == kind.spec
    (pod,) = kind.made(plane, stored)
    assert "schedulingGates" not in pod["spec"]
    assert not [key for key in pod["metadata"]["labels"] if key.startswith("rollcall.dev/")]
    cluster.stays(lambda: not cluster.minimums, "no PodGroup is made")


def test_a_pod_of_an_unknown_kind_is_created_with_a_warning(
    plane: ControlPlane, rollcall: Rollcall, namespace: str
) -> None:
    """The hook that sees it fails open: without Rollcall the pod is created without a warning."""
    rollcall(plane, KOORDINATOR.config)
    opted_in(plane, namespace, KOORDINATOR.name)
    owner = {"apiVersion": "example.com/v1", "kind": "Farm", "name": "acre", "uid": "1", "controller": True}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "acre-0", "namespace": namespace, "ownerReferences": [owner]},
        "spec": pod_template()["spec"],
    }
    path = f"/api/v1/namespaces/{namespace}/pods"
    answer = plane.http.post(path, json=pod, params={"dryRun": "All"})
    assert answer.is_success, answer.text
    assert "owner/unknown-kind" in answer.headers["warning"]
    assert "rollcall shapes init Farm" in answer.headers["warning"]
    del pod["metadata"]["ownerReferences"]
    assert "warning" not in plane.http.post(path, json=pod, params={"dryRun": "All"}).headers

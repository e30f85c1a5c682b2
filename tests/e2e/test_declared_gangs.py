"""Workloads whose kinds are declared, on real schedulers: a gang starts whole or not at all, from a shape alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.declared_workloads import MPI_JOB, PYTORCH_JOB, SPARK_APPLICATION, TRAINING, Played
from tests.e2e.fixture_types import Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.opted_in_cluster import KOORDINATOR, KUBE, LABEL, Chosen, OptedIn, opted_in
from tests.e2e.opted_in_workloads import pod_template
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import created, deleted, found, listed, until_pods

Start = Callable[..., OptedIn]
_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "new-workload.md"
POD_GROUPS = "scheduling.sigs.k8s.io/v1alpha1"


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
def start(rollcall: Rollcall, reconciler: Reconcilers, scheduler: Scheduler, namespace: str) -> Start:
    """A cluster that serves some kinds, with everything for a scheduler: `start(plane, KOORDINATOR, PYTORCH_JOB)`."""

    def started(plane: ControlPlane, chosen: Chosen, *kinds: Played, shapes: tuple[Manifest, ...] = ()) -> OptedIn:
        for kind in kinds:
            serve(plane, kind)
        config = {**chosen.config, "workloads": {"shapes": list(shapes)}}
        scheduler(plane, chosen.scheduler)
        rollcall(plane, config)
        reconciler(config).until_leading()
        return opted_in(plane, namespace, chosen.name)

    return started


def starts_whole(cluster: OptedIn, kind: Played, nodes: Nodes) -> None:
    """Three pods wait together on a node with room for two, and start with a second node."""
    nodes(1, cpu=2)
    stored = created(cluster.plane, kind.workload(cluster.namespace))
    pods = list(kind.made(cluster.plane, stored))
    assert {pod["metadata"]["labels"]["rollcall.dev/gang"] for pod in pods} == {"run"}
    cluster.ungated()
    cluster.all_wait()
    nodes(1, cpu=2)
    cluster.all_bound(len(pods), lambda: list(kind.made(cluster.plane, stored)))


@pytest.mark.parametrize("kind", [PYTORCH_JOB, MPI_JOB], ids=lambda kind: kind.kind)
def test_a_workload_of_a_built_in_shape_starts_whole_or_not_at_all(
    plane: ControlPlane, start: Start, nodes: Nodes, kind: Played
) -> None:
    starts_whole(start(plane, KOORDINATOR, kind), kind, nodes)


@pytest.mark.parametrize("kind", [PYTORCH_JOB, MPI_JOB, TRAINING], ids=lambda kind: kind.kind)
@pytest.mark.soak
def test_a_workload_of_a_shape_starts_whole_or_not_at_all_on_kube_scheduler(
    plane: ControlPlane, start: Start, nodes: Nodes, kind: Played
) -> None:
    starts_whole(start(plane, KUBE, kind, shapes=(shape_of_the_page(),)), kind, nodes)


def test_a_kind_that_nobody_has_seen_is_a_gang_from_its_shape(
    plane: ControlPlane, start: Start, nodes: Nodes, namespace: str
) -> None:
    """In admission, gang objects and health, and its objects go with it."""
    cluster = start(plane, KOORDINATOR, TRAINING, shapes=(shape_of_the_page(),))
    starts_whole(cluster, TRAINING, nodes)
    groups = {
        one["metadata"]["name"]: one["spec"]["minMember"] for one in listed(plane, POD_GROUPS, "PodGroup", namespace)
    }
    assert groups == {"run-coordinator": 1, "run-trainer": 2}
    stored = found(plane, "example.com/v1", "Training", namespace, "run")
    assert stored is not None
    deleted(plane, stored, "Background")
    if plane.collects_garbage:
        eventually(lambda: listed(plane, POD_GROUPS, "PodGroup", namespace) == [], "its groups go", timeout=60)


def test_the_executors_of_spark_are_a_gang_after_their_driver(
    plane: ControlPlane, start: Start, nodes: Nodes, namespace: str
) -> None:
    cluster = start(plane, KOORDINATOR, SPARK_APPLICATION)
    nodes(1, cpu=3)
    stored = created(plane, SPARK_APPLICATION.workload(namespace))
    pods = SPARK_APPLICATION.made(plane, stored)
    driver = next(pods)
    cluster.all_bound(1, lambda: next(SPARK_APPLICATION.made(plane, stored)))
    executors = list(pods)
    assert {pod["metadata"]["labels"]["rollcall.dev/gang"] for pod in executors} == {"run-executor"}
    assert driver["metadata"]["labels"]["rollcall.dev/gang"] == "run-driver"
    cluster.ungated()
    cluster.stays(lambda: sum(cluster.bound().values()) == 1, "the executors wait for room for all")
    nodes(1, cpu=2)
    cluster.all_bound(4, lambda: list(SPARK_APPLICATION.made(plane, stored)))


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_service_is_a_gang_by_its_own_label(
    plane: ControlPlane, start: Start, nodes: Nodes, namespace: str, kind: str
) -> None:
    cluster = start(plane, KOORDINATOR)
    nodes(1, cpu=2)
    labels = {"app": "serve"}
    spec: Manifest = {"replicas": 3, "selector": {"matchLabels": labels}, "template": pod_template(labels=labels)}
    if kind == "StatefulSet":
        spec |= {"serviceName": "serve", "podManagementPolicy": "Parallel"}
    metadata = {"name": "serve", "namespace": namespace, "labels": {LABEL: "koord-scheduler"}}
    created(plane, {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec})
    until_pods(plane, namespace, "app=serve", 3)
    cluster.ungated()
    cluster.all_wait()
    nodes(1, cpu=2)
    cluster.all_bound(3)


def test_a_pod_of_an_unknown_kind_is_created_with_a_warning(plane: ControlPlane, start: Start, namespace: str) -> None:
    """The hook that sees it fails open: without Rollcall the pod is created without a warning."""
    start(plane, KOORDINATOR)
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

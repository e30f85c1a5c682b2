"""Gangs of the Workload API on the real kube-scheduler of each version: they start whole or not at all."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from tests.e2e.bound_pods import QUIET_SECONDS, is_bound, stays_unbound
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Nodes, Rollcall, Scheduler
from tests.e2e.grove_operator import Played
from tests.e2e.kube_configuration import GENERATIONS, configuration
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.rollcall_server import rollcall as command
from tests.e2e.workloads import clique, pod_clique_set, two_cliques

# Older ones do not serve the Workload API, and each later one serves another generation of it.
WORKLOAD_API = "1.35"
pytestmark = pytest.mark.every_version(since=WORKLOAD_API)


class Gangs:
    """A control plane with rollcall and kube-scheduler, and the way from a PodGang to its objects."""

    def __init__(self, plane: ControlPlane, server: RollcallServer, folder: Path, **config: object) -> None:
        self.plane = plane
        self.server = server
        # The command line has no cluster, so it needs as options what the server discovers.
        self._config = folder / "rollcall.yaml"
        content = configuration(apiGeneration=GENERATIONS[plane.version], **config)
        self._config.write_text(yaml.safe_dump(content))

    def write(self, played: Played) -> None:
        """Write the gang objects of each PodGang, strictly: no field may be unknown to the API server."""
        for name in played.podgangs:
            self.apply(played.podgang(name))

    def apply(self, podgang: Manifest) -> None:
        rendered = command("render", "--config", self._config, "-", stdin=yaml.safe_dump(podgang))
        self.plane.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", stdin=rendered, check=True)


@pytest.fixture
def gangs(
    plane: ControlPlane,
    rollcall: Rollcall,
    scheduler: Scheduler,
    tmp_path: Path,
) -> Gangs:
    scheduler(plane, "kube")
    return Gangs(plane, rollcall(plane, configuration()), tmp_path)


@pytest.mark.every_version(since=WORKLOAD_API, soak=())
def test_no_pod_starts_until_all_of_its_gang_fit(gangs: Gangs, namespace: str, grove: Grove, nodes: Nodes) -> None:
    # Room for two of the three pods.
    nodes(1, cpu=2)
    played = grove(two_cliques("demo", namespace)).create()
    gangs.write(played)
    played.lift_gates()
    stays_unbound(played)
    nodes(1, cpu=2)
    is_bound(played, 3)


def test_no_pod_starts_while_one_pod_is_missing(gangs: Gangs, namespace: str, grove: Grove, nodes: Nodes) -> None:
    nodes(1, cpu=8)
    played = grove(two_cliques("demo", namespace)).create(without="demo-0-worker")
    gangs.write(played)
    played.lift_gates()
    stays_unbound(played)
    worker = next(found for found in played.cliques if found.name == "demo-0-worker")
    played.create_pod(worker, 1)
    played.lift_gates()
    is_bound(played, 3)


def test_no_pod_starts_while_the_gang_objects_are_missing(
    gangs: Gangs, namespace: str, grove: Grove, nodes: Nodes
) -> None:
    nodes(1, cpu=8)
    played = grove(two_cliques("demo", namespace)).create()
    played.lift_gates()
    stays_unbound(played)
    gangs.write(played)
    is_bound(played, 3)


def test_no_pod_starts_while_half_of_the_gates_are_on(gangs: Gangs, namespace: str, grove: Grove, nodes: Nodes) -> None:
    """Grove lifts its gates pod by pod; a scheduler that took the first ones alone would start half a gang."""
    nodes(1, cpu=8)
    played = grove(two_cliques("demo", namespace)).create()
    gangs.write(played)
    first = played.pods()[0]
    path = f"/api/v1/namespaces/{namespace}/pods/{first['metadata']['name']}"
    headers = {"Content-Type": "application/merge-patch+json"}
    gangs.plane.http.patch(path, json={"spec": {"schedulingGates": None}}, headers=headers).raise_for_status()
    stays_unbound(played)
    played.lift_gates()
    is_bound(played, 3)


def test_the_priority_class_of_a_set_reaches_its_pods(gangs: Gangs, namespace: str, grove: Grove, nodes: Nodes) -> None:
    """Grove writes none, and in 1.37 a gang whose pods have another priority than their group is blocked."""
    plane = gangs.plane
    name = f"high-{namespace}"
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    plane.apply({**head, "value": 1000, "preemptionPolicy": "Never"}, check=True)
    eventually(lambda: gangs.server.metric("rollcall_cache_objects", kind="PriorityClass") >= 3, "the class is known")
    nodes(1, cpu=8)
    played = grove(two_cliques("demo", namespace, priorityClassName=name)).create()
    for pod in played.pods():
        spec = pod["spec"]
        assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == (name, 1000, "Never")
    # The operator copies the class to the PodGang; the fixture leaves it out.
    for podgang in map(played.podgang, played.podgangs):
        podgang["spec"]["priorityClassName"] = name
        gangs.apply(podgang)
    played.lift_gates()
    is_bound(played, 3)
    plane.kubectl("delete", "priorityclass", name, check=True)


@pytest.mark.soak
def test_with_flat_allow_a_gang_of_two_groups_can_start_in_part(
    plane: ControlPlane,
    rollcall: Rollcall,
    scheduler: Scheduler,
    namespace: str,
    grove: Grove,
    nodes: Nodes,
    tmp_path: Path,
) -> None:
    """Why that is not the default: without CompositePodGroups each clique is a gang of its own."""
    scheduler(plane, "kube")
    config = {"flat": "allow", "hierarchical": "off"}
    allowing = Gangs(plane, rollcall(plane, configuration(**config)), tmp_path, **config)
    nodes(1, cpu=2)
    told = plane.apply(two_cliques("demo", namespace), check=True)
    assert "kube/flat-allowed" in told.err
    played = Played(plane, plane.get("podcliqueset", "demo", namespace)).create(without="demo-0-worker")
    allowing.write(played)
    played.lift_gates()
    eventually(lambda: len(played.bound()) == 1, "the leader starts without its workers")
    deadline = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < deadline:
        assert len(played.bound()) == 1
        time.sleep(0.25)


# Topology came with CompositePodGroup.
@pytest.mark.every_version(since="1.37")
def test_a_scaling_group_with_a_rack_constraint_is_placed_in_one_rack(
    gangs: Gangs, namespace: str, grove: Grove, nodes: Nodes
) -> None:
    rack = "example.com/rack"
    # Two racks with room for two pods each, and one for the frontend.
    nodes(2, cpu=1, labels={rack: "a"})
    nodes(1, cpu=1, labels={rack: "b"})
    nodes(1, cpu=1)
    groups = [{"name": "decode", "cliqueNames": ["leader", "worker"], "replicas": 1, "minAvailable": 1}]
    cliques = (clique("frontend", 1), clique("leader", 1), clique("worker", 2))
    played = grove(pod_clique_set("demo", namespace, *cliques, groups=groups)).create()
    for podgang in map(played.podgang, played.podgangs):
        members = ["demo-0-decode-0-leader", "demo-0-decode-0-worker"]
        constraint = {"packConstraint": {"required": rack}}
        config = {"name": "demo-0-decode-0", "podGroupNames": members, "topologyConstraint": constraint}
        podgang["spec"]["topologyConstraintGroupConfigs"] = [config]
        gangs.apply(podgang)
    played.lift_gates()
    # Three pods in one rack: there is room for four pods, and not for these.
    stays_unbound(played)
    nodes(1, cpu=1, labels={rack: "a"})
    is_bound(played, 4)
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in gangs.plane.items("/api/v1/nodes")}
    racks = {
        labels[pod["spec"]["nodeName"]].get(rack)
        for pod in played.pods()
        if "decode" in pod["metadata"]["labels"]["grove.io/podclique"]
    }
    assert racks == {"a"}

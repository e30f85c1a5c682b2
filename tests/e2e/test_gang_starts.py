"""The whole point: every pod present, or no pod starts. On the real koord-scheduler, with the PodGroups that
`rollcall render` prints.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.e2e.bound_pods import is_bound, stays_unbound
from tests.e2e.control_plane import ControlPlane
from tests.e2e.fixture_types import Grove, Nodes, Scheduler
from tests.e2e.grove_operator import Played
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer, rollcall
from tests.e2e.workloads import clique, pod_clique_set, two_cliques


def write_gang_objects(plane: ControlPlane, server: RollcallServer, played: Played) -> None:
    """What the reconciler will do: the gang objects of each PodGang, by kubectl."""
    for name in played.podgangs:
        podgang = yaml.safe_dump(played.podgang(name))
        rendered = rollcall("render", "--config", server.config, "-", stdin=podgang)
        plane.kubectl("apply", "-f", "-", stdin=rendered, check=True)


@pytest.fixture
def ready(plane: ControlPlane, server: RollcallServer, scheduler: Scheduler) -> ControlPlane:
    """A control plane with rollcall and koord-scheduler."""
    scheduler(plane, "koordinator")
    return plane


def test_no_pod_starts_until_all_of_its_gang_fit(
    ready: ControlPlane, server: RollcallServer, namespace: str, grove: Grove, nodes: Nodes
) -> None:
    # Room for two of the three pods.
    nodes(1, cpu=2)
    played = grove(two_cliques("demo", namespace)).create()
    write_gang_objects(ready, server, played)
    played.lift_gates()
    stays_unbound(played)
    nodes(1, cpu=2)
    is_bound(played, 3)

    def told() -> bool:
        group = ready.get("podgroups.scheduling.sigs.k8s.io", "demo-0-worker", namespace)
        assert group["status"] == {"phase": "Scheduled", "scheduled": 2} | group["status"]
        return True

    eventually(told, "the PodGroup says that its pods are scheduled")


def test_no_pod_starts_while_one_pod_is_missing(
    ready: ControlPlane, server: RollcallServer, namespace: str, grove: Grove, nodes: Nodes
) -> None:
    nodes(1, cpu=8)
    played = grove(two_cliques("demo", namespace)).create(without="demo-0-worker")
    write_gang_objects(ready, server, played)
    played.lift_gates()
    stays_unbound(played)
    worker = next(clique for clique in played.cliques if clique.name == "demo-0-worker")
    played.create_pod(worker, 1)
    played.lift_gates()
    is_bound(played, 3)


def test_no_pod_starts_while_the_gang_objects_are_missing(
    ready: ControlPlane, server: RollcallServer, namespace: str, grove: Grove, nodes: Nodes
) -> None:
    nodes(1, cpu=8)
    played = grove(two_cliques("demo", namespace)).create()
    played.lift_gates()
    stays_unbound(played)
    write_gang_objects(ready, server, played)
    is_bound(played, 3)


def test_a_single_replacement_pod_joins_its_running_gang(
    ready: ControlPlane, server: RollcallServer, namespace: str, grove: Grove, nodes: Nodes
) -> None:
    nodes(1, cpu=8)
    played = grove(two_cliques("demo", namespace)).create()
    write_gang_objects(ready, server, played)
    played.lift_gates()
    is_bound(played, 3)
    lost = played.bound()[-1]
    ready.http.delete(f"/api/v1/namespaces/{namespace}/pods/{lost}", params={"gracePeriodSeconds": "0"})
    eventually(lambda: len(played.bound()) == 2, "the pod is gone")
    worker = next(clique for clique in played.cliques if clique.name == "demo-0-worker")
    played.create_pod(worker, 1)
    played.lift_gates()
    is_bound(played, 3)


def _blocks(plane: ControlPlane) -> set[str]:
    status = plane.get("clusternetworktopology", "default").get("status", {})
    layers = (entry["topologyInfo"] for entry in status.get("detailStatus", []))
    return {layer["topologyName"] for layer in layers if layer["topologyLayer"] == "BlockLayer"}


@pytest.mark.long
def test_a_gang_with_a_topology_starts_in_one_block_or_not_at_all(
    ready: ControlPlane, server: RollcallServer, namespace: str, grove: Grove, nodes: Nodes, tmp_path: Path
) -> None:
    binding = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "cluster"},
        "spec": {"levels": [{"domain": "block", "key": "example.com/block"}]},
    }
    layers = [
        {"topologyLayer": "BlockLayer", "labelKey": ["example.com/block"]},
        {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
    ]
    network = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "ClusterNetworkTopology",
        "metadata": {"name": "default"},
        "spec": {"networkTopologySpec": layers},
    }
    ready.apply(binding, network, check=True)
    # Four CPUs, in two blocks: room enough for three pods, but not in one of them.
    nodes(1, cpu=2, labels={"example.com/block": "a"})
    nodes(1, cpu=2, labels={"example.com/block": "b"})
    # koord-scheduler puts its tree together every ten seconds. A gang that comes before is not tried again for minutes.
    eventually(lambda: _blocks(ready) == {"a", "b"}, "koord-scheduler knows the blocks")
    constraint = {"topologyName": "cluster", "pack": {"required": "block"}}
    workers = clique("leader", 1), clique("worker", 2)
    played = grove(pod_clique_set("demo", namespace, *workers, topologyConstraint=constraint)).create()
    facts = tmp_path / "facts.yaml"
    facts.write_text(yaml.safe_dump_all([binding, network]))
    for name in played.podgangs:
        podgang = played.podgang(name)
        podgang["spec"]["topologyConstraint"] = {"packConstraint": {"required": "example.com/block"}}
        arguments = ("render", "--config", server.config, "--facts", facts, "-")
        rendered = rollcall(*arguments, stdin=yaml.safe_dump(podgang))
        ready.kubectl("apply", "-f", "-", stdin=rendered, check=True)
    played.lift_gates()
    stays_unbound(played)
    nodes(1, cpu=2, labels={"example.com/block": "b"})
    is_bound(played, 3)
    stored = {node["metadata"]["name"]: node["metadata"]["labels"] for node in ready.items("/api/v1/nodes")}
    blocks = {stored[pod["spec"]["nodeName"]]["example.com/block"] for pod in played.pods()}
    assert blocks == {"b"}
    ready.kubectl("delete", "clustertopologybinding", "cluster", check=True)
    ready.kubectl("delete", "clusternetworktopology", "default", check=True)

"""The doctor's checks of topologies that one binding feeds."""

from __future__ import annotations

from typing import Any

from tests.texts import Text
from tests.unit.operations.findings import reported
from webhook.operations.diagnosis import configured, examine, installed
from webhook.operations.scope_checks import objects
from webhook.operations.snapshot import NODES, topology_objects, trimmed

VOLCANO = {"name": "volcano", "config": {"topologyBinding": "dc"}}
BINDING = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopologyBinding",
    "metadata": {"name": "dc"},
    "spec": {"levels": [{"domain": "rack", "key": "example.com/rack"}]},
}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"example.com/rack": "r1"}}}


def hyper_node(*nodes: str) -> dict[str, Any]:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": node}}} for node in nodes]
    head = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "a"}}
    return {**head, "spec": {"tier": 1, "tierName": "rack", "members": members}}


def found(*more: dict[str, Any]) -> list[str]:
    snapshot = installed(BINDING, NODE, *more, settings=configured(VOLCANO))
    return [one.symptom.observation for one in examine(snapshot, [objects]).problems]


def test_hyper_nodes_are_compared_with_the_labels_of_the_nodes() -> None:
    assert found(hyper_node("n1")) == []
    assert found(hyper_node("n1", "n2")) == [Text("ClusterTopologyBinding dc", "rack r1", "HyperNode a")]
    assert found() == [Text("ClusterTopologyBinding dc", "tierName rack")]


def test_write_without_a_binding_is_reported() -> None:
    unnamed = configured({"name": "volcano", "config": {"topologyObjects": "write"}})
    ((_, where, said),) = reported(installed(settings=unnamed), "topologies/binding")
    assert (where, said) == (Text("volcano"), Text("ClusterTopologyBinding"))


def test_nodes_are_only_read_for_a_binding_that_feeds_a_topology_and_only_their_labels_are_kept() -> None:
    assert topology_objects(configured({"name": "volcano"})) == ()
    assert NODES in topology_objects(configured(VOLCANO))
    node = {**NODE, "spec": {"podCIDR": "10.0.0.0/24"}, "status": {"images": []}}
    assert trimmed(node) == NODE

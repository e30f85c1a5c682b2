"""Koordinator's ClusterNetworkTopology from a ClusterTopologyBinding, and how an existing one is compared."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import Text
from tests.unit.topology_bindings import HOST, OWNER, RACK, ZONE, binding
from tests.unit.worlds import settings_of
from webhook.backends.koordinator.gangs import NETWORK_TOPOLOGIES, forms_tree, layer_of
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.topology_tree import DriftReason

KOORD = settings_of("koord-scheduler", {"topologyBinding": "dc"}).profiles["koord-scheduler"].backend


def layer(name: str, parent: str | None = None, *keys: str) -> dict[str, Any]:
    found: dict[str, Any] = {"topologyLayer": name}
    if parent is not None:
        found["parentTopologyLayer"] = parent
    if keys:
        found["labelKey"] = list(keys)
    return found


def live(*layers: dict[str, Any], name: str = "default") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"networkTopologySpec": list(layers)}}


def test_a_binding_becomes_the_chain_of_layers_down_to_nodes() -> None:
    assert KOORD.topology_objects(binding(ZONE, RACK)) == [
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "ClusterNetworkTopology",
            "metadata": {
                "name": "default",
                "labels": {"app.kubernetes.io/managed-by": "rollcall"},
                "ownerReferences": [OWNER],
            },
            "spec": {
                "networkTopologySpec": [
                    {"topologyLayer": "zone", "labelKey": ["example.com/zone"]},
                    {"topologyLayer": "rack", "parentTopologyLayer": "zone", "labelKey": ["example.com/rack"]},
                    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "rack"},
                ]
            },
        }
    ]


def test_the_level_of_hosts_is_the_built_in_layer_of_nodes() -> None:
    (made,) = KOORD.topology_objects(binding(RACK, HOST))
    assert made["spec"]["networkTopologySpec"] == [layer("rack", None, RACK), layer("NodeTopologyLayer", "rack")]
    (nodes,) = KOORD.topology_objects(binding(HOST))
    assert nodes["spec"]["networkTopologySpec"] == [layer("NodeTopologyLayer")]


def test_a_layer_has_the_name_that_constraints_use() -> None:
    mapped = settings_of("koord-scheduler", {"topologyBinding": "dc", "topologyKeyMappings": {RACK: "RackLayer"}})
    backend = mapped.profiles["koord-scheduler"].backend
    (made,) = backend.topology_objects(binding(RACK))
    assert made["spec"]["networkTopologySpec"][0]["topologyLayer"] == "RackLayer"
    drift = backend.topology_drift(binding(RACK), live(layer("other", None, RACK), layer("NodeTopologyLayer", "other")))
    assert drift is not None
    assert drift.message == Text("default", "layer other", "example.com/rack", "RackLayer")


def test_what_is_made_forms_a_tree_and_gives_each_key_its_layer() -> None:
    (made,) = KOORD.topology_objects(binding(ZONE, RACK, HOST))
    read = NETWORK_TOPOLOGIES.read(made)
    assert read is not None
    name, layers = read
    assert forms_tree(layers)
    facts = ClusterFacts(network_topologies={name: layers})
    assert [layer_of(key, KOORD.settings, facts) for key in (ZONE, RACK, HOST)] == ["zone", "rack", "NodeTopologyLayer"]


SPINE = layer("SpineLayer", None, ZONE)
BLOCK = layer("BlockLayer", "SpineLayer", "example.com/old", RACK)
NODES = layer("NodeTopologyLayer", "BlockLayer")
HAS = "ClusterNetworkTopology default has layers for "
WANTS = ", and ClusterTopologyBinding dc has example.com/zone, example.com/rack"
DRIFTS: dict[str, tuple[dict[str, Any] | None, str | None]] = {
    "other names and more keys of a layer": (live(NODES, SPINE, BLOCK), None),
    "missing": (None, "ClusterNetworkTopology default is missing"),
    "a layer less": (
        live(layer("BlockLayer", None, RACK), NODES),
        f"{HAS}example.com/rack{WANTS}",
    ),
    "another order": (
        live(layer("B", None, RACK), layer("S", "B", ZONE), layer("NodeTopologyLayer", "S")),
        f"{HAS}example.com/rack, example.com/zone{WANTS}",
    ),
    "no chain": (
        live(SPINE, layer("BlockLayer", None, RACK), NODES),
        Text("default", "chain", "NodeTopologyLayer"),
    ),
    "only nodes": (live(layer("NodeTopologyLayer")), f"{HAS}nodes only{WANTS}"),
    "a name that is never read": (
        live(SPINE, BLOCK, NODES, name="site"),
        Text("only", "default", "site has no effect"),
    ),
}


@pytest.mark.parametrize(("found", "told"), DRIFTS.values(), ids=DRIFTS)
def test_an_existing_object_is_compared_by_its_keys(found: dict[str, Any] | None, told: str | None) -> None:
    drift = KOORD.topology_drift(binding(ZONE, RACK), found)
    assert (None if drift is None else drift.message) == told
    assert drift is None or (drift.reason is DriftReason.NOT_FOUND) is (found is None)


IMPOSSIBLE = {
    "none": (),
    "one twice": (RACK, RACK),
    "the host above another": (HOST, RACK),
}


@pytest.mark.parametrize("keys", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_no_object_is_made_from_levels_that_koord_scheduler_cannot_use(keys: tuple[str, ...]) -> None:
    with pytest.raises(Inexpressible):
        KOORD.topology_objects(binding(*keys))


def test_an_object_that_others_manage_is_not_made() -> None:
    assert KOORD.topology_objects(binding(RACK, references={"koord-scheduler": "default"})) == []

"""What koord-scheduler places together, and in which domains of its ClusterNetworkTopology."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.fit.shapes import BLOCK, RACK, ZONE, drawn, gang, member, subset
from webhook.backends.koordinator.backend import KoordinatorBackend
from webhook.backends.koordinator.keys import KoordinatorSettings
from webhook.fit.gang_shapes import GangShape, shapes_of_workload
from webhook.fit.packing import NOTHING_STATED, Packing, Partition
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.known_objects import TopologyLayer
from webhook.model.nodes import Nodes, node_of
from webhook.validators.examples import job
from webhook.workloads.job import Job

LAYERS = ClusterFacts(
    network_topologies={
        "default": (
            TopologyLayer("zone", None, (ZONE,)),
            TopologyLayer("block", "zone", (BLOCK, "example.com/older-block")),
            TopologyLayer("rack", "block", (RACK,)),
            TopologyLayer("NodeTopologyLayer", "rack", ()),
        )
    }
)
_SPEC = "gang.scheduling.koordinator.sh/network-topology-spec"


def packed(shape: GangShape, facts: ClusterFacts = LAYERS, **settings: Any) -> Packing:
    return KoordinatorBackend(KoordinatorSettings(**settings)).packing(shape, facts, NOTHING_STATED)


def partition(packing: Packing) -> Partition:
    (need,) = packing.sets
    assert need.within is not None
    return need.within


def annotated(*entries: tuple[str, str], pods: int = 2) -> GangShape:
    spec = json.dumps({"gatherStrategy": [{"layer": layer, "strategy": strategy} for layer, strategy in entries]})
    (shape,) = shapes_of_workload(Job(job(annotations={_SPEC: spec}, parallelism=pods, completions=pods)))
    return shape


def test_the_minimum_of_every_gang_of_a_group_is_placed_together() -> None:
    found = packed(gang(member("a", 2, 5), member("b", 3)))
    assert drawn(found) == [(2, [("a", 2), ("b", 3)])]


def test_a_required_layer_holds_for_the_whole_gang() -> None:
    found = packed(gang(member("a"), member("b"), required=RACK))
    assert drawn(found) == [(2, [("a", 2), ("b", 2)], (RACK,))]
    assert found.left_out == ()


def test_a_node_without_the_lowest_layer_s_label_is_a_domain_of_its_own_and_none_of_a_broader_layer() -> None:
    assert partition(packed(gang(member("a"), required=RACK))).own_domain
    assert not partition(packed(gang(member("a"), required=ZONE))).own_domain


def test_the_hostname_stands_for_the_layer_of_single_nodes() -> None:
    found = partition(packed(gang(member("a"), required="kubernetes.io/hostname")))
    assert (found.keys, found.own_domain) == (("kubernetes.io/hostname",), True)


def test_a_single_pod_starts_anywhere_whatever_topology_it_asks_for() -> None:
    found = packed(gang(member("a", 1), required=RACK))
    assert drawn(found) == [(1, [("a", 1)])]
    assert drawn(packed(annotated(("rack", "MustGather"), pods=1))) == [(1, [("demo", 1)])]


def test_only_the_minimum_must_be_in_one_domain_and_not_all_replicas() -> None:
    found = packed(gang(member("a", 2, 100), required=RACK))
    assert drawn(found) == [(1, [("a", 2)], (RACK,))]


def test_of_several_layers_that_must_gather_only_the_deepest_counts_and_preferred_ones_do_not() -> None:
    asked = annotated(("zone", "MustGather"), ("rack", "PreferGather"))
    assert drawn(packed(asked)) == [(1, [("demo", 2)], (ZONE,))]
    asked = annotated(("zone", "MustGather"), ("rack", "MustGather"))
    assert drawn(packed(asked)) == [(1, [("demo", 2)], (RACK,))]


def test_the_layer_of_the_whole_cluster_restricts_nothing() -> None:
    found = packed(annotated(("ClusterTopologyLayer", "MustGather")))
    assert drawn(found) == [(1, [("demo", 2)])]
    assert found.left_out == ()


@pytest.mark.parametrize(
    ("shape", "facts", "settings"),
    [
        (gang(member("a"), required=RACK), NO_FACTS, {}),
        (gang(member("a"), required=RACK), ClusterFacts(network_topologies={}), {}),
        (gang(member("a"), required=RACK), LAYERS, {"awareNetworkTopology": False}),
        # A layer with two labels: the first that a node has counts.
        (gang(member("a"), required=BLOCK), LAYERS, {}),
        (gang(member("a"), required="example.com/row"), LAYERS, {}),
        (gang(member("a", required=RACK), member("b")), LAYERS, {}),
        (gang(member("a"), member("b"), subsets=[subset("group", "a")]), LAYERS, {}),
    ],
)
def test_a_topology_that_is_unknown_or_not_expressed_is_left_out_and_said_to_be(
    shape: GangShape, facts: ClusterFacts, settings: Any
) -> None:
    found = packed(shape, facts, **settings)
    (need,) = found.sets
    assert need.within is None
    assert found.left_out == (Text("ClusterNetworkTopology"),)
    assert found.unknown == ()


def labelled(*places: tuple[str | None, str | None, str | None]) -> Nodes:
    """Nodes `n0` and so on, each with the labels of a zone, a block and a rack."""
    found = Nodes()
    for index, values in enumerate(places):
        labels = {key: value for key, value in zip((ZONE, BLOCK, RACK), values, strict=True) if value is not None}
        found[f"n{index}"] = node_of({"metadata": {"name": f"n{index}", "labels": labels}})
    return found


APART: dict[str, tuple[Nodes, list[str]]] = {
    "every value is below one other": (labelled(("a", "b0", "r0"), ("a", "b0", "r1"), ("b", "b1", "r2")), []),
    "a rack is in two blocks of two zones": (labelled(("a", "b0", "r0"), ("b", "b1", "r0")), [ZONE]),
    "a rack is in two blocks of one zone": (labelled(("a", "b0", "r0"), ("a", "b1", "r0")), []),
    "a block is in two zones": (labelled(("a", "b0", "r0"), ("b", "b0", "r1")), [ZONE]),
    "a rack has the name of a node without one": (labelled(("a", "b0", "n1"), ("b", "b1", None)), [ZONE, RACK]),
    "nodes without a rack": (labelled(("a", "b0", None), ("b", "b1", None)), []),
    "a node that is in no zone": (labelled(("a", "b0", "r0"), (None, "b1", "r0")), []),
}


@pytest.mark.parametrize(("nodes", "expected"), APART.values(), ids=APART)
def test_a_layer_whose_domains_share_a_value_of_a_layer_below_is_left_out(nodes: Nodes, expected: list[str]) -> None:
    facts = replace(LAYERS, nodes=nodes)
    keys = (ZONE, RACK)
    assert [key for key in keys if packed(gang(member("a"), required=key), facts).left_out] == expected
    # The answer is kept until a node changes.
    nodes["other"] = node_of({"metadata": {"name": "other", "labels": {ZONE: "c", BLOCK: "b0", RACK: "r9"}}})
    assert packed(gang(member("a"), required=ZONE), facts).left_out

"""HyperNodes from a ClusterTopologyBinding and node labels: what is made, and how existing ones are compared."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.topology_bindings import HOST, OWNER, RACK, ZONE, binding, racked
from tests.unit.worlds import settings_of
from webhook.backends.volcano.gangs import differences, hyper_nodes, tier_of
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.keys import is_subdomain
from webhook.model.known_objects import HyperNode, TopologyBinding
from webhook.model.topology_tree import members_of


def made(name: str, tier: int, tier_name: str, kind: str, *members: str) -> dict[str, Any]:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "rollcall"}, "ownerReferences": [OWNER]},
        "spec": {
            "tier": tier,
            "tierName": tier_name,
            "members": [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members],
        },
    }


def by_name(*objects: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in objects}


def test_each_domain_becomes_a_hyper_node_and_members_come_first() -> None:
    assert hyper_nodes(binding(ZONE, RACK), racked("z1/r1", "z1/r1", "z1/r2", "z2/r3")) == [
        made("dc-rack.z1.r1", 1, "rack", "Node", "n1", "n2"),
        made("dc-rack.z1.r2", 1, "rack", "Node", "n3"),
        made("dc-rack.z2.r3", 1, "rack", "Node", "n4"),
        made("dc-zone.z1", 2, "zone", "HyperNode", "dc-rack.z1.r1", "dc-rack.z1.r2"),
        made("dc-zone.z2", 2, "zone", "HyperNode", "dc-rack.z2.r3"),
    ]


def test_a_value_below_two_parents_becomes_two_hyper_nodes() -> None:
    assert hyper_nodes(binding(ZONE, RACK), racked("z1/r1", "z2/r1")) == [
        made("dc-rack.z1.r1", 1, "rack", "Node", "n1"),
        made("dc-rack.z2.r1", 1, "rack", "Node", "n2"),
        made("dc-zone.z1", 2, "zone", "HyperNode", "dc-rack.z1.r1"),
        made("dc-zone.z2", 2, "zone", "HyperNode", "dc-rack.z2.r1"),
    ]


def test_a_node_without_a_label_is_in_no_hyper_node_and_an_empty_tier_is_left_out() -> None:
    assert hyper_nodes(binding(ZONE, RACK), racked("/r1", "/")) == [made("dc-rack.r1", 1, "rack", "Node", "n1")]
    assert hyper_nodes(binding(ZONE, RACK), racked("z1/r1", "z1/")) == [
        made("dc-rack.z1.r1", 1, "rack", "Node", "n1"),
        made("dc-zone.z1", 2, "zone", "HyperNode", "dc-rack.z1.r1"),
    ]


def test_values_that_no_name_may_contain_get_a_hash() -> None:
    nodes = {"n1": {RACK: "R_1"}, "n2": {RACK: "r-1"}, "n3": {RACK: "R.1"}, "n4": {RACK: "x" * 63}}
    names = [one["metadata"]["name"] for one in hyper_nodes(binding(RACK), nodes)]
    assert names == ["dc-rack.r-1.4cbb847258", "dc-rack.r-1.094962ae1d", "dc-rack.r-1", f"dc-rack.{'x' * 63}"]


def test_names_taken_by_others_are_left_out_everywhere() -> None:
    nodes = racked("z1/r1", "z1/r2", "z2/r3")
    assert hyper_nodes(binding(ZONE, RACK), nodes, {"dc-rack.z1.r1", "dc-rack.z2.r3"}) == [
        made("dc-rack.z1.r2", 1, "rack", "Node", "n2"),
        made("dc-zone.z1", 2, "zone", "HyperNode", "dc-rack.z1.r2"),
    ]


VALUES = st.text(alphabet="aB1-_.", min_size=1, max_size=63)
NODES = st.dictionaries(
    st.integers(0, 99).map(lambda number: f"node-{number}"),
    st.fixed_dictionaries({}, optional=dict.fromkeys((ZONE, RACK, HOST), VALUES)),
    max_size=12,
)


@given(nodes=NODES, name=st.sampled_from(["dc", "a" * 253]))
def test_no_hyper_node_has_two_parents_two_owners_of_a_node_or_an_invalid_name(
    nodes: dict[str, dict[str, str]], name: str
) -> None:
    found = hyper_nodes(binding(ZONE, RACK, HOST, name=name), nodes)
    names = [one["metadata"]["name"] for one in found]
    assert len(set(names)) == len(names)
    assert all(map(is_subdomain, names))
    children = [child for one in found for child in members_of(one, "HyperNode")]
    assert len(set(children)) == len(children)
    assert set(children) <= set(names)
    placed = [
        member["selector"]["exactMatch"]["name"]
        for one in found
        for member in one["spec"]["members"]
        if member["type"] == "Node"
    ]
    assert len(set(placed)) == len(placed)
    for place, one in enumerate(found):
        # Members are written before what contains them.
        assert set(members_of(one, "HyperNode")) <= set(names[:place])
        assert one["spec"]["members"]


@given(nodes=NODES)
def test_what_was_made_does_not_differ(nodes: dict[str, dict[str, str]]) -> None:
    given_binding = binding(ZONE, RACK, HOST)
    assert differences(given_binding, nodes, by_name(*hyper_nodes(given_binding, nodes))) is None


def test_the_tiers_that_are_made_are_those_that_constraints_find() -> None:
    objects = hyper_nodes(binding(ZONE, RACK), racked("z1/r1"))
    facts = ClusterFacts(
        topology_bindings={"dc": TopologyBinding({"zone": ZONE, "rack": RACK})},
        hyper_nodes={
            one["metadata"]["name"]: HyperNode(one["spec"]["tier"], one["spec"]["tierName"]) for one in objects
        },
    )
    assert (tier_of(RACK, "dc", facts), tier_of(ZONE, "dc", facts)) == (1, 2)


NODES_OF_TWO = racked("z1/r1", "z1/r2")
A, B = made("a", 1, "rack", "Node", "n1"), made("b", 1, "rack", "Node", "n2")
TOP = made("top", 5, "example.com/zone", "HyperNode", "a", "b")
DIFFERS = "HyperNodes differ from ClusterTopologyBinding dc: "
BY_LABEL = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {RACK: "r1"}}}}
COMPARED: dict[str, tuple[list[dict[str, Any]], str | None]] = {
    "others' names and tiers": ([A, B, TOP], None),
    "none": ([], "no HyperNode has the tierName zone; no HyperNode has the tierName rack"),
    "no broader tier": ([A, B], "no HyperNode has the tierName zone"),
    "a domain is missing, and another has its nodes": (
        [made("a", 1, "rack", "Node", "n1", "n2"), made("top", 5, "zone", "HyperNode", "a")],
        "no HyperNode has exactly the nodes of rack z1/r1; no HyperNode has exactly the nodes of rack z1/r2; "
        "HyperNode a has the nodes of no rack",
    ),
    "one HyperNode too many": ([A, B, TOP, made("c", 1, "rack", "Node", "n9")], "HyperNode c has the nodes of no rack"),
    "the tiers in the other order": (
        [
            made("a", 3, "rack", "Node", "n1"),
            made("b", 3, "rack", "Node", "n2"),
            {**TOP, "spec": {**TOP["spec"], "tier": 2}},
        ],
        "rack has tier 3 and zone has tier 2, but the binding lists zone above rack",
    ),
    "one name for two tiers": ([A, made("b", 2, "rack", "Node", "n2"), TOP], "the tiers 1, 2 share the tierName rack"),
    "members that are selected by labels are not compared": (
        [{**A, "spec": {"tier": 1, "tierName": "rack", "members": [BY_LABEL]}}, TOP],
        None,
    ),
    "more than three": (
        [made("a", 1, "rack", "Node", "n7"), made("b", 1, "rack", "Node", "n8"), made("t", 2, "zone", "Node", "n9")],
        "no HyperNode has exactly the nodes of zone z1; HyperNode t has the nodes of no zone; "
        "no HyperNode has exactly the nodes of rack z1/r1; and 3 more differences",
    ),
}


def test_a_hyper_node_with_two_parents_is_a_difference_of_whatever_tier() -> None:
    nodes = racked("z1/r1", "z2/r2")
    whole = made("site", 3, "site", "HyperNode", "dc-zone.z1", "dc-rack.z2.r2")
    live = by_name(*hyper_nodes(binding(ZONE, RACK), nodes), whole)
    assert differences(binding(ZONE, RACK), nodes, live) == (
        "HyperNodes differ from ClusterTopologyBinding dc: HyperNode dc-rack.z2.r2 is a member of dc-zone.z2 and of "
        "site, so volcano places no gang with a topology"
    )
    whole["spec"]["members"].pop()
    assert differences(binding(ZONE, RACK), nodes, live) is None


@pytest.mark.parametrize(("live", "told"), COMPARED.values(), ids=COMPARED)
def test_existing_hyper_nodes_are_compared_by_their_nodes(live: list[dict[str, Any]], told: str | None) -> None:
    found = differences(binding(ZONE, RACK), NODES_OF_TWO, by_name(*live))
    assert found == (None if told is None else DIFFERS + told)


WRONG = {
    "no levels": (),
    "one key twice": (RACK, RACK),
}


@pytest.mark.parametrize("keys", WRONG.values(), ids=WRONG)
def test_levels_that_cannot_become_tiers_are_refused(keys: tuple[str, ...]) -> None:
    with pytest.raises(Inexpressible):
        hyper_nodes(binding(*keys), racked("z1/r1"))


def test_a_profile_has_no_topology_objects_until_it_names_a_binding() -> None:
    plain = settings_of("volcano").profiles["volcano"].backend
    assert (plain.topology_kind, plain.topology_written) == (None, False)
    named = settings_of("volcano", {"topologyBinding": "dc"}).profiles["volcano"].backend
    assert named.topology_kind is not None
    assert (named.topology_binding, named.topology_written) == ("dc", False)
    unnamed = settings_of("volcano", {"topologyObjects": "write"}).profiles["volcano"].backend
    assert unnamed.topology_binding == ""
    assert "volcano: no HyperNode is written: topologyBinding names no ClusterTopologyBinding" in unnamed.init(
        ClusterFacts()
    )

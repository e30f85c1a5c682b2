"""The domains that nodes form by their labels, and what is reported about the labels."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.texts import require_like
from tests.unit.topology_bindings import HOST, RACK, ZONE, binding, racked
from webhook.model.topology_tree import NodeLabels, tree_of


def domains(keys: tuple[str, ...], nodes: NodeLabels) -> dict[str, dict[str, tuple[str, ...]]]:
    """By the level's domain: the nodes of each domain."""
    levels = tree_of(binding(*keys), nodes).levels
    return {
        level.level.domain or "": {"/".join(domain.path): domain.nodes for domain in level.domains} for level in levels
    }


def test_nodes_with_equal_values_are_one_domain_of_each_level() -> None:
    nodes = racked("z1/r1", "z1/r1", "z1/r2", "z2/r3")
    assert domains((ZONE, RACK), nodes) == {
        "zone": {"z1": ("n1", "n2", "n3"), "z2": ("n4",)},
        "rack": {"z1/r1": ("n1", "n2"), "z1/r2": ("n3",), "z2/r3": ("n4",)},
    }
    assert tree_of(binding(ZONE, RACK), nodes).problems == ()


def test_the_narrowest_level_has_tier_1() -> None:
    levels = tree_of(binding(ZONE, RACK, HOST), racked("z1/r1")).levels
    assert [(level.level.domain, level.tier) for level in levels] == [("zone", 3), ("rack", 2), ("hostname", 1)]


def test_an_empty_level_is_left_out_and_the_other_tiers_stay() -> None:
    tree = tree_of(binding(ZONE, RACK), racked("/r1", "/r1"))
    assert [(level.level.domain, level.tier) for level in tree.levels] == [("rack", 1)]
    assert tree_of(binding(ZONE, RACK), {}).levels == ()


class Fault(NamedTuple):
    nodes: NodeLabels
    told: list[tuple[str, str]]
    keys: tuple[str, ...] = (ZONE, RACK)


FAULTS = {
    "a node without the narrowest label": Fault(
        racked("z1/r1", "z1/"), [("unlabelled", "1 node lacks the label example.com/rack of the level rack: n2")]
    ),
    "nodes without the broadest label, and many of them": Fault(
        racked("z1/r1", "/r2", "/r2", "/r2", "/r3"),
        [("unlabelled", "4 nodes lack the label example.com/zone of the level zone: n2, n3, n4 and 1 more")],
    ),
    "an empty label is no label": Fault(
        {"n1": {ZONE: "z1", RACK: "r1"}, "n2": {ZONE: "z1", RACK: ""}},
        [("unlabelled", "1 node lacks the label example.com/rack of the level rack: n2")],
    ),
    "a node of the control plane needs no label": Fault(
        {"n1": {ZONE: "z1", RACK: "r1"}, "master": {"node-role.kubernetes.io/control-plane": ""}}, []
    ),
    "a level that no node has": Fault(
        racked("/r1"), [("empty", "no node has the label example.com/zone, so the level zone is empty")]
    ),
    "no nodes at all": Fault(
        {},
        [
            ("empty", "no node has the label example.com/zone, so the level zone is empty"),
            ("empty", "no node has the label example.com/rack, so the level rack is empty"),
        ],
    ),
    "a value below two parents": Fault(
        racked("z1/r1", "z2/r1", "z1/r2", "z2/r3"),
        [("twoParents", "rack r1 is in several zone domains (z1, z2): ...")],
    ),
    "two values below two parents": Fault(
        racked("z1/r1", "z2/r1", "z1/r2", "z2/r2"),
        [("twoParents", "rack r1 is in several zone domains (z1, z2), and 1 more: ...")],
    ),
    "the levels in the other order": Fault(
        racked("z1/r1", "z1/r2", "z2/r3", "z2/r4"),
        [("order", "each rack is in one zone, and zone z1 has several: ... rack above zone, ...")],
        keys=(RACK, ZONE),
    ),
}


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS)
def test_what_is_wrong_with_the_labels_is_reported(case: Fault) -> None:
    problems = tree_of(binding(*case.keys), case.nodes).problems
    assert [kind for kind, _ in problems] == [kind for kind, _ in case.told]
    require_like([text for _, text in problems], [text for _, text in case.told])

"""What Volcano places together, and in which HyperNodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import Text
from tests.unit.fit.shapes import RACK, drawn, gang, member, subset, template
from webhook.backends.volcano.backend import VolcanoBackend
from webhook.backends.volcano.gangs import is_plain, nodes_of_tier
from webhook.backends.volcano.keys import HYPER_NODES, VolcanoSettings
from webhook.fit.gang_shapes import GangShape, shapes_of_workload
from webhook.fit.packing import NOTHING_STATED, Packing
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.known_objects import HyperNodes
from webhook.model.nodes import Nodes, node_of
from webhook.model.reading import Manifest
from webhook.validators.examples import job
from webhook.workloads.job import Job

_MODE, _TIER = "volcano.sh/network-topology-mode", "volcano.sh/network-topology-highest-tier"


def exact(kind: str, name: str) -> Manifest:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def pattern(found: str) -> Manifest:
    return {"type": "Node", "selector": {"regexMatch": {"pattern": found}}}


def label(**labels: str) -> Manifest:
    return {"type": "Node", "selector": {"labelMatch": {"matchLabels": labels}}}


def hyper_nodes(**known: tuple[int, list[Manifest]]) -> HyperNodes:
    found = HyperNodes()
    for name, (tier, members) in known.items():
        spec = {"tier": tier, "tierName": {1: RACK}.get(tier), "members": members}
        found.update([HYPER_NODES.read({"metadata": {"name": name}, "spec": spec})])
    return found


def nodes(*names: str, **labels: str) -> Nodes:
    found = Nodes()
    for name in names:
        found[name] = node_of({"metadata": {"name": name, "labels": labels}})
    return found


def below(tier: int, known: HyperNodes, there: Nodes) -> dict[str, set[str]]:
    found = nodes_of_tier(tier, known, there)
    assert found is not None
    return {name: set(members) for name, members in found.items()}


TREE = ClusterFacts(
    hyper_nodes=hyper_nodes(
        r1=(1, [exact("Node", "a1"), exact("Node", "a2")]),
        r2=(1, [exact("Node", "b1")]),
        top=(2, [exact("HyperNode", "r1"), exact("HyperNode", "r2")]),
    ),
    nodes=nodes("a1", "a2", "b1", "c1"),
    topology_bindings={},
)
RACKS = {"r1": {"a1", "a2"}, "r2": {"b1"}}


def packed(shape: GangShape, facts: ClusterFacts = TREE, **settings: Any) -> Packing:
    backend = VolcanoBackend(VolcanoSettings(**{"topology": "hypernode", **settings}))
    return backend.packing(shape, facts, NOTHING_STATED)


def test_the_minimum_of_every_member_is_placed_together() -> None:
    assert drawn(packed(gang(member("a", 2, 5), member("b", 3)))) == [(2, [("a", 2), ("b", 3)])]


def test_best_effort_pods_are_not_required_to_have_a_place() -> None:
    nothing = member("sidekick", 100, template=template())
    some, alone = packed(gang(member("a"), nothing)), packed(gang(nothing))
    assert (drawn(some), drawn(alone)) == ([(1, [("a", 2)])], [])
    # Volcano does not look for a place for them, so the verdict says nothing of it.
    assert some.unjudged == alone.left_out == (Text("request nothing"),)


def test_a_hard_tier_holds_for_the_whole_gang_and_only_for_its_minimum() -> None:
    found = packed(gang(member("a", 2, 50), required=RACK))
    assert drawn(found) == [(1, [("a", 2)], RACKS)]
    assert found.left_out == ()


def test_a_member_has_a_tier_of_its_own_and_the_closest_counts() -> None:
    found = packed(gang(member("a", required=RACK), member("b"), subsets=[subset("group", "b")]))
    assert drawn(found) == [(2, [("a", 2, RACKS), ("b", 2, RACKS)])]


def test_a_group_of_several_members_cannot_share_a_hyper_node_so_that_is_left_out() -> None:
    found = packed(gang(member("a"), member("b"), subsets=[subset("group", "a", "b")]))
    assert drawn(found) == [(2, [("a", 2), ("b", 2)])]
    assert found.left_out == (Text("HyperNodes"),)


@pytest.mark.parametrize(
    ("facts", "settings"),
    [
        (TREE, {"topology": "off"}),
        (NO_FACTS, {}),
        (ClusterFacts(hyper_nodes=HyperNodes(), nodes=TREE.nodes, topology_bindings={}), {}),
        (ClusterFacts(hyper_nodes=TREE.hyper_nodes, topology_bindings={}), {}),
        (
            ClusterFacts(
                hyper_nodes=TREE.hyper_nodes, nodes=TREE.nodes, topology_bindings={}, partial=frozenset({"hyper_nodes"})
            ),
            {},
        ),
    ],
)
def test_topology_is_not_applied_with_the_plugin_off_or_without_known_hyper_nodes(
    facts: ClusterFacts, settings: Any
) -> None:
    found = packed(gang(member("a"), required=RACK), facts, **settings)
    assert drawn(found) == [(1, [("a", 2)])]
    assert found.left_out == (Text("HyperNodes"),)


def test_an_opted_in_workload_requires_the_tier_of_its_annotations_unless_it_is_soft_or_above_all() -> None:
    def asked(**annotations: str) -> list[Any]:
        said = {key: value for key, value in ((_MODE, annotations.get("mode")), (_TIER, annotations["tier"])) if value}
        (shape,) = shapes_of_workload(Job(job(annotations=said, template=_of_a_cpu())))
        return drawn(packed(shape))

    assert asked(tier="1") == [(1, [("demo", 2)], RACKS)]
    assert asked(tier="1", mode="soft") == [(1, [("demo", 2)])]
    assert asked(tier="3") == [(1, [("demo", 2)])]


def _of_a_cpu() -> Manifest:
    return {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}


def test_nodes_are_members_by_name_by_expression_by_label_and_through_hyper_nodes() -> None:
    known = hyper_nodes(
        r1=(1, [exact("Node", "x"), pattern("^a[0-9]$")]),
        r2=(1, [label(row="2")]),
        # Volcano ignores an expression for HyperNodes, and a child that does not exist.
        top=(2, [exact("HyperNode", "r1"), exact("HyperNode", "r2"), exact("HyperNode", "gone")]),
        lone=(1, [{"type": "HyperNode", "selector": {"regexMatch": {"pattern": "r.*"}}}, exact("Node", "z")]),
    )
    there = nodes("a1", "a2", "a10")
    there.update({node.name: node for node in nodes("b1", row="2").values()})
    assert below(1, known, there) == {"r1": {"x", "a1", "a2"}, "r2": {"b1"}, "lone": {"z"}}
    assert below(2, known, there) == {"top": {"x", "a1", "a2", "b1"}, "lone": {"z"}}


def test_the_answer_follows_each_change_of_a_node_or_a_hyper_node() -> None:
    known = hyper_nodes(r1=(1, [pattern("^a")]))
    there = nodes("a1")
    assert below(1, known, there) == {"r1": {"a1"}}
    assert nodes_of_tier(1, known, there) is nodes_of_tier(1, known, there)
    there["a2"] = node_of({"metadata": {"name": "a2"}})
    assert below(1, known, there) == {"r1": {"a1", "a2"}}
    known.update([HYPER_NODES.read({"metadata": {"name": "r1"}, "spec": {"tier": 1, "members": [pattern("2$")]}})])
    assert below(1, known, there) == {"r1": {"a2"}}


@pytest.mark.parametrize(
    "known",
    [
        # Two parents, a cycle, and members that are not known.
        hyper_nodes(
            r1=(1, [exact("Node", "a1")]), s=(2, [exact("HyperNode", "r1")]), t=(2, [exact("HyperNode", "r1")])
        ),
        hyper_nodes(r1=(1, [exact("HyperNode", "r2")]), r2=(1, [exact("HyperNode", "r1")])),
        hyper_nodes(r1=(1, [])),
        hyper_nodes(r1=(1, [pattern("(a+)+$")])),
    ],
)
def test_a_tree_that_volcano_would_refuse_or_that_cannot_be_read_is_unknown(known: HyperNodes) -> None:
    assert nodes_of_tier(1, known, nodes("a1")) is None


@pytest.mark.parametrize(
    ("expression", "plain"),
    [
        ("^gpu-node-[0-9]{1,3}$", True),
        ("rack-(a|b)-.*", True),
        (r"node-\d+\.example\.com", True),
        ("(a+)+", False),
        ("(?i)node", False),
        ("[[:alpha:]]", False),
        (r"\bnode", False),
        ("a*?b", False),
        ("a*b*c*d*", False),
        ("(", False),
    ],
)
def test_only_expressions_that_go_and_python_read_alike_and_quickly_are_used(expression: str, plain: bool) -> None:
    assert is_plain(expression) is plain

"""The tree of gangs: by hand, and compared with the gangs that Grove creates."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given

from tests.strategies import pod_clique_sets
from webhook.model.facts import ClusterFacts
from webhook.model.grove import GroveGeneration
from webhook.model.known_objects import TopologyBinding
from webhook.model.reading import Manifest
from webhook.offline.gang_tree import TreeLevel, TreeNode, gang_tree
from webhook.offline.translation import STAND_INS, expected_gangs, pods_of_set
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group
from webhook.workloads.pod_clique_set import PodCliqueSet

FACTS = ClusterFacts(topology_bindings={"dc": TopologyBinding({}), "": TopologyBinding({})})


def tree_of(manifest: Manifest) -> TreeNode:
    return gang_tree(PodCliqueSet(manifest), GroveGeneration.LEGACY)


def test_a_set_of_one_clique_is_one_gang() -> None:
    assert tree_of(pod_clique_set(clique("worker", replicas=3, minimum=2))).as_json() == {
        "kind": "PodCliqueSet",
        "name": "default/demo",
        "pods": 3,
        "minimum": 2,
        "below": [
            {
                "kind": "PodGang",
                "name": "demo-0",
                "pods": 3,
                "minimum": 2,
                "below": [{"kind": "PodClique", "name": "worker", "pods": 3, "minimum": 2}],
            }
        ],
    }


def test_a_scaled_gang_waits_for_its_base_and_each_level_shows_its_topology() -> None:
    manifest = pod_clique_set(
        clique("front", topologyConstraint=required("host")),
        clique("worker", replicas=4),
        groups=[
            scaling_group("ring", "worker", replicas=2, minAvailable=1, topologyConstraint=preferred("rack")),
        ],
        topologyConstraint=required("block"),
    )
    base, scaled = tree_of(manifest).below
    assert (base.name, base.required, base.waits_for, base.pods) == ("demo-0", "block", None, 6)
    front, ring = base.below
    assert (front.level, front.name, front.required) == (TreeLevel.CLIQUE, "front", "host")
    assert (ring.level, ring.name, ring.preferred, ring.pods) == (TreeLevel.GROUP, "ring-0", "rack", 4)
    assert (scaled.name, scaled.waits_for, scaled.preferred, scaled.pods) == ("demo-0-ring-0", "demo-0", "rack", 4)


def test_equal_gangs_are_counted_and_not_listed() -> None:
    manifest = pod_clique_set(
        clique("worker", replicas=3), groups=[scaling_group("ring", "worker", replicas=1000, minAvailable=10)]
    )
    manifest["spec"]["replicas"] = 10_000
    tree = tree_of(manifest)
    assert (tree.pods, tree.minimum) == (30_000_000, 300_000)
    base, scaled = tree.below
    assert (base.name, base.more, base.last, base.pods) == ("demo-0", 9_999, "demo-9999", 30)
    assert (scaled.name, scaled.more, scaled.last) == ("demo-0-ring-0", 989, "demo-0-ring-989")
    (ring,) = base.below
    assert (ring.name, ring.more, ring.last) == ("ring-0", 9, "ring-9")


def test_two_equal_gangs_are_both_shown() -> None:
    manifest = pod_clique_set(clique("worker"))
    manifest["spec"]["replicas"] = 2
    assert [(gang.name, gang.more) for gang in tree_of(manifest).below] == [("demo-0", 0), ("demo-1", 0)]


def test_invalid_numbers_cause_no_error() -> None:
    manifest = pod_clique_set(clique("w"), groups=[scaling_group("g", "w", "gone", replicas=-3, minAvailable=-9)])
    manifest["spec"]["replicas"] = -1
    assert (tree_of(manifest).below, tree_of(manifest).pods) == ((), 0)


def gangs(node: TreeNode) -> Iterator[TreeNode]:
    for below in node.below:
        if below.level is TreeLevel.GANG:
            yield below


def test_the_gang_of_a_replica_above_the_minimum_has_the_topology_of_the_set_and_its_group_below() -> None:
    manifest = pod_clique_set(
        clique("worker", replicas=4),
        groups=[scaling_group("ring", "worker", replicas=2, minAvailable=1, topologyConstraint=preferred("rack"))],
        topologyConstraint=required("block"),
    )
    base, further = gang_tree(PodCliqueSet(manifest), GroveGeneration.POD_GANG_MAP).below
    assert base.name == "demo-0-<epoch>"
    assert (further.name, further.waits_for) == ("demo-0-<epoch>-ring-1", "demo-0-<epoch>")
    assert (further.required, further.preferred) == ("block", None)
    (ring,) = further.below
    assert (ring.level, ring.name, ring.required, ring.preferred) == (TreeLevel.GROUP, "ring-1", None, "rack")


@pytest.mark.parametrize("generation", GroveGeneration)
@given(manifest=pod_clique_sets())
def test_the_tree_has_the_gangs_that_grove_will_create(generation: GroveGeneration, manifest: Manifest) -> None:
    workload = PodCliqueSet(manifest)
    tree = gang_tree(workload, generation)
    expected = list(expected_gangs(workload, FACTS, generation))
    assert [gang.name for gang in gangs(tree)] == [gang.name.replace(STAND_INS[0], "<epoch>") for gang in expected]
    assert [gang.pods for gang in gangs(tree)] == [sum(one.pods for one in gang.members) for gang in expected]
    assert tree.pods == pods_of_set(workload)

"""What kube-scheduler places together, by the version that the cluster serves and the gates that the scheduler has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.backends.kube_gangs import BETA_TREE, NEITHER, TREE
from tests.unit.fit.shapes import RACK, ZONE, drawn, gang, member, subset
from webhook.backends.kube.backend import KubeBackend
from webhook.backends.kube.workload_api import KubeSettings
from webhook.fit.domains import NO_DOMAIN, membership_of
from webhook.fit.gang_shapes import GangShape
from webhook.fit.packing import NOTHING_STATED, NodeClass, Packing
from webhook.model.facts import NO_FACTS
from webhook.model.keys import Api
from webhook.model.reading import Manifest
from webhook.offline.fact_files import facts_in

TWO = gang(member("a"), member("b", 3))
IN_DOMAINS = gang(
    member("a", required=RACK), member("b", 3), member("c", 1), subsets=[subset("group", "b", "c")], required=ZONE
)
_ALL: list[Any] = ["GenericWorkload", "CompositePodGroup", "TopologyAwareWorkloadScheduling"]


def _node(name: str, zone: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {ZONE: zone}}, "status": {}}


def packed(shape: GangShape, **settings: Any) -> Packing:
    backend = KubeBackend(KubeSettings(**settings))
    return backend.packing(shape, NO_FACTS, NOTHING_STATED)


def test_without_gangs_each_pod_starts_alone() -> None:
    assert drawn(packed(TWO)) == [("a", 1), ("b", 1)]


def test_without_the_gate_for_gangs_each_pod_starts_alone() -> None:
    assert drawn(packed(TWO, gangScheduling=True, apiGeneration="v1alpha1", schedulerGates=[])) == [("a", 1), ("b", 1)]


def test_groups_of_one_workload_are_independent_where_there_are_no_composites() -> None:
    for generation in ("v1alpha1", "v1alpha2"):
        found = packed(TWO, gangScheduling=True, apiGeneration=generation, flat="allow")
        assert drawn(found) == [("a", 2), ("b", 3)]
    found = packed(TWO, gangScheduling=True, apiGeneration="v1beta1", hierarchical="off", flat="allow")
    assert drawn(found) == [("a", 2), ("b", 3)]


def test_merged_groups_are_placed_together() -> None:
    found = packed(TWO, gangScheduling=True, apiGeneration="v1alpha2")
    assert drawn(found) == [(2, [("a", 2), ("b", 3)])]


def test_a_merged_group_with_pods_above_a_minimum_is_not_judged_because_it_counts_any_pods() -> None:
    spare = gang(member("a", 2, 3), member("b", 3))
    assert packed(spare, gangScheduling=True, apiGeneration="v1alpha2").unknown != ()
    alone = gang(member("a", 2, 3))
    assert drawn(packed(alone, gangScheduling=True, apiGeneration="v1alpha2")) == [(1, [("a", 2)])]


def test_a_topology_key_is_not_applied_while_the_scheduler_s_gate_is_off() -> None:
    gates = ["GenericWorkload", "CompositePodGroup"]
    found = packed(IN_DOMAINS, gangScheduling=True, apiGeneration="v1beta1", schedulerGates=gates)
    assert drawn(found) == [(2, [("a", 2), (2, [("b", 3), ("c", 1)])])]
    assert found.left_out != ()


def test_with_unknown_gates_the_sum_of_a_tree_counts_and_no_domain() -> None:
    """A gang whose sum fits nowhere never runs whole, whatever the gates are."""
    found = packed(IN_DOMAINS, gangScheduling=True, apiGeneration="v1beta1")
    assert drawn(found) == [(2, [("a", 2), (2, [("b", 3), ("c", 1)])])]
    assert found.left_out == (Text("(schedulerGates)"),)


@pytest.mark.parametrize(
    ("apis", "stated", "filled"),
    [(TREE, None, False), (BETA_TREE, None, False), (None, "1.37", False), (None, "1.38", True)],
    ids=["an API server of 1.37", "an API server of 1.38", "stated: 1.37", "stated: 1.38"],
)
def test_nodes_with_an_empty_label_are_in_no_domain_of_a_scheduler_of_1_38(
    apis: frozenset[Api] | None, stated: str | None, filled: bool
) -> None:
    """Else such a node counts for *never*, and *fits* is not said. The scheduler may be older than the API server."""
    backend = KubeBackend(KubeSettings(gangScheduling=True, schedulerGates=_ALL))
    served = None if apis is None else apis | NEITHER
    facts = replace(facts_in([_node("n1", "a"), _node("n2", "")]), apis=served, kubernetes=stated)
    found = backend.packing(IN_DOMAINS, facts, NOTHING_STATED)
    assert found.left_out == (() if filled else (Text(ZONE, "is empty"),))
    (need,) = found.sets
    assert need.within is not None
    assert (need.within.lacks({ZONE: ""}), need.within.lacks({})) == (filled, True)
    empty = NodeClass({}, {ZONE: ""}, 1, frozenset(), ())
    assert (membership_of(empty, need.within, {}) == NO_DOMAIN) is filled


def test_a_tree_is_placed_together_with_each_group_in_its_domain() -> None:
    found = packed(IN_DOMAINS, gangScheduling=True, apiGeneration="v1beta1", schedulerGates=_ALL)
    group = (2, [("b", 3), ("c", 1)], (RACK,))
    assert drawn(found) == [(2, [("a", 2, (RACK,)), group], (ZONE,))]
    assert found.left_out == ()


def test_members_of_one_template_without_a_domain_are_counted_together() -> None:
    shape = gang(member("x-0", role="x"), member("x-1", role="x"), member("y", 0))
    found = packed(shape, gangScheduling=True, apiGeneration="v1alpha2")
    assert drawn(found) == [(1, [("x", 4)])]


@pytest.mark.parametrize("gates", [None, _ALL])
def test_an_unknown_version_of_the_api_proves_nothing(gates: Any) -> None:
    assert packed(TWO, gangScheduling=True, schedulerGates=gates).unknown == (Text("version", "Workload API"),)

"""What kube-scheduler places together, by the version that the cluster serves and the gates that the scheduler has."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import Text
from tests.unit.fit.shapes import RACK, ZONE, drawn, gang, member, subset
from webhook.backends.kube.backend import KubeBackend
from webhook.backends.kube.settings import KubeSettings
from webhook.fit.packing import Packing
from webhook.fit.settings import NOTHING_STATED
from webhook.fit.shape import GangShape
from webhook.model.facts import NOTHING_KNOWN

TWO = gang(member("a"), member("b", 3))
IN_DOMAINS = gang(
    member("a", required=RACK), member("b", 3), member("c", 1), subsets=[subset("group", "b", "c")], required=ZONE
)
_ALL = ["GenericWorkload", "CompositePodGroup", "TopologyAwareWorkloadScheduling"]


def packed(shape: GangShape, **settings: Any) -> Packing:
    backend = KubeBackend(KubeSettings(**settings))
    return backend.packing(shape, NOTHING_KNOWN, NOTHING_STATED)


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


def test_with_unknown_gates_the_groups_of_a_tree_are_taken_as_independent() -> None:
    found = packed(IN_DOMAINS, gangScheduling=True, apiGeneration="v1beta1")
    assert drawn(found) == [("a", 2), ("b", 3), ("c", 1)]
    assert found.left_out == (Text("(schedulerGates)"),)


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

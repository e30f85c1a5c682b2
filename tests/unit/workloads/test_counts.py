"""Conditions and counts of WorkloadShapes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.workloads.workloads import declared, shape_of
from webhook.model.reading import Malformed
from webhook.workloads.workload_shape import ShapeScope

FOR = {"group": "example.com", "kind": "Training", "plural": "trainings", "versions": ["v1"]}


def _pods(count: Any, spec: dict[str, Any]) -> int:
    part = {"template": "$.spec.template", "pods": count}
    (found,) = shape_of(declared({"for": FOR, "parts": [part]})).parts
    return found.pods.value(ShapeScope({"spec": spec}))


def _holds(condition: Any, spec: dict[str, Any]) -> bool:
    shape = shape_of(declared({"for": FOR, "suspended": condition, "gang": {"over": "none"}}))
    return shape.suspended[0].holds(ShapeScope({"spec": spec}))


DESIRED = {
    "path": "$.spec.replicas",
    "default": {"path": "$.spec.min", "default": 0},
    "atLeast": {"path": "$.spec.min", "default": 0},
    "atMost": {"path": "$.spec.max", "default": 100},
    "times": {"path": "$.spec.hosts", "default": 1},
    "zeroIf": {"path": "$.spec.suspend", "is": True},
}


@pytest.mark.parametrize(
    ("count", "spec", "pods"),
    [
        (3, {}, 3),
        ("$.spec.replicas", {"replicas": 2}, 2),
        ("$.spec.replicas", {}, 0),
        (DESIRED, {}, 0),
        (DESIRED, {"min": 2}, 2),
        (DESIRED, {"replicas": 1, "min": 2}, 2),
        (DESIRED, {"replicas": 9, "max": 4}, 4),
        (DESIRED, {"replicas": 3, "hosts": 4}, 12),
        (DESIRED, {"replicas": 3, "suspend": True}, 0),
        ({"path": "$.spec.replicas", "minus": 1, "times": 2}, {"replicas": 4}, 6),
        ({"path": "$.spec.replicas", "minus": 9}, {"replicas": 4}, 0),
        ({"path": "$.spec.replicas", "times": 2**31 - 1}, {"replicas": 2**62}, 2**31 - 1),
        ({"path": "$.spec.replicas"}, {"replicas": -3}, 0),
    ],
)
def test_counts(count: Any, spec: dict[str, Any], pods: int) -> None:
    assert _pods(count, spec) == pods


@pytest.mark.parametrize("wrong", ["3", 2.5, True, [], {}])
def test_a_count_of_another_type_is_an_error(wrong: object) -> None:
    with pytest.raises(Malformed):
        _pods("$.spec.replicas", {"replicas": wrong})


@pytest.mark.parametrize(
    ("condition", "spec", "holds"),
    [
        ({"path": "$.spec.mode", "is": "a"}, {"mode": "a"}, True),
        ({"path": "$.spec.mode", "is": ["a", "b"]}, {"mode": "b"}, True),
        ({"path": "$.spec.mode", "is": "a"}, {}, False),
        ({"path": "$.spec.mode", "is": "a", "default": "a"}, {}, True),
        ({"path": "$.spec.mode", "isNot": "a"}, {"mode": "b"}, True),
        ({"path": "$.spec.mode", "isNot": ["a", "b"]}, {"mode": "b"}, False),
        ({"path": "$.spec.on", "is": True}, {"on": True}, True),
        ({"path": "$.spec.on", "is": True}, {"on": 1}, False),
        ({"path": "$.spec.on", "is": 1}, {"on": True}, False),
        ({"path": "$.spec.policy", "exists": True}, {"policy": {}}, False),
        ({"path": "$.spec.policy", "exists": True}, {"policy": {"a": 1}}, True),
        ({"path": "$.spec.policy", "exists": False}, {}, True),
        ({"path": "$.spec.name", "exists": True}, {"name": ""}, False),
        ({"path": "$.spec.count", "exists": True}, {"count": 0}, True),
    ],
)
def test_conditions(condition: Any, spec: dict[str, Any], *, holds: bool) -> None:
    assert _holds(condition, spec) is holds


def test_an_object_cannot_be_compared() -> None:
    with pytest.raises(Malformed):
        _holds({"path": "$.spec.mode", "is": "a"}, {"mode": {}})

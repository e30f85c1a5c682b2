"""The section `fit`: what is stated of nodes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import require_like
from tests.unit.config.configurations import HEAD, problems_of
from webhook.config.file import settings_from
from webhook.fit.packing import NOTHING_STATED, FitSettings, Growth, NodeTemplate
from webhook.model.nodes import Taint


def fit(section: Any) -> FitSettings:
    return settings_from({**HEAD, "fit": section}, "test.yaml").fit


@pytest.mark.parametrize("section", [None, {}, {"templates": None, "nodes": None}])
def test_without_keys_nothing_is_stated(section: Any) -> None:
    assert fit(section) == NOTHING_STATED
    assert NOTHING_STATED.nodes is Growth.AUTO


def test_node_groups_are_read_with_numbers_as_quantities() -> None:
    group = {
        "name": "h100",
        "allocatable": {"cpu": 180, "memory": "1900Gi", "nvidia.com/gpu": 8},
        "labels": {"accelerator": "h100"},
        "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
        "max": 64,
    }
    small = {"name": "cpu", "allocatable": {"cpu": "7.5", "memory": "30Gi"}, "labels": None}
    assert fit({"nodes": "mayGrow", "templates": [group, small], "ignoredResources": ["a.b/c"]}) == FitSettings(
        nodes=Growth.MAY_GROW,
        templates=(
            NodeTemplate(
                "h100",
                {"cpu": "180", "memory": "1900Gi", "nvidia.com/gpu": "8"},
                {"accelerator": "h100"},
                (Taint("nvidia.com/gpu", "", "NoSchedule"),),
                64,
            ),
            NodeTemplate("cpu", {"cpu": "7.5", "memory": "30Gi"}, {}),
        ),
        ignored_resources=frozenset({"a.b/c"}),
    )


_SIZE = {"cpu": "1", "memory": "1Gi"}
MISTAKES: dict[str, tuple[Any, list[str]]] = {
    "a word that there is not": (
        {"nodes": "may grow"},
        ['fit.nodes: "may grow": is not allowed; did you mean mayGrow? (allowed: auto, fixed, mayGrow)'],
    ),
    "an unknown key of a group": (
        {"templates": [{"name": "a", "allocatable": _SIZE, "maximum": 3}]},
        [
            "fit.templates[0].maximum: 3: is an unknown key; did you mean max? "
            "(allowed: name, allocatable, labels, taints, max)"
        ],
    ),
    "a group without a name": (
        {"templates": [{"allocatable": _SIZE}]},
        ["fit.templates[0].name: is required"],
    ),
    "no quantity": (
        {"templates": [{"name": "a", "allocatable": {**_SIZE, "cpu": "many"}}]},
        ['fit.templates[0].allocatable.cpu: "many": is not a quantity...'],
    ),
    "less than nothing": (
        {"templates": [{"name": "a", "allocatable": {**_SIZE, "cpu": -1}}]},
        ["fit.templates[0].allocatable.cpu: -1: is not a quantity..."],
    ),
    "a group without memory": (
        {"templates": [{"name": "a", "allocatable": {"cpu": 1}}]},
        ['fit.templates[0]: {"name": "a", "allocatable": {"cpu": 1}}: allocatable must have memory'],
    ),
    "an effect that there is not": (
        {"templates": [{"name": "a", "allocatable": _SIZE, "taints": [{"key": "a", "effect": "Never"}]}]},
        [
            'fit.templates[0].taints[0].effect: "Never": is not allowed '
            "(allowed: NoSchedule, PreferNoSchedule, NoExecute)"
        ],
    ),
    "a maximum below zero": (
        {"templates": [{"name": "a", "allocatable": _SIZE, "max": -1}]},
        ["fit.templates[0].max: -1: input should be greater than or equal to 0"],
    ),
    "two groups with one name": (
        {"templates": [{"name": "a", "allocatable": _SIZE}, {"name": "a", "allocatable": _SIZE}]},
        ['fit: {"templates": [{"name": "a", "allocatable": {"cpu": "1", "memory": "1Gi"}}, {"na: ...the name a'],
    ),
}


@pytest.mark.parametrize(("section", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_reported_with_path_value_and_allowed_values(section: Any, expected: list[str]) -> None:
    require_like(problems_of(fit, section), expected)

"""The fields that are read of the Workload API's objects, in each of its versions."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.backends.kube.groups import (
    GroupMembership,
    membership_of,
    read_composite_pod_group,
    read_pod_group,
    read_workload,
)
from webhook.model.capabilities import Disruption
from webhook.model.pod_groups import TreeGroup
from webhook.model.reading import Malformed


def named(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "job", "namespace": "team-a"}, "spec": spec}


def test_a_PodGroup_of_1_36_is_read() -> None:
    spec = {
        "podGroupTemplateRef": {"workload": {"workloadName": "job", "podGroupTemplateName": "worker"}},
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
        "disruptionMode": "PodGroup",
        "priorityClassName": "high",
        "priority": 7,
    }
    assert read_pod_group(named(spec)) == (
        ("team-a", "job"),
        TreeGroup(False, 4, None, "job", "worker", Disruption.ALL, "example.com/rack", "high", 7),
    )


def test_a_PodGroup_of_1_37_is_read() -> None:
    spec = {
        "parentCompositePodGroupName": "ring",
        "workloadRef": {"workloadName": "job", "templateName": "worker"},
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
        "disruptionMode": {"all": {}},
    }
    assert read_pod_group(named(spec)) == (
        ("team-a", "job"),
        TreeGroup(False, 4, "ring", "job", "worker", Disruption.ALL, "example.com/rack"),
    )


def test_a_CompositePodGroup_is_read() -> None:
    spec = {
        "parentCompositePodGroupName": "top",
        "workloadRef": {"workloadName": "job", "templateName": "ring"},
        "schedulingPolicy": {"gang": {"minGroupCount": 2}},
        "disruptionMode": {"single": {}},
    }
    assert read_composite_pod_group(named(spec))[1] == TreeGroup(True, 2, "top", "job", "ring")


@pytest.mark.parametrize("policy", [{"basic": {}}, {}, None])
def test_a_group_that_is_not_a_gang_has_no_minimum(policy: dict[str, Any] | None) -> None:
    assert read_pod_group(named({"schedulingPolicy": policy}))[1] == TreeGroup(False, None)


WORKLOADS: dict[str, tuple[dict[str, Any], dict[str, TreeGroup]]] = {
    "1.35": (
        {"podGroups": [{"name": "a", "policy": {"gang": {"minCount": 3}}}, {"name": "b", "policy": {"basic": {}}}]},
        {"a": TreeGroup(False, 3), "b": TreeGroup(False, None)},
    ),
    "1.36": (
        {"podGroupTemplates": [{"name": "a", "schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": "Pod"}]},
        {"a": TreeGroup(False, 3)},
    ),
    "1.37": (
        {
            "compositePodGroupTemplates": [
                {
                    "name": "top",
                    "schedulingPolicy": {"gang": {"minGroupCount": 1}},
                    "compositePodGroupTemplates": [
                        {
                            "name": "ring",
                            "schedulingPolicy": {"basic": {}},
                            "podGroupTemplates": [{"name": "worker", "schedulingPolicy": {"gang": {"minCount": 3}}}],
                        }
                    ],
                }
            ]
        },
        {"top": TreeGroup(True, 1), "ring": TreeGroup(True, None, "top"), "worker": TreeGroup(False, 3, "ring")},
    ),
}


@pytest.mark.parametrize(("spec", "expected"), WORKLOADS.values(), ids=list(WORKLOADS))
def test_the_templates_of_a_Workload_are_read_by_name_with_their_parents(
    spec: dict[str, Any], expected: dict[str, TreeGroup]
) -> None:
    key, workload = read_workload(named(spec))
    assert key == ("team-a", "job")
    assert workload.templates == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"schedulingGroup": {"podGroupName": "g"}}, GroupMembership("g")),
        ({"workloadRef": {"name": "w", "podGroup": "g"}}, GroupMembership("g", "w")),
        (
            {"workloadRef": {"name": "w", "podGroup": "g", "podGroupReplicaKey": "0"}},
            GroupMembership("g", "w", "0"),
        ),
        ({"workloadRef": {"name": "w"}}, None),
        ({"schedulingGroup": {}}, None),
        ({}, None),
    ],
)
def test_a_pod_names_its_group(spec: dict[str, Any], expected: GroupMembership | None) -> None:
    assert membership_of(spec) == expected


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulingPolicy": {"gang": {"minCount": "3"}}},
        {"schedulingPolicy": []},
        {"schedulingConstraints": {"topology": "rack"}},
        {"disruptionMode": 1},
        {"parentCompositePodGroupName": {}},
    ],
)
def test_a_field_of_the_wrong_type_is_an_error(spec: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        read_pod_group(named(spec))


def test_templates_nested_deeper_than_any_API_server_allows_are_read_without_recursion() -> None:
    innermost: dict[str, Any] = {"podGroupTemplates": [{"name": "leaf"}]}
    for index in range(5000):
        innermost = {"compositePodGroupTemplates": [{"name": f"c{index}", **innermost}]}
    _, workload = read_workload(named(innermost))
    assert len(workload.templates) == 5001

"""Gangs that the Workload API cannot express, or not yet: none is written in part, and names that conflict or are too
long are changed.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.backends.kube_gangs import (
    NEITHER,
    RECORD,
    TREE,
    TWO,
    V1ALPHA1,
    V1ALPHA2,
    V1BETA1,
    backend,
    bare,
    constraint,
    made,
    member,
    podgang,
)
from webhook.backends.kube.workload_api import COMPOSITE
from webhook.errors import Inexpressible
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Api, Record
from webhook.model.known_objects import PriorityClass
from webhook.model.reading import Manifest

CLASSES = {"high": PriorityClass(1000, is_default=False), "system-node-critical": PriorityClass(2000001000, False)}
CANNOT_BE_SAID: dict[str, tuple[PodGang, frozenset[Api] | None, dict[str, Any], str]] = {
    "no API": (podgang(*TWO), NEITHER, {}, "kube/workload-api"),
    "only what kube-scheduler does not read": (podgang(*TWO), frozenset({COMPOSITE}), {}, "kube/workload-api"),
    "an API that is not known": (podgang(*TWO), None, {}, "kube/workload-api"),
    "trees are required and not there": (
        podgang(*TWO),
        V1BETA1,
        {"hierarchical": "required"},
        "kube/workload-api",
    ),
    "two groups and no tree": (podgang(*TWO), V1ALPHA2, {"flat": "refuse"}, "kube/flat-gang"),
    "merged with pods to spare": (
        podgang(member("a", 1, 1), member("b", 1, 2)),
        V1ALPHA2,
        {},
        "kube/flat-gang",
    ),
    "topology without a tree": (podgang(*TWO, **constraint("rack")), V1ALPHA2, {}, "kube/topology"),
    "a preference": (podgang(*TWO, **constraint(preferred="rack")), TREE, {}, "kube/preferred-topology"),
    "nine leaves": (podgang(*(member(f"m{index}", 1) for index in range(9))), TREE, {}, "kube/too-many-groups"),
    "a group of strangers": (
        podgang(
            *TWO,
            topologyConstraintGroupConfigs=[{"name": "g", "podGroupNames": ["nobody"], **constraint("rack")}],
        ),
        TREE,
        {},
        "kube/tree",
    ),
    "a class that is not there": (podgang(*TWO), TREE, {"class": "nobody"}, "kube/priority-class"),
    "a class of the system's own": (podgang(*TWO), TREE, {"class": "system-node-critical"}, "kube/priority-class"),
    "a member of two groups": (
        podgang(
            *TWO,
            topologyConstraintGroupConfigs=[
                {"name": name, "podGroupNames": ["demo-0-wrk"], **constraint("rack")} for name in ("g", "h")
            ],
        ),
        TREE,
        {},
        "kube/tree",
    ),
}


@pytest.mark.parametrize(("given", "apis", "config", "rule"), CANNOT_BE_SAID.values(), ids=CANNOT_BE_SAID)
def test_a_gang_that_cannot_be_expressed_completely_is_not_written(
    given: PodGang, apis: frozenset[Api] | None, config: dict[str, Any], rule: str
) -> None:
    chosen = dict(config)
    record = Record("default-scheduler", priority_class=chosen.pop("class", None))
    with pytest.raises(Inexpressible) as error:
        backend(**chosen).gang_objects(given, record, ClusterFacts(apis=apis, priority_classes=CLASSES))
    found = [finding.rule for finding in error.value.findings] + [missing.rule for missing in error.value.unjudged]
    assert found == [rule]


@pytest.mark.parametrize("apis", [V1ALPHA1, V1ALPHA2, V1BETA1, TREE])
def test_a_released_minimum_keeps_its_last_positive_value(apis: frozenset[Api]) -> None:
    """Grove releases a gang's minimums to 0 so that a rolling update goes on; 0 is no gang to the API server."""
    before = made(podgang(*TWO), apis, flat="allow")
    used = backend(flat="allow")
    free = podgang(member("demo-0-lead", 0, 1), member("demo-0-wrk", 0, 4))
    released = used.gang_objects(free, RECORD, ClusterFacts(apis=apis))
    assert "'minCount': 0" in str(released)
    assert [used.adopt(found, live) for found, live in zip(released, before, strict=True)] == before
    assert "'minCount': 0" not in str([used.adopt(found, None) for found in released])


@pytest.mark.parametrize(("lead", "work"), [(0, 4), (1, 0), (0, 0)])
@pytest.mark.parametrize("apis", [V1ALPHA1, V1ALPHA2, V1BETA1])
def test_merged_members_keep_their_sum_if_one_is_released(apis: frozenset[Api], lead: int, work: int) -> None:
    """Up to 1.36 the sum is frozen, so one without those that are released would be refused for ever."""
    before = made(podgang(*TWO), apis)
    used = backend()
    given = podgang(member("demo-0-lead", lead, 1), member("demo-0-wrk", work, 4))
    released = used.gang_objects(given, RECORD, ClusterFacts(apis=apis))
    assert [used.adopt(found, live) for found, live in zip(released, before, strict=True)] == before
    # Where nothing is recorded, a member that is released counts for one pod.
    expected = f"'minCount': {max(lead, 1) + max(work, 1)}}}"
    assert all(expected in str(used.adopt(found, None)) for found in released)


@pytest.mark.parametrize("apis", [V1ALPHA1, V1ALPHA2, V1BETA1, TREE])
def test_a_gang_without_members_is_not_written_yet(apis: frozenset[Api]) -> None:
    """Its shape would be frozen before it is known, or refused."""
    assert made(podgang(), apis) == []
    assert made(podgang(), apis, flat="allow") == []


def test_a_composite_never_has_the_name_of_a_member_of_its_gang() -> None:
    together: Manifest = {"disruptionMode": {"all": {}}}
    # kube-scheduler 1.37 never finds room for such a PodGroup.
    assert bare(made(podgang(member("demo-0", 2)), TREE)) == [
        {
            "is": "v1beta1 Workload demo-0",
            "compositePodGroupTemplates": [
                {
                    "name": "root",
                    "schedulingPolicy": {"gang": {"minGroupCount": 1}},
                    **together,
                    "podGroupTemplates": [
                        {"name": "demo-0", "schedulingPolicy": {"gang": {"minCount": 2}}, **together}
                    ],
                }
            ],
        },
        {
            "is": "v1alpha3 CompositePodGroup demo-0.composite",
            "workloadRef": {"workloadName": "demo-0", "templateName": "root"},
            "schedulingPolicy": {"gang": {"minGroupCount": 1}},
            **together,
        },
        {
            "is": "v1beta1 PodGroup demo-0",
            "parentCompositePodGroupName": "demo-0.composite",
            "workloadRef": {"workloadName": "demo-0", "templateName": "demo-0"},
            "schedulingPolicy": {"gang": {"minCount": 2}},
            **together,
        },
    ]


def test_a_scaling_group_s_replica_can_have_the_name_of_a_clique() -> None:
    """A Workload has each template name once, in all of its tree."""
    config = {"name": "demo-0-g-0", "podGroupNames": ["demo-0-g-0-wrk"], **constraint("example.com/rack")}
    given = podgang(member("demo-0-g-0", 1), member("demo-0-g-0-wrk", 2), topologyConstraintGroupConfigs=[config])
    workload, _, below, *groups = made(given, TREE)
    (root,) = workload["spec"]["compositePodGroupTemplates"]
    # printf demo-0-g-0 | sha256sum
    assert [found["name"] for found in root["podGroupTemplates"]] == ["demo-0-g-0"]
    assert [found["name"] for found in root["compositePodGroupTemplates"]] == ["group-403c22b71ea86311b5d3"]
    assert below["metadata"]["name"] == "demo-0-demo-0-g-0.composite"
    assert below["spec"]["workloadRef"]["templateName"] == "group-403c22b71ea86311b5d3"
    above = ["demo-0.composite", "demo-0-demo-0-g-0.composite"]
    assert [found["spec"]["parentCompositePodGroupName"] for found in groups] == above


@pytest.mark.parametrize("apis", [V1ALPHA1, V1ALPHA2, V1BETA1, TREE])
def test_a_name_longer_than_a_label_value_is_cut_in_the_label(apis: frozenset[Api]) -> None:
    """The API server would refuse the whole object."""
    name, clique = "g" * 100, "c" * 63
    raw = podgang(member(clique, 1), member("d" * 64, 1)).raw
    given = PodGang({**raw, "metadata": {**raw["metadata"], "name": name}})
    labels = [found["metadata"]["labels"] for found in made(given, apis, flat="allow")]
    # printf 'g%.0s' {1..100} | sha256sum
    assert {found["grove.io/podgang"] for found in labels} == {"g" * 52 + "-6802f092c0"}
    # printf 'd%.0s' {1..64} | sha256sum
    cliques = {found["grove.io/podclique"] for found in labels if "grove.io/podclique" in found}
    assert cliques <= {clique, "d" * 52 + "-d91323a529"}

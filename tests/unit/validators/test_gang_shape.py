"""A pod against its PodGang, and the backend that has no gang objects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import Text
from tests.unit.worlds import gang_pod, request, rules, settings_of, validate
from webhook import admission
from webhook.admission.decision import doubtful_facts
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Needed, Record
from webhook.model.known_objects import PodGangFacts
from webhook.validators.examples import clique, pod_clique_set, preferred, required, scaling_group

OWNER = {("default", "demo"): Record("koord-scheduler")}
CASES: dict[str, tuple[Any, list[str]]] = {
    "a member": ({("default", "demo-0"): PodGangFacts("demo", frozenset({"demo-0-worker"}))}, []),
    "no member": (
        {("default", "demo-0"): PodGangFacts("demo", frozenset({"demo-0-leader"}))},
        ["grove/pod-outside-gang"],
    ),
    "a PodGang that no cache has": ({}, []),
    "unknown PodGangs": (None, []),
    "the PodGang of another namespace": ({("ml", "demo-0"): PodGangFacts("demo", frozenset())}, []),
}


@pytest.mark.parametrize(("gangs", "expected"), CASES.values(), ids=CASES)
def test_a_pod_is_judged_by_the_members_of_its_pod_gang(gangs: Any, expected: list[str]) -> None:
    facts = ClusterFacts(pod_clique_sets=OWNER, pod_gangs=gangs)
    settings = settings_of("koord-scheduler", standalone=False)
    assert rules(validate(gang_pod(), settings=settings, facts=facts)) == expected


def test_a_pod_gang_is_read_again_before_a_pod_is_refused() -> None:
    gangs = {("default", "demo-0"): PodGangFacts("demo", frozenset({"demo-0-leader"}))}
    facts = ClusterFacts(pod_clique_sets=OWNER, pod_gangs=gangs)
    settings = settings_of("koord-scheduler", standalone=False)
    verdict = validate(gang_pod(), settings=settings, facts=facts)
    assert doubtful_facts(verdict) == (Needed("pod_gangs", ("default", "demo-0")),)


LPX = settings_of("lpx-scheduler")


def test_lpx_is_named_on_the_pods_and_has_no_gang_objects() -> None:
    asked = request(gang_pod())
    assert admission.mutate(asked, NO_FACTS, LPX).patch
    assert asked.object is not None
    assert asked.object["spec"]["schedulerName"] == "lpx-scheduler"
    assert asked.object["metadata"]["labels"] == gang_pod()["metadata"]["labels"]


@pytest.mark.parametrize("constraint", [required("rack"), preferred("rack")], ids=["required", "preferred"])
def test_lpx_takes_no_topology(constraint: Any) -> None:
    verdict = validate(pod_clique_set(topologyConstraint=constraint), settings=LPX)
    assert rules(verdict) == ["lpx/topology"]


UNNAMED: dict[str, Any] = {
    "a clique that is null": ([None], [], ["spec.template.cliques[0].name"]),
    "a clique of no name": ([clique("")], [], ["spec.template.cliques[0].name"]),
    "two cliques of one name": ([clique("w"), clique("w")], [], ["spec.template.cliques[1].name"]),
    "two groups of one name": (
        [clique("v"), clique("w")],
        [scaling_group("g", "v"), scaling_group("g", "w")],
        ["spec.template.podCliqueScalingGroups[1].name"],
    ),
    "a clique in two groups": (
        [clique("w")],
        [scaling_group("g", "w"), scaling_group("h", "w")],
        ["spec.template.podCliqueScalingGroups[1].cliqueNames"],
    ),
    "a clique that a group names twice": (
        [clique("w")],
        [scaling_group("g", "w", "w")],
        ["spec.template.podCliqueScalingGroups[0].cliqueNames"],
    ),
    "a group that is called as a clique": ([clique("w")], [scaling_group("w", "w")], []),
}


@pytest.mark.parametrize(("cliques", "groups", "places"), UNNAMED.values(), ids=UNNAMED)
def test_cliques_and_scaling_groups_must_have_different_names(
    cliques: list[Any], groups: list[Any], places: list[str]
) -> None:
    verdict = validate(pod_clique_set(*cliques, groups=groups))
    assert [str(found.at) for found in verdict.denials if found.rule == "grove/own-names"] == places


def test_the_refusal_for_a_set_of_many_cliques_suggests_a_few_names() -> None:
    many = [clique(f"clique-{index:03}") for index in range(300)]
    verdict = validate(pod_clique_set(*many, groups=[scaling_group("g", "wroker")]))
    told = [found.remedy for found in verdict.findings if found.rule == "grove/scaling-group-clique"]
    assert told == [Text("clique-000, clique-001, clique-002,")]

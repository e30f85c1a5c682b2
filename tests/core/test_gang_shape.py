"""A pod against its PodGang, and the backend that has no gang objects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.worlds import gang_pod, request, rules, settings_of, validate
from webhook import admission
from webhook.model.facts import NOTHING_KNOWN, ClusterFacts, Needed, PodGangFacts, Record
from webhook.required_facts import in_doubt
from webhook.validators.examples import pod_clique_set, preferred, required

OWNER = {("default", "demo"): Record("koord-scheduler")}
CASES: dict[str, tuple[Any, list[str]]] = {
    "a member": ({("default", "demo-0"): PodGangFacts("demo", frozenset({"demo-0-worker"}))}, []),
    "no member": (
        {("default", "demo-0"): PodGangFacts("demo", frozenset({"demo-0-leader"}))},
        ["grove/pod-outside-gang"],
    ),
    "a PodGang that no cache has": ({}, []),
    "PodGangs that nobody knows": (None, []),
    "the PodGang of another namespace": ({("ml", "demo-0"): PodGangFacts("demo", frozenset())}, []),
}


@pytest.mark.parametrize(("gangs", "expected"), CASES.values(), ids=CASES)
def test_a_pod_is_judged_by_the_members_of_its_pod_gang(gangs: Any, expected: list[str]) -> None:
    facts = ClusterFacts(pod_clique_sets=OWNER, pod_gangs=gangs)
    settings = settings_of("koord-scheduler", standalone=False)
    assert rules(validate(gang_pod(), settings=settings, facts=facts)) == expected


def test_a_pod_gang_that_may_have_grown_is_read_again_before_a_pod_is_refused() -> None:
    gangs = {("default", "demo-0"): PodGangFacts("demo", frozenset({"demo-0-leader"}))}
    facts = ClusterFacts(pod_clique_sets=OWNER, pod_gangs=gangs)
    settings = settings_of("koord-scheduler", standalone=False)
    verdict = validate(gang_pod(), settings=settings, facts=facts)
    assert in_doubt(verdict) == (Needed("pod_gangs", ("default", "demo-0")),)


LPX = settings_of("lpx-scheduler")


def test_lpx_is_named_on_the_pods_and_has_no_gang_objects() -> None:
    asked = request(gang_pod())
    assert admission.mutate(asked, NOTHING_KNOWN, LPX).patch
    assert asked.object is not None
    assert asked.object["spec"]["schedulerName"] == "lpx-scheduler"
    assert asked.object["metadata"]["labels"] == gang_pod()["metadata"]["labels"]


@pytest.mark.parametrize("constraint", [required("rack"), preferred("rack")], ids=["required", "preferred"])
def test_lpx_takes_no_topology(constraint: Any) -> None:
    verdict = validate(pod_clique_set(topologyConstraint=constraint), settings=LPX)
    assert rules(verdict) == ["lpx/topology"]

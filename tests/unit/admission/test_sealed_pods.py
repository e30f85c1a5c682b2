"""Which pods `/mutate` seals, so that the API server need not send them to `/validate`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.worlds import gang_pod, koordinator, request, settings_of
from webhook import admission
from webhook.config.settings import Registration, Settings, Tenancy
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Record
from webhook.model.known_objects import PodGangFacts
from webhook.model.reading import Manifest
from webhook.validators.pod_guard import NEEDS_WORKLOAD, HasLabel, PodGuard, asks_facts, sees
from webhook.validators.registry import Example, Results, Subject, rule, seal_of

OPERATOR = "system:serviceaccount:grove-system:grove-operator"
SEAL = "rollcall.dev/seal"
KNOWN = ClusterFacts(
    pod_clique_sets={("default", "demo"): Record("koord-scheduler")},
    pod_gangs={("default", "demo-0"): PodGangFacts("demo", frozenset({"demo-0-worker"}))},
)
SETTINGS = koordinator(standalone=False)
RIGHT = "demo-0/demo-0-worker/0870513a2d43"


def seal(pod: Manifest, user: str = OPERATOR, facts: ClusterFacts = KNOWN, settings: Settings = SETTINGS) -> str | None:
    """The seal of a pod once `/mutate` has seen it."""
    asked = request(pod, user=user)
    admission.mutate(asked, facts, settings)
    found: str | None = (asked.object or {})["metadata"].get("annotations", {}).get(SEAL)
    return found


def with_seal(value: str, **labels: str) -> Manifest:
    return gang_pod(labels=labels, annotations={SEAL: value})


def test_a_pod_of_grove_s_operator_is_sealed_with_its_gang_and_what_the_rules_look_for() -> None:
    assert seal(gang_pod()) == RIGHT
    assert seal(with_seal(RIGHT)) == RIGHT
    assert seal(with_seal("demo-0/other/0870513a2d43")) == RIGHT


def test_a_pod_whose_podgang_is_unknown_is_sealed_because_no_rule_refuses_it() -> None:
    assert seal(gang_pod(), facts=replace(KNOWN, pod_gangs={})) == RIGHT
    assert seal(gang_pod(), facts=replace(KNOWN, pod_gangs=None)) == RIGHT


UNSEALED: dict[str, dict[str, Any]] = {
    "another user": {"user": "alice"},
    "an unknown user, as for a file": {"user": ""},
    "a PodClique that its PodGang lacks": {"pod": gang_pod(labels={"grove.io/podclique": "stranger"})},
    "a PodGang with too many members to keep": {
        "facts": replace(KNOWN, pod_gangs={("default", "demo-0"): PodGangFacts("demo", None)})
    },
    "a claimed pod": {"pod": gang_pod(labels={"kai.scheduler/queue": "x", "pod-group.scheduling.sigs.k8s.io": "mine"})},
    "a pod of an unknown set": {"facts": replace(KNOWN, pod_clique_sets={})},
    "a set without a scheduler": {"facts": replace(KNOWN, pod_clique_sets={("default", "demo"): Record(None)})},
    "no label of a PodGang": {"pod": gang_pod(labels={"grove.io/podgang": ""})},
    "no label of a PodClique": {"pod": gang_pod(labels={"grove.io/podclique": ""})},
    "webhooks that need not answer": {
        "settings": replace(SETTINGS, registration=Registration(failure_policy="Ignore"))
    },
    "a default class that restricts the pods": {"settings": koordinator({"defaultQoSClass": "LSR"}, standalone=False)},
    "another operator": {"settings": replace(SETTINGS, tenancy=Tenancy(grove_operators=("grove",)))},
}


@pytest.mark.parametrize("case", UNSEALED.values(), ids=UNSEALED)
def test_no_other_pod_is_sealed_even_if_it_came_with_a_seal(case: dict[str, Any]) -> None:
    given = {"pod": gang_pod(), **case}
    given["pod"]["metadata"].setdefault("annotations", {})[SEAL] = RIGHT
    assert seal(**given) == ""
    del given["pod"]["metadata"]["annotations"][SEAL]
    assert seal(**given) is None


def test_a_default_class_that_restricts_no_pod_changes_no_seal() -> None:
    assert seal(gang_pod(), settings=koordinator({"defaultQoSClass": "LS"}, standalone=False)) == RIGHT


def test_a_pod_of_another_scheduler_has_another_seal() -> None:
    facts = replace(KNOWN, pod_clique_sets={("default", "demo"): Record("kai-scheduler")})
    assert seal(gang_pod(), facts=facts, settings=settings_of("kai-scheduler", standalone=False)) == (
        "demo-0/demo-0-worker/0609d9372a3b"
    )


def test_an_emptied_seal_is_the_only_change_of_a_pod_that_is_left_as_it_is() -> None:
    asked = request(with_seal(RIGHT), user="alice")
    verdict = admission.mutate(asked, replace(KNOWN, pod_clique_sets={}), SETTINGS)
    assert verdict.patch == ({"op": "replace", "path": "/metadata/annotations/rollcall.dev~1seal", "value": ""},)


def _rules(*guards: PodGuard | None) -> list[Any]:
    def check(pod: Any, context: Any) -> Results:
        yield from ()

    pod = Example({"kind": "Pod"})
    return [
        rule(f"made/rule-{number}", subject=Subject.POD, passes=pod, fails=pod, guard=guard)(check)
        for number, guard in enumerate(guards)
    ]


def test_a_profile_with_a_rule_that_must_see_every_pod_seals_none() -> None:
    assert seal_of(_rules(NEEDS_WORKLOAD, None), None) is None


def test_a_seal_is_void_after_a_change_of_the_rules_or_of_what_they_look_for() -> None:
    given = (
        _rules(),
        _rules(NEEDS_WORKLOAD),
        _rules(asks_facts("pod_gangs")),
        _rules(NEEDS_WORKLOAD, NEEDS_WORKLOAD),
        _rules(sees(HasLabel("a"))),
        _rules(sees(HasLabel("a", other_than=("b",)))),
    )
    digests = [found.digest for rules in given if (found := seal_of(rules, None)) is not None]
    assert len(set(digests)) == len(given)

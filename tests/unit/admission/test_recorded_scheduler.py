"""The scheduler of a PodCliqueSet: what chooses it, where it is recorded, and when it may change."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admission.decisions import GPU, KOORD, LABEL, NVLINK, PLAIN_DEFAULT, in_namespace, mutate
from tests.unit.worlds import koordinator, rules, settings_of, validate
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.findings import Action
from webhook.model.known_objects import Namespace, PodGangFacts
from webhook.validators.examples import clique, pod_clique_set

NAMESPACE = ClusterFacts(namespaces={"default": Namespace({LABEL: "koord-scheduler"})})


def named(*names: str | None) -> Any:
    cliques = [clique(f"c{index}", pod={"schedulerName": name} if name else {}) for index, name in enumerate(names)]
    return pod_clique_set(*cliques)


CHOICES: dict[str, tuple[Any, ClusterFacts, str]] = {
    "its label, over templates and namespace": (
        pod_clique_set(clique("worker", pod={"schedulerName": "koord-scheduler"}), labels=KOORD),
        in_namespace(rollcall_dev__scheduler="default-scheduler"),
        "koord-scheduler",
    ),
    "the name in its templates, over the namespace": (named("koord-scheduler"), NO_FACTS, "koord-scheduler"),
    "a template without a name says nothing": (named(None, "koord-scheduler"), NO_FACTS, "koord-scheduler"),
    "default-scheduler in a template says nothing": (named("default-scheduler"), NAMESPACE, "koord-scheduler"),
    "the namespace's label": (pod_clique_set(), NAMESPACE, "koord-scheduler"),
    "the default": (pod_clique_set(), NO_FACTS, "default-scheduler"),
}


@pytest.mark.parametrize(("manifest", "facts", "chosen"), CHOICES.values(), ids=CHOICES)
def test_the_first_source_that_names_a_scheduler_chooses_it(manifest: Any, facts: ClusterFacts, chosen: str) -> None:
    verdict = mutate(manifest, settings=PLAIN_DEFAULT, facts=facts)
    assert verdict.scheduler == chosen
    assert validate(manifest, settings=PLAIN_DEFAULT, facts=facts).scheduler == chosen


def test_the_choice_is_recorded_only_at_creation() -> None:
    assert list(mutate(pod_clique_set()).patch) == [
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "add", "path": "/metadata/labels/rollcall.dev~1scheduler", "value": "koord-scheduler"},
    ]
    assert list(mutate(pod_clique_set(labels={"team": "x"})).patch) == [
        {"op": "add", "path": "/metadata/labels/rollcall.dev~1scheduler", "value": "koord-scheduler"},
    ]
    assert mutate(pod_clique_set(labels=KOORD)).patch == ()
    assert mutate(pod_clique_set(), pod_clique_set()).patch == ()


def test_the_record_is_restored_if_an_update_drops_it() -> None:
    verdict = mutate(pod_clique_set(), pod_clique_set(labels={LABEL: "default-scheduler"}))
    assert verdict.patch[-1]["value"] == "default-scheduler"


def test_a_changed_default_applies_to_new_workloads_only() -> None:
    old = pod_clique_set(labels={LABEL: "default-scheduler"})
    assert validate(old, old, settings=koordinator(standalone=False)).scheduler == "default-scheduler"


def test_in_a_cluster_a_set_older_than_rollcall_is_left_unchanged() -> None:
    faulty = pod_clique_set(GPU, annotations=NVLINK)
    verdict = validate(faulty, faulty, settings=koordinator(standalone=False))
    assert verdict.allowed
    assert verdict.findings == ()


def test_a_standalone_server_judges_an_update_like_a_creation() -> None:
    verdict = validate(pod_clique_set(GPU, annotations=NVLINK), pod_clique_set(GPU))
    assert rules(verdict) == ["koordinator/mnnvl"]
    assert not verdict.allowed


GANGS = {("default", "demo-0"): PodGangFacts("demo")}
BOUND = frozenset({("default", "demo-0")})
CHANGES: dict[str, tuple[dict[str, str], dict[str, str], ClusterFacts, list[str]]] = {
    "to another scheduler while gangs may exist": (
        KOORD,
        {LABEL: "default-scheduler"},
        NO_FACTS,
        ["rollcall/scheduler-change"],
    ),
    "to another scheduler while a gang exists": (
        KOORD,
        {LABEL: "default-scheduler"},
        ClusterFacts(pod_gangs=GANGS, bound_gangs=frozenset()),
        ["rollcall/scheduler-change"],
    ),
    "to another scheduler without any gang": (KOORD, {LABEL: "default-scheduler"}, ClusterFacts(pod_gangs={}), []),
    "adoption without any bound pod": ({}, KOORD, ClusterFacts(pod_gangs=GANGS, bound_gangs=frozenset()), []),
    "adoption with a bound pod": (
        {},
        KOORD,
        ClusterFacts(pod_gangs=GANGS, bound_gangs=BOUND),
        ["rollcall/scheduler-change"],
    ),
    "adoption with unknown pods": ({}, KOORD, ClusterFacts(pod_gangs=GANGS), ["rollcall/scheduler-change"]),
    "no change": (KOORD, KOORD, ClusterFacts(pod_gangs=GANGS, bound_gangs=BOUND), []),
}


@pytest.mark.parametrize(("before", "after", "facts", "expected"), CHANGES.values(), ids=CHANGES)
def test_the_record_can_change_only_without_gang_pods(
    before: dict[str, str], after: dict[str, str], facts: ClusterFacts, expected: list[str]
) -> None:
    old, new = pod_clique_set(labels=before), pod_clique_set(labels=after)
    settings = koordinator(standalone=False)
    verdict = validate(new, old, settings=settings, facts=facts)
    assert rules(verdict) == expected
    assert all(finding.forbidden for finding in verdict.findings)


def writes(scheduler: str | None) -> Any:
    pod = {} if scheduler is None else {"schedulerName": scheduler}
    return pod_clique_set(clique("worker", pod=pod), labels={LABEL: "volcano"})


WRITERS: dict[str, tuple[str | None, str | None, ClusterFacts, list[str]]] = {
    "from Grove's backend while a gang exists": ("volcano", None, ClusterFacts(pod_gangs=GANGS), ["found"]),
    "to Grove's backend while a gang exists": (None, "volcano", ClusterFacts(pod_gangs=GANGS), ["found"]),
    "to Grove's backend while gangs may exist": (None, "volcano", NO_FACTS, ["found"]),
    "from Grove's backend without any gang": ("volcano", None, ClusterFacts(pod_gangs={}), []),
    "no change": ("volcano", "volcano", ClusterFacts(pod_gangs=GANGS), []),
    "between names that leave it to Rollcall": (None, "default-scheduler", ClusterFacts(pod_gangs=GANGS), []),
}


@pytest.mark.parametrize(("before", "after", "facts", "expected"), WRITERS.values(), ids=WRITERS)
def test_the_writer_of_the_gang_objects_can_change_only_without_a_gang(
    before: str | None, after: str | None, facts: ClusterFacts, expected: list[str]
) -> None:
    settings = settings_of("volcano", standalone=False)
    verdict = validate(writes(after), writes(before), settings=settings, facts=facts)
    found = [one for one in verdict.findings if one.rule == "rollcall/writer-change"]
    assert ["found" for _ in found] == expected
    assert all(one.forbidden and one.action is Action.DENY for one in found)

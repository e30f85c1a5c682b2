"""Koordinator's rules about quotas: existence, names, and changes."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.worlds import rules, validate
from webhook.backends.koordinator.gangs import ELASTIC_QUOTAS
from webhook.cluster.watch import Index
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Needed
from webhook.model.known_objects import ElasticQuotas, PodGangFacts, Quota
from webhook.validators.examples import clique, pod_clique_set

QUOTAS = ClusterFacts(elastic_quotas={"team-a": Quota(is_parent=False), "all": Quota(is_parent=True)})
BY_ANNOTATION = "scheduling.grove.io/koordinator-quota"
BY_LABEL = "quota.scheduling.koordinator.sh/name"
QUOTA: dict[str, tuple[Any, list[str]]] = {
    "a leaf that exists": (pod_clique_set(annotations={BY_ANNOTATION: "team-a"}), []),
    "by Koordinator's own label on a clique": (
        pod_clique_set(clique("worker", labels={BY_LABEL: "nobody"})),
        ["koordinator/quota"],
    ),
    "a parent": (pod_clique_set(annotations={BY_ANNOTATION: "all"}), ["koordinator/quota"]),
    "the root of all": (pod_clique_set(annotations={BY_ANNOTATION: "koordinator-root-quota"}), ["koordinator/quota"]),
    "one that Koordinator makes itself": (pod_clique_set(annotations={BY_ANNOTATION: "koordinator-default-quota"}), []),
    "an empty name is no quota": (pod_clique_set(annotations={BY_ANNOTATION: ""}), []),
    "an empty name on a clique is no quota beside the set's": (
        pod_clique_set(clique("worker", annotations={BY_ANNOTATION: ""}), annotations={BY_ANNOTATION: "team-a"}),
        [],
    ),
    "two cliques that disagree": (
        pod_clique_set(
            clique("leader", annotations={BY_ANNOTATION: "team-a"}), clique("worker", labels={BY_LABEL: "team-b"})
        ),
        ["koordinator/quota", "koordinator/quota-disagree"],
    ),
}


@pytest.mark.parametrize(("manifest", "expected"), QUOTA.values(), ids=QUOTA)
def test_the_quota_rule_gives_the_expected_findings(manifest: Any, expected: list[str]) -> None:
    assert rules(validate(manifest, facts=QUOTAS)) == expected


def test_without_known_quotas_only_the_root_quota_is_refused() -> None:
    verdict = validate(pod_clique_set(annotations={BY_ANNOTATION: "team-a"}))
    assert [unjudged.rule for unjudged in verdict.unjudged] == ["koordinator/quota"]
    assert rules(validate(pod_clique_set(annotations={BY_ANNOTATION: "koordinator-root-quota"}))) == [
        "koordinator/quota"
    ]


NO_LABEL_VALUES = {
    "longer than 63 characters": "q" * 70,
    "with a space": "team a",
    "with a slash": "team/a",
    "ending in a dash": "team-a-",
    "with a line break at its end": "team-a\n",
}


@pytest.mark.parametrize("name", NO_LABEL_VALUES.values(), ids=NO_LABEL_VALUES)
def test_a_quota_name_that_is_not_a_label_value_is_always_refused(name: str) -> None:
    there = ClusterFacts(elastic_quotas={name: Quota(is_parent=False)})
    for facts in (there, ClusterFacts(elastic_quotas={}), ClusterFacts()):
        for manifest in (
            pod_clique_set(annotations={BY_ANNOTATION: name}),
            pod_clique_set(clique("worker", labels={BY_LABEL: name})),
        ):
            verdict = validate(manifest, facts=facts)
            # Grove refuses such a label of a clique, too.
            (found,) = [finding for finding in verdict.findings if finding.rule != "grove/clique-labels"]
            assert (found.rule, found.value) == ("koordinator/quota", name)
            assert "not a valid value" in found.why
            assert not verdict.allowed
            assert verdict.unjudged == ()


def test_a_quota_name_can_be_as_long_as_a_label_value() -> None:
    longest = "q" * 63
    facts = ClusterFacts(elastic_quotas={longest: Quota(is_parent=False)})
    assert rules(validate(pod_clique_set(annotations={BY_ANNOTATION: longest}), facts=facts)) == []


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (ClusterFacts(), ["koordinator/quota-change"]),
        (ClusterFacts(pod_gangs={}), []),
        (ClusterFacts(pod_gangs={("default", "x"): PodGangFacts("other")}), []),
        (ClusterFacts(pod_gangs={("elsewhere", "demo-0"): PodGangFacts("demo")}), []),
    ],
    ids=["unknown gangs", "no gangs", "another set's gang", "another namespace's gang"],
)
def test_a_quota_cannot_change_while_a_gang_may_have_pods(facts: ClusterFacts, expected: list[str]) -> None:
    old = pod_clique_set(labels={"rollcall.dev/scheduler": "koord-scheduler"}, annotations={BY_ANNOTATION: "team-a"})
    new = pod_clique_set(labels={"rollcall.dev/scheduler": "koord-scheduler"})
    verdict = validate(new, old, facts=facts)
    assert rules(verdict) == expected
    assert all(finding.forbidden for finding in verdict.findings)


LIVING = ClusterFacts(pod_gangs={("default", "demo-0"): PodGangFacts("demo")})


@pytest.mark.parametrize(
    ("before", "facts", "why"),
    [
        ({BY_ANNOTATION: "team-a"}, LIVING, Text("charged to team-a")),
        (
            {BY_ANNOTATION: "team-a"},
            ClusterFacts(),
            Text("charged to team-a", "unknown"),
        ),
        ({}, LIVING, Text("to no named quota")),
    ],
    ids=["from a quota", "from a quota, unknown gangs", "from none"],
)
def test_the_refusal_of_a_quota_change_says_what_is_known_about_the_gangs(
    before: Any, facts: ClusterFacts, why: str
) -> None:
    labels = {"rollcall.dev/scheduler": "koord-scheduler"}
    old = pod_clique_set(labels=labels, annotations=before)
    new = pod_clique_set(labels=labels, annotations={BY_ANNOTATION: "team-b"})
    (finding,) = validate(new, old, facts=facts).findings
    assert (finding.rule, finding.why) == ("koordinator/quota-change", why)


def test_an_empty_quota_equals_no_quota_in_a_change() -> None:
    labels = {"rollcall.dev/scheduler": "koord-scheduler"}
    old, new = pod_clique_set(labels=labels), pod_clique_set(labels=labels, annotations={BY_ANNOTATION: ""})
    assert validate(new, old, facts=LIVING).findings == ()


def stored_quota(namespace: str, created: str, *, parent: bool) -> dict[str, Any]:
    labels = {"quota.scheduling.koordinator.sh/is-parent": "true"} if parent else {}
    metadata = {"name": "team-a", "namespace": namespace, "creationTimestamp": created, "labels": labels}
    return {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": metadata}


OLD, NEW = "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z"
LEAF, SHADOW, THIRD = (
    stored_quota("koordinator-system", OLD, parent=False),
    stored_quota("team-b", NEW, parent=True),
    stored_quota("team-c", "2026-07-01T00:00:00Z", parent=True),
)


@pytest.mark.parametrize("order", list(permutations((LEAF, SHADOW, THIRD))))
def test_a_quota_added_in_another_namespace_hides_no_other(order: tuple[dict[str, Any], ...]) -> None:
    index = Index(ELASTIC_QUOTAS)
    for raw in order:
        index.put(raw)
    assert asked_with(index) == []
    index.drop(THIRD)
    assert asked_with(index) == []
    index.drop(LEAF)
    assert asked_with(index) == ["koordinator/quota"]
    index.put(LEAF)
    assert asked_with(index) == []


def test_a_quota_that_becomes_a_parent_is_judged_as_a_parent() -> None:
    index = Index(ELASTIC_QUOTAS)
    for raw in (LEAF, SHADOW, stored_quota("koordinator-system", OLD, parent=True)):
        index.put(raw)
    assert asked_with(index) == ["koordinator/quota"]


def test_a_live_read_replaces_cached_facts() -> None:
    known = ClusterFacts(elastic_quotas=ElasticQuotas({"team-a": Quota(False, "koordinator-system", OLD)}))
    needed = Needed("elastic_quotas", "team-a")
    assert rules(validate(ASKING, facts=known.learned({needed: Quota(True, "team-b", NEW)}))) == ["koordinator/quota"]
    assert rules(validate(ASKING, facts=known.learned({needed: None}))) == ["koordinator/quota"]
    assert rules(validate(ASKING, facts=known)) == []


ASKING = pod_clique_set(annotations={BY_ANNOTATION: "team-a"})


def asked_with(index: Index) -> list[str]:
    return rules(validate(ASKING, facts=ClusterFacts(elastic_quotas=index.entries)))

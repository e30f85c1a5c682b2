"""Grove's labels on a pod that names a group of a scheduler: they exempt it from no rule about such pods, and these
rules judge no pod that Grove's operator creates.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.validators.test_rule_examples import EVERY_RULE, SCHEDULERS
from tests.unit.worlds import gang_pod, request, rules, settings_of, validate
from webhook import admission
from webhook.backends.koordinator.gang_groups import pod_group, pod_group_cluster
from webhook.model.admission_request import Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.gang_objects import JUDGED_PODS
from webhook.model.keys import Record
from webhook.model.known_objects import Namespace
from webhook.model.reading import Manifest
from webhook.validators.registry import Rule

OPERATOR = "system:serviceaccount:grove-system:grove-operator"
GROUP = "pod-group.scheduling.sigs.k8s.io"
ABOUT_PODS = [
    rule for rule in EVERY_RULE if JUDGED_PODS in rule.kinds and rule.fails.object["kind"] == JUDGED_PODS.kind
]


def forged(manifest: Manifest) -> Manifest:
    """The pod with the labels of a gang's member, too."""
    metadata = manifest["metadata"]
    labels = {**metadata.get("labels", {}), **gang_pod()["metadata"]["labels"]}
    return {**manifest, "metadata": {**metadata, "labels": labels}}


def verdict_on(rule: Rule, manifest: Manifest, user: str) -> Verdict:
    settings = settings_of(SCHEDULERS[rule.id], rule.fails.config)
    return validate(manifest, settings=settings, facts=rule.fails.facts, user=user)


@pytest.mark.parametrize("rule", ABOUT_PODS, ids=lambda rule: rule.id)
def test_a_tenant_s_pod_is_judged_by_every_rule_about_pods_that_name_a_group(rule: Rule) -> None:
    plain = [one for one in verdict_on(rule, rule.fails.object, "alice").findings if one.rule == rule.id]
    verdict = verdict_on(rule, forged(rule.fails.object), "alice")
    assert [one for one in verdict.findings if one.rule == rule.id] == plain != []
    assert "grove/foreign-pod" in rules(verdict)
    assert verdict.allowed is not any(one.action is Action.DENY for one in plain)


@pytest.mark.parametrize("rule", ABOUT_PODS, ids=lambda rule: rule.id)
def test_a_pod_of_grove_s_operator_is_never_judged_by_them(rule: Rule) -> None:
    verdict = verdict_on(rule, forged(rule.fails.object), OPERATOR)
    assert {one.id for one in ABOUT_PODS}.isdisjoint(rules(verdict))
    assert verdict.allowed


# A gang whose PodGroup is not there yet, in a namespace where groups must come first.
LATE = replace(
    pod_group_cluster(),
    pod_clique_sets={("default", "demo"): Record("koord-scheduler")},
    namespaces={"default": Namespace({"rollcall.dev/creation-order": "strict"})},
)
CLUSTER = settings_of("koord-scheduler", standalone=False)


def stored(manifest: Manifest, user: str, facts: ClusterFacts = LATE) -> Verdict:
    return validate(manifest, settings=CLUSTER, facts=facts, user=user)


def test_a_member_that_grove_s_operator_creates_before_its_group_is_allowed() -> None:
    assert stored(gang_pod(), OPERATOR).allowed


def test_a_member_with_an_unknown_creator_is_judged_only_by_fields_that_preparation_did_not_write() -> None:
    assert stored(gang_pod(), "").findings == ()
    elsewhere = stored(gang_pod(labels={GROUP: "theirs"}, schedulerName="koord-scheduler"), "")
    assert (elsewhere.allowed, rules(elsewhere)) == (False, ["koordinator/pod-group-missing"])


def test_a_member_that_a_tenant_creates_is_judged_even_if_prepared() -> None:
    verdict = stored(gang_pod(), "alice")
    assert set(rules(verdict)) == {"koordinator/pod-group-missing", "grove/foreign-pod"}
    assert not verdict.allowed
    there = replace(LATE, koordinator_pod_groups=pod_group_cluster(pod_group("demo-0-worker")).koordinator_pod_groups)
    assert rules(stored(gang_pod(), "alice", there)) == ["grove/foreign-pod"]


@pytest.mark.parametrize("user", ["", "alice"])
def test_a_group_in_a_field_that_preparation_does_not_overwrite_is_judged(user: str) -> None:
    rule = next(one for one in ABOUT_PODS if one.id == "kube/pod-composite")
    pod = gang_pod(schedulingGroup=rule.fails.object["spec"]["schedulingGroup"])
    assert rule.id in rules(verdict_on(rule, pod, user))


@pytest.mark.parametrize("facts", [LATE, replace(LATE, pod_clique_sets={})], ids=["of a set", "of no set"])
def test_a_forged_pod_is_judged_with_and_without_its_set(facts: ClusterFacts) -> None:
    asked = request(gang_pod(labels={GROUP: "theirs"}, schedulerName="koord-scheduler"), user="alice")
    admission.mutate(asked, facts, CLUSTER)
    verdict = admission.validate(asked, facts, CLUSTER)
    assert (verdict.allowed, rules(verdict)) == (False, ["koordinator/pod-group-missing", "grove/foreign-pod"])
    assert verdict.scheduler == "koord-scheduler"

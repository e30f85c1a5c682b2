"""The decision on PodCliqueSets: ratchet, enforcement, exemptions, and gangs that can never be complete."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.admission.decisions import GPU, KOORD, LABEL, NVLINK, PLAIN_DEFAULT, in_namespace, mutate
from tests.unit.worlds import gang_pod, koordinator, request, rules, settings_of, validate
from webhook import admission
from webhook.config.settings import NamespaceDefaults
from webhook.model.admission_request import Kind
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.findings import Action, Finding
from webhook.model.keys import Api, Needed
from webhook.model.known_objects import Namespace
from webhook.offline.judgement import judge
from webhook.validators.examples import clique, pod_clique_set, required, scaling_group


def faulty(*cliques: Any, **fields: Any) -> Any:
    return pod_clique_set(*cliques, labels=KOORD, **fields)


RATCHET: dict[str, tuple[Any, Any, bool]] = {
    "the same fault": (faulty(GPU, annotations=NVLINK), faulty(GPU, annotations=NVLINK), True),
    "the same fault with another image": (
        faulty(GPU, annotations=NVLINK),
        faulty(clique("worker", replicas=5, requests={"nvidia.com/gpu": "8"}), annotations=NVLINK),
        True,
    ),
    "the same fault on a clique that moved": (
        faulty(clique("worker", requests={"nvidia.com/gpu": "8"}, annotations=NVLINK), clique("leader")),
        faulty(clique("leader"), clique("worker", requests={"nvidia.com/gpu": "8"}, annotations=NVLINK)),
        True,
    ),
    "another value at the same place": (
        faulty(GPU, annotations=NVLINK),
        faulty(GPU, annotations={"grove.io/mnnvl-group": "infer"}),
        False,
    ),
    "a new fault": (faulty(GPU), faulty(GPU, annotations=NVLINK), False),
    "an old fault and a new one": (
        faulty(GPU, annotations=NVLINK),
        faulty(
            GPU, annotations=NVLINK, groups=[scaling_group("decode", "worker", topologyConstraint=required("rack"))]
        ),
        False,
    ),
}


@pytest.mark.parametrize(("old", "new", "allowed"), RATCHET.values(), ids=RATCHET)
@pytest.mark.parametrize("standalone", [True, False])
def test_an_old_fault_becomes_a_warning_and_a_new_one_is_refused(
    old: Any, new: Any, allowed: bool, standalone: bool
) -> None:
    verdict = validate(new, old, settings=koordinator(standalone=standalone))
    assert verdict.allowed is allowed
    if allowed:
        assert {finding.action for finding in verdict.findings} == {Action.WARN}
        assert verdict.findings


def test_the_old_object_is_judged_under_its_own_record() -> None:
    """Moved to a scheduler that cannot do it, an unchanged object is a new fault."""
    old = pod_clique_set(GPU, labels={LABEL: "default-scheduler"}, annotations=NVLINK)
    new = pod_clique_set(GPU, labels=KOORD, annotations=NVLINK)
    verdict = validate(new, old, settings=koordinator(standalone=False), facts=ClusterFacts(pod_gangs={}))
    assert rules(verdict) == ["koordinator/mnnvl"]
    assert not verdict.allowed


def test_a_profile_that_was_removed_does_not_lock_the_sets_that_recorded_it() -> None:
    old = pod_clique_set(labels={LABEL: "volcano"})
    verdict = validate(old, old, settings=koordinator(standalone=False))
    assert verdict.allowed
    assert rules(verdict) == ["rollcall/scheduler-unknown"]


PASSING = {
    "a deletion": {"operation": "DELETE", "object": None},
    "a connection": {"operation": "CONNECT"},
    "its status": {"subresource": "status"},
    "its scale": {"subresource": "scale"},
    "a kind that is not judged": {"kind": Kind("apps", "v1", "Deployment")},
}


@pytest.mark.parametrize("fields", PASSING.values(), ids=PASSING)
def test_requests_that_are_always_allowed(fields: dict[str, Any]) -> None:
    asked = replace(request(pod_clique_set(GPU, annotations=NVLINK)), **fields)
    for decide in (admission.mutate, admission.validate):
        verdict = decide(asked, NO_FACTS, koordinator())
        assert (verdict.allowed, verdict.findings, verdict.patch) == (True, (), ())


def test_a_deletion_timestamp_in_a_new_manifest_does_not_bypass_the_record() -> None:
    manifest = pod_clique_set()
    manifest["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    assert mutate(manifest).patch[-1]["value"] == "koord-scheduler"


LEAVING = "2026-11-21T00:00:00Z"
BORN_LEAVING: dict[str, tuple[Any, list[str]]] = {
    "a set": (pod_clique_set(GPU, annotations=NVLINK), ["koordinator/mnnvl"]),
    "a pod of a gang": (
        gang_pod(labels={"koordinator.sh/qosClass": "LSR"}, priority=0),
        ["koordinator/qos-priority", "koordinator/qos-cpu"],
    ),
}


@pytest.mark.parametrize(("manifest", "found"), BORN_LEAVING.values(), ids=BORN_LEAVING)
def test_a_deletion_timestamp_in_a_new_manifest_does_not_bypass_the_rules(manifest: Any, found: list[str]) -> None:
    leaving = {**manifest, "metadata": {**manifest["metadata"], "deletionTimestamp": LEAVING}}
    verdict = validate(leaving)
    assert (verdict.allowed, rules(verdict)) == (False, found)
    (judgement,) = judge(deepcopy(leaving), NO_FACTS, koordinator())
    assert (judgement.verdict.allowed, rules(judgement.verdict)) == (False, found)


def test_an_object_in_deletion_is_allowed_so_that_finalizers_can_be_removed() -> None:
    manifest = pod_clique_set(GPU, annotations=NVLINK)
    manifest["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    assert validate(manifest, manifest).findings == ()


def test_an_update_that_adds_a_deletion_timestamp_is_judged() -> None:
    manifest = pod_clique_set(GPU, annotations=NVLINK)
    manifest["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    asked = {
        "uid": "u",
        "operation": "UPDATE",
        "kind": {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"},
        "object": manifest,
        "oldObject": pod_clique_set(),
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    (judgement,) = judge(review, NO_FACTS, koordinator())
    assert (judgement.verdict.allowed, rules(judgement.verdict)) == (False, ["koordinator/mnnvl"])


ENFORCEMENT: dict[str, tuple[dict[str, Any], ClusterFacts, Action | None]] = {
    "by default": ({}, NO_FACTS, Action.DENY),
    "the profile only warns": ({"mode": "warn"}, NO_FACTS, Action.WARN),
    "the profile only counts": ({"mode": "audit"}, NO_FACTS, Action.AUDIT),
    "the profile is off": ({"mode": "off"}, NO_FACTS, None),
    "one rule only warns": ({"rules": {"koordinator/mnnvl": "warn"}}, NO_FACTS, Action.WARN),
    "one rule is off": ({"rules": {"koordinator/mnnvl": "off"}}, NO_FACTS, None),
    "the namespace softens": ({}, in_namespace(rollcall_dev__enforcement="warn"), Action.WARN),
    "the namespace insists": ({"mode": "audit"}, in_namespace(rollcall_dev__enforcement="deny"), Action.DENY),
    "a namespace's label of no known mode says nothing": ({}, in_namespace(rollcall_dev__enforcement="x"), Action.DENY),
    "a namespace does not strengthen a rule that was softened": (
        {"rules": {"koordinator/mnnvl": "warn"}},
        in_namespace(rollcall_dev__enforcement="deny"),
        Action.WARN,
    ),
}
ENFORCEMENT = {
    name: (
        own,
        ClusterFacts(
            namespaces=None
            if facts.namespaces is None
            else {
                space: Namespace(
                    {key.replace("rollcall_dev", "rollcall.dev"): value for key, value in found.labels.items()}
                )
                for space, found in facts.namespaces.items()
            }
        ),
        action,
    )
    for name, (own, facts, action) in ENFORCEMENT.items()
}


@pytest.mark.parametrize(("own", "facts", "action"), ENFORCEMENT.values(), ids=ENFORCEMENT)
def test_the_configuration_sets_the_action_of_a_rule(
    own: dict[str, Any], facts: ClusterFacts, action: Action | None
) -> None:
    verdict = validate(pod_clique_set(GPU, annotations=NVLINK), settings=koordinator(enforcement=own), facts=facts)
    assert [finding.action for finding in verdict.findings] == ([] if action is None else [action])
    assert verdict.allowed is (action is not Action.DENY)


def test_no_configuration_softens_a_rule_that_fails_closed() -> None:
    manifest = pod_clique_set(groups=[scaling_group("decode", "worker", topologyConstraint=required("rack"))])
    verdict = validate(manifest, settings=koordinator(enforcement={"mode": "off"}))
    assert rules(verdict) == ["koordinator/scaling-group-topology"]
    assert not verdict.allowed


def test_findings_that_fail_closed_are_reported_first() -> None:
    manifest = pod_clique_set(
        GPU, annotations=NVLINK, groups=[scaling_group("decode", "worker", topologyConstraint=required("rack"))]
    )
    assert rules(validate(manifest)) == ["koordinator/scaling-group-topology", "koordinator/mnnvl"]


def test_the_configuration_applies_to_a_namespace_without_labels() -> None:
    settings = replace(PLAIN_DEFAULT, namespaces={"default": NamespaceDefaults("koord-scheduler", Action.WARN)})
    verdict = validate(pod_clique_set(GPU, annotations=NVLINK), settings=settings)
    assert [(finding.rule, finding.action) for finding in verdict.findings] == [("koordinator/mnnvl", Action.WARN)]
    overruled = validate(
        pod_clique_set(),
        settings=settings,
        facts=ClusterFacts(namespaces={"default": Namespace({LABEL: "default-scheduler"})}),
    )
    assert overruled.scheduler == "default-scheduler"


def test_a_missing_api_causes_a_refusal_and_an_unknown_one_does_not() -> None:
    assert rules(validate(pod_clique_set(), facts=ClusterFacts(apis=frozenset()))) == ["rollcall/api-missing"]
    served = frozenset({Api("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup")})
    assert rules(validate(pod_clique_set(), facts=ClusterFacts(apis=served))) == []


OLD_CRDS = {
    "volcano": (Api("scheduling.volcano.sh", "v1beta1", "PodGroup"), "subGroupPolicy", "Volcano 1.14"),
    "kai-scheduler": (Api("scheduling.run.ai", "v2alpha2", "PodGroup"), "minSubGroup", "KAI 0.15"),
}


@pytest.mark.parametrize(("scheduler", "wanted"), OLD_CRDS.items())
def test_a_crd_that_would_silently_drop_gang_fields_causes_a_refusal(
    scheduler: str, wanted: tuple[Api, str, str]
) -> None:
    api, field, since = wanted
    settings, manifest = settings_of(scheduler), pod_clique_set()

    def told(*fields: str) -> list[Finding]:
        facts = ClusterFacts(apis=frozenset({api}), spec_fields={api: frozenset(fields)})
        found = validate(manifest, settings=settings, facts=facts).findings
        return [finding for finding in found if finding.rule == "rollcall/api-missing"]

    assert told("minMember", field) == []
    (finding,) = told("minMember")
    assert finding.why == f"this cluster's {api} has no spec.{field}, which came with {since}"
    assert finding.absent == Needed("spec_fields")
    (reason,) = settings.profiles[scheduler].backend.init(ClusterFacts(spec_fields={api: frozenset({"minMember"})}))
    assert f"has no spec.{field}, which came with {since}" in reason


SUFFIXES: dict[str, tuple[list[str], list[str]]] = {
    "the longer name comes first, so it is found first": (["pworker", "worker"], []),
    "the shorter name comes first": (["worker", "pworker"], ["spec.template.cliques[0].name"]),
    "the shorter name stands between two longer ones": (
        ["pworker", "worker", "dworker"],
        ["spec.template.cliques[1].name"],
    ),
    "each is the end of the next": (
        ["er", "worker", "pworker"],
        ["spec.template.cliques[0].name", "spec.template.cliques[1].name"],
    ),
    "a prefix is no suffix": (["worker", "worker-p"], []),
}


@pytest.mark.parametrize(("names", "places"), SUFFIXES.values(), ids=SUFFIXES)
def test_a_clique_name_that_grove_could_confuse_with_a_later_one_gets_a_warning(
    names: list[str], places: list[str]
) -> None:
    verdict = validate(pod_clique_set(*(clique(name) for name in names)))
    assert [(finding.rule, str(finding.at)) for finding in verdict.findings] == [
        ("grove/clique-name-suffix", place) for place in places
    ]
    assert verdict.allowed


MINIMA: dict[str, tuple[Any, str, str]] = {
    "a clique's minimum above its replicas": (
        pod_clique_set(clique("worker", replicas=2, minimum=4)),
        "spec.template.cliques[0].spec.minAvailable",
        "minAvailable to 2",
    ),
    "a scaling group's minimum above its replicas": (
        pod_clique_set(groups=[scaling_group("decode", "worker", replicas=2, minAvailable=3)]),
        "spec.template.podCliqueScalingGroups[0].minAvailable",
        "minAvailable to 2",
    ),
    "a scaling group of no replicas": (
        pod_clique_set(groups=[scaling_group("decode", "worker", replicas=0)]),
        "spec.template.podCliqueScalingGroups[0].replicas",
        "replicas to 1",
    ),
    "a minimum of none": (
        pod_clique_set(groups=[scaling_group("decode", "worker", minAvailable=0)]),
        "spec.template.podCliqueScalingGroups[0].minAvailable",
        "minAvailable to 1",
    ),
}


@pytest.mark.parametrize(("manifest", "place", "remedy"), MINIMA.values(), ids=MINIMA)
def test_a_gang_that_can_never_be_complete_is_refused_with_a_remedy(manifest: Any, place: str, remedy: str) -> None:
    verdict = validate(manifest)
    assert [(finding.rule, str(finding.at)) for finding in verdict.findings] == [("grove/min-available", place)]
    assert remedy in verdict.findings[0].remedy

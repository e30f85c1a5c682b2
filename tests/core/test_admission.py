"""The decision on PodCliqueSets: choice, record, ratchet, enforcement, and what always passes."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.core.worlds import PCS, POD, gang_pod, koordinator, request, rules, settings_of, validate
from webhook import admission
from webhook.checking import judge
from webhook.model.admission_request import Kind
from webhook.model.facts import NOTHING_KNOWN, Api, ClusterFacts, Namespace, Needed, PodGangFacts
from webhook.model.findings import Action, Finding
from webhook.settings import NamespaceDefaults, Settings
from webhook.validators.examples import clique, pod_clique_set, required, scaling_group

LABEL = "rollcall.dev/scheduler"
KOORD = {LABEL: "koord-scheduler"}
NVLINK = {"grove.io/mnnvl-group": "train"}
GPU = clique("worker", requests={"nvidia.com/gpu": "8"})


def mutate(
    manifest: Any, old: Any = None, settings: Settings | None = None, facts: ClusterFacts = NOTHING_KNOWN
) -> Any:
    return admission.mutate(request(manifest, old), facts, settings or koordinator())


def in_namespace(**labels: str) -> ClusterFacts:
    return ClusterFacts(
        namespaces={"default": Namespace({key.replace("__", "/"): value for key, value in labels.items()})}
    )


NAMESPACE = ClusterFacts(namespaces={"default": Namespace({LABEL: "koord-scheduler"})})
PLAIN_DEFAULT = replace(koordinator(), default="default-scheduler")


def named(*names: str | None) -> Any:
    cliques = [clique(f"c{index}", pod={"schedulerName": name} if name else {}) for index, name in enumerate(names)]
    return pod_clique_set(*cliques)


CHOICES: dict[str, tuple[Any, ClusterFacts, str]] = {
    "its label, over templates and namespace": (
        pod_clique_set(clique("worker", pod={"schedulerName": "koord-scheduler"}), labels=KOORD),
        in_namespace(rollcall_dev__scheduler="default-scheduler"),
        "koord-scheduler",
    ),
    "the name in its templates, over the namespace": (named("koord-scheduler"), NOTHING_KNOWN, "koord-scheduler"),
    "a template without a name says nothing": (named(None, "koord-scheduler"), NOTHING_KNOWN, "koord-scheduler"),
    "default-scheduler in a template says nothing": (named("default-scheduler"), NAMESPACE, "koord-scheduler"),
    "the namespace's label": (pod_clique_set(), NAMESPACE, "koord-scheduler"),
    "the default": (pod_clique_set(), NOTHING_KNOWN, "default-scheduler"),
}


@pytest.mark.parametrize(("manifest", "facts", "chosen"), CHOICES.values(), ids=CHOICES)
def test_the_scheduler_is_chosen_by_the_first_that_says_something(
    manifest: Any, facts: ClusterFacts, chosen: str
) -> None:
    verdict = mutate(manifest, settings=PLAIN_DEFAULT, facts=facts)
    assert verdict.scheduler == chosen
    assert validate(manifest, settings=PLAIN_DEFAULT, facts=facts).scheduler == chosen


def test_the_choice_is_recorded_at_create_and_only_there() -> None:
    assert list(mutate(pod_clique_set()).patch) == [
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "add", "path": "/metadata/labels/rollcall.dev~1scheduler", "value": "koord-scheduler"},
    ]
    assert list(mutate(pod_clique_set(labels={"team": "x"})).patch) == [
        {"op": "add", "path": "/metadata/labels/rollcall.dev~1scheduler", "value": "koord-scheduler"},
    ]
    assert mutate(pod_clique_set(labels=KOORD)).patch == ()
    assert mutate(pod_clique_set(), pod_clique_set()).patch == ()


def test_the_record_is_carried_forward_when_an_update_lost_it() -> None:
    verdict = mutate(pod_clique_set(), pod_clique_set(labels={LABEL: "default-scheduler"}))
    assert verdict.patch[-1]["value"] == "default-scheduler"


def test_a_changed_default_moves_new_workloads_only() -> None:
    old = pod_clique_set(labels={LABEL: "default-scheduler"})
    assert validate(old, old, settings=koordinator(standalone=False)).scheduler == "default-scheduler"


def test_a_set_older_than_rollcall_is_left_alone_in_a_cluster() -> None:
    faulty = pod_clique_set(GPU, annotations=NVLINK)
    verdict = validate(faulty, faulty, settings=koordinator(standalone=False))
    assert verdict.allowed
    assert verdict.findings == ()


def test_standalone_judges_an_update_as_at_create() -> None:
    verdict = validate(pod_clique_set(GPU, annotations=NVLINK), pod_clique_set(GPU))
    assert rules(verdict) == ["koordinator/mnnvl"]
    assert not verdict.allowed


GANGS = {("default", "demo-0"): PodGangFacts("demo")}
BOUND = frozenset({("default", "demo-0")})
CHANGES: dict[str, tuple[dict[str, str], dict[str, str], ClusterFacts, list[str]]] = {
    "to another scheduler while gangs may exist": (
        KOORD,
        {LABEL: "default-scheduler"},
        NOTHING_KNOWN,
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
    "adoption when nobody knows of its pods": ({}, KOORD, ClusterFacts(pod_gangs=GANGS), ["rollcall/scheduler-change"]),
    "no change": (KOORD, KOORD, ClusterFacts(pod_gangs=GANGS, bound_gangs=BOUND), []),
}


@pytest.mark.parametrize(("before", "after", "facts", "expected"), CHANGES.values(), ids=CHANGES)
def test_the_record_may_change_only_while_no_gang_lives(
    before: dict[str, str], after: dict[str, str], facts: ClusterFacts, expected: list[str]
) -> None:
    old, new = pod_clique_set(labels=before), pod_clique_set(labels=after)
    settings = koordinator(standalone=False)
    verdict = validate(new, old, settings=settings, facts=facts)
    assert rules(verdict) == expected
    assert all(finding.forbidden for finding in verdict.findings)


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
def test_what_always_passes(fields: dict[str, Any]) -> None:
    asked = replace(request(pod_clique_set(GPU, annotations=NVLINK)), **fields)
    for decide in (admission.mutate, admission.validate):
        verdict = decide(asked, NOTHING_KNOWN, koordinator())
        assert (verdict.allowed, verdict.findings, verdict.patch) == (True, (), ())


def test_a_deletion_timestamp_in_a_new_manifest_is_no_way_around_the_record() -> None:
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
def test_nor_is_it_a_way_around_the_rules(manifest: Any, found: list[str]) -> None:
    leaving = {**manifest, "metadata": {**manifest["metadata"], "deletionTimestamp": LEAVING}}
    verdict = validate(leaving)
    assert (verdict.allowed, rules(verdict)) == (False, found)
    (judgement,) = judge(deepcopy(leaving), NOTHING_KNOWN, koordinator())
    assert (judgement.verdict.allowed, rules(judgement.verdict)) == (False, found)


def test_an_object_on_its_way_out_passes_so_that_finalizers_can_go() -> None:
    manifest = pod_clique_set(GPU, annotations=NVLINK)
    manifest["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    assert validate(manifest, manifest).findings == ()
    asked = {
        "uid": "u",
        "operation": "UPDATE",
        "kind": {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"},
        "object": manifest,
        "oldObject": pod_clique_set(),
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
    (judgement,) = judge(review, NOTHING_KNOWN, koordinator())
    assert (judgement.verdict.allowed, judgement.verdict.findings) == (True, ())


ENFORCEMENT: dict[str, tuple[dict[str, Any], ClusterFacts, Action | None]] = {
    "by default": ({}, NOTHING_KNOWN, Action.DENY),
    "the profile only warns": ({"mode": "warn"}, NOTHING_KNOWN, Action.WARN),
    "the profile only counts": ({"mode": "audit"}, NOTHING_KNOWN, Action.AUDIT),
    "the profile is off": ({"mode": "off"}, NOTHING_KNOWN, None),
    "one rule only warns": ({"rules": {"koordinator/mnnvl": "warn"}}, NOTHING_KNOWN, Action.WARN),
    "one rule is off": ({"rules": {"koordinator/mnnvl": "off"}}, NOTHING_KNOWN, None),
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
def test_a_rule_takes_the_action_that_the_configuration_gives_it(
    own: dict[str, Any], facts: ClusterFacts, action: Action | None
) -> None:
    verdict = validate(pod_clique_set(GPU, annotations=NVLINK), settings=koordinator(enforcement=own), facts=facts)
    assert [finding.action for finding in verdict.findings] == ([] if action is None else [action])
    assert verdict.allowed is (action is not Action.DENY)


def test_a_rule_that_fails_closed_denies_whatever_is_said() -> None:
    manifest = pod_clique_set(groups=[scaling_group("decode", "worker", topologyConstraint=required("rack"))])
    verdict = validate(manifest, settings=koordinator(enforcement={"mode": "off"}))
    assert rules(verdict) == ["koordinator/scaling-group-topology"]
    assert not verdict.allowed


def test_what_fails_closed_is_told_first() -> None:
    manifest = pod_clique_set(
        GPU, annotations=NVLINK, groups=[scaling_group("decode", "worker", topologyConstraint=required("rack"))]
    )
    assert rules(validate(manifest)) == ["koordinator/scaling-group-topology", "koordinator/mnnvl"]


def test_the_configuration_speaks_for_a_namespace_whose_labels_say_nothing() -> None:
    settings = replace(PLAIN_DEFAULT, namespaces={"default": NamespaceDefaults("koord-scheduler", Action.WARN)})
    verdict = validate(pod_clique_set(GPU, annotations=NVLINK), settings=settings)
    assert [(finding.rule, finding.action) for finding in verdict.findings] == [("koordinator/mnnvl", Action.WARN)]
    overruled = validate(
        pod_clique_set(),
        settings=settings,
        facts=ClusterFacts(namespaces={"default": Namespace({LABEL: "default-scheduler"})}),
    )
    assert overruled.scheduler == "default-scheduler"


def test_a_missing_api_is_refused_and_an_unknown_one_is_not() -> None:
    assert rules(validate(pod_clique_set(), facts=ClusterFacts(apis=frozenset()))) == ["rollcall/api-missing"]
    served = frozenset({Api("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup")})
    assert rules(validate(pod_clique_set(), facts=ClusterFacts(apis=served))) == []


OLD_CRDS = {
    "volcano": (Api("scheduling.volcano.sh", "v1beta1", "PodGroup"), "subGroupPolicy", "Volcano 1.14"),
    "kai-scheduler": (Api("scheduling.run.ai", "v2alpha2", "PodGroup"), "minSubGroup", "KAI 0.15"),
}


@pytest.mark.parametrize(("scheduler", "wanted"), OLD_CRDS.items())
def test_a_crd_that_would_drop_the_gang_in_silence_is_a_reason_to_refuse(
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
    assert f"has no spec.{field}, which came with {since}; its workloads are refused" in reason


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
def test_a_clique_name_is_warned_of_where_grove_would_take_it_for_a_later_one(
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
        "set minAvailable to 2 or less, or raise replicas",
    ),
    "a scaling group's minimum above its replicas": (
        pod_clique_set(groups=[scaling_group("decode", "worker", replicas=2, minAvailable=3)]),
        "spec.template.podCliqueScalingGroups[0].minAvailable",
        "set minAvailable to 2 or less, or raise replicas",
    ),
    "a scaling group of no replicas": (
        pod_clique_set(groups=[scaling_group("decode", "worker", replicas=0)]),
        "spec.template.podCliqueScalingGroups[0].minAvailable",
        "set replicas to 1 or more",
    ),
    "a minimum of none": (
        pod_clique_set(groups=[scaling_group("decode", "worker", minAvailable=0)]),
        "spec.template.podCliqueScalingGroups[0].minAvailable",
        "set minAvailable to 1 or more",
    ),
}


@pytest.mark.parametrize(("manifest", "place", "remedy"), MINIMA.values(), ids=MINIMA)
def test_a_gang_that_can_never_be_complete_is_refused_with_what_would_complete_it(
    manifest: Any, place: str, remedy: str
) -> None:
    verdict = validate(manifest)
    assert [(finding.rule, str(finding.at), finding.remedy) for finding in verdict.findings] == [
        ("grove/min-available", place, remedy)
    ]


MALFORMED = {
    "metadata is a list": ({"metadata": []}, ["metadata"]),
    "labels are numbers": ({"metadata": {"labels": 7}}, ["metadata.labels"]),
    "spec is a string": ({"spec": "x"}, ["spec"]),
    "replicas and a name": (
        {"spec": {"replicas": "2", "template": {"cliques": [{"name": 5}]}}},
        ["spec.replicas", "spec.template.cliques[0].name"],
    ),
    "true is no number": ({"spec": {"replicas": True}}, ["spec.replicas"]),
    "a container is a string": (
        {"spec": {"template": {"cliques": [{"name": "w", "spec": {"podSpec": {"containers": ["x"]}}}]}}},
        ["spec.template.cliques[0].spec.podSpec.containers[0]"],
    ),
}


@pytest.mark.parametrize(("fields", "places"), MALFORMED.values(), ids=MALFORMED)
def test_an_object_that_cannot_be_read_is_refused_at_every_wrong_field(
    fields: dict[str, Any], places: list[str]
) -> None:
    manifest = {**pod_clique_set(), **fields}
    verdict = validate(manifest)
    assert [(finding.rule, str(finding.at)) for finding in verdict.findings] == [
        ("grove/shape", place) for place in places
    ]
    assert not verdict.allowed


@pytest.mark.parametrize(
    "old",
    [
        {**pod_clique_set(), "spec": "x"},
        pod_clique_set(clique("worker", labels=7)),
        pod_clique_set(clique("worker", pod={"initContainers": "x"})),
    ],
    ids=["spec", "a clique's labels", "a clique's init containers"],
)
def test_an_old_object_that_cannot_be_read_does_not_hold_up_its_repair(old: Any) -> None:
    asked = request(pod_clique_set(), old, PCS)
    assert admission.validate(asked, NOTHING_KNOWN, koordinator()).allowed
    worse = request(pod_clique_set(GPU, annotations=NVLINK), old, PCS)
    assert rules(admission.validate(worse, NOTHING_KNOWN, koordinator())) == ["koordinator/mnnvl"]


def test_a_malformed_pod_is_refused_by_validation_and_left_by_mutation() -> None:
    asked = request(gang_pod(schedulingGates="x"))
    assert admission.mutate(asked, NOTHING_KNOWN, koordinator(gate=True)).patch == ()
    assert asked.object == gang_pod(schedulingGates="x")
    broken = {**gang_pod(), "spec": {"schedulerName": 5}}
    assert rules(admission.validate(request(broken), NOTHING_KNOWN, koordinator())) == ["grove/shape"]


def test_the_envelope_says_what_a_malformed_object_is() -> None:
    verdict = admission.validate(request({"spec": {"replicas": "x"}}, kind=PCS), NOTHING_KNOWN, koordinator())
    assert [str(finding.at) for finding in verdict.findings] == ["spec.replicas"]
    listed = admission.validate(
        request({"metadata": {"deletionTimestamp": None}, "spec": []}, kind=POD), NOTHING_KNOWN, koordinator()
    )
    assert str(listed.findings[0]).startswith("grove/shape at spec: a list of 0 items: the value has the wrong type")


def test_a_null_is_as_good_as_absent() -> None:
    manifest = pod_clique_set()
    manifest["metadata"] |= {"labels": None, "annotations": None}
    manifest["spec"]["template"] |= {"topologyConstraint": None, "podCliqueScalingGroups": None}
    assert validate(manifest).findings == ()
    assert mutate(manifest).patch[0] == {"op": "add", "path": "/metadata/labels", "value": {}}

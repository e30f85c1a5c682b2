"""How a user can be exempt from rules: by the user name only, and by nothing in an object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

from tests.texts import require_like
from tests.unit.validators.test_rule_examples import EVERY_RULE, SCHEDULERS
from tests.unit.worlds import gang_pod, koordinator, request, rules, settings_of, validate
from webhook import admission
from webhook.admission.decision import request_from
from webhook.backends.kai import pod_clique_sets as kai
from webhook.backends.koordinator.gang_groups import pod_group, pod_group_cluster
from webhook.backends.volcano import pod_clique_sets as volcano
from webhook.config.file import settings_from
from webhook.config.settings import Settings
from webhook.errors import ReviewError
from webhook.installation.webhooks import installation_settings
from webhook.model.admission_request import Kind, Request
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.findings import Action
from webhook.model.keys import Record
from webhook.model.known_objects import KaiQueue, VolcanoQueue
from webhook.model.pod_groups import GroupPod, KoordinatorPodGroup, KoordinatorPodGroups
from webhook.model.reading import Manifest
from webhook.validators.registry import Example, Rule

EVERYTHING = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}
SCHEDULER = {
    "profiles": [
        {"name": "koord-scheduler"},
        {"name": "volcano"},
        {"name": "kai-scheduler"},
        {"name": "default-scheduler", "config": {"gangScheduling": True}},
    ]
}
FACTS = ClusterFacts(kai_queues={"team-a": KaiQueue(None)}, volcano_queues={"default": VolcanoQueue("root", "Open")})


def configured(**more: Any) -> Settings:
    return installation_settings(
        settings_from({**EVERYTHING, "scheduler": SCHEDULER, **more}, "test"), "rollcall-system"
    )


def with_metadata(manifest: Manifest, **metadata: Any) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], **metadata}}


WRONG_IN_VOLCANO = volcano.pod_group(minMember=1, minTaskMember={"worker": 4})
WRONG_IN_KAI = kai.pod_group(queue="nope")
OF_A_JOB = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "x", "uid": "1", "controller": True}
CLAIMED: dict[str, Manifest] = {
    "as Rollcall's": with_metadata(WRONG_IN_KAI, labels={"app.kubernetes.io/managed-by": "rollcall"}),
    "as podgrouper's": with_metadata(WRONG_IN_KAI, annotations={"kai.scheduler/top-owner-metadata": "name: x"}),
    "as a Volcano Job's": with_metadata(WRONG_IN_VOLCANO, ownerReferences=[OF_A_JOB]),
}
WRONG = {"kai/group-queue", "volcano/task-minimums"}


@pytest.mark.parametrize("manifest", CLAIMED.values(), ids=CLAIMED)
@pytest.mark.parametrize("user", ["alice", "system:serviceaccount:team-a:pod-grouper", ""])
def test_metadata_of_an_object_never_exempts_it(manifest: Manifest, user: str) -> None:
    verdict = validate(manifest, settings=configured(), facts=FACTS, user=user)
    assert not verdict.allowed
    assert WRONG & set(rules(verdict))


EXEMPT = [
    "system:serviceaccount:rollcall-system:rollcall",
    "system:serviceaccount:rollcall-system:rollcall-reconciler",
    "system:serviceaccount:volcano-system:volcano-controllers",
    "system:serviceaccount:kai-scheduler:pod-grouper",
    "system:serviceaccount:koordinator-system:koord-scheduler",
    "system:serviceaccount:kube-system:job-controller",
]


@pytest.mark.parametrize("user", EXEMPT)
def test_the_reconciler_and_scheduler_controllers_can_write_any_gang_object(user: str) -> None:
    settings = configured()
    for manifest in CLAIMED.values():
        assert validate(manifest, settings=settings, facts=FACTS, user=user).findings == ()


def test_pods_are_judged_whichever_user_creates_them() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default", "labels": {"pod-group.scheduling.sigs.k8s.io": "gone"}},
        "spec": {"schedulerName": "koord-scheduler", "containers": []},
    }
    job_controller = "system:serviceaccount:kube-system:job-controller"
    verdict = validate(pod, settings=configured(), facts=pod_group_cluster(), user=job_controller)
    assert rules(verdict) == ["koordinator/pod-group-missing"]


def test_the_configuration_names_the_exempt_users() -> None:
    argo, ours = "system:serviceaccount:argocd:controller", "system:serviceaccount:gangs:writer"
    settings = configured(
        tenancy={"exemptUsers": [argo], "reconcilers": [ours]},
        scheduler={"profiles": [{"name": "volcano", "controllers": ["system:serviceaccount:batch:vc-controllers"]}]},
    )
    allowed = {
        user: validate(WRONG_IN_VOLCANO, settings=settings, facts=FACTS, user=user).allowed
        for user in (argo, ours, "system:serviceaccount:batch:vc-controllers", *EXEMPT[:3])
    }
    assert list(allowed.values()) == [True, True, True, False, False, False]


def test_without_a_cluster_no_user_is_the_reconciler() -> None:
    assert "system:serviceaccount:rollcall-system:rollcall" not in settings_of("volcano").exempt_users
    assert installation_settings(settings_of("volcano"), "here").exempt_users >= {
        "system:serviceaccount:here:rollcall",
        "system:serviceaccount:here:rollcall-reconciler",
    }


def reviewed(user_info: Any) -> Any:
    asked = {"uid": "u", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": {}}
    if user_info is not None:
        asked["userInfo"] = user_info
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


def test_the_user_name_of_a_review_has_a_length_limit() -> None:
    assert request_from(reviewed({"username": "alice", "groups": ["a"]})).user == "alice"
    assert request_from(reviewed(None)).user == request_from(reviewed({})).user == ""
    assert request_from(reviewed({"username": "x" * 10_000})).user == "x" * 512
    for wrong in ({"username": 1}, "alice", [1]):
        with pytest.raises(ReviewError, match="userInfo"):
            request_from(reviewed(wrong))


# Pods with Grove's labels


def stored(user: str, settings: Settings | None = None, **pod: Any) -> Any:
    facts = ClusterFacts(pod_clique_sets={("default", "demo"): Record("koord-scheduler")}, pod_gangs={})
    return validate(gang_pod(**pod), settings=settings or settings_of("koord-scheduler"), facts=facts, user=user)


def test_a_pod_with_grove_s_labels_that_another_user_creates_is_reported() -> None:
    verdict = stored("alice")
    assert verdict.allowed
    pattern = 'grove/foreign-pod at metadata.labels[grove.io/podgang]: "demo-0": "alice" ... tenancy.groveOperators'
    require_like([str(finding) for finding in verdict.warnings], [pattern])


@pytest.mark.parametrize(
    "user", ["", "system:serviceaccount:grove-system:grove-operator", "system:serviceaccount:dynamo:grove-operator"]
)
def test_pods_of_the_operator_and_pods_with_an_unknown_creator_are_not_reported(user: str) -> None:
    assert rules(stored(user)) == []


def test_an_operator_account_does_not_count_in_another_namespace() -> None:
    tenancy = {"groveOperators": ["system:serviceaccount:grove-system:grove-operator"]}
    settings = settings_from({**EVERYTHING, "scheduler": SCHEDULER, "tenancy": tenancy}, "test")
    assert rules(stored("system:serviceaccount:grove-system:grove-operator", settings)) == []
    assert rules(stored("system:serviceaccount:team-a:grove-operator", settings)) == ["grove/foreign-pod"]


def test_a_foreign_pod_is_refused_if_the_configuration_says_so() -> None:
    strict = settings_of("koord-scheduler", enforcement={"rules": {"grove/foreign-pod": "deny"}})
    assert not stored("alice", strict).allowed


def test_a_foreign_pod_without_a_record_is_reported_too() -> None:
    facts = ClusterFacts(pod_clique_sets={})
    cluster = settings_of("koord-scheduler", standalone=False)
    asked = request(gang_pod(), user="alice")
    assert rules(admission.validate(asked, facts, cluster)) == ["grove/foreign-pod"]


# Other namespaces

NAMESPACED = (
    "koordinator_pod_groups",
    "kai_pod_groups",
    "volcano_pod_groups",
    "workloads",
    "pod_groups",
    "composite_pod_groups",
    "group_pods",
    "pod_gangs",
    "gang_objects",
    "pod_clique_sets",
    "jobs",
    "job_sets",
    "leader_worker_sets",
    "train_jobs",
    "training_runtimes",
    "resource_quotas",
    "limit_ranges",
    "resource_claim_templates",
    "resource_claims",
    "local_queues",
)


def elsewhere(facts: ClusterFacts, *, empty: bool) -> ClusterFacts:
    """The facts with all objects of namespaces in another one, or with none of them."""
    changed: dict[str, Any] = {}
    for name in NAMESPACED:
        part = getattr(facts, name)
        if part is not None:
            moved = {} if empty else {(*key[:-2], "elsewhere", key[-1]): _elsewhere(part[key]) for key in part}
            changed[name] = type(part)(moved) if isinstance(part, dict) else moved
    return replace(facts, **changed)


def _elsewhere(value: Any) -> Any:
    # What a backend calls a group is different in each namespace.
    return replace(value, group=("elsewhere", value.group)) if isinstance(value, GroupPod) else value


def test_every_namespaced_fact_is_moved_for_the_test() -> None:
    keyed: set[str] = set()
    for rule in EVERY_RULE:
        for example in (rule.fails, rule.passes):
            for part in fields(example.facts):
                value = getattr(example.facts, part.name)
                if isinstance(value, Mapping) and any(isinstance(key, tuple) for key in value):
                    keyed.add(part.name)
    # By an API, and by no object; and what only files show.
    assert keyed - {"spec_fields", "group_sizes", "file_groups", "pods_gangs", "gang_sizes"} <= set(NAMESPACED)


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.id)
def test_objects_in_another_namespace_cause_no_refusal_in_this_one(rule: Rule) -> None:
    """A Queue has no namespace: a user who changes one is shown the PodGroups of all namespaces."""
    for example in (rule.fails, rule.passes):
        if example.object.get("kind") == "Queue":
            continue
        with_them, without = (_denied(rule, example, elsewhere(example.facts, empty=empty)) for empty in (False, True))
        assert with_them <= without


def _denied(rule: Rule, example: Example, facts: ClusterFacts) -> set[tuple[str, str, str]]:
    stated: dict[str, Any] = {} if example.version is None else {"schedulerVersion": example.version}
    name = SCHEDULERS.get(rule.id, example.scheduler or "koord-scheduler")
    settings = settings_of(name, example.config, kueue=example.kueue, **stated)
    verdict = validate(example.object, example.old, settings=settings, facts=facts)
    return {finding.identity for finding in verdict.denials}


def test_a_list_in_another_namespace_that_names_this_gang_causes_a_warning() -> None:
    mine = with_metadata(pod_group("train"), namespace="team-b", annotations={})
    theirs = with_metadata(
        pod_group("decoy", settings={"groups": '["team-a/decoy","team-b/train"]'}), namespace="team-a"
    )
    verdict = validate(mine, settings=settings_of("koord-scheduler"), facts=pod_group_cluster(theirs))
    assert [(finding.rule, finding.action) for finding in verdict.findings] == [
        ("koordinator/gang-groups-differ", Action.WARN)
    ]


def test_a_conflict_in_the_same_namespace_is_refused_beside_one_in_another() -> None:
    mine = pod_group("leader", settings={"groups": '["team-a/decoy","default/leader","default/worker"]'})
    theirs = with_metadata(pod_group("decoy"), namespace="team-a")
    verdict = validate(
        mine, settings=settings_of("koord-scheduler"), facts=pod_group_cluster(theirs, pod_group("worker"))
    )
    assert [finding.rule for finding in verdict.denials] == ["koordinator/gang-groups-differ"]
    assert "default/worker" in verdict.denials[0].why


@pytest.mark.parametrize("foreign", [0, 33, 400])
def test_lists_in_other_namespaces_do_not_hide_one_in_the_same_namespace(foreign: int) -> None:
    mine = ("default/helper", "default/train")
    groups = {("default", "helper"): KoordinatorPodGroup(1, (*mine, "default/x"))}
    groups |= {("evil", f"g{number}"): KoordinatorPodGroup(1, mine) for number in range(foreign)}
    facts = replace(NO_FACTS, koordinator_pod_groups=KoordinatorPodGroups(groups))
    annotations = {"gang.scheduling.koordinator.sh/groups": json.dumps(mine)}
    stored = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default", "annotations": annotations},
        "spec": {"minMember": 1},
    }
    kind = Kind("scheduling.sigs.k8s.io", "v1alpha1", "PodGroup")
    asked = Request("uid", "CREATE", kind, "default", "train", stored, user="alice")
    verdict = admission.validate(asked, facts, koordinator(standalone=False))
    assert "koordinator/gang-groups-differ" in [finding.rule for finding in verdict.denials]

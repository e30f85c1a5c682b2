"""The PodGroup that Grove's KAI backend makes for all PodGangs of a replica (ai-dynamo/grove, pull request 735), built
by hand from operator/internal/scheduler/kai/aggregate.go.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.worlds import request, rules, settings_of
from webhook.admission import decision
from webhook.admission.decision import doubtful_facts
from webhook.backends.kai.pod_clique_sets import subgroup
from webhook.config.settings import Settings
from webhook.model.admission_request import Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action
from webhook.model.grove import PodGang
from webhook.model.keys import Needed, Record
from webhook.model.known_objects import PodGangFacts
from webhook.model.reading import Manifest
from webhook.offline.judgement import judge
from webhook.operations.releases import aggregate_of

OPERATOR = "system:serviceaccount:grove-system:grove-operator"
OWNER: Manifest = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "name": "demo",
    "uid": "7",
    "controller": True,
    "blockOwnerDeletion": True,
}
SHAPE = "kai/group-optional"


def aggregate(owner: Manifest | None = OWNER, branches: int = 1, **spec: Any) -> Manifest:
    """One anchor, and `branches` PodGangs of further replicas, each below a set that may stay empty."""
    collection, anchor = "0-non-anchor-podgangs", "1-demo-0-1788"
    trees = [
        subgroup(anchor, minSubGroup=2),
        subgroup("demo-0-1788-leaf-demo-0-router-0a1b2c3d4e", 2, anchor),
        subgroup("demo-0-1788-leaf-demo-0-decode-0-worker-1a1b2c3d4", 4, anchor),
    ]
    if branches:
        trees.insert(0, subgroup(collection, minSubGroup=branches))
    for index in range(1, branches + 1):
        utility, branch = f"utility-demo-0-1788-decode-{index}-5f6a7b8c9d", f"demo-0-1788-decode-{index}"
        trees += [
            subgroup(utility, parent=collection, minSubGroup=0),
            subgroup(branch, parent=utility, minSubGroup=1),
            subgroup(f"{branch}-leaf-worker-2a1b2c3d4e", 4, branch),
        ]
    metadata: Manifest = {
        "name": "grove-demo-0",
        "namespace": "default",
        "labels": {
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": "demo",
            "grove.io/podcliqueset-replica-index": "0",
        },
    }
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    body = {"minSubGroup": 1 + bool(branches), "queue": "team-a", "subGroups": trees, **spec}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": body}


def settings() -> Settings:
    return settings_of("kai-scheduler")


def stored(manifest: Manifest, user: str, old: Manifest | None = None) -> Verdict:
    return decision.validate(request(manifest, old, user=user), ClusterFacts(), settings())


def test_grove_s_operator_may_write_it_and_another_user_may_not() -> None:
    manifest = aggregate()
    assert rules(stored(manifest, OPERATOR)) == []
    assert SHAPE in rules(stored(manifest, "alice"))
    assert not stored(manifest, "alice").allowed


def test_a_file_of_it_is_warned_about_and_not_refused() -> None:
    (judgement,) = judge(deepcopy(aggregate()), ClusterFacts(), settings())
    told = [(one.rule, str(one.at), one.action) for one in judgement.verdict.findings]
    assert (judgement.verdict.allowed, told) == (True, [(SHAPE, "spec.subGroups[4].minSubGroup", Action.WARN)])


PODGANG: Manifest = {**OWNER, "apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "name": "demo-0"}
OWNERS: dict[str, tuple[Manifest, ClusterFacts]] = {
    "a set": (OWNER, ClusterFacts(pod_clique_sets={("default", "demo"): Record(None)})),
    "a PodGang": (PODGANG, ClusterFacts(pod_gangs={("default", "demo-0"): PodGangFacts("demo")})),
}


@pytest.mark.parametrize(("owner", "there"), OWNERS.values(), ids=OWNERS)
def test_an_account_of_any_namespace_writes_only_for_what_exists(owner: Manifest, there: ClusterFacts) -> None:
    part = "pod_clique_sets" if there.pod_clique_sets else "pod_gangs"
    elsewhere = {("team-b", name): value for (_, name), value in getattr(there, part).items()}
    fields: dict[str, Any] = {part: elsewhere}
    missing = ClusterFacts(**fields)
    asked = request(aggregate(owner), user=OPERATOR)
    assert decision.validate(asked, there, settings()).findings == ()
    verdict = decision.validate(asked, missing, settings())
    assert not verdict.allowed
    # A cache may be behind, so the owner is read before the refusal.
    needed = Needed(part, ("default", owner["name"]))
    assert doubtful_facts(verdict) == (needed,)
    assert decision.validate(
        asked, missing.learned({needed: getattr(there, part)["default", owner["name"]]}), settings()
    ).allowed
    assert not decision.validate(asked, missing.learned({needed: None}), settings()).allowed


def test_an_account_of_one_namespace_is_believed() -> None:
    configured = settings()
    configured = replace(configured, tenancy=replace(configured.tenancy, grove_operators=(OPERATOR,)))
    asked = request(aggregate(), user=OPERATOR)
    assert decision.validate(asked, ClusterFacts(pod_clique_sets={}), configured).findings == ()


FORGED: dict[str, Manifest | None] = {
    "no owner": None,
    "an owner that is not its controller": {**OWNER, "controller": False},
    "another kind": {**OWNER, "apiVersion": "apps/v1", "kind": "Deployment"},
    "another group": {**OWNER, "apiVersion": "example.com/v1alpha1"},
}


@pytest.mark.parametrize("owner", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("user", [OPERATOR, ""], ids=["the operator", "a file"])
def test_one_without_grove_s_reference_is_judged(owner: Manifest | None, user: str) -> None:
    assert SHAPE in rules(stored(aggregate(owner), user))


def test_an_operator_of_another_name_is_a_tenant_until_it_is_configured() -> None:
    user, configured = "system:serviceaccount:platform:grove", settings()
    assert not stored(aggregate(), user).allowed
    tenancy = replace(configured.tenancy, grove_operators=(user,))
    asked = request(aggregate(), user=user)
    assert decision.validate(asked, ClusterFacts(), replace(configured, tenancy=tenancy)).allowed


RUNNING = {"resourcesStatus": {"allocated": {"cpu": "4"}}}


@pytest.mark.parametrize(("status", "rule"), [(RUNNING, "kai/group-raised"), ({}, "kai/group-raised-unseen")])
def test_scaling_out_a_running_replica_is_a_warning_and_not_refused(status: Manifest, rule: str) -> None:
    running, larger = {**aggregate(), "status": status}, aggregate(branches=2)
    verdict = stored(larger, OPERATOR, running)
    told = [(one.rule, str(one.at), one.value, one.action) for one in verdict.findings]
    leaf = "spec.subGroups[9]"
    assert (verdict.allowed, told) == (True, [(rule, f"{leaf}.minMember", 4, Action.WARN)])
    assert rule in rules(stored(larger, "alice", running))


def test_a_raised_leaf_of_a_running_gang_is_said_unless_it_is_never_stale() -> None:
    def scaled(minimum: int, **spec: Any) -> Manifest:
        manifest = aggregate(branches=0, **spec)
        manifest["spec"]["subGroups"][2]["minMember"] = minimum
        return manifest

    running = {**scaled(4), "status": RUNNING}
    assert rules(stored(scaled(5), OPERATOR, running)) == ["kai/group-raised"]
    assert not stored(scaled(5), "alice", running).allowed
    assert rules(stored(scaled(5, stalenessGracePeriod="-1s"), OPERATOR, running)) == []


def test_where_it_runs_is_judged_whoever_writes_it() -> None:
    facts = ClusterFacts(kai_queues={})
    asked = request(aggregate(queue="nowhere"), user=OPERATOR)
    assert "kai/group-queue" in rules(decision.validate(asked, facts, settings()))


def gang(name: str, replica: str = "0", finalizer: str = "kai.scheduler/aggregate-podgroup") -> PodGang:
    labels = {"app.kubernetes.io/part-of": name, "grove.io/podcliqueset-replica-index": replica}
    metadata = {"name": f"{name}-{replica}-1788", "namespace": "default", "labels": labels, "finalizers": [finalizer]}
    return PodGang({"metadata": metadata, "spec": {"podgroups": []}})


@pytest.mark.parametrize(
    ("podgang", "name"),
    [
        (gang("demo"), "grove-demo-0"),
        (gang("demo", "12"), "grove-demo-12"),
        # SHA-256 of "grove-a.b-0".
        (gang("a.b"), "grove-a-b-0-9efa65a1c4"),
        (gang("demo", finalizer="example.com/other"), ""),
    ],
)
def test_a_podgang_of_an_aggregate_has_its_name(podgang: PodGang, name: str) -> None:
    assert aggregate_of(podgang) == name


def test_a_long_name_is_cut_to_a_label_value() -> None:
    name = aggregate_of(gang("x" * 80))
    assert (len(name), name[:9]) == (63, "grove-xxx")

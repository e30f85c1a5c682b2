"""Pods that join a gang of another owner: by the mark of its scheduler, or by naming its workload as controller."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.admission.opted_in.worlds import (
    job_pod,
    job_set_pod,
    known,
    leader_pod,
    recorded,
    schedulers,
)
from tests.unit.growth.step_counts import Cost
from tests.unit.worlds import request, rules
from webhook import admission
from webhook.admission.decision import doubtful_facts
from webhook.backends.coscheduling import POD_GROUP as COSCHEDULING_GROUP
from webhook.backends.kai.keys import POD_GROUP as KAI_GROUP
from webhook.backends.koordinator.keys import POD_GROUP as KOORDINATOR_GROUP
from webhook.backends.kube.groups import WORKLOADS_OF_GANGS
from webhook.backends.volcano.keys import POD_GROUP as VOLCANO_GROUP
from webhook.config.settings import Settings
from webhook.model.admission_request import Verdict
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.findings import Action
from webhook.model.gang_objects import GangObjects, LivingGang
from webhook.model.keys import Api, Needed
from webhook.model.pod_groups import Groups, TreeGroup
from webhook.model.reading import Manifest
from webhook.validators.examples import job, job_set, leader_worker_set, replicated

JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
STATEFUL_SET_CONTROLLER = "system:serviceaccount:kube-system:statefulset-controller"
WORKLOADS = WORKLOADS_OF_GANGS[0].api
EVERY = schedulers(
    {"name": "koord-scheduler"},
    {"name": "volcano"},
    {"name": "kai-scheduler"},
    {"name": "scheduler-plugins-scheduler"},
    {"name": "default-scheduler", "config": {"gangScheduling": True}},
)
REFUSING = schedulers(
    *(
        {"name": name, "enforcement": {"rules": {f"{prefix}/foreign-member": "deny"}}, **besides}
        for name, prefix, besides in (
            ("koord-scheduler", "koordinator", {}),
            ("volcano", "volcano", {}),
            ("kai-scheduler", "kai", {}),
            ("scheduler-plugins-scheduler", "coscheduling", {}),
            ("default-scheduler", "kube", {"config": {"gangScheduling": True}}),
        )
    )
)
OF_SET = LivingGang("demo-0", "demo-0", ("demo-0-worker",), moved=True, owner="uid-of-demo")
OF_JOB_SET = LivingGang("demo", "", (), moved=False, owner="uid-of-demo")


def plain(**parts: Any) -> Manifest:
    """A pod that its user created; keywords are labels and annotations, and the others are fields of the spec."""
    metadata = {"name": "stranger", "namespace": "default"}
    metadata |= {part: parts.pop(part) for part in ("labels", "annotations") if part in parts}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "example.com/main"}], **parts},
    }


# A way to name a group, the kind of the object that says whose the group is, and the rule.
WAYS: dict[str, tuple[Manifest, Api, str]] = {
    "koord-scheduler, label": (
        plain(labels={"pod-group.scheduling.sigs.k8s.io": "demo-0"}),
        KOORDINATOR_GROUP,
        "koordinator/foreign-member",
    ),
    "koord-scheduler, old label": (
        plain(labels={"pod-group.scheduling.sigs.k8s.io/name": "demo-0"}),
        KOORDINATOR_GROUP,
        "koordinator/foreign-member",
    ),
    "koord-scheduler, annotation": (
        plain(annotations={"gang.scheduling.koordinator.sh/name": "demo-0"}),
        KOORDINATOR_GROUP,
        "koordinator/foreign-member",
    ),
    "volcano, annotation": (
        plain(annotations={"scheduling.k8s.io/group-name": "demo-0"}),
        VOLCANO_GROUP,
        "volcano/foreign-member",
    ),
    "kai-scheduler, annotation": (plain(annotations={"pod-group-name": "demo-0"}), KAI_GROUP, "kai/foreign-member"),
    "coscheduling, label": (
        plain(labels={"scheduling.x-k8s.io/pod-group": "demo-0"}),
        COSCHEDULING_GROUP,
        "coscheduling/foreign-member",
    ),
    "kube-scheduler, field": (
        plain(schedulingGroup={"podGroupName": "demo-0-w"}),
        WORKLOADS,
        "kube/foreign-member",
    ),
    "kube-scheduler 1.35, field": (
        plain(workloadRef={"name": "demo-0", "podGroup": "worker"}),
        WORKLOADS,
        "kube/foreign-member",
    ),
}
GROUPS = Groups({("default", "demo-0-w"): TreeGroup(composite=False, minimum=5, workload="demo-0")})


def holding(api: Api, gang: LivingGang, facts: ClusterFacts = NO_FACTS, name: str = "demo-0") -> ClusterFacts:
    """Facts with a gang object."""
    return replace(facts, gang_objects=GangObjects({(api, "default", name): gang}), pod_groups=GROUPS)


def created(pod: Manifest, facts: ClusterFacts, user: str = "alice", settings: Settings = EVERY) -> Verdict:
    """The verdict on a pod that `user` creates in a cluster, as it is after preparation."""
    asked = request(pod, user=user)
    admission.mutate(asked, facts, settings)
    return admission.validate(asked, facts, settings)


def controlled(pod: Manifest, kind: str, name: str, uid: str) -> Manifest:
    """The pod with a reference to a controller."""
    version = {"Job": "batch/v1", "PodCliqueSet": "grove.io/v1alpha1"}[kind]
    reference = {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [reference]}}


@pytest.mark.parametrize(("pod", "api", "rule"), WAYS.values(), ids=WAYS)
def test_a_pod_that_names_the_group_of_another_gang_is_reported(pod: Manifest, api: Api, rule: str) -> None:
    (finding,) = [one for one in created(pod, holding(api, OF_SET)).findings if one.rule == rule]
    assert (finding.action, finding.value in {"demo-0", "demo-0-w"}) == (Action.WARN, True)


@pytest.mark.parametrize(("pod", "api", "rule"), WAYS.values(), ids=WAYS)
def test_a_pod_that_names_a_group_of_another_author_is_not(pod: Manifest, api: Api, rule: str) -> None:
    facts = holding(api, OF_SET, name="another")
    assert rule not in rules(created(pod, facts))


@pytest.mark.parametrize(("pod", "api", "rule"), WAYS.values(), ids=WAYS)
def test_whose_a_group_is_is_not_judged_while_its_kind_is_not_read(pod: Manifest, api: Api, rule: str) -> None:
    facts = replace(holding(api, OF_SET), unread_gang_kinds=frozenset({api}))
    verdict = created(pod, facts)
    assert rule not in rules(verdict)
    assert [one.part for one in verdict.unjudged if one.rule == rule] == ["gang_objects"]


@pytest.mark.parametrize(("pod", "api", "rule"), WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("kind", ["Job", "PodCliqueSet"])
def test_a_reference_to_the_owner_of_the_gang_hides_no_stranger(kind: str, pod: Manifest, api: Api, rule: str) -> None:
    assert rule in rules(created(controlled(pod, kind, "demo", OF_SET.owner), holding(api, OF_SET)))


@pytest.mark.parametrize(("pod", "api", "rule"), WAYS.values(), ids=WAYS)
def test_the_object_of_the_gang_is_read_before_a_refusal_and_not_before_a_warning(
    pod: Manifest, api: Api, rule: str
) -> None:
    facts = holding(api, OF_SET)
    assert doubtful_facts(created(pod, facts)) == ()
    verdict = created(pod, facts, settings=REFUSING)
    needed = Needed("gang_objects", (api, "default", "demo-0"))
    assert (verdict.allowed, doubtful_facts(verdict)) == (False, (needed,))
    # It is gone, or has no label of Rollcall's any more, or is another gang's now.
    assert rule not in rules(created(pod, facts.learned({needed: None}), settings=REFUSING))
    other = facts.learned({needed: OF_SET._replace(gang="other")})
    assert "other" in next(one.why for one in created(pod, other, settings=REFUSING).findings if one.rule == rule)


def test_a_live_read_copies_no_gang_objects() -> None:
    costs = []
    for others in (10, 1000):
        objects = GangObjects({(WORKLOADS, "b", f"many-{index}"): OF_SET for index in range(others)})
        facts = replace(holding(WORKLOADS, OF_SET), gang_objects=objects)
        needed = Needed("gang_objects", (WORKLOADS, "default", "demo-0"))
        costs.append(Cost(lambda facts=facts, needed=needed: facts.learned({needed: OF_SET})))  # type: ignore[misc]
    assert costs[0].runs == costs[1].runs


def test_whose_a_group_of_kube_scheduler_is_is_not_judged_without_the_groups() -> None:
    facts = replace(holding(WORKLOADS, OF_SET), pod_groups=None)
    verdict = created(plain(schedulingGroup={"podGroupName": "demo-0-w"}), facts)
    assert [one.part for one in verdict.unjudged if one.rule == "kube/foreign-member"] == ["pod_groups"]


def test_a_pod_of_the_workload_that_owns_the_gang_is_not_reported() -> None:
    manifest = job_set(replicated("worker", 4))
    manifest["metadata"]["uid"] = OF_JOB_SET.owner
    facts = known(manifest)
    sibling = job_set_pod("demo", "worker", template=recorded())
    sibling["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"] = "demo-driver"
    theirs = OF_JOB_SET._replace(owner="another")
    for gang, reported in ((OF_JOB_SET, False), (theirs, True)):
        verdict = created(sibling, holding(KOORDINATOR_GROUP, gang, facts, "demo-driver"), JOB_CONTROLLER)
        assert ("koordinator/foreign-member" in rules(verdict)) is reported


def test_the_pod_of_a_job_is_reported_unless_the_job_controller_made_it() -> None:
    facts = known(job(scheduler="koord-scheduler"))
    name = job()["metadata"]["name"]
    pod = job_pod(name, recorded())
    assert "owner/foreign-pod" in rules(created(pod, facts, "alice"))
    assert "owner/foreign-pod" in rules(created(pod, facts, "system:serviceaccount:default:builder"))
    for user in (JOB_CONTROLLER, "system:kube-controller-manager", ""):
        assert "owner/foreign-pod" not in rules(created(pod, facts, user))


def test_the_pod_of_a_leader_worker_set_is_reported_unless_the_stateful_set_controller_made_it() -> None:
    facts = known(leader_worker_set(scheduler="koord-scheduler"))
    pod = leader_pod("demo", 0, recorded())
    assert "owner/foreign-pod" in rules(created(pod, facts, "alice"))
    assert "owner/foreign-pod" not in rules(
        created(pod, facts, "system:serviceaccount:kube-system:statefulset-controller")
    )


def test_a_pod_of_a_workload_without_a_gang_is_not_reported() -> None:
    elsewhere = job(scheduler="koord-scheduler", managedBy="kueue.x-k8s.io/multikueue")
    pod = job_pod(elsewhere["metadata"]["name"], recorded())
    assert "owner/foreign-pod" not in rules(created(pod, known(elsewhere), "alice"))


def test_a_pod_of_a_job_with_another_uid_is_reported_whoever_made_it() -> None:
    manifest = job(scheduler="koord-scheduler")
    manifest["metadata"]["uid"] = "another"
    pod = job_pod(manifest["metadata"]["name"], recorded())
    (finding,) = [
        one for one in created(pod, known(manifest), JOB_CONTROLLER).findings if one.rule == "owner/foreign-pod"
    ]
    assert (finding.value, finding.action) == ("1", Action.WARN)
    manifest["metadata"]["uid"] = "1"
    assert "owner/foreign-pod" not in rules(created(pod, known(manifest), JOB_CONTROLLER))

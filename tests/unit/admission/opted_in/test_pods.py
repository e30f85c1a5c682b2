"""The preparation of a pod of a TrainJob, JobSet, LeaderWorkerSet or Job, for each scheduler."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import replace
from typing import Any

import jsonpatch
import pytest

from tests.texts import require_like
from tests.unit.admission.opted_in.worlds import (
    EVERY,
    RECORD,
    job_pod,
    job_set_pod,
    known,
    leader_pod,
    mutate,
    recorded,
    schedulers,
    worker_pod,
)
from tests.unit.worlds import request
from webhook import admission
from webhook.admission.decision import required_facts
from webhook.errors import FactsUnavailable
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.keys import Needed
from webhook.model.reading import Manifest
from webhook.validators.examples import job, job_set, leader_worker_set, replicated, train_job

STAMP = "rollcall.dev/stamp"
GANG, MEMBER = "rollcall.dev/gang", "rollcall.dev/gang-member"


def _known(scheduler: str, **more: Any) -> ClusterFacts:
    jobs = replicated("driver", 1), replicated("worker", 4)
    return known(
        job(scheduler=scheduler, **more),
        job_set(*jobs, scheduler=scheduler, **more),
        leader_worker_set(scheduler=scheduler, **more),
    )


def _added(pod: Manifest, facts: ClusterFacts, settings: Any = EVERY) -> dict[str, Any]:
    """What a pod has that it had not: labels, annotations and fields of the spec."""
    before = deepcopy(pod)
    found, verdict = mutate(pod, facts=facts, settings=settings)
    assert jsonpatch.apply_patch(before, list(verdict.patch)) == found
    assert mutate(found, facts=facts, settings=settings)[1].patch == ()
    added = {}
    for part, holder in (("labels", "metadata"), ("annotations", "metadata"), ("spec", "")):
        now = found[part] if not holder else found[holder].get(part) or {}
        then = before[part] if not holder else before[holder].get(part) or {}
        if changed := {key: value for key, value in now.items() if then.get(key) != value}:
            added[part] = changed
    if stamp := added.get("annotations", {}).get(STAMP):
        assert re.fullmatch(r"[a-z-]+/[0-9a-f]{16}", stamp)
        added["annotations"][STAMP] = stamp.partition("/")[0]
    return added


@pytest.mark.parametrize(
    ("pod", "gang", "member"),
    [
        (job_pod("demo", recorded()), "demo", "demo"),
        (job_set_pod("demo", "worker", 1, recorded()), "demo", "demo-worker"),
        (leader_pod("demo", 1, recorded()), "demo-1-5f8", "demo-1-5f8"),
        (worker_pod("demo", 1, 2, recorded()), "demo-1-5f8", "demo-1-5f8"),
    ],
    ids=["Job", "JobSet", "leader", "worker"],
)
def test_koordinator_s_pods_name_their_pod_group(pod: Manifest, gang: str, member: str) -> None:
    assert _added(pod, _known("koord-scheduler")) == {
        "labels": {"pod-group.scheduling.sigs.k8s.io": member, GANG: gang, MEMBER: member},
        "annotations": {STAMP: "koord-scheduler"},
        "spec": {"schedulerName": "koord-scheduler"},
    }


def test_volcano_s_pods_name_the_group_of_the_whole_gang() -> None:
    assert _added(job_set_pod("demo", "worker", 0, recorded("volcano")), _known("volcano")) == {
        "labels": {GANG: "demo", MEMBER: "demo-worker"},
        "annotations": {
            STAMP: "volcano",
            "scheduling.k8s.io/group-name": "demo",
            "scheduling.volcano.sh/group-name": "demo",
        },
        "spec": {"schedulerName": "volcano"},
    }


@pytest.mark.parametrize(
    ("generation", "spec"),
    [
        ("v1alpha1", {"workloadRef": {"name": "demo", "podGroup": "gang"}}),
        ("v1alpha2", {"schedulingGroup": {"podGroupName": "demo"}}),
        ("v1beta1", {"schedulingGroup": {"podGroupName": "demo-worker"}}),
    ],
)
def test_kube_scheduler_s_pods_name_a_group_of_the_workload_api(generation: str, spec: dict[str, Any]) -> None:
    config = {"gangScheduling": True, "apiGeneration": generation}
    settings = schedulers({"name": "default-scheduler", "config": config})
    pod = job_set_pod("demo", "worker", 0, recorded("default-scheduler"))
    assert _added(pod, _known("default-scheduler"), settings) == {
        "labels": {GANG: "demo", MEMBER: "demo-worker"},
        "annotations": {STAMP: "default-scheduler"},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("labels", "config", "own", "queue"),
    [
        ({}, {}, {}, None),
        ({"kai.scheduler/queue": "team-a"}, {}, {}, "team-a"),
        # As KAI reads it: the owner's label, then the pod's, then the default.
        ({"kai.scheduler/queue": "team-a"}, {}, {"kai.scheduler/queue": "team-b"}, "team-a"),
        ({}, {"defaultQueue": "team-c"}, {"kai.scheduler/queue": "team-b"}, None),
        ({}, {"defaultQueue": "team-c"}, {}, "team-c"),
        ({"example.com/queue": "team-a"}, {"queueLabelKey": "example.com/queue"}, {}, "team-a"),
    ],
)
def test_kai_s_pods_get_only_scheduler_and_queue(
    labels: dict[str, str], config: dict[str, str], own: dict[str, str], queue: str | None
) -> None:
    settings = schedulers({"name": "kai-scheduler", "config": config})
    pod = job_pod("demo", recorded("kai-scheduler", **own))
    found = _added(pod, _known("kai-scheduler", labels=labels), settings)
    key = config.get("queueLabelKey", "kai.scheduler/queue")
    expected: dict[str, Any] = {"spec": {"schedulerName": "kai-scheduler"}}
    if queue is not None:
        expected["labels"] = {key: queue}
    assert found == expected


@pytest.mark.parametrize(
    ("of_job_set", "queue"), [({}, "team-a"), ({"labels": {"kai.scheduler/queue": "team-b"}}, "team-b")]
)
def test_a_trainjob_s_queue_is_used_if_its_jobset_names_none(of_job_set: dict[str, Any], queue: str) -> None:
    made = job_set(replicated("node"), scheduler="kai-scheduler", **of_job_set)
    reference = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "demo", "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    facts = known(made, train_job(scheduler="kai-scheduler", labels={"kai.scheduler/queue": "team-a"}))
    pod = job_set_pod("demo", "node", 0, recorded("kai-scheduler"))
    assert _added(pod, facts)["labels"] == {"kai.scheduler/queue": queue}


def test_a_trainjob_s_quota_reaches_its_pods() -> None:
    made = job_set(replicated("node"))
    reference = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "demo", "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    facts = known(made, train_job(labels={"quota.scheduling.koordinator.sh/name": "team-a"}))
    added = _added(job_set_pod("demo", "node", 0, recorded()), facts)
    assert added["labels"]["quota.scheduling.koordinator.sh/name"] == "team-a"


def test_a_part_that_starts_in_turn_is_a_separate_gang() -> None:
    parts = replicated("data", 1), replicated("node", 4, dependsOn=[{"name": "data"}])
    added = _added(job_set_pod("demo", "node", 0, recorded()), known(job_set(*parts)))
    assert added["labels"][GANG] == "demo-node"


def test_a_pod_gets_the_gate_only_if_the_profile_asks_for_it() -> None:
    settings = schedulers({"name": "koord-scheduler", "gate": True})
    added = _added(job_pod("demo", recorded()), _known("koord-scheduler"), settings)
    assert added["spec"]["schedulingGates"] == [{"name": "rollcall.dev/gang-sync"}]


CLAIMS: list[tuple[str, dict[str, Any]]] = [
    ("koord-scheduler", {"metadata": {"labels": {"pod-group.scheduling.sigs.k8s.io": "mine"}}}),
    ("volcano", {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "mine"}}}),
    ("kai-scheduler", {"metadata": {"annotations": {"pod-group-name": "m", "kai.scheduler/skip-podgrouper": "true"}}}),
    ("default-scheduler", {"spec": {"schedulingGroup": {"podGroupName": "mine"}}}),
]


def _claimed(scheduler: str, claim: dict[str, Any]) -> Manifest:
    template = recorded(scheduler)
    template["metadata"]["labels"].update(claim.get("metadata", {}).get("labels", {}))
    template["metadata"]["annotations"] = claim.get("metadata", {}).get("annotations", {})
    return job_pod("demo", {**template, "spec": claim.get("spec", {})})


@pytest.mark.parametrize(("scheduler", "claim"), CLAIMS, ids=[name for name, _ in CLAIMS])
def test_a_pod_with_a_group_that_the_scheduler_reads_gets_only_the_scheduler(
    scheduler: str, claim: dict[str, Any]
) -> None:
    added = _added(_claimed(scheduler, claim), _known(scheduler))
    assert added == ({} if scheduler == "default-scheduler" else {"spec": {"schedulerName": scheduler}})


@pytest.mark.parametrize(("scheduler", "claim"), CLAIMS, ids=[name for name, _ in CLAIMS])
def test_a_pod_with_a_group_that_the_scheduler_ignores_is_left_unchanged(scheduler: str, claim: dict[str, Any]) -> None:
    other = "volcano" if scheduler != "volcano" else "koord-scheduler"
    pod = _claimed(other, claim)
    found, verdict = mutate(pod, facts=_known(other))
    assert (found, verdict.patch) == (pod, ())
    (note,) = verdict.notes
    assert note.startswith("pod left as it is: ")
    assert note.endswith("has claimed it")


def test_a_pod_that_names_another_scheduler_is_left_unchanged() -> None:
    pod = job_pod("demo", {**recorded(), "spec": {"schedulerName": "mine"}})
    found, verdict = mutate(pod, facts=_known("koord-scheduler"))
    assert (found, verdict.patch) == (pod, ())
    assert verdict.notes == ("pod left as it is: spec.schedulerName says that mine has claimed it",)


def test_a_pod_with_two_claims_is_left_unchanged_if_no_scheduler_here_reads_one() -> None:
    template = recorded("volcano")
    template["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "demo"}
    template["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "demo"
    assert mutate(job_pod("demo", template), facts=_known("volcano"))[1].patch == ()


def test_a_pod_without_the_label_is_left_unchanged() -> None:
    pod = job_pod("demo")
    found, verdict = mutate(pod, facts=_known("koord-scheduler"))
    assert (found, verdict.patch, verdict.notes) == (pod, (), ())


def test_the_workload_s_record_has_precedence_over_the_pod_s_label() -> None:
    added = _added(job_pod("demo", recorded("volcano")), _known("koord-scheduler"))
    assert added["spec"] == {"schedulerName": "koord-scheduler"}


@pytest.mark.parametrize(
    ("pod", "facts", "note"),
    [
        (
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "labels": {RECORD: "volcano"}}},
            known(),
            "pod left ...: ... no workload of a kind ...",
        ),
        (job_pod("demo", recorded()), known(), "pod left as it is: its Job default/demo was not found"),
        (
            job_pod("demo", recorded()),
            known(job(scheduler=None)),
            "pod left as it is: its Job default/demo records no scheduler",
        ),
        (
            job_pod("demo", recorded()),
            known(job(scheduler="gone")),
            "pod left ...: no profile gone ...",
        ),
        (
            leader_pod("demo", 0, recorded()),
            known(leader_worker_set(startupPolicy="LeaderReady")),
            "pod left ...: the 2 workers ... the leader is ready, ...",
        ),
        (
            job_pod("demo", recorded()),
            known(job(scheduling={})),
            "pod left ...: its own controller ... spec.scheduling is set",
        ),
    ],
    ids=["of nothing", "workload not found", "no record", "no profile", "could never be complete", "native"],
)
def test_a_warning_says_why_a_pod_is_left_unchanged(pod: Manifest, facts: ClusterFacts, note: str) -> None:
    found, verdict = mutate(pod, facts=facts)
    assert (found, verdict.patch) == (pod, ())
    require_like(verdict.notes, [note])


def test_a_failed_workload_read_is_an_error_and_not_a_verdict() -> None:
    with pytest.raises(FactsUnavailable):
        mutate(job_pod("demo", recorded()), facts=NO_FACTS)
    asked = request(job_pod("demo", recorded()))
    assert required_facts(asked, NO_FACTS) == (Needed("jobs", ("default", "demo")),)


def test_only_a_prepared_pod_is_judged() -> None:
    facts = replace(_known("koord-scheduler"), elastic_quotas={})
    pod = job_pod("demo", recorded(**{"koordinator.sh/qosClass": "lsr"}))
    asked = request(pod)
    assert admission.validate(asked, facts, EVERY).allowed
    admission.mutate(asked, facts, EVERY)
    verdict = admission.validate(asked, facts, EVERY)
    assert [finding.rule for finding in verdict.denials] == ["koordinator/qos-class"]


def test_pods_of_a_job_that_falsely_claims_a_jobset_are_left_unchanged() -> None:
    owned = job()
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "run", "uid": "1", "controller": True}
    ]
    pod, verdict = mutate(job_pod("demo", recorded()), facts=known(owned))
    assert GANG not in pod["metadata"]["labels"], "no controller creates its group, and it would wait for ever"
    assert "names JobSet run as its controller" in verdict.notes[0]

"""Updates that Kueue makes of workloads and pods: it resumes and suspends them, and restores their templates.

A refusal would hold quota for ever, so none of them is refused, whatever has changed since the workload was created.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from tests.unit.admission.opted_in.worlds import EVERY, RECORD, job_pod, known
from tests.unit.admission.opted_in.worlds import stored as created
from tests.unit.worlds import request, rules
from webhook import admission
from webhook.model.admission_request import Verdict
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.findings import Action
from webhook.model.known_objects import KaiQueue, QueueTree
from webhook.model.reading import Manifest
from webhook.validators.examples import (
    clique,
    job,
    job_set,
    leader_worker_set,
    pod_clique_set,
    pod_template,
    replicated,
    runtimes,
    train_job,
)

KUEUE = "system:serviceaccount:kueue-system:kueue-controller-manager"
USER = "ada@example.com"
QUEUED = {"kueue.x-k8s.io/queue-name": "research"}
SCHEDULERS = ("koord-scheduler", "volcano", "kai-scheduler", "default-scheduler")
WRITTEN: dict[str, Any] = {
    "labels": {
        "kueue.x-k8s.io/podset": "main",
        "kueue.x-k8s.io/local-queue-name": "research",
        "kueue.x-k8s.io/cluster-queue-name": "gpus",
    },
    "annotations": {
        "kueue.x-k8s.io/workload": "job-demo-26ef8",
        "kueue.x-k8s.io/podset-unconstrained-topology": "true",
    },
}
PLACED: dict[str, Any] = {
    "nodeSelector": {"example.com/pool": "a100"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    "schedulingGates": [{"name": "kueue.x-k8s.io/topology"}],
}


def _workloads(scheduler: str) -> dict[str, Manifest]:
    # KAI's own minimum, without which KAI makes no gang of a Job.
    least = {"kai.scheduler/batch-min-member": "2"} if scheduler == "kai-scheduler" else None
    common: dict[str, Any] = {"scheduler": scheduler, "labels": QUEUED, "suspend": True}
    return {
        "Job": job(annotations=least, **common),
        "JobSet": job_set(replicated("driver", 1), replicated("workers", 2, replicas=2), **common),
        "LeaderWorkerSet": leader_worker_set(scheduler=scheduler, labels=QUEUED, leader=pod_template()),
        "TrainJob": train_job(runtimePatches=[{"manager": "example.com/own", "trainingRuntimeSpec": {}}], **common),
    }


def stored(manifest: Manifest, *, facts: ClusterFacts = NO_FACTS) -> Manifest:
    """A suspended workload that its own controller has seen."""
    return {**created(manifest, facts=facts), "status": {"conditions": [{"type": "Suspended", "status": "True"}]}}


def _templates(manifest: Manifest) -> Iterator[Manifest]:
    spec = manifest["spec"]
    if "replicatedJobs" in spec:
        yield from (one["template"]["spec"]["template"] for one in spec["replicatedJobs"])
    for holder in (spec, spec.get("leaderWorkerTemplate", {})):
        yield from (holder[field] for field in ("template", "leaderTemplate", "workerTemplate") if field in holder)


def resumed(manifest: Manifest) -> Manifest:
    """The workload as Kueue resumes it."""
    found = deepcopy(manifest)
    if "suspend" in found["spec"]:
        found["spec"]["suspend"] = False
    for template in _templates(found):
        for field, marks in WRITTEN.items():
            template.setdefault("metadata", {}).setdefault(field, {}).update(marks)
        template["spec"].update(deepcopy(PLACED))
    if found["kind"] == "TrainJob":
        patch = {"metadata": WRITTEN, "spec": PLACED}
        jobs = [{"name": "node", "template": {"spec": {"template": patch}}}]
        entry = {
            "manager": "kueue.x-k8s.io/manager",
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}},
        }
        found["spec"]["runtimePatches"].append(entry)
    return found


def judged(new: Manifest, old: Manifest, facts: ClusterFacts, user: str) -> Verdict:
    """The verdict on an update, through mutation and validation."""
    asked = request(new, old, user=user)
    assert admission.mutate(asked, facts, EVERY).patch == ()
    return admission.validate(asked, facts, EVERY)


@pytest.mark.parametrize("kind", ["Job", "JobSet", "LeaderWorkerSet", "TrainJob"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("user", [KUEUE, USER])
def test_a_workload_is_resumed_suspended_and_restored_without_a_refusal(kind: str, scheduler: str, user: str) -> None:
    facts = known(facts=runtimes(labels={RECORD: scheduler}), default=scheduler)
    waiting = stored(_workloads(scheduler)[kind], facts=facts)
    running = resumed(waiting)
    # First Kueue suspends it, then it restores the templates.
    stopped = deepcopy(running)
    if "suspend" in stopped["spec"]:
        stopped["spec"]["suspend"] = True
    for new, old in ((running, waiting), (stopped, running), (waiting, stopped), (waiting, running)):
        verdict = judged(new, old, facts, user)
        assert verdict.allowed
        assert verdict.denials == ()


def test_a_lowered_parallelism_is_written_and_restored() -> None:
    lowest = {"kueue.x-k8s.io/job-min-parallelism": "2", "kueue.x-k8s.io/job-completions-equal-parallelism": "t"}
    waiting = stored(job(labels=QUEUED, annotations=lowest, suspend=True, parallelism=4, completions=4))
    running = resumed(waiting)
    running["spec"] |= {"parallelism": 3, "completions": 3}
    for new, old in ((running, waiting), (waiting, running)):
        assert rules(judged(new, old, known(), USER)) == []


def test_a_user_who_lowers_the_parallelism_of_a_running_job_is_refused() -> None:
    lowest = {"kueue.x-k8s.io/job-min-parallelism": "2", "kueue.x-k8s.io/job-completions-equal-parallelism": "true"}
    running = stored(job(labels=QUEUED, annotations=lowest, parallelism=4, completions=4))
    fewer = deepcopy(running)
    fewer["spec"]["parallelism"] = 3
    assert rules(judged(fewer, running, known(), USER)) == ["owner/completions"]
    assert judged(fewer, running, known(), KUEUE).allowed


def test_a_job_that_lost_its_queue_while_it_waited_is_resumed() -> None:
    labels = {**QUEUED, "kai.scheduler/queue": "gone"}
    facts = known(
        facts=ClusterFacts(kai_queues=QueueTree({"team-a": KaiQueue("research"), "research": KaiQueue(None)}))
    )
    waiting = stored(job_set(scheduler="kai-scheduler", labels=labels, suspend=True), facts=facts)
    verdict = judged(resumed(waiting), waiting, facts, KUEUE)
    assert verdict.allowed
    assert ("kai/owner-queue", Action.WARN) in [(found.rule, found.action) for found in verdict.findings]


def _edited_while_suspended() -> tuple[Manifest, Manifest]:
    """A suspended Job whose user has corrected the group in its template, and that Job after Kueue's restore."""
    before = stored(job(labels=QUEUED, suspend=True))
    before["spec"]["template"]["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = "mine"
    edited = deepcopy(before)
    del edited["spec"]["template"]["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"]
    return edited, before


def test_the_labels_that_kueue_puts_back_are_not_refused() -> None:
    edited, restored = _edited_while_suspended()
    verdict = judged(restored, edited, known(), KUEUE)
    assert verdict.allowed
    assert [(found.rule, found.action) for found in verdict.findings] == [
        ("owner/claim-unread", Action.WARN),
        ("kueue/template-labels", Action.WARN),
    ]


def test_the_same_labels_are_refused_from_a_user() -> None:
    edited, restored = _edited_while_suspended()
    verdict = judged(restored, edited, known(), USER)
    assert (verdict.allowed, rules(verdict)) == (False, ["owner/claim-unread", "kueue/template-labels"])


def test_an_account_with_the_name_of_kueue_s_in_another_namespace_is_a_user() -> None:
    edited, restored = _edited_while_suspended()
    tenant = "system:serviceaccount:team-a:kueue-controller-manager"
    assert not judged(restored, edited, known(), tenant).allowed


def test_a_user_s_fault_beside_a_resume_is_refused() -> None:
    waiting = stored(job(labels=QUEUED, suspend=True))
    running = resumed(waiting)
    running["spec"]["template"]["spec"]["schedulerName"] = "volcano"
    assert rules(judged(running, waiting, known(), USER)) == ["owner/scheduler-name"]


def test_kueue_cannot_change_the_recorded_scheduler() -> None:
    waiting = stored(job(labels=QUEUED, suspend=True))
    other = deepcopy(waiting)
    other["metadata"]["labels"][RECORD] = "volcano"
    assert not judged(other, waiting, known(), KUEUE).allowed


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_gates_labels_and_node_selectors_of_pods_are_not_judged(scheduler: str) -> None:
    """The pod webhooks are asked about CREATE only; were they asked, they would allow it."""
    gated = job_pod(
        "demo", {"spec": {"schedulerName": scheduler, "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}
    )
    free = deepcopy(gated)
    free["metadata"]["labels"].update(WRITTEN["labels"])
    free["spec"].update(nodeSelector=PLACED["nodeSelector"], tolerations=PLACED["tolerations"], schedulingGates=[])
    assert rules(judged(free, gated, known(), KUEUE)) == []


@pytest.mark.parametrize("scheduler", ["koord-scheduler", "volcano", "kai-scheduler", "default-scheduler"])
def test_kueue_s_keys_on_a_pod_clique_set_are_not_refused(scheduler: str) -> None:
    facts = known(default=scheduler)
    old = stored(pod_clique_set(clique("worker"), labels={RECORD: scheduler}), facts=facts)
    new = deepcopy(old)
    new["metadata"]["labels"].update(QUEUED)
    new["metadata"].setdefault("annotations", {})["kueue.x-k8s.io/workload"] = "demo"
    assert judged(new, old, facts, KUEUE).allowed


def _patched(manager: str, pods: Manifest) -> Manifest:
    """An entry of runtimePatches with a patch of pods."""
    jobs = [{"name": "node", "template": {"spec": {"template": pods}}}]
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


@pytest.mark.parametrize("manager", ["example.com/own", "kueue.x-k8s.io/manager"])
def test_a_user_s_fault_in_a_runtime_patch_is_refused_whoever_the_patch_names_as_its_manager(manager: str) -> None:
    facts = known(facts=runtimes(labels={RECORD: "koord-scheduler"}))
    waiting = stored(_workloads("koord-scheduler")["TrainJob"], facts=facts)
    patched = deepcopy(waiting)
    claim = {"scheduling.x-k8s.io/pod-group": "mine"}
    patched["spec"]["runtimePatches"].append(_patched(manager, {"metadata": {"labels": claim}, "spec": PLACED}))
    verdict = judged(patched, waiting, facts, USER)
    assert (verdict.allowed, rules(verdict)) == (False, ["owner/claim-unread"])
    assert judged(patched, waiting, facts, KUEUE).allowed

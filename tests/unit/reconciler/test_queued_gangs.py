"""Gangs that Kueue holds, in a cluster that changes: when they are judged again, and what is counted and told."""

from __future__ import annotations

from typing import Any

import httpx

from tests.texts import Text
from tests.unit.cluster.scripted import failure
from tests.unit.gangs.queued_gangs import lacks
from tests.unit.reconciler.cluster import POD_GROUPS, PODS, SERVED, WritableWorld
from tests.unit.reconciler.opted_in_workloads import JOB_PATH, JOB_SET_PATH, job, job_pod, job_set
from tests.unit.reconciler.running_reconciler import running, sample
from tests.waiting import until
from webhook.gangs.health import GangState
from webhook.gangs.hold_reasons import GangReason
from webhook.gangs.key import GangKey
from webhook.model.known_kinds import JOB_SETS, JOBS, TRAIN_JOBS
from webhook.model.kueue_objects import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from webhook.reconciler.manager import Reconciler

API = "/apis/kueue.x-k8s.io/v1beta2"
PATH, LOCAL, CLUSTER = f"{API}/workloads", f"{API}/localqueues", f"{API}/clusterqueues"
TRAIN = GangKey("team-a", "train", "Job", "train")
SCHEDULER = {"scheduler": "koord-scheduler"}


def world() -> WritableWorld:
    found = WritableWorld(
        *SERVED,
        POD_GROUPS,
        JOBS,
        JOB_SETS,
        TRAIN_JOBS,
        WORKLOADS.resource,
        LOCAL_QUEUES.resource,
        CLUSTER_QUEUES.resource,
    )
    found.put(LOCAL, {"metadata": {"name": "main", "namespace": "team-a"}, "spec": {"clusterQueue": "research"}})
    found.put(CLUSTER, {"metadata": {"name": "research"}, "spec": {"namespaceSelector": {}}})
    return found


def suspended() -> dict[str, Any]:
    found = job(suspend=True)
    found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "main"
    return found


def workload(
    reason: str, message: str, *, kind: str = "Job", owner: str = "train", uid: str = "job-train", **status: Any
) -> dict[str, Any]:
    reference = {"apiVersion": "any/v1", "kind": kind, "name": owner, "uid": uid, "controller": True}
    return {
        "metadata": {
            "name": f"of-{owner}",
            "namespace": "team-a",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kueue.x-k8s.io/job-uid": uid},
            "ownerReferences": [reference],
        },
        "spec": {"queueName": "main", "podSets": [{"name": "main", "count": 2}]},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "False", "reason": reason, "message": message}],
            **status,
        },
    }


SHORT = workload("Pending", lacks("2", "cpu", "f"))
STOPPED = workload("Inadmissible", "ClusterQueue research is inactive")

OF_POD = {"apiVersion": "v1", "kind": "Pod", "name": "train-0", "uid": "train-0", "controller": True}


def reasons(found: Reconciler) -> list[GangReason]:
    """The reasons why the Job's gang is held."""
    health = found.health.judgement(TRAIN)
    return [] if health is None else [one.reason for one in health.obstacles]


def counted(found: Reconciler) -> dict[str, float]:
    """The gangs of the scheduler, by health."""
    family = next(one for one in found.metrics.registry.collect() if one.name == "rollcall_gangs")
    return {
        one.labels["health"]: one.value
        for one in family.samples
        if one.labels["scheduler"] == SCHEDULER["scheduler"] and one.value
    }


async def test_a_gang_is_judged_again_when_its_workload_of_kueue_comes_changes_and_goes() -> None:
    cluster = world()
    cluster.put(JOB_PATH, suspended())
    async with running(cluster) as found:
        await until(lambda: counted(found) == {"KueueNoWorkload": 1})
        cluster.put(PATH, SHORT)
        await until(lambda: counted(found) == {"queued": 1})
        cluster.tell(PATH, "MODIFIED", STOPPED)
        await until(lambda: counted(found) == {"KueueQueueUnusable": 1})
        cluster.remove(PATH, "team-a", "of-train")
        await until(lambda: counted(found) == {"KueueNoWorkload": 1})


async def test_a_train_jobs_workload_stands_for_the_gang_of_its_job_set() -> None:
    cluster = world()
    made = job_set("tune", ("node", 2), suspend=True)
    made["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "name": "tune",
            "uid": "trainjob-tune",
            "controller": True,
        }
    ]
    cluster.put(JOB_SET_PATH, made)
    async with running(cluster) as found:
        await until(lambda: counted(found) == {"suspended": 1})
        cluster.put(PATH, workload("Pending", "", kind="TrainJob", owner="tune", uid="trainjob-tune"))
        await until(lambda: counted(found) == {"queued": 1})


async def test_a_gang_is_judged_again_when_the_workload_of_one_of_its_pods_comes() -> None:
    cluster = world()
    cluster.put(JOB_PATH, job())
    for index in range(2):
        cluster.put(PODS, job_pod(index, "kueue.x-k8s.io/admission"))
    async with running(cluster) as found:
        await until(lambda: GangReason.KUEUE_NO_WORKLOAD in reasons(found))
        cluster.put(PATH, {**SHORT, "metadata": {**SHORT["metadata"], "labels": {}, "ownerReferences": [OF_POD]}})
        await until(lambda: GangReason.KUEUE_WAITS_FOR_QUOTA in reasons(found))


async def test_only_what_does_not_pass_by_itself_gets_an_event() -> None:
    cluster = world()
    cluster.put(JOB_PATH, suspended())
    cluster.put(PATH, SHORT)
    async with running(cluster) as found:
        await until(lambda: counted(found) == {"queued": 1})
        cluster.tell(PATH, "MODIFIED", STOPPED)
        await until(lambda: cluster.events)
    assert [event["reason"] for event in cluster.events] == ["KueueQueueUnusable"]
    assert cluster.events[0]["note"] == Text(
        "ClusterQueue research is inactive; ", "describe localqueues.kueue.x-k8s.io main -n team-a"
    )
    assert cluster.events[0]["regarding"]["name"] == "train"


async def test_the_event_of_a_gang_that_kueue_took_back_says_why_its_scheduler_held_it() -> None:
    cluster = world()
    cluster.put(JOB_PATH, job())
    async with running(cluster) as found:
        await until(lambda: counted(found) == {"GangTooFewPods": 1})
        cluster.tell(JOB_PATH, "MODIFIED", suspended())
        stats = {"evictions": [{"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 2}]}
        cluster.put(PATH, workload("Pending", "", schedulingStats=stats))
        await until(lambda: "KueueTookBack" in [event["reason"] for event in cluster.events])
    assert cluster.events[-1]["note"] == Text(
        "2 times",
        "koord-scheduler",
        "within 30m; ",
        "GangTooFewPods: train has 0 pods of the 2",
        "koord-scheduler lacks",
    )


async def test_what_kueue_wrote_into_the_template_of_an_admitted_workload_holds_no_gang() -> None:
    cluster = world()
    admitted = {**suspended(), "status": {"ready": 0}}
    admitted["spec"]["suspend"] = False
    metadata = admitted["spec"]["template"]["metadata"]
    metadata["annotations"] = {"kueue.x-k8s.io/workload": "of-train"}
    metadata["labels"]["kueue.x-k8s.io/podset"] = "main"
    cluster.put(JOB_PATH, admitted)
    async with running(cluster) as found:
        await until(lambda: counted(found) == {"GangTooFewPods": 1})


async def test_gangs_are_judged_without_kueue_if_its_objects_may_not_be_read() -> None:
    cluster = world()
    cluster.put(JOB_PATH, suspended())
    cluster.put(PATH, STOPPED)
    cluster.refused = {PATH: httpx.Response(403, json=failure(403, "workloads.kueue.x-k8s.io is forbidden"))}
    async with running(cluster) as found:
        await until(lambda: counted(found) == {"suspended": 1})
        health = found.following.health(TRAIN)
    assert health is not None
    assert (health.state, health.obstacles) == (GangState.SUSPENDED, ())
    assert sample(found, "rollcall_gangs", health="suspended", **SCHEDULER) == 1


async def test_a_workload_that_runs_in_another_cluster_is_counted_and_gets_no_objects() -> None:
    cluster = world()
    cluster.put(JOB_PATH, job(managedBy="kueue.x-k8s.io/multikueue"))
    async with running(cluster) as found:
        await until(lambda: counted(found) == {"elsewhere": 1})
    assert cluster.writes == []

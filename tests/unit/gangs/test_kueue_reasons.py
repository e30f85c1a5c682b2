"""Why Kueue holds a gang: one table with one Workload for each reason, with the messages of Kueue 0.19."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.gangs.queued_gangs import condition, health, job, queued_facts, workload
from webhook.gangs.health import State
from webhook.gangs.hold_reasons import Reason
from webhook.model.kueue.objects import ClusterQueue, LocalQueue
from webhook.model.reading import Manifest


def held(reason: str, message: str) -> Manifest:
    return condition("QuotaReserved", reason, message)


def reserved(*others: Manifest) -> list[Manifest]:
    return [condition("QuotaReserved", "QuotaReserved", status=True), *others]


POD_SET = "couldn't assign flavors to pod set main: "
STOPPED = ClusterQueue(
    stop_policy="Hold", active=False, reason="Stopped", message="Can't admit new workloads: is stopped."
)
# Conditions of the Workload, and other parts of it or of the facts; then the whole reason.
CASES: dict[str, tuple[list[Manifest], dict[str, Any], str]] = {
    "it is short of quota": (
        [held("Pending", f"{POD_SET}insufficient unused quota for nvidia.com/gpu in flavor a100, 3 more needed")],
        {},
        "KueueWaitsForQuota: ClusterQueue research is short of 3 nvidia.com/gpu in flavor a100; it is the next in its "
        "queue; wait for quota, raise the quota of ClusterQueue research, or ask for less",
    ),
    "it is short of quota in two flavors, and Kueue preempts for it": (
        [
            held(
                "Pending",
                f"{POD_SET}insufficient unused quota for cpu in flavor a, 2 more needed, insufficient unused quota for "
                "cpu in flavor b, 500m more needed. Pending the preemption of 2 workload(s)",
            )
        ],
        {},
        "KueueWaitsForQuota: ClusterQueue research is short of 2 cpu in flavor a, 500m cpu in flavor b; Kueue preempts "
        "2 of its workloads; it is the next in its queue; wait until these have ended",
    ),
    "it asks for more than there is": (
        [
            held(
                "Pending",
                f"{POD_SET}insufficient quota for nvidia.com/gpu in flavor a100, previously considered podsets "
                "requests (0) + current podset request (16) > maximum capacity (8)",
            )
        ],
        {},
        "KueueTooBig: ClusterQueue research has at most 8 nvidia.com/gpu in flavor a100, and it asks for 16; ask for "
        "less, or raise the quota of ClusterQueue research: it is never admitted as it is",
    ),
    "one flavor is too small and another is taken": (
        [
            held(
                "Pending",
                f"{POD_SET}insufficient quota for cpu in flavor small, previously considered podsets requests (0) + "
                "current podset request (16) > maximum capacity (8), insufficient unused quota for cpu in flavor "
                "large, 4 more needed",
            )
        ],
        {},
        "KueueWaitsForQuota: ClusterQueue research is short of 4 cpu in flavor large; it is the next in its queue; ",
    ),
    "its topology has no place": (
        [held("Pending", f'{POD_SET}topology "racks" allows to fit only 3 out of 4 pod(s)')],
        {},
        'KueueNoTopology: ClusterQueue research has no place for it: main: topology "racks" allows to fit only 3 out '
        "of 4 pod(s); it is the next in its queue; wait for the nodes that it needs; if there are too few in all, ask "
        "for fewer pods or a wider topology",
    ),
    "no flavor has the level": (
        [held("Pending", f'{POD_SET}Flavor "a100" does not contain the requested level')],
        {},
        'KueueTopologyUnknown: ClusterQueue research cannot place it: main: Flavor "a100" does not contain the '
        "requested level; ask for a topology level that a flavor of the ClusterQueue has, or for none",
    ),
    "Kueue has said nothing yet": (
        [],
        {},
        "KueueWaitsForQuota: it waits in LocalQueue main, and Kueue has said nothing about it yet; it is the next in "
        "its queue; wait for those ahead; if it stays, read the log of Kueue's controller",
    ),
    "Kueue says something else": (
        [held("Pending", "Workload no longer fits after processing another workload")],
        {},
        "KueueWaitsForQuota: ClusterQueue research does not admit it yet: Workload no longer fits after processing "
        "another workload; it is the next in its queue; wait for quota",
    ),
    "its LocalQueue does not exist": (
        [held("Inadmissible", "LocalQueue main doesn't exist")],
        {"local_queues": {}},
        "KueueQueueUnusable: Kueue holds it: LocalQueue main doesn't exist; create LocalQueue main in team-a, or name "
        "another one in the label kueue.x-k8s.io/queue-name",
    ),
    "its ClusterQueue is stopped": (
        [held("Inadmissible", "ClusterQueue research is inactive")],
        {"cluster_queues": {"research": STOPPED}},
        "KueueQueueUnusable: Kueue holds it: ClusterQueue research is inactive: Can't admit new workloads: is stopped; "
        "set spec.stopPolicy of ClusterQueue research to None",
    ),
    "its ClusterQueue is not active": (
        [held("Inadmissible", "ClusterQueue research is inactive")],
        {
            "cluster_queues": {
                "research": replace(
                    STOPPED,
                    stop_policy="None",
                    message="Can't admit new workloads: references inactive AdmissionCheck(s): gang.",
                )
            }
        },
        "KueueQueueUnusable: Kueue holds it: ClusterQueue research is inactive: Can't admit new workloads: references "
        "inactive AdmissionCheck(s): gang; read the condition Active: kubectl describe localqueues.kueue.x-k8s.io main "
        "-n team-a",
    ),
    "its LocalQueue is stopped": (
        [held("Inadmissible", "LocalQueue main is inactive")],
        {"local_queues": {("team-a", "main"): LocalQueue("research", stop_policy="Hold")}},
        "KueueQueueUnusable: Kueue holds it: LocalQueue main is inactive; set spec.stopPolicy of LocalQueue main to "
        "None",
    ),
    "its namespace is not selected": (
        [held("Pending", "workload namespace doesn't match ClusterQueue selector")],
        {},
        "KueueQueueUnusable: Kueue holds it: workload namespace doesn't match ClusterQueue selector; let the "
        "namespaceSelector of ClusterQueue research select team-a, or use another LocalQueue",
    ),
    "another controller has to agree": (
        [held("AdmissionGated", "Admission is gated by: example.com/budget,rollcall.dev/gang")],
        {},
        "KueueGated: Kueue holds it: Admission is gated by: example.com/budget,rollcall.dev/gang; who is named there "
        "removes itself from the annotation kueue.x-k8s.io/admission-gated-by of the Job when it is done; read its log",
    ),
    "all admissions are blocked": (
        [held("Waiting", "waiting for all admitted workloads to be in PodsReady condition")],
        {},
        "KueueBlocked: Kueue admits nothing until the pods of all admitted workloads are ready (blockAdmission); find "
        "the admitted gang that does not start: rollcall gangs -A --held; or set blockAdmission to false",
    ),
    "Kueue waits before it queues it again": (
        [
            held("Pending", "Exceeded the PodsReady timeout team-a/job-train-1a2b3"),
            condition("Evicted", "PodsReadyTimeout", status=True),
            condition("Requeued", "PodsReadyTimeout"),
        ],
        {"requeueState": {"count": 2, "requeueAt": "2026-01-01T12:02:30Z"}},
        "KueueBackoff: Kueue queues it again at 12:02:30 UTC, in 2m; wait; each eviction makes the next wait longer",
    ),
    "Kueue preempted it": (
        [
            *reserved(),
            condition(
                "Evicted",
                "Preempted",
                "Preempted to accommodate a workload (UID: 7f, JobUID: 8a) due to prioritization in the ClusterQueue; "
                "preemptor path: /root/b; preemptee path: /root/a",
                status=True,
            ),
        ],
        {},
        "KueueBackoff: Kueue stops it: Preempted to accommodate a workload due to prioritization in the ClusterQueue; "
        "Kueue queues it again when its pods are gone",
    ),
    "an admission check is not ready": (
        reserved(condition("Admitted", "UnsatisfiedChecks")),
        {
            "admission": {"clusterQueue": "research"},
            "admissionChecks": [
                {"name": "gang", "state": "Ready", "message": ""},
                {"name": "nodes", "state": "Pending", "message": "waiting for team-b/big and 3 nodes"},
            ],
        },
        "KueueChecks: ClusterQueue research has reserved its quota, and it waits for admission check nodes (Pending: "
        "waiting for an object of another namespace and 3 nodes); wait; if it stays, read the log of the check's "
        "controller: kubectl describe admissionchecks nodes",
    ),
    "a check has failed before there was quota": (
        [held("Pending", "The workload has failed admission checks")],
        {"admissionChecks": [{"name": "nodes", "state": "Rejected", "message": "no"}]},
        "KueueChecks: Kueue does not look at it because of admission check nodes (Rejected: no); wait; ",
    ),
    "its nodes are not chosen yet": (
        reserved(condition("Admitted", "PendingDelayedTopologyRequests")),
        {"admission": {"clusterQueue": "research"}},
        "KueueChecks: ClusterQueue research has reserved its quota, and Kueue still has to choose its nodes; wait; ",
    ),
    "Kueue has given it up": (
        [
            held("Pending", ""),
            condition(
                "Evicted",
                "DeactivatedDueToRequeuingLimitExceeded",
                "The workload is deactivated due to exceeding the maximum number of re-queuing retries",
                status=True,
            ),
        ],
        {"spec": {"active": False}},
        "KueueDeactivated: Kueue has deactivated its Workload: The workload is deactivated due to exceeding the "
        "maximum number of re-queuing retries; fix the cause, then: kubectl patch workloads.kueue.x-k8s.io "
        'job-train-1a2b3 -n team-a --type merge -p \'{"spec":{"active":true}}\'',
    ),
    "it cannot be started as Kueue wants": (
        reserved(condition("Finished", "FailedToStart", "conflict for labels: conflict for key=a", status=True)),
        {},
        "KueueFinished: Kueue has ended its Workload job-train-1a2b3 (FailedToStart): conflict for labels: conflict "
        "for key=a; fix the cause, and recreate the Job: Kueue does not retry",
    ),
    "it is admitted and not resumed": (
        reserved(condition("Admitted", "Admitted", status=True)),
        {},
        "KueueNotResumed: Kueue has admitted it, and it is still suspended; if it lasts, read the log of Kueue's "
        "controller: a webhook may refuse that Kueue resumes it",
    ),
}
# The reasons that only mean that a gang waits for its turn.
TURN = {"KueueWaitsForQuota", "KueueNoTopology", "KueueBlocked", "KueueBackoff", "KueueChecks"}


@pytest.mark.parametrize("case", CASES)
def test_a_suspended_gang_that_kueue_holds_is_queued_with_the_reason(case: str) -> None:
    conditions, changes, expected = CASES[case]
    of_facts = {part: value for part, value in changes.items() if part in {"local_queues", "cluster_queues"}}
    status = {part: value for part, value in changes.items() if part not in of_facts}
    found = health(queued_facts(workload("job-train-1a2b3", *conditions, **status), **of_facts))
    assert found.state is State.QUEUED
    (reason,) = found.obstacles
    assert f"{reason.reason}: {reason}".startswith(expected)
    assert found.word == ("queued" if reason.reason in TURN else reason.reason.value)


def test_every_reason_of_kueue_is_in_the_table_or_has_its_own_test() -> None:
    shown = {expected.partition(":")[0] for _, _, expected in CASES.values()}
    assert {one.value for one in Reason if one.value.startswith("Kueue")} - shown == {
        "KueueNoWorkload",
        "KueueTookBack",
    }


SILENT: dict[str, tuple[Manifest, list[Manifest], dict[str, Any]]] = {
    "Kueue does not manage it": (job(labels={"rollcall.dev/scheduler": "koord-scheduler"}, uid="other"), [], {}),
    "its user has deactivated it": (
        job(),
        [held("Pending", ""), condition("Evicted", "Deactivated", "The workload is deactivated", status=True)],
        {"spec": {"active": False}},
    ),
    "its Workload has ended with it": (
        job(),
        reserved(condition("Finished", "Succeeded", "Job finished successfully", status=True)),
        {},
    ),
}


@pytest.mark.parametrize("case", SILENT)
def test_a_gang_that_a_user_suspended_stays_suspended_without_a_reason(case: str) -> None:
    raw, conditions, changes = SILENT[case]
    found = health(queued_facts(workload("job-train-1a2b3", *conditions, **changes)), raw)
    assert (found.state, found.obstacles, found.word) == (State.SUSPENDED, (), "suspended")


def test_without_the_right_to_read_workloads_a_suspended_gang_has_no_reason() -> None:
    found = health(queued_facts(kueue_workloads=None))
    assert (found.state, found.obstacles) == (State.SUSPENDED, ())


def test_a_managed_workload_without_a_workload_of_kueue_says_so() -> None:
    found = health(queued_facts())
    assert (found.state, found.word) == (State.QUEUED, "KueueNoWorkload")
    assert str(found.obstacles[0]) == (
        "Kueue is to admit it, and has made no Workload for it; read its events, and the log of Kueue's controller: "
        "kubectl describe job train -n team-a"
    )


def test_a_workload_of_another_namespace_never_stands_for_a_gang() -> None:
    elsewhere = workload("job-train-1a2b3", held("Inadmissible", "ClusterQueue x is inactive"), namespace="team-b")
    assert health(queued_facts(elsewhere)).word == "KueueNoWorkload"

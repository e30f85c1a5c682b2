"""Why Kueue holds a gang: one table with one Workload for each reason, with the messages of Kueue 0.19, and with the
reasons of 0.20.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import Text
from tests.unit.gangs.queued_gangs import ELSEWHERE, condition, exceeds, health, job, lacks, queued_facts, workload
from webhook.gangs.health import GangState
from webhook.gangs.hold_reasons import GangReason
from webhook.model.kueue_objects import ClusterQueue, LocalQueue
from webhook.model.reading import Manifest


def held(reason: str, message: str) -> Manifest:
    return condition("QuotaReserved", reason, message)


def reserved(*others: Manifest) -> list[Manifest]:
    return [condition("QuotaReserved", "QuotaReserved", status=True), *others]


POD_SET = "couldn't assign flavors to pod set main: "
STOPPED = ClusterQueue(
    stop_policy="Hold", active=False, reason="Stopped", message="Can't admit new workloads: is stopped."
)
UNSELECTED = "workload namespace doesn't match ClusterQueue selector"
NO_LEVEL = 'Flavor "a100" does not contain the requested level'
BYPASSED = "Bypassed scheduling evaluation because an equivalent workload recently failed"
NO_PLACE = 'topology "racks" allows to fit only 3 out of 4 pod(s)'
# Conditions of the Workload, and other parts of it or of the facts; then the reason, and what its text names.
CASES: dict[str, tuple[list[Manifest], dict[str, Any], GangReason, Text]] = {
    "it is short of quota": (
        [held("Pending", f"{POD_SET}{lacks('3', 'nvidia.com/gpu', 'a100')}")],
        {},
        GangReason.KUEUE_WAITS_FOR_QUOTA,
        Text("ClusterQueue research", "3 nvidia.com/gpu in flavor a100; ", "next", "quota of ClusterQueue research"),
    ),
    "it is short of quota in two flavors, and Kueue preempts for it": (
        [
            held(
                "Pending",
                f"{POD_SET}{lacks('2', 'cpu', 'a')}, {lacks('500m', 'cpu', 'b')}. Pending the preemption of "
                "2 workload(s)",
            )
        ],
        {},
        GangReason.KUEUE_WAITS_FOR_QUOTA,
        Text("ClusterQueue research", "2 cpu in flavor a, 500m cpu in flavor b; ", "preempts 2", "next", "ended"),
    ),
    "it asks for more than there is": (
        [held("Pending", f"{POD_SET}{exceeds(16, 8, 'nvidia.com/gpu', 'a100')}")],
        {},
        GangReason.KUEUE_TOO_BIG,
        Text("ClusterQueue research", "at most 8 nvidia.com/gpu in flavor a100", "16; ", "never"),
    ),
    "one flavor is too small and another is taken": (
        [held("Pending", f"{POD_SET}{exceeds(16, 8, 'cpu', 'small')}, {lacks('4', 'cpu', 'large')}")],
        {},
        GangReason.KUEUE_WAITS_FOR_QUOTA,
        Text("ClusterQueue research", "short of 4 cpu in flavor large; ", "next"),
    ),
    "its topology has no place": (
        [held("Pending", POD_SET + NO_PLACE)],
        {},
        GangReason.KUEUE_NO_TOPOLOGY,
        Text("ClusterQueue research", f"main: {NO_PLACE}; ", "next", "nodes"),
    ),
    "no flavor has the level": (
        [held("Pending", POD_SET + NO_LEVEL)],
        {},
        GangReason.KUEUE_TOPOLOGY_UNKNOWN,
        Text("ClusterQueue research", f"main: {NO_LEVEL}; ", "topology level"),
    ),
    "Kueue has said nothing yet": (
        [],
        {},
        GangReason.KUEUE_WAITS_FOR_QUOTA,
        Text("LocalQueue main", "Kueue has said nothing", "next", "log"),
    ),
    "Kueue says something else": (
        [held("Pending", "Workload no longer fits after processing another workload")],
        {},
        GangReason.KUEUE_WAITS_FOR_QUOTA,
        Text("ClusterQueue research", ": Workload no longer fits after processing another workload; ", "next"),
    ),
    "its LocalQueue does not exist": (
        [held("Inadmissible", "LocalQueue main doesn't exist")],
        {"local_queues": {}},
        GangReason.KUEUE_QUEUE_UNUSABLE,
        Text("LocalQueue main doesn't exist; ", "create LocalQueue main in team-a", "kueue.x-k8s.io/queue-name"),
    ),
    "its ClusterQueue is stopped": (
        [held("Inadmissible", "ClusterQueue research is inactive")],
        {"cluster_queues": {"research": STOPPED}},
        GangReason.KUEUE_QUEUE_UNUSABLE,
        Text("ClusterQueue research is inactive: ", "is stopped; ", "spec.stopPolicy of ClusterQueue research"),
    ),
    "its ClusterQueue is not active": (
        [held("Inadmissible", "ClusterQueue research is inactive")],
        {
            "cluster_queues": {
                "research": STOPPED._replace(
                    stop_policy="None",
                    message="Can't admit new workloads: references inactive AdmissionCheck(s): gang.",
                )
            }
        },
        GangReason.KUEUE_QUEUE_UNUSABLE,
        Text(
            "ClusterQueue research is inactive: ",
            "inactive AdmissionCheck(s): gang; ",
            "describe localqueues.kueue.x-k8s.io main -n team-a",
        ),
    ),
    "its LocalQueue is stopped": (
        [held("Inadmissible", "LocalQueue main is inactive")],
        {"local_queues": {("team-a", "main"): LocalQueue("research", stop_policy="Hold")}},
        GangReason.KUEUE_QUEUE_UNUSABLE,
        Text("LocalQueue main is inactive; ", "spec.stopPolicy", "LocalQueue main"),
    ),
    "its namespace is not selected": (
        [held("Pending", UNSELECTED)],
        {},
        GangReason.KUEUE_QUEUE_UNUSABLE,
        Text(f"{UNSELECTED}; ", "namespaceSelector of ClusterQueue research", "team-a"),
    ),
    "another controller has to agree": (
        [held("AdmissionGated", "Admission is gated by: example.com/budget,rollcall.dev/gang")],
        {},
        GangReason.KUEUE_GATED,
        Text("example.com/budget,rollcall.dev/gang; ", "kueue.x-k8s.io/admission-gated-by of the Job"),
    ),
    "all admissions are blocked": (
        [held("Waiting", "waiting for all admitted workloads to be in PodsReady condition")],
        {},
        GangReason.KUEUE_BLOCKED,
        Text("(blockAdmission); ", "rollcall gangs -A --held"),
    ),
    "0.20: it is short of quota": (
        [held("WaitingForQuota", f"{POD_SET}{lacks('3', 'nvidia.com/gpu', 'a100')}")],
        {},
        GangReason.KUEUE_WAITS_FOR_QUOTA,
        Text("ClusterQueue research", "3 nvidia.com/gpu in flavor a100; ", "next", "quota of ClusterQueue research"),
    ),
    "0.20: one resource is exceeded and another is taken": (
        [held("ExceedsMaxQuota", f"{POD_SET}{exceeds(16, 8, 'nvidia.com/gpu', 'a100')}, {lacks('4', 'cpu', 'large')}")],
        {},
        GangReason.KUEUE_TOO_BIG,
        Text("ClusterQueue research", "(16)", "maximum capacity (8)", "4 more needed; ", "never"),
    ),
    "0.20: it asks for more than there is": (
        [held("ExceedsMaxQuota", f"{POD_SET}{exceeds(16, 8, 'nvidia.com/gpu', 'a100')}")],
        {},
        GangReason.KUEUE_TOO_BIG,
        Text("ClusterQueue research", "at most 8 nvidia.com/gpu in flavor a100", "16; ", "never"),
    ),
    "0.20: one that equals it asks for more than there is": (
        [held("ExceedsMaxQuota", BYPASSED)],
        {},
        GangReason.KUEUE_TOO_BIG,
        Text("ClusterQueue research", f": {BYPASSED}; ", "never"),
    ),
    "0.20: no flavor takes its pods": (
        [held("NoMatchingFlavor", f"{POD_SET}flavor a100 doesn't match node affinity")],
        {},
        GangReason.KUEUE_NO_FLAVOR,
        Text("ClusterQueue research", ": main: flavor a100 doesn't match node affinity; ", "node selectors"),
    ),
    "0.20: no flavor has the level": (
        [held("NoMatchingFlavor", POD_SET + NO_LEVEL)],
        {},
        GangReason.KUEUE_TOPOLOGY_UNKNOWN,
        Text("ClusterQueue research", f"main: {NO_LEVEL}; ", "topology level"),
    ),
    "0.20: its topology has no place, in other words": (
        [held("TopologyPlacementFailed", BYPASSED)],
        {},
        GangReason.KUEUE_NO_TOPOLOGY,
        Text("ClusterQueue research", f": {BYPASSED}; ", "next", "nodes"),
    ),
    "0.20: Kueue preempts for it": (
        [held("WaitingForPreemptedWorkloads", "Workload has overlapping preemption targets with another workload")],
        {},
        GangReason.KUEUE_WAITS_FOR_QUOTA,
        Text("preempts", ": Workload has overlapping preemption targets with another workload; wait", "ended"),
    ),
    "0.20: Kueue has not looked at it": (
        [held("PendingEvaluation", "Workload is pending evaluation in the scheduling queue")],
        {},
        GangReason.KUEUE_WAITS_FOR_QUOTA,
        Text("ClusterQueue research", ": Workload is pending evaluation in the scheduling queue; ", "next"),
    ),
    "0.20: its LocalQueue does not exist": (
        [held("Misconfigured", "LocalQueue main doesn't exist")],
        {"local_queues": {}},
        GangReason.KUEUE_QUEUE_UNUSABLE,
        Text("LocalQueue main doesn't exist; ", "create LocalQueue main in team-a", "kueue.x-k8s.io/queue-name"),
    ),
    "0.20: its LocalQueue is stopped": (
        [held("Suspended", "LocalQueue main is stopped")],
        {"local_queues": {("team-a", "main"): LocalQueue("research", stop_policy="Hold")}},
        GangReason.KUEUE_QUEUE_UNUSABLE,
        Text("LocalQueue main is stopped; ", "spec.stopPolicy", "LocalQueue main"),
    ),
    "0.20: its requests are not allowed": (
        [held("Misconfigured", "resources didn't satisfy LimitRange constraints: cpu")],
        {},
        GangReason.KUEUE_MISCONFIGURED,
        Text(": resources didn't satisfy LimitRange constraints: cpu; correct ", "recreate the Job"),
    ),
    "0.20: its devices are not counted": (
        [held("DRAResourcesUnresolved", "deviceClassName: Not found")],
        {},
        GangReason.KUEUE_MISCONFIGURED,
        Text(": deviceClassName: Not found; correct "),
    ),
    "0.20: all admissions are blocked": (
        [held("WaitingForPodsReady", "waiting for all admitted workloads to be in PodsReady condition")],
        {},
        GangReason.KUEUE_BLOCKED,
        Text("(blockAdmission); ", "rollcall gangs -A --held"),
    ),
    "Kueue waits before it queues it again": (
        [
            held("Pending", "Exceeded the PodsReady timeout team-a/job-train-1a2b3"),
            condition("Evicted", "PodsReadyTimeout", status=True),
            condition("Requeued", "PodsReadyTimeout"),
        ],
        {"requeueState": {"count": 2, "requeueAt": "2026-01-01T12:02:30Z"}},
        GangReason.KUEUE_BACKOFF,
        Text("12:02:30 UTC, in 2m; wait; "),
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
        GangReason.KUEUE_BACKOFF,
        Text(": Preempted to accommodate a workload due to prioritization in the ClusterQueue; ", "pods are gone"),
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
        GangReason.KUEUE_CHECKS,
        Text(
            "ClusterQueue research",
            f"admission check nodes (Pending: waiting for {ELSEWHERE} and 3 nodes); wait; ",
            "describe admissionchecks nodes",
        ),
    ),
    "a check has failed before there was quota": (
        [held("Pending", "The workload has failed admission checks")],
        {"admissionChecks": [{"name": "nodes", "state": "Rejected", "message": "no"}]},
        GangReason.KUEUE_CHECKS,
        Text("admission check nodes (Rejected: no); wait; "),
    ),
    "its nodes are not chosen yet": (
        reserved(condition("Admitted", "PendingDelayedTopologyRequests")),
        {"admission": {"clusterQueue": "research"}},
        GangReason.KUEUE_CHECKS,
        Text("ClusterQueue research", "choose its nodes; wait; "),
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
        GangReason.KUEUE_DEACTIVATED,
        Text(
            "exceeding the maximum number of re-queuing retries; ",
            "patch workloads.kueue.x-k8s.io job-train-1a2b3 -n team-a",
            """-p '{"spec":{"active":true}}'""",
        ),
    ),
    "it cannot be started as Kueue wants": (
        reserved(condition("Finished", "FailedToStart", "conflict for labels: conflict for key=a", status=True)),
        {},
        GangReason.KUEUE_FINISHED,
        Text("job-train-1a2b3 (FailedToStart): conflict for labels: conflict for key=a; ", "recreate the Job"),
    ),
    "it is admitted and not resumed": (
        reserved(condition("Admitted", "Admitted", status=True)),
        {},
        GangReason.KUEUE_NOT_RESUMED,
        Text("still suspended; ", "webhook"),
    ),
}
# The reasons that only mean that a gang waits for its turn.
TURN = {
    GangReason.KUEUE_WAITS_FOR_QUOTA,
    GangReason.KUEUE_NO_TOPOLOGY,
    GangReason.KUEUE_BLOCKED,
    GangReason.KUEUE_BACKOFF,
    GangReason.KUEUE_CHECKS,
}


@pytest.mark.parametrize("case", CASES)
def test_a_suspended_gang_that_kueue_holds_is_queued_with_the_reason(case: str) -> None:
    conditions, changes, reason, text = CASES[case]
    of_facts = {part: value for part, value in changes.items() if part in {"local_queues", "cluster_queues"}}
    status = {part: value for part, value in changes.items() if part not in of_facts}
    found = health(queued_facts(workload("job-train-1a2b3", *conditions, **status), **of_facts))
    assert found.state is GangState.QUEUED
    assert [(obstacle.reason, str(obstacle)) for obstacle in found.obstacles] == [(reason, text)]
    assert found.word == ("queued" if reason in TURN else reason.value)


def test_every_reason_of_kueue_is_in_the_table_or_has_its_own_test() -> None:
    shown = {reason for _, _, reason, _ in CASES.values()}
    of_kueue = {reason for reason in GangReason if reason.value.startswith("Kueue")}
    assert of_kueue - shown == {GangReason.KUEUE_NO_WORKLOAD, GangReason.KUEUE_TOOK_BACK}


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
    assert (found.state, found.obstacles, found.word) == (GangState.SUSPENDED, (), "suspended")


def test_without_the_right_to_read_workloads_a_suspended_gang_has_no_reason() -> None:
    found = health(queued_facts(kueue_workloads=None))
    assert (found.state, found.obstacles) == (GangState.SUSPENDED, ())


def test_a_managed_workload_without_a_workload_of_kueue_says_so() -> None:
    found = health(queued_facts())
    assert (found.state, found.word) == (GangState.QUEUED, "KueueNoWorkload")
    assert str(found.obstacles[0]) == Text("no Workload", "describe job train -n team-a")


def test_a_workload_of_another_namespace_never_stands_for_a_gang() -> None:
    elsewhere = workload("job-train-1a2b3", held("Inadmissible", "ClusterQueue x is inactive"), namespace="team-b")
    assert health(queued_facts(elsewhere)).word == "KueueNoWorkload"

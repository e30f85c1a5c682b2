"""The state of a gang that Kueue holds by gates, that it has admitted, that it took back, or that runs elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.texts import Text
from tests.unit.gangs.judged_gangs import in_step, judged, podgang, whole
from tests.unit.gangs.queued_gangs import NOW, condition, health, job, lacks, queued_facts, workload
from tests.unit.worlds import koordinator
from webhook.gangs.health import GangHealth, GangState, Observed, judge
from webhook.gangs.hold_reasons import GangReason
from webhook.gangs.kueue_hold import taken_back
from webhook.gangs.members import GangPod, Roster
from webhook.model.grove import PodGang
from webhook.model.kueue import KueueSettings
from webhook.model.kueue_objects import WORKLOADS, KueueWorkload, KueueWorkloads, LocalQueue, Owner
from webhook.model.reading import Manifest

ADMISSION, TOPOLOGY = "kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"
OWN = "rollcall.dev/gang-sync"
ADMITTED = (
    condition("QuotaReserved", "QuotaReserved", status=True),
    condition("Admitted", "Admitted", status=True, at="11:45:00"),
    condition("PodsReady", "WaitForStart", at="11:45:00"),
)
SHORT = condition("QuotaReserved", "Pending", lacks("2", "cpu", "f"))


def facts_of(*found: tuple[tuple[str, str], KueueWorkload]) -> Any:
    """The facts of a PodGang's pods in `default`, with these Workloads."""
    facts = queued_facts(local_queues={("default", "main"): LocalQueue("research")})
    return replace(facts, kueue_workloads=KueueWorkloads({("default", key[1]): found for key, found in found}))


def grouped(**changes: Any) -> list[GangPod]:
    """The pods of a gang that are one pod group of Kueue."""
    return [
        one._replace(annotations={**one.annotations, "kueue.x-k8s.io/pod-group-name": "demo"}, **changes)
        for one in whole()
    ]


def in_group(pods: list[GangPod], *conditions: Manifest, **status: Any) -> GangHealth:
    return judged(pods, in_step(), facts=facts_of(workload("demo", *conditions, **status)), now=NOW)


def test_a_gang_whose_pods_have_kueues_gate_is_queued_with_the_reason_of_its_workload() -> None:
    found = in_group(grouped(gates=(ADMISSION, TOPOLOGY, OWN)), SHORT)
    assert (found.state, found.word, found.kueue_workload) == (GangState.QUEUED, "queued", ("default", "demo"))
    assert [(hold.reason, str(hold)) for hold in found.obstacles] == [
        (
            GangReason.KUEUE_WAITS_FOR_QUOTA,
            Text("ClusterQueue research", "2 cpu in flavor f; ", "ClusterQueue research"),
        )
    ]


def test_a_gang_that_also_lacks_something_else_is_held_by_that() -> None:
    found = judged(grouped(gates=(ADMISSION,)), {}, facts=facts_of(workload("demo", SHORT)))
    assert (found.state, found.word) == (GangState.HELD, "GangObjectMissing")
    assert found.obstacles[-1].reason is GangReason.KUEUE_WAITS_FOR_QUOTA


def test_a_gang_of_which_kueue_has_admitted_a_part_is_held() -> None:
    pods = whole()
    pods[1:] = [one._replace(gates=(ADMISSION,)) for one in pods[1:]]
    each = {
        ("default", one.name): workload(one.name, *(() if one.gates else ADMITTED))[1]._replace(
            job_uid=None, owner=Owner("Pod", one.name, one.uid)
        )
        for one in pods
    }
    facts = replace(facts_of(), kueue_workloads=KueueWorkloads(each))
    found = judged(pods, in_step(), facts=facts)
    assert (found.state, found.word) == (GangState.HELD, "KueueWaitsForQuota")
    assert found.kueue_workload == ("default", "demo-0-worker-0")


def test_pods_without_a_workload_of_kueue_say_so() -> None:
    found = judged(grouped(gates=(ADMISSION,)), in_step(), facts=facts_of())
    assert (found.state, found.word) == (GangState.QUEUED, "KueueNoWorkload")
    assert str(found.obstacles[0]) == Text("Kueue's gate", "no Workload", "pod-group-total-count")


WHOLE = "3 pods (demo-0-leader-0, demo-0-worker-0, demo-0-worker-1)"
GATES = {
    "Kueue's, and Workloads are not read": (
        (ADMISSION, TOPOLOGY, OWN),
        Text(WHOLE, f"{ADMISSION}; Kueue", "describe workloads.kueue.x-k8s.io -n default"),
    ),
    "Kueue's for a topology": (
        (TOPOLOGY, OWN),
        Text(WHOLE, f"{TOPOLOGY}; Kueue", "node", "topology ungater"),
    ),
}


@pytest.mark.parametrize("case", GATES)
def test_a_gate_of_kueue_is_named_without_those_that_follow_it(case: str) -> None:
    gates, expected = GATES[case]
    found = judged(whole(gates=gates))
    assert (found.state, [str(one) for one in found.obstacles]) == (GangState.HELD, [expected])


def test_an_admitted_gang_that_its_scheduler_holds_shows_when_kueue_takes_it_back() -> None:
    found = in_group(grouped(), *ADMITTED)
    assert (found.state, found.word) == (GangState.HELD, "GangSchedulerSilent")
    assert found.deadline == "Kueue takes it back at 12:15:00 UTC, in 15m, unless all 8 pods are ready"
    assert found.why == f"{found.obstacles[0].why}; {found.deadline}"
    assert found.as_json()["deadline"] == found.deadline


COUNTDOWNS: dict[str, tuple[tuple[Manifest, ...], KueueSettings, str]] = {
    "Kueue does not wait for ready pods": (ADMITTED[:2], KueueSettings(), ""),
    "the configuration says that it does not": (ADMITTED, KueueSettings(pods_ready_seconds=None), ""),
    "all are ready": ((*ADMITTED[:2], condition("PodsReady", "Started", status=True)), KueueSettings(), ""),
    "a shorter time": (
        ADMITTED,
        KueueSettings(pods_ready_seconds=960),
        "Kueue takes it back at 12:01:00 UTC, in 60s, unless all 8 pods are ready",
    ),
    "the time is over": (
        ADMITTED,
        KueueSettings(pods_ready_seconds=60),
        "Kueue takes it back at 11:46:00 UTC, in 0s, unless all 8 pods are ready",
    ),
    "a pod was lost": (
        (*ADMITTED[:2], condition("PodsReady", "WaitForRecovery", at="11:59:00")),
        KueueSettings(recovery_seconds=300),
        "Kueue takes it back at 12:04:00 UTC, in 4m, unless all 8 pods are ready",
    ),
    "any user may write such a time": (
        (*ADMITTED[:1], {**ADMITTED[1], "lastTransitionTime": "9999-12-31T23:59:59Z"}, ADMITTED[2]),
        KueueSettings(),
        "Kueue takes it back at 23:59:59 UTC, in 69898620h, unless all 8 pods are ready",
    ),
    "a time that UTC does not have": (
        (*ADMITTED[:1], {**ADMITTED[1], "lastTransitionTime": "9999-12-31T23:59:59-12:00"}, ADMITTED[2]),
        KueueSettings(),
        "",
    ),
}


UNSCHEDULED = (
    *ADMITTED[:2],
    condition("PodsReady", "WaitForScheduling", at="11:45:00"),
    condition("PodsScheduled", "WaitForScheduling", at="11:45:01"),
)
FIVE_MINUTES = KueueSettings(unscheduled_seconds=1200)
COUNTDOWNS |= {
    "not all pods are on nodes": (
        UNSCHEDULED,
        FIVE_MINUTES,
        "Kueue takes it back at 12:05:00 UTC, in 5m, unless all 8 pods are on nodes",
    ),
    "all pods are on nodes": (
        (*ADMITTED, condition("PodsScheduled", "AllRequiredPodsScheduled", status=True, at="11:46:00")),
        FIVE_MINUTES,
        "Kueue takes it back at 12:15:00 UTC, in 15m, unless all 8 pods are ready",
    ),
    "what was seen of the pods is from an earlier admission": (
        (*UNSCHEDULED[:3], condition("PodsScheduled", "WaitForScheduling", at="11:45:00")),
        FIVE_MINUTES,
        "Kueue takes it back at 12:15:00 UTC, in 15m, unless all 8 pods are ready",
    ),
    "a pod is no longer on a node, after all were ready": (
        (*ADMITTED[:2], condition("PodsReady", "WaitForRecovery", at="11:59:00"), UNSCHEDULED[3]),
        FIVE_MINUTES,
        "Kueue takes it back at 12:29:00 UTC, in 29m, unless all 8 pods are ready",
    ),
    "the time for nodes is not set": (
        UNSCHEDULED,
        KueueSettings(),
        "Kueue takes it back at 12:15:00 UTC, in 15m, unless all 8 pods are ready",
    ),
}


@pytest.mark.parametrize("case", COUNTDOWNS)
def test_the_time_that_kueue_leaves_follows_its_conditions_and_settings(case: str) -> None:
    conditions, settings, expected = COUNTDOWNS[case]
    seen = Observed(
        PodGang(podgang()),
        Roster(grouped()),
        lambda _: None,
        [],
        None,
        facts_of(workload("demo", *conditions)),
        replace(koordinator(standalone=False), kueue=settings),
        now=NOW,
    )
    assert judge(seen).deadline == expected


LOST = (*ADMITTED[:2], condition("PodsReady", "WaitForRecovery", at="11:59:00"))
# The annotation of a Workload, its conditions, and the end of the time that Kueue leaves it.
STATED: dict[str, tuple[str, tuple[Manifest, ...], str]] = {
    "a time to start": ('{"timeoutSeconds": 1200}', ADMITTED, "12:05:00"),
    "which is also the time to recover": ('{"timeoutSeconds": 1200}', LOST, "12:19:00"),
    "a time to recover": ('{"timeoutSeconds": 1200, "recoveryTimeoutSeconds": 300}', LOST, "12:04:00"),
    "no recovery": ('{"timeoutSeconds": 1200, "recoveryTimeoutSeconds": 0}', LOST, ""),
    "only a time to recover, which Kueue refuses": ('{"recoveryTimeoutSeconds": 300}', LOST, "12:29:00"),
    "no time": ('{"timeoutSeconds": 0}', ADMITTED, "12:15:00"),
    "a word": ('{"timeoutSeconds": "5m"}', ADMITTED, "12:15:00"),
    "no JSON": ("{timeoutSeconds: 300}", ADMITTED, "12:15:00"),
    "a list": ("[" * 5000, ADMITTED, "12:15:00"),
}


@pytest.mark.parametrize("case", STATED)
@pytest.mark.parametrize("gate", [True, False], ids=["with the gate", "without it"])
def test_a_workload_may_state_its_own_times_if_kueue_reads_them(case: str, gate: bool) -> None:
    annotation, conditions, end = STATED[case]
    (_, name), found = workload("demo", *conditions)
    facts = facts_of((("default", name), found._replace(stated_times=annotation)))
    settings = replace(koordinator(standalone=False), kueue=KueueSettings(workload_timeouts=gate))
    seen = Observed(PodGang(podgang()), Roster(grouped()), lambda _: None, [], None, facts, settings, now=NOW)
    usual = "12:29:00" if conditions is LOST else "12:15:00"
    deadline = judge(seen).deadline
    assert deadline.partition(" at ")[2][:8] == (end if gate else usual)


def test_the_annotation_of_a_workload_is_kept() -> None:
    raw = {"metadata": {"name": "a", "namespace": "b", "annotations": {"kueue.x-k8s.io/wait-for-pods-ready": "{}"}}}
    read = WORKLOADS.read(raw)
    assert read is not None
    assert read[1].stated_times == "{}"


BACK: dict[str, tuple[list[str], Text]] = {
    "its pods were on no node": (
        ["WaitForScheduling"],
        Text("on nodes within 5m; ", "waitForPodsReady.unscheduledTimeout"),
    ),
    "and lost one later": (["WaitForScheduling", "WaitForRecovery"], Text("in time; ", "waitForPodsReady.timeout")),
}


@pytest.mark.parametrize("case", BACK)
def test_a_gang_that_kueue_took_back_says_what_it_lacked(case: str) -> None:
    causes, text = BACK[case]
    evictions = [{"reason": "PodsReadyTimeout", "underlyingCause": cause, "count": 1} for cause in causes]
    _, found = workload("demo", schedulingStats={"evictions": evictions})
    back = taken_back(found, KueueSettings(unscheduled_seconds=300), "volcano")
    assert back is not None
    assert (back.reason, str(back)) == (GangReason.KUEUE_TOOK_BACK, text)


def test_a_gang_that_kueue_took_back_says_how_often_and_for_whom() -> None:
    evicted = (
        condition("QuotaReserved", "Pending", "Exceeded the PodsReady timeout team-a/job-train-1a2b3"),
        condition("Evicted", "PodsReadyTimeout", status=True),
    )
    stats = {"evictions": [{"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 3}]}
    requeued = {"count": 3, "requeueAt": "2026-01-01T12:00:45Z"}
    found = health(queued_facts(workload("job-train-1a2b3", *evicted, requeueState=requeued, schedulingStats=stats)))
    assert (found.state, found.word) == (GangState.QUEUED, "KueueTookBack")
    assert [str(one) for one in found.obstacles] == [
        Text("3 times", "koord-scheduler", "within 30m; ", "waitForPodsReady.timeout"),
        Text("12:00:45 UTC, in 45s; "),
    ]


@pytest.mark.parametrize("said", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00", "soon", "24:61", "1"])
def test_a_gang_is_queued_although_the_time_of_its_next_attempt_cannot_be_read(said: str) -> None:
    found = health(queued_facts(workload("job-train-1a2b3", SHORT, requeueState={"count": 1, "requeueAt": said})))
    assert (found.state, found.obstacles[0].reason) == (GangState.QUEUED, GangReason.KUEUE_WAITS_FOR_QUOTA)


def test_a_gang_is_queued_although_the_time_of_its_next_attempt_is_the_last_of_the_calendar() -> None:
    requeued = {"count": 1, "requeueAt": "9999-12-31T23:59:59Z"}
    found = health(queued_facts(workload("job-train-1a2b3", SHORT, requeueState=requeued)))
    assert found.why == "Kueue queues it again at 23:59:59 UTC, in 69898619h"


def test_a_gang_that_is_held_again_has_the_loop_behind_its_schedulers_reason() -> None:
    stats = {"evictions": [{"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 1}]}
    found = in_group(grouped(), *ADMITTED, schedulingStats=stats)
    assert [one.reason for one in found.obstacles] == [GangReason.SILENT, GangReason.KUEUE_TOOK_BACK]
    assert found.obstacles[1].why.startswith("Kueue took it back once, because koord-scheduler")


def test_a_workload_that_runs_in_another_cluster_is_elsewhere() -> None:
    raw = job(suspend=False)
    raw["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    found = health(queued_facts(), raw)
    assert (found.state, found.word, found.obstacles) == (GangState.ELSEWHERE, "elsewhere", ())

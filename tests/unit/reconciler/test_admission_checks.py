"""AdmissionChecks of Kueue in a simulated cluster: when they are answered, what is written, and what is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.texts import Text
from tests.unit.reconciler.kueue_api import (
    CHECKS,
    JOBS,
    KUEUE,
    RESERVED_AT,
    SETTINGS,
    WORKLOADS_PATH,
    Answering,
    KueueApi,
    check,
    condition,
    entry,
    faulty,
    owner,
    workload,
)
from tests.waiting import until
from webhook.reconciler.admission_checks import PATIENCE_SECONDS
from webhook.workloads.kueue_integration import CheckMode

AUDIT = replace(SETTINGS, admission_check=CheckMode.AUDIT)
STATUS = f"{KUEUE}/namespaces/default/workloads/job-demo/status"
READY = "no rule of koord-scheduler denies it"
REPLACING = "owner/completions at spec.completions: 5: "


async def test_a_waiting_workload_is_answered_with_ready() -> None:
    api = KueueApi(check(), owner(), workload())
    found = Answering(api)
    await found.settle()
    (written,) = api.entries()
    assert written["lastTransitionTime"] > RESERVED_AT
    assert {**written, "lastTransitionTime": ""} == {
        "name": "gang",
        "state": "Ready",
        "message": READY,
        "lastTransitionTime": "",
    }
    assert api.writes == [("PATCH", STATUS)]
    assert api.events == []
    assert found.sample("rollcall_admission_checks_answered_total", outcome="ready") == 1
    assert found.sample("rollcall_writes_total", kind="Workload", action="answer") == 1


async def test_a_fault_of_the_object_is_rejected_with_an_event() -> None:
    api = KueueApi(check(), faulty(), workload())
    found = Answering(api)
    await found.settle()
    assert api.states() == ["Rejected"]
    assert api.entries()[0]["message"].startswith(REPLACING)
    (event,) = api.events
    assert (event["reason"], event["type"], event["action"]) == ("GangRejected", "Warning", "AnswerAdmissionCheck")
    assert event["note"].startswith(REPLACING)
    assert event["regarding"] == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "namespace": "default",
        "name": "job-demo",
        "uid": "uid-job-demo",
    }
    assert found.sample("rollcall_events_total", reason="GangRejected") == 1


async def test_an_audit_writes_only_ready_and_an_event() -> None:
    api = KueueApi(check(), faulty(), workload())
    found = Answering(api, AUDIT)
    await found.settle()
    assert api.states() == ["Ready"]
    assert [event["reason"] for event in api.events] == ["GangWouldBeRejected"]
    assert found.sample("rollcall_admission_checks_answered_total", outcome="wouldReject") == 1


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(workload(conditions=()), id="no quota"),
        pytest.param(workload(conditions=("QuotaReserved", "Admitted")), id="admitted"),
        pytest.param(workload(conditions=("QuotaReserved", "Evicted")), id="evicted"),
        pytest.param(workload(conditions=("QuotaReserved", "Finished")), id="finished"),
        pytest.param(workload(conditions=("QuotaReserved", "DeactivationTarget")), id="about to be deactivated"),
        pytest.param(workload(active=False), id="deactivated"),
        pytest.param(workload("job-demo", entry(state="Ready")), id="ready"),
        pytest.param(workload("job-demo", entry(state="Retry")), id="retry"),
        pytest.param(workload("job-demo", entry(state="Rejected")), id="rejected"),
        pytest.param(workload("job-demo", entry("other")), id="another check"),
    ],
)
async def test_a_workload_that_does_not_wait_for_rollcall_is_left_alone(held: dict[str, Any]) -> None:
    api = KueueApi(check(), check("other", "example.com/other"), faulty(), held)
    found = Answering(api)
    await found.settle()
    assert (api.writes, api.events, api.read) == ([], [], [])
    assert found.sample("rollcall_admission_checks_pending") == 0


async def test_only_rollcalls_own_entry_changes() -> None:
    others = [entry("before", retryCount=2), entry("after", state="Ready", message="fine")]
    api = KueueApi(check(), owner(), workload("job-demo", others[0], entry(retryCount=3), others[1]))
    await Answering(api).settle()
    before, own, after = api.entries()
    assert [before, after] == others
    assert (own["name"], own["state"], own["retryCount"]) == ("gang", "Ready", 3)


async def test_two_checks_of_one_workload_are_answered_at_once() -> None:
    api = KueueApi(check(), check("second"), owner(), workload("job-demo", entry(), entry("second")))
    await Answering(api).settle()
    assert api.states() == ["Ready", "Ready"]
    assert api.writes == [("PATCH", STATUS)]


async def test_an_answer_is_not_repeated() -> None:
    api = KueueApi(check(), owner(), workload())
    found = Answering(api)
    await found.settle()
    api.get(JOBS, "default", "demo")["spec"]["completions"] = 5  # type: ignore[index]
    await found.settle()
    assert api.states() == ["Ready"]
    assert len(api.writes) == 1


async def test_a_watch_that_is_behind_causes_no_second_answer() -> None:
    api = KueueApi(check(), owner(), workload())
    found = Answering(api)
    found.frozen = found.seen()
    await found.settle()
    await found.settle()
    assert len(api.writes) == 1


async def test_a_workload_that_was_admitted_meanwhile_is_left_alone() -> None:
    api = KueueApi(check(), faulty(), workload())
    found = Answering(api)
    found.frozen = found.seen()
    api.objects[WORKLOADS_PATH][0]["status"]["conditions"].append(condition("Admitted"))
    await found.settle()
    assert api.writes == []


async def test_a_reset_after_an_eviction_is_answered_again() -> None:
    api = KueueApi(check(), owner(), workload())
    found = Answering(api)
    await found.settle()
    live = api.objects[WORKLOADS_PATH][0]
    live["status"]["admissionChecks"] = [entry(message="Reset to Pending after eviction. Previously: Ready")]
    live["status"]["conditions"] = [condition("QuotaReserved", "False"), condition("Evicted")]
    await found.settle()
    assert api.states() == ["Pending"]
    live["status"]["conditions"] = [condition("QuotaReserved"), condition("Evicted", "False")]
    await found.settle()
    assert api.states() == ["Ready"]


async def test_a_conflict_with_kueues_own_write_is_tried_again() -> None:
    api = KueueApi(check(), owner(), workload())
    live = api.objects[WORKLOADS_PATH][0]

    def kueue_writes() -> None:
        live["status"]["admissionChecks"].insert(0, entry("late"))
        api.bump(live)

    api.raced = kueue_writes
    found = Answering(api)
    await found.settle()
    assert [(one["name"], one["state"]) for one in api.entries()] == [("late", "Pending"), ("gang", "Ready")]
    assert len(api.writes) == 2
    assert found.sample("rollcall_retries_total", why="conflict") == 1
    assert found.sample("rollcall_admission_checks_answered_total", outcome="ready") == 1


async def test_an_eviction_during_the_answer_wins() -> None:
    api = KueueApi(check(), faulty(), workload())
    live = api.objects[WORKLOADS_PATH][0]

    def kueue_evicts() -> None:
        live["status"]["conditions"] = [condition("QuotaReserved", "False"), condition("Evicted")]
        api.bump(live)

    api.raced = kueue_evicts
    await Answering(api).settle()
    assert api.states() == ["Pending"]
    assert api.events == []


async def test_a_workload_that_is_deleted_meanwhile_is_forgotten() -> None:
    api = KueueApi(check(), owner(), workload())
    api.raced = lambda: api.remove(WORKLOADS_PATH, "default", "job-demo")
    found = Answering(api)
    await found.settle()
    assert found.checks.queue.failing == 0


async def answered_without_patience(found: Answering, api: KueueApi, waits: Callable[[], bool]) -> None:
    """A check is pending while the reconciler waits for what it lacks, and is answered when its patience ends."""
    await found.look()
    worker = asyncio.create_task(found.checks.workers.run())
    await until(waits)
    assert api.states() == ["Pending"]
    begun = asyncio.get_running_loop().time()
    await until(lambda: api.states() != ["Pending"])
    assert asyncio.get_running_loop().time() - begun > PATIENCE_SECONDS / 2
    worker.cancel()


async def test_an_object_that_cannot_be_read_is_not_waited_for() -> None:
    api = KueueApi(check(), faulty(), workload())
    api.refused["/apis/batch/v1/namespaces/default/jobs/demo"] = httpx.Response(403, json={"message": "forbidden"})
    found = Answering(api)
    await answered_without_patience(found, api, lambda: bool(found.checks.queue.failing))
    assert [(one["state"], one["message"]) for one in api.entries()] == [("Ready", Text("not judged: its object"))]


async def test_facts_that_are_not_read_are_not_waited_for_longer() -> None:
    api = KueueApi(check(), owner(), workload())
    found = Answering(api)
    found.ready = False
    await answered_without_patience(found, api, lambda: bool(found.checks.queue.stuck))
    assert api.states() == ["Ready"]


async def test_a_fault_of_rollcall_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    from webhook.reconciler import admission_checks

    def broken(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(admission_checks, "answer", broken)
    api = KueueApi(check(), faulty(), workload())
    await Answering(api).settle()
    assert [(one["state"], one["message"]) for one in api.entries()] == [
        ("Ready", Text("not judged: ", "internal error", "log"))
    ]


async def test_a_process_that_does_not_lead_writes_nothing_until_it_leads() -> None:
    api = KueueApi(check(active=None), owner(), workload())
    found = Answering(api, leads=False)
    await found.settle()
    assert api.writes == []
    assert found.sample("rollcall_admission_checks_pending") == 1
    found.leading = True
    await found.settle()
    assert api.states() == ["Ready"]
    await found.look()
    assert found.sample("rollcall_admission_checks_pending") == 0


@pytest.mark.parametrize("active", [None, "False", "Unknown"])
async def test_a_check_of_rollcall_is_activated(active: str | None) -> None:
    api = KueueApi(check(active=active))
    await Answering(api).settle()
    assert api.writes == [("PATCH", f"{CHECKS}/gang/status")]
    (written,) = api.objects[CHECKS][0]["status"]["conditions"]
    assert written["lastTransitionTime"] > RESERVED_AT
    assert {**written, "lastTransitionTime": ""} == {
        "type": "Active",
        "status": "True",
        "reason": "Served",
        "message": Text("Rollcall's reconciler"),
        "lastTransitionTime": "",
    }


async def test_an_active_check_and_a_check_of_another_controller_are_left_alone() -> None:
    api = KueueApi(check(), check("other", "example.com/other", active=None))
    await Answering(api).settle()
    assert api.writes == []


async def test_of_one_namespace_no_check_is_activated_and_no_other_workload_answered() -> None:
    api = KueueApi(check(active=None), owner(), workload())
    await Answering(api, only="team-a").settle()
    assert api.writes == []
    await Answering(api, only="default").settle()
    assert api.writes == [("PATCH", STATUS)]


async def test_a_dry_run_changes_nothing() -> None:
    api = KueueApi(check(active=None), faulty(), workload())
    asked: list[str] = []

    def refuse_real(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.params["dryRun"])
        return httpx.Response(200, json={})

    api.answering = refuse_real
    await Answering(api, dry_run=True).settle()
    assert (asked, api.states(), api.events) == (["All", "All"], ["Pending"], [])


async def test_a_workload_that_waits_is_counted_with_its_age() -> None:
    api = KueueApi(check(), owner(), workload(), workload("other", entry("unknown")))
    found = Answering(api, leads=False)
    await found.look()
    assert found.sample("rollcall_admission_checks_pending") == 1
    assert found.sample("rollcall_admission_check_oldest_seconds") == 60
    api.remove(WORKLOADS_PATH, "default", "job-demo")
    await found.look()
    assert found.sample("rollcall_admission_checks_pending") == 0
    assert found.sample("rollcall_admission_check_oldest_seconds") == 0

"""The reports of audits: written once, changed and deleted with their findings, and never in the way of gangs."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from tests.unit.cluster.scripted import failure
from tests.unit.operations.stored_objects import stored_set
from tests.unit.reconciler.cluster import POD_GROUPS, SERVED, Answer, WritableWorld
from tests.unit.reconciler.running_reconciler import GROUPS, put_gang, running, sample, workload
from tests.unit.worlds import koordinator
from tests.waiting import until
from webhook.cluster.client import Page
from webhook.config.settings import NO_REPORTS, Auditing, Settings
from webhook.model.gang_objects import REPORTS
from webhook.reconciler import audit_reports
from webhook.reconciler.manager import Reconciler

SETS = "/apis/grove.io/v1alpha1/podcliquesets"
PATH = "/apis/openreports.io/v1alpha1/reports"
SETTINGS = replace(koordinator(standalone=False), auditing=Auditing(open_reports=True, every=timedelta()))
OWN = {"app.kubernetes.io/managed-by": "rollcall"}


def world(*sets: dict[str, Any], served: bool = True) -> WritableWorld:
    found = WritableWorld(*SERVED, POD_GROUPS, *([REPORTS] if served else []))
    for name in ("team-a", "team-b"):
        found.put("/api/v1/namespaces", {"metadata": {"name": name}})
    for raw in sets:
        found.put(SETS, raw)
    return found


def report(cluster: WritableWorld, namespace: str = "team-a") -> dict[str, Any] | None:
    return cluster.get(PATH, namespace, "rollcall")


def writes(cluster: WritableWorld) -> list[tuple[str, str]]:
    return [(method, path) for method, path in cluster.writes if "openreports.io" in path]


async def rounds(found: Reconciler, count: int = 2) -> None:
    """Wait until this many more audits have ended."""
    assert found.audits is not None
    reports, audit = found.audits, found.audits.audit
    ended = 0

    async def counted() -> None:
        nonlocal ended
        await audit()
        ended += 1

    reports.audit = counted  # type: ignore[method-assign]
    await until(lambda: ended > count)
    reports.audit = audit  # type: ignore[method-assign]


async def test_a_report_is_written_once_and_goes_with_its_findings() -> None:
    cluster = world(stored_set("a", bad=True), stored_set("b"), stored_set("c", "team-b"))
    async with running(cluster, settings=SETTINGS) as found:
        await until(lambda: report(cluster))
        await rounds(found)
        assert len(writes(cluster)) == 1
        made = report(cluster)
        assert made is not None
        assert made["summary"] == {"pass": 1, "fail": 1, "warn": 0, "error": 0, "skip": 0}
        assert report(cluster, "team-b") is None
        assert sample(found, "rollcall_audit_findings", action="deny") == 1
        assert sample(found, "rollcall_audit_finished_timestamp_seconds") > 0
        cluster.remove(SETS, "team-a", "a")
        await until(lambda: report(cluster) is None)
        await rounds(found)
    assert [method for method, _ in writes(cluster)] == ["PATCH", "DELETE"]


async def test_a_report_of_another_program_is_left_alone() -> None:
    cluster = world(stored_set("a", bad=True), stored_set("b", "team-b", bad=True))
    foreign = {"metadata": {"name": "rollcall", "namespace": "team-a", "uid": "u"}, "source": "another"}
    cluster.put(PATH, foreign)
    async with running(cluster, settings=SETTINGS) as found:
        await until(lambda: report(cluster, "team-b"))
        await rounds(found)
        assert report(cluster) == foreign
        assert sample(found, "rollcall_audit_failing") == 0


class Stored(dict[str, Any]):
    """A report that shows whether it is still in memory."""


async def test_one_page_of_stored_reports_is_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant can write a report of a megabyte, with Rollcall's label, into each of his namespaces."""
    there: list[weakref.ref[Stored]] = []
    kept: list[int] = []

    async def pages(*_: Any, **__: Any) -> AsyncIterator[Page]:
        for number in range(5):
            every = [Stored(metadata={"name": "rollcall", "namespace": f"n{number}", "labels": OWN})]
            there.extend(map(weakref.ref, every))
            yield Page(every, "1")
            del every

    async def delete(*_: Any) -> None:
        kept.append(sum(one() is not None for one in there))

    async with running(world(), settings=SETTINGS) as found:
        assert found.audits is not None
        monkeypatch.setattr(found.audits._client, "pages", pages)
        monkeypatch.setattr(found.audits._writer, "delete", delete)
        await until(lambda: len(kept) >= 5)
    assert kept[:5] == [1] * 5


async def test_a_report_of_a_namespace_without_findings_is_deleted_after_a_restart() -> None:
    cluster = world(stored_set("a"))
    cluster.put(PATH, {"metadata": {"name": "rollcall", "namespace": "team-a", "uid": "u", "labels": OWN}})
    async with running(cluster, settings=SETTINGS):
        await until(lambda: report(cluster) is None)


async def test_a_kind_that_cannot_be_listed_changes_no_report() -> None:
    cluster = world(stored_set("a", bad=True))
    stored = {"metadata": {"name": "rollcall", "namespace": "team-a", "uid": "u", "labels": OWN}}
    cluster.put(PATH, stored)
    cluster.refused["/api/v1/pods"] = httpx.Response(403, json=failure(403, "forbidden"))
    async with running(cluster, settings=SETTINGS) as found:
        await until(lambda: sample(found, "rollcall_audit_failing") == 1)
        assert (report(cluster), writes(cluster)) == (stored, [])
        del cluster.refused["/api/v1/pods"]
        await until(lambda: sample(found, "rollcall_audit_failing") == 0)
        assert len((report(cluster) or {})["results"]) == 1


def refusing(part: str, code: int, why: str) -> Answer:
    """Answers so to each write of a report whose path has that part."""

    def answer(request: httpx.Request) -> httpx.Response | None:
        refused = "openreports.io" in request.url.path and part in request.url.path
        return httpx.Response(code, json=failure(code, why)) if refused else None

    return answer


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (403, "exceeded quota: objects"),
        (403, "unable to create new content in namespace team-a because it is being terminated"),
        (500, "failed calling webhook: timeout"),
    ],
    ids=["quota", "leaving", "webhook"],
)
async def test_a_namespace_that_refuses_its_report_is_counted_and_the_audit_has_not_failed(code: int, why: str) -> None:
    cluster = world(stored_set("a", bad=True), stored_set("b", "team-b", bad=True))
    cluster.answering = refusing("/team-a/", code, why)
    with capture_logs() as logs:
        async with running(cluster, settings=SETTINGS) as found:
            await until(lambda: sample(found, "rollcall_audit_unwritten_reports") == 1)
            await rounds(found)
            assert (report(cluster), (report(cluster, "team-b") or {})["summary"]["fail"]) == (None, 1)
            assert sample(found, "rollcall_audit_failing") == 0
            assert sample(found, "rollcall_audit_findings", action="deny") == 2
            cluster.answering = lambda _: None
            await until(lambda: sample(found, "rollcall_audit_unwritten_reports") == 0)
            assert report(cluster) is not None
    told = [one for one in logs if one["event"] == "reports not written"]
    assert (told[0]["namespaces"], told[0]["count"], told[0]["why"]) == ("team-a", 1, f"team-a: HTTP {code}")


async def test_a_report_that_cannot_be_deleted_is_counted() -> None:
    cluster = world()
    cluster.put(PATH, {"metadata": {"name": "rollcall", "namespace": "team-a", "uid": "u", "labels": OWN}})
    cluster.answering = refusing("/team-a/", 403, "a webhook says no")
    async with running(cluster, settings=SETTINGS) as found:
        await until(lambda: sample(found, "rollcall_audit_unwritten_reports") == 1)
        assert sample(found, "rollcall_audit_failing") == 0


async def test_an_audit_has_failed_if_no_report_can_be_written() -> None:
    cluster = world(stored_set("a", bad=True))
    cluster.answering = refusing("", 403, "rollcall cannot patch reports")
    async with running(cluster, settings=SETTINGS) as found:
        await until(lambda: sample(found, "rollcall_audit_failing") == 1)
        assert sample(found, "rollcall_audit_finished_timestamp_seconds") == 0
        cluster.answering = lambda _: None
        await until(lambda: report(cluster))
        await until(lambda: sample(found, "rollcall_audit_failing") == 0)


async def test_nothing_is_audited_until_the_cluster_serves_reports() -> None:
    cluster = world(stored_set("a", bad=True), served=False)
    async with running(cluster, settings=SETTINGS) as found:
        await until(lambda: found.idle)
        assert found.audits is not None
        await until(lambda: found.audits is not None and found.audits._said_unserved)
        assert sample(found, "rollcall_audit_failing") == 0
    assert writes(cluster) == []


async def test_a_replica_that_does_not_lead_audits_nothing() -> None:
    cluster = world(stored_set("a", bad=True))
    async with running(cluster, settings=SETTINGS) as found:
        await until(lambda: report(cluster))
        assert found.audits is not None
        found.audits._leads = lambda: False
        await until(lambda: sample(found, "rollcall_audit_findings", action="deny") == 0)
        assert sample(found, "rollcall_audit_finished_timestamp_seconds") == 0


async def test_a_fault_in_an_audit_keeps_no_gang_from_its_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    async def faulty(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(audit_reports, "read_facts", faulty)
    cluster = world(workload())
    put_gang(cluster, "demo-0-a")
    async with running(cluster, settings=SETTINGS) as found:
        await until(lambda: sample(found, "rollcall_audit_failing") == 1)
        await until(lambda: cluster.objects.get(GROUPS))


async def test_only_the_reconcilers_namespace_is_audited() -> None:
    cluster = world(stored_set("a", bad=True), stored_set("b", "team-b", bad=True))
    async with running(cluster, settings=SETTINGS, namespace="team-b") as found:
        await until(lambda: report(cluster, "team-b"))
        await rounds(found)
        assert report(cluster) is None


async def test_without_the_setting_no_audit_runs() -> None:
    off: Settings = replace(SETTINGS, auditing=NO_REPORTS)
    async with running(world(), settings=off) as found:
        assert found.audits is None


async def test_an_audit_waits_for_gangs_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = world(stored_set("a", bad=True))
    async with running(cluster, settings=SETTINGS) as found:
        assert found.audits is not None
        found.audits._idle = lambda: False
        await until(lambda: found.audits is not None and found.audits._due is not None)
        await until(lambda: found.idle)
        assert report(cluster) is None
        await until(lambda: report(cluster))

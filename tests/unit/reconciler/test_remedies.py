"""Remedies in a running reconciler: when they begin, what they write, what is told, and what a crash leaves."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx
import pytest

from tests.configurations import configuration_of
from tests.unit.reconciler.cluster import PODS
from tests.unit.reconciler.forgetful_scheduler import GROUP, ForgetfulScheduler
from tests.unit.reconciler.running_reconciler import GROUPS, looked, names, reconciler, running, sample, until
from tests.unit.worlds import koordinator
from webhook.config.file import settings_from
from webhook.config.settings import RemedySettings
from webhook.reconciler import remedies

pytestmark = pytest.mark.usefixtures("hurried")
ALL = frozenset({"forgotten", "objectLeft", "oldMembership"})
SETTINGS = replace(koordinator(standalone=False), remedies=RemedySettings(ALL, 0.05, 0.05, 600))
# Far more than the gang has pods.
RAISED = 1002
SILENT = {"scheduler": "koord-scheduler", "health": "GangSchedulerSilent"}
TOLD = ("GangRemedy", "GangRemedyHelped", "GangRemedyDidNotHelp")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remedies, "HELPED_SECONDS", 0.1)


def told(scheduler: ForgetfulScheduler) -> list[str]:
    return [event["reason"] for event in scheduler.cluster.events if event["reason"] in TOLD]


async def test_a_forgotten_gang_is_woken_and_its_minimum_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remedies, "HELPED_SECONDS", 60.0)
    scheduler = ForgetfulScheduler()
    async with running(scheduler.cluster, settings=SETTINGS) as found:
        await until(lambda: sample(found, "rollcall_remedies_total", cause="forgotten", outcome="helped") == 1)
        assert scheduler.minimums == [RAISED, 2]
        assert scheduler.minimum == 2
        assert sample(found, "rollcall_writes_total", kind="PodGroup", action="wake") == 2
        assert sample(found, "rollcall_writes_total", kind="Pod", action="annotate") == 2
        await until(lambda: told(scheduler) == ["GangRemedy", "GangRemedyHelped"])
    begun, helped = (event for event in scheduler.cluster.events if event["reason"] in TOLD)
    assert (begun["type"], helped["type"]) == ("Normal", "Normal")
    assert begun["note"] == "koord-scheduler does not try pods one, two, although nothing is missing; remedy: wake"
    assert not [path for method, path in scheduler.cluster.writes if method == "DELETE"]


async def test_a_remedy_that_does_not_help_is_told_and_comes_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = ForgetfulScheduler(wakes=1000)
    async with running(scheduler.cluster, settings=SETTINGS) as found:

        def came(outcome: str) -> float:
            return sample(found, "rollcall_remedies_total", cause="forgotten", outcome=outcome)

        await until(lambda: came("notHelped") >= 2)
        # The next wake has time to help.
        monkeypatch.setattr(remedies, "HELPED_SECONDS", 60.0)
        await until(
            lambda: sample(found, "rollcall_writes_total", kind="PodGroup", action="wake") > 2 * came("notHelped") + 1
        )
        scheduler.start()
        await until(lambda: came("helped") == 1)
        assert scheduler.minimums == [RAISED, 2] * int(came("notHelped") + 1)
        await until(lambda: told(scheduler).count("GangRemedyDidNotHelp") == came("notHelped"))


def deleted(scheduler: ForgetfulScheduler) -> list[str]:
    return [path.rpartition("/")[2] for method, path in scheduler.cluster.writes if method == "DELETE"]


async def test_a_gang_in_part_that_is_woken_twice_in_vain_gets_a_new_pod() -> None:
    scheduler = ForgetfulScheduler(wakes=1000)
    scheduler.start("one")
    async with running(scheduler.cluster, settings=SETTINGS) as found:
        await until(lambda: deleted(scheduler))
        assert sample(found, "rollcall_remedies_total", cause="forgotten", outcome="notHelped") >= 2
    assert (scheduler.minimums, deleted(scheduler)) == ([RAISED, 2] * 2, ["two"])


async def test_a_pod_that_is_excepted_is_never_deleted() -> None:
    scheduler = ForgetfulScheduler(wakes=1000)
    scheduler.start("one")
    granted = {
        "name": "for-now",
        "rules": ["koordinator/mnnvl"],
        "namespaces": ["team-a"],
        "reason": "until the next maintenance",
        "grantedBy": "platform",
        "until": "2999-01-01",
    }
    document = configuration_of({"name": "koord-scheduler", "gate": False}, exceptions=[granted])
    excepting = replace(SETTINGS, exceptions=settings_from(document, "test").exceptions)
    async with running(scheduler.cluster, settings=excepting) as found:
        await until(lambda: sample(found, "rollcall_remedies_total", cause="forgotten", outcome="notHelped") >= 3)
    assert deleted(scheduler) == []


async def test_a_process_that_is_killed_between_the_two_writes_leaves_no_raised_minimum() -> None:
    scheduler = ForgetfulScheduler()
    killed = asyncio.Event()
    dying = reconciler(scheduler.cluster, settings=SETTINGS)
    working = asyncio.create_task(dying.run())

    usual = scheduler.cluster.answering

    def until_killed(request: httpx.Request) -> httpx.Response | None:
        # The gang object is not set back by the same process, which is as good as dead.
        if killed.is_set() or (scheduler.minimum == RAISED and request.method == "PATCH"):
            killed.set()
            raise ConnectionError
        return usual(request)

    scheduler.cluster.answering = until_killed
    async with asyncio.timeout(30):
        await killed.wait()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert scheduler.minimum == RAISED

    scheduler.cluster.answering = usual
    without = replace(SETTINGS, remedies=RemedySettings())
    async with running(scheduler.cluster, settings=without):
        await until(lambda: scheduler.minimum == 2)


async def test_without_the_configuration_nothing_is_done() -> None:
    scheduler = ForgetfulScheduler()
    only_left = replace(SETTINGS, remedies=replace(SETTINGS.remedies, causes=frozenset({"objectLeft"})))
    for settings in (koordinator(standalone=False), only_left):
        async with running(scheduler.cluster, settings=settings) as found:
            await until(lambda: names(scheduler.cluster) == [GROUP])
            await until(lambda: sample(found, "rollcall_gangs", **SILENT) == 1)
            await looked(found.health, 20)
    assert (scheduler.patches, told(scheduler)) == ([], [])


async def test_a_cause_that_does_not_last_gets_no_remedy() -> None:
    scheduler = ForgetfulScheduler()
    patient = replace(SETTINGS, remedies=replace(SETTINGS.remedies, settle_seconds=3600.0))
    async with running(scheduler.cluster, settings=patient) as found:
        await until(lambda: sample(found, "rollcall_gangs", **SILENT))
        await looked(found.health, 20)
        scheduler.start()
        await until(lambda: sample(found, "rollcall_gangs", scheduler="koord-scheduler", health="started") == 1)
    assert scheduler.patches == []


async def test_there_are_no_more_remedies_in_a_minute_than_the_configuration_allows() -> None:
    scheduler = ForgetfulScheduler(wakes=1000)
    few = replace(SETTINGS, remedies=replace(SETTINGS.remedies, per_minute=2))
    async with running(scheduler.cluster, settings=few) as found:
        await until(lambda: sample(found, "rollcall_remedies_waiting") == 1)
        await looked(found.health, 20)
        assert scheduler.minimums == [RAISED, 2] * 2


async def test_an_api_server_that_refuses_is_told_and_not_asked_again_at_once() -> None:
    scheduler = ForgetfulScheduler()
    patient = replace(SETTINGS, remedies=replace(SETTINGS.remedies, pause_seconds=3600.0))
    asked: list[str] = []
    usual = scheduler.cluster.answering

    def refusing(request: httpx.Request) -> httpx.Response | None:
        if "/podgroups/" in request.url.path and request.headers["content-type"].startswith("application/json-patch"):
            asked.append(request.url.path)
            return httpx.Response(403, json={"message": "may not patch", "code": 403})
        return usual(request)

    scheduler.cluster.answering = refusing
    async with running(scheduler.cluster, settings=patient) as found:
        await until(lambda: sample(found, "rollcall_remedies_total", cause="forgotten", outcome="failed") == 1)
        await looked(found.health, 20)
    assert len(asked) == 1
    assert told(scheduler) == ["GangRemedy", "GangRemedyDidNotHelp"]


async def test_a_group_that_an_earlier_gang_left_is_deleted_and_written_again() -> None:
    scheduler = ForgetfulScheduler(wakes=1000)
    only_left = replace(SETTINGS, remedies=replace(SETTINGS.remedies, causes=frozenset({"objectLeft"})))
    async with running(scheduler.cluster, settings=only_left) as found:
        await until(lambda: names(scheduler.cluster) == [GROUP])
        group = scheduler.cluster.get(GROUPS, "team-a", GROUP)
        assert group is not None
        (owner,) = group["metadata"]["ownerReferences"]
        scheduler.cluster.apply(
            GROUPS, {"metadata": {**group["metadata"], "ownerReferences": [{**owner, "uid": "before"}]}}
        )
        await until(lambda: sample(found, "rollcall_remedies_total", cause="objectLeft", outcome="helped") == 1)
        again = scheduler.cluster.get(GROUPS, "team-a", GROUP)
        assert again is not None
        assert again["metadata"]["ownerReferences"] == [owner]
    assert ("DELETE", f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/team-a/podgroups/{GROUP}") in (
        scheduler.cluster.writes
    )
    assert len(scheduler.cluster.objects[PODS]) == 2

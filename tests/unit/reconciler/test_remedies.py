"""Remedies in a running reconciler: when they begin, what they write, what is told, and what a crash leaves."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from tests.configurations import configuration_of
from tests.texts import Text
from tests.unit.reconciler.cluster import PODS
from tests.unit.reconciler.forgetful_scheduler import GROUP, ForgetfulScheduler
from tests.unit.reconciler.running_reconciler import GROUPS, looked, names, reconciler, running, sample
from tests.unit.worlds import koordinator
from tests.waiting import until, until_set
from webhook.backends.base import Wake
from webhook.config.file import settings_from
from webhook.config.settings import NO_REMEDIES, RemedySettings
from webhook.gangs.health import GangHealth, GangState, Observed
from webhook.gangs.hold_reasons import GangReason, HoldReason
from webhook.gangs.key import GangKey
from webhook.gangs.remedies import Act, Remedy, RemedyCause, needed_remedy
from webhook.reconciler import remedies
from webhook.reconciler.events import Events
from webhook.reconciler.manager import Reconciler
from webhook.reconciler.remedies import carry_out
from webhook.reconciler.writer import Writer

ALL = frozenset({"forgotten", "objectLeft", "oldMembership"})
SETTINGS = replace(koordinator(standalone=False), remedies=RemedySettings(ALL, 30.0, 60.0, 600))
# Far more than the gang has pods.
RAISED = 1002
SILENT = {"scheduler": "koord-scheduler", "health": "GangSchedulerSilent"}
TOLD = ("GangRemedy", "GangRemedyHelped", "GangRemedyDidNotHelp")


def writers(found: Reconciler) -> tuple[Writer, Events]:
    client = found.following.client
    return Writer(client, lambda: True, found.metrics), Events(client, found.metrics, "test", lambda: True)


def told(scheduler: ForgetfulScheduler) -> list[str]:
    return [event["reason"] for event in scheduler.cluster.events if event["reason"] in TOLD]


async def test_a_forgotten_gang_is_woken_and_its_minimum_set_back() -> None:
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
    assert begun["note"] == Text("koord-scheduler", "pods one, two, ", "remedy: wake")
    assert not [path for method, path in scheduler.cluster.writes if method == "DELETE"]


async def test_a_remedy_that_does_not_help_is_told_and_comes_again_later() -> None:
    scheduler = ForgetfulScheduler(wakes=1000)
    async with running(scheduler.cluster, settings=SETTINGS) as found:

        def came(outcome: str) -> float:
            return sample(found, "rollcall_remedies_total", cause="forgotten", outcome=outcome)

        await until(lambda: came("notHelped") >= 2)
        await until(
            lambda: sample(found, "rollcall_writes_total", kind="PodGroup", action="wake") > 2 * came("notHelped") + 1
        )
        scheduler.start()
        await until(lambda: came("helped") == 1)
        assert scheduler.minimums == [RAISED, 2] * int(came("notHelped") + 1)
        await until(lambda: told(scheduler).count("GangRemedyDidNotHelp") == came("notHelped"))


async def test_a_gang_in_part_that_is_woken_twice_in_vain_gets_a_new_pod() -> None:
    scheduler = ForgetfulScheduler(wakes=1000)
    scheduler.start("one")
    async with running(scheduler.cluster, settings=SETTINGS) as found:
        await until(lambda: scheduler.deleted)
        assert sample(found, "rollcall_remedies_total", cause="forgotten", outcome="notHelped") >= 2
    assert (scheduler.minimums, scheduler.deleted) == ([RAISED, 2] * 2, ["two"])


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
    assert scheduler.deleted == []


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
    await until_set(killed)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert scheduler.minimum == RAISED

    scheduler.cluster.answering = usual
    without = replace(SETTINGS, remedies=NO_REMEDIES)
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
    few = replace(SETTINGS, remedies=replace(SETTINGS.remedies, per_minute=2, pause_seconds=1.0))
    async with running(scheduler.cluster, settings=few) as found:
        await until(lambda: sample(found, "rollcall_remedies_waiting") == 1)
        await looked(found.health, 10)
        assert scheduler.minimums == [RAISED, 2] * 2


def silent(namespace: str, name: str) -> tuple[GangKey, GangHealth]:
    why = HoldReason(GangReason.SILENT, "its scheduler says nothing", "read its log")
    return GangKey(namespace, name), GangHealth(namespace, name, None, GangState.HELD, "", obstacles=(why,))


async def test_a_namespace_with_many_silent_gangs_does_not_delay_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remedies, "GANGS_A_LOOK", 4)
    asked: list[str] = []

    def observed(key: GangKey) -> Observed | None:
        asked.append(key.namespace)
        return None

    cluster = ForgetfulScheduler().cluster
    found = reconciler(cluster, settings=SETTINGS)
    made = remedies.Remedies(
        replace(SETTINGS.remedies, settle_seconds=0.0), observed, *writers(found), found.metrics.remedies
    )
    for name in range(100):
        made.judged(*silent("crowd", f"demo-{name:03}"))
    made.judged(*silent("small", "demo"))
    made.judged(*silent("another", "demo"))
    await made.see()
    assert sorted(asked) == ["another", "crowd", "crowd", "small"]
    await found.following.close()


async def test_a_minimum_that_a_user_removed_is_not_raised() -> None:
    """It is not there between this patch and the next write of the object."""
    scheduler = ForgetfulScheduler()
    found = reconciler(scheduler.cluster, settings=SETTINGS)
    writer, _ = writers(found)
    target = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "spec": {}}
    target["metadata"] = {"name": GROUP, "namespace": "team-a", "uid": "u"}
    remedy = Remedy(RemedyCause.FORGOTTEN, Act.WAKE, "", "", target, (), Wake.RAISE_MINIMUM, RAISED)
    assert await carry_out(remedy, writer, "now") is False
    assert scheduler.patches == []
    await found.following.close()


async def test_a_fault_with_one_gang_ends_neither_the_process_nor_the_remedies_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler = ForgetfulScheduler()
    usual = needed_remedy

    def faulty(health: GangHealth, *others: Any) -> Remedy | None:
        if health.namespace == "broken":
            raise KeyError("a field that a tenant removed")
        return usual(health, *others)

    monkeypatch.setattr("webhook.reconciler.remedies.needed_remedy", faulty)
    async with running(scheduler.cluster, settings=SETTINGS) as found:
        made = found.health._remedies
        assert made is not None
        seen = made._observed
        real = GangKey("team-a", "demo-0")
        monkeypatch.setattr(made, "_observed", lambda _: seen(real))
        made.judged(*silent("broken", "demo"))
        await until(lambda: sample(found, "rollcall_remedies_total", cause="forgotten", outcome="helped") == 1)
        await looked(found.health, 5)


async def test_a_fault_in_one_part_of_a_look_does_not_end_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = ForgetfulScheduler()
    async with running(scheduler.cluster, settings=SETTINGS) as found:

        async def broken() -> None:
            raise KeyError("a field that a tenant removed")

        made = found.health._remedies
        assert made is not None
        monkeypatch.setattr(made, "see", broken)
        await until(lambda: names(scheduler.cluster) == [GROUP])
        with capture_logs() as logs:
            await looked(found.health, 5)
        scheduler.start()
        await until(lambda: sample(found, "rollcall_gangs", scheduler="koord-scheduler", health="started") == 1)
    assert len([line for line in logs if line["event"] == "health not handled"]) <= 3


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


LEFT = replace(SETTINGS, remedies=replace(SETTINGS.remedies, causes=frozenset({"objectLeft"})))
GROUP_PATH = f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/team-a/podgroups/{GROUP}"


def owners(scheduler: ForgetfulScheduler, uid: str | None = None) -> list[dict[str, Any]]:
    """The owners of the PodGroup, after its one owner got that uid."""
    group = scheduler.cluster.get(GROUPS, "team-a", GROUP)
    assert group is not None
    if uid is not None:
        (owner,) = group["metadata"]["ownerReferences"]
        changed = {**group["metadata"], "ownerReferences": [{**owner, "uid": uid}]}
        scheduler.cluster.apply(GROUPS, {"metadata": changed})
    return list(group["metadata"]["ownerReferences"])


async def test_a_group_that_an_earlier_gang_left_is_deleted_and_written_again() -> None:
    scheduler = ForgetfulScheduler(wakes=1000)
    preconditions: list[Any] = []
    usual = scheduler.cluster.answering

    def answer(request: httpx.Request) -> httpx.Response | None:
        if request.method == "DELETE":
            preconditions.append(json.loads(request.content)["preconditions"])
        return usual(request)

    async with running(scheduler.cluster, settings=LEFT) as found:
        await until(lambda: names(scheduler.cluster) == [GROUP])
        group = scheduler.cluster.get(GROUPS, "team-a", GROUP)
        assert group is not None
        before = owners(scheduler)
        scheduler.cluster.answering = answer
        owners(scheduler, "before")
        await until(lambda: sample(found, "rollcall_remedies_total", cause="objectLeft", outcome="helped") == 1)
        assert owners(scheduler) == before
    # Whatever changed since its owner was tested, the API server refuses the deletion.
    assert preconditions == [{"uid": group["metadata"]["uid"], "resourceVersion": "7"}]
    assert ("DELETE", GROUP_PATH) in scheduler.cluster.writes
    assert len(scheduler.cluster.objects[PODS]) == 2


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_a_group_that_was_changed_meanwhile_is_judged_again_and_not_deleted(method: str) -> None:
    """Its owner is another one by now: since it was judged (PATCH), or since that was tested (DELETE)."""
    scheduler = ForgetfulScheduler(wakes=1000)
    usual, asked = scheduler.cluster.answering, list[str]()

    def answer(request: httpx.Request) -> httpx.Response | None:
        if request.method == method and request.headers["content-type"] != "application/apply-patch+yaml":
            asked.append(request.url.path)
            scheduler.cluster.answering = usual
            owners(scheduler, "set-team-a")
            return httpx.Response(422 if method == "PATCH" else 409, json={"message": "it has changed"})
        return usual(request)

    async with running(scheduler.cluster, settings=LEFT) as found:
        await until(lambda: names(scheduler.cluster) == [GROUP])
        uid = owners(scheduler)[0]["uid"]
        assert uid == "set-team-a"
        scheduler.cluster.answering = answer
        owners(scheduler, "before")
        await until(lambda: asked == [GROUP_PATH])
        await until(lambda: sample(found, "rollcall_gangs", **SILENT) == 1)
        await looked(found.health, 20)
        assert sample(found, "rollcall_writes_total", kind="PodGroup", action="delete") == 0
    assert names(scheduler.cluster) == [GROUP]

"""The watch of gang health: events, counters, and the deletion of escaped pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.played import PlayedClock
from tests.texts import Text
from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.grove import grove_pod, put_pods, put_with_cliques
from tests.unit.reconciler.running_reconciler import (
    GANGS,
    SETS,
    looked,
    names,
    podgang,
    put_gang,
    running,
    sample,
    workload,
    world,
)
from tests.unit.worlds import koordinator
from tests.waiting import until
from webhook.gangs.health import AnchoredHealth, GangHealth, GangState
from webhook.gangs.hold_reasons import GangReason, HoldReason
from webhook.gangs.key import GangKey
from webhook.reconciler import health_watch, held_gangs
from webhook.reconciler.events import REPEAT_SECONDS
from webhook.reconciler.held_gangs import HeldCause, Series, judgement_of
from webhook.reconciler.manager import Reconciler


def pod(name: str, **spec: Any) -> dict[str, Any]:
    found = grove_pod(name, schedulerName="default-scheduler", **spec)
    found["metadata"]["resourceVersion"] = "7"
    return found


def put_gangs(cluster: WritableWorld, numbers: range, names: str = "many-{:03}") -> None:
    for index in numbers:
        name = names.format(index)
        gang = podgang("demo-0-a")
        gang["metadata"] |= {"name": name, "uid": f"g{index}"}
        gang["spec"]["podgroups"][0]["name"] = f"{name}-a"
        put_with_cliques(cluster, gang)


def reasons(cluster: WritableWorld) -> list[str]:
    return [event["reason"] for event in cluster.events]


async def test_a_hold_reason_gets_one_event_and_is_counted_until_it_changes() -> None:
    cluster = world("demo-0-a")
    async with running(cluster) as found:
        await until(lambda: reasons(cluster) == ["GangTooFewPods"])
        event = cluster.events[0]
        assert event["regarding"]["name"] == "demo-0"
        assert event["note"] == Text(
            "The gang does not start: demo-0-a has 0 pods of the 2", "describe podclique demo-0-a -n team-a"
        )
        held = {"scheduler": "koord-scheduler", "health": "GangTooFewPods"}
        assert sample(found, "rollcall_gangs", **held) == 1
        assert sample(found, "rollcall_events_total", reason="GangTooFewPods") == 1
        found.following.look_at_all()
        put_pods(cluster, pod("one"), pod("two"))
        await until(lambda: reasons(cluster) == ["GangTooFewPods", "GangPodsEscaped"])
        assert sample(found, "rollcall_gangs", **held) == 0
        assert sample(found, "rollcall_escaped_pods", scheduler="koord-scheduler", escape="unmutated") == 2
        for name in ("one", "two"):
            cluster.objects[PODS] = []
            cluster.tell(PODS, "MODIFIED", pod(name, nodeName="n"))
        started = {"scheduler": "koord-scheduler", "health": "started"}
        await until(lambda: sample(found, "rollcall_gangs", **started) == 1)
        cluster.remove(GANGS, "team-a", "demo-0")
        await until(lambda: sample(found, "rollcall_gangs", **started) == 0)
        assert sample(found, "rollcall_escaped_pods", scheduler="koord-scheduler", escape="unmutated") == 0
        assert len(cluster.events) == 2


async def test_a_gang_without_an_enabled_scheduler_is_counted_as_other() -> None:
    cluster = WritableWorld()
    unknown = {"name": "demo", "namespace": "team-a", "labels": {"rollcall.dev/scheduler": "lpx-scheduler"}}
    cluster.put(SETS, {"metadata": unknown, "spec": {"template": {"cliques": []}}})
    put_gang(cluster, "demo-0-a")
    async with running(cluster) as found:
        labels = {"scheduler": "other", "health": "GangNoProfile"}
        await until(lambda: sample(found, "rollcall_gangs", **labels) == 1)


async def test_a_process_without_the_lease_counts_but_sends_no_events() -> None:
    cluster = world("demo-0-a")
    async with running(cluster) as found:
        leading = False
        found.health._leads = lambda: leading
        held = {"scheduler": "koord-scheduler", "health": "GangTooFewPods"}
        await until(lambda: sample(found, "rollcall_gangs", **held) == 1)
        await until(lambda: names(cluster) == ["demo-0-a"])
        assert cluster.events == []
        leading = True
        await until(lambda: reasons(cluster) == ["GangTooFewPods"])


async def test_events_of_many_gangs_are_sent_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_watch, "EVENTS_A_LOOK", 2)

    cluster = world("demo-0-a")
    put_gangs(cluster, range(1, 5), "demo-{}")
    async with running(cluster):
        await until(lambda: len(cluster.events) == 5)
        assert {event["regarding"]["name"] for event in cluster.events} == {f"demo-{index}" for index in range(5)}


async def test_many_gangs_of_one_cause_share_an_event_whose_number_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = WritableWorld()
    cluster.put(SETS, workload())
    put_gangs(cluster, range(30))
    async with running(cluster) as found:
        await until(lambda: any("series" in event for event in cluster.events))
        (shared,) = [event for event in cluster.events if event["regarding"]["kind"] == "Namespace"]
        await until(lambda: shared["series"]["count"] == 30)
        assert shared["regarding"] == {"apiVersion": "v1", "kind": "Namespace", "name": "team-a", "namespace": "team-a"}
        assert shared["note"] == Text(
            "do not start",
            "rollcall gangs -n team-a --held",
            "many-000, many-001 and many-002. many-000: many-000-a has 0 pods of the 2",
        )
        assert len(cluster.events) == held_gangs.OWN_EVENTS + 1
        put_gangs(cluster, range(30, 40))
        await until(lambda: shared["series"]["count"] == 40)
        assert len(cluster.events) == held_gangs.OWN_EVENTS + 1
        written = sample(found, "rollcall_events_total", reason="GangTooFewPods")
        assert written == len(cluster.events) + cluster.continued
    put_gangs(cluster, range(40, 50))
    async with running(cluster):
        # The next leader begins with the same event.
        await until(lambda: shared["series"]["count"] == 50)
        assert len(cluster.events) == held_gangs.OWN_EVENTS + 1


def test_a_shared_event_names_the_strangers_of_its_examples() -> None:
    room = HoldReason(GangReason.NO_ROOM, "no room", "free some")
    strangers = HoldReason(GangReason.UNOWNED, "1 pod (stranger) names its group", "delete it")
    cause = HeldCause("team-a", GangReason.NO_ROOM)
    keys = tuple(GangKey("team-a", name) for name in ("a", "b"))
    examples = [
        (key.name, judgement_of(GangHealth(*key[:2], None, GangState.HELD, "", obstacles=obstacles), None))
        for key, obstacles in zip(keys, ((room,), (room, strangers)), strict=True)
    ]
    note = health_watch._note_of_many(Series(cause, 20, keys, None), examples)
    assert note == Text("a and b", "a: no room", "b: GangPodsUnowned: 1 pod (stranger) names its group")


async def test_a_shared_event_that_is_gone_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = WritableWorld()
    cluster.put(SETS, workload())
    put_gangs(cluster, range(30))
    async with running(cluster):
        await until(lambda: len(cluster.events) == held_gangs.OWN_EVENTS + 1)
        cluster.events.clear()
        put_gangs(cluster, range(30, 60))
        await until(lambda: [event["series"]["count"] for event in cluster.events] == [60])


def last_judged(found: Reconciler) -> str:
    """Why the gang is held, as it was last judged."""
    known = found.health.judgement(GangKey("team-a", "demo-0"))
    return "" if known is None else " ".join(one.why for one in known.obstacles)


async def test_a_gang_is_judged_after_its_objects_are_written() -> None:
    cluster = world("demo-0-a")
    waiting = True
    async with running(cluster) as found:
        found.health._has_turn = lambda _: waiting
        put_gang(cluster, "demo-0-a", "demo-0-b")
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])
        await looked(found.health, 3)
        assert "demo-0-b" not in last_judged(found)
        waiting = False
        await until(lambda: "demo-0-b" in last_judged(found))


async def test_no_gang_is_tried_before_everything_is_read() -> None:
    cluster = WritableWorld()
    cluster.put(SETS, workload())
    put_gangs(cluster, range(50))
    async with running(cluster) as found:
        await until(lambda: len(names(cluster)) == 50)
        assert sample(found, "rollcall_retries_total", why="unknown") == 0


async def test_a_lasting_reason_gets_another_event() -> None:
    clock, cluster = PlayedClock(), world("demo-0-a")
    async with running(cluster, clock=clock):
        await until(lambda: cluster.events)
        clock.move(REPEAT_SECONDS)
        await until(lambda: reasons(cluster) == [GangReason.TOO_FEW_PODS.value] * 2)


async def test_a_restarted_process_does_not_repeat_every_event() -> None:
    cluster = world("demo-0-a")
    async with running(cluster):
        await until(lambda: len(cluster.events) == 1)
    async with running(cluster) as found:
        held = {"scheduler": "koord-scheduler", "health": "GangTooFewPods"}
        await until(lambda: sample(found, "rollcall_gangs", **held) == 1)
        await until(lambda: cluster.told_twice == 1)
        assert sample(found, "rollcall_events_total", reason="GangTooFewPods") == 0
    assert len(cluster.events) == 1


async def test_an_internal_error_with_one_gang_does_not_block_the_objects_of_any_gang() -> None:
    cluster = world("demo-0-a")
    async with running(cluster) as found:
        asked: list[Any] = []

        def broken(key: Any, _: Any) -> Any:
            asked.append(key)
            raise RuntimeError("ours")

        found.health._judging = AnchoredHealth(broken)
        await until(lambda: asked)
        await until(lambda: names(cluster) == ["demo-0-a"])
        held = {"scheduler": "koord-scheduler", "health": "GangTooFewPods"}
        assert sample(found, "rollcall_gangs", **held) == 0


DELETING = replace(koordinator(standalone=False), deleted_escapes=frozenset({"unmutated"}))


async def test_escaped_pods_are_deleted_if_configured_but_never_on_a_node() -> None:
    cluster = world("demo-0-a")
    put_pods(cluster, pod("free"), pod("bound", nodeName="n"))
    async with running(cluster, settings=DELETING) as found:
        await until(lambda: [one["metadata"]["name"] for one in cluster.objects[PODS]] == ["bound"])
        assert sample(found, "rollcall_escaped_pods_deleted_total", escape="unmutated") == 1
        assert sample(found, "rollcall_writes_total", kind="Pod", action="delete") == 1
    deletions = [path for method, path in cluster.writes if method == "DELETE"]
    assert deletions == ["/api/v1/namespaces/team-a/pods/free"]


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(409, json=failure(409, "the object has been modified")),
        httpx.Response(404, json=failure(404, "gone")),
        httpx.Response(500, json=failure(500, "etcd")),
    ],
)
async def test_a_pod_that_changed_meanwhile_is_neither_deleted_nor_retried_at_once(answer: httpx.Response) -> None:
    cluster = world("demo-0-a")
    put_pods(cluster, pod("free"))
    asked: list[bytes] = []

    def changed(request: httpx.Request) -> httpx.Response | None:
        if request.method != "DELETE":
            return None
        asked.append(request.content)
        return answer

    cluster.answering = changed
    async with running(cluster, settings=DELETING) as found:
        await until(lambda: asked)
        await until(lambda: found.idle)
        assert sample(found, "rollcall_escaped_pods_deleted_total", escape="unmutated") == 0
        put_pods(cluster, pod("another"))
        await until(
            lambda: sample(found, "rollcall_escaped_pods", scheduler="koord-scheduler", escape="unmutated") == 2
        )
    assert len(asked) == 1
    assert b'"preconditions":{"uid":"free","resourceVersion":"7"}' in asked[0]


async def test_without_the_configuration_escaped_pods_are_not_deleted() -> None:
    cluster = world("demo-0-a")
    put_pods(cluster, pod("free"), pod("other"))
    async with running(cluster):
        await until(lambda: reasons(cluster) == ["GangPodsEscaped"])
        assert [method for method, _ in cluster.writes] == ["PATCH"]

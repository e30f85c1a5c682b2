"""Namespaces with very many gangs: what the gangs of others wait for, and what the work for one gang depends on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.played import PlayedClock, elapse
from tests.texts import Text
from tests.unit.growth.step_counts import Cost
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.grove import grove_pod, put_pods, put_with_cliques
from tests.unit.reconciler.opted_in_workloads import IN_TURN, JOB_SET_PATH, job_set, opted_in_world
from tests.unit.reconciler.running_reconciler import (
    GANGS,
    GROUPS,
    SETS,
    looked,
    podgang,
    put_gang,
    reconciler,
    running,
    workload,
)
from tests.waiting import turns, until
from webhook.admission.workload_admission import POD_CLIQUE_SETS as POD_CLIQUE_SETS_ADMISSION
from webhook.cluster.clock import TURN_SECONDS, LoopTurn
from webhook.gangs.escapes import Escapes
from webhook.gangs.gang_view import losses_of
from webhook.gangs.health import GangHealth
from webhook.gangs.key import GangKey, key_of_gang
from webhook.gangs.losses import Loss, line_of
from webhook.model.bounds import Packed
from webhook.model.nodes import NODES
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS
from webhook.reconciler import health_watch
from webhook.reconciler.manager import STALLED_SECONDS, Reconciler


def crowd_of(number: int, namespace: str = "crowd") -> list[dict[str, Any]]:
    """PodGangs of one namespace."""
    gangs = []
    for index in range(number):
        gang = podgang(f"many-{index}-a", namespace=namespace)
        gang["metadata"] |= {"name": f"many-{index}", "uid": f"{namespace}-{index}"}
        gangs.append(gang)
    return gangs


def put_crowd(cluster: WritableWorld, number: int, namespace: str = "crowd") -> None:
    cluster.put(SETS, workload(namespace))
    for gang in crowd_of(number, namespace):
        put_with_cliques(cluster, gang)


def written(cluster: WritableWorld) -> Counter[str]:
    """The number of PodGroups in each namespace."""
    return Counter(group["metadata"]["namespace"] for group in cluster.objects.get(GROUPS, []))


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[GangKey]:
    """The gangs that were judged so far."""
    keys: list[GangKey] = []
    judge = health_watch.HealthWatch._health

    def noted(watch: health_watch.HealthWatch, key: GangKey) -> GangHealth | None:
        keys.append(key)
        return judge(watch, key)

    monkeypatch.setattr(health_watch.HealthWatch, "_health", noted)
    return keys


async def settled(found: Reconciler) -> None:
    await until(lambda: found.idle and not any(found.following.unseen()))
    await looked(found.health, 3)


@asynccontextmanager
async def settled_crowds(**sizes: int) -> AsyncIterator[Reconciler]:
    """A reconciler that has done with crowds of these sizes, by namespace."""
    cluster = WritableWorld()
    for namespace, number in sizes.items():
        put_crowd(cluster, number, namespace)
    async with running(cluster) as found:
        await settled(found)
        yield found


def slow_writes(cluster: WritableWorld) -> None:
    """Every write takes ten milliseconds."""
    answer = cluster.handle_async_request

    async def slow(request: httpx.Request) -> httpx.Response:
        if request.method != "GET":
            await elapse(0.01)
        return await answer(request)

    cluster.handle_async_request = slow  # type: ignore[method-assign]


async def test_a_new_gang_is_written_before_the_rest_of_a_crowd() -> None:
    cluster = WritableWorld()
    slow_writes(cluster)
    put_crowd(cluster, 500)
    async with running(cluster):
        await until(lambda: written(cluster)["crowd"] >= 20)
        cluster.put(SETS, workload())
        put_gang(cluster, "demo-0-a")
        await until(lambda: written(cluster)["team-a"] == 1)
        assert written(cluster)["crowd"] < 100
        await until(lambda: written(cluster)["crowd"] == 500)


async def test_a_new_gang_is_written_before_what_stands_is_written_again() -> None:
    cluster = WritableWorld()
    put_crowd(cluster, 300)
    async with running(cluster) as found:
        await settled(found)
        slow_writes(cluster)
        cluster.writes.clear()
        for gang in crowd_of(300):
            gang["spec"]["podgroups"][0]["minReplicas"] = 7
            cluster.apply(GANGS, gang)
        await until(lambda: len(cluster.writes) > 10)
        put_with_cliques(cluster, podgang("new-a", namespace="crowd"))
        await until(lambda: written(cluster)["crowd"] == 301)
        assert len(cluster.writes) < 100
        await until(lambda: len(cluster.writes) > 300)


@pytest.mark.parametrize("others", [5, 200])
async def test_a_change_in_one_namespace_judges_no_gang_of_another(others: int, judged: list[GangKey]) -> None:
    cluster = WritableWorld()
    put_crowd(cluster, others)
    cluster.put(SETS, workload())
    put_gang(cluster, "demo-0-a")
    async with running(cluster) as found:
        await settled(found)
        judged.clear()
        changed = workload()
        changed["metadata"]["annotations"] = {"a": "b"}
        cluster.apply(SETS, changed)
        await until(lambda: GangKey("team-a", "demo-0") in judged)
        await settled(found)
        assert {key.namespace for key in judged} == {"team-a"}


async def test_at_one_look_a_few_of_the_gangs_that_may_be_held_for_another_reason_are_judged(
    judged: list[GangKey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_watch, "AGAIN_A_LOOK", 10)
    async with settled_crowds(crowd=100, small=3) as found:
        judged.clear()
        found.health.mark_held()
        await found.health.look()
        assert Counter(key.namespace for key in judged) == {"crowd": 7, "small": 3}
        for _ in range(10):
            await found.health.look()
        assert len(judged) == len(set(judged)) == 103, "each once"


async def test_gangs_are_judged_again_though_a_look_has_judged_enough_shapes(judged: list[GangKey]) -> None:
    async with settled_crowds(crowd=30) as found:
        fits = found.following.fits
        fits._never._most = fits._now._most = 0
        judged.clear()
        found.health.mark_held()
        await found.health.look()
        assert len(judged) == health_watch.AGAIN_AT_LEAST


async def test_gangs_that_change_all_the_time_leave_a_look_time_for_the_shapes_of_others(judged: list[GangKey]) -> None:
    async with settled_crowds(crowd=30, small=1) as found:
        found.health.mark_held("small")
        for key in [key for key in found.health._judgements if key.namespace == "crowd"]:
            found.health.mark(key)
        judged.clear()
        await found.health.look()
        assert judged[0] == GangKey("small", "many-0")
        assert len(judged) == 31


async def test_a_gang_whose_objects_are_about_to_be_written_is_judged_afterwards(judged: list[GangKey]) -> None:
    async with settled_crowds(crowd=2) as found:
        found.health._has_turn = lambda key: key.name == "many-0"
        judged.clear()
        found.health.mark_held()
        await found.health.look()
        await found.health.look()
        assert judged == [GangKey("crowd", "many-1")]
        found.health._has_turn = lambda _: False
        await found.health.look()
        assert judged == [GangKey("crowd", "many-1"), GangKey("crowd", "many-0")]


async def test_other_work_goes_on_while_very_many_gangs_are_judged(judged: list[GangKey]) -> None:
    cluster, clock = WritableWorld(), PlayedClock()
    put_crowd(cluster, 50)
    async with running(cluster, clock=clock) as found:
        await settled(found)
        judged.clear()
        judge = found.health._judge

        def slow(key: GangKey) -> None:
            clock.used += TURN_SECONDS / 2
            judge(key)

        found.health._judge = slow  # type: ignore[method-assign]
        for gang in crowd_of(50):
            found.health.mark(GangKey("crowd", gang["metadata"]["name"]))
        look = asyncio.create_task(found.health.look())
        await turns(2)
        assert 0 < len(judged) < 10
        await look
        assert len(judged) == 50


@asynccontextmanager
async def slowly_judged_crowds() -> AsyncIterator[Reconciler]:
    """A crowd of 30 gangs and one of another namespace, each of which takes a quarter of a look to be judged."""
    cluster, clock = WritableWorld(), PlayedClock()
    put_crowd(cluster, 30)
    put_crowd(cluster, 1, "small")
    async with running(cluster, clock=clock) as found:
        await settled(found)
        judge = found.health._judge

        def slow(key: GangKey) -> None:
            clock.used += health_watch.JUDGING_SECONDS / 4
            judge(key)

        found.health._judge = slow  # type: ignore[method-assign]
        yield found


async def test_a_look_ends_after_a_second_of_a_processor_and_the_others_come_at_the_next(judged: list[GangKey]) -> None:
    async with slowly_judged_crowds() as found:
        for key in list(found.health._judgements):
            found.health.mark(key)
        judged.clear()
        await found.health.look()
        assert len(judged) == 4
        assert GangKey("small", "many-0") in judged
        for _ in range(8):
            await found.health.look()
        assert len(set(judged)) == 31


async def test_gangs_that_may_have_another_reason_leave_half_of_a_look_to_gangs_that_changed(
    judged: list[GangKey],
) -> None:
    async with slowly_judged_crowds() as found:
        for key in [key for key in found.health._judgements if key.namespace == "crowd"]:
            found.health._again.put(key)
        found.health.mark(GangKey("small", "many-0"))
        judged.clear()
        await found.health.look()
        assert GangKey("small", "many-0") in judged


async def test_the_rules_of_a_set_are_asked_once_for_all_of_its_gangs_until_something_changes() -> None:
    async with settled_crowds(crowd=30, small=1) as found:
        keys = [key for key in found.health._judgements if key.namespace == "crowd"]

        def asked() -> int:
            runs = Cost(lambda: [found.following.health(key) for key in keys]).runs
            rules = POD_CLIQUE_SETS_ADMISSION.judged_by.__code__
            return runs[rules, rules.co_firstlineno]

        asked()
        assert asked() == 0
        found.following._touched(NODES, "node")
        assert asked() == 1


class BusyClock(PlayedClock):
    """Each look at it ends a turn."""

    def processor(self) -> float:
        self.used += TURN_SECONDS
        return self.used


SLICED: dict[str, Callable[[Reconciler], Coroutine[Any, Any, Any]]] = {
    "all gangs are gathered": lambda found: found.following._every_gang(),
    "all gangs that have not started are marked": lambda found: found.health._mark_again(
        LoopTurn(found.clock), room=False
    ),
    "records are read": lambda found: losses_of({"one": many_records()}, found.clock),
}


def many_records() -> dict[str, Any]:
    lines = (line_of(GangKey("crowd", f"g{index}"), Loss("u", "2026-09-01T12:00:00Z", ())) for index in range(50))
    return {"data": {"losses": "\n".join(line.text for line in lines)}}


@pytest.mark.parametrize("work", SLICED.values(), ids=SLICED.keys())
async def test_other_work_goes_on_while_very_much_is_gone_through(
    work: Callable[[Reconciler], Coroutine[Any, Any, Any]],
) -> None:
    async with settled_crowds(crowd=50) as found:
        found.clock = found.following._clock = BusyClock()
        found.health.mark_held()
        task = asyncio.create_task(work(found))
        await turns(20)
        assert not task.done()
        await task


async def test_everything_is_checked_again_spread_over_the_time() -> None:
    async with settled_crowds(crowd=500) as found:
        queued: list[GangKey] = []
        found.following._say_gang_changed = queued.append
        checking = asyncio.create_task(found.following.look_slowly(600))
        await elapse(250)
        assert len(queued) == 200
        await checking
        assert len(set(queued)) == 500


@pytest.mark.parametrize("owner", [None, "stranger"], ids=["without an owner", "with another owner"])
async def test_objects_that_only_name_a_gang_are_not_unpacked_for_it(owner: str | None, unpacked: list[Packed]) -> None:
    cluster = WritableWorld()
    cluster.put(SETS, workload())
    put_gang(cluster, "demo-0-a")
    async with running(cluster) as found:
        await settled(found)
        for index in range(200):
            labels = {"grove.io/podgang": "demo-0", "app.kubernetes.io/managed-by": "rollcall"}
            controller = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "demo", "controller": True}
            owners = [] if owner is None else [{**controller, "uid": owner}]
            metadata = {"name": f"forged-{index}", "namespace": "team-a", "labels": labels, "ownerReferences": owners}
            cluster.put(GROUPS, {"metadata": metadata, "spec": {"minMember": 1}})
        await settled(found)
        unpacked.clear()
        assert found.following.health(GangKey("team-a", "demo-0")) is not None
        assert len(unpacked) < 20


async def test_a_process_is_not_ready_while_gangs_wait_and_none_is_reconciled() -> None:
    cluster, clock = WritableWorld(), PlayedClock()
    put_crowd(cluster, 1)
    found = reconciler(cluster, clock=clock)
    assert list(found.reasons_not_ready()) == list(found.unready())
    found.queue.add(GangKey("crowd", "many-0"))
    clock.move(STALLED_SECONDS - 1)
    assert list(found.reasons_not_ready()) == list(found.unready())
    clock.move(1)
    assert list(found.reasons_not_ready())[-1] == Text("queue: ", "60 s", "1 gangs")


# What each of these does for one gang must not depend on how many other gangs there are.

OWN = GangKey("team-a", "demo-0")
# Something for one gang, each time with another number, so that something changes.
Work = Callable[[Reconciler, int], object]


def put_pod(found: Reconciler, number: int) -> None:
    raw = grove_pod("one", schedulerName="koord-scheduler", priority=number)
    found.following._pods._watch.index.put(raw)


def put_podgang(found: Reconciler, number: int) -> None:
    found.following.stores.by_kind[POD_GANGS.resource.api].put(podgang("demo-0-a", minimum=number))


def put_pod_group(found: Reconciler, number: int) -> None:
    (group,) = found.following.stores.owned_by({"set-team-a"}, OWN)
    found.following.stores.store_for(group).put({**group, "spec": {"minMember": number}})


def put_set(found: Reconciler, number: int) -> None:
    changed = workload()
    changed["metadata"]["labels"]["rollcall.dev/queue"] = f"queue-{number}"
    changed["spec"]["replicas"] = number
    found.following.live.watches[POD_CLIQUE_SETS].index.put(changed)
    assert found.following._workloads.watch is not None
    found.following._workloads.watch.index.put(changed)


def put_pod_clique(found: Reconciler, number: int) -> None:
    watches = dict(found.following._pods.controllers.watches())
    metadata = {"name": "demo-0-a", "namespace": "team-a", "uid": str(number)}
    watches["PodClique"].index.put({"metadata": metadata})


def take_key(found: Reconciler, _: int) -> None:
    found.queue.add(OWN)
    assert found.queue._next() == OWN


ONE_GANG: dict[str, Work] = {
    "its pod changes": put_pod,
    "its PodGang changes": put_podgang,
    "its object changes": put_pod_group,
    "its PodCliqueSet changes": put_set,
    "its PodClique changes": put_pod_clique,
    "it is judged": lambda found, _: found.health._judge(OWN),
    "it is observed": lambda found, _: found.following.observed(OWN),
    "its name is found": lambda found, _: found.following.gangs_of("PodCliqueSet", "team-a", "demo"),
    "it is queued and taken": take_key,
    "losses are counted": lambda found, _: found.losses._count(),
}


async def cost_of(work: Work, others: int) -> Cost:
    """The cost of something for one gang, beside so many others in their own namespace."""
    cluster = WritableWorld()
    put_crowd(cluster, others)
    cluster.put(SETS, workload())
    put_gang(cluster, "demo-0-a")
    put_pods(cluster, grove_pod("one", schedulerName="koord-scheduler"))
    async with running(cluster) as found:
        await settled(found)
        work(found, 3)  # what is computed once and kept does not count
        await settled(found)
        return Cost(lambda: work(found, 4), memory=True)


@pytest.mark.parametrize("work", ONE_GANG.values(), ids=ONE_GANG.keys())
async def test_work_for_one_gang_does_not_grow_with_the_number_of_others(work: Work) -> None:
    small, large = await cost_of(work, 10), await cost_of(work, 150)
    assert small.runs
    runs = {line: count for line, count in large.runs.items() if count > small.runs[line] + 20}
    taken = {line: count for line, count in large.bytes.items() if count > small.bytes[line] + 3000}
    assert (runs, taken) == ({}, {})


async def test_the_gangs_of_one_workload_are_made_once_for_all_of_them() -> None:
    parts = [(f"part-{index}", 2) for index in range(40)]
    cluster = opted_in_world((JOB_SET_PATH, job_set("train", *parts, **IN_TURN)))
    async with running(cluster) as found:
        await settled(found)
        keys = found.following.opted_in.gangs
        assert len(keys) == 40
        runs = Cost(lambda: [found.following.gang(key) for key in keys]).runs
        assert max((count for (code, _), count in runs.items() if code.co_name == "_of_parts"), default=0) <= 50
        assert all(key == key_of_gang(gang) for key in keys if (gang := found.following.opted_in.gang(key)) is not None)
        cluster.apply(JOB_SET_PATH, job_set("train", *parts[:3], **IN_TURN))
        await until(lambda: len(found.following.opted_in.gangs) == 3)
        gone = next(key for key in keys if key.name == "train-part-39")
        assert found.following.opted_in.gang(gone) is None


async def test_of_a_large_gang_only_pods_that_changed_are_compared_with_what_they_should_be() -> None:
    cluster = WritableWorld()
    cluster.put(SETS, workload())
    put_gang(cluster, "demo-0-a")
    put_pods(cluster, *(grove_pod(f"p{index}", schedulerName="koord-scheduler") for index in range(120)))
    async with running(cluster) as found:
        await settled(found)
        looked_at = Escapes._looked_at.__code__

        def compared() -> int:
            return Cost(lambda: found.following.health(OWN)).runs[looked_at, looked_at.co_firstlineno]

        health = found.following.health(OWN)
        assert health is not None
        assert len(health.escaped) == 120
        assert compared() == 0
        found.following._pods._watch.index.put(grove_pod("p7", schedulerName="koord-scheduler", priority=7))
        assert compared() == 1


async def test_gangs_of_a_workload_with_very_many_are_queued_in_slices_and_once() -> None:
    async with settled_crowds(crowd=300, small=1) as found:
        queued: list[GangKey] = []
        found.following._say_gang_changed = queued.append
        found.following._clock = BusyClock()
        for _ in range(3):
            found.following._touched(POD_CLIQUE_SETS, ("crowd", "demo"))
        assert queued == []
        assert found.following.looks_at_all
        assert not found.idle
        found.following._touched(POD_CLIQUE_SETS, ("small", "demo"))
        assert queued == [GangKey("small", "many-0")], "few are queued at once"
        await until(lambda: not found.following.looks_at_all)
        assert len(queued) == len(set(queued)) == 301

"""PodGangs that have neither pods nor PodCliques: nothing is written for them until one of these comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.played import PlayedClock, run
from tests.unit.growth.step_counts import Cost
from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.gated_pods import GATED, OURS, Opened, pod
from tests.unit.reconciler.grove import CLIQUES, SCALING_GROUPS, controlled_by, grove_pod, pod_clique, put_pods
from tests.unit.reconciler.opted_in_workloads import JOB_PATH, job, opted_in_world
from tests.unit.reconciler.running_reconciler import (
    GANGS,
    GROUPS,
    SETS,
    looked,
    names,
    podgang,
    reconciler,
    running,
    sample,
    workload,
    world,
)
from tests.waiting import until
from webhook.gangs.health import GangState
from webhook.gangs.hold_reasons import GangReason
from webhook.gangs.key import GangKey
from webhook.gangs.podgangs import STALE_SECONDS
from webhook.model.grove import PodGang
from webhook.model.place import POD_CLIQUES
from webhook.reconciler.manager import Reconciler, reconcile_once

KEY = GangKey("team-a", "demo-0")
EMPTY = {"scheduler": "koord-scheduler", "health": "empty"}
# Played seconds within which only events and the answers to writes come.
AT_ONCE = 0.5


def empty_world(*members: str) -> WritableWorld:
    """A PodGang whose PodCliques nobody has created."""
    cluster = WritableWorld()
    cluster.put(SETS, workload())
    cluster.put(GANGS, podgang(*(members or ("demo-0-a", "demo-0-b"))))
    return cluster


async def skipped(found: Reconciler, times: int = 1) -> None:
    """Wait until so many reconciles found a PodGang empty."""
    await until(lambda: sample(found, "rollcall_left_alone_total", why="empty") >= times and found.idle)


async def looked_at_all(found: Reconciler) -> None:
    """Wait until every gang was reconciled once more."""
    before = sample(found, "rollcall_reconcile_seconds_count")
    found.following.look_at_all()
    await until(lambda: sample(found, "rollcall_reconcile_seconds_count") > before and found.idle)


def clique_of_a_group() -> list[tuple[str, dict[str, Any]]]:
    """A PodClique of a scaling group, and the group: the PodClique first, as two watches may bring them."""
    clique, group = pod_clique("demo-0-a"), pod_clique("demo-0-g")
    group["metadata"]["uid"] = "group"
    clique["metadata"]["ownerReferences"] = controlled_by("PodCliqueScalingGroup", "demo-0-g", "group")
    return [(CLIQUES, clique), (SCALING_GROUPS, group)]


# What makes a PodGang worth its objects, in the order in which it comes.
FILLED: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "a PodClique of its set": [(CLIQUES, pod_clique("demo-0-b"))],
    "a PodClique of a scaling group of its set": clique_of_a_group(),
    "a pod of it without its PodClique": [(PODS, grove_pod("one"))],
    "a pod that only names it": [(PODS, {"metadata": {**grove_pod("one")["metadata"], "ownerReferences": []}})],
}


@pytest.mark.parametrize("objects", FILLED.values(), ids=FILLED)
async def test_an_empty_podgang_gets_its_objects_as_soon_as_there_is(objects: list[tuple[str, dict[str, Any]]]) -> None:
    cluster = empty_world()
    async with running(cluster) as found:
        await skipped(found)
        assert cluster.writes == []
        checks, begun = sample(found, "rollcall_reconcile_seconds_count"), asyncio.get_running_loop().time()
        for collection, raw in objects:
            cluster.put(collection, raw)
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"] and found.idle)
        # The event of the object itself is enough: no later look at all gangs, and no retry.
        assert asyncio.get_running_loop().time() - begun < AT_ONCE
        assert sample(found, "rollcall_reconcile_seconds_count") <= checks + 1 + len(cluster.writes)


@pytest.mark.parametrize("objects", FILLED.values(), ids=FILLED)
async def test_a_podgang_gets_its_objects_at_once_if_there_already_is(
    objects: list[tuple[str, dict[str, Any]]],
) -> None:
    cluster = WritableWorld()
    cluster.put(SETS, workload())
    for collection, raw in objects:
        cluster.put(collection, raw)
    async with running(cluster) as found:
        await until(lambda: found.idle)
        begun = asyncio.get_running_loop().time()
        cluster.put(GANGS, podgang("demo-0-a", "demo-0-b"))
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"] and found.idle)
        assert asyncio.get_running_loop().time() - begun < AT_ONCE
        assert sample(found, "rollcall_left_alone_total", why="empty") == 0


def foreign_clique() -> dict[str, Any]:
    """A PodClique of another set, with the name of a member."""
    found = pod_clique("demo-0-a")
    found["metadata"]["ownerReferences"] = controlled_by("PodCliqueSet", "demo", "set-of-another")
    return found


def clique_without_controller() -> dict[str, Any]:
    found = pod_clique("demo-0-a")
    del found["metadata"]["ownerReferences"]
    return found


def pod_of_another_gang() -> dict[str, Any]:
    return grove_pod("one", gang="demo-1")


STRANGE: dict[str, tuple[str, dict[str, Any]]] = {
    "a PodClique of another set": (CLIQUES, foreign_clique()),
    "a PodClique without a controller": (CLIQUES, clique_without_controller()),
    "a PodClique of the set that is no member": (CLIQUES, pod_clique("demo-1-a")),
    "a PodClique of the same name in another namespace": (CLIQUES, pod_clique("demo-0-a", "team-b")),
    "a pod of another gang": (PODS, pod_of_another_gang()),
}


@pytest.mark.parametrize(("collection", "raw"), STRANGE.values(), ids=STRANGE)
async def test_what_makes_no_pods_of_a_podgang_does_not_fill_it(collection: str, raw: dict[str, Any]) -> None:
    cluster = empty_world()
    async with running(cluster) as found:
        await skipped(found)
        cluster.put(collection, raw)
        await looked_at_all(found)
        assert cluster.writes == []


def podgang_without_controller() -> WritableWorld:
    cluster = WritableWorld()
    gang = podgang("demo-0-a")
    gang["metadata"] |= {"ownerReferences": [], "labels": {"rollcall.dev/scheduler": "koord-scheduler"}}
    cluster.put(GANGS, gang)
    return cluster


@pytest.mark.parametrize(
    ("collection", "raw"), [(CLIQUES, clique_without_controller()), (PODS, grove_pod("one"))], ids=["PodClique", "pod"]
)
async def test_a_podgang_that_nothing_controls_gets_its_objects_with(collection: str, raw: dict[str, Any]) -> None:
    cluster = podgang_without_controller()
    async with running(cluster) as found:
        await skipped(found)
        assert cluster.writes == []
        cluster.put(collection, raw)
        await until(lambda: names(cluster) == ["demo-0-a"])


async def test_a_podclique_of_a_set_makes_no_pods_of_a_podgang_that_nothing_controls() -> None:
    cluster = podgang_without_controller()
    cluster.put(CLIQUES, pod_clique("demo-0-a"))
    async with running(cluster) as found:
        await skipped(found)
        await looked_at_all(found)
        assert cluster.writes == []


async def test_in_the_order_of_grove_a_gang_starts_as_before() -> None:
    """PodCliques, gated pods, the PodGang, and last the names of the pods in it."""
    cluster = WritableWorld()
    opened = Opened(cluster)
    cluster.put(SETS, workload())
    cluster.put(CLIQUES, pod_clique("demo-0-a"))
    async with running(cluster, settings=GATED) as found:
        cluster.put(PODS, pod("one", OURS))
        cluster.put(PODS, pod("two", OURS))
        cluster.put(GANGS, podgang("demo-0-a"))
        await until(lambda: names(cluster) == ["demo-0-a"])
        put_pods(cluster)
        await until(lambda: sorted(opened.order) == ["one", "two"])
        assert sample(found, "rollcall_left_alone_total", why="empty") == 0


async def test_objects_stay_and_are_kept_in_step_when_pods_and_podcliques_are_gone() -> None:
    cluster = world("demo-0-a")
    put_pods(cluster, grove_pod("one"))
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["demo-0-a"] and found.idle)
        cluster.remove(PODS, "team-a", "one")
        cluster.remove(CLIQUES, "team-a", "demo-0-a")
        cluster.apply(GANGS, podgang("demo-0-a", minimum=3))
        await until(lambda: cluster.objects[GROUPS][0]["spec"]["minMember"] == 3)
    async with running(cluster) as found:
        await looked_at_all(found)
        assert names(cluster) == ["demo-0-a"]
        assert sample(found, "rollcall_left_alone_total", why="empty") == 0
        cluster.remove(GANGS, "team-a", "demo-0")
        await until(lambda: names(cluster) == [])


async def test_objects_that_a_new_shape_has_recreated_come_with_what_makes_the_pods() -> None:
    """The old ones are deleted as for any gang. Without them, pods and PodCliques nothing needs the new ones."""
    cluster = world("demo-0-a")
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["demo-0-a"] and found.idle)
        cluster.remove(CLIQUES, "team-a", "demo-0-a")
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b"))
        await skipped(found)
        assert names(cluster) == []
        cluster.put(CLIQUES, pod_clique("demo-0-b"))
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])


async def test_an_object_of_an_empty_podgang_has_it_kept_in_step() -> None:
    """As when a reconciler ended after the first object of a gang."""
    cluster = world("demo-0-a", "demo-0-b")
    await reconcile_once(reconciler(cluster))
    cluster.remove(GROUPS, "team-a", "demo-0-b")
    for name in ("demo-0-a", "demo-0-b"):
        cluster.remove(CLIQUES, "team-a", name)
    async with running(cluster):
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])


def test_once_ends_without_a_write_for_an_empty_podgang() -> None:
    cluster = empty_world()
    run(reconcile_once(reconciler(cluster)))
    assert cluster.writes == []


def test_once_ends_though_an_empty_podgang_names_a_set_that_is_not_there() -> None:
    cluster = WritableWorld()
    cluster.put(GANGS, podgang("demo-0-a"))
    run(reconcile_once(reconciler(cluster)))
    assert cluster.writes == []


async def test_an_empty_podgang_is_counted_as_such_and_says_why() -> None:
    cluster = empty_world()
    async with running(cluster) as found:
        await skipped(found)
        await until(lambda: sample(found, "rollcall_gangs", **EMPTY) == 1)
        health = found.following.health(KEY)
        assert health is not None
        assert (health.state, health.word, health.is_troubled) == (GangState.EMPTY, "empty", False)
        (reason,) = health.obstacles
        assert (reason.reason, health.why) == (GangReason.TOO_FEW_PODS, reason.why)
        assert "no gang objects are written" in reason.why
        assert sample(found, "rollcall_queue_failing") == sample(found, "rollcall_queue_depth") == 0
        assert sample(found, "rollcall_reconciled_total", outcome="waiting") == 0
        assert not any(found.reasons_not_ready())
        assert cluster.events == []
        cluster.put(CLIQUES, pod_clique("demo-0-a"))
        held = {"scheduler": "koord-scheduler", "health": GangReason.TOO_FEW_PODS.value}
        await until(lambda: sample(found, "rollcall_gangs", **held) == 1)
        assert sample(found, "rollcall_gangs", **EMPTY) == 0
        cluster.remove(GANGS, "team-a", "demo-0")
        await until(lambda: sample(found, "rollcall_gangs", **held) == 0)


async def test_a_podgang_that_is_gone_is_not_remembered() -> None:
    cluster = empty_world()
    async with running(cluster) as found:
        await skipped(found)
        assert found.following.podgangs.was_empty(KEY)
        cluster.remove(GANGS, "team-a", "demo-0")
        await until(lambda: found.following.gang(KEY) is None and found.idle)
        await looked(found.health, 2)
        assert not found.following.podgangs.was_empty(KEY)


async def test_a_gang_of_an_opted_in_workload_is_written_without_pods() -> None:
    cluster = opted_in_world((JOB_PATH, job()))
    async with running(cluster):
        await until(lambda: names(cluster) == ["train"])


async def test_after_a_long_interruption_pods_may_be_there_that_are_not_known() -> None:
    cluster, clock = empty_world("demo-0-a"), PlayedClock()
    async with running(cluster, clock=clock) as found:
        await skipped(found)
        (watch,) = (watch for kind, watch in found.following._pods.watches() if kind == "PodClique")
        watch.trouble = "HTTP 403"
        await looked_at_all(found)
        assert cluster.writes == []
        watch.heard = clock.monotonic() - 2 * STALE_SECONDS
        found.following.look_at_all()
        await until(lambda: names(cluster) == ["demo-0-a"])


async def test_an_empty_podgang_is_not_urgent_until_something_of_it_comes() -> None:
    cluster = empty_world("demo-0-a")
    async with running(cluster) as found:
        await skipped(found)
        assert not found._is_new(KEY)
        cluster.answering = lambda _: httpx.Response(503)
        cluster.put(CLIQUES, pod_clique("demo-0-a"))
        await until(lambda: found._is_new(KEY))


def crowd(number: int, *members: str) -> WritableWorld:
    """So many empty PodGangs of one set, each with a member of its own and with `members`."""
    cluster = WritableWorld()
    cluster.put(SETS, workload())
    for index in range(number):
        gang = podgang(f"many-{index}-a", *members)
        gang["metadata"] |= {"name": f"many-{index}", "uid": f"many-{index}"}
        cluster.put(GANGS, gang)
    return cluster


async def test_of_a_crowd_of_empty_podgangs_only_the_one_of_a_podclique_is_checked_again() -> None:
    cluster = crowd(300)
    async with running(cluster) as found:
        await skipped(found, 300)
        await until(lambda: sample(found, "rollcall_gangs", **EMPTY) == 300)
        assert (cluster.writes, cluster.events) == ([], [])
        checks = sample(found, "rollcall_reconcile_seconds_count")
        cluster.put(CLIQUES, pod_clique("many-7-a"))
        await until(lambda: names(cluster) == ["many-7-a"] and found.idle)
        # Once for the PodClique, and once for the event of its object.
        assert sample(found, "rollcall_reconcile_seconds_count") <= checks + 2


async def test_a_podclique_that_makes_no_pods_of_a_crowd_has_none_of_it_checked() -> None:
    cluster = crowd(50, "shared")
    async with running(cluster) as found:
        await skipped(found, 50)
        checks = sample(found, "rollcall_reconcile_seconds_count")
        foreign = pod_clique("shared")
        foreign["metadata"]["ownerReferences"] = controlled_by("PodCliqueSet", "demo", "set-of-another")
        cluster.put(CLIQUES, foreign)
        controllers, key = found.following._pods.controllers, ("team-a", "shared")
        await until(lambda: controllers.is_below(POD_CLIQUES, key, "set-of-another") and found.idle)
        assert sample(found, "rollcall_reconcile_seconds_count") == checks


async def test_facts_that_change_have_no_empty_podgang_judged_again() -> None:
    cluster = crowd(20)
    async with running(cluster) as found:
        await until(lambda: sample(found, "rollcall_gangs", **EMPTY) == 20)
        found.health.mark_held()
        await looked(found.health, 1)
        assert len(found.health._again) == 0


KNOWN = GangKey("team-a", "many-0")
# What is done for one of many empty PodGangs.
ONE_OF_MANY: dict[str, Callable[[Reconciler], object]] = {
    "it is found empty": lambda found: found.following.is_empty(PodGang(podgang("many-0-a"))),
    "a pod comes": lambda found: found.following._pods_noticed(KNOWN),
    "a PodClique changes": lambda found: found.following._controller_noticed(
        (POD_CLIQUES.api.group, POD_CLIQUES.api.kind, "team-a", "many-0-a")
    ),
}


@pytest.mark.parametrize("work", ONE_OF_MANY.values(), ids=ONE_OF_MANY)
async def test_work_for_an_empty_podgang_does_not_grow_with_their_number(work: Callable[[Reconciler], object]) -> None:
    costs = []
    for number in (10, 150):
        async with running(crowd(number)) as found:
            await skipped(found, number)
            costs.append(Cost(lambda: work(found)))
    small, large = costs
    assert small.runs
    assert {line: count for line, count in large.runs.items() if count > small.runs[line] + 20} == {}

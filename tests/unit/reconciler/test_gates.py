"""The pod gate: removed last, and from all pods of a complete gang."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.played import PlayedClock
from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.cluster import SERVED, WritableWorld
from tests.unit.reconciler.gated_pods import GATED, GROVES, OURS, Opened, pod
from tests.unit.reconciler.grove import CLIQUES, name_pods, pod_clique, put_pods, put_with_cliques
from tests.unit.reconciler.running_reconciler import (
    GANGS,
    GROUPS,
    SETS,
    names,
    podgang,
    reconciler,
    running,
    sample,
    workload,
    world,
)
from tests.unit.worlds import settings_of
from tests.waiting import until
from webhook.backends.volcano.keys import POD_GROUP
from webhook.model.gang_objects import is_raised
from webhook.model.projections import Resource
from webhook.reconciler.manager import reconcile_once
from webhook.reconciler.writer import SIGN_SECONDS, SILENT_SECONDS, unseen_seconds


async def test_the_gate_is_removed_from_all_pods_once_the_objects_exist_and_no_other_gate_is_left() -> None:
    cluster = world("demo-0-a")
    for name in ("p", "q"):
        put_pods(cluster, pod(name, GROVES, OURS))
    opened = Opened(cluster)
    async with running(cluster, settings=GATED) as found:
        await until(lambda: names(cluster) == ["demo-0-a"])
        await until(lambda: found.idle)
        assert opened.order == [], "Grove holds them"
        opened.free("p", GROVES)
        await until(lambda: sample(found, "rollcall_reconciled_total", outcome="inStep") > 0)
        await until(lambda: found.idle)
        assert opened.order == [], "one free pod is half a gang"
        opened.free("q", GROVES)
        await until(lambda: sorted(opened.order) == ["p", "q"])
    assert opened.asked[0] == (
        '[{"op":"test","path":"/spec/schedulingGates/0/name","value":"rollcall.dev/gang-sync"},'
        '{"op":"remove","path":"/spec/schedulingGates/0"}]'
    )


async def test_the_gate_stays_while_a_member_lacks_pods_or_the_objects_cannot_be_written() -> None:
    cluster = world()
    put_pods(cluster, pod("p", OURS), pod("q", OURS))
    opened = Opened(cluster)
    async with running(cluster, settings=GATED) as found:
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])
        await until(lambda: found.idle)
        assert opened.order == [], "demo-0-b has no pods yet"
        foreign = {"metadata": {"name": "demo-0-c", "namespace": "team-a"}, "spec": {"minMember": 9}}
        cluster.put(GROUPS, foreign)
        cluster.put(CLIQUES, pod_clique("demo-0-c"))
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", "demo-0-c", minimum=1))
        put_pods(cluster, pod("r", OURS, clique="demo-0-b"), pod("s", OURS, clique="demo-0-c"))
        await until(lambda: sample(found, "rollcall_reconciled_total", outcome="conflict") > 0)
        assert opened.order == [], "a foreign object"
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", minimum=1))
        name_pods(cluster)
        await until(lambda: sorted(opened.order) == ["p", "q", "r"])


async def test_a_later_gated_pod_is_released_and_a_deleted_one_is_no_error() -> None:
    cluster = world("demo-0-a")
    put_pods(cluster, pod("p"), pod("q"))
    async with running(cluster, settings=GATED) as found:
        await until(lambda: names(cluster) == ["demo-0-a"])
        cluster.answering = lambda request: (
            httpx.Response(404, json=failure(404, "gone")) if "/pods/" in request.url.path else None
        )
        put_pods(cluster, pod("late", OURS))
        await until(lambda: ("PATCH", "/api/v1/namespaces/team-a/pods/late") in cluster.writes)
        await until(lambda: found.idle)
        # A gang that is created before its objects are read is retried, which is not an error.
        unread = sample(found, "rollcall_retries_total", why="unknown")
        assert sample(found, "rollcall_reconciled_total", outcome="failed") == unread


def scaled(cluster: WritableWorld, minimum: int, *pods: str) -> None:
    """The gang needs more pods, and they come with our gate."""
    cluster.apply(GANGS, podgang("demo-0-a", minimum=minimum))
    put_pods(cluster, *(pod(name, OURS) for name in pods))


async def lifted_after(opened: Opened, count: int) -> float:
    """The seconds of played time until so many gates were removed."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await until(lambda: len(opened.order) == count)
    return loop.time() - begun


async def test_after_a_raised_minimum_the_gates_wait_until_a_silent_scheduler_has_had_time_to_see_it() -> None:
    cluster = world("demo-0-a")
    put_pods(cluster, pod("p"), pod("q"))
    opened = Opened(cluster)
    async with running(cluster, settings=GATED) as found:
        await until(lambda: names(cluster) == ["demo-0-a"] and found.idle)
        scaled(cluster, 4, "r", "s")
        await until(lambda: cluster.objects[GROUPS][0]["spec"]["minMember"] == 4)
        assert 4 < await lifted_after(opened, 2) < 7
        raised = cluster.objects[GROUPS][0]["metadata"]["annotations"]["rollcall.dev/raised"]
        cluster.apply(GANGS, podgang("demo-0-a", minimum=2))
        put_pods(cluster, pod("t", OURS))
        assert await lifted_after(opened, 3) < 1, "a lower minimum waits for nobody"
        assert cluster.objects[GROUPS][0]["metadata"]["annotations"]["rollcall.dev/raised"] == raised


async def test_a_reconciler_that_starts_after_the_raise_waits_for_the_rest_of_the_pause() -> None:
    cluster = world("demo-0-a")
    put_pods(cluster, pod("p"), pod("q"))
    async with running(cluster, settings=GATED) as found:
        await until(lambda: names(cluster) == ["demo-0-a"] and found.idle)
        cluster.apply(GANGS, podgang("demo-0-a", minimum=4))
        await until(lambda: cluster.objects[GROUPS][0]["spec"]["minMember"] == 4)
    put_pods(cluster, pod("r", OURS), pod("s", OURS))
    opened = Opened(cluster)
    raised = datetime.fromisoformat(cluster.objects[GROUPS][0]["metadata"]["annotations"]["rollcall.dev/raised"])
    clock = PlayedClock(raised + timedelta(seconds=2))
    async with running(cluster, settings=GATED, clock=clock):
        assert SILENT_SECONDS - 3 <= await lifted_after(opened, 2) < SILENT_SECONDS


async def test_one_pass_waits_for_the_pause_and_ends_without_an_error() -> None:
    cluster = world("demo-0-a")
    put_pods(cluster, pod("p"), pod("q"))
    await reconcile_once(reconciler(cluster, settings=GATED))
    scaled(cluster, 4, "r", "s")
    opened = Opened(cluster)
    await reconcile_once(reconciler(cluster, settings=GATED))
    assert sorted(opened.order) == ["r", "s"]


VOLCANOS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"


class Numbered(WritableWorld):
    """Each change of an object gives it a resource version, which the watch of its kind continues from."""

    def tell(self, collection: str, event: str, raw: dict[str, Any]) -> None:
        raw["metadata"]["resourceVersion"] = str(len(self._told.get(collection, [])) + 1)
        super().tell(collection, event, raw)


def of_volcano() -> WritableWorld:
    """A gang of two pods on nodes, and the PodGroup of a scheduler that shows what it has seen."""
    cluster = Numbered(*SERVED, Resource(POD_GROUP, "podgroups"))
    cluster.put(SETS, workload(scheduler="volcano"))
    put_with_cliques(cluster, podgang("demo-0-a"))
    put_pods(cluster, pod("p"), pod("q"))
    return cluster


@pytest.mark.parametrize(("shows", "least", "most"), [(True, 2, 5), (False, SIGN_SECONDS - 1, SIGN_SECONDS + 2)])
async def test_volcano_shows_by_its_status_that_it_has_seen_the_raise(shows: bool, least: float, most: float) -> None:
    cluster = of_volcano()
    opened = Opened(cluster)
    async with running(cluster, settings=settings_of("volcano", standalone=False, gate=True)) as found:
        await until(lambda: bool(cluster.objects.get(VOLCANOS)) and found.idle)
        cluster.apply(VOLCANOS, {**cluster.objects[VOLCANOS][0], "status": {"phase": "Running"}})
        scaled(cluster, 4, "r", "s")
        await until(lambda: cluster.objects[VOLCANOS][0]["spec"]["minMember"] == 4)
        raised = asyncio.get_running_loop().time()
        # Another change, of no scheduler.
        cluster.apply(VOLCANOS, {"metadata": {**cluster.objects[VOLCANOS][0]["metadata"], "labels": {"a": "b"}}})
        await until(lambda: asyncio.get_running_loop().time() >= raised + 2)
        assert opened.order == [], "nothing shows that the scheduler has seen it"
        if shows:
            cluster.apply(VOLCANOS, {**cluster.objects[VOLCANOS][0], "status": {"phase": "Inqueue"}})
        await lifted_after(opened, 2)
        assert least <= asyncio.get_running_loop().time() - raised < most


NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "shows", "shown", "seconds"),
    [
        (None, False, False, 0.0),
        ("2026-11-30T11:59:58+00:00", False, False, SILENT_SECONDS - 2),
        ("2026-11-30T11:59:58+00:00", True, False, SIGN_SECONDS - 2),
        ("2026-11-30T11:59:58+00:00", True, True, 0.0),
        ("2026-11-30T11:59:00+00:00", True, False, 0.0),
        # The clock of the process that raised it is ahead.
        ("2026-11-30T12:00:00.500000+00:00", False, False, SILENT_SECONDS),
        ("2026-11-30T12:00:29+00:00", True, False, SIGN_SECONDS),
        ("2026-11-30T12:00:29+00:00", True, True, 0.0),
        ("2026-11-30T12:00:05+00:00", False, False, 0.0),
        # Nobody waits for ever because of what a user wrote.
        ("2030-01-01T00:00:00+00:00", True, False, 0.0),
        ("2026-11-30T11:59:58", False, False, 0.0),
        ("soon", False, False, 0.0),
        (7, False, False, 0.0),
    ],
)
def test_how_long_a_raise_may_be_unseen(at: object, shows: bool, shown: bool, seconds: float) -> None:
    live = {"metadata": {"annotations": {} if at is None else {"rollcall.dev/raised": at}}}
    assert unseen_seconds(live, NOW, shows=shows, shown=shown) == seconds


@pytest.mark.parametrize(
    ("live", "desired", "raised"),
    [
        ({"minMember": 2}, {"minMember": 3}, True),
        ({"minMember": 3}, {"minMember": 2}, False),
        ({"minMember": 2, "queue": "a"}, {"minMember": 2, "queue": "b"}, False),
        ({}, {"minMember": 1}, True),
        ({"gang": {"minCount": 2}}, {"gang": {"minCount": 3}}, True),
        ({"groups": [{"name": "a", "min": 5}]}, {"groups": [{"name": "a", "min": 5}, {"name": "b", "min": 1}]}, True),
        # By name, not by place.
        (
            {"groups": [{"name": "a", "min": 5}, {"name": "b", "min": 1}]},
            {"groups": [{"name": "b", "min": 2}, {"name": "a", "min": 1}]},
            True,
        ),
        (
            {"groups": [{"name": "a", "min": 5}, {"name": "b", "min": 1}]},
            {"groups": [{"name": "b", "min": 1}, {"name": "a", "min": 5}]},
            False,
        ),
        ({"on": False}, {"on": True}, False),
        # A name that is no text is no name.
        ({"groups": [{"name": ["a"], "min": 1}]}, {"groups": [{"name": "a", "min": 1}]}, True),
    ],
)
def test_what_raises_a_minimum(live: dict[str, Any], desired: dict[str, Any], raised: bool) -> None:
    assert is_raised(desired, live) is raised

"""A part of the facts that several kinds fill: gang objects. Each kind adds and removes only its own objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.played import PlayedClock
from tests.unit.cluster.scripted import client, running
from tests.unit.cluster.world import World
from tests.waiting import until
from webhook.backends.kai.keys import POD_GROUP as KAI
from webhook.backends.volcano.keys import POD_GROUP as VOLCANO
from webhook.cluster.cluster_facts import LiveFacts
from webhook.model.gang_objects import GangObjects, living_gangs
from webhook.model.keys import Api
from webhook.model.projections import Projection, Resource

KINDS = Resource(KAI, "podgroups"), Resource(VOLCANO, "podgroups")
KAI_GROUPS, VOLCANO_GROUPS = (f"/apis/{kind.api.group}/{kind.api.version}/podgroups" for kind in KINDS)


def group(gang: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "rollcall", "grove.io/podgang": gang}
    annotations = {"rollcall.dev/members": f"{gang}-worker"}
    return {"metadata": {"name": gang, "namespace": "team-a", "labels": labels, "annotations": annotations}}


def gangs(live: LiveFacts) -> list[str] | None:
    known = live.facts.gang_objects
    return None if known is None else sorted(found.gang for found in known.values())


def of(live: LiveFacts, podclique: str) -> list[str]:
    known: GangObjects | None = live.facts.gang_objects
    assert known is not None
    return [found.gang for found in known.gangs_of_member("team-a", podclique)]


@asynccontextmanager
async def followed(world: World, touched: Callable[[Projection, Any], None] | None = None) -> AsyncIterator[LiveFacts]:
    live = LiveFacts(client(world), map(living_gangs, KINDS), lambda _: None, touched=touched, clock=PlayedClock())
    async with running(live.run()):
        yield live


def world() -> World:
    found = World(*KINDS)
    found.put(KAI_GROUPS, group("kai-0"))
    found.put(VOLCANO_GROUPS, group("volcano-0"))
    return found


async def test_each_kind_adds_its_objects() -> None:
    cluster = world()
    async with followed(cluster) as live:
        await until(lambda: gangs(live) == ["kai-0", "volcano-0"])
        assert of(live, "kai-0-worker") == ["kai-0"]
        cluster.put(KAI_GROUPS, group("kai-1"))
        await until(lambda: gangs(live) == ["kai-0", "kai-1", "volcano-0"])
        cluster.tell(VOLCANO_GROUPS, "DELETED", group("volcano-0"))
        await until(lambda: gangs(live) == ["kai-0", "kai-1"])
        assert of(live, "volcano-0-worker") == []


async def test_objects_of_two_kinds_with_one_name_are_both_known() -> None:
    cluster = world()
    cluster.put(VOLCANO_GROUPS, group("kai-0"))
    async with followed(cluster) as live:
        await until(lambda: gangs(live) == ["kai-0", "kai-0", "volcano-0"])
        cluster.tell(VOLCANO_GROUPS, "DELETED", group("kai-0"))
        await until(lambda: gangs(live) == ["kai-0", "volcano-0"])
        assert of(live, "kai-0-worker") == ["kai-0"]


async def test_a_kind_that_is_no_longer_served_takes_only_its_objects_along() -> None:
    cluster = world()
    async with followed(cluster) as live:
        await until(lambda: gangs(live) == ["kai-0", "volcano-0"])
        cluster.served = [KINDS[0]]
        await until(lambda: gangs(live) == ["kai-0"])
        assert of(live, "volcano-0-worker") == []
        assert live.facts.unread_gang_kinds == frozenset(), "what is not served has no objects"
        cluster.served = list(KINDS)
        await until(lambda: gangs(live) == ["kai-0", "volcano-0"])


async def test_a_watch_that_fails_takes_only_its_objects_along_until_it_is_restarted() -> None:
    cluster = world()
    faults, dropped = [ValueError("unexpected")], list[list[str] | None]()
    unread: list[frozenset[Api] | None] = []

    def touched(projection: Projection, key: Any) -> None:
        if key[2] == "volcano-1" and faults:
            raise faults.pop()
        if key[2] == "volcano-0" and not faults:
            dropped.append(gangs(live))
            unread.append(live.facts.unread_gang_kinds)

    async with followed(cluster, touched) as live:
        await until(lambda: gangs(live) == ["kai-0", "volcano-0"])
        cluster.put(VOLCANO_GROUPS, group("volcano-1"))
        await until(lambda: not faults and gangs(live) == ["kai-0", "volcano-0", "volcano-1"])
        assert len(dropped) == 2, "volcano-0 was dropped with the watch, and read again"
        assert all("kai-0" in (found or []) for found in dropped)
        assert unread[-1] == frozenset({VOLCANO}), "until its objects are read again"
        assert live.facts.unread_gang_kinds == frozenset()


async def test_the_server_waits_for_every_kind_that_is_served() -> None:
    cluster = world()
    async with followed(cluster) as live:
        await until(lambda: live.facts.apis is not None and gangs(live) is not None)
        await until(lambda: not [message for message in live.unready() if "PodGroup" in message])
        assert gangs(live) == ["kai-0", "volcano-0"]

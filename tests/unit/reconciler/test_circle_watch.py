"""Circles of CompositePodGroups in a simulated cluster: an event for each group, and a gauge."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.played import PlayedClock
from tests.series import value
from tests.texts import Text
from tests.unit.reconciler.cluster import SERVED, WritableWorld
from tests.unit.reconciler.running_reconciler import looked, running, sample
from tests.unit.worlds import settings_of
from tests.waiting import until
from webhook.backends.kube.groups import PROJECTIONS, TREES
from webhook.model.bounds import Packed
from webhook.model.keys import ObjectKey
from webhook.reconciler import circle_watch, events
from webhook.reconciler.circle_watch import note
from webhook.reconciler.events import REPEAT_SECONDS
from webhook.reconciler.manager import Reconciler

# 1.37 serves no CompositePodGroups in v1beta1.
BETA, ALPHA = (trees.resource for trees in TREES)
COMPOSITES = "/apis/scheduling.k8s.io/v1alpha3/compositepodgroups"
GANGS = settings_of("default-scheduler", {"gangScheduling": True}, standalone=False)
# Our own gangs are to have no trees: those of others are looked at all the same.
FLAT = settings_of("default-scheduler", {"gangScheduling": True, "hierarchical": "off"}, standalone=False)
WITHOUT = settings_of("default-scheduler", standalone=False)


def group(name: str, parent: str | None = None, *, uid: str = "", namespace: str = "team-a") -> dict[str, Any]:
    above = {} if parent is None else {"parentCompositePodGroupName": parent}
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}"}
    return {"metadata": metadata, "spec": {**above, "schedulingPolicy": {"basic": {}}}}


def world(*groups: dict[str, Any]) -> WritableWorld:
    cluster = WritableWorld(*SERVED, *(one.resource for one in PROJECTIONS if one.resource != BETA))
    for one in groups:
        cluster.put(COMPOSITES, one)
    return cluster


def counted(found: Reconciler) -> float | None:
    return value(found.metrics.registry, "rollcall_group_circles")


def told_twice(cluster: WritableWorld, times: int) -> bool:
    return cluster.told_twice == times


def regarded(cluster: WritableWorld) -> list[str]:
    assert {event["reason"] for event in cluster.events} <= {"GroupCircle"}
    return [event["regarding"]["uid"] for event in cluster.events]


async def looks(found: Reconciler, times: int = 3) -> None:
    """Wait until it has searched this many more times."""
    await looked(found.circles, times)


async def known(found: Reconciler, cluster: WritableWorld) -> None:
    """Wait until it has read all present groups and searched them."""

    def uids() -> set[str]:
        store = found.following.stores.by_kind.get(ALPHA.api)
        return set() if store is None else {live["metadata"]["uid"] for live in store.objects.values()}

    await until(lambda: uids() == {raw["metadata"]["uid"] for raw in cluster.objects[COMPOSITES]})
    await looks(found)


@pytest.mark.parametrize("settings", [GANGS, FLAT], ids=["with trees of our own", "without"])
async def test_both_groups_of_a_circle_get_one_event_and_it_counts_until_one_is_recreated(settings: Any) -> None:
    cluster = world(group("root"), group("inner", "root"), group("a", "b"))
    async with running(cluster, settings=settings) as found:
        assert counted(found) == 0
        await known(found, cluster)
        assert (counted(found), cluster.events) == (0, [])
        cluster.put(COMPOSITES, group("b", "a"))
        await until(lambda: regarded(cluster) == ["uid-a", "uid-b"])
        assert counted(found) == 1
        assert sample(found, "rollcall_events_total", reason="GroupCircle") == 2
        for event in cluster.events:
            assert (event["type"], event["regarding"]["kind"]) == ("Warning", "CompositePodGroup")
            assert event["metadata"]["namespace"] == event["regarding"]["namespace"] == "team-a"
            assert event["note"] == Text("CompositePodGroups a and b are ", "the root")
        # Groups below a circle are not part of it.
        cluster.put(COMPOSITES, group("c", "b"))
        await known(found, cluster)
        assert (counted(found), len(cluster.events)) == (1, 2)
        cluster.remove(COMPOSITES, "team-a", "a")
        await until(lambda: counted(found) == 0)
        cluster.put(COMPOSITES, group("a", uid="another"))
        await known(found, cluster)
        assert (counted(found), len(cluster.events)) == (0, 2)
        assert cluster.writes == []


async def test_a_circle_that_is_closed_again_gets_another_event() -> None:
    cluster = world(group("a", "b"), group("b", "a"))
    async with running(cluster, settings=GANGS) as found:
        await until(lambda: regarded(cluster) == ["uid-a", "uid-b"])
        cluster.remove(COMPOSITES, "team-a", "a")
        await until(lambda: counted(found) == 0)
        cluster.put(COMPOSITES, group("a", "b", uid="another"))
        await until(lambda: regarded(cluster) == ["uid-a", "uid-b", "another", "uid-b"])


async def test_a_restarted_process_finds_the_circle_and_does_not_report_it_again() -> None:
    cluster = world(group("a", "a"))
    for start in range(3):
        async with running(cluster, settings=GANGS) as found:
            await until(lambda: counted(found) == len(cluster.events) == 1)
            await until(partial(told_twice, cluster, start))
            assert regarded(cluster) == ["uid-a"]


async def test_the_event_is_repeated_before_the_api_server_expires_it() -> None:
    clock, cluster = PlayedClock(), world(group("a", "a"))
    async with running(cluster, settings=GANGS, clock=clock):
        for times in (1, 2, 3):
            await until(lambda times=times: regarded(cluster) == ["uid-a"] * times)  # type: ignore[misc]
            clock.move(REPEAT_SECONDS)


async def test_a_long_circle_sends_events_to_some_groups_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circle_watch, "EVENTS_A_LOOK", 2)

    names = [f"g{number}" for number in range(5)]
    below = dict(zip(names, [*names[1:], names[0]], strict=True))
    cluster = world(*(group(name, parent) for name, parent in below.items()))
    async with running(cluster, settings=GANGS) as found:
        look, seen = found.circles.look, []

        async def watched() -> None:
            before = len(cluster.events)
            await look()
            seen.append(len(cluster.events) - before)

        found.circles.look = watched  # type: ignore[method-assign]
        await until(lambda: sorted(regarded(cluster)) == [f"uid-{name}" for name in names])
        assert max(seen) == 2
        assert counted(found) == 1


async def test_a_process_without_the_lease_neither_reports_nor_counts_circles() -> None:
    cluster = world(group("a", "b"), group("b", "a"))
    async with running(cluster, settings=GANGS) as found:
        leading = False
        found.circles._leads = lambda: leading
        await known(found, cluster)
        assert (counted(found), cluster.events) == (0, [])
        leading = True
        await until(lambda: counted(found) == 1)
        await until(lambda: len(cluster.events) == 2)
        leading = False
        await until(lambda: counted(found) == 0)


async def test_with_one_namespace_only_its_circles_are_searched() -> None:
    cluster = world(group("a", "a", namespace="team-b"), group("a", "b"), group("b", "a", namespace="team-b"))
    async with running(cluster, settings=GANGS, namespace="team-a") as found:
        await until(lambda: found.following.stores.by_kind)
        await looks(found)
        # And groups of two namespaces are never above each other.
        assert (counted(found), cluster.events) == (0, [])
        cluster.put(COMPOSITES, group("b", "a", uid="own"))
        await until(lambda: sorted(regarded(cluster)) == ["own", "uid-a"])


async def test_a_removed_kind_does_not_count_and_without_gangs_there_is_no_watch() -> None:
    cluster = world(group("a", "a"))
    async with running(cluster, settings=GANGS) as found:
        await until(lambda: counted(found) == len(cluster.events) == 1)
        cluster.served.remove(ALPHA)
        await until(lambda: counted(found) == 0)
    async with running(cluster, settings=WITHOUT) as found:
        await until(lambda: found.idle)
        await looks(found)
        assert counted(found) == 0
    assert len(cluster.events) == 1


async def test_a_group_whose_spec_cannot_be_read_is_in_no_circle() -> None:
    odd = {**group("b"), "spec": {"parentCompositePodGroupName": 7}}
    cluster = world(group("a", "b"), odd, {**group("c"), "spec": ["a"]}, group("d", "d"))
    async with running(cluster, settings=GANGS) as found:
        await until(lambda: counted(found) == len(cluster.events) == 1)
        assert regarded(cluster) == ["uid-d"]


def circle(*names: str) -> circle_watch.Circle:
    keys: list[ObjectKey] = [("team-a", name) for name in names]
    return tuple((ALPHA.api, key) for key in keys)


WORDS = {
    "a": Text("CompositePodGroup a is its own parent", "delete it", "without a parent"),
    "abc": Text("CompositePodGroups a, b and c are ", "the root", "without a parent"),
    "abcde": Text("CompositePodGroups a, b, c and 2 more are ", "the root", "without a parent"),
}


@pytest.mark.parametrize("names", WORDS)
def test_the_event_names_the_groups_and_a_remedy(names: str) -> None:
    assert note(circle(*names)) == WORDS[names]


def test_the_longest_names_leave_space_for_the_remedy() -> None:
    longest = note(circle(*(letter * 253 for letter in "abcdefgh")))
    assert len(longest.encode()) <= events.MAX_NOTE_BYTES


async def test_a_change_costs_only_its_ancestors_however_many_groups_exist(unpacked: list[Packed]) -> None:
    cluster = world(*(group(f"root-{number}") for number in range(2000)), group("a", "root-0"))
    async with running(cluster, settings=GANGS) as found:
        await known(found, cluster)
        asked: list[Any] = []
        above = found.circles._parent

        def noted(node: circle_watch.Node) -> Any:
            asked.append(node)
            return above(node)

        found.circles._parent = noted  # type: ignore[method-assign]
        unpacked.clear()
        cluster.put(COMPOSITES, group("b", "a"))
        await until(lambda: asked)
        await looks(found)
        assert [name for _, (_, name) in asked] == ["b", "a", "root-0"]
        assert len(unpacked) < 5


async def test_a_known_circle_is_not_read_again_at_each_look(unpacked: list[Packed]) -> None:
    names = [f"g{number}" for number in range(100)]
    below = dict(zip(names, [*names[1:], names[0]], strict=True))
    cluster = world(*(group(name, parent) for name, parent in below.items()))
    async with running(cluster, settings=GANGS) as found:
        await known(found, cluster)
        await until(lambda: len(cluster.events) == 100)
        unpacked.clear()
        await looks(found)
        assert counted(found) == 1
        assert unpacked == []


async def test_circles_of_one_namespace_do_not_delay_the_event_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circle_watch, "EVENTS_A_LOOK", 2)
    crowd = (group(f"g{number}", f"g{number}", namespace="crowd") for number in range(50))
    cluster = world(*crowd, group("z", "z", namespace="zoo"))
    async with running(cluster, settings=GANGS):
        await until(lambda: "uid-z" in regarded(cluster))
        assert len(cluster.events) <= 4

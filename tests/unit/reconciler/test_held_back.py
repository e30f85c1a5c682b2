"""Namespaces that use all of their share: which are counted and told, and what is left to the others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.played import PlayedClock
from tests.texts import Text
from tests.unit.gangs.judged_gangs import judged as gang_with
from tests.unit.gangs.judged_gangs import pod
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.running_reconciler import reconciler, running, sample
from tests.unit.reconciler.test_crowds import put_crowd, settled, slow_writes
from tests.unit.reconciler.test_held_gangs import PACE, gangs
from tests.waiting import until
from webhook.gangs.escapes import Escape, Escaped
from webhook.gangs.hold_reasons import GangReason
from webhook.gangs.key import GangKey
from webhook.gangs.members import GangPod, LossCause, PodEnd
from webhook.reconciler import health_watch, loss_watch
from webhook.reconciler.events import LASTING_SECONDS, SHARE_LOOK_SECONDS, HeldBack
from webhook.reconciler.held_gangs import OWN_EVENTS, HeldGangs, OwnEvents
from webhook.reconciler.manager import Reconciler
from webhook.reconciler.metrics import ReconcilerMetrics, SharedBound
from webhook.reconciler.remedies import DELETIONS_A_LOOK, PAUSE_SECONDS, SETTLE_SECONDS, EscapeDeletion


class Written:
    """Remembers what is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    async def say(self, regarded: Any, reason: Any, note: str) -> None:
        assert reason.value == "NamespaceHeldBack"
        self.told.append((regarded.name, note))


class Watched:
    """A process whose namespaces want more than their share."""

    def __init__(self) -> None:
        self.clock = PlayedClock()
        self.metrics = ReconcilerMetrics()
        self.leading = True
        self.held_back = HeldBack(self.metrics, lambda: self.leading, clock=self.clock)
        self.written = Written()

    async def look(self, seconds: float, *noted: tuple[SharedBound, str]) -> None:
        for _ in range(int(seconds / SHARE_LOOK_SECONDS)):
            for bound, namespace in noted:
                self.held_back.note(bound, namespace)
            self.clock.move(SHARE_LOOK_SECONDS)
            await self.held_back.look(self.written)  # type: ignore[arg-type]

    def number(self, bound: SharedBound) -> float:
        return self.metrics.registry.get_sample_value("rollcall_namespaces_held_back", {"bound": bound.value}) or 0.0


async def test_namespaces_are_counted_while_they_want_more_than_their_share() -> None:
    watched = Watched()
    await watched.look(
        SHARE_LOOK_SECONDS, (SharedBound.WORKERS, "a"), (SharedBound.WORKERS, "b"), (SharedBound.LOSSES, "a")
    )
    assert [watched.number(bound) for bound in (SharedBound.WORKERS, SharedBound.LOSSES, SharedBound.HEALTH)] == [
        2,
        1,
        0,
    ]
    await watched.look(20)
    assert [watched.number(bound) for bound in SharedBound] == [0] * len(SharedBound)
    assert (watched.written.told, watched.held_back._noted) == ([], {})


async def test_a_namespace_is_told_once_that_has_lasted_and_what_to_do() -> None:
    watched = Watched()
    both = (SharedBound.WORKERS, "a"), (SharedBound.LOSSES, "a")
    await watched.look(LASTING_SECONDS - SHARE_LOOK_SECONDS, *both)
    assert watched.written.told == []
    await watched.look(600, *both)
    ((namespace, note),) = watched.written.told
    assert namespace == "a"
    assert note == Text("objects are written late; ", "lost pods are not remembered. ", "rollcall gangs -n a ")
    await watched.look(1800, *both)
    assert len(watched.written.told) == 2, "again after half an hour"


async def test_a_namespace_that_wants_more_now_and_then_is_not_told() -> None:
    watched = Watched()
    for _ in range(20):
        await watched.look(LASTING_SECONDS / 2, (SharedBound.WORKERS, "a"))
        await watched.look(20)
    assert watched.written.told == []


async def test_that_gangs_share_an_event_is_counted_and_said_by_that_event_alone() -> None:
    watched = Watched()
    await watched.look(600, (SharedBound.EVENTS, "a"))
    assert watched.number(SharedBound.EVENTS) == 1
    assert watched.written.told == []


async def test_thousands_of_namespaces_are_told_some_at_a_time() -> None:
    watched = Watched()
    every = [(SharedBound.HEALTH, f"n{number}") for number in range(50)]
    await watched.look(LASTING_SECONDS, *every)
    assert len(watched.written.told) == 10
    await watched.look(600, *every)
    assert len(watched.written.told) == len(dict(watched.written.told)) == 50


async def test_only_the_leader_tells() -> None:
    watched = Watched()
    watched.leading = False
    await watched.look(600, (SharedBound.HEALTH, "a"))
    assert (watched.number(SharedBound.HEALTH), watched.written.told) == (1, [])


async def test_a_crowd_whose_objects_are_written_late_is_counted_and_told() -> None:
    cluster = WritableWorld()
    slow_writes(cluster)
    put_crowd(cluster, 100)
    async with running(cluster) as found:
        await until(lambda: sample(found, "rollcall_namespaces_held_back", bound="workers") == 1)
        await settled(found)
        await until(lambda: sample(found, "rollcall_namespaces_held_back", bound="workers") == 0)


async def test_a_crowd_that_changes_faster_than_it_can_be_judged_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_watch, "CHANGED_A_LOOK", 10)
    cluster = WritableWorld()
    put_crowd(cluster, 30)
    async with running(cluster) as found:
        await settled(found)
        noted = noted_by(found, SharedBound.HEALTH)
        judge, gone, every = found.health._judge, GangKey("small", "gone"), list[GangKey]()

        def judged(key: GangKey) -> None:
            judge(key)
            every.append(key)
            if len(every) == 10:
                found.health.mark(gone)

        found.health._judge = judged  # type: ignore[method-assign]
        for key in list(found.health._judgements):
            found.health.mark(key)
        found.health.mark(gone)
        await found.health.look()
        assert gone in found.health._marked, "it changed again while the others were judged"
        assert noted() == {"crowd"}


def noted_by(found: Reconciler, bound: SharedBound) -> Any:
    found.held_back._noted.clear()
    return lambda: {namespace for namespace, one in found.held_back._noted if one is bound}


def test_of_gangs_beyond_their_own_events_the_namespace_is_noted() -> None:
    noted: list[str] = []
    held = HeldGangs(OwnEvents(noted.append))
    for key in gangs(OWN_EVENTS):
        held.put(key, GangReason.NO_ROOM, 0.0, told_elsewhere=False)
    held.due(20.0, PACE, 100)
    assert noted == []
    for key in gangs(1, first=100):
        held.put(key, GangReason.NO_ROOM, 20.0, told_elsewhere=False)
    held.due(40.0, PACE, 100)
    assert noted == ["team-a"]


# Lost pods.


async def test_ends_of_pods_of_one_namespace_leave_room_for_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_watch, "MOST_ENDS", 40)
    found = reconciler(WritableWorld())
    watch, noted = found.losses._watch, noted_by(found, SharedBound.LOSSES)

    def end(namespace: str, index: int) -> Any:
        name = f"p{index}"
        gone = pod("leader", 0, node="n")._replace(namespace=namespace, name=name, uid=name)
        return PodEnd(gone, [], LossCause.DELETION)

    for index in range(100):
        watch.pod_ended(end("crowd", index))
    watch.pod_ended(end("quiet", 0))
    kept = [one for ends in watch._ends.values() for one in ends.values()]
    assert sum(one.end.pod.namespace == "crowd" for one in kept) == 30
    assert sum(one.end.pod.namespace == "quiet" for one in kept) == 1
    assert noted() == {"crowd"}
    await found.following.close()


# Deletions of escaped pods.


class Deletions:
    """Remembers which pods are deleted."""

    def __init__(self) -> None:
        self.clock = PlayedClock()
        self.pods: list[GangPod] = []
        self.noted: set[str] = set()
        self.deletion = EscapeDeletion(
            frozenset({"stale"}),
            self,  # type: ignore[arg-type]
            ReconcilerMetrics(),
            held_back=self.noted.add,
            clock=self.clock,
        )

    async def delete_unbound(self, pod: GangPod) -> bool:
        self.pods.append(pod)
        return True

    def judged(self, key: GangKey, pods: int) -> None:
        escaped = []
        for index in range(pods):
            one = pod("leader", index)._replace(namespace=key.namespace, uid=f"{'/'.join(key)}/{index}")
            escaped.append(Escaped(one, Escape.STALE, ("/spec/schedulerName",)))
        health = gang_with([])
        object.__setattr__(health, "escaped", tuple(escaped))
        self.deletion.judged(key, health)

    async def see(self, times: int = 1, seconds: float = 1.0) -> None:
        for _ in range(times):
            self.clock.move(seconds)
            await self.deletion.see()


async def test_deletions_are_some_at_a_look_and_namespaces_take_turns() -> None:
    found = Deletions()
    for number in range(100):
        found.judged(GangKey("crowd", f"g{number}"), 1)
    found.judged(GangKey("small", "one"), 1)
    await found.see(seconds=SETTLE_SECONDS)
    assert len(found.pods) == DELETIONS_A_LOOK
    assert "small" in {one.namespace for one in found.pods}
    assert found.noted == {"crowd"}
    await found.see(times=10)
    assert len(found.pods) == len({one.uid for one in found.pods}) == 101


async def test_a_gang_with_very_many_escaped_pods_goes_on_at_the_next_looks_without_a_pause() -> None:
    found = Deletions()
    found.judged(GangKey("crowd", "big"), 3 * DELETIONS_A_LOOK)
    await found.see(seconds=SETTLE_SECONDS)
    found.judged(GangKey("small", "one"), 1)
    await found.see(times=3)
    assert len(found.pods) == 3 * DELETIONS_A_LOOK
    await found.see(seconds=SETTLE_SECONDS)
    assert found.pods[-1].namespace == "small"
    # Those that were not deleted are tried again after the pause.
    await found.see(seconds=PAUSE_SECONDS[0])
    await found.see(times=3)
    assert sum(one.namespace == "crowd" for one in found.pods) == 6 * DELETIONS_A_LOOK


async def test_pods_that_are_correct_by_the_time_of_their_turn_are_not_deleted() -> None:
    found = Deletions()
    found.judged(GangKey("crowd", "big"), 3 * DELETIONS_A_LOOK)
    await found.see(seconds=SETTLE_SECONDS)
    found.judged(GangKey("crowd", "big"), 0)
    await found.see(times=5)
    assert len(found.pods) == DELETIONS_A_LOOK


async def test_a_process_that_never_deletes_remembers_no_more_than_there_is() -> None:
    found = Deletions()
    for number in range(500):
        found.judged(GangKey("crowd", "g"), number % 2)
        found.clock.move(1)
    assert len(found.deletion._later) < 200
    found.deletion.judged(GangKey("crowd", "g"), None)
    assert found.deletion._cases == {}

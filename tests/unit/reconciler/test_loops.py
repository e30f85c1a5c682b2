"""What the loops of the reconciler do when little is due, and what metrics count, must not depend on how many gangs of
others there are. Work is counted, never time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import generate_latest

from tests.played import PlayedClock
from tests.unit.cluster.scripted import Script, client
from tests.unit.gangs.judged_gangs import judged as gang_with
from tests.unit.gangs.judged_gangs import pod
from tests.unit.growth.step_counts import Cost
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.kueue_api import SETTINGS as KUEUE
from tests.unit.reconciler.kueue_api import Answering, KueueApi, check
from tests.unit.reconciler.kueue_api import workload as kueue_workload
from tests.unit.reconciler.running_reconciler import reconciler
from tests.unit.reconciler.topologies import ZONE, binding
from tests.unit.worlds import settings_of
from webhook.backends.kube.groups import TREES
from webhook.cluster.clock import LoopTurn
from webhook.config.settings import RemedySettings
from webhook.gangs.escapes import Escape, Escaped
from webhook.gangs.health import GangHealth, GangState
from webhook.gangs.hold_reasons import GangReason, HoldReason, TopologyProblem, TopologyReason
from webhook.gangs.key import GangKey
from webhook.gangs.kueue_queue import QueuePlaces
from webhook.gangs.losses import Loss
from webhook.gangs.members import LossCause, PodEnd
from webhook.gangs.pod_watches import GangPods
from webhook.gangs.stores import Store
from webhook.gangs.workload_gangs import OptedInGangs
from webhook.model.kueue_objects import KueueWorkload, LocalQueue
from webhook.model.projections import TOPOLOGY_BINDINGS
from webhook.model.reading import Manifest
from webhook.reconciler.events import Events
from webhook.reconciler.held_gangs import EventPace, HeldGangs, OwnEvents, Turns
from webhook.reconciler.loss_store import LossConditions, LossStore
from webhook.reconciler.loss_watch import GONE_SECONDS, LossWatch
from webhook.reconciler.manager import Reconciler
from webhook.reconciler.metrics import ReconcilerMetrics, SharedBound
from webhook.reconciler.remedies import EscapeDeletion, Remedies
from webhook.reconciler.work_queue import KeyQueue

OWN = GangKey("team-a", "demo-0")
SINCE = "2026-01-01T00:00:00Z"
WHY = HoldReason(GangReason.SILENT, "its scheduler says nothing", "read its log")
PACE = EventPace(10.0, 1800.0)
# So many that a copy of them takes more memory than is free.
FEW_AND_MANY = (10, 1000)
Work = Callable[[], object]


def driven(work: Coroutine[Any, Any, Any]) -> None:
    """Do work that waits for nothing but its turn."""
    try:
        while True:
            work.send(None)
    except StopIteration:
        return


def crowd(number: int) -> list[GangKey]:
    return [GangKey("crowd", f"many-{index}") for index in range(number)]


def silent(key: GangKey) -> GangHealth:
    return GangHealth(key.namespace, key.name, "koord-scheduler", GangState.HELD, "", obstacles=(WHY,))


def lost(key: GangKey, more: int = 1) -> Loss:
    return Loss(f"uid-{key.name}", SINCE, (), more)


class Nobody:
    """What nothing is asked of."""


NOBODY: Any = Nobody()


@asynccontextmanager
async def judging(others: int) -> AsyncIterator[Reconciler]:
    """A reconciler that has judged the gangs of a crowd, and one of another namespace: all are held."""
    found = reconciler(WritableWorld())
    found.health._judging = SilentGangs()  # type: ignore[assignment]
    found.health._losses = None
    for key in (*crowd(others), OWN):
        found.health._judge(key)
    yield found
    await found.following.close()


class SilentGangs:
    """All gangs are held, and none is an anchor."""

    def health(self, key: GangKey) -> GangHealth:
        return silent(key)

    def affected(self, _: GangKey) -> tuple[GangKey, ...]:
        return ()

    def forget(self) -> None:
        """Nothing is known."""


def a_look_at_what_changed(found: Reconciler) -> None:
    found.health.mark(OWN)
    found.health.mark_held("team-a")
    driven(found.health._mark_again(LoopTurn(found.clock), room=False))
    for key in found.health._due():
        found.health._judge(key)


def a_scrape(found: Reconciler) -> None:
    generate_latest(found.metrics.registry)


JUDGED: dict[str, Callable[[Reconciler], object]] = {
    "a look at what changed in one namespace": a_look_at_what_changed,
    "a scrape": a_scrape,
    "the counts after a key": lambda found: found._counted(),
    "what held back is counted": lambda found: driven(found.held_back.look(NOBODY)),
    "how long keys wait": lambda found: list(found.reasons_not_ready()),
}


@pytest.mark.parametrize("work", JUDGED.values(), ids=JUDGED.keys())
async def test_a_loop_of_a_reconciler_does_not_grow_with_the_number_of_others(
    work: Callable[[Reconciler], object],
) -> None:
    costs = []
    for others in FEW_AND_MANY:
        async with judging(others) as found:
            for key in crowd(others):
                found.queue.add(key)
                found.held_back.note(SharedBound.WORKERS, key.namespace)
            work(found)
            costs.append(Cost(lambda found=found: work(found), memory=True))  # type: ignore[misc]
    assert grown(*costs) == ({}, {})


# Parts of it alone, each with what others have, and what is done for one.


def held_gangs(others: int) -> Work:
    held = HeldGangs(OwnEvents())
    for key in (*crowd(others), OWN):
        held.put(key, GangReason.SILENT, 0.0, told_elsewhere=False)
    now = 20.0
    for _ in range(60):
        now += 1.0
        held.due(now, PACE, 20)
    held.put(GangKey("team-a", "another"), GangReason.SILENT, now, told_elsewhere=False)
    return lambda: held.due(now + 20.0, PACE, 20)


def remedies(others: int) -> Work:
    clock = PlayedClock()
    found = Remedies(
        RemedySettings(frozenset({"forgotten"}), 30.0, 60.0, 600),
        lambda _: None,
        NOBODY,
        NOBODY,
        ReconcilerMetrics().remedies,
        clock=clock,
    )
    for key in crowd(others):
        found.judged(key, silent(key))
        clock.move(0.001)

    def work() -> None:
        found.judged(OWN, silent(OWN))
        driven(found.see())

    return work


def deletions(others: int) -> Work:
    found = EscapeDeletion(frozenset({"stale"}), NOBODY, ReconcilerMetrics(), clock=PlayedClock())
    escaped = (Escaped(pod("leader", 0), Escape.STALE, ("/spec/schedulerName",)),)
    health = replace(gang_with([]), escaped=escaped)
    for key in crowd(others):
        found.judged(key, health)

    def work() -> None:
        found.judged(OWN, health)
        driven(found.see())

    return work


class AllGangs:
    """The cluster, for a watch of losses."""

    def report_gangs_on_nodes(self, _: Any) -> set[str]:
        return set()


def losses(others: int) -> LossWatch:
    found = LossWatch(AllGangs(), clock=PlayedClock())  # type: ignore[arg-type]
    assert len(list(found.stored({key: lost(key) for key in crowd(others)}))) == others
    for key in crowd(others):
        found.pod_ended(PodEnd(pod("leader", 0)._replace(namespace="crowd", podgang=key.name), [], LossCause.DELETION))
    found.settled()
    found.take_changed()
    return found


def loss_watch(others: int) -> Work:
    found = losses(others)

    def work() -> None:
        found.look()
        found.pod_ended(PodEnd(pod("leader", 0)._replace(namespace="team-a"), [], LossCause.DELETION))
        found.drop_unclaimed()
        assert list(found.stored({OWN: lost(OWN)})) == [OWN]
        assert found.settled()[OWN]
        assert found.take_changed() == {OWN}
        found.forget(OWN)

    return work


def loss_conditions(others: int) -> Work:
    found = LossConditions(NOBODY, NOBODY, clock=PlayedClock())

    async def write(_: GangKey, __: Loss | None) -> bool:
        return True

    found._write = write  # type: ignore[assignment,method-assign]
    kept = {key: lost(key) for key in crowd(others)}
    for _ in range(others):
        driven(found.keep(kept, ()))
    numbers = iter(range(2, 100))

    def work() -> None:
        kept[OWN] = lost(OWN, next(numbers))
        driven(found.keep(kept, [OWN]))

    return work


def loss_store(others: int) -> Work:
    """What does not change is not written as text again, and its ConfigMap is not made again."""
    clock = PlayedClock()
    found = LossStore(NOBODY, NOBODY, "rollcall-system", clock=clock)
    found._stored = {}

    async def put(_: dict[str, Manifest], __: str, ___: str) -> None:
        return

    found._put = put  # type: ignore[assignment,method-assign]
    kept: Mapping[GangKey, Loss] = {key: lost(key) for key in crowd(others)}
    driven(found.write(kept, ()))

    def work() -> None:
        clock.move(10)
        driven(found.write(kept, ()))

    return work


def queue(others: int) -> Work:
    found: KeyQueue[GangKey] = KeyQueue(8)
    for key in crowd(others):
        found.add(key)

    def work() -> None:
        found.add(OWN)
        found.has_turn(OWN)
        found.waited()
        while found._next() != OWN:
            pass
        found.done(OWN)

    return work


def turns(others: int) -> Work:
    found: Turns[GangKey] = Turns()
    for key in crowd(others):
        found.put(key)

    def work() -> None:
        found.put(OWN)
        assert OWN in (found.take(), found.take())

    return work


def told(others: int) -> Work:
    found = Events(NOBODY, ReconcilerMetrics(), "me", lambda: False, clock=PlayedClock())
    for key in crowd(others):
        found._notes.put("crowd", (key.name, key.name, GangReason.SILENT), NOBODY)

    def work() -> None:
        found._notes.put("team-a", ("uid", "demo-0", GangReason.SILENT), NOBODY)
        assert found._notes.get(("uid", "demo-0", GangReason.SILENT)) is NOBODY

    return work


def oldest_workload(others: int) -> Work:
    found = Answering(KueueApi(check(), *(kueue_workload(name=f"job-{index}") for index in range(others))), KUEUE)
    found.frozen = found.seen()
    driven(found.checks.look_at_all())
    assert len(found.checks._waiting) == others
    return lambda: generate_latest(found.metrics.registry)


def circles(others: int) -> Work:
    found = reconciler(WritableWorld(), settings=settings_of("default-scheduler", {"gangScheduling": True})).circles
    api = TREES[0].resource.api
    groups: dict[Any, Manifest] = {}
    found._stores.by_kind[api] = SimpleNamespace(objects=groups)  # type: ignore[assignment]

    async def say(*_: object) -> None:
        return

    found._events = SimpleNamespace(say=say)  # type: ignore[assignment]
    for key in (*crowd(others), OWN):
        groups[key.namespace, key.name] = {
            "metadata": {"uid": key.name},
            "spec": {"parentCompositePodGroupName": key.name},
        }
        found.mark(api, (key.namespace, key.name))
    for _ in range(others // 20 + 2):
        driven(found.look())
    assert len(found._announced) == others + 1

    def work() -> None:
        found.mark(api, ("team-a", "demo-0"))
        driven(found.look())

    return work


def pods_of_one_node(others: int) -> Work:
    found = GangPods(client(Script()), lambda _: None)
    entries = found._watch.index.entries
    for index, key in enumerate((*crowd(others), OWN)):
        name = f"{key.name}-0"
        entries[key.namespace, name] = pod("leader", 0, node=f"n{index % 50}" if key is not OWN else "own")._replace(
            namespace=key.namespace, name=name, podgang=key.name
        )
        found._noticed((key.namespace, name))

    def work() -> None:
        assert found.report_gangs_on_nodes({"own"}) == {"own"}

    return work


def local_queue(others: int) -> Work:
    """One changes its ClusterQueue, among many others and their Workloads."""
    queues = {(key.namespace, key.name): LocalQueue("research") for key in (*crowd(others), OWN)}
    found = QueuePlaces({key: KueueWorkload(queue=key[1], created=key[1]) for key in queues})
    assert found.ahead_of(next(iter(queues)), queues) is not None
    names = cycle(("other", "research"))

    def work() -> None:
        queue = LocalQueue(next(names))
        found.put_queue(("team-a", "demo-0"), queue)
        assert found.ahead_of(("team-a", "demo-0"), {}) is not None

    return work


def groups_of_a_leader_worker_set(others: int) -> Work:
    found = OptedInGangs(client(Script()), settings_of("koord-scheduler", standalone=False), NOBODY, NOBODY)
    workload = ("LeaderWorkerSet", "team-a", "serve")
    for index in range(others):
        found._move(GangKey("team-a", f"serve-{index}-5f8", "LeaderWorkerSet", "serve"), workload)
    return lambda: found.gangs_of_groups(workload, {"7"})


def kinds_that_are_not_served(others: int) -> Work:
    found = OptedInGangs(client(Script()), settings_of("koord-scheduler", standalone=False), NOBODY, NOBODY)
    for key in crowd(others):
        found._move(key._replace(kind="Job", workload=key.name), ("Job", "crowd", key.name))
    return lambda: found.follow(())


def topology_objects(others: int) -> Work:
    """One of them changes, or a node does, and there are many bindings."""
    found = reconciler(WritableWorld(), settings=settings_of("kai-scheduler", standalone=False))._topologies
    api = TOPOLOGY_BINDINGS.resource.api
    store = Store(client(Script()), TOPOLOGY_BINDINGS.resource, partial(found._stored, api), lambda _: None)
    found._stores.by_kind[api] = store
    queued: list[Any] = []
    found._add = queued.append
    for name in (*(key.name for key in crowd(others)), "own"):
        store.put(binding(ZONE, name=name, reference=f"of-{name}"))
    queued.clear()

    def work() -> None:
        found._stored(next(iter(found._kinds.values())).api, ("", "of-own"), {"own"})
        assert [key[1] for key in queued] == ["own"]
        queued.clear()
        found._problems["own"] = {"kai-scheduler": (TopologyProblem(TopologyReason.DRIFT, "it differs"),)}
        found._count("own")

    return work


ALONE: dict[str, Callable[[int], Work]] = {
    "pods of one node": pods_of_one_node,
    "a LocalQueue": local_queue,
    "groups of a LeaderWorkerSet": groups_of_a_leader_worker_set,
    "kinds that are not served": kinds_that_are_not_served,
    "topology objects": topology_objects,
    "circles of groups": circles,
    "held gangs": held_gangs,
    "remedies": remedies,
    "deletions": deletions,
    "losses": loss_watch,
    "conditions of losses": loss_conditions,
    "records of losses": loss_store,
    "the queue": queue,
    "turns": turns,
    "events": told,
    "the oldest workload of Kueue": oldest_workload,
}


@pytest.mark.parametrize("part", ALONE.values(), ids=ALONE.keys())
async def test_a_part_does_not_grow_with_the_number_of_others(part: Callable[[int], Work]) -> None:
    costs = []
    for others in FEW_AND_MANY:
        work = part(others)
        work()  # what is computed once and kept does not count
        costs.append(Cost(work, memory=True))
    assert grown(*costs) == ({}, {})


def grown(small: Cost, large: Cost) -> tuple[dict[str, int], dict[str, int]]:
    """The lines that run more often, and those that take more memory."""
    assert small.runs
    runs = {f"{code.co_name}:{line}": n for (code, line), n in large.runs.items() if n > small.runs[code, line] + 20}
    taken = {
        f"{code.co_name}:{line}": n for (code, line), n in large.bytes.items() if n > small.bytes[code, line] + 3000
    }
    return runs, taken


def test_a_node_that_is_gone_is_forgotten_once_no_pod_is_left_on_it() -> None:
    """While there is one, each judgement of a started gang counts its pods."""
    clock = PlayedClock()
    pods, nodes = {"n"}, set[str]()
    view = SimpleNamespace(
        report_gangs_on_nodes=lambda names: pods & set(names), node_exists=lambda name: name in nodes
    )
    found = LossWatch(view, clock=clock)
    clock.move(100)
    found.node_changed("n", exists=False)
    found.look()
    assert found._gone_nodes == {"n"}
    pods.clear()
    found.look()
    clock.move(GONE_SECONDS)
    found.look()
    assert found._gone_nodes == set()
    # One that came back with its pods is not gone.
    pods.add("n")
    found.node_changed("n", exists=False)
    found.look()
    assert found._gone_nodes == {"n"}
    nodes.add("n")
    found.node_changed("n", exists=True)
    found.look()
    assert found._gone_nodes == set()

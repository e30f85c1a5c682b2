"""The reconciler is killed at any point of the life of twenty gangs, repeatedly: the final objects are those of an
undisturbed reconciler, every object has its owner reference, and no gang ever starts in part.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from tests.e2e.conftest import KOORDINATOR
from tests.e2e.control_plane import ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.fixture_types import Nodes, Scheduler
from tests.e2e.gang_story import KOORD, KUBE, STEPS, Story
from tests.e2e.hosted_reconciler import HostedReconciler
from tests.e2e.kube_configuration import configuration
from tests.e2e.network import Network
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import ReconcilerProcess

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{ROLLCALL_NAMESPACE}/leases/rollcall-reconciler"
# A killed process closes no connection.
pytestmark = [pytest.mark.chaos, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

CONFIGURATIONS = {KOORD: KOORDINATOR, KUBE: configuration()}
PROGRAMS = {KOORD: "koordinator", KUBE: "kube"}
# How many gang objects there are after each step, counted by hand from what `Story` says it does.
COUNTS = {
    (KOORD, 20): {"create": 50, "scale": 49, "update": 49, "delete": 28},
    (KUBE, 20): {"create": 90, "scale": 89, "update": 94, "delete": 48},
    (KOORD, 8): {"create": 20, "scale": 20, "update": 20, "delete": 12},
    (KUBE, 8): {"create": 36, "scale": 36, "update": 38, "delete": 21},
}
# A gang that the schedulers would start in part they would start within this time: they are done with a pod in 20 ms.
QUIET_SECONDS = 0.3
# A step that writes nothing is over within this time.
STEP_SECONDS = 0.6
# Who has not started after so long is forgotten, for there is room for all. koord-scheduler 1.8 binds a gang within a
# tenth of a second, or after a second where it has to try again. But of PodGroups that were recreated, as for
# another shape, it knows no pod before that pod changes; where it judges the last one too early, nothing calls it back.
FORGOTTEN_SECONDS = {KOORD: 2.0, KUBE: 25.0}

Objects = dict[tuple[str, str], Manifest]


class Undisturbed(NamedTuple):
    """The result of an undisturbed reconciler: the objects after each step, and the number of writes."""

    objects: dict[str, Objects]
    writes: dict[str, int]


@pytest.fixture(scope="module", autouse=True)
def _collect_killed_reconcilers_only() -> Iterator[None]:
    """Collect killed reconcilers at once, which is much faster if older objects are not searched each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def undisturbed() -> Iterator[Callable[[ControlPlane, str, int], Undisturbed]]:
    """Tell the story of so many gangs undisturbed, once for each scheduler."""
    known: dict[tuple[str, int], Undisturbed] = {}

    def told(plane: ControlPlane, scheduler: str, count: int) -> Undisturbed:
        if (scheduler, count) not in known:
            known[scheduler, count] = _undisturbed(plane, scheduler, count)
        return known[scheduler, count]

    yield told


def _undisturbed(plane: ControlPlane, scheduler: str, count: int) -> Undisturbed:
    namespace = f"undisturbed-{scheduler}-{count}"
    plane.http.post("/api/v1/namespaces", json={"metadata": {"name": namespace}}).raise_for_status()
    story = Story(plane, namespace, count, scheduler, pods=False)
    network = Network(plane)
    reconciler = HostedReconciler(network, CONFIGURATIONS[scheduler], namespace=namespace)
    found = Undisturbed({}, {})
    try:
        for step, objects in COUNTS[scheduler, count].items():
            before = len(network.changes)
            story.tell(step)
            eventually(lambda expected=objects: in_step(story, expected), f"the objects after {step}")  # type: ignore[misc]
            reconciler.until_idle()
            found.objects[step], found.writes[step] = story.objects(), len(network.changes) - before
    finally:
        reconciler.stop()
        story.close()
        plane.http.delete(f"/api/v1/namespaces/{namespace}").raise_for_status()
    return found


def in_step(story: Story, expected: Objects | int) -> bool:
    """Whether the objects are those, or that many, and belong to PodGangs that are there."""
    found = story.objects()
    if isinstance(expected, int):
        assert len(found) == expected, f"{len(found)} objects, not {expected}"
    else:
        differing = [key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)]
        assert not differing, f"{len(differing)} objects differ, such as {sorted(differing)[:3]}"
    orphans = story.orphans()
    assert not orphans, f"orphans: {orphans}"
    return True


def no_gang_is_in_part(story: Story) -> None:
    """A gang that is being bound is in part for some milliseconds; one that was started in part stays so."""
    begun = time.monotonic()

    def told() -> bool:
        found = list(story.in_part())
        assert not found, f"gangs that started in part: {'; '.join(found)}"
        return time.monotonic() - begun > QUIET_SECONDS

    eventually(told, "every gang has started whole, or not at all", timeout=20, pause=0.1)


class Chaos:
    """A story, and a reconciler that dies in the middle of it."""

    def __init__(self, story: Story, seed: int, undisturbed: Undisturbed) -> None:
        self.story = story
        self.kills = 0
        self._undisturbed = undisturbed
        self._chance = random.Random(seed)  # noqa: S311 - the same each time
        self._reconciler: HostedReconciler | None = None

    def tell(self) -> None:
        """The whole story, to its end."""
        try:
            for step in STEPS:
                self._disturbed(step)
                if self._chance.random() < 0.5:
                    self._undisturbedly(step)
            self._undisturbedly(STEPS[-1])
        finally:
            if self._reconciler is not None:
                self._reconciler.stop()

    def _disturbed(self, step: str) -> None:
        """One step, in which the reconciler dies once or twice: mostly before it is done with what there is."""
        writes = self._undisturbed.writes[step]
        for attempt in range(self._chance.randint(1, 2)):
            network = self._running()
            if writes:
                network.die_at(self._chance.randint(1, max(1, writes >> attempt)), sent=self._chance.random() < 0.5)
            else:
                network.die_in(self._chance.uniform(0, STEP_SECONDS))
            if not attempt:
                self.story.tell(step)
            if self._fate(network, step) == "done":
                break
            self._kill()

    def _fate(self, network: Network, step: str) -> str:
        """Wait until it is dead, or done."""

        def fate() -> str:
            if network.dead:
                return "dead"
            in_step(self.story, self._undisturbed.objects[step])
            return "done"

        return eventually(fate, f"{step}: it dies or is done")

    def _kill(self) -> None:
        assert self._reconciler is not None
        self._reconciler.kill()
        self._reconciler = None
        self.kills += 1
        no_gang_is_in_part(self.story)

    def _running(self) -> Network:
        if self._reconciler is not None and self._reconciler.network.dead:
            self._kill()
        if self._reconciler is None:
            story = self.story
            config = CONFIGURATIONS[story.scheduler]
            self._reconciler = HostedReconciler(Network(story.plane), config, namespace=story.namespace)
        return self._reconciler.network

    def _undisturbedly(self, step: str) -> None:
        self._running().live()
        expected = self._undisturbed.objects[step]
        eventually(lambda: in_step(self.story, expected), f"the objects after {step}")


def endured(story: Story, seed: int, undisturbed: Undisturbed) -> None:
    chaos = Chaos(story, seed, undisturbed)
    chaos.tell()
    assert chaos.kills >= 2, "that was no chaos"
    assert len(story.objects()) == COUNTS[story.scheduler, story.count]["delete"]
    no_gang_is_in_part(story)
    story.lift_gates()
    all_start(story)
    story.close()

    def gone() -> bool:
        assert story.objects() == {}
        return True

    eventually(gone, "nothing outlives its PodGang")


def all_start(story: Story) -> None:
    """What is left of the gangs starts, and none of them in part. koord-scheduler 1.8 forgets a gang now and then."""
    patience = FORGOTTEN_SECONDS[story.scheduler]
    deadline = time.monotonic() + patience

    def whole() -> bool:
        nonlocal patience, deadline
        found = story.started()
        if time.monotonic() > deadline:
            # A machine may also be slow.
            patience *= 2
            deadline = time.monotonic() + patience
            story.replace_pods([name for name, state in found.items() if state == "none"])
        assert set(found.values()) == {"whole"}, str(found)
        return True

    eventually(whole, "every gang that is left has started", timeout=90, pause=0.1)


@pytest.fixture
def story(
    plane: ControlPlane,
    scheduler: Scheduler,
    namespace: str,
    nodes: Nodes,
) -> Callable[[int, str], Story]:
    """A story of so many gangs for a scheduler, which runs, with room for all."""

    def begun(count: int, name: str) -> Story:
        if not plane.collects_garbage:
            pytest.skip("there is no kube-controller-manager: what a PodGang owns outlives it")
        scheduler(plane, PROGRAMS[name])
        nodes(3, cpu=16)
        return Story(plane, namespace, count, name)

    return begun


@pytest.mark.parametrize(
    ("seed", "scheduler_name"),
    [pytest.param(1, KOORD, marks=pytest.mark.soak), pytest.param(2, KOORD, marks=pytest.mark.soak), (3, KUBE)],
)
def test_a_reconciler_that_is_killed_repeatedly_writes_the_same_objects_as_an_undisturbed_one(
    story: Callable[[int, str], Story], undisturbed: Callable[..., Undisturbed], seed: int, scheduler_name: str
) -> None:
    told = story(8, scheduler_name)
    endured(told, seed, undisturbed(told.plane, scheduler_name, 8))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(50))
def test_twenty_gangs_survive_a_kill_at_any_point(
    story: Callable[[int, str], Story], undisturbed: Callable[..., Undisturbed], seed: int
) -> None:
    name = KUBE if seed % 4 == 3 else KOORD
    told = story(20, name)
    endured(told, seed, undisturbed(told.plane, name, 20))


@pytest.fixture
def process(plane: ControlPlane) -> Iterator[ReconcilerProcess]:
    found = ReconcilerProcess(plane, KOORDINATOR)
    yield found
    found.close()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_after_repeated_kills_a_new_process_finishes_the_work(
    plane: ControlPlane,
    process: ReconcilerProcess,
    story: Callable[[int, str], Story],
    seed: int,
) -> None:
    told, chance = story(20, KOORD), random.Random(seed)  # noqa: S311 - the same each time
    process.until_leading()
    for step in STEPS:
        with ThreadPoolExecutor() as clients:
            telling = clients.submit(told.tell, step)
            begun, pause = time.monotonic(), chance.uniform(0, 1)
            eventually(lambda: time.monotonic() - begun > pause, "a random while", pause=0.01)  # noqa: B023
            process.program.stop(kill=True)
            telling.result()
        no_gang_is_in_part(told)
        # As if fifteen seconds had passed: a killed process does not release its lease.
        plane.http.delete(LEASE)
        process.program.start()
    count = COUNTS[KOORD, 20]["delete"]
    eventually(lambda: in_step(told, count), "what is left has its objects", timeout=60)
    process.until_settled()
    no_gang_is_in_part(told)
    told.close()
    eventually(lambda: told.objects() == {}, "nothing outlives its PodGang")

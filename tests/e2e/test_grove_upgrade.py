"""An upgrade of Grove's operator under living gangs: every PodGang gets another name while its pods run."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.e2e.conftest import KOORDINATOR, gated, until_asked
from tests.e2e.control_plane import ControlPlane
from tests.e2e.fixture_types import Grove, Nodes, PlayNext, Reconcilers, Scheduler
from tests.e2e.grove_next_operator import NextPlayed
from tests.e2e.kube_configuration import configuration
from tests.e2e.living_sets import PODS, anchor_and_tail, delete_a_pod_of_each_gang, until_alive, until_bound
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.test_upgrade_plan import outcomes, said

FEW, MANY = 1, 10
CONFIGURATIONS = {"kube": configuration(), "koordinator": gated(KOORDINATOR)}


class Upgrade:
    """Living sets of the generation before, and the programs around them, which a test stops and starts."""

    def __init__(self, plane: ControlPlane, name: str, reconcilers: Reconcilers, namespace: str, sets: int) -> None:
        self.plane, self.namespace = plane, namespace
        self._config, self._reconcilers = CONFIGURATIONS[name], reconcilers
        self._server: RollcallServer | None = None
        self.start_server()
        self.reconciler = self.start_reconciler()
        self.workloads = [anchor_and_tail(f"demo{number}", namespace) for number in range(sets)]
        self.sets: list[NextPlayed] = []

    def start_reconciler(self) -> ReconcilerProcess:
        """Start the reconciler, and wait until it writes."""
        self.reconciler = self._reconcilers(self._config)
        self.reconciler.until_leading()
        return self.reconciler

    def start_server(self) -> None:
        """Start the webhook, which knows nothing yet."""
        self._server = RollcallServer(self.plane, self._config)
        self._server.until_ready()
        self._server.register()
        until_asked(self.plane)

    def stop_server(self) -> None:
        """Stop the webhook."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def live(self, grove: Grove) -> None:
        """Create the sets by the old operator, and wait until all pods are on nodes."""
        old = [grove(workload).create() for workload in self.workloads]
        until_alive(old)
        self.are_planned_to_continue()

    def are_planned_to_continue(self) -> None:
        """`rollcall upgrade-plan` says of each gang that it goes on."""
        self.reconciler.until_settled()
        found = outcomes(said(self.plane, self.reconciler, "--to", "grove=v0.1.0-alpha.13", code=0), self.namespace)
        podgangs = self.plane.items(f"/apis/scheduler.grove.io/v1alpha1/namespaces/{self.namespace}/podgangs")
        assert len(podgangs) == 2 * len(self.workloads)
        assert {name: outcome for name, (outcome, _) in found.items()} == {
            podgang["metadata"]["name"]: "continues" for podgang in podgangs
        }

    def migrate(self, play_next: PlayNext) -> None:
        """Replace the operator."""
        self.sets = [play_next(workload) for workload in self.workloads]
        for made in self.sets:
            made.migrate()

    def steps(self, play_next: PlayNext) -> Iterator[str]:
        """Replace the operator, one write at a time."""
        self.sets = [play_next(workload) for workload in self.workloads]
        for made in self.sets:
            yield from made.migration()

    def uids(self) -> set[str]:
        """The uids of all pods."""
        pods = self.plane.items(f"/api/v1/namespaces/{self.namespace}/pods")
        return {pod["metadata"]["uid"] for pod in pods}

    def is_whole_again(self) -> None:
        """A pod of each gang is replaced, all are on nodes again, and no other pod was deleted."""
        before = self.uids()
        deleted = {uid for made in self.sets for uid in delete_a_pod_of_each_gang(made)}
        assert len(deleted) == 2 * len(self.sets)
        until_bound(self.sets, PODS)
        assert before - self.uids() == deleted


@pytest.fixture
def upgrade(
    plane: ControlPlane, namespace: str, reconciler: Reconcilers, scheduler: Scheduler, nodes: Nodes, grove: Grove
) -> Iterator[Callable[..., Upgrade]]:
    made: list[Upgrade] = []

    def start(name: str, sets: int = FEW) -> Upgrade:
        scheduler(plane, name)
        nodes(2, cpu=sets * PODS)
        found = Upgrade(plane, name, reconciler, namespace, sets)
        made.append(found)
        found.live(grove)
        return found

    yield start
    for one in made:
        one.stop_server()


@pytest.mark.every_version(since="1.35")
def test_gangs_are_whole_again_after_an_upgrade_while_rollcall_was_stopped(
    upgrade: Callable[..., Upgrade], play_next: PlayNext
) -> None:
    """While Rollcall runs: see `test_ownership`."""
    found = upgrade("kube")
    found.stop_server()
    upgrades_without_the_reconciler(found, play_next, found.start_server)


def upgrades_beside_rollcall(found: Upgrade, play_next: PlayNext) -> None:
    found.migrate(play_next)
    found.is_whole_again()


def upgrades_without_the_reconciler(
    found: Upgrade, play_next: PlayNext, before: Callable[[], None] = lambda: None
) -> None:
    """`before` is called before the reconciler is started again."""
    found.reconciler.program.stop()
    found.migrate(play_next)
    before()
    found.start_reconciler()
    found.is_whole_again()


def upgrades_without_the_webhook(found: Upgrade, play_next: PlayNext) -> None:
    found.stop_server()
    found.migrate(play_next)
    found.start_server()
    found.is_whole_again()


def upgrades_with_crashes(found: Upgrade, play_next: PlayNext, crashes: int) -> None:
    """The reconciler is killed after steps that are random and always the same."""
    # A set is marked, gets a map, new names for five PodCliques and as many pods, loses two PodGangs and gets two, and
    # is unmarked.
    steps = len(found.workloads) * 17
    points, done = set(random.Random(18).sample(range(1, steps + 1), crashes)), 0  # noqa: S311 - the same each time
    for done, _ in enumerate(found.steps(play_next), start=1):
        if done in points:
            found.reconciler.program.stop(kill=True)
            found.start_reconciler()
    assert done == steps
    found.is_whole_again()


STORIES: dict[str, Callable[[Upgrade, PlayNext], None]] = {
    "nothing": upgrades_beside_rollcall,
    "reconciler": upgrades_without_the_reconciler,
    "webhook": upgrades_without_the_webhook,
    "crashes": partial(upgrades_with_crashes, crashes=10),
}


@pytest.mark.soak
@pytest.mark.every_version(since="1.35")
@pytest.mark.parametrize(
    "story",
    STORIES.values(),
    ids=STORIES,
)
def test_twenty_gangs_are_whole_again_on_kube_scheduler(
    upgrade: Callable[..., Upgrade], play_next: PlayNext, story: Callable[[Upgrade, PlayNext], None]
) -> None:
    story(upgrade("kube", MANY), play_next)


@pytest.mark.soak
@pytest.mark.parametrize(
    "story",
    STORIES.values(),
    ids=STORIES,
)
def test_twenty_gangs_are_whole_again_on_koord_scheduler(
    upgrade: Callable[..., Upgrade], play_next: PlayNext, story: Callable[[Upgrade, PlayNext], None]
) -> None:
    story(upgrade("koordinator", MANY), play_next)

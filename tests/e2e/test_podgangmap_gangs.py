"""Gangs of Grove's next generation, whose PodGangs are named by epochs: a new set starts whole or not at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.bound_pods import is_bound, stays_unbound
from tests.e2e.conftest import KOORDINATOR, gated
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Nodes, PlayNext
from tests.e2e.grove_next_operator import NextPlayed
from tests.e2e.kube_configuration import configuration
from tests.e2e.programs import Program
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.workloads import clique, pod_clique_set

Start = Callable[[str, Manifest], None]


def anchor_and_tail(namespace: str) -> Manifest:
    """A set of two PodGangs: six pods in the anchor, and four that follow."""
    cliques = clique("router", 2), clique("leader", 1), clique("worker", 3)
    group = {"name": "decode", "cliqueNames": ["leader", "worker"], "replicas": 2, "minAvailable": 1}
    return pod_clique_set("demo", namespace, *cliques, groups=[group])


@pytest.fixture
def started(
    plane: ControlPlane,
    rollcall: Callable[..., RollcallServer],
    reconciler: Callable[..., ReconcilerProcess],
    scheduler: Callable[[ControlPlane, str], Program],
) -> Start:
    """Start a scheduler, and webhook and reconciler for it."""

    def start(name: str, config: Manifest) -> None:
        scheduler(plane, name)
        rollcall(plane, config)
        reconciler(config).until_leading()

    return start


def starts_whole(made: NextPlayed, nodes: Nodes) -> None:
    """Nothing starts while one CPU is missing; then the anchor does, and after it what depends on it."""
    nodes(1, cpu=5)
    made.create().lift_gates()
    stays_unbound(made)
    nodes(1, cpu=5)
    is_bound(made, 6)
    anchor, tail = made.podgangs
    assert {pod["metadata"]["labels"]["grove.io/podgang"] for pod in on_nodes(made)} == {anchor}
    made.lift_gates()
    is_bound(made, 10)
    assert {pod["metadata"]["labels"]["grove.io/podgang"] for pod in on_nodes(made)} == {anchor, tail}


def on_nodes(made: NextPlayed) -> list[Manifest]:
    return [pod for pod in made.pods() if pod["spec"].get("nodeName")]


@pytest.mark.every_version(since="1.35", soak=("1.36", "1.35"))
def test_a_new_set_starts_whole_on_kube_scheduler(
    started: Start, namespace: str, play_next: PlayNext, nodes: Nodes
) -> None:
    started("kube", configuration())
    starts_whole(play_next(anchor_and_tail(namespace)), nodes)


# test_podgangmap_health.py has an anchor and a tail on koord-scheduler in every run.
@pytest.mark.soak
def test_a_new_set_starts_whole_on_koord_scheduler(
    started: Start, namespace: str, play_next: PlayNext, nodes: Nodes
) -> None:
    started("koordinator", gated(KOORDINATOR))
    starts_whole(play_next(anchor_and_tail(namespace)), nodes)

"""A running gang grows, and its scheduler learns late of the raised minimum: no part of its new pods starts."""

from __future__ import annotations

from collections.abc import Iterator
from signal import SIGCONT, SIGSTOP

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.opted_in_cluster import KOORDINATOR, OptedIn, opted_in
from tests.e2e.opted_in_workloads import job
from tests.e2e.programs import Program, eventually
from tests.e2e.schedulers import start_behind
from tests.e2e.slow_watch import SlowWatch
from tests.e2e.workload_objects import created, deleted, patched, until_pods

# How late the scheduler learns of a PodGroup: less than the pause after a raise.
LATE_SECONDS = 3.0
ROUNDS = 3


@pytest.fixture
def slow(plane: ControlPlane, scheduler: Scheduler) -> Iterator[SlowWatch]:
    """koord-scheduler behind a slow watch of PodGroups, in the place of the one of all other tests."""
    usual, found = scheduler(plane, KOORDINATOR.scheduler), SlowWatch(plane, "podgroups")
    behind: Program | None = None
    usual.signal(SIGSTOP)
    try:
        behind = start_behind(plane, found.kubeconfig)
        yield found
    finally:
        if behind is not None:
            behind.stop()
        found.close()
        usual.signal(SIGCONT)


def grown(cluster: OptedIn, stored: Manifest, pods: int) -> None:
    """An elastic Job gets that many pods, and none is gated any more."""
    patched(cluster.plane, stored, {"spec": {"parallelism": pods, "completions": pods}})
    until_pods(cluster.plane, cluster.namespace, f"job-name={stored['metadata']['name']}", pods)
    cluster.needs(pods)
    cluster.ungated()


def running(cluster: OptedIn, slow: SlowWatch, name: str) -> Manifest:
    """An elastic Job with two pods on nodes, from which on the scheduler learns late."""
    slow.seconds = 0
    stored = created(cluster.plane, job(name, cluster.namespace, 2))
    cluster.all_bound(2)
    slow.seconds = LATE_SECONDS
    return stored


def test_no_part_of_a_growing_gang_starts_while_its_scheduler_knows_the_old_minimum(
    plane: ControlPlane, rollcall: Rollcall, reconciler: Reconcilers, nodes: Nodes, namespace: str, slow: SlowWatch
) -> None:
    rollcall(plane, KOORDINATOR.config)
    reconciler(KOORDINATOR.config).until_leading()
    cluster = opted_in(plane, namespace, KOORDINATOR.name)
    for place in range(ROUNDS):
        # Room for one of the two pods that come. Without a kubelet, pods on nodes stay where they are.
        nodes(1, cpu=2 if place else 3)
        stored = running(cluster, slow, f"train-{place}")
        late = slow.late
        grown(cluster, stored, 4)
        cluster.stays(lambda: sum(cluster.bound().values()) == 2, "no part of the new pods starts")
        assert slow.late > late, "the scheduler was told late"
        deleted(plane, stored)
        eventually(lambda: cluster.pods == [], "the pods are gone", timeout=60)
    # koord-scheduler forgets pods that it has rejected, so it is another gang for which there is room.
    nodes(1, cpu=4)
    grown(cluster, running(cluster, slow, "train-whole"), 4)
    cluster.all_bound(4)

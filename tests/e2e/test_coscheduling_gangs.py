"""Gangs on the real scheduler of scheduler-plugins, with Rollcall's server and reconciler: they start whole or not at
all.
"""

from __future__ import annotations

import time

import pytest

from tests.configurations import configuration_of
from tests.e2e.bound_pods import is_bound, stays_unbound
from tests.e2e.control_plane import ControlPlane
from tests.e2e.fixture_types import Grove, Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.grove_operator import Played
from tests.e2e.programs import eventually
from tests.e2e.workloads import two_cliques
from webhook.backends.coscheduling import NAME

pytestmark = pytest.mark.soak

CONFIG = configuration_of(NAME)


@pytest.fixture
def ready(
    plane: ControlPlane,
    rollcall: Rollcall,
    scheduler: Scheduler,
    reconciler: Reconcilers,
) -> ControlPlane:
    """A control plane with all that such a gang needs."""
    rollcall(plane, CONFIG)
    scheduler(plane, "scheduler-plugins")
    reconciler(CONFIG).until_leading()
    return plane


def minimum(plane: ControlPlane, namespace: str, name: str = "demo-0") -> int | None:
    """The minMember of a gang's PodGroup, None before that is there."""
    found = plane.items(f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/podgroups")
    return {group["metadata"]["name"]: int(group["spec"]["minMember"]) for group in found}.get(name)


def test_no_pod_starts_while_pods_are_gated_or_do_not_fit(
    ready: ControlPlane, namespace: str, grove: Grove, nodes: Nodes
) -> None:
    # Room for two of the three pods.
    nodes(1, cpu=2)
    played = grove(two_cliques("demo", namespace)).create()
    eventually(lambda: minimum(ready, namespace) == 3, "the PodGroup is there")
    # The only gate is Grove's.
    assert [len(pod["spec"]["schedulingGates"]) for pod in played.pods()] == [1, 1, 1]
    played.lift_gates(only=lambda index: index < 2)
    stays_unbound(played)
    played.lift_gates()
    stays_unbound(played)
    nodes(1, cpu=2)
    eventually(lambda: tried_again(ready, played), "the whole gang is bound", pause=1)


def tried_again(plane: ControlPlane, played: Played) -> bool:
    """Whether the whole gang is bound; if not, its PodGroup is touched. All pods of a gang that was rejected may have
    Coscheduling for their only reason, and then no node event takes them out of the queue for five minutes (v0.34.7); a
    change of a PodGroup does.
    """
    if len(played.bound()) == len(played.pods()):
        return True
    arguments = ("annotate", "--overwrite", "-n", played.namespace, "podgroups.scheduling.x-k8s.io", "--all")
    plane.kubectl(*arguments, f"example.com/touched={time.monotonic()}", check=True)
    return False


def test_a_missing_pod_blocks_the_gang_and_a_single_replacement_joins_it(
    ready: ControlPlane, namespace: str, grove: Grove, nodes: Nodes
) -> None:
    nodes(1, cpu=8)
    played = grove(two_cliques("demo", namespace)).create(without="demo-0-worker")
    played.lift_gates()
    eventually(lambda: minimum(ready, namespace) == 3, "the PodGroup is there")
    stays_unbound(played)
    worker = next(clique for clique in played.cliques if clique.name == "demo-0-worker")
    played.create_pod(worker, 1)
    played.lift_gates()
    is_bound(played, 3)
    lost = played.bound()[-1]
    ready.http.delete(f"/api/v1/namespaces/{namespace}/pods/{lost}", params={"gracePeriodSeconds": "0"})
    eventually(lambda: len(played.bound()) == 2, "the pod is gone")
    played.create_pod(worker, 1)
    played.lift_gates()
    is_bound(played, 3)

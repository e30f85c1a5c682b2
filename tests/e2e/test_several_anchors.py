"""PodGangMaps with several anchors in a replica, and several scaled-out replicas: each PodGang is a gang of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.conftest import KOORDINATOR, gated
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Nodes, PlayNext, Reconcilers, Rollcall, Scheduler
from tests.e2e.grove_next_operator import NextPlayed
from tests.e2e.kube_configuration import configuration
from tests.e2e.living_sets import delete_a_pod_of_each_gang
from tests.e2e.programs import eventually
from tests.e2e.stored_gangs import StoredGangs
from tests.e2e.workloads import clique, pod_clique_set

CONFIGURATIONS = {"kube": configuration(), "koordinator": gated(KOORDINATOR)}
PODS = 10


def four_replicas(namespace: str) -> Manifest:
    """A set of two routers, and four replicas of a leader and a worker."""
    group = {"name": "decode", "cliqueNames": ["leader", "worker"], "replicas": 4, "minAvailable": 1}
    return pod_clique_set(
        "demo", namespace, clique("router", 2), clique("leader", 1), clique("worker", 1), groups=[group]
    )


def entries() -> list[Manifest]:
    """Two anchors, which divide the routers, and two replicas that were added later."""
    shared = {"podCliqueSetGenerationHash": "a"}
    anchor = {**shared, "role": "Anchor", "podCliques": {"router": 1}}
    return [
        {**anchor, "epoch": "1001", "anchorIndex": 0, "pcsgReplicaIndices": {"decode": [0]}},
        {
            **anchor,
            "epoch": "1002",
            "anchorIndex": 1,
            "pcsgReplicaIndices": {"decode": [1]},
            "dependsOn": ["1001"],
        },
        {
            **shared,
            "role": "ScaleOut",
            "epoch": "1003",
            "pcsgReplicaIndices": {"decode": [2, 3]},
            "dependsOn": ["1001"],
        },
    ]


GANGS = ["demo-0-1001", "demo-0-1002", "demo-0-1003-decode-2", "demo-0-1003-decode-3"]


@pytest.mark.parametrize("name", ["kube", pytest.param("koordinator", marks=pytest.mark.soak)])
def test_each_podgang_of_a_map_with_several_anchors_has_its_own_objects_and_pods(
    plane: ControlPlane,
    rollcall: Rollcall,
    scheduler: Scheduler,
    reconciler: Reconcilers,
    namespace: str,
    nodes: Nodes,
    play_next: PlayNext,
    podgangmaps: Callable[[ControlPlane], None],
    name: str,
) -> None:
    # A kind that begins to be served is noticed within ten seconds.
    podgangmaps(plane)
    scheduler(plane, name)
    nodes(2, cpu=PODS // 2)
    rollcall(plane, CONFIGURATIONS[name])
    started = reconciler(CONFIGURATIONS[name])
    started.until_leading()
    made = play_next(four_replicas(namespace)).given(*entries()).create()
    assert made.podgangs == GANGS
    until_all_bound(made)
    stored = StoredGangs(plane, name, namespace)
    has_its_own(stored, made)
    before = stored.uids()
    delete_a_pod_of_each_gang(made)
    until_all_bound(made)
    has_its_own(stored, made)
    assert stored.uids() == before


def until_all_bound(made: NextPlayed) -> None:
    """Wait until all pods are on nodes; the operator frees those of a PodGang once its anchor is scheduled."""

    def bound() -> bool:
        made.lift_gates()
        assert len(made.bound()) == PODS, made.bound()
        return True

    eventually(bound, "all pods are on nodes", timeout=30)


def has_its_own(stored: StoredGangs, made: NextPlayed) -> None:
    """The pods of each PodGang are in its own groups, and in all of them."""
    pods = made.pods()
    for name in GANGS:
        own = {pod_group_of(pod) for pod in pods if pod["metadata"]["labels"]["grove.io/podgang"] == name}
        groups = {where for where in stored.of_podgang(name) if where.startswith("podgroups/")}
        assert {f"podgroups/{group}" for group in own} == groups, name


def pod_group_of(pod: Manifest) -> str:
    """The PodGroup that a pod names."""
    group = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
    return str(group or pod["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"])

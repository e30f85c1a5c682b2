"""Sets whose gangs live: how they get there, and whether they stay whole when a pod is replaced."""

from __future__ import annotations

from collections.abc import Sequence

from tests.e2e.control_plane import Manifest
from tests.e2e.grove_operator import Played
from tests.e2e.programs import eventually
from tests.e2e.workloads import clique, pod_clique_set

# Each set has two gangs of this many pods, of which the first has three.
PODS = 5


def anchor_and_tail(name: str, namespace: str) -> Manifest:
    """A set of two PodGangs: three pods in the anchor, and two that follow."""
    cliques = clique("router", 1), clique("leader", 1), clique("worker", 1)
    group = {"name": "decode", "cliqueNames": ["leader", "worker"], "replicas": 2, "minAvailable": 1}
    return pod_clique_set(name, namespace, *cliques, groups=[group])


def until_alive(sets: Sequence[Played]) -> None:
    """Have the old operator free the pods of sets that it created, and wait until all are on nodes."""
    for made in sets:
        made.lift_gates()
    until_bound(sets, 3)
    for made in sets:
        made.lift_gates(made.podgangs[1])
    until_bound(sets, PODS)


def until_bound(sets: Sequence[Played], pods: int) -> None:
    """Wait until so many pods of each set are on nodes."""

    def bound() -> bool:
        found = {made.name: len(made.bound()) for made in sets}
        assert set(found.values()) == {pods}, found
        return True

    eventually(bound, f"{pods} pods of each set are on nodes", timeout=30)


def delete_a_pod_of_each_gang(made: Played) -> set[str]:
    """Delete a pod of each PodGang, which the operator replaces; the uids of the deleted pods."""
    deleted = []
    for name in made.podgangs:
        pod = next(pod for pod in made.pods() if pod["metadata"]["labels"]["grove.io/podgang"] == name)
        deleted.append(pod["metadata"]["uid"])
        made.delete_pod(pod["metadata"]["name"])
    return set(deleted)

"""Pods that only have the labels of a gang, beside half of that gang, on the real koord-scheduler: the gates of the
half stay until the gang is complete.
"""

from __future__ import annotations

from copy import deepcopy

from tests.configurations import configuration_of
from tests.e2e.bound_pods import stays_unbound
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.grove_operator import Played
from tests.e2e.programs import eventually
from tests.e2e.workloads import two_cliques

OURS = "rollcall.dev/gang-sync"
CONFIG = configuration_of(
    {"name": "koord-scheduler", "gate": True}, escapes={"delete": ["unmutated", "stale", "foreign"]}
)


def forged(played: Played, owner: Manifest | None, *gates: str) -> Manifest:
    """A worker of the gang, by all that a tenant may write. Its own controller takes it for nothing."""
    worker = next(clique for clique in played.cliques if clique.name == "demo-0-worker")
    found = deepcopy(played.pod(worker, 1))
    found["metadata"] |= {"generateName": "forged-", "ownerReferences": [owner] if owner else []}
    found["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    return found


def controlled_by(kind: str, live: Manifest) -> Manifest:
    """An owner reference to an existing object, so that the garbage collector keeps the pod."""
    metadata = live["metadata"]
    found = {"apiVersion": live["apiVersion"], "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {**found, "controller": True}


def test_forged_pods_neither_start_half_a_gang_nor_block_a_complete_one(
    plane: ControlPlane,
    rollcall: Rollcall,
    scheduler: Scheduler,
    reconciler: Reconcilers,
    namespace: str,
    grove: Grove,
    nodes: Nodes,
) -> None:
    rollcall(plane, CONFIG)
    scheduler(plane, "koordinator")
    nodes(1, cpu=8)
    process = reconciler(CONFIG)
    process.until_leading()
    played = grove(two_cliques("demo", namespace)).create(without="demo-0-worker")
    # One without a controller, and one that names the set, which is there, as its own, with a gate for ever.
    wrong = (
        forged(played, None),
        forged(played, controlled_by("PodCliqueSet", played.workload), "example.com/for-ever"),
    )
    for pod in wrong:
        plane.http.post(f"/api/v1/namespaces/{namespace}/pods", json=pod).raise_for_status()
    played.lift_gates()
    escaped = {"scheduler": "koord-scheduler", "escape": "unowned"}
    eventually(lambda: process.metric("rollcall_escaped_pods", **escaped) == 2, "both are seen")
    stays_unbound(played)
    assert len(gated(played)) == 4, "half a gang and what is forged keep the gate"
    worker = next(clique for clique in played.cliques if clique.name == "demo-0-worker")
    played.create_pod(worker, 1)
    played.lift_gates()
    # When each of them is bound is for koord-scheduler to say, which takes the forged ones for members by their labels.
    eventually(played.bound, "the gang is free to start")
    eventually(lambda: all(map(is_forged, gated(played))), "every pod of the gang is free")
    assert len(gated(played)) == 2, "what is forged keeps its gate, and nothing deletes it"
    assert not any(map(is_forged, played.bound()))


def gated(played: Played) -> list[str]:
    """The names of the pods that have Rollcall's gate."""
    return [
        pod["metadata"]["name"]
        for pod in played.pods()
        if OURS in [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]
    ]


def is_forged(name: str) -> bool:
    return name.startswith("forged-")

"""Gangs that lost pods, on a real cluster: each lost pod is named with what took it, and a restarted reconciler and a
command say the same.
"""

from __future__ import annotations

from tests.e2e.bound_pods import is_bound
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Leader, Nodes, Started
from tests.e2e.grove_operator import Played
from tests.e2e.kube_configuration import configuration
from tests.e2e.lost_pods import (
    causes_of,
    delete,
    delete_node,
    evict,
    fail,
    on_node,
    pod_path,
    preempt,
    records,
    said_lost,
    stored_causes,
    taint_eviction,
    taint_node,
)
from tests.e2e.programs import Program, eventually
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.workloads import clique, pod_clique_set

MERGE = {"Content-Type": "application/merge-patch+json"}
CONDITION = "rollcall.dev/LostMembers"
__all__ = ["taint_eviction"]
WAYS = ("preemption", "node", "taint", "eviction", "deletion", "failure", "unwatched")


def gang(name: str, namespace: str) -> Manifest:
    """A leader and two workers with GPUs, on nodes of their own."""
    cliques = [clique("leader", 1, gpu=1), clique("worker", 2, gpu=1)]
    for one in cliques:
        one["spec"]["podSpec"] |= {"nodeSelector": {"for": name}, "terminationGracePeriodSeconds": 1}
    return pod_clique_set(name, namespace, *cliques, labels={"rollcall.dev/disruption-mode": "single"})


def named(pods: list[Manifest], cause: str) -> set[str]:
    return {f"{pod['metadata']['name']} {cause}" for pod in pods}


def settle_conditions(plane: ControlPlane, namespace: str) -> None:
    """As Grove's operator does once all pods exist; from then on it writes no conditions."""
    settled = {"type": "Initialized", "status": "True", "reason": "PodGangPodsCreated", "message": ""}
    status = {"phase": "Pending", "conditions": [{**settled, "lastTransitionTime": "2026-09-01T12:00:00Z"}]}
    path = f"/apis/scheduler.grove.io/v1alpha1/namespaces/{namespace}/podgangs/failure-0/status"
    plane.http.patch(path, json={"status": status}, headers=MERGE).raise_for_status()


def conditions_of(played: Played) -> list[str]:
    (name,) = played.podgangs
    return [one["type"] for one in played.podgang(name)["status"]["conditions"]]


def worker_of(played: Played) -> Manifest:
    return next(pod for pod in played.pods() if "-worker-" in pod["metadata"]["name"])


def lose(plane: ControlPlane, gangs: dict[str, Played]) -> dict[str, set[str]]:
    """Take a pod of each gang, or a node, while Rollcall watches. Return the lost pods that are to be named."""
    victims = {name: worker_of(played) for name, played in gangs.items()}
    node = victims["node"]["spec"]["nodeName"]
    tainted = victims["taint"]["spec"]["nodeName"]
    expected = {
        "node": named(on_node(gangs["node"], node), "nodeLoss"),
        "taint": named(on_node(gangs["taint"], tainted), "nodeLoss"),
        **{way: named([victims[way]], way) for way in ("eviction", "deletion", "failure")},
    }
    preempt(plane, gangs["preemption"].namespace, "default-scheduler", {"for": "preemption"})
    delete_node(plane, node)
    taint_node(plane, tainted)
    evict(plane, victims["eviction"])
    delete(plane, victims["deletion"])
    fail(plane, victims["failure"])
    return {f"{name}-0": pods for name, pods in expected.items()}


def test_each_lost_pod_is_named_with_what_took_it_also_by_a_new_reconciler(
    plane: ControlPlane,
    started: Started,
    leader: Leader,
    namespace: str,
    nodes: Nodes,
    grove: Grove,
    taint_eviction: Program,
) -> None:
    server, running = started("kube", configuration())
    for way in WAYS:
        # The gang fills its nodes, so that a pod of higher priority has to preempt.
        nodes(3, cpu=1, gpu=1, labels={"for": way})
    gangs = {way: grove(gang(way, namespace)).create() for way in WAYS}
    for played in gangs.values():
        played.lift_gates()
    for played in gangs.values():
        is_bound(played, 3)
    eventually(lambda: running.metric("rollcall_gangs", health="started") == len(WAYS), "it has seen them started")
    settle_conditions(plane, namespace)
    expected = lose(plane, gangs)

    lost = sum(len(pods) for pods in expected.values()) + 1
    eventually(lambda: len(stored_causes(plane)) == lost, "each lost pod is stored")
    eventually(lambda: conditions_of(gangs["failure"]) == ["Initialized", CONDITION], "the PodGang has a condition")
    before = said_lost(plane, server.config, namespace)
    found = causes_of(before)
    victim = {pod for pod in found.pop("preemption-0", ()) if pod.endswith(" preemption")}
    assert (found, len(victim)) == (expected, 1), before
    assert all(one["idle"] == {"pods": 2, "gpus": 2} for one in before.values()), before
    assert running.metric("rollcall_gangs_lost_members", cause="nodeLoss") == 2
    assert running.metric("rollcall_idle_gpus", scheduler="default-scheduler") == 12
    written = running.metric("rollcall_writes_total", kind="ConfigMap")

    # Rollcall is away while the last gang loses a pod, and knows the rest from its records.
    running.close()
    away = worker_of(gangs["unwatched"])
    plane.http.delete(pod_path(away), params={"gracePeriodSeconds": "0"}).raise_for_status()
    again = leader(configuration())

    eventually(lambda: away["metadata"]["name"] in stored_causes(plane), "the last loss is stored")
    after = said_lost(plane, server.config, namespace)
    assert causes_of(after)["unwatched-0"] == named([away], "unknown")
    assert {name: one for name, one in after.items() if name != "unwatched-0"} == before
    assert written <= 8, "a storm costs few writes"
    note = eventually(lambda: note_about(plane, namespace, "deletion-0"), "an event says it", timeout=60)
    assert "(deletion, node-" in note
    assert "meanwhile 2 pods with 2 GPUs" in note
    until_forgotten(plane, again, gangs["failure"], list(gangs.values()))


def note_about(plane: ControlPlane, namespace: str, gang: str) -> str | None:
    """The text of the event about what a gang lost; None if there is none yet."""
    events = plane.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    found = (one for one in events if one["reason"] == "GangLostMembers")
    return next((str(one["note"]) for one in found if one["regarding"]["name"] == gang), None)


def until_forgotten(plane: ControlPlane, running: ReconcilerProcess, whole: Played, every: list[Played]) -> None:
    """A gang that is whole again, and gangs that are gone, leave no record behind."""
    failed = next(pod for pod in whole.pods() if pod["status"].get("phase") == "Failed")
    whole.delete_pod(failed["metadata"]["name"])
    eventually(lambda: running.metric("rollcall_gangs_lost_members", cause="failure") == 0, "the gang is whole again")
    eventually(lambda: conditions_of(whole) == ["Initialized"], "its condition is removed")
    for played in every:
        for name in played.podgangs:
            played.delete("podgangs", name)
    eventually(lambda: records(plane) == [], "no record is left")

"""Storms of lost pods on real schedulers: a hundred gangs lose nodes and pods in every way at once, and each lost pod
is to be named with what took it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.e2e.bound_pods import is_bound
from tests.e2e.conftest import KOORDINATOR
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Grove, Nodes, Started
from tests.e2e.grove_operator import Played
from tests.e2e.kube_configuration import configuration
from tests.e2e.lost_pods import (
    delete,
    delete_node,
    evict,
    preempt,
    stored_causes,
    taint_eviction,
    taint_node,
)
from tests.e2e.programs import Program, eventually
from tests.e2e.workloads import clique, pod_clique_set

__all__ = ["taint_eviction"]
pytestmark = pytest.mark.soak

# Gangs of each way, each with three pods of one CPU, and as many nodes with room for three pods.
GANGS = 20
CAUSES = {
    "node": "nodeLoss",
    "taint": "nodeLoss",
    "eviction": "eviction",
    "deletion": "deletion",
    "urgent": "preemption",
}
SCHEDULERS = {"koordinator": ("koord-scheduler", KOORDINATOR), "kube": ("default-scheduler", configuration())}


def gang(way: str, number: int, namespace: str, labels: Manifest | None) -> Manifest:
    cliques = [clique("leader", 1), clique("worker", 2)]
    for one in cliques:
        one["spec"]["podSpec"] |= {"nodeSelector": {"for": way}, "terminationGracePeriodSeconds": 1}
    return pod_clique_set(f"{way}-{number}", namespace, *cliques, labels=labels)


def lose(plane: ControlPlane, namespace: str, scheduler: str, pods: dict[str, list[Manifest]]) -> dict[str, str]:
    """Take nodes and pods, as fast as the API server allows. Return the cause of each lost pod, but those that a
    scheduler chooses.
    """
    expected: dict[str, str] = {}
    for way, take in (("node", delete_node), ("taint", taint_node)):
        chosen = sorted({pod["spec"]["nodeName"] for pod in pods[way]})[: GANGS // 2]
        expected |= {pod["metadata"]["name"]: CAUSES[way] for pod in pods[way] if pod["spec"]["nodeName"] in chosen}
        for node in chosen:
            take(plane, node)
    ways: tuple[tuple[str, Callable[[ControlPlane, Manifest], None]], ...] = (("eviction", evict), ("deletion", delete))
    for way, end in ways:
        for pod in pods[way][::3]:
            expected[pod["metadata"]["name"]] = CAUSES[way]
            end(plane, pod)
    for _ in range(GANGS):
        preempt(plane, namespace, scheduler, {"for": "urgent"})
    return expected


class Delays:
    """When each pod was seen to be lost, and how long it then took until it was stored with its cause."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._lost: dict[str, float] = {}
        self.delays: dict[str, float] = {}
        self.preempted: set[str] = set()
        self.said: dict[str, str] = {}

    def look(self) -> None:
        nodes = {one["metadata"]["name"] for one in self._plane.items("/api/v1/nodes")}
        pods = {one["metadata"]["name"]: one for one in self._plane.items(self._path)}
        now = time.monotonic()
        for name, pod in pods.items():
            leaving = "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") == "Failed"
            if pod["spec"].get("nodeName") and (leaving or pod["spec"]["nodeName"] not in nodes):
                self._lost.setdefault(name, now)
            if leaving and name.startswith("urgent-"):
                self.preempted.add(name)
        self.said = stored_causes(self._plane)
        for name in self.said:
            self.delays.setdefault(name, time.monotonic() - self._lost.get(name, now))


@pytest.mark.parametrize("name", SCHEDULERS)
def test_each_pod_lost_in_a_storm_is_named_with_what_took_it(
    plane: ControlPlane,
    started: Started,
    namespace: str,
    nodes: Nodes,
    grove: Grove,
    taint_eviction: Program,
    name: str,
) -> None:
    scheduler_name, config = SCHEDULERS[name]
    running = started(name, config).reconciler
    for way in CAUSES:
        nodes(GANGS, cpu=3, labels={"for": way})
    # So that a scheduler that knows disruption modes takes single pods.
    labels = {"rollcall.dev/disruption-mode": "single"} if name == "kube" else None
    gangs: dict[str, list[Played]] = {}
    for way in CAUSES:
        gangs[way] = [grove(gang(way, number, namespace, labels)).create() for number in range(GANGS)]
    every = [played for found in gangs.values() for played in found]
    for played in every:
        played.lift_gates()
    for played in every:
        is_bound(played, 3)
    eventually(lambda: running.metric("rollcall_gangs", health="started") == len(every), "all have started", timeout=60)
    pods = {way: [pod for played in found for pod in played.pods()] for way, found in gangs.items()}
    began = time.monotonic()
    expected = lose(plane, namespace, scheduler_name, pods)
    delays = Delays(plane, namespace)

    def all_are_named() -> bool:
        delays.look()
        wanted = expected | dict.fromkeys(delays.preempted, CAUSES["urgent"])
        wrong = {pod: delays.said.get(pod) for pod, cause in wanted.items() if delays.said.get(pod) != cause}
        assert not wrong, f"{len(wrong)} of {len(wanted)}: {wrong}"
        # Victims stay, because no kubelet ends them, so a scheduler may count on the same room twice.
        assert len(delays.preempted) >= GANGS // 2, f"the scheduler preempts {len(delays.preempted)} pods"
        return True

    try:
        eventually(all_are_named, "each lost pod is named", timeout=120, pause=0.3)
    finally:
        longest = max(delays.delays.values(), default=0.0)
        writes = running.metric("rollcall_writes_total", kind="ConfigMap")
        print(
            f"{scheduler_name}: {len(delays.said)} pods of {len(every)} gangs named, at most {longest:.1f} s after the "
            f"loss, {time.monotonic() - began:.1f} s after the storm began, by {writes:g} writes"
        )
    assert writes < len(delays.said) / 2, "a storm costs a few writes, not one a pod"

"""Gangs that koord-scheduler 1.8 forgets, on the real scheduler, and what the reconciler does about them if its
configuration asks for it: it wakes the scheduler by the gang's own PodGroup, and replaces pods of an old membership.

A gang is forgotten if its PodGroups are deleted and written again while it waits: koord-scheduler then knows none of
its pods, and hears of each only when it changes. The soak does that too, beside everything else that is
suspected of it: room that comes while gangs are tried, pods that are replaced meanwhile, nodes that go and come back.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from tests.configurations import configuration_of
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Leader, Nodes, Rollcall, Started
from tests.e2e.gang_commands import Gangs, pod_groups
from tests.e2e.grove_operator import Played
from tests.e2e.nodes import remove_nodes
from tests.e2e.programs import eventually
from tests.e2e.rollcall_server import RollcallServer

SETTLE = 5
REMEDIES = {
    "causes": ["forgotten", "objectLeft", "oldMembership"],
    "settleSeconds": SETTLE,
    "pauseSeconds": 10,
    "perMinute": 600,
}
PROFILE = {"name": "koord-scheduler", "gate": False}
CONFIG = configuration_of(PROFILE, remedies=REMEDIES)
CONTROL = configuration_of(PROFILE)
KUBE = configuration_of({"name": "default-scheduler", "config": {"gangScheduling": True}}, remedies=REMEDIES)
LABEL = "pod-group.scheduling.sigs.k8s.io"
ROUNDS = int(os.environ.get("ROLLCALL_FORGOTTEN_ROUNDS", "200"))
GANGS, PODS = 20, 3
# koord-scheduler still writes the status of pods that it has just rejected. If it does so after their groups were
# written again, it has not forgotten them, and the gang starts without a remedy. Or it waits for a pod of the gang that
# it does not try ("representative pod ... already exists" in its log), and no other pod wakes it.
ATTEMPTS = 5
# In which a remedy wakes the gang: SETTLE, and what the scheduler takes. A second remedy comes later.
WOKEN_SECONDS = 20
# A gang that has room and has not started by then counts as forgotten.
FORGOTTEN_SECONDS = 20
_CLIENTS = 4


def unscheduled(played: Played) -> bool:
    """Whether the scheduler has rejected the gang."""
    conditions = (one for pod in played.pods() for one in pod["status"].get("conditions", ()))
    return any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)


def is_whole(played: Played) -> bool:
    """Whether all pods of the gang are on nodes."""
    return len(played.bound()) == PODS


def groups_of(plane: ControlPlane, namespace: str) -> dict[str, Manifest]:
    return {one["metadata"]["name"]: one for one in plane.items(pod_groups(namespace))}


def write_groups_again(plane: ControlPlane, namespace: str, names: Iterable[str]) -> None:
    """Delete PodGroups, as a user may, and wait until the reconciler has written them again."""
    before = {name: one["metadata"]["uid"] for name, one in groups_of(plane, namespace).items() if name in set(names)}
    for name in before:
        plane.http.delete(f"{pod_groups(namespace)}/{name}").raise_for_status()

    def again() -> bool:
        found = groups_of(plane, namespace)
        return all(name in found and found[name]["metadata"]["uid"] != uid for name, uid in before.items())

    eventually(again, "the PodGroups are written again", timeout=60)


def events_of(plane: ControlPlane, namespace: str) -> list[str]:
    found = plane.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    return [event["reason"] for event in found if event["reason"].startswith("GangRemedy")]


def test_a_forgotten_gang_is_woken_and_none_of_its_pods_is_replaced(
    plane: ControlPlane,
    started: Started,
    namespace: str,
    nodes: Nodes,
) -> None:
    server, process = started("koordinator", CONFIG)
    gangs = Gangs(plane, server, namespace)
    for number in range(ATTEMPTS):
        nodes(1, cpu=1)
        made = gangs.create(f"demo{number}")
        eventually(partial(unscheduled, made), "the gang is rejected for lack of room")
        pods = {pod["metadata"]["uid"] for pod in made.pods()}
        groups = [name for name in groups_of(plane, namespace) if name.startswith(f"demo{number}-")]
        write_groups_again(plane, namespace, groups)
        minimums = {name: groups_of(plane, namespace)[name]["spec"] for name in groups}
        nodes(1, cpu=8)
        with suppress(AssertionError):
            eventually(partial(is_whole, made), "the forgotten gang starts", timeout=WOKEN_SECONDS)
            eventually(lambda: "GangRemedyHelped" in events_of(plane, namespace), "a remedy has helped", timeout=5)
            break
        remove_nodes(plane)
    assert {pod["metadata"]["uid"] for pod in made.pods()} == pods
    assert {"GangRemedy", "GangRemedyHelped"} <= set(events_of(plane, namespace))
    assert process.metric("rollcall_remedies_total", cause="forgotten", outcome="helped") >= 1
    assert {name: groups_of(plane, namespace)[name]["spec"] for name in groups} == minimums


def test_a_pod_of_an_old_membership_is_replaced_and_the_others_stay(
    plane: ControlPlane,
    rollcall: Rollcall,
    leader: Leader,
    namespace: str,
) -> None:
    """No pod starts here: koord-scheduler 1.8 keeps a pod whose label changed in its old gang, even once it is gone."""
    gangs = Gangs(plane, rollcall(plane, CONFIG), namespace)
    made = gangs.create("demo", gates=True)
    stray = made.pods()[-1]["metadata"]
    made.patch("pods", stray["name"], {"metadata": {"labels": {LABEL: "demo-0-earlier"}}})
    others = {pod["metadata"]["uid"] for pod in made.pods()} - {stray["uid"]}
    dry = gangs.run("gangs", "remedy", "demo-0", "-n", namespace, "--dry-run")
    assert (dry.returncode, "oldMembership" in dry.stdout) == (0, True), dry.stdout + dry.stderr
    assert stray["uid"] in {pod["metadata"]["uid"] for pod in made.pods()}

    process = leader(CONFIG)
    eventually(
        lambda: stray["uid"] not in {pod["metadata"]["uid"] for pod in made.pods()}, "the pod is deleted", timeout=60
    )
    made.create_missing()
    made.fill_references()
    eventually(lambda: "GangRemedyHelped" in events_of(plane, namespace), "it is told that the remedy helped")
    assert others < {pod["metadata"]["uid"] for pod in made.pods()}
    labels = {pod["metadata"]["labels"][LABEL] for pod in made.pods()}
    assert labels == {"demo-0-leader", "demo-0-worker"}
    assert process.metric("rollcall_writes_total", kind="Pod", action="delete") == 1


class Storm:
    """Rounds of gangs that start under one scheduler, each provoked in one way to be forgotten."""

    def __init__(self, plane: ControlPlane, server: RollcallServer, namespace: str, nodes: Nodes) -> None:
        self.plane = plane
        self.namespace = namespace
        self.nodes = nodes
        self.gangs = Gangs(plane, server, namespace)
        self.forgotten: dict[str, int] = {}
        self.started = 0
        self.slowest = 0.0

    def round(self, number: int, limit: float) -> None:
        """Start gangs, make room, and count those that are not whole in time."""
        ways: tuple[Callable[[int, list[Played]], None], ...] = (
            self._room_comes,
            self._groups_go,
            self._pods_go,
            self._nodes_flap,
        )
        way = ways[number % len(ways)]
        self.plane.http.delete("/api/v1/nodes").raise_for_status()
        self.nodes(1, cpu=4)
        with ThreadPoolExecutor(_CLIENTS) as clients:
            made = list(clients.map(lambda index: self.gangs.create(f"r{number}g{index}"), range(GANGS)))
        way(number, made)
        begun, left = time.monotonic(), set(range(GANGS))
        while left and time.monotonic() - begun < limit:
            bound: dict[str, int] = {}
            for pod in self.plane.items(f"/api/v1/namespaces/{self.namespace}/pods"):
                if pod["spec"].get("nodeName"):
                    gang = pod["metadata"]["labels"]["app.kubernetes.io/part-of"]
                    bound[gang] = bound.get(gang, 0) + 1
            left = {index for index in left if bound.get(f"r{number}g{index}", 0) < PODS}
            time.sleep(0.2)
        self.slowest = max(self.slowest, time.monotonic() - begun)
        self.started += GANGS
        self.forgotten[way.__name__] = self.forgotten.get(way.__name__, 0) + len(left)
        self._remove()

    def _room_comes(self, _: int, __: list[Played]) -> None:
        for _number in range(4):
            self.nodes(1, cpu=20)

    def _groups_go(self, number: int, _: list[Played]) -> None:
        names = [name for name in groups_of(self.plane, self.namespace) if name.startswith(f"r{number}g")]
        write_groups_again(self.plane, self.namespace, names)
        self.nodes(1, cpu=80)

    def _pods_go(self, _: int, made: list[Played]) -> None:
        with ThreadPoolExecutor(_CLIENTS) as clients:
            found = clients.map(lambda one: one.delete_pod(one.pods()[-1]["metadata"]["name"]), made)
            self.nodes(1, cpu=80)
            list(found)

    def _nodes_flap(self, _: int, __: list[Played]) -> None:
        for cpu in (30, 30):
            (name,) = self.nodes(1, cpu=cpu)
            if not any(pod["spec"].get("nodeName") == name for pod in self.plane.items("/api/v1/pods")):
                self.plane.http.delete(f"/api/v1/nodes/{name}").raise_for_status()
        self.nodes(1, cpu=80)

    def _remove(self) -> None:
        groups = ("grove.io/v1alpha1", "podcliquesets"), ("scheduler.grove.io/v1alpha1", "podgangs")
        for api, plural in groups:
            self.plane.http.delete(f"/apis/{api}/namespaces/{self.namespace}/{plural}").raise_for_status()
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self.plane.http.delete(pods, params={"gracePeriodSeconds": "0"}).raise_for_status()
        self.plane.http.delete(pod_groups(self.namespace)).raise_for_status()
        eventually(lambda: not self.plane.items(pods), "the pods are gone")


@pytest.mark.soak
@pytest.mark.parametrize("remedied", [True, False], ids=["remedies", "control"])
def test_all_gangs_start_whole_with_remedies_and_some_are_forgotten_without(
    plane: ControlPlane,
    started: Started,
    namespace: str,
    nodes: Nodes,
    *,
    remedied: bool,
) -> None:
    config = CONFIG if remedied else CONTROL
    server, process = started("koordinator", config)
    storm = Storm(plane, server, namespace, nodes)
    for number in range(ROUNDS if remedied else max(ROUNDS // 20, 4)):
        storm.round(number, 120 if remedied else FORGOTTEN_SECONDS)
    helped = process.metric("rollcall_remedies_total", outcome="helped")
    print(f"{storm.started} gangs, forgotten by way {storm.forgotten}, slowest {storm.slowest:.0f} s, helped {helped}")
    if remedied:
        assert sum(storm.forgotten.values()) == 0
        assert process.metric("rollcall_writes_total", kind="Pod", action="delete") == 0
    else:
        assert sum(storm.forgotten.values()) >= 5


@pytest.mark.soak
@pytest.mark.parametrize(("name", "config"), [("koordinator", CONFIG), ("kube", KUBE)], ids=["koordinator", "kube"])
def test_after_nodes_are_lost_every_gang_is_whole_or_explained_and_no_running_pod_is_deleted(
    plane: ControlPlane,
    started: Started,
    namespace: str,
    nodes: Nodes,
    name: str,
    config: Manifest,
) -> None:
    server, process = started(name, config)
    gangs = Gangs(plane, server, namespace)
    names = [name for _ in range(5) for name in nodes(1, cpu=20)]
    made = [gangs.create(f"g{index}") for index in range(GANGS)]
    eventually(lambda: sum(len(one.bound()) for one in made) == GANGS * PODS, "all gangs start", timeout=120, pause=1)
    lost = set(names[:2])
    for node in lost:
        plane.http.delete(f"/api/v1/nodes/{node}").raise_for_status()
    for one in made:
        gone = [pod["metadata"]["name"] for pod in one.pods() if pod["spec"]["nodeName"] in lost]
        for pod in gone:
            # As the garbage collector of pods and Grove's operator do it.
            one.delete_pod(pod)
    kept = {pod["metadata"]["uid"] for one in made for pod in one.pods() if pod["spec"].get("nodeName")}
    # Room for a part of what was lost.
    nodes(1, cpu=8)

    def settled() -> bool:
        done = gangs.run("gangs", "-n", namespace, "-o", "json")
        assert done.returncode == 0, done.stderr
        for gang in json.loads(done.stdout)["gangs"]:
            reasons = {one["reason"] for one in gang["reasons"]} - {"GangInPart"}
            explained = bool(reasons) and "GangSchedulerSilent" not in reasons
            assert gang["state"] == "started" or explained, gang
        return True

    eventually(settled, "every gang is whole or explained", timeout=120, pause=1)
    assert kept <= {pod["metadata"]["uid"] for one in made for pod in one.pods()}
    helped = process.metric("rollcall_remedies_total", outcome="helped")
    print(f"{name}: {sum(len(one.bound()) == PODS for one in made)} of {GANGS} gangs are whole, helped {helped}")

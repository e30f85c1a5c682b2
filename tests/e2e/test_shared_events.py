"""The events about many held gangs of one namespace: a few of their own, and one that all share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.e2e.conftest import KOORDINATOR
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Leader, Reconcilers
from tests.e2e.gang_story import KOORD
from tests.e2e.gang_writer import posted
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.workloads import pod_clique_alone
from webhook.reconciler.held_gangs import OWN_EVENTS

GANGS = 200


def podgang(number: int, namespace: str, members: int = 1) -> Manifest:
    """A PodGang without pods."""
    name = f"g{number:04}"
    groups = [{"name": f"{name}-c{index}", "minReplicas": 2, "podReferences": []} for index in range(members)]
    metadata = {"name": name, "namespace": namespace, "labels": {"rollcall.dev/scheduler": KOORD}}
    return {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": metadata,
        "spec": {"podgroups": groups},
    }


def create(plane: ControlPlane, objects: Iterable[Manifest]) -> None:
    """Create PodGangs or PodCliques."""
    with ThreadPoolExecutor(4) as clients:
        for answer in clients.map(partial(posted, plane), objects):
            assert answer.is_success, answer.text


def create_gangs(plane: ControlPlane, namespace: str, numbers: range, members: int = 1) -> None:
    """Create PodGangs without pods, and their PodCliques."""
    made = [podgang(number, namespace, members) for number in numbers]
    create(plane, (pod_clique_alone(group["name"], namespace) for one in made for group in one["spec"]["podgroups"]))
    create(plane, made)


def events(plane: ControlPlane, namespace: str) -> list[Manifest]:
    """The events of Rollcall in a namespace."""
    found: list[Manifest] = plane.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    return [one for one in found if one["reportingController"] == "rollcall.dev/reconciler"]


def shared(plane: ControlPlane, namespace: str) -> list[Manifest]:
    """Those that many gangs share."""
    return [one for one in events(plane, namespace) if one["regarding"]["kind"] == "Namespace"]


def counted(plane: ControlPlane, namespace: str) -> list[int]:
    """The number of gangs of each shared event."""
    return [one["series"]["count"] for one in shared(plane, namespace)]


def writes(process: ReconcilerProcess, namespace: str) -> list[tuple[str, str]]:
    """The writes of a reconciler in a namespace: verb and resource."""
    within = re.compile(f"/namespaces/{namespace}/")
    reading = {"get", "list", "watch"}
    asked = (one for one in process.asked() if one.verb not in reading and within.search(one.uri))
    return [(one.verb, one.resource) for one in asked]


@pytest.mark.beside
def test_many_gangs_of_one_cause_share_an_event_and_then_nothing_is_written(
    plane: ControlPlane, leader: Leader, namespace: str
) -> None:
    create_gangs(plane, namespace, range(GANGS))
    started = leader(KOORDINATOR)
    eventually(lambda: counted(plane, namespace) == [GANGS], "the event counts every gang", timeout=90, pause=0.5)
    found = shared(plane, namespace)[0]
    assert found["reason"] == "GangTooFewPods"
    assert found["regarding"]["name"] == namespace
    assert f"rollcall gangs -n {namespace} --held" in found["note"]
    assert re.search(r"g\d{4}, g\d{4} and g\d{4}", found["note"]), found["note"]
    own = [one["regarding"]["name"] for one in events(plane, namespace) if one not in shared(plane, namespace)]
    assert len(set(own)) == len(own) == OWN_EVENTS
    shown = plane.kubectl("events", "-n", namespace, "--for", f"namespace/{namespace}", check=True).out
    assert f"(x{GANGS} over" in shown or "GangTooFewPods" in shown
    # Each PodGroup and each event was written once.
    before = writes(started, namespace)
    assert len(before) == GANGS + OWN_EVENTS + 1, before
    assert before.count(("create", "events.k8s.io/events")) == OWN_EVENTS + 1


def test_podgangs_without_pods_and_podcliques_have_nothing_written(
    plane: ControlPlane, leader: Leader, namespace: str
) -> None:
    create(plane, (podgang(number, namespace) for number in range(GANGS)))
    started = leader(KOORDINATOR)

    def empty() -> bool:
        return started.metric("rollcall_gangs", scheduler=KOORD, health="empty") == GANGS

    eventually(empty, "every PodGang is found empty", timeout=60)
    assert writes(started, namespace) == []
    create(plane, [pod_clique_alone("g0007-c0", namespace)])
    path = f"/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{namespace}/podgroups"
    eventually(lambda: [one["metadata"]["name"] for one in plane.items(path)] == ["g0007-c0"], "it has its PodGroup")
    assert [resource for _, resource in writes(started, namespace)] == ["scheduling.sigs.k8s.io/podgroups"]


@pytest.mark.soak
def test_a_new_leader_continues_the_event_that_the_gangs_share(
    plane: ControlPlane, leader: Leader, reconciler: Reconcilers, namespace: str
) -> None:
    create_gangs(plane, namespace, range(GANGS))
    first = leader(KOORDINATOR)
    eventually(lambda: counted(plane, namespace) == [GANGS], "the event counts every gang", timeout=120, pause=0.5)
    create_gangs(plane, namespace, range(GANGS, GANGS + 50))
    eventually(lambda: counted(plane, namespace) == [GANGS + 50], "it counts the new ones", timeout=120, pause=0.5)
    first.program.stop()
    create_gangs(plane, namespace, range(GANGS + 50, GANGS + 80))
    second = reconciler(KOORDINATOR)
    second.until_leading()
    # The names of events change every ten minutes; then there are two.
    last = GANGS + 80
    eventually(lambda: last in counted(plane, namespace), "a new leader counts on", timeout=120, pause=0.5)
    assert len(shared(plane, namespace)) <= 2
    assert len(events(plane, namespace)) <= 2 * (OWN_EVENTS + 1)

"""When the gang objects of a living set go."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from tests.e2e.conftest import KOORDINATOR
from tests.e2e.control_plane import ControlPlane
from tests.e2e.fixture_types import Grove, PlayNext, Reconcilers, Rollcall
from tests.e2e.kube_configuration import configuration
from tests.e2e.living_sets import anchor_and_tail
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.stored_gangs import StoredGangs

CONFIGURATIONS = {"kube": configuration(), "koordinator": KOORDINATOR}
Leading = Callable[[str], ReconcilerProcess]


@pytest.fixture
def leading(plane: ControlPlane, rollcall: Rollcall, reconciler: Reconcilers) -> Leading:
    """Start the webhook and a reconciler that writes, for a scheduler."""

    def start(name: str) -> ReconcilerProcess:
        rollcall(plane, CONFIGURATIONS[name])
        started = reconciler(CONFIGURATIONS[name])
        started.until_leading()
        return started

    return start


def test_objects_of_a_gang_that_was_scaled_in_go_also_if_the_reconciler_was_stopped(
    plane: ControlPlane, leading: Leading, namespace: str, play_next: PlayNext
) -> None:
    started = leading("kube")
    stored, made = StoredGangs(plane, "kube", namespace), play_next(anchor_and_tail("demo", namespace)).create()
    anchor, tail = made.podgangs
    eventually(lambda: stored.of_podgang(anchor) and stored.of_podgang(tail), "both gangs have their objects")
    started.until_settled()
    kept = stored.of_podgang(anchor)
    made.scale("decode", 1)
    eventually(lambda: stored.uids() == kept, "the objects of the tail are gone", timeout=60)

    made.scale("decode", 2)
    added = made.podgangs[-1]
    assert added not in {anchor, tail}
    eventually(lambda: stored.of_podgang(added), "the added gang has its objects")
    started.until_settled()
    every = stored.uids()
    started.program.stop()
    made.scale("decode", 1)
    assert made.podgangs == [anchor]
    collects_garbage(stored)
    assert stored.uids() == every
    leading("kube")
    eventually(lambda: stored.uids() == kept, "the objects of the added gang are gone", timeout=60)


def collects_garbage(stored: StoredGangs) -> None:
    """Wait until the garbage collector has deleted an object whose owner never existed: then it has deleted as well
    whatever became garbage before.
    """
    plane, namespace = stored.plane, stored.namespace
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "gone", "uid": str(uuid4())}
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    body = {"metadata": {"name": "garbage", "ownerReferences": [owner]}}
    plane.http.post(path, json=body).raise_for_status()
    eventually(lambda: plane.http.get(f"{path}/garbage").status_code == 404, "garbage is collected", timeout=60)


def test_after_an_uninstallation_objects_stay_until_their_set_is_deleted(
    plane: ControlPlane,
    rollcall: Rollcall,
    leading: Leading,
    namespace: str,
    grove: Grove,
    play_next: PlayNext,
) -> None:
    started, workload = leading("koordinator"), anchor_and_tail("demo", namespace)
    stored, old = StoredGangs(plane, "koordinator", namespace), grove(workload).create()
    eventually(lambda: all(stored.of_podgang(one) for one in old.podgangs), "both gangs have their objects")
    started.until_settled()
    every = stored.uids()
    server = rollcall(plane, CONFIGURATIONS["koordinator"])
    started.program.stop()
    server.unregister()
    try:
        # Without Rollcall, Grove may be upgraded too.
        made = play_next(workload).migrate()
        assert set(made.podgangs).isdisjoint(old.podgangs)
        collects_garbage(stored)
        assert stored.uids() == every
        made.delete("podcliquesets", "demo")
        eventually(lambda: stored.uids() == {}, "the objects are gone", timeout=60)
    finally:
        server.register()

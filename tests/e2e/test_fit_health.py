"""Gangs that wait for room on the real kube-scheduler: what never fits is proven until a node comes, and what has no
room now is told what it lacks.
"""

from __future__ import annotations

import json

import pytest

from tests.e2e.bound_pods import is_bound
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Nodes, Reconcilers, Rollcall, Scheduler
from tests.e2e.gang_commands import Gangs
from tests.e2e.grove_operator import Played
from tests.e2e.kube_configuration import configuration
from tests.e2e.programs import eventually
from tests.e2e.workloads import clique, pod_clique_set

pytestmark = pytest.mark.beside


@pytest.fixture
def gangs(plane: ControlPlane, rollcall: Rollcall, scheduler: Scheduler, namespace: str) -> Gangs:
    scheduler(plane, "kube")
    return Gangs(plane, rollcall(plane, configuration()), namespace)


def create(gangs: Gangs, name: str) -> Played:
    """A gang of three workers, ready for the scheduler."""
    played = gangs.store(pod_clique_set(name, gangs.namespace, clique("worker", 3))).create()
    played.lift_gates()
    return played


def only(gangs: Gangs, name: str) -> Manifest:
    """What `rollcall gangs` says of one gang."""
    done = gangs.run("gangs", "-n", gangs.namespace, "-o", "json")
    assert done.returncode == 0, done.stderr
    (found,) = [one for one in json.loads(done.stdout)["gangs"] if one["name"] == f"{name}-0"]
    return dict(found)


def until_reason(gangs: Gangs, name: str, reason: str, start: str) -> Manifest:
    """What is said of a gang once its first reason is that one and begins so."""

    def there() -> Manifest:
        found = only(gangs, name)
        told = [(one["reason"], one["why"]) for one in found["reasons"]]
        assert told, found["state"]
        assert told[0][0] == reason, told
        assert told[0][1].startswith(start), told
        return found

    return eventually(there, f"{name} is {reason}")


def test_a_gang_that_never_fits_is_proven_and_one_without_room_is_told_what_it_lacks(
    gangs: Gangs, reconciler: Reconcilers, nodes: Nodes
) -> None:
    # Room for two of the three pods.
    nodes(1, cpu=2)
    started = reconciler(configuration())
    started.until_leading()
    first = create(gangs, "first")
    found = until_reason(
        gangs, "first", "GangNeverFits", "it can never start on these nodes, even if nothing else runs"
    )
    assert found["neverFits"]["scope"] == "on these nodes"
    never = {"scheduler": "default-scheduler", "scope": "theseNodes", "family": found["neverFits"]["family"]}
    eventually(lambda: started.metric("rollcall_gangs_never_fit", **never) == 1, "the gang is counted")

    nodes(1, cpu=2)
    is_bound(first, 3)
    eventually(lambda: started.metric("rollcall_gangs_never_fit", **never) == 0, "the gang is counted no more")

    second = create(gangs, "second")
    found = until_reason(gangs, "second", "GangNoRoom", "by an estimate it has no room now: ")
    assert "neverFits" not in found
    assert [one["reason"] for one in found["reasons"]] == ["GangNoRoom", "GangNoRoom"]
    assert "nodes are available" in found["reasons"][1]["why"]
    end(gangs.plane, first)
    is_bound(second, 3)


def end(plane: ControlPlane, played: Played) -> None:
    """Delete the pods of a gang. No kubelet would end them."""
    query = {"labelSelector": played.selector, "gracePeriodSeconds": "0"}
    plane.http.delete(played.path("pods"), params=query).raise_for_status()

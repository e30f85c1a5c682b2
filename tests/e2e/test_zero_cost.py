"""A thousand unchanged gangs cost no write and no list, as counted by the API server."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import KOORDINATOR, apply_crds
from tests.e2e.control_plane import ControlPlane
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.requests_counted import Requests, requests_of
from tests.e2e.test_shared_events import counted, create_gangs
from webhook.reconciler.held_gangs import OWN_EVENTS

pytestmark = pytest.mark.soak

GANGS, MEMBERS = 1000, 4
STEADY_SECONDS = 60.0


@pytest.fixture
def quiet_plane(version: str) -> Iterator[ControlPlane]:
    """A control plane without schedulers, which would write the status of each PodGroup, and without controllers."""
    found = ControlPlane(version)
    try:
        apply_crds(found)
        yield found
    finally:
        found.close()


def test_a_thousand_unchanged_gangs_cause_no_writes_and_no_lists(quiet_plane: ControlPlane) -> None:
    plane, namespace = quiet_plane, "default"
    create_gangs(plane, namespace, range(GANGS), MEMBERS)
    process = ReconcilerProcess(plane, KOORDINATOR)
    process.until_leading()

    def written() -> bool:
        assert process.metric("rollcall_writes_total") >= GANGS * MEMBERS
        return True

    eventually(written, "every gang has its PodGroups", timeout=180, pause=0.5)
    process.until_settled()
    assert process.metric("rollcall_writes_total") == GANGS * MEMBERS, "each is written once"
    # None of them has a pod. The first get an event about it each, and all share one.
    eventually(lambda: counted(plane, namespace) == [GANGS], "the event counts every gang", timeout=180, pause=0.5)
    before, begun = requests_of(plane), time.monotonic()
    assert before["APPLY", "podgroups"] + before["PATCH", "podgroups"] >= GANGS * MEMBERS, "the counters count"
    assert before["POST", "events"] <= OWN_EVENTS + 1
    assert before["LIST", "podgangs"] > 0
    eventually(lambda: time.monotonic() - begun > STEADY_SECONDS, "a minute", timeout=STEADY_SECONDS * 2, pause=1)
    assert _of_gangs(requests_of(plane) - before) == {}
    assert process.metric("rollcall_writes_total") == GANGS * MEMBERS
    # For the log only: the test does not depend on it.
    print(f"resident {process.program.resident_megabytes:.0f} MB with {GANGS} PodGangs of {MEMBERS} PodGroups")
    process.close()


def _of_gangs(requests: Requests) -> dict[tuple[str, str], int]:
    """All but the reads of the API server's own objects: its controllers go on."""
    return {one: count for one, count in requests.items() if one[1] not in {"apis", "namespaces", "apiservices"}}

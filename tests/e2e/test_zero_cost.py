"""A thousand unchanged gangs cost no write and no list, as counted by the API server."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.conftest import KOORDINATOR, apply_crds
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.gang_story import KOORD
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import ReconcilerProcess

pytestmark = pytest.mark.soak

GANGS, MEMBERS = 1000, 4
STEADY_SECONDS = 60.0
# What the reconciler follows or writes: every group whose objects decide about gangs, and events.
_GROUPS = ("scheduler.grove.io", "grove.io", "scheduling.sigs.k8s.io", "events.k8s.io")
_REQUESTS = re.compile(r'apiserver_request_total\{.*group="([^"]*)".*verb="([A-Z]+)".*\} (\S+)')


@pytest.fixture
def quiet_plane(version: str) -> Iterator[ControlPlane]:
    """A control plane without schedulers, which would write the status of each PodGroup, and without controllers."""
    found = ControlPlane(version)
    try:
        apply_crds(found)
        yield found
    finally:
        found.close()


def requests_of(plane: ControlPlane) -> Counter[str]:
    """How many requests of each verb the API server has had that concern gangs."""
    found: Counter[str] = Counter()
    for line in plane.http.get("/metrics").text.splitlines():
        if (told := _REQUESTS.match(line)) is not None and told[1] in _GROUPS:
            found[told[2]] += int(float(told[3]))
    return found


def podgang(number: int, namespace: str) -> Manifest:
    name = f"g{number}"
    groups = [{"name": f"{name}-c{index}", "minReplicas": 2, "podReferences": []} for index in range(MEMBERS)]
    metadata = {"name": name, "namespace": namespace, "labels": {"rollcall.dev/scheduler": KOORD}}
    return {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": metadata,
        "spec": {"podgroups": groups},
    }


def test_a_thousand_unchanged_gangs_cause_no_writes_and_no_lists(quiet_plane: ControlPlane) -> None:
    plane, namespace = quiet_plane, "default"
    path = f"/apis/scheduler.grove.io/v1alpha1/namespaces/{namespace}/podgangs"
    with ThreadPoolExecutor(4) as clients:
        for answer in clients.map(lambda number: plane.http.post(path, json=podgang(number, namespace)), range(GANGS)):
            assert answer.is_success, answer.text
    process = ReconcilerProcess(plane, KOORDINATOR)
    process.until_leading()

    def written() -> bool:
        assert process.metric("rollcall_writes_total") >= GANGS * MEMBERS
        return True

    eventually(written, "every gang has its PodGroups", timeout=180, pause=0.5)
    process.until_settled()
    assert process.metric("rollcall_writes_total") == GANGS * MEMBERS, "each is written once"

    def told() -> bool:
        # None of them has a pod, and each gets an event about it, some at a time.
        assert process.metric("rollcall_events_total", reason="GangTooFewPods") == GANGS
        return True

    eventually(told, "every PodGang was told what it lacks", timeout=180, pause=0.5)
    before, begun = requests_of(plane), time.monotonic()
    assert before["APPLY"] + before["PATCH"] >= GANGS * MEMBERS, "the counters count what the reconciler does"
    assert before["LIST"] > 0
    eventually(lambda: time.monotonic() - begun > STEADY_SECONDS, "a minute", timeout=STEADY_SECONDS * 2, pause=1)
    # Watches end now and then, and resume where they were.
    assert {verb: count for verb, count in (requests_of(plane) - before).items() if verb != "WATCH"} == {}
    assert process.metric("rollcall_writes_total") == GANGS * MEMBERS
    # For the log only: the test does not depend on it.
    print(f"resident {process.program.resident_megabytes:.0f} MB with {GANGS} PodGangs of {MEMBERS} PodGroups")
    process.close()

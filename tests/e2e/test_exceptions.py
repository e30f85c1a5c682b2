"""Exceptions on a real API server, through kubectl: who is excepted, from what, before and after the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest
import yaml

from tests.configurations import configuration_of
from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Rollcall
from tests.e2e.programs import eventually
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.rollcall_server import RollcallServer
from tests.e2e.workloads import nvlink

pytestmark = pytest.mark.beside

OTHER = "not-excepted"
# On a busy machine not all is tried before the end: then another server has exceptions with a later one.
LEAD_SECONDS = (12, 30, 120)


class Row(NamedTuple):
    """A tenant's workload, and whether it is stored before and after the end of the exceptions."""

    namespace: str
    name: str
    labels: dict[str, str]
    before: bool
    after: bool


def excepted(name: str, namespace: str, until: datetime, **workloads: object) -> Manifest:
    return {
        "name": name,
        "rules": ["koordinator/mnnvl"],
        "namespaces": [namespace],
        "workloads": workloads,
        "reason": "one NVLink domain, ticket 4711",
        "grantedBy": "anna@example.com",
        "until": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def config_until(until: datetime, namespace: str) -> Manifest:
    exceptions = [
        excepted("by-name", namespace, until, names=["llama"]),
        excepted("by-label", namespace, until, matchLabels={"ticket": "4711"}),
        excepted("lasting", namespace, datetime.now(UTC) + timedelta(days=30), names=["lasting"]),
    ]
    return configuration_of({"name": "koord-scheduler", "gate": False}, exceptions=exceptions)


@pytest.fixture
def other(plane: ControlPlane) -> Iterator[str]:
    """A namespace without an exception."""
    plane.kubectl("create", "namespace", OTHER)
    yield OTHER
    plane.kubectl("delete", "namespace", OTHER, "--wait=false")


def outcome(plane: ControlPlane, row: Row) -> tuple[bool, str]:
    """Whether kubectl may create the workload, and what it prints."""
    manifest = yaml.safe_dump(nvlink(row.name, row.namespace, **row.labels))
    ran = plane.kubectl("create", "-f", "-", stdin=manifest)
    return ran.code == 0, ran.out + ran.err


def table(plane: ControlPlane, rows: list[Row]) -> list[bool]:
    """Which of the workloads the API server would store."""
    # Not by kubectl: eight of its starts would take much of the time until the end of the exceptions.
    path = "/apis/grove.io/v1alpha1/namespaces/{}/podcliquesets"
    answers = (
        plane.http.post(
            path.format(row.namespace), params={"dryRun": "All"}, json=nvlink(row.name, row.namespace, **row.labels)
        )
        for row in rows
    )
    return [answer.is_success for answer in answers]


class Seen(NamedTuple):
    """What was stored before the end of the exceptions, and what kubectl printed about the first workload."""

    server: RollcallServer
    until: datetime
    stored: list[bool]
    created: bool
    said: str


def seen_before_the_end(plane: ControlPlane, rollcall: Rollcall, namespace: str, rows: list[Row]) -> Seen:
    """Try all rows, and create the first one, while the exceptions apply."""
    for seconds in LEAD_SECONDS:
        until = (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)
        server = rollcall(plane, config_until(until, namespace))
        found = Seen(server, until, table(plane, rows), *outcome(plane, rows[0]))
        if datetime.now(UTC) < until:
            return found
        plane.kubectl("-n", namespace, "delete", "--ignore-not-found", "podcliqueset", rows[0].name, check=True)
    raise AssertionError(f"not all was tried within {LEAD_SECONDS[-1]} s")


def test_an_exception_covers_its_workloads_in_its_namespaces_until_its_end(
    plane: ControlPlane, rollcall: Rollcall, namespace: str, other: str
) -> None:
    rows = [
        Row(namespace, "llama", {}, before=True, after=False),
        Row(namespace, "qwen", {"ticket": "4711"}, before=True, after=False),
        Row(namespace, "qwen", {"ticket": "4712"}, before=False, after=False),
        Row(namespace, "qwen", {}, before=False, after=False),
        Row(namespace, "lasting", {}, before=True, after=True),
        # A tenant of another namespace joins neither by the name nor by the label.
        Row(other, "llama", {}, before=False, after=False),
        Row(other, "qwen", {"ticket": "4711"}, before=False, after=False),
        Row(other, "lasting", {}, before=False, after=False),
    ]
    server, until, before, created, said = seen_before_the_end(plane, rollcall, namespace, rows)
    assert before == [row.before for row in rows]
    ends = until.strftime("%Y-%m-%dT%H:%M:%SZ")
    terms = f"excepted by anna@example.com until {ends}: one NVLink domain, ticket 4711"
    assert created, said
    assert "koordinator/mnnvl" in said
    assert terms in said
    noted = eventually(lambda: plane.annotations_of(namespace, "llama") or None, "the creation is audited")
    assert noted["exceptions"] == f"by-name (koordinator/mnnvl) {terms}"
    assert server.metric("rollcall_exceptions_used_total", exception="by-name") >= 1
    assert server.metric("rollcall_exception_expires_timestamp_seconds", exception="by-name") == until.timestamp()

    # No restart and no reload: the same process decides otherwise once the time has come.
    left = (until - datetime.now(UTC)).total_seconds()
    eventually(
        lambda: table(plane, rows) == [row.after for row in rows],
        "the exceptions have ended",
        timeout=max(left, 0) + 30,
        pause=0.5,
    )
    # What is stored stays, and may be changed: it is not blamed for the fault that it was stored with.
    plane.kubectl("-n", namespace, "annotate", "podcliqueset", "llama", "example.com/note=kept", check=True)
    refused, why = outcome(plane, Row(namespace, "llama-2", {}, before=False, after=False))
    assert not refused
    assert "koordinator/mnnvl" in why
    assert "excepted" not in why


def test_the_end_of_an_exception_is_announced_in_its_namespace(
    plane: ControlPlane, reconciler: Callable[..., ReconcilerProcess], namespace: str
) -> None:
    until = datetime.now(UTC) + timedelta(days=3)
    reconciler(config_until(until, namespace)).until_leading()

    def both() -> list[Manifest] | None:
        printed = plane.kubectl("-n", namespace, "get", "events.events.k8s.io", "-o", "json", check=True).out
        found: list[Manifest] = json.loads(printed)["items"]
        told = [one for one in found if one["reason"] == "RollcallExceptionEndsSoon"]
        return told if len(told) == 2 else None

    # `lasting` ends in 30 days, so it is not announced yet.
    told = eventually(both, "both ends are announced")
    assert {(one["regarding"]["kind"], one["regarding"]["name"]) for one in told} == {("Namespace", namespace)}
    assert all("It was granted by anna@example.com: one NVLink domain, ticket 4711" in one["note"] for one in told)

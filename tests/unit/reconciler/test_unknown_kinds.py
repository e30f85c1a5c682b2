"""The count of pods whose controller is of an unknown kind, in a simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from tests.played import PlayedClock
from tests.texts import Text
from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.running_reconciler import looked, running, sample
from tests.unit.worlds import koordinator, three_schedulers
from tests.waiting import until
from webhook.config.settings import Settings
from webhook.model.findings import Action
from webhook.model.grove import OwnerReference
from webhook.reconciler.manager import Reconciler
from webhook.reconciler.unknown_kinds import KINDS_KEPT, MOST_SECONDS, PERIOD_SECONDS, UnknownKindTally

NAMESPACES = "/api/v1/namespaces"
RECORD, ENFORCEMENT = "rollcall.dev/scheduler", "rollcall.dev/enforcement"
KOORD = "koord-scheduler"
SETTINGS = replace(three_schedulers(), standalone=False)
Labels = dict[str, str]


def pod(
    name: str,
    namespace: str = "plain",
    *,
    kind: str = "Farm",
    api_version: str = "example.com/v1",
    scheduler: str = "default-scheduler",
    phase: str = "Pending",
    **metadata: Any,
) -> dict[str, Any]:
    owner = {"apiVersion": api_version, "kind": kind, "name": "acre", "uid": "acre", "controller": True}
    known = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "ownerReferences": [owner]}
    return {"metadata": known | metadata, "spec": {"schedulerName": scheduler}, "status": {"phase": phase}}


def within(namespace: str) -> str:
    """The path of the pods of a namespace."""
    return f"{NAMESPACES}/{namespace}/pods"


# The labels of the namespaces.
LABELS_OF: dict[str, Labels] = {
    "plain": {},
    "chosen": {RECORD: KOORD},
    "left": {RECORD: "none"},
    "silent": {RECORD: KOORD, ENFORCEMENT: "off"},
    "kube-system": {RECORD: KOORD},
}


def world(*pods: dict[str, Any], cluster: WritableWorld | None = None) -> WritableWorld:
    """A cluster with these pods."""
    found = cluster or WritableWorld()
    for name, labels in LABELS_OF.items():
        found.put(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    for one in pods:
        found.put(PODS, one)
    return found


def counted(found: Reconciler, scheduler: str = KOORD) -> float:
    return sample(found, "rollcall_escaped_pods", scheduler=scheduler, escape="unknownKind")


def failing(found: Reconciler) -> float:
    return sample(found, "rollcall_unknown_kinds_failing")


def pass_time(found: Reconciler) -> None:
    """The next count is due."""
    assert isinstance(found.clock, PlayedClock)
    found.clock.move(PERIOD_SECONDS)


async def counts(found: Reconciler, times: int = 2) -> None:
    """Wait until it has counted this many more times."""
    for _ in range(times):
        pass_time(found)
        await looked(found.unknown_kinds, 1)


async def numbers(cluster: WritableWorld, settings: Settings = SETTINGS, **options: Any) -> dict[str, float]:
    """What is counted in the end, by scheduler."""
    async with running(cluster, settings=settings, **options) as found:
        await until(lambda: found.following.live.facts.namespaces is not None)
        await counts(found)
        every = {name: counted(found, name) for name in found.metrics.schedulers}
    return {name: count for name, count in every.items() if count}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (pod("a", "chosen"), {KOORD: 1}),
        (pod("a", scheduler=KOORD), {KOORD: 1}),
        (pod("a", scheduler="lpx-scheduler"), {"lpx-scheduler": 1}),
        (pod("a", labels={RECORD: "lpx-scheduler"}), {"lpx-scheduler": 1}),
        (pod("a", labels={RECORD: "strange"}), {"other": 1}),
        (pod("a", "chosen", scheduler=KOORD, labels={RECORD: KOORD}), {KOORD: 1}),
        (pod("a", scheduler=KOORD, labels={RECORD: "lpx-scheduler"}), {"lpx-scheduler": 1}),
        (pod("a", "chosen", phase="Running"), {KOORD: 1}),
        (pod("a", "left", scheduler=KOORD, labels={RECORD: KOORD}), {KOORD: 1}),
    ],
    ids=[
        "in an opted-in namespace",
        "names a gang scheduler",
        "names another one",
        "has the label",
        "has the label with a scheduler that is not enabled",
        "is in two of the lists and counts once",
        "the label counts before the schedulerName",
        "runs",
        "has the label in a namespace that is opted out",
    ],
)
async def test_a_pod_of_an_unknown_kind_is_counted(one: dict[str, Any], expected: dict[str, float]) -> None:
    assert await numbers(world(one)) == expected


@pytest.mark.parametrize(
    "one",
    [
        pod("a"),
        pod("a", scheduler="another-scheduler"),
        pod("a", "left", scheduler=KOORD),
        pod("a", "chosen", labels={RECORD: "none"}),
        pod("a", "chosen", kind="ReplicaSet", api_version="apps/v1"),
        pod("a", "chosen", kind="DaemonSet", api_version="apps/v1"),
        pod("a", "chosen", kind="StatefulSet", api_version="apps/v1"),
        pod("a", "chosen", kind="Job", api_version="batch/v1"),
        pod("a", "chosen", ownerReferences=[]),
        pod("a", "chosen", phase="Succeeded"),
        pod("a", scheduler=KOORD, phase="Failed"),
        pod("a", "chosen", deletionTimestamp="2026-01-01T00:00:00Z"),
        pod("a", "chosen", labels={"rollcall.dev/gang": "acre"}),
        pod("a", scheduler=KOORD, labels={"grove.io/podgang": "acre"}),
        pod("a", "kube-system", scheduler=KOORD),
        pod("a", "chosen", ownerReferences=["of another type"]),
        pod("a", "silent"),
    ],
    ids=[
        "nothing asks for a gang",
        "names a scheduler that is not enabled",
        "in a namespace that is opted out",
        "is opted out itself",
        "of a ReplicaSet",
        "of a DaemonSet",
        "of a StatefulSet",
        "of a Job",
        "without a controller",
        "has succeeded",
        "has failed",
        "is being deleted",
        "claims a gang",
        "claims a PodGang",
        "in a namespace where no pod is judged",
        "cannot be read",
        "in a namespace with enforcement off",
    ],
)
async def test_any_other_pod_is_not_counted(one: dict[str, Any]) -> None:
    assert await numbers(world(one, pod("b", "chosen"))) == {KOORD: 1}


async def test_what_the_rule_is_off_for_is_not_counted() -> None:
    silent = koordinator({}, standalone=False, enforcement={"rules": {"owner/unknown-kind": "off"}})
    audited = koordinator({}, standalone=False, enforcement={"rules": {"owner/unknown-kind": "audit"}})
    cluster = world(pod("a", "chosen"))
    assert await numbers(cluster, silent) == {}
    assert await numbers(cluster, audited) == {KOORD: 1}
    assert silent.profiles[KOORD].unknown_rules[Action.DENY] == ()


@pytest.mark.parametrize(
    ("only", "expected", "lists"),
    [
        (None, 3, {within("chosen"), within("silent")}),
        ("plain", 1, {within("plain")}),
        ("chosen", 1, {within("chosen")}),
        ("kube-system", 0, {within("kube-system")}),
    ],
)
async def test_a_reconciler_of_one_namespace_counts_there_only(
    only: str | None, expected: float, lists: set[str]
) -> None:
    pods = (pod("a", "chosen"), pod("b", scheduler=KOORD), pod("c", scheduler=KOORD, namespace="other"))
    cluster = world(*pods, pod("d", "kube-system"))
    assert (await numbers(cluster, namespace=only)).get(KOORD, 0) == expected
    # The watches on the pods of gangs are on all namespaces.
    assert {path for path in cluster.asked if path.endswith("/pods")} == lists | {PODS}


async def test_the_count_follows_the_pods_and_their_kinds_are_logged_when_they_change() -> None:
    cluster = world(pod("a", "chosen"), pod("b", "chosen"), pod("c", scheduler=KOORD, kind="Crop"))
    with capture_logs() as lines:
        async with running(cluster, settings=SETTINGS) as found:
            await until(lambda: counted(found) == 3)
            await counts(found)
            cluster.remove(PODS, "chosen", "a")
            cluster.remove(PODS, "chosen", "b")
            pass_time(found)
            await until(lambda: counted(found) == 1)
            cluster.remove(PODS, "plain", "c")
            pass_time(found)
            await until(lambda: counted(found) == 0)
            await counts(found)
    said = [line for line in lines if "unknown kinds" in line["event"]]
    remedy = Text("WorkloadShape", "shapes init KIND")
    event = "pods of unknown kinds"
    assert said == [
        {
            "event": event,
            "log_level": "warning",
            "kinds": "Farm.example.com: 2, Crop.example.com: 1",
            "count": 3,
            "remedy": remedy,
        },
        {"event": event, "log_level": "warning", "kinds": "Crop.example.com: 1", "count": 1, "remedy": remedy},
        {"event": Text("no ", event), "log_level": "info"},
    ]
    assert [write for write in cluster.writes if "pods" in write[1]] == []
    assert cluster.events == []


class Broken(WritableWorld):
    """A cluster that refuses all but the first page of each list while `broken`. `continued` counts the others."""

    broken = False
    continued = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.continued += "continue" in request.url.params
        if self.broken and "continue" in request.url.params:
            return httpx.Response(410, json={"message": "expired"})
        return await super().handle_async_request(request)


def forbidden(cluster: Broken) -> None:
    cluster.refused[PODS] = httpx.Response(403, json={"message": "no"})


def expired(cluster: Broken) -> None:
    cluster.broken = True


@pytest.mark.parametrize("fault", [forbidden, expired])
async def test_a_failed_list_keeps_the_last_count(fault: Callable[[Broken], None]) -> None:
    pods = [pod(f"a{number}", scheduler=KOORD) for number in range(150)]
    cluster = Broken()
    world(*pods, cluster=cluster)
    with capture_logs() as lines:
        async with running(cluster, settings=SETTINGS) as found:
            await until(lambda: counted(found) == 150)
            assert failing(found) == 0
            fault(cluster)
            for one in pods[:20]:
                cluster.objects[PODS].remove(one)
            pass_time(found)
            await until(lambda: failing(found) == 1)
            await counts(found)
            assert (counted(found), failing(found)) == (150, 1)
            cluster.broken = False
            cluster.refused.clear()
            pass_time(found)
            await until(lambda: counted(found) == 130)
            assert failing(found) == 0
    said = [line["failures"] for line in lines if line["event"] == "pods of unknown kinds not counted"]
    # Each failure after which it was silent for twice as long.
    assert said == [1, 2, 4, 8, 16, 32, 64, 128, 256][: len(said)]
    assert said


class Silent(WritableWorld):
    """A cluster that never lists pods that have not ended."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if "status.phase!=" in request.url.params.get("fieldSelector", ""):
            await asyncio.Event().wait()
        return await super().handle_async_request(request)


async def test_a_list_that_takes_too_long_is_a_failure() -> None:
    with capture_logs() as lines:
        async with running(world(pod("a", "chosen"), cluster=Silent()), settings=SETTINGS) as found:
            await until(lambda: failing(found) == 1)
            assert counted(found) == 0
    assert f"not listed within {MOST_SECONDS:g} s" in [line.get("why") for line in lines]


async def test_only_the_leader_counts() -> None:
    leading = True
    async with running(world(pod("a", "chosen")), settings=SETTINGS) as found:
        found.unknown_kinds._leads = lambda: leading
        await until(lambda: counted(found) == 1)
        leading = False
        await until(lambda: counted(found) == 0)
        leading = True
        await until(lambda: counted(found) == 1)


async def test_a_count_ends_when_another_process_leads() -> None:
    cluster = Broken()
    world(*(pod(f"a{number}", scheduler=KOORD) for number in range(250)), cluster=cluster)
    async with running(cluster, settings=SETTINGS) as found:
        found.unknown_kinds._leads = lambda: cluster.continued == 0
        await counts(found, 1)
        # The second of three pages was on its way.
        assert (counted(found), failing(found), cluster.continued) == (0, 0, 1)


async def test_nothing_is_counted_before_the_namespaces_are_known() -> None:
    cluster = world(pod("a", scheduler=KOORD, namespace="left"))
    cluster.refused[NAMESPACES] = httpx.Response(403, json={"message": "no"})
    known: list[bool] = []
    async with running(cluster, settings=SETTINGS) as found:
        again = found.unknown_kinds.look

        async def look() -> None:
            known.append(found.following.live.facts.namespaces is not None)
            await again()

        found.unknown_kinds.look = look  # type: ignore[method-assign]
        await until(lambda: any(watch.trouble for watch in found.following.watches()))
        cluster.refused.clear()
        await until(lambda: len(known) >= 3)
        assert all(known)
        assert counted(found) == 0


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["k" * 5000] * 1000, f"{'k' * 80}.example.com: 1000"),
        # After a hundred kinds no others are told apart.
        (
            [*(f"Kind{number:03}" for number in range(100)), *["Late"] * 900],
            "".join(f"Kind00{number}.example.com: 1, " for number in range(10)) + "other kinds: 990",
        ),
    ],
    ids=["a very long name", "very many kinds"],
)
async def test_kinds_take_little_room_whatever_a_tenant_writes(kinds: list[str], expected: str) -> None:
    pods = [pod(f"a{number}", "chosen", kind=kind) for number, kind in enumerate(kinds)]
    with capture_logs() as lines:
        assert await numbers(world(*pods)) == {KOORD: 1000}
    assert [line["kinds"] for line in lines if line["event"] == "pods of unknown kinds"] == [expected]


def test_kinds_that_one_namespace_makes_up_do_not_hide_those_of_others() -> None:
    tally = UnknownKindTally()
    for number in range(KINDS_KEPT):
        tally.add(unknown(f"Forged{number}"), KOORD, "crowd")
    for _ in range(5):
        tally.add(unknown("Real"), KOORD, "team")
    assert str(tally).startswith("Real.example.com: 5, ")


def unknown(kind: str) -> Any:
    return SimpleNamespace(controller=OwnerReference("example.com/v1", kind, "one", "uid"))

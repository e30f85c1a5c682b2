"""The condition of PodGangs whose gangs lost pods."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.grove import put_pods
from tests.unit.reconciler.lost_members import (
    MAPS,
    SYSTEM,
    delete,
    pod,
    started,
    stored,
    whole,
)
from tests.unit.reconciler.running_reconciler import GANGS, looked, podgang, reconciler, running, sample
from tests.waiting import until
from webhook.gangs.key import GangKey
from webhook.gangs.losses import Loss
from webhook.reconciler.loss_store import LossConditions
from webhook.reconciler.writer import Writer


def stored_gang(cluster: WritableWorld) -> dict[str, Any]:
    gang = cluster.get(GANGS, "team-a", "demo-0")
    assert gang is not None
    return gang


def conditions(cluster: WritableWorld) -> list[dict[str, Any]]:
    return list(stored_gang(cluster).get("status", {}).get("conditions", []))


def patching(cluster: WritableWorld) -> Callable[[httpx.Request], httpx.Response | None]:
    """The status of PodGangs is changed as a real API server does it: if the version is that of the request."""

    def answer(request: httpx.Request) -> httpx.Response | None:
        if not request.url.path.endswith("/podgangs/demo-0/status"):
            return None
        gang = stored_gang(cluster)
        test, replaced = json.loads(request.content)
        assert test == {"op": "test", "path": "/metadata/resourceVersion", "value": "3"}
        assert replaced["path"] == "/status/conditions"
        gang["status"]["conditions"] = replaced["value"]
        return httpx.Response(200, json=gang)

    return answer


INITIALIZED = {"type": "Initialized", "status": "True", "reason": "PodGangPodsCreated"}


async def test_a_podgang_has_a_condition_while_its_gang_lacks_pods() -> None:
    cluster = started()
    gang = stored_gang(cluster)
    gang["metadata"]["resourceVersion"] = "3"
    gang["status"] = {"conditions": [INITIALIZED]}
    cluster.answering = patching(cluster)
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        delete(cluster)
        await until(lambda: len(conditions(cluster)) == 2)
        ours = conditions(cluster)[1]
        assert (ours["type"], ours["status"], ours["reason"]) == ("rollcall.dev/LostMembers", "True", "Deletion")
        assert ours["message"] == f"lost since {ours['lastTransitionTime']}: two (deletion)"
        assert sample(found, "rollcall_writes_total", kind="PodGang", action="condition") == 1
    # The next leader removes it, if the gang has recovered in between.
    put_pods(cluster, pod("three"))
    async with running(cluster, **SYSTEM):
        await until(lambda: conditions(cluster) == [INITIALIZED])


async def test_a_podgang_that_grove_still_initializes_gets_no_condition() -> None:
    cluster = started()
    gang = stored_gang(cluster)
    pending = {**INITIALIZED, "status": "False"}
    gang["status"] = {"conditions": [pending]}
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        delete(cluster)
        await until(lambda: stored(cluster))
        await looked(found.health, 3)
        assert conditions(cluster) == [pending]


async def test_a_condition_that_is_refused_stops_no_record() -> None:
    cluster = started()
    stored_gang(cluster)["status"] = {"conditions": [INITIALIZED]}
    cluster.answering = lambda request: (
        httpx.Response(403, json={"message": "no"}) if request.url.path.endswith("/status") else None
    )
    async with running(cluster, **SYSTEM) as found:
        await whole(found)
        delete(cluster)
        await until(lambda: stored(cluster))
        await looked(found.health, 3)
        put_pods(cluster, pod("three"))
        await until(lambda: not cluster.objects.get(MAPS))
    assert sum(path.endswith("/status") for _, path in cluster.writes) == 1, "it is not tried again at once"


async def test_conditions_that_one_namespace_refuses_delay_no_other() -> None:
    cluster = WritableWorld()
    patched: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response | None:
        if not request.url.path.endswith("/status"):
            return None
        namespace = request.url.path.split("/")[5]
        patched.append(namespace)
        return httpx.Response(403 if namespace == "crowd" else 200, json={"message": "no"})

    cluster.answering = answer
    losses = {}
    for namespace, name in [*(("crowd", f"demo-{index}") for index in range(20)), ("small", "demo-0")]:
        gang = podgang("demo-0-a", namespace=namespace)
        gang["metadata"] |= {"name": name, "uid": f"{namespace}-{name}", "resourceVersion": "3"}
        gang["status"] = {"conditions": [INITIALIZED]}
        cluster.put(GANGS, gang)
        losses[GangKey(namespace, name)] = Loss(f"{namespace}-{name}", "2026-09-01T12:00:00Z", (), 1)
    found = reconciler(cluster)
    client = found.following.client
    conditions = LossConditions(client, Writer(client, lambda: True, found.metrics))
    for _ in range(3):
        await conditions.keep(losses, ())
    assert sorted(patched) == ["crowd", "small"]
    await found.following.close()


async def test_conditions_that_always_change_come_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, noted = list[GangKey](), set[str]()

    async def write(_: LossConditions, key: GangKey, __: Loss | None) -> bool:
        asked.append(key)
        return True

    monkeypatch.setattr(LossConditions, "_write", write)
    found = reconciler(WritableWorld())
    client = found.following.client
    conditions = LossConditions(client, Writer(client, lambda: True, found.metrics), held_back=noted.add)
    every = [GangKey(f"n{number:02}", "demo") for number in range(15)]
    for at in range(2):
        losses = {key: Loss("u", "2026-09-01T12:00:00Z", (), at + 1) for key in every}
        await conditions.keep(losses, every)
    assert (len(asked), set(asked)) == (20, set(every))
    assert noted == {f"n{number:02}" for number in range(5, 15)}
    await conditions.keep(losses, ())
    await conditions.keep(losses, ())
    assert len(asked) == 25, "only those that differ"
    await found.following.close()

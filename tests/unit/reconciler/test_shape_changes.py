"""The shape of an existing gang changes: updated, recreated while that does no harm, or left with a reason."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.texts import Text
from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.cluster import PODS, SERVED, WritableWorld
from tests.unit.reconciler.gated_pods import pod
from tests.unit.reconciler.grove import put_pods
from tests.unit.reconciler.running_reconciler import (
    GANGS,
    GROUPS,
    SETS,
    names,
    podgang,
    put_gang,
    running,
    sample,
    workload,
    world,
)
from tests.unit.worlds import settings_of
from tests.waiting import until
from webhook.backends.kai.keys import POD_GROUP as KAI_POD_GROUP
from webhook.model.projections import Resource

BOUND, WAITING = pod("p") | {"spec": {"nodeName": "n1"}}, pod("p")
NOTE = Text("demo-0-c is new: Koordinator ", "recreate", "PodCliqueSet")


def reasons(cluster: WritableWorld) -> list[str]:
    return [event["reason"] for event in cluster.events]


def listed(cluster: WritableWorld) -> list[list[str]]:
    """The members that each PodGroup lists."""
    key = "gang.scheduling.koordinator.sh/groups"
    return [json.loads(group["metadata"]["annotations"][key]) for group in cluster.objects[GROUPS]]


@pytest.mark.parametrize("there", [BOUND, WAITING], ids=["bound", "waiting"])
async def test_an_added_member_is_reported_but_not_written_while_there_are_pods(there: dict[str, Any]) -> None:
    cluster = world()
    put_pods(cluster, there)
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])
        await until(lambda: found.idle)
        before = list(cluster.writes)
        asked = len(cluster.asked)
        found.following.look_at_all()
        await until(lambda: sample(found, "rollcall_reconciled_total", outcome="inStep") > 0)
        assert cluster.asked[asked:] == [], "no pod is read while everything is in step"
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", "demo-0-c"))
        await until(lambda: sample(found, "rollcall_reconciled_total", outcome="frozen") > 2)
        assert cluster.writes == before
        assert [(event["reason"], event["note"]) for event in cluster.events] == [("GangShapeFrozen", NOTE)]
        # The change is undone.
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b"))
        await until(lambda: found.idle)
        assert cluster.writes == before


async def test_without_pods_the_members_are_recreated_and_old_ones_deleted() -> None:
    cluster = world()
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])
        await until(lambda: found.idle)
        cluster.writes.clear()

        def alone(request: httpx.Request) -> None:
            if request.method == "PATCH":
                assert {len(members) for members in listed(cluster)} <= {3}, "an old one is there still"

        cluster.answering = alone
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", "demo-0-c"))
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b", "demo-0-c"])
        await until(lambda: found.idle)
        assert [method for method, _ in cluster.writes] == ["DELETE", "DELETE", "PATCH", "PATCH", "PATCH"]
        assert cluster.events == []


async def test_a_frozen_gang_is_recreated_once_its_pods_are_deleted() -> None:
    cluster = world()
    put_pods(cluster, BOUND)
    async with running(cluster):
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])
        cluster.apply(GANGS, podgang("demo-0-a"))
        await until(lambda: reasons(cluster) == ["GangShapeFrozen"])
        assert names(cluster) == ["demo-0-a", "demo-0-b"]
        cluster.remove(PODS, "team-a", "p")
        await until(lambda: listed(cluster) == [["team-a/demo-0-a"]])


KAI_GROUPS = "/apis/scheduling.run.ai/v2alpha2/podgroups"


def kai_world() -> WritableWorld:
    cluster = WritableWorld(*SERVED, Resource(KAI_POD_GROUP, "podgroups"))
    cluster.put(SETS, workload(scheduler="kai-scheduler"))
    put_gang(cluster, "demo-0-a", "demo-0-b")
    return cluster


def minimums(cluster: WritableWorld) -> list[int]:
    return [group["minMember"] for group in cluster.objects[KAI_GROUPS][0]["spec"]["subGroups"]]


async def test_on_kai_a_minimum_is_raised_only_before_a_pod_is_bound() -> None:
    cluster = kai_world()
    put_pods(cluster, WAITING)
    settings = settings_of("kai-scheduler", {"defaultQueue": "team-a"}, standalone=False)
    async with running(cluster, settings=settings) as found:
        await until(lambda: KAI_GROUPS in cluster.objects)
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", minimum=3))
        await until(lambda: minimums(cluster) == [3, 3])
        assert [method for method, _ in cluster.writes] == ["PATCH", "PATCH"]
        cluster.objects[PODS][0]["spec"] = {"nodeName": "n1"}
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", minimum=4))
        await until(lambda: reasons(cluster) == ["GangShapeFrozen"])
        assert cluster.events[0]["note"] == Text("demo-0-a", "from 3 to 4; ", "demo-0-b", "from 3 to 4: kai-scheduler")
        assert minimums(cluster) == [3, 3]
        # A lower one is written, and so is what Grove releases.
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", minimum=1))
        await until(lambda: minimums(cluster) == [1, 1])
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", minimum=0))
        await until(lambda: found.idle)
        assert minimums(cluster) == [1, 1]


async def test_no_object_is_written_if_a_later_one_would_be_refused() -> None:
    cluster = world()
    async with running(cluster):
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])
        answer = httpx.Response(422, json=failure(422, "spec.minMember: Invalid value"))
        cluster.answering = lambda request: answer if request.url.path.endswith("demo-0-b") else None
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", minimum=3))
        await until(lambda: reasons(cluster) == ["GangObjectRefused"])
        assert [group["spec"]["minMember"] for group in cluster.objects[GROUPS]] == [2, 2]
        cluster.answering = lambda _: None
        await until(lambda: [group["spec"]["minMember"] for group in cluster.objects[GROUPS]] == [3, 3])


async def test_a_foreign_edit_is_reverted_even_with_bound_pods() -> None:
    cluster = world()
    put_pods(cluster, BOUND)
    async with running(cluster):
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])
        edited = {
            "metadata": {
                "name": "demo-0-a",
                "namespace": "team-a",
                "annotations": {"gang.scheduling.koordinator.sh/groups": '["team-a/demo-0-a"]'},
            }
        }
        cluster.apply(GROUPS, edited)
        both = ["team-a/demo-0-a", "team-a/demo-0-b"]
        await until(lambda: listed(cluster) == [both, both])
        assert cluster.events == []

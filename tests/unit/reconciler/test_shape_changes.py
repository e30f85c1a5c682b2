"""The shape of an existing gang changes: updated, recreated while that does no harm, or left with a reason."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.texts import Text
from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.cluster import PODS, SERVED, WritableWorld
from tests.unit.reconciler.gated_pods import OURS, Opened, pod
from tests.unit.reconciler.grove import CLIQUES, pod_clique, put_pods, put_with_cliques
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
from webhook.backends.kube.workload_api import GROUP
from webhook.model.keys import Api
from webhook.model.projections import Resource
from webhook.reconciler.writer import SILENT_SECONDS

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


BETA = f"/apis/{GROUP}/v1beta1"
PLURALS = {"Workload": "workloads", "CompositePodGroup": "compositepodgroups", "PodGroup": "podgroups"}
KUBE = settings_of("default-scheduler", {"gangScheduling": True}, standalone=False)


class Trees(WritableWorld):
    """A cluster that serves the Workload API as 1.38 does. `changes` are the writes of it, without those of the second
    field manager: what was done, to which object.
    """

    def __init__(self) -> None:
        trees = (Resource(Api(GROUP, "v1beta1", kind), plural) for kind, plural in PLURALS.items())
        super().__init__(*SERVED, *trees)
        self.changes: list[str] = []
        self.refusing: Callable[[str], bool] = lambda _: False
        self.answering = self._noted
        self.put(SETS, workload(scheduler="default-scheduler"))
        put_gang(self, "demo-0-a", "demo-0-b")
        put_pods(self, BOUND)

    def _noted(self, request: httpx.Request) -> httpx.Response | None:
        if not request.url.path.startswith(BETA):
            return None
        plural, name = request.url.path.rsplit("/", 2)[1:]
        action = "try" if "dryRun" in request.url.params else {"PATCH": "apply", "DELETE": "delete"}[request.method]
        change = f"{action} {plural} {name}"
        self.changes.append(change)
        return httpx.Response(422, json=failure(422, "not so")) if self.refusing(change) else None

    def live(self, kind: str) -> dict[str, dict[str, Any]]:
        """The objects of a kind, by name."""
        return {one["metadata"]["name"]: one for one in self.objects.get(f"{BETA}/{PLURALS[kind]}", [])}

    @property
    def wholes(self) -> tuple[dict[str, int], int]:
        """The minimums in the templates of the Workload, and the number of groups that the composite waits for."""
        (whole,), (composite,) = (self.live(kind).values() for kind in ("Workload", "CompositePodGroup"))
        (root,) = whole["spec"]["compositePodGroupTemplates"]
        leaves = {one["name"]: one["schedulingPolicy"]["gang"]["minCount"] for one in root["podGroupTemplates"]}
        return leaves, composite["spec"]["schedulingPolicy"]["gang"]["minGroupCount"]

    @property
    def uids(self) -> dict[str, str]:
        return {f"{kind} {name}": one["metadata"]["uid"] for kind in PLURALS for name, one in self.live(kind).items()}


async def test_a_tree_of_1_38_gets_and_loses_a_group_under_its_running_pods() -> None:
    """Only its Workload is recreated, and the number of groups is raised when all else was validated."""
    cluster = Trees()
    async with running(cluster, settings=KUBE) as found:
        await until(lambda: len(cluster.live("PodGroup")) == 2 and found.idle)
        before = cluster.uids
        (root,) = cluster.live("CompositePodGroup")
        cluster.changes.clear()
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", "demo-0-c"))
        await until(lambda: len(cluster.live("PodGroup")) == 3 and found.idle)
        whole, top, leaf = "workloads demo-0", f"compositepodgroups {root}", "podgroups demo-0-c"
        assert cluster.changes == [
            f"try {top}",
            f"delete {whole}",
            f"try {top}",
            f"apply {whole}",
            f"try {leaf}",
            f"apply {top}",
            f"apply {leaf}",
        ]
        assert cluster.wholes == ({"demo-0-a": 2, "demo-0-b": 2, "demo-0-c": 2}, 3)
        assert {name for name, uid in before.items() if cluster.uids[name] != uid} == {"Workload demo-0"}
        cluster.changes.clear()
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b"))
        await until(lambda: len(cluster.live("PodGroup")) == 2 and found.idle)
        # No group is deleted while the gang still waits for it.
        assert cluster.changes[-3:] == [f"apply {whole}", f"apply {top}", f"delete {leaf}"]
        assert cluster.wholes == ({"demo-0-a": 2, "demo-0-b": 2}, 2)
        assert cluster.events == []


@pytest.mark.parametrize(
    ("refused", "recreated"), [("try compositepodgroups", set()), ("try podgroups", {"Workload demo-0"})]
)
async def test_a_running_tree_waits_for_no_group_that_the_api_server_would_refuse(
    refused: str, recreated: set[str]
) -> None:
    """A PodGroup can be validated only when its Workload has its template."""
    cluster = Trees()
    async with running(cluster, settings=KUBE) as found:
        await until(lambda: len(cluster.live("PodGroup")) == 2 and found.idle)
        before = cluster.uids
        cluster.refusing = lambda change: change.startswith(refused)
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", "demo-0-c"))
        await until(lambda: reasons(cluster) == ["GangObjectRefused"])
        assert {name for name, uid in cluster.uids.items() if before[name] != uid} == recreated
        assert cluster.wholes[1] == 2
        cluster.refusing = lambda _: False
        await until(lambda: cluster.wholes == ({"demo-0-a": 2, "demo-0-b": 2, "demo-0-c": 2}, 3))


@pytest.mark.parametrize("stays", [True, False], ids=["with pods", "until its pods are gone"])
async def test_a_group_of_another_gang_is_not_written_again_and_again(stays: bool) -> None:
    """The API server refuses to move a PodGroup below another composite, also when the PodGang names it now."""
    cluster = Trees()
    async with running(cluster, settings=KUBE) as found:
        scaled = podgang("demo-0-g-1-x")
        scaled["metadata"] |= {"name": "demo-0-g-0", "uid": "scaled"}
        put_with_cliques(cluster, scaled)
        await until(lambda: len(cluster.live("PodGroup")) == 3 and found.idle)
        cluster.changes.clear()
        cluster.remove(GANGS, "team-a", "demo-0-g-0")
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", "demo-0-g-1-x"))
        await until(lambda: reasons(cluster) == ["GangShapeFrozen"])
        assert cluster.events[0]["note"] == Text("demo-0-g-1-x is new: the Workload API", "any of its pods exists")
        assert cluster.changes == []
        if stays:
            return
        before = cluster.uids["PodGroup demo-0-g-1-x"]
        cluster.remove(PODS, "team-a", "p")
        await until(lambda: cluster.uids.get("PodGroup demo-0-g-1-x", before) != before)
        parents = {one["spec"]["parentCompositePodGroupName"] for one in cluster.live("PodGroup").values()}
        assert parents == {"demo-0.composite"}


async def test_a_tree_waits_with_the_gates_after_a_raise() -> None:
    cluster = Trees()
    settings = settings_of("default-scheduler", {"gangScheduling": True}, standalone=False, gate=True)
    put_pods(cluster, *(pod(f"{member}{index}", clique=f"demo-0-{member}") for member in "ab" for index in (0, 1)))
    async with running(cluster, settings=settings) as reconciler:
        await until(lambda: len(cluster.live("PodGroup")) == 2 and reconciler.idle)
        opened, loop = Opened(cluster), asyncio.get_running_loop()
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", "demo-0-c"))
        cluster.put(CLIQUES, pod_clique("demo-0-c"))
        put_pods(cluster, *(pod(name, OURS, clique="demo-0-c") for name in "rs"))
        await until(lambda: len(cluster.live("PodGroup")) == 3)
        raised = loop.time()
        await until(lambda: sorted(opened.order) == ["r", "s"])
        assert "rollcall.dev/raised" in cluster.live("CompositePodGroup")["demo-0.composite"]["metadata"]["annotations"]
        assert SILENT_SECONDS - 1 < loop.time() - raised < SILENT_SECONDS + 2


async def test_a_tree_whose_workload_was_deleted_by_a_leader_that_died_keeps_released_minimums() -> None:
    cluster = Trees()
    async with running(cluster, settings=KUBE) as found:
        await until(lambda: len(cluster.live("PodGroup")) == 2 and found.idle)
        # Grove releases both members, which have to keep their minimums.
        cluster.apply(GANGS, podgang("demo-0-a", "demo-0-b", minimum=0))
        await until(lambda: found.idle)
        cluster.refusing = lambda change: change.startswith("apply")
        grown = podgang("demo-0-a", "demo-0-b", "demo-0-c", minimum=0)
        grown["spec"]["podgroups"][2]["minReplicas"] = 3
        cluster.apply(GANGS, grown)
        await until(lambda: cluster.live("Workload") == {})
    cluster.refusing = lambda _: False
    async with running(cluster, settings=KUBE) as found:
        await until(lambda: len(cluster.live("PodGroup")) == 3 and found.idle)
        assert cluster.wholes == ({"demo-0-a": 2, "demo-0-b": 2, "demo-0-c": 3}, 3)
        groups = cluster.live("PodGroup")
        assert [groups[f"demo-0-{one}"]["spec"]["schedulingPolicy"]["gang"]["minCount"] for one in "abc"] == [2, 2, 3]

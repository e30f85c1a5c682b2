"""The live facts of a server: watched kinds, readiness, and kinds that are added and removed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.played import PlayedClock
from tests.unit.backends.kube_gangs import BETA_TREE, TREE
from tests.unit.cluster.scripted import client, namespace, quota, running
from tests.unit.cluster.world import World
from tests.waiting import until
from webhook.backends.koordinator.gangs import ELASTIC_QUOTAS
from webhook.backends.kube.groups import GROUP_PODS, PROJECTIONS, GroupMembership
from webhook.backends.kube.workload_api import COMPOSITE, KubeSettings, served
from webhook.cluster.cluster_facts import LiveFacts
from webhook.cluster.watch import Watch
from webhook.model.facts import ClusterFacts
from webhook.model.keys import Api
from webhook.model.known_objects import Namespace, Quota
from webhook.model.nodes import NODES
from webhook.model.pod_groups import GroupPod
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS, PRIORITY_CLASSES, TOPOLOGY_BINDINGS, Projection

NAMESPACES = "/api/v1/namespaces"
PODS = "/api/v1/pods"
QUOTAS = "/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas"
GROVE = tuple(found.resource for found in (POD_CLIQUE_SETS, POD_GANGS, TOPOLOGY_BINDINGS, PRIORITY_CLASSES))


@asynccontextmanager
async def followed(
    world: World, projections: Sequence[Projection] = (ELASTIC_QUOTAS,)
) -> AsyncIterator[tuple[LiveFacts, list[ClusterFacts]]]:
    """Facts that follow `world`, and what they were each time they changed."""
    seen: list[ClusterFacts] = []
    live = LiveFacts(client(world), projections, seen.append, clock=PlayedClock())
    async with running(live.run()):
        yield live, seen


async def test_facts_of_served_kinds_are_known_and_others_unknown() -> None:
    world = World(*GROVE)
    world.put(NAMESPACES, namespace("a", x="1"))
    async with followed(world) as (live, seen):
        await until(lambda: live.facts.apis is not None and not list(live.unready()))
        assert live.facts.namespaces == {"a": Namespace({"x": "1"})}
        assert live.facts.pod_gangs == {}
        assert live.facts.elastic_quotas is None, "ElasticQuotas are not served"
        assert Api("grove.io", "v1alpha1", "PodCliqueSet") in (live.facts.apis or ())
        assert seen[-1] is live.facts


async def test_a_change_is_known_without_a_new_snapshot() -> None:
    world = World(*GROVE)
    async with followed(world) as (live, seen):
        # Also those for which a server does not wait.
        await until(lambda: live.watches and all(watch.filled for watch in live.watches.values()))
        snapshots = len(seen)
        await until(lambda: world._watchers.get(NAMESPACES))
        world.put(NAMESPACES, namespace("late"))
        await until(lambda: "late" in (live.facts.namespaces or {}))
        assert len(seen) == snapshots


async def test_an_added_kind_is_watched_and_a_removed_kind_is_unknown_again() -> None:
    world = World(*GROVE)
    async with followed(world) as (live, _):
        await until(lambda: not list(live.unready()))
        world.put(QUOTAS, quota("q", "a"))
        world.served.append(ELASTIC_QUOTAS.resource)
        await until(lambda: live.facts.elastic_quotas is not None)
        assert live.facts.elastic_quotas == {"q": Quota(is_parent=False)}
        world.served.remove(ELASTIC_QUOTAS.resource)
        await until(lambda: live.facts.elastic_quotas is None)
        assert ELASTIC_QUOTAS not in live.watches
        assert list(live.unready()) == []


async def test_without_a_cluster_the_reason_is_reported_until_one_is_reachable() -> None:
    world = World(*GROVE)
    world.failing = httpx.ConnectError("refused")
    async with followed(world) as (live, seen):
        await until(lambda: len(world.asked) > 3)
        (message,) = live.unready()
        assert "ConnectError: refused (https://cluster)" in message
        assert seen == []
        world.failing = None
        await until(lambda: live.facts.apis is not None and not list(live.unready()))


async def test_a_kind_that_cannot_be_listed_is_reported_by_name() -> None:
    world = World(*GROVE)
    async with followed(world) as (live, _):
        # Everything but discovery.
        await until(lambda: live.facts.apis is not None)
        world.failing = httpx.Response(403, json={"message": "no"})
        await until(lambda: len(world.asked) > 20)
        waiting = [told for told in live.unready() if "are not read yet: HTTP 403: no" in told]
        awaited = [watch for projection, watch in live.watches.items() if projection.awaited]
        assert len(waiting) + sum(watch.filled for watch in awaited) == len(awaited)


def group_pod(name: str, **fields: Any) -> dict[str, Any]:
    spec = {"schedulingGroup": {"podGroupName": "worker"}, **fields}
    return {"metadata": {"namespace": "default", "name": name}, "spec": spec}


async def test_only_pods_that_wait_in_a_group_are_watched() -> None:
    world = World(*GROVE)
    world.put(PODS, group_pod("a"))
    world.put(PODS, group_pod("b", schedulingGroup=None))
    async with followed(world, [GROUP_PODS]) as (live, _):
        await until(lambda: live.facts.group_pods is not None and world._watchers.get(PODS))
        known = live.facts.group_pods
        assert known == {("default", "a"): GroupPod(("default", GroupMembership("worker")), "default-scheduler")}
        assert world.selectors[PODS] == {"spec.nodeName="}, "both of the list and of the watch"
        world.tell(PODS, "ADDED", group_pod("c", schedulerName="batch-scheduler"))
        await until(lambda: ("default", "c") in known)
        leaving = group_pod("c", schedulerName="batch-scheduler")
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        world.tell(PODS, "MODIFIED", leaving)
        await until(lambda: ("default", "c") not in known)
        # As a pod leaves that is bound.
        world.tell(PODS, "DELETED", group_pod("a", nodeName="node-0"))
        await until(lambda: known == {})


async def test_a_server_without_the_right_to_list_pods_is_ready_and_knows_none() -> None:
    world = World(*GROVE)
    world.refused[PODS] = httpx.Response(403, json={"message": "no"})
    async with followed(world, [GROUP_PODS]) as (live, _):
        await until(lambda: live.facts.apis is not None and not list(live.unready()))
        await until(lambda: live.watches[GROUP_PODS].trouble == "HTTP 403: no")
        assert (list(live.unready()), live.facts.group_pods) == ([], None)
        del world.refused[PODS]
        await until(lambda: live.facts.group_pods == {})


async def test_a_server_without_the_right_to_list_nodes_is_ready_and_knows_none() -> None:
    world = World(*GROVE)
    world.refused["/api/v1/nodes"] = httpx.Response(403, json={"message": "no"})
    async with followed(world) as (live, _):
        await until(lambda: live.facts.apis is not None and not list(live.unready()))
        await until(lambda: live.watches[NODES].trouble == "HTTP 403: no")
        assert (list(live.unready()), live.facts.nodes) == ([], None)
        del world.refused["/api/v1/nodes"]
        await until(lambda: live.facts.nodes == {})


async def test_the_server_is_not_ready_between_discovery_and_the_first_lists() -> None:
    world = World(*GROVE)
    live = LiveFacts(client(world), [], lambda _: None)
    live._take(frozenset(resource.api for resource in GROVE))
    assert len(list(live.unready())) == len(GROVE) + 1, "and the namespaces, which are always served"
    for task in live._tasks.values():
        task.cancel()


# What an API server of 1.37 answers, and what one of 1.38 does.
OF_1_37 = TREE
OF_1_38 = TREE | BETA_TREE
LATE_1_38 = OF_1_38 - {COMPOSITE}


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([OF_1_38], "v1beta1"),
        ([OF_1_37, OF_1_38], "v1alpha3"),
        ([OF_1_37, LATE_1_38], "v1alpha3"),
        ([OF_1_37, OF_1_38, OF_1_37, OF_1_38, OF_1_37], "v1alpha3"),
        ([OF_1_37, OF_1_38, OF_1_38], "v1beta1"),
        ([OF_1_37, OF_1_38, OF_1_38, OF_1_37], "v1beta1"),
        ([OF_1_37, OF_1_38, OF_1_38, OF_1_37, OF_1_37, OF_1_38], "v1alpha3"),
    ],
    ids=["new", "once", "once, without the other", "by turns", "twice", "gone once", "gone twice"],
)
async def test_a_kind_moves_to_another_version_only_if_two_answers_in_a_row_have_it(
    answers: list[frozenset[Api]], expected: str
) -> None:
    live = LiveFacts(client(World(*GROVE)), PROJECTIONS, lambda _: None, general=())
    for answer in answers:
        live._take(answer)
    trees = [one.resource.api.version for one in live._tasks if one.resource.api.kind == COMPOSITE.kind]
    spoken = served(KubeSettings(), live.facts.apis)
    for task in live._tasks.values():
        task.cancel()
    assert spoken is not None
    assert (trees, spoken.composites) == ([expected], expected), "what is followed, and what is written"


async def test_a_discovery_fault_is_reported_and_retried() -> None:
    world = World(*GROVE)
    world.failing = ZeroDivisionError("our fault")
    async with followed(world) as (live, _):
        await until(lambda: len(world.asked) > 2)
        (message,) = live.unready()
        assert live.trouble is not None
        assert live.trouble in message
        assert "our fault" not in message
        world.failing = None
        await until(lambda: not list(live.unready()))


async def test_an_internal_error_makes_the_kind_unknown_and_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(*GROVE)
    faults = ["once"]
    run = Watch.run

    async def faulty(self: Watch) -> None:
        if self.index.projection is POD_GANGS and faults:
            faults.clear()
            raise ZeroDivisionError
        await run(self)

    monkeypatch.setattr(Watch, "run", faulty)
    async with followed(world) as (live, _):
        await until(lambda: live.facts.pod_gangs is not None and not list(live.unready()))
        assert faults == []

"""KAI's PodGroup is lost while its gang runs: it is written again with minimums that the pods on nodes meet, until none
is left. The annotation then goes too: tests/e2e/test_shape_changes.py.
"""

from __future__ import annotations

from typing import Any

from tests.unit.reconciler.cluster import PODS, SERVED, WritableWorld
from tests.unit.reconciler.grove import grove_pod
from tests.unit.reconciler.running_reconciler import SETS, put_gang, running, settled, workload
from tests.unit.worlds import settings_of
from tests.waiting import until
from webhook.backends.kai.keys import POD_GROUP, pod_group_name
from webhook.model.gang_objects import RESTORED_ANNOTATION
from webhook.model.projections import Resource

GROUPS = "/apis/scheduling.run.ai/v2alpha2/podgroups"
KAI = settings_of("kai-scheduler", {"defaultQueue": "queue"}, standalone=False)
CLIQUE_OF = {"one": "demo-0-a", "two": "demo-0-a", "three": "demo-0-b"}


def world() -> WritableWorld:
    """A gang that needs two pods of each of its two PodCliques."""
    cluster = WritableWorld(*SERVED, Resource(POD_GROUP, "podgroups"))
    cluster.put(SETS, workload(scheduler="kai-scheduler"))
    put_gang(cluster, "demo-0-a", "demo-0-b")
    return cluster


def running_pod(name: str) -> dict[str, Any]:
    pod = grove_pod(name, CLIQUE_OF[name])
    pod["spec"] |= {"nodeName": "node-1", "schedulerName": "kai-scheduler"}
    pod["metadata"]["annotations"] = {"pod-group-name": pod_group_name("team-a", "demo-0")}
    pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] = CLIQUE_OF[name]
    return pod


def minimums(cluster: WritableWorld) -> dict[str, int]:
    found = cluster.objects.get(GROUPS, [])
    return {one["name"]: one["minMember"] for group in found for one in group["spec"]["subGroups"]}


def is_marked(cluster: WritableWorld) -> bool:
    return any(RESTORED_ANNOTATION in one["metadata"].get("annotations", {}) for one in cluster.objects.get(GROUPS, []))


async def test_a_lost_pod_group_is_restored_until_no_pod_of_its_gang_is_on_a_node() -> None:
    cluster = world()
    for name in CLIQUE_OF:
        cluster.put(PODS, running_pod(name))
    async with running(cluster, settings=KAI) as found:
        await until(lambda: minimums(cluster) and found.idle)
        assert minimums(cluster) == {"demo-0-a": 2, "demo-0-b": 1}
        assert is_marked(cluster)
        cluster.remove(PODS, "team-a", "one")
        cluster.remove(PODS, "team-a", "two")
        await settled(found)
        assert is_marked(cluster), "a pod is still on a node"
        cluster.remove(PODS, "team-a", "three")
        await until(lambda: minimums(cluster) == {"demo-0-a": 2, "demo-0-b": 2})


async def test_a_pod_group_that_exists_is_not_restored() -> None:
    cluster = world()
    async with running(cluster, settings=KAI) as found:
        await until(lambda: minimums(cluster) and found.idle)
        for name in CLIQUE_OF:
            cluster.put(PODS, running_pod(name))
        found.following.look_at_all()
        await until(lambda: found.idle)
        assert minimums(cluster) == {"demo-0-a": 2, "demo-0-b": 2}
        assert not is_marked(cluster)


async def test_a_gang_that_waits_gets_its_own_minimums() -> None:
    cluster = world()
    async with running(cluster, settings=KAI) as found:
        await until(lambda: minimums(cluster) and found.idle)
        assert minimums(cluster) == {"demo-0-a": 2, "demo-0-b": 2}
        assert not is_marked(cluster)

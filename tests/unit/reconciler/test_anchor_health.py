"""The health of gangs that start after an anchor: the watch judges them again whenever the anchor changes."""

from __future__ import annotations

from typing import Any

from tests.unit.reconciler.cluster import POD_GROUPS, PODS, SERVED, WritableWorld
from tests.unit.reconciler.grove import CLIQUES, grove_pod, pod_clique, put_pods
from tests.unit.reconciler.running_reconciler import GANGS, SETS, podgang, running, workload
from tests.waiting import until
from webhook.gangs.health import GangHealth
from webhook.gangs.key import GangKey
from webhook.gangs.pod_reasons import Anchors
from webhook.model.pod_gang_map import POD_GANG_MAPS
from webhook.reconciler.manager import Reconciler

MAPS = "/apis/grove.io/v1alpha1/podgangmaps"
TAIL, ANCHOR = "demo-0-101-b-1", "demo-0-100"
GATED: dict[str, Any] = {"schedulingGates": [{"name": "grove.io/podgang-pending-creation"}]}
MAP = {
    "metadata": {"name": "demo-0", "namespace": "team-a"},
    "spec": {
        "entries": [
            {"role": "Anchor", "epoch": "100", "podCliques": {"a": 1}},
            {"role": "Tail", "epoch": "101", "pcsgReplicaIndices": {"b": [1]}, "dependsOn": ["100"]},
        ]
    },
}


def gang(name: str, member: str) -> dict[str, Any]:
    found = podgang(member, minimum=1)
    labels = {**found["metadata"]["labels"], "grove.io/podcliqueset-replica-index": "0"}
    found["metadata"] |= {"name": name, "uid": f"gang-{name}", "labels": labels}
    return found


def two_gangs() -> WritableWorld:
    cluster = WritableWorld(*SERVED, POD_GROUPS, POD_GANG_MAPS.resource)
    cluster.put(SETS, workload())
    cluster.put(MAPS, MAP)
    for member in ("demo-0-a", "demo-0-b-1-c"):
        cluster.put(CLIQUES, pod_clique(member))
    cluster.put(GANGS, gang(ANCHOR, "demo-0-a"))
    cluster.put(GANGS, gang(TAIL, "demo-0-b-1-c"))
    put_pods(cluster, grove_pod("two", "demo-0-b-1-c", TAIL, **GATED))
    return cluster


def first(found: Reconciler, name: str) -> str:
    health = found.health.judgement(GangKey("team-a", name))
    return "" if health is None or not health.obstacles else f"{health.obstacles[0].reason}: {health.obstacles[0].why}"


async def test_a_tail_has_the_reason_of_its_anchor_until_the_anchor_has_started() -> None:
    cluster = two_gangs()
    async with running(cluster) as found:
        behind = "GangTooFewPods: demo-0-a has 0 pods of the 1 that it needs to start"
        expected = f"GangWaitsForAnchor: it waits for its anchor demo-0-100, which is held: {behind}"
        await until(lambda: first(found, TAIL) == expected)
        put_pods(cluster, grove_pod("one", "demo-0-a", ANCHOR, **GATED))
        await until(lambda: "demo-0-100, which is held: GangPodsEscaped: 1 pod (one) bypassed" in first(found, TAIL))
        bound = grove_pod("one", "demo-0-a", ANCHOR, nodeName="n")
        cluster.objects[PODS] = [one for one in cluster.objects[PODS] if one["metadata"]["name"] != "one"]
        cluster.tell(PODS, "MODIFIED", bound)
        await until(lambda: first(found, TAIL).startswith("GangPodsEscaped: "))


async def test_while_grove_migrates_the_set_both_gangs_say_so() -> None:
    cluster = two_gangs()
    async with running(cluster) as found:
        await until(lambda: first(found, TAIL).startswith("GangWaitsForAnchor: "))
        condition = {"type": "PodGangMigrationInProgress", "status": "True"}
        migrating = {"metadata": {"name": "demo", "namespace": "team-a"}, "status": {"conditions": [condition]}}
        cluster.apply(SETS, migrating)
        await until(lambda: [first(found, name)[:14] for name in (ANCHOR, TAIL)] == ["GangMigrating:"] * 2)
        cluster.apply(SETS, {**migrating, "status": {"conditions": []}})
        await until(lambda: first(found, TAIL).startswith("GangWaitsForAnchor: "))


async def test_an_internal_error_with_an_anchor_stops_nothing() -> None:
    cluster = two_gangs()
    async with running(cluster) as found:
        await until(lambda: first(found, TAIL).startswith("GangWaitsForAnchor: "))
        health, asked = found.health._judging._health, list[GangKey]()

        def broken(key: GangKey, anchors: Anchors | None) -> GangHealth | None:
            if key.name == ANCHOR and anchors is None:
                asked.append(key)
                raise RuntimeError("ours")
            return health(key, anchors)

        found.health._judging._health = broken
        found.health.mark(GangKey("team-a", ANCHOR))
        await until(lambda: asked)
        found.health._judging._health = health
        put_pods(cluster, grove_pod("one", "demo-0-a", ANCHOR, **GATED))
        await until(lambda: "GangPodsEscaped" in first(found, TAIL))

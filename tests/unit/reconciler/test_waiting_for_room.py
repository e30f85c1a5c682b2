"""Gangs that wait for room, as the reconciler counts and reports them: a proof, and the pods on nodes that an estimate
needs.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.texts import Text
from tests.unit.gangs.judged_gangs import FACTS
from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.grove import grove_pod, put_pods
from tests.unit.reconciler.running_reconciler import GROUPS, names, running, sample, world
from tests.unit.worlds import koordinator
from tests.waiting import until
from webhook.model.keys import Record
from webhook.model.pod_template import Pod
from webhook.mutators.prepare_pod import prepare_pod
from webhook.reconciler.manager import Reconciler
from webhook.validators.examples import GPU, node

NODES = "/api/v1/nodes"
NO_ROOM = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
NEVER = {"scheduler": "koord-scheduler", "scope": "theseNodes", "family": "total"}


def waiting(name: str) -> dict[str, Any]:
    """A prepared pod of eight GPUs that koord-scheduler has no node for."""
    resources = {"limits": {GPU: "8"}, "requests": {GPU: "8"}}
    raw = grove_pod(name, containers=[{"name": "main", "resources": resources}])
    profile = koordinator(standalone=False).profiles["koord-scheduler"]
    member = profile.member("team-a", "demo-0", "demo-0-a", Record("koord-scheduler"), FACTS)
    prepare_pod(Pod(raw), profile, member)
    return {**raw, "status": {"phase": "Pending", "conditions": [NO_ROOM]}}


def put_node(cluster: WritableWorld, name: str) -> None:
    raw = node(name, 8)
    raw["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    cluster.put(NODES, raw)


def cluster_with_nodes(*names: str) -> WritableWorld:
    cluster = world("demo-0-a")
    for name in names:
        put_node(cluster, name)
    return cluster


def health(found: Reconciler) -> str | None:
    (key,) = found.following.gangs
    known = found.health.judgement(key)
    return None if known is None else known.word


async def test_a_gang_that_never_fits_is_counted_and_reported_until_a_node_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = cluster_with_nodes("node-1")
    put_pods(cluster, waiting("one"), waiting("two"))
    async with running(cluster) as found:
        await until(lambda: sample(found, "rollcall_gangs_never_fit", **NEVER) == 1)
        await until(lambda: "GangNeverFits" in [event["reason"] for event in cluster.events])
        (event,) = [event for event in cluster.events if event["reason"] == "GangNeverFits"]
        assert event["note"] == Text(
            "never", ": 2 pods of 8 nvidia.com/gpu; 1 node of 8 takes one; ", "demo-0-a to 1 pod (also: GangNoRoom)"
        )
        put_node(cluster, "node-2")
        await until(lambda: sample(found, "rollcall_gangs_never_fit", **NEVER) == 0)
        assert health(found) == "GangNoRoom"


async def test_the_pods_on_nodes_are_read_only_once_a_gang_has_no_room() -> None:
    cluster = cluster_with_nodes("node-1", "node-2")
    other = grove_pod("busy", "other-0-a", "other-0", nodeName="node-1", containers=waiting("x")["spec"]["containers"])
    cluster.put(PODS, {**other, "status": {"phase": "Running"}})
    async with running(cluster) as found:
        await until(lambda: found.idle and not any(found.following.unseen()))
        selector = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        assert selector not in cluster.selectors[PODS]
        put_pods(cluster, waiting("one"), waiting("two"))
        await until(lambda: selector in cluster.selectors[PODS])
        (key,) = found.following.gangs

        def why() -> str:
            known = found.health.judgement(key)
            return "" if known is None else known.why

        await until(lambda: why().startswith("by an estimate "))
        assert why() == Text(": 2 pods of 8 nvidia.com/gpu; 1 node of 8 takes one; ", "1 pod")


async def test_a_gang_that_its_scheduler_started_before_is_not_called_never() -> None:
    cluster = cluster_with_nodes("node-1")
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["demo-0-a"] and found.idle)
        group = cluster.objects[GROUPS][0]
        group |= {"status": {"phase": "Scheduled"}}
        cluster.tell(GROUPS, "MODIFIED", group)
        put_pods(cluster, waiting("one"), waiting("two"))
        await until(lambda: health(found) == "GangNoRoom")
        assert sample(found, "rollcall_gangs_never_fit", **NEVER) == 0

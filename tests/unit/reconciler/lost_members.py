"""A gang that loses its second pod, and what the reconciler stores of it."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.grove import grove_pod, put_pods
from tests.unit.reconciler.running_reconciler import sample, world
from tests.waiting import until
from webhook.reconciler.manager import Reconciler

NODES, MAPS = "/api/v1/nodes", "/api/v1/configmaps"
SYSTEM = {"lease_namespace": "rollcall-system"}


def pod(name: str, node: str = "n1") -> dict[str, Any]:
    limits = {"resources": {"limits": {"nvidia.com/gpu": "4"}}}
    found = grove_pod(name, nodeName=node, containers=[{"name": "main", **limits}])
    found["metadata"] |= {"resourceVersion": "7", "creationTimestamp": "2026-09-01T12:00:00Z"}
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-09-01T12:00:00Z"}
    found["status"] = {"conditions": [placed]}
    return found


def started() -> WritableWorld:
    """A gang of two pods, each on a node of its own."""
    cluster = world("demo-0-a")
    for node in ("n1", "n2"):
        cluster.put(NODES, {"metadata": {"name": node}})
    put_pods(cluster, pod("one"), pod("two", "n2"))
    return cluster


async def whole(found: Reconciler, gangs: int = 1) -> None:
    labels = {"scheduler": "koord-scheduler", "health": "started"}
    await until(lambda: sample(found, "rollcall_gangs", **labels) == gangs)


def change(cluster: WritableWorld, name: str, **parts: Any) -> None:
    """The pod of that name changes."""
    raw = cluster.get(PODS, "team-a", name)
    assert raw is not None
    for part, value in parts.items():
        raw[part] = {**raw.get(part, {}), **value}
    cluster.tell(PODS, "MODIFIED", raw)


def take(cluster: WritableWorld, reason: str) -> None:
    """A controller says why it takes the second pod away, and deletes it."""
    change(cluster, "two", status={"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]})
    change(cluster, "two", metadata={"deletionTimestamp": "2026-09-01T12:00:00Z"})


def stored(cluster: WritableWorld) -> list[Any]:
    """What is stored of each gang. A record begins with the key of its gang, which is a list."""
    texts = [one["data"].get("losses", "") for one in cluster.objects.get(MAPS, [])]
    return [json.loads(line) for text in texts for line in text.splitlines() if line.startswith("[[")]


def lost(cluster: WritableWorld) -> list[tuple[str, str, str]]:
    """Each lost pod that is stored, with its cause and node."""
    return [(name, cause, node) for record in stored(cluster) for name, cause, _, node in record[3]]


def delete(cluster: WritableWorld) -> None:
    cluster.remove(PODS, "team-a", "two")

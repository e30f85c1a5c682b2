"""Runs the reconciler against a simulated cluster and observes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from typing import Any

from tests.played import PlayedClock
from tests.series import value
from tests.unit.cluster.scripted import NO_TLS
from tests.unit.reconciler import grove
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.worlds import koordinator
from tests.waiting import until
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.cluster.clock import Clock
from webhook.reconciler.manager import Reconciler
from webhook.validators.examples import clique

SETS, GANGS, GROUPS = (
    "/apis/grove.io/v1alpha1/podcliquesets",
    grove.GANGS,
    "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups",
)

# No connection is ever made. Reading the authorities of the system takes a while.
NOWHERE = Access("https://cluster", NO_TLS, lambda: None)


def workload(namespace: str = "team-a", scheduler: str = "koord-scheduler") -> dict[str, Any]:
    labels = {"rollcall.dev/scheduler": scheduler}
    metadata = {"name": "demo", "namespace": namespace, "uid": f"set-{namespace}", "labels": labels}
    return {"metadata": metadata, "spec": {"replicas": 1, "template": {"cliques": [clique("a"), clique("b")]}}}


def podgang(*members: str, namespace: str = "team-a", minimum: int = 2) -> dict[str, Any]:
    return {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {
            "name": "demo-0",
            "namespace": namespace,
            "uid": f"gang-{namespace}",
            "labels": {"app.kubernetes.io/part-of": "demo"},
            "ownerReferences": grove.controlled_by("PodCliqueSet", "demo", f"set-{namespace}"),
        },
        "spec": {"podgroups": [{"name": name, "minReplicas": minimum, "podReferences": []} for name in members]},
    }


def world(*members: str) -> WritableWorld:
    found = WritableWorld()
    found.put(SETS, workload())
    put_gang(found, *(members or ("demo-0-a", "demo-0-b")))
    return found


def put_gang(cluster: WritableWorld, *members: str) -> None:
    """The PodGang of these members, and their PodCliques."""
    grove.put_with_cliques(cluster, podgang(*members))


def at_once(client: Client) -> Client:
    """The client without credentials: these are read in a thread, and how long that takes depends on the machine."""
    client._credentials = (None, inf)
    return client


def reconciler(cluster: WritableWorld, *, clock: Clock | None = None, **options: Any) -> Reconciler:
    settings = options.pop("settings", None) or koordinator(standalone=False)
    found = Reconciler(settings, NOWHERE, transport=cluster, clock=clock or PlayedClock(), **options)
    for client in (found.following.client, found.following.live._client):
        at_once(client)
    return found


@asynccontextmanager
async def running(cluster: WritableWorld, **options: Any) -> AsyncIterator[Reconciler]:
    found = reconciler(cluster, **options)
    task = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def looked(part: Any, times: int) -> None:
    """Wait until a part of the reconciler has looked this many more times."""
    done, again = 0, part.look

    async def look() -> None:
        nonlocal done
        await again()
        done += 1

    part.look = look
    await until(lambda: done >= times)
    part.look = again


async def settled(found: Reconciler) -> None:
    """Wait until every event is processed and every gang was reconciled once more."""
    await until(lambda: found.idle and not any(found.following.unseen()))
    before = sample(found, "rollcall_reconciled_total", outcome="inStep")
    found.following.look_at_all()
    await until(lambda: sample(found, "rollcall_reconciled_total", outcome="inStep") > before and found.idle)


def names(cluster: WritableWorld) -> list[str]:
    return sorted(found["metadata"]["name"] for found in cluster.objects.get(GROUPS, []))


def sample(found: Reconciler, name: str, **labels: str) -> float:
    return value(found.metrics.registry, name, **labels) or 0.0

"""Runs the reconciler against a simulated cluster and observes it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.unit.reconciler import grove
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.worlds import koordinator
from webhook.cluster.access import Access
from webhook.reconciler import health_watch
from webhook.reconciler.run import Reconciler
from webhook.validators.examples import clique

SETS, GANGS, GROUPS = (
    "/apis/grove.io/v1alpha1/podcliquesets",
    grove.GANGS,
    "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups",
)


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
    cluster.put(GANGS, podgang(*members))
    for member in members:
        cluster.put(grove.CLIQUES, grove.pod_clique(member))


def reconciler(cluster: WritableWorld, **options: Any) -> Reconciler:
    access = Access("https://cluster", ssl.create_default_context(), lambda: None)
    settings = options.pop("settings", None) or koordinator(standalone=False)
    return Reconciler(settings, access, transport=cluster, **options)


@asynccontextmanager
async def running(cluster: WritableWorld, **options: Any) -> AsyncIterator[Reconciler]:
    found = reconciler(cluster, **options)
    task = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def running_written(cluster: WritableWorld, **options: Any) -> AsyncIterator[Reconciler]:
    """As `running`, from when everything is read and written: what holds a gang is told only from then on, so that a
    test that counts what is told does not count what a slow machine was about to write.
    """
    hurried = health_watch.SETTLE_SECONDS
    health_watch.SETTLE_SECONDS = 3600.0
    try:
        async with running(cluster, **options) as found:
            await until(lambda: found.idle and not any(found.following.unseen()))
            health_watch.SETTLE_SECONDS = hurried
            yield found
    finally:
        health_watch.SETTLE_SECONDS = hurried


async def until(probe: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not probe():
            await asyncio.sleep(0.005)


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
    return found.metrics.registry.get_sample_value(name, labels) or 0.0

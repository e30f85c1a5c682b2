"""`rollcall reconcile --once` on a cluster that answers slowly: what is not read yet is no reason to give up."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.played import elapse
from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.cluster import PODS, WritableWorld
from tests.unit.reconciler.grove import CLIQUES, grove_pod, put_pods
from tests.unit.reconciler.running_reconciler import SETS, names, put_gang, reconciler, running, sample, workload
from tests.waiting import until
from webhook.reconciler import manager
from webhook.reconciler import work_queue as queues
from webhook.reconciler.manager import UNREAD_SECONDS, Reconciler, reconcile_once


class SlowWorld(WritableWorld):
    """A cluster with a gang and its pod. `waiting` are the requests for one kind, until `hurry`."""

    def __init__(self, slow: str) -> None:
        super().__init__()
        self.waiting: list[asyncio.Event] = []
        self._slow: str | None = slow
        # What no write needs is not waited for.
        self.refused["/api/v1/nodes"] = httpx.Response(403, json=failure(403, "forbidden"))
        self.put(SETS, workload())
        put_gang(self, "demo-0-a")
        put_pods(self, grove_pod("one"))

    def hurry(self) -> None:
        """Answer everything, also in future."""
        self._slow = None
        for one in self.waiting:
            one.set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The answer, in time."""
        if request.method == "GET" and request.url.path == self._slow:
            self.waiting.append(asyncio.Event())
            await self.waiting[-1].wait()
        return await super().handle_async_request(request)


@pytest.mark.parametrize("slow", [SETS, PODS, CLIQUES])
async def test_a_gang_that_failed_while_a_kind_was_read_is_written_as_soon_as_it_is(
    slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other changes made it fail more often than a gang may, and its next try by itself is far away."""
    monkeypatch.setattr(queues, "BACKOFF_SECONDS", (3600.0, 3600.0))
    # Gangs are tried before everything is read.
    monkeypatch.setattr(manager, "MOST_UNREAD_SECONDS", 0.0)
    looks = list[bool]()
    hopeless = manager._hopeless

    def looked(found: Reconciler, seconds: float) -> bool:
        looks.append(hopeless(found, seconds))
        return looks[-1]

    monkeypatch.setattr(manager, "_hopeless", looked)
    cluster = SlowWorld(slow)
    found = reconciler(cluster)
    once = asyncio.create_task(reconcile_once(found))

    async def fail_again() -> None:
        def failures() -> float:
            return sample(found, "rollcall_reconciled_total", outcome="failed")

        before = failures()
        found.following.look_at_all()
        await until(lambda: failures() > before or once.done())

    async def patient() -> None:
        """`once` has looked whether to give up, and goes on."""
        looks.clear()
        await until(lambda: len(looks) > 1 or once.done())
        assert not any(looks)

    await until(lambda: found.following.gangs)
    while not found.queue.stuck and not once.done():
        await fail_again()
    await patient()
    # The facts read PodCliqueSets, too, each on its own.
    cluster.waiting[0].set()
    await patient()
    cluster.hurry()
    await once
    assert names(cluster) == ["demo-0-a"]


@pytest.mark.parametrize("slow", [SETS, PODS, CLIQUES])
async def test_no_gang_is_tried_while_a_kind_is_read_whatever_else_is_refused(slow: str) -> None:
    cluster = SlowWorld(slow)
    async with running(cluster) as found:
        await until(lambda: found.following.gangs and cluster.waiting)
        await until(lambda: "HTTP 403: forbidden" in [watch.trouble for watch in found.following.watches()])
        await elapse(3 * UNREAD_SECONDS)
        assert not found.following.is_troubled
        assert [sample(found, "rollcall_reconciled_total", outcome=one) for one in ("failed", "written")] == [0, 0]
        cluster.hurry()
        await until(lambda: names(cluster) == ["demo-0-a"])

"""The reconciler with an overloaded API server, with objects of an earlier PodGang, and beside a second reconciler."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.unit.backends.pod_gangs import POD_GANG_OWNER
from tests.unit.cluster.scripted import failure
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.grove import put_with_cliques
from tests.unit.reconciler.running_reconciler import (
    GANGS,
    GROUPS,
    SETS,
    names,
    podgang,
    reconciler,
    running,
    sample,
    workload,
    world,
)
from tests.waiting import until


async def test_retry_after_of_the_api_server_delays_all_gangs() -> None:
    cluster = WritableWorld()
    for number in range(40):
        gang = podgang(f"demo-{number}-a")
        gang["metadata"] |= {"name": f"demo-{number}", "uid": f"u-{number}"}
        put_with_cliques(cluster, gang)
    cluster.put(SETS, workload())
    throttled = httpx.Response(429, json=failure(429, "slow down"), headers={"retry-after": "1"})
    sent: list[float] = []

    def for_a_second(_: httpx.Request) -> httpx.Response | None:
        sent.append(asyncio.get_running_loop().time())
        if sent[-1] - sent[0] >= 1:
            return None
        return httpx.Response(429, content=throttled.content, headers=throttled.headers)

    cluster.answering = for_a_second
    async with running(cluster) as found:
        await until(lambda: len(names(cluster)) == 40)
        assert sample(found, "rollcall_retries_total", why="throttled") > 0
        # Only the writes that were already sent when the first one was answered.
        assert sum(one - sent[0] < 1 for one in sent) <= 8


class Listing(WritableWorld):
    """Lists are answered, watches not before `watching`."""

    watching = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.params.get("watch") and not self.watching:
            return httpx.Response(500, json=failure(500, "etcd is away"))
        return await super().handle_async_request(request)


async def test_an_interrupted_watch_is_counted_until_it_works_again() -> None:
    cluster = Listing()
    async with running(cluster) as found:
        await until(lambda: sample(found, "rollcall_watches_interrupted") > 5)
        cluster.watching = True
        await until(lambda: sample(found, "rollcall_watches_interrupted") == 0)


async def test_a_podgang_waits_without_an_event_for_objects_of_an_earlier_one_with_its_name() -> None:
    cluster = world("demo-0-a")
    left = {
        "name": "demo-0-a",
        "namespace": "team-a",
        "uid": "old",
        "ownerReferences": [{**POD_GANG_OWNER, "uid": "the-one-before"}],
    }
    cluster.put(GROUPS, {"metadata": left})
    async with running(cluster) as found:
        await until(lambda: sample(found, "rollcall_reconciled_total", outcome="waiting") > 0)
        assert (cluster.writes, cluster.events) == ([], [])
        cluster.remove(GROUPS, "team-a", "demo-0-a")
        await until(lambda: cluster.writes != [])


GONE = failure(404, 'podgroups.scheduling.sigs.k8s.io "demo-0-b" not found') | {"details": {"name": "demo-0-b"}}


@pytest.mark.parametrize(
    ("answer", "deleted"),
    [
        (httpx.Response(404, json=GONE), True),
        (httpx.Response(404, content="404 page not found\n"), False),
        (httpx.Response(404, json=failure(404, "the server could not find the requested resource")), False),
    ],
    ids=["the object is missing", "the group is not served", "the version is not served"],
)
async def test_only_an_answer_about_the_object_shows_that_it_is_gone(answer: httpx.Response, deleted: bool) -> None:
    cluster = world()
    async with running(cluster) as found:
        await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"] and found.idle)
        missing = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/team-a/podgroups/demo-0-b"
        cluster.answering = lambda request: answer if request.url.path == missing else None
        # Koordinator's members list each other, so both are deleted first.
        cluster.apply(GANGS, podgang("demo-0-a"))
        await until(lambda: cluster.writes.count(("DELETE", missing)) > 2)
        failed = sample(found, "rollcall_reconciled_total", outcome="refused")
        assert (failed == 0) == deleted
        assert [one["reason"] for one in cluster.events] == ([] if deleted else ["GangObjectRefused"])


def test_two_reconcilers_with_one_process_id_on_one_host_have_different_identities() -> None:
    first, second = (reconciler(world(), lease_namespace="system").lease for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.identity != second.identity

"""Leader election by Lease, against a simulated API server for one object, with versions and conflicts."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from tests.played import PlayedClock
from tests.unit.cluster.scripted import client, failure
from tests.waiting import until
from webhook.reconciler.lease import LEASE_SECONDS, RENEW_SECONDS, Lease
from webhook.reconciler.metrics import ReconcilerMetrics

NAME = "rollcall-reconciler"
HOUR, DAY = 3600.0, 86400.0


class Cluster(httpx.AsyncBaseTransport):
    """One Lease. `failing` answers in its place; `slow` are seconds before an answer."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.failing: tuple[int, Any] | None = None
        self.writes = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.failing is not None:
            code, body = self.failing
            return httpx.Response(code, json=body)
        if request.method == "GET":
            if self.lease is None:
                return httpx.Response(404, json=failure(404, "not found"))
            return httpx.Response(200, json=self.lease)
        body = json.loads(request.content)
        stale = self.lease is not None and body["metadata"].get("resourceVersion") != str(self.version)
        if stale or (request.method == "POST" and self.lease is not None):
            return httpx.Response(409, json=failure(409, "the object has been modified"))
        self.version += 1
        self.writes += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body
        return httpx.Response(200, json=body)

    @property
    def holder(self) -> str:
        assert self.lease is not None
        return str(self.lease["spec"]["holderIdentity"])


class Counted(httpx.AsyncBaseTransport):
    """Sends the requests of one process to the cluster and counts them."""

    def __init__(self, cluster: Cluster) -> None:
        self.requests = 0
        self._cluster = cluster

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        return await self._cluster.handle_async_request(request)


class Replica:
    """A process that tries to get the lease. `told` are the changes that it was told."""

    def __init__(self, cluster: Cluster, identity: str) -> None:
        self.metrics = ReconcilerMetrics()
        self.told: list[bool] = []
        self.transport = Counted(cluster)
        self.clock = PlayedClock()
        self.lease = Lease(
            client(self.transport), "system", NAME, identity, self.metrics, self.told.append, clock=self.clock
        )
        self.task = asyncio.create_task(self.lease.run())

    async def stop(self, *, killed: bool = False) -> None:
        if killed:
            # Like a machine that loses power: no release, no message.
            self.lease._renewed = None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_one_of_two_leads_and_releases_the_lease_at_its_stop() -> None:
    cluster = Cluster()
    first = Replica(cluster, "first")
    await until(first.lease.leads)
    second = Replica(cluster, "second")
    await until(lambda: second.transport.requests > 3)
    assert (cluster.holder, second.lease.leads(), second.told) == ("first", False, [])
    await first.stop()
    assert cluster.holder == ""
    assert first.told == [True, False]
    await until(second.lease.leads)
    assert cluster.lease is not None
    assert cluster.lease["spec"]["leaseTransitions"] == 1
    await second.stop()


async def test_a_killed_leader_is_replaced_when_its_lease_expires() -> None:
    cluster = Cluster()
    first = Replica(cluster, "first")
    await until(first.lease.leads)
    await first.stop(killed=True)
    second = Replica(cluster, "second")
    begun = asyncio.get_running_loop().time()
    await until(second.lease.leads)
    # From when it was first seen, by its own clock: what the record says of the time may be wrong.
    assert asyncio.get_running_loop().time() - begun >= LEASE_SECONDS
    await second.stop()


async def test_a_leader_that_cannot_renew_stops_writing_before_another_can_start() -> None:
    cluster = Cluster()
    first = Replica(cluster, "first")
    await until(first.lease.leads)
    cluster.failing = (500, failure(500, "etcd is away"))
    begun = asyncio.get_running_loop().time()
    await until(lambda: not first.lease.leads())
    assert asyncio.get_running_loop().time() - begun < LEASE_SECONDS
    await until(lambda: first.told == [True, False])
    assert first.metrics.registry.get_sample_value("rollcall_lease_lost_total") == 1
    cluster.failing = None
    await until(first.lease.leads)
    await first.stop()


async def test_a_leader_that_renews_too_late_checks_everything_again() -> None:
    """Like a process that was frozen for a while: no other process took the lease, and no process worked."""
    cluster = Cluster()
    first = Replica(cluster, "first")
    await until(first.lease.leads)
    first.clock.move(RENEW_SECONDS)
    assert not first.lease.leads()
    await until(lambda: first.told == [True, True])
    assert first.lease.leads()
    assert first.metrics.registry.get_sample_value("rollcall_lease_lost_total") == 0
    await first.stop()


@pytest.mark.parametrize("seconds", [-30 * DAY, -HOUR, -60.0, 60.0, HOUR, 30 * DAY])
async def test_a_date_that_jumps_makes_no_second_leader_and_ends_no_lease(seconds: float) -> None:
    cluster = Cluster()
    first = Replica(cluster, "first")
    await until(first.lease.leads)
    second = Replica(cluster, "second")
    await until(lambda: second.transport.requests > 3)
    first.clock.jump(seconds)
    second.clock.jump(-seconds)
    renewed = cluster.writes
    await until(lambda: cluster.writes > renewed + 1)
    assert (first.lease.leads(), second.lease.leads(), cluster.holder) == (True, False, "first")
    assert first.metrics.registry.get_sample_value("rollcall_lease_lost_total") == 0
    await first.stop()
    await until(second.lease.leads)
    await second.stop()


async def test_a_leader_that_slept_with_its_machine_does_not_write_when_it_wakes() -> None:
    """Its monotonic clock has not counted the sleep, in which another process may have begun to lead."""
    cluster = Cluster()
    first = Replica(cluster, "first")
    await until(first.lease.leads)
    first.clock.jump(RENEW_SECONDS)
    assert not first.lease.leads()
    # It finds the lease its own, so it goes on, and looks at everything again.
    await until(lambda: first.told == [True, True])
    assert first.lease.leads()
    await first.stop()


async def test_a_leader_whose_date_jumps_there_and_back_checks_everything_again() -> None:
    """Between two renewals no process worked, so what was due then was dropped."""
    cluster = Cluster()
    first = Replica(cluster, "first")
    await until(first.lease.leads)
    first.clock.jump(HOUR)
    assert not first.lease.leads()
    first.clock.jump(-HOUR)
    assert first.lease.leads()
    await until(lambda: first.told == [True, True])
    await first.stop()


async def test_a_leader_whose_lease_was_taken_stops_at_once() -> None:
    cluster = Cluster()
    first = Replica(cluster, "first")
    await until(first.lease.leads)
    assert cluster.lease is not None
    cluster.lease["spec"]["holderIdentity"] = "thief"
    cluster.version += 1
    cluster.lease["metadata"]["resourceVersion"] = str(cluster.version)
    await until(lambda: first.told == [True, False])
    assert not first.lease.leads()
    await first.stop()
    assert cluster.holder == "thief", "what is another's is not given up"


async def test_of_two_processes_that_request_a_free_lease_at_once_one_gets_it() -> None:
    cluster = Cluster()
    both = [Replica(cluster, "first"), Replica(cluster, "second")]
    await until(lambda: any(one.lease.leads() for one in both))
    await until(lambda: all(one.transport.requests > 5 for one in both))
    assert sum(one.lease.leads() for one in both) == 1
    for one in both:
        await one.stop()

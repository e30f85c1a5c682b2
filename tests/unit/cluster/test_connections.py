"""How many connections to the API server are used at once, and which requests wait for one."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.unit.cluster.scripted import client
from webhook.backends.koordinator.gangs import ELASTIC_QUOTAS
from webhook.cluster import requests
from webhook.cluster.client import ANSWER_SECONDS, REQUESTS_AT_ONCE, Client
from webhook.cluster.cluster_facts import Discovery, Lookup, Schemas
from webhook.errors import FactsUnavailable, RequestFailed
from webhook.model.keys import Needed
from webhook.workloads.known_workloads import GENERAL

# What 32 reviews may ask for at once.
READS = 32 * 8


class Slow(httpx.AsyncBaseTransport):
    """Answers when the test lets it. A watch is answered at once."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.full = asyncio.Event()
        self.answering = self.most = self.answered = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The answer, once it may be given."""
        if "watch" in request.url.params:
            return httpx.Response(200, content=b"{}\n")
        self.answering += 1
        self.most = max(self.most, self.answering)
        if self.answering == REQUESTS_AT_ONCE:
            self.full.set()
        try:
            await self.open.wait()
        finally:
            self.answering -= 1
        self.answered += 1
        return httpx.Response(200, json={})


def read(asked: Client, number: int) -> asyncio.Task[object]:
    return asyncio.create_task(asked.get(requests.read(ELASTIC_QUOTAS.resource, f"quota-{number}", "team-a")))


async def let_go(tasks: list[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_reads_wait_for_a_connection_and_each_is_answered() -> None:
    slow = Slow()
    asked = client(slow)
    tasks = [read(asked, number) for number in range(READS)]
    await slow.full.wait()
    slow.open.set()
    await asyncio.gather(*tasks)
    assert (slow.most, slow.answered) == (REQUESTS_AT_ONCE, READS)


async def test_a_watch_needs_no_free_connection() -> None:
    slow = Slow()
    asked = client(slow)
    tasks = [read(asked, number) for number in range(READS)]
    await slow.full.wait()
    watch = requests.watch(ELASTIC_QUOTAS.resource, "5", 60, None, None)
    lines = [line async for line in asked.lines(watch)]
    assert slow.answered == 0
    await let_go(tasks)
    assert lines == [b"", b"{}"]


async def test_a_cancelled_read_releases_its_slot() -> None:
    slow = Slow()
    asked = client(slow)
    tasks = [read(asked, number) for number in range(READS)]
    await slow.full.wait()
    await let_go(tasks)
    slow.open.set()
    await asyncio.gather(*(read(asked, number) for number in range(REQUESTS_AT_ONCE)))
    assert slow.answered == REQUESTS_AT_ONCE


async def test_a_request_without_a_free_slot_fails() -> None:
    slow = Slow()
    asked = client(slow)
    tasks = [read(asked, number) for number in range(REQUESTS_AT_ONCE)]
    await slow.full.wait()
    with pytest.raises(RequestFailed, match=f"^not sent: .*{REQUESTS_AT_ONCE}.*{ANSWER_SECONDS:g} s"):
        await read(asked, REQUESTS_AT_ONCE)
    await let_go(tasks)


async def test_a_fact_whose_read_gets_no_slot_is_unavailable() -> None:
    slow = Slow()
    asked = client(slow)
    tasks = [read(asked, number) for number in range(REQUESTS_AT_ONCE)]
    await slow.full.wait()
    lookup = Lookup(asked, (*GENERAL, ELASTIC_QUOTAS), Discovery(asked), Schemas(asked, ()))
    with pytest.raises(FactsUnavailable, match="no answer in time"):
        await lookup.find([Needed("pod_clique_sets", ("team-a", "demo"))], 5)
    await let_go(tasks)

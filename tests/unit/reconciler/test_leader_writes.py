"""The last moment at which a write can be stopped, with a server that records what has reached it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.played import PlayedLoop
from tests.unit.cluster.scripted import NO_TLS
from tests.unit.reconciler.cluster import POD_GROUPS
from tests.waiting import until, until_set
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.errors import NotLeading, RequestFailed
from webhook.reconciler.lease import WRITE_SECONDS
from webhook.reconciler.metrics import ReconcilerMetrics
from webhook.reconciler.writer import Writer

WANTED = {"metadata": {"namespace": "team-a", "name": "demo-0"}, "spec": {"minMember": 2}}


class Silent:
    """A server that never answers. `received` are its bytes, `closed` whether the client has disconnected."""

    def __init__(self) -> None:
        self.received = b""
        self.closed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            self.received += chunk
        self.closed.set()
        writer.close()


@pytest.fixture(params=[True, False], ids=["pooled", "alone"])
def pooled(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@asynccontextmanager
async def writing_to(server: Silent, leads: Callable[[], bool], *, pooled: bool) -> AsyncIterator[Writer]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    client = Client(Access(f"http://127.0.0.1:{port}", NO_TLS, lambda: None), pooled=pooled)
    try:
        yield Writer(client, leads, ReconcilerMetrics())
    finally:
        await client.close()
        listening.close()


async def test_a_leader_that_was_frozen_during_a_request_sends_no_effective_write(pooled: bool) -> None:
    server, answers = Silent(), iter([True, False])
    async with writing_to(server, lambda: next(answers), pooled=pooled) as writer:
        with pytest.raises(NotLeading):
            await writer.apply(POD_GROUPS, WANTED)
        # It had a connection by then, and may have said what it was about to send.
        await until_set(server.closed)
        start = b"PATCH /apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/team-a"
        assert not server.received or server.received.startswith(start)
        assert b"minMember" not in server.received


async def test_a_process_without_the_lease_opens_no_connection_for_a_write(pooled: bool) -> None:
    server = Silent()
    async with writing_to(server, lambda: False, pooled=pooled) as writer:
        with pytest.raises(NotLeading):
            await writer.apply(POD_GROUPS, WANTED)
        assert server.received == b""


async def test_a_write_without_an_answer_is_given_up_before_another_process_can_lead(pooled: bool) -> None:
    server = Silent()
    async with writing_to(server, lambda: True, pooled=pooled) as writer:
        writing = asyncio.create_task(writer.apply(POD_GROUPS, WANTED))
        await until(lambda: b"minMember" in server.received)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, PlayedLoop)
        loop.advance(WRITE_SECONDS)
        with pytest.raises(RequestFailed, match=f"{WRITE_SECONDS:g} s"):
            await writing
        await until_set(server.closed)

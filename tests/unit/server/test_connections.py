"""How long a connection is kept, in played time, and which connection is closed for a new one."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvloop
from prometheus_client import CollectorRegistry

from tests.played import PlayedClock, PlayedLoop
from tests.unit.server.conftest import review
from tests.waiting import until
from webhook.certificates.files import server_context
from webhook.server import connections as connections_module
from webhook.server import listener as listener_module
from webhook.server.connections import (
    HEAD_SECONDS,
    JITTER,
    MAX_AHEAD,
    UNREAD_SECONDS,
    UNUSED_SECONDS,
    YOUNG_SECONDS,
    Connection,
    ConnectionRoom,
    Connections,
)
from webhook.server.listener import Listener
from webhook.server.metrics import ConnectionMetrics, Ended, LifeMetrics
from webhook.server.routes import create_app
from webhook.server.state import ServerState

# The API server closes a connection that has been silent for so long (k8s.io/apimachinery, pkg/util/net, the
# IdleConnTimeout of SetTransportDefaults).
API_SERVER_SECONDS = 90.0
AGE = 600
MANY = 40
BODY = json.dumps(review()).encode()
REVIEW = b"POST /validate HTTP/1.1\r\nHost: rollcall\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: rollcall\r\n\r\n"

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Kept(Connections):
    """Connections with readable timers and a played clock."""

    def __init__(self, most: int = 1000, seconds: float = 0) -> None:
        self.registry = CollectorRegistry()
        self.played = PlayedClock()
        super().__init__(
            most,
            ConnectionMetrics(self.registry),
            seconds=seconds,
            metrics=LifeMetrics(self.registry),
            clock=self.played,
        )
        self.found: list[Connection] = []

    def opened(self, connection: Connection) -> None:
        """Note it."""
        super().opened(connection)
        self.found.append(connection)

    def ended(self, reason: Ended) -> float | None:
        """How many were ended for a reason."""
        return self.registry.get_sample_value("rollcall_connections_closed_total", {"reason": reason})


@asynccontextmanager
async def opened(state: ServerState, connections: Kept, number: int) -> AsyncIterator[list[Client]]:
    """This many connections of clients that have sent nothing yet, in order."""
    listener = Listener(("127.0.0.1", 0), create_app(state), connections, None)
    listener.open()
    clients: list[Client] = []
    try:
        for _ in range(number):
            clients.append(await asyncio.open_connection(*listener.address))
            await until(lambda: len(connections.found) == len(clients) and connections.found[-1].established)
        yield clients
    finally:
        for _, writer in clients:
            writer.close()
        await listener.close()


@asynccontextmanager
async def opened_more(beside: Client, number: int) -> AsyncIterator[list[Client]]:
    """So many more to the same port, which it may not have taken yet."""
    host, port = beside[1].get_extra_info("peername")
    clients = [await asyncio.open_connection(host, port) for _ in range(number)]
    try:
        yield clients
    finally:
        for _, writer in clients:
            writer.close()


async def ask(client: Client, request: bytes) -> bytes:
    """The head of the answer."""
    reader, writer = client
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return head


async def is_ended(client: Client) -> bool:
    """Whether the server has hung up, or does so now."""
    try:
        return await client[0].read() == b""
    except ConnectionError:
        return True


def advance(seconds: float) -> None:
    """Move the time of the event loop, and that of its clocks."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, PlayedLoop)
    loop.advance(seconds)


def silence(connection: Connection) -> float:
    """For how many seconds more it may say nothing."""
    timer = connection.timeout_keep_alive_task
    assert timer is not None
    return timer.when() - asyncio.get_running_loop().time()


async def test_an_idle_connection_is_kept_slightly_longer_than_the_api_server_does(state: ServerState) -> None:
    connections = Kept()
    async with opened(state, connections, 1) as (client,):
        (connection,) = connections.found
        # Also where nothing was said yet.
        assert API_SERVER_SECONDS + 2 < silence(connection) <= API_SERVER_SECONDS + 10
        for request in (HEALTH, REVIEW, b"\r\n" + HEALTH):
            assert (await ask(client, request)).startswith(b"HTTP/1.1 200 ")
            assert API_SERVER_SECONDS + 2 < silence(connection) <= API_SERVER_SECONDS + 10
        # Empty lines are no request, and no way to stay for ever.
        client[1].write(b"\r\n")
        await until(lambda: connection._loose_bytes == 2)
        assert API_SERVER_SECONDS + 2 < silence(connection) <= API_SERVER_SECONDS + 10
        connection.timeout_keep_alive_handler()
        assert await is_ended(client)
        assert connections.ended(Ended.IDLE) == 1


async def test_connections_that_are_opened_together_end_at_different_times(state: ServerState) -> None:
    connections = Kept(seconds=AGE)
    async with opened(state, connections, MANY):
        now = asyncio.get_running_loop().time()
        timers = [connection._ageing for connection in connections.found]
        ages = [timer.when() - now for timer in timers if timer is not None]
        # Opened some moments ago.
        assert all((1 - JITTER) * AGE - 60 < age <= (1 + JITTER) * AGE for age in ages)
        # Forty numbers out of 300 s are not all within 120 of each other.
        assert max(ages) - min(ages) > 0.2 * AGE


async def test_a_connection_at_its_maximum_age_ends_with_its_next_answer(state: ServerState) -> None:
    # Younger than a connection that is closed because it is silent.
    age = API_SERVER_SECONDS / (1 + JITTER)
    connections = Kept(seconds=age)
    async with opened(state, connections, 2) as (busy, idle):
        for client in (busy, idle):
            assert b"connection: close" not in await ask(client, REVIEW)
        advance((1 + JITTER) * age)
        await until(lambda: connections.registry.get_sample_value("rollcall_connections_recycled_total") == 2)
        # One that is idle ends when it is used again, and not in its client's hands.
        assert len(connections) == 2
        for client in (busy, idle):
            head = await ask(client, REVIEW)
            assert head.startswith(b"HTTP/1.1 200 ")
            assert b"connection: close" in head
            assert await is_ended(client)


async def test_a_connection_without_a_maximum_age_is_kept(state: ServerState) -> None:
    connections = Kept(seconds=0)
    async with opened(state, connections, 1) as (client,):
        for _ in range(3):
            assert b"connection: close" not in await ask(client, REVIEW)
            # Less than the silence after which it would be closed.
            connections.played.move(100 * AGE)
            advance(API_SERVER_SECONDS)
        assert connections.registry.get_sample_value("rollcall_connections_recycled_total") == 0


async def test_at_the_limit_connections_without_a_review_are_closed_oldest_first(state: ServerState) -> None:
    connections = Kept(4)
    async with opened(state, connections, 4) as (known, asked, silent, uploading):
        await ask(known, REVIEW)
        await ask(asked, HEALTH)
        uploading[1].write(REVIEW[:-5])
        await until(lambda: not connections.found[3].idle)
        connections.replace()
        assert await is_ended(asked)
        # Now there is space, so no connection is closed.
        assert connections.room() == ConnectionRoom(None)
        for gone in (silent, uploading):
            connections.replace()
            assert await is_ended(gone)
        assert [found for found in connections.found if found.reviewed] == [connections.found[0]]
        assert (len(connections), connections.ended(Ended.REPLACED)) == (1, 3)
        assert (await ask(known, REVIEW)).startswith(b"HTTP/1.1 200 ")


async def test_of_connections_with_a_review_the_least_recently_used_is_closed_first(state: ServerState) -> None:
    connections = Kept(3)
    async with opened(state, connections, 3) as clients:
        for client in (*clients, clients[0]):
            await ask(client, REVIEW)
        for gone in (clients[1], clients[2], clients[0]):
            connections.replace()
            assert await is_ended(gone)
        connections.replace()
        assert connections.ended(Ended.REPLACED) == 3


async def test_if_most_have_carried_a_review_an_idle_one_is_closed_before_a_new_one(state: ServerState) -> None:
    connections = Kept(4)
    async with opened(state, connections, 4) as clients:
        for client in clients:
            await ask(client, REVIEW)
        async with opened_more(clients[0], 2) as newcomers:
            await until(lambda: len(connections.found) == 6)
            # Two of the known went, and not the newcomer before.
            assert await is_ended(clients[0])
            assert await is_ended(clients[1])
            for newcomer in newcomers:
                assert (await ask(newcomer, HEALTH)).startswith(b"HTTP/1.1 200 ")
            # Now there are as many strangers, so the oldest of them goes.
            connections.replace()
            assert await is_ended(newcomers[0])
            assert (await ask(clients[3], REVIEW)).startswith(b"HTTP/1.1 200 ")


async def test_a_known_connection_with_a_pending_answer_does_not_count_as_new(
    state: ServerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = Kept(3)
    async with opened(state, connections, 3) as (first, second, stranger):
        await ask(first, REVIEW)
        await ask(second, REVIEW)
        monkeypatch.setattr(Connection, "idle", property(lambda found: found is connections.found[1]))
        connections.replace()
        assert await is_ended(second)
        connections.replace()
        assert await is_ended(stranger)
        assert not connections.found[0].transport.is_closing()
        assert len(connections) == 1


async def test_a_new_connection_waits_in_the_kernel_until_another_has_had_its_minimum_time(
    state: ServerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = Kept(2)
    now = 100.0
    # The clock stands still, whatever the loop waits for.
    monkeypatch.setattr(connections.played, "monotonic", lambda: now)
    async with opened(state, connections, 2) as clients, opened_more(clients[0], 1):
        assert connections.room() is None
        for client in clients:
            assert (await ask(client, HEALTH)).startswith(b"HTTP/1.1 200 ")
        assert (len(connections.found), connections.ended(Ended.REPLACED)) == (2, 0)
        now += 2 * YOUNG_SECONDS
        await until(lambda: len(connections.found) == 3)
        assert await is_ended(clients[0])


async def test_a_connection_with_a_pending_answer_is_closed_last(
    state: ServerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = Kept(2)
    async with opened(state, connections, 2) as (first, second):
        await ask(second, REVIEW)
        monkeypatch.setattr(Connection, "answering", property(lambda found: found is connections.found[0]))
        connections.replace()
        assert await is_ended(second)
        assert not connections.found[0].transport.is_closing()
        connections.replace()
        assert await is_ended(first)


async def test_a_connection_without_data_is_closed_early_only_if_connections_are_scarce(
    state: ServerState,
) -> None:
    connections = Kept(4)
    async with opened(state, connections, 3) as (asked, silent, other):
        await ask(asked, HEALTH)
        connections.leave()
        connections.played.move(UNUSED_SECONDS * 2)
        connections.most = 6
        connections.sweep()
        # Half of six is not more than half.
        assert len(connections) == 3
        connections.most = 5
        connections.played.move(-UNUSED_SECONDS * 1.5)
        connections.sweep()
        assert len(connections) == 3
        connections.played.move(UNUSED_SECONDS)
        connections.sweep()
        assert await is_ended(silent)
        assert await is_ended(other)
        assert connections.ended(Ended.UNUSED) == 2
        assert (await ask(asked, HEALTH)).startswith(b"HTTP/1.1 200 ")


async def fill(connections: Kept, clients: list[Client]) -> None:
    """Ask over each for more than its client takes."""
    for (_, writer), connection in zip(clients, connections.found, strict=True):
        # Little room in the kernel, or it takes some megabytes for the client.
        connection.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        writer.transport.pause_reading()  # type: ignore[attr-defined]

        def full(connection: Connection = connection, writer: asyncio.StreamWriter = writer) -> bool:
            if connection.unread and connection.flow.write_paused:
                return True
            writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: rollcall\r\n\r\n")
            return False

        await until(full, "the client takes no more")


async def test_a_few_pipelined_requests_are_accepted_and_more_end_the_connection(state: ServerState) -> None:
    connections = Kept()
    async with opened(state, connections, 2) as (polite, greedy):
        polite[1].write(HEALTH * (1 + MAX_AHEAD))
        for _ in range(1 + MAX_AHEAD):
            assert (await ask(polite, b"")).startswith(b"HTTP/1.1 200 ")
        assert connections.ended(Ended.PIPELINED) == 0
        greedy[1].write(HEALTH * 1000)
        assert await is_ended(greedy)
        await until(lambda: len(connections) == 1)
        assert connections.ended(Ended.PIPELINED) == 1
        assert not connections.found[1].pipeline
        assert (await ask(polite, REVIEW)).startswith(b"HTTP/1.1 200 ")


async def test_a_client_that_reads_each_answer_late_keeps_its_connection(state: ServerState) -> None:
    """A busy client acknowledges an answer with its next request: at each look there is one that is not taken."""
    connections = Kept()
    async with opened(state, connections, 1) as (busy,):
        connections.leave()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Connection, "unread", True)
            for _ in range(10):
                assert (await ask(busy, HEALTH)).startswith(b"HTTP/1.1 200 ")
                connections.played.move(UNREAD_SECONDS + 1)
                connections.sweep()
            assert connections.ended(Ended.UNREAD) == 0
            connections.played.move(UNREAD_SECONDS + 1)
            connections.sweep()
            assert connections.ended(Ended.UNREAD) == 1


async def test_an_answer_that_the_client_does_not_read_is_dropped(state: ServerState) -> None:
    connections = Kept()
    async with opened(state, connections, 2) as clients:
        connections.leave()
        await fill(connections, clients)
        connections.sweep()
        connections.played.move(UNREAD_SECONDS - 1)
        connections.sweep()
        assert len(connections) == 2
        connections.played.move(2)
        connections.sweep()
        assert (len(connections), connections.ended(Ended.UNREAD)) == (0, 2)


async def test_the_number_of_connections_with_unread_answers_is_limited(
    state: ServerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_module, "MAX_UNREAD", 1)

    connections = Kept()
    async with opened(state, connections, 3) as clients:
        connections.leave()
        await fill(connections, clients)
        connections.sweep()
        # They may have been asked a moment ago.
        assert len(connections) == 3
        connections.played.move(1)
        connections.sweep()
        assert (len(connections), connections.ended(Ended.UNREAD)) == (1, 2)


async def test_a_request_head_that_never_ends_has_a_deadline(state: ServerState) -> None:
    connections = Kept()
    async with opened(state, connections, 2) as (slow, other):
        slow[1].write(REVIEW[:20])
        await until(lambda: connections.found[0]._head_wait is not None)
        advance(HEAD_SECONDS)
        assert await is_ended(slow)
        assert connections.ended(Ended.HEAD) == 1
        assert (await ask(other, REVIEW)).startswith(b"HTTP/1.1 200 ")


def test_a_handshake_that_never_completes_has_a_deadline(state: ServerState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "HANDSHAKE_SECONDS", 0.05)
    assert state.certificate is not None
    tls = server_context(state.certificate)

    async def story() -> None:
        connections = Kept()
        listener = Listener(("127.0.0.1", 0), create_app(state), connections, tls)
        listener.open()
        client = await asyncio.open_connection(*listener.address)
        assert await is_ended(client)
        await until(lambda: len(connections) == 0)
        assert connections.ended(Ended.HANDSHAKE) == 1
        client[1].close()
        await listener.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())

"""How long a connection is kept: by the timers that are set, because nobody waits for minutes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from webhook.server.app import create_app
from webhook.server.connections import Connection, Connections
from webhook.server.listener import Listener
from webhook.server.state import ServerState

# The API server closes a connection that has been silent for so long (k8s.io/apimachinery, pkg/util/net, the
# IdleConnTimeout of SetTransportDefaults).
API_SERVER_SECONDS = 90.0
AGE = 600
MANY = 40

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Kept(Connections):
    """Connections whose own timers can be asked."""

    def __init__(self, seconds: float = 0) -> None:
        super().__init__(seconds)
        self.found: list[Connection] = []

    def opened(self, connection: Connection) -> None:
        """Note it."""
        super().opened(connection)
        self.found.append(connection)


@asynccontextmanager
async def opened(state: ServerState, connections: Kept, number: int) -> AsyncIterator[list[Client]]:
    """So many connections of clients that have said nothing yet."""
    listener = Listener(("127.0.0.1", 0), create_app(state), connections, None)
    await listener.open()
    clients = [await asyncio.open_connection(*listener.address) for _ in range(number)]
    try:
        async with asyncio.timeout(30):
            while len(connections.found) < number:
                await asyncio.sleep(0.005)
        yield clients
    finally:
        for _, writer in clients:
            writer.close()
        await listener.close()


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def told() -> None:
        await story()

    asyncio.run(told())


def silence(connection: Connection) -> float:
    """For how many seconds more it may say nothing."""
    timer = connection.timeout_keep_alive_task
    assert timer is not None
    return timer.when() - asyncio.get_running_loop().time()


def test_a_silent_connection_is_kept_for_longer_than_the_api_server_keeps_it(state: ServerState) -> None:
    async def story() -> None:
        connections = Kept()
        async with opened(state, connections, 1) as ((reader, writer),):
            (connection,) = connections.found
            # Also where nothing was said yet, and not for ever.
            assert API_SERVER_SECONDS + 10 < silence(connection) < 300
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: rollcall\r\n\r\n")
            assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 ")
            assert API_SERVER_SECONDS + 10 < silence(connection) < 300

    run(story)


def test_connections_that_are_opened_together_end_apart(state: ServerState) -> None:
    async def story() -> None:
        connections = Kept(AGE)
        async with opened(state, connections, MANY):
            now = asyncio.get_running_loop().time()
            timers = [connection._ageing for connection in connections.found]
            ages = [timer.when() - now for timer in timers if timer is not None]
            # Opened some moments ago, on a slow machine.
            assert all(0.75 * AGE - 60 < age <= 1.25 * AGE for age in ages)
            # Forty numbers out of 300 s are not all within 120 of each other.
            assert max(ages) - min(ages) > 0.2 * AGE

    run(story)

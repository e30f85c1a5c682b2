"""One port: uvicorn without its signals, and not waiting for clients that do not hang up."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from webhook.network.sockets import LOOPBACKS, listening, reached_at
from webhook.server.acceptor import Acceptor
from webhook.server.connection import KEEP_ALIVE_SECONDS, Connection
from webhook.server.connections import Connections

# Answers take milliseconds. After this a connection that never ends must not hold up the stop.
FINISH_SECONDS = 10
# TLS says goodbye and waits for the other side to do the same. A client that only looks at its connection when it has
# something to send never does; one that does needs no more than a round trip.
FAREWELL_SECONDS = 0.5


class Listener(uvicorn.Server):
    """A bound socket, answered by an application once it is opened. `tls` is None for plain HTTP."""

    def __init__(
        self, place: tuple[str, int], app: ASGIApp, connections: Connections, tls: ssl.SSLContext | None
    ) -> None:
        """Raises `InputError` where the address cannot be listened on."""
        self._socket = listening(*place)
        self.connections = connections
        self._leaving: set[object] = set()
        super().__init__(
            uvicorn.Config(
                cast("Any", app),
                http=cast("Any", connections.protocol),
                ssl_context_factory=None if tls is None else lambda _, __: tls,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=FINISH_SECONDS,
                lifespan="off",
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                log_config=None,
                ws="none",
            )
        )

    @property
    def address(self) -> tuple[str, int]:
        """Where a client on this machine reaches it."""
        return reached_at(self._socket)

    @property
    def url(self) -> str:
        """The same as a person would type it; a development certificate is for the name."""
        host, port = self.address
        shown = "localhost" if host in LOOPBACKS else f"[{host}]" if ":" in host else host
        return f"http{'s' if self.config.is_ssl else ''}://{shown}:{port}"

    def open(self) -> None:
        """Take connections."""
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        acceptor = Acceptor(self._socket, self.connections, self._connection, self.config.ssl)
        # What uvicorn closes, and waits for, at the end.
        self.servers = [cast("Any", acceptor)]
        acceptor.open()
        self.connections.watch()

    async def close(self, seconds: int = FINISH_SECONDS) -> None:
        """Take no more, finish what is being answered in at most so many seconds, and return when all connections have
        ended.
        """
        self.config.timeout_graceful_shutdown = seconds
        self._hang_up()
        await self.shutdown([self._socket])
        self.connections.leave()

    def hurry(self) -> None:
        """Wait for nobody any more."""
        self.force_exit = True
        self.connections.cut()

    def _connection(self) -> Connection:
        return self.connections.protocol(self.config, self.server_state, app_state={})

    def _hang_up(self) -> None:
        """Cut the connections that have been closing since the last call: all that was to be said to them is sent."""
        closing = {
            found
            for found in self.server_state.connections
            if found.transport.is_closing() and not found.transport.get_write_buffer_size()
        }
        for connection in closing:
            if connection in self._leaving:
                connection.transport.abort()
        self._leaving = set(closing)
        asyncio.get_running_loop().call_later(FAREWELL_SECONDS, self._hang_up)

"""One port: uvicorn without its signal handlers. It does not wait for clients that do not close."""

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

# Answers take milliseconds. A connection that never ends must not delay the stop longer than this.
FINISH_SECONDS = 10
# TLS sends a close message and waits for that of the client. A client that checks its connection only before it sends
# never replies; other clients need one round trip.
FAREWELL_SECONDS = 0.5


class Listener(uvicorn.Server):
    """A bound socket, served by an application once it is opened. `tls` is None for plain HTTP."""

    def __init__(
        self, place: tuple[str, int], app: ASGIApp, connections: Connections, tls: ssl.SSLContext | None
    ) -> None:
        """Raises `InputError` if the address cannot be listened on."""
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
        """The address for a client on this machine."""
        return reached_at(self._socket)

    @property
    def url(self) -> str:
        """The URL that a person would type, with "localhost" for a loopback address: development certificates are for
        that name.
        """
        host, port = self.address
        shown = "localhost" if host in LOOPBACKS else f"[{host}]" if ":" in host else host
        return f"http{'s' if self.config.is_ssl else ''}://{shown}:{port}"

    def open(self) -> None:
        """Begin to take connections."""
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        acceptor = Acceptor(self._socket, self.connections, self._connection, self.config.ssl)
        # uvicorn closes these servers at the end and waits for them.
        self.servers = [cast("Any", acceptor)]
        acceptor.open()
        self.connections.watch()

    async def close(self, seconds: int = FINISH_SECONDS) -> None:
        """Take no more connections and finish calls for at most `seconds`. Returns when all connections have ended."""
        self.config.timeout_graceful_shutdown = seconds
        self._hang_up()
        await self.shutdown([self._socket])
        self.connections.leave()

    def hurry(self) -> None:
        """Cut all connections and stop waiting."""
        self.force_exit = True
        self.connections.cut()

    def _connection(self) -> Connection:
        return self.connections.protocol(self.config, self.server_state, app_state={})

    def _hang_up(self) -> None:
        """Cut the connections that have been closing since the last call. All their data has been sent."""
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

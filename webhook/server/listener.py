"""One port: uvicorn without its signals, and not waiting for clients that do not hang up."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from webhook.errors import InputError
from webhook.server.connections import Connections

# The API server keeps a connection to a webhook for 90 s of silence; closing first would lose a request that it has
# just sent.
KEEP_ALIVE_SECONDS = 120
# Answers take milliseconds. After this a connection that never ends must not hold up the stop.
FINISH_SECONDS = 10
# TLS says goodbye and waits for the other side to do the same. A client that only looks at its connection when it has
# something to send never does; one that does needs no more than a round trip.
FAREWELL_SECONDS = 0.5
_BACKLOG = 2048
# Addresses that stand for every address of the machine.
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


class Listener(uvicorn.Server):
    """A bound socket, answered by an application once it is opened. `tls` is None for plain HTTP."""

    def __init__(
        self, place: tuple[str, int], app: ASGIApp, connections: Connections, tls: ssl.SSLContext | None
    ) -> None:
        """Raises `InputError` where the address cannot be listened on."""
        self._socket = _bound(*place)
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
        host, port = self._socket.getsockname()[:2]
        return _ANY.get(host, host), port

    @property
    def url(self) -> str:
        """The same as a person would type it; a development certificate is for the name."""
        host, port = self.address
        shown = "localhost" if host in _ANY.values() else f"[{host}]" if ":" in host else host
        return f"http{'s' if self.config.is_ssl else ''}://{shown}:{port}"

    async def open(self) -> None:
        """Take connections."""
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup([self._socket])

    async def close(self) -> None:
        """Take no more, finish what is being answered, and return when all connections have ended."""
        self._hang_up()
        await self.shutdown([self._socket])

    def hurry(self) -> None:
        """Wait for nobody any more."""
        self.force_exit = True
        self.connections.cut()

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


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # A name that is no address has no number of the system's, and what Python adds in brackets says it twice.
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else str(error.strerror or error).partition(" (")[0]
        raise InputError("", f"cannot listen on {host} port {port}: {why}") from None

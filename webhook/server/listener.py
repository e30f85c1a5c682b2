"""The listener of one port: uvicorn without its signal handlers, which does not wait for clients that do not close.

The event loop's own servers hand a connection over only after its TLS handshake, so a connection that never completes
it is not counted. The acceptor takes connections from the socket itself: here each has its place among the port's
`Connections` earlier, and may be closed like the others.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from webhook.cluster.logs import log
from webhook.cluster.sockets import LOOPBACKS, listening, reached_at
from webhook.server.connections import KEEP_ALIVE_SECONDS, Connection, Connections
from webhook.server.metrics import Ended

# A handshake takes two round trips; a busy client needs a second or two.
HANDSHAKE_SECONDS = 10.0
# The last answer may be long, and the server waits for the client's TLS close.
SHUTDOWN_SECONDS = 10.0
# Taken in one turn of the event loop. Data that arrived before is read and answered between two turns.
BATCH = 8
# The most of a body that the kernel keeps until it is read. Data of a stalled client, and the data of one read, count
# as memory of this process.
RECEIVE_BYTES = 32 * 1024
# How long the acceptor pauses if the system has no descriptor or memory.
REST_SECONDS = 0.1
# How long the acceptor pauses if every connection is too young to be replaced.
YOUNG_REST_SECONDS = 0.005
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Takes connections from `listening`; `make` returns the protocol of a connection. uvicorn calls this a server."""

    def __init__(
        self,
        listening: socket.socket,
        connections: Connections,
        make: Callable[[], Connection],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._listening = listening
        self._connections = connections
        self._make = make
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._resting: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)

    def open(self) -> None:
        """Begins to take connections."""
        self._resting = None
        self._loop.add_reader(self._listening, self._take)

    def close(self) -> None:
        """Takes no more connections, and cancels the handshakes in progress."""
        if self._resting is not None:
            self._resting.cancel()
        self._loop.remove_reader(self._listening)
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        """Waits until the last handshake has ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take(self) -> None:
        for _ in range(BATCH):
            room = self._connections.room()
            if room is None:
                self._rest(YOUNG_REST_SECONDS)
                return
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                # Close one connection, and try again a little later.
                log.warning("connection not accepted", why=error.strerror)
                self._connections.replace()
                self._rest(REST_SECONDS)
                return
            self._connections.take(room)
            self._begin(accepted)

    def _rest(self, seconds: float) -> None:
        """Pauses for `seconds`; the listening socket stays readable."""
        self._loop.remove_reader(self._listening)
        self._resting = self._loop.call_later(seconds, self.open)

    def _begin(self, accepted: socket.socket) -> None:
        connection = self._make()
        task = self._loop.create_task(self._connect(connection, accepted))
        connection.accepted(task)
        self._connections.opened(connection)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, connection: Connection, accepted: socket.socket) -> None:
        secured = None if self._tls is None else HANDSHAKE_SECONDS
        leaving = None if self._tls is None else SHUTDOWN_SECONDS
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection, accepted, ssl=self._tls, ssl_handshake_timeout=secured, ssl_shutdown_timeout=leaving
            )
        except ConnectionAbortedError:
            # The event loop raises this for a handshake that took too long.
            self._connections.count(Ended.HANDSHAKE)
        except OSError:
            # The client did not use TLS, or went away.
            pass
        finally:
            if not connection.established:
                self._connections.closed(connection)


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
        """Begins to take connections."""
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        acceptor = Acceptor(self._socket, self.connections, self._connection, self.config.ssl)
        # uvicorn closes these servers at the end and waits for them.
        self.servers = [cast("Any", acceptor)]
        acceptor.open()
        self.connections.watch()

    async def close(self, seconds: int = FINISH_SECONDS) -> None:
        """Takes no more connections and finishes calls for at most `seconds`. Returns when all connections have
        ended.
        """
        self.config.timeout_graceful_shutdown = seconds
        self._hang_up()
        await self.shutdown([self._socket])
        self.connections.leave()

    def hurry(self) -> None:
        """Cuts all connections and stops waiting."""
        self.force_exit = True
        self.connections.cut()

    def _connection(self) -> Connection:
        return self.connections.protocol(self.config, self.server_state, app_state={})

    def _hang_up(self) -> None:
        """Cuts the connections that have been closing since the last call. All their data has been sent."""
        closing = {
            connection
            for connection in self.server_state.connections
            if connection.transport.is_closing() and not connection.transport.get_write_buffer_size()
        }
        for connection in closing:
            if connection in self._leaving:
                connection.transport.abort()
        self._leaving = set(closing)
        asyncio.get_running_loop().call_later(FAREWELL_SECONDS, self._hang_up)

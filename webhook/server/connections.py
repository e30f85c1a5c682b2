"""Connections: how long one is kept, how it ends without costing its client a request, and who may open it.

A client that is told `Connection: close` with an answer sends its next request over another connection, and a balancer
may lead that one elsewhere. So every connection ends at an age, or replicas that come later would get no share, and all
of them end while the server drains. Nothing is asked or counted per request.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any, cast

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState as UvicornState

from webhook.server.answers import plain
from webhook.server.life_metrics import LifeMetrics
from webhook.server.tls import PairContext

# Connections that were opened together should not all be opened anew together.
JITTER = 0.25
# The first line of a request and its headers: an API server's have half a kilobyte, and the parser has no limit.
MAX_HEAD_BYTES = 64 * 1024
# How long they may take to arrive. The body has the time that the request says.
HEAD_SECONDS = 10.0
# Under which an application finds, in the scope's state, the fingerprint of the certificate that its client was shown.
SHOWN = "certificate"
# What uvicorn looks into at each request over a connection that is to end: it adds these headers to the answer, and
# does as they say.
_LAST = UvicornState()
_LAST.default_headers = [(b"connection", b"close")]


class Connections:
    """The connections of one port, and what holds for all of them."""

    def __init__(
        self, seconds: float = 0, client_names: Iterable[str] = (), metrics: LifeMetrics | None = None
    ) -> None:
        """A connection ends at about `seconds` of age, 0 for never. With `client_names`, a client's certificate must
        bear one of them.
        """
        self.seconds = seconds
        self.client_names = frozenset(client_names)
        self.metrics = metrics
        self.ending = False
        self._open: set[Connection] = set()
        if metrics is not None:
            metrics.connections.set_function(lambda: len(self._open))

    def protocol(self, config: uvicorn.Config, server_state: UvicornState, **more: Any) -> Connection:
        """A new connection, as uvicorn makes it."""
        return Connection(self, config, server_state, **more)

    def opened(self, connection: Connection) -> None:
        """There is one more."""
        self._open.add(connection)

    def closed(self, connection: Connection) -> None:
        """There is one less."""
        self._open.discard(connection)

    def end(self) -> None:
        """Let the next answer over each connection be its last, also over those that are still to be opened."""
        self.ending = True
        for connection in self._open:
            connection.end()

    def cut(self) -> None:
        """Cut them all, whatever is under way."""
        for connection in list(self._open):
            connection.transport.abort()


class Connection(HttpToolsProtocol):
    """One connection of a client."""

    def __init__(
        self, connections: Connections, config: uvicorn.Config, server_state: UvicornState, **more: Any
    ) -> None:
        super().__init__(config, server_state, **more)
        self._all = connections
        self._ageing: asyncio.TimerHandle | None = None
        # How many heads have begun to come; of one that has come in part its bytes so far, and what ends the waiting
        # for the rest.
        self._heads = 0
        self._in_head = False
        self._head_bytes = 0
        self._head_wait: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin: note when it ends, what its client was shown, and whether it is let in."""
        super().connection_made(transport)
        self._all.opened(self)
        if self._all.ending:
            self.end()
        # One over which nothing ever comes is kept no longer than one over which nothing more comes.
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        if self._all.seconds:
            age = self._all.seconds * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
            self._ageing = self.loop.call_later(age, self._grow_old)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and isinstance(tls.context, PairContext):
            self.app_state = {SHOWN: tls.context.pair.fingerprint}
        if self._all.client_names:
            names = _names(transport.get_extra_info("peercert") or {})
            if not names & self._all.client_names:
                self.app = cast("Any", _Refusal(names))

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        self._all.closed(self)
        for timer in (self._ageing, self._head_wait, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Something has come: of most requests all."""
        begun = self._heads if self._in_head else None
        super().data_received(data)
        if not self._in_head:
            return
        if self._heads != begun:
            self._head_wait = self.loop.call_later(HEAD_SECONDS, self._head_late)
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("the headers are too long")

    def on_message_begin(self) -> None:
        """A request begins to come."""
        super().on_message_begin()
        self._heads, self._in_head, self._head_bytes = self._heads + 1, True, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header has come. Those behind a body in chunks are nobody's."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A request has come, but for its body."""
        self._in_head = False
        if self._head_wait is not None:
            self._head_wait.cancel()
            self._head_wait = None
        super().on_headers_complete()

    def end(self) -> None:
        """Let the next answer be the last, also where its request has come already."""
        self.server_state = _LAST
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_started:
            cycle.keep_alive = False

    def _head_late(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()

    def _grow_old(self) -> None:
        if self._all.metrics is not None and self.server_state is not _LAST:
            self._all.metrics.recycled.inc()
        self.end()


class _Refusal:
    """The application for a client whose certificate bears none of the names that are let in."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Say why, whatever is asked."""
        await plain(send, 403, f"a client certificate for {', '.join(sorted(self._names)) or 'nobody'} is not let in")


def _names(certificate: dict[str, Any]) -> frozenset[str]:
    """The common names and alternative names of a certificate, as Python's ssl shows it: a directory's, which is no
    single word, is in parts.
    """
    common = {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
    return frozenset(common | {value for _, value in certificate.get("subjectAltName", ()) if isinstance(value, str)})

"""One connection: how long it is kept, how it ends without losing a request, the limits of a request head, and which
clients are allowed.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import random
import termios
from typing import Any, Protocol, cast

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState as UvicornState

from webhook.clock import Clock
from webhook.server.answer_writer import AnswerWriter
from webhook.server.answers import plain
from webhook.server.carriers import CARRIER
from webhook.server.life_metrics import LifeMetrics
from webhook.server.network_metrics import Ended
from webhook.server.tls import PairContext

# The API server keeps an idle connection to a webhook for 90 s. If the server closed it first, a request that was just
# sent would be lost.
KEEP_ALIVE_SECONDS = 97
# Connections that were opened together must not all be reopened together.
JITTER = 0.25
# Limits of the request line and headers: an API server sends half a kilobyte, and the parser has no limit.
MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 128
MAX_URL_BYTES = 8 * 1024
# How many requests a client may send before an answer. Go, kubelets and browsers send none, and each is kept in memory.
MAX_AHEAD = 8
# How long a head may take to arrive. The time for the body is in the request.
HEAD_SECONDS = 10.0
# How much of an answer that the client does not read is kept here, in addition to the kernel's buffer.
_WRITE_BYTES = 64 * 1024
# How much of a body waits here for an application that does not read it.
_READ_BYTES = 64 * 1024
# The key in the scope's state for the fingerprint of the certificate that was served to the client.
SHOWN = "certificate"
# uvicorn reads this state at each request over a connection that must end: it adds these headers to the answer and
# obeys them.
_LAST = UvicornState()
_LAST.default_headers = [(b"connection", b"close")]


class _HeadTooLarge(Exception):
    """A head exceeds a limit. The parser reports the exception as a fault of the request."""


class _TooManyAhead(Exception):
    """More requests are waiting than allowed, so the parser stops reading."""


class Port(Protocol):
    """What a connection needs of its port. `seconds` is the approximate age at which it ends, 0 for never."""

    seconds: float
    ending: bool
    client_names: frozenset[str]
    metrics: LifeMetrics | None
    clock: Clock

    def carried_review(self, connection: Connection) -> None:
        """Note that `connection` has carried a valid AdmissionReview."""

    def closed(self, connection: Connection) -> None:
        """Note that `connection` has ended."""

    def count(self, reason: Ended) -> None:
        """Count a connection that the server ended."""


class Connection(HttpToolsProtocol):
    """One connection of a client, from the time it was accepted."""

    def __init__(self, port: Port, config: uvicorn.Config, server_state: UvicornState, **more: Any) -> None:
        super().__init__(config, server_state, **more)
        self._port = port
        self.opened_at = port.clock.monotonic()
        # Whether there is a transport: with TLS, whether the handshake is complete.
        self.made = False
        # Whether it has carried a valid AdmissionReview.
        self.reviewed = False
        self._writer: AnswerWriter | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._ageing: asyncio.TimerHandle | None = None
        # Whether any request has begun to arrive, whether a head has arrived in part, its size so far, and the timer
        # for the rest of it.
        self._used = False
        self._in_head = False
        self._head_bytes = 0
        self._head_wait: asyncio.TimerHandle | None = None
        # Why the head is too large.
        self._fault: str | None = None
        # Whether the request asks to keep the connection; known when the whole request has arrived.
        self._keeps = False
        # The number of complete parts of requests, and the bytes since the last of them.
        self._parts = 0
        self._loose_bytes = 0

    def accepted(self, task: asyncio.Task[None]) -> None:
        """Keep `task`, which runs until `connection_made`. `cut` cancels it if it is still running."""
        self._accepting = task

    @property
    def unused(self) -> bool:
        """Return whether no data has arrived on this connection."""
        return not self._used

    @property
    def idle(self) -> bool:
        """Return whether no request is being received or answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return not self._in_head and (cycle is None or cycle.response_complete)

    @property
    def answering(self) -> bool:
        """Return whether a complete request has not been answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    @property
    def call(self) -> object:
        """The current or last call; a different object for each call."""
        return self.cycle

    @property
    def unread(self) -> bool:
        """Return whether the client has not acknowledged all data that was sent to it."""
        if not self.made or not self._used:
            return False
        unsent = array.array("i", [0])
        sock = self.transport.get_extra_info("socket")
        if sock is None or sock.fileno() < 0:
            return False
        fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, unsent)
        return bool(unsent[0])

    def carried_review(self) -> None:
        """Note that a valid AdmissionReview was answered."""
        self.reviewed = True
        self._port.carried_review(self)

    def holds_body(self, scope: Scope) -> bool:
        """Return whether the whole body of the request with that scope has arrived."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.scope is scope and not cycle.more_body

    def cut(self) -> None:
        """Close at once, even during a request."""
        if self.made:
            self.transport.abort()
        elif self._accepting is not None:
            self._accepting.cancel()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timers, keep the fingerprint of the served certificate, and check the client's certificate."""
        super().connection_made(transport)
        self.made = True
        self._writer = AnswerWriter(transport, self.loop)
        transport.set_write_buffer_limits(high=_WRITE_BYTES)
        if self._port.ending:
            self.end()
        # A connection that never carries a request is closed after the same time as an idle one.
        self._keep_alive()
        if self._port.seconds:
            age = self._port.seconds * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
            self._ageing = self.loop.call_later(age, self._grow_old)
        self.app_state = {CARRIER: self}
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            cast("Any", transport).set_read_buffer_limits(high=_READ_BYTES)
            if isinstance(tls.context, PairContext):
                self.app_state[SHOWN] = tls.context.pair.fingerprint
        if self._port.client_names:
            names = _names(transport.get_extra_info("peercert") or {})
            if not names & self._port.client_names:
                self.app = cast("Any", _Refusal(names))

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers and free what the connection holds."""
        self._port.closed(self)
        for timer in (self._ageing, self._head_wait, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        # The state of each request refers to the connection: a cycle that only the garbage collector could free.
        self.app_state = {}
        self.cycle = self.scope = cast("Any", None)
        self.pipeline.clear()

    def data_received(self, data: bytes) -> None:
        """Parse `data`, which usually is a whole request."""
        before = self._parts
        super().data_received(data)
        if self.transport.is_closing():
            return
        self._loose_bytes = 0 if self._parts != before else self._loose_bytes + len(data)
        if self._loose_bytes > MAX_HEAD_BYTES:
            # A head without end, headers after a body, or empty lines.
            self._fault = "the headers are too long"
            self.send_400_response("")
        elif self._in_head and self._head_wait is None:
            self._head_wait = self.loop.call_later(HEAD_SECONDS, self._head_late)
        elif self.idle and self.timeout_keep_alive_task is None:
            self._keep_alive()

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._parts += 1
        self._used = self._in_head = True
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Add a part of the URL."""
        super().on_url(url)
        self._head_bytes += len(url)
        self._check_head()
        if len(self.url) > MAX_URL_BYTES:
            self._too_large(f"the URL is longer than {MAX_URL_BYTES} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header. Trailers after a chunked body are ignored."""
        if self._in_head:
            super().on_header(name, value)
            self._head_bytes += len(name) + len(value)
            if self._head_bytes > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS:
                self._check_head()

    def on_headers_complete(self) -> None:
        """Begin the call when the head is complete."""
        self._parts += 1
        self._in_head = False
        if self._head_wait is not None:
            self._head_wait.cancel()
            self._head_wait = None
        if len(self.pipeline) >= MAX_AHEAD:
            self._port.count(Ended.PIPELINED)
            self.cut()
            raise _TooManyAhead
        super().on_headers_complete()
        # If the answer is sent before the whole body has arrived, the connection ends: the rest of the body is not
        # read.
        self._keeps = self.cycle.keep_alive
        self.cycle.transport = cast("Any", self._writer)
        self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._parts += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Complete the request."""
        self._parts += 1
        if not self.cycle.response_started and self.server_state is not _LAST:
            self.cycle.keep_alive = self._keeps
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer 400 with the reason and close the connection. Do nothing if it is already closing."""
        if self.transport.is_closing():
            return
        if self._fault is not None:
            self._port.count(Ended.HEAD)
        super().send_400_response(self._fault or msg)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection after too much idle time."""
        if not self.transport.is_closing():
            self._port.count(Ended.IDLE)
        super().timeout_keep_alive_handler()

    def end(self) -> None:
        """Close the connection after the next answer, even if the request for it has already arrived."""
        self.server_state = _LAST
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_started:
            cycle.keep_alive = False

    def _keep_alive(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _check_head(self) -> None:
        if self._head_bytes > MAX_HEAD_BYTES:
            self._too_large(f"the headers are longer than {MAX_HEAD_BYTES} bytes")
        if len(self.headers) > MAX_HEADERS:
            self._too_large(f"there are more than {MAX_HEADERS} headers")

    def _too_large(self, why: str) -> None:
        self._fault = why
        raise _HeadTooLarge(why)

    def _head_late(self) -> None:
        if not self.transport.is_closing():
            self._port.count(Ended.HEAD)
            self.transport.close()

    def _grow_old(self) -> None:
        if self._port.metrics is not None and self.server_state is not _LAST:
            self._port.metrics.recycled.inc()
        self.end()


class _Refusal:
    """The application for a client whose certificate has none of the allowed names."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer 403 with the reason, for every request."""
        await plain(
            send, 403, f"a client certificate for {', '.join(sorted(self._names)) or 'no name'} is not accepted"
        )


def _names(certificate: dict[str, Any]) -> frozenset[str]:
    """Return the common names and alternative names of a certificate, as Python's ssl gives it. A directory name is a
    tuple of parts, not a string, and is left out.
    """
    common = {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
    return frozenset(common | {value for _, value in certificate.get("subjectAltName", ()) if isinstance(value, str)})

"""The connections of one port: their maximum number, which one is closed for a new one, how long each is kept, how it
ends without losing a request, and which clients are allowed.

A client that gets `Connection: close` with an answer sends its next request over a new connection, and a load balancer
may route that to another replica. So every connection ends at some age; otherwise new replicas would get no share of
the traffic. While the server drains, all connections end this way.

At the maximum, a new connection replaces the least needed one, so a client that fills the port cannot keep API servers
out. Connections that carried a review keep at most half of the places. The other half is for new connections, and each
has time for its request before it is replaced.

uvicorn writes the head of an answer when the application begins it, and the body when the answer ends, each as its own
TLS record: the second one takes a tenth of the time of an ordinary review. `AnswerWriter` writes them in one piece.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import random
import termios
from collections import OrderedDict
from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple, Protocol, cast

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState as UvicornState

from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.server.intake import CARRIER, plain
from webhook.server.metrics import ConnectionMetrics, Ended, LifeMetrics
from webhook.server.tls import PairContext


class AnswerWriter:
    """The transport of a connection, as uvicorn uses it to answer. The first of two writes in one turn of the event
    loop is held until the second, or until the turn ends.
    """

    __slots__ = ("_held", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes) -> None:
        """Writes `data` together with held data; holds it if there is none."""
        if self._held:
            data, self._held = self._held + data, b""
            self._transport.write(data)
        elif data:
            self._held = data
            self._loop.call_soon(self._flush)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        """Writes held data and closes the connection."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)


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


class ConnectionPort(Protocol):
    """What a connection needs of its port. `seconds` is the approximate age at which it ends, 0 for never."""

    seconds: float
    ending: bool
    client_names: frozenset[str]
    metrics: LifeMetrics | None
    clock: Clock

    def carried_review(self, connection: Connection) -> None:
        """Notes that `connection` has carried a valid AdmissionReview."""

    def closed(self, connection: Connection) -> None:
        """Notes that `connection` has ended."""

    def count(self, reason: Ended) -> None:
        """Counts a connection that the server ended."""


class Connection(HttpToolsProtocol):
    """One connection of a client, from the time it was accepted."""

    def __init__(self, port: ConnectionPort, config: uvicorn.Config, server_state: UvicornState, **more: Any) -> None:
        super().__init__(config, server_state, **more)
        self._port = port
        self.opened_at = port.clock.monotonic()
        # Whether there is a transport: with TLS, whether the handshake is complete.
        self.established = False
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
        """Keeps `task`, which runs until `connection_made`. `cut` cancels it if it is still running."""
        self._accepting = task

    @property
    def unused(self) -> bool:
        """Whether no data has arrived on this connection."""
        return not self._used

    @property
    def idle(self) -> bool:
        """Whether no request is being received or answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return not self._in_head and (cycle is None or cycle.response_complete)

    @property
    def answering(self) -> bool:
        """Whether a complete request has not been answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    @property
    def call(self) -> object:
        """The current or last call; a different object for each call."""
        return self.cycle

    @property
    def unread(self) -> bool:
        """Whether the client has not acknowledged all data that was sent to it."""
        if not self.established or not self._used:
            return False
        unsent = array.array("i", [0])
        sock = self.transport.get_extra_info("socket")
        if sock is None or sock.fileno() < 0:
            return False
        fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, unsent)
        return bool(unsent[0])

    def carried_review(self) -> None:
        """Notes that a valid AdmissionReview was answered."""
        self.reviewed = True
        self._port.carried_review(self)

    def holds_body(self, scope: Scope) -> bool:
        """Returns whether the whole body of the request with that scope has arrived."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.scope is scope and not cycle.more_body

    def cut(self) -> None:
        """Closes at once, even during a request."""
        if self.established:
            self.transport.abort()
        elif self._accepting is not None:
            self._accepting.cancel()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the timers, keeps the fingerprint of the served certificate, and checks the client's certificate."""
        super().connection_made(transport)
        self.established = True
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
        """Cancels the timers and frees what the connection holds."""
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
        """Parses `data`, which usually is a whole request."""
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
        """Begins a request."""
        super().on_message_begin()
        self._parts += 1
        self._used = self._in_head = True
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Adds a part of the URL."""
        super().on_url(url)
        self._head_bytes += len(url)
        self._check_head()
        if len(self.url) > MAX_URL_BYTES:
            self._too_large(f"the URL is longer than {MAX_URL_BYTES} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Adds a header. Trailers after a chunked body are ignored."""
        if self._in_head:
            super().on_header(name, value)
            self._head_bytes += len(name) + len(value)
            if self._head_bytes > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS:
                self._check_head()

    def on_headers_complete(self) -> None:
        """Begins the call when the head is complete."""
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
        """Adds a part of the body."""
        self._parts += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Completes the request."""
        self._parts += 1
        if not self.cycle.response_started and self.server_state is not _LAST:
            self.cycle.keep_alive = self._keeps
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answers 400 with the reason and closes the connection. Does nothing if it is already closing."""
        if self.transport.is_closing():
            return
        if self._fault is not None:
            self._port.count(Ended.HEAD)
        super().send_400_response(self._fault or msg)

    def timeout_keep_alive_handler(self) -> None:
        """Closes the connection after too much idle time."""
        if not self.transport.is_closing():
            self._port.count(Ended.IDLE)
        super().timeout_keep_alive_handler()

    def end(self) -> None:
        """Closes the connection after the next answer, even if the request for it has already arrived."""
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
        """Answers 403 with the reason, for every request."""
        await plain(
            send, 403, f"a client certificate for {', '.join(sorted(self._names)) or 'no name'} is not accepted"
        )


def _names(certificate: dict[str, Any]) -> frozenset[str]:
    """Returns the common names and alternative names of a certificate, as Python's ssl gives it. A directory name is a
    tuple of parts, not a string, and is left out.
    """
    common = {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
    return frozenset(common | {value for _, value in certificate.get("subjectAltName", ()) if isinstance(value, str)})


# How often unused connections and connections with unread answers are looked for.
SWEEP_SECONDS = 1.0
# Unused connections of this age are closed, but only if connections become scarce. Go opens spare connections, and does
# not resend a POST that is lost when one is closed.
UNUSED_SECONDS = 10.0
# A connection younger than this is not replaced: its handshake and request take a few milliseconds, and more on a busy
# processor. If all are younger, the next one waits in the kernel. So 512 places are taken at most 10,240 times a
# second, and 64 places 1,280 times.
YOUNG_SECONDS = 0.05
# How long a client may take to read the rest of an answer.
UNREAD_SECONDS = 15.0
# How many clients may do so at once: each holds an answer in memory.
MAX_UNREAD = 64


class _Unread(NamedTuple):
    """An answer that the client has not read: its call, and since when it is unread."""

    since: float
    call: object


class ConnectionRoom(NamedTuple):
    """Room for one more connection: the connection to replace, or None if a place is free."""

    held_by: Connection | None


class Connections:
    """The connections of one port, and the settings of all of them."""

    def __init__(
        self,
        most: int,
        counted: ConnectionMetrics,
        *,
        seconds: float = 0,
        client_names: Iterable[str] = (),
        metrics: LifeMetrics | None = None,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """Allows at most `most` connections. A connection ends at about `seconds` of age, 0 for never. With
        `client_names`, the certificate of a client must have one of them.
        """
        self.most = most
        self.seconds = seconds
        self.client_names = frozenset(client_names)
        self.metrics = metrics
        self.clock = clock
        self.ending = False
        self._counted = counted
        # In the order of arrival; and those that carried a review, in the order of their last review.
        self._strangers: OrderedDict[Connection, None] = OrderedDict()
        self._reviewed: OrderedDict[Connection, None] = OrderedDict()
        # Those with an unread answer, in the order in which that was noticed.
        self._unread: dict[Connection, _Unread] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        if metrics is not None:
            metrics.connections.set_function(lambda: len(self))

    def __len__(self) -> int:
        return len(self._strangers) + len(self._reviewed)

    def protocol(self, config: uvicorn.Config, server_state: UvicornState, **more: Any) -> Connection:
        """Returns a new connection, for uvicorn."""
        return Connection(self, config, server_state, **more)

    def opened(self, connection: Connection) -> None:
        self._strangers[connection] = None

    def closed(self, connection: Connection) -> None:
        """Removes `connection`."""
        self._strangers.pop(connection, None)
        self._reviewed.pop(connection, None)
        self._unread.pop(connection, None)

    def carried_review(self, connection: Connection) -> None:
        """Notes that `connection` carried a review: it is now needed more than the others."""
        if self._strangers.pop(connection, self) is None:
            self._reviewed[connection] = None
        elif connection in self._reviewed:
            self._reviewed.move_to_end(connection)

    def count(self, reason: Ended) -> None:
        """Counts a connection that the server ended."""
        self._counted.closed[reason].inc()

    def room(self) -> ConnectionRoom | None:
        """Returns room for one more connection: a free place, or an old connection to replace; None if there is
        neither.
        """
        if len(self) < self.most:
            return ConnectionRoom(None)
        least = self._least()
        had_its_time = least is not None and (least.reviewed or self._age(least) >= YOUNG_SECONDS)
        return ConnectionRoom(least) if had_its_time else None

    def take(self, room: ConnectionRoom) -> None:
        """Closes the connection that `room` replaces, if there is one."""
        if room.held_by is not None:
            self._cut(room.held_by, Ended.REPLACED)

    def replace(self) -> None:
        """Closes the least needed connection, if there is one."""
        self.take(ConnectionRoom(self._least()))

    def _least(self) -> Connection | None:
        """Returns the least needed connection. If most connections have carried a review, this is an idle one of those.
        Unknown connections keep half of the places; otherwise each new one would replace the one before.
        """
        few_strangers = len(self._strangers) < len(self._reviewed)
        return next(
            chain(
                (connection for connection in self._reviewed if few_strangers and connection.idle),
                (connection for connection in self._strangers if not connection.answering),
                (connection for connection in self._reviewed if connection.idle),
                (connection for connection in self._reviewed if not connection.answering),
                self._strangers,
                self._reviewed,
            ),
            None,
        )

    def watch(self) -> None:
        """Starts the sweep, once a second."""
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self.watch)
        self.sweep()

    def sweep(self) -> None:
        """Closes the connections that hold places or memory that others may need."""
        now = self.clock.monotonic()
        if len(self) * 2 > self.most:
            for connection in list(self._strangers):
                if connection.unused and self._age(connection) > UNUSED_SECONDS:
                    self._cut(connection, Ended.UNUSED)
        slow = [connection for connection in chain(self._strangers, self._reviewed) if connection.unread]
        unread = {connection: self._unread_since(connection, now) for connection in slow}
        self._unread = dict(sorted(unread.items(), key=lambda item: item[1].since))
        for connection, (since, _) in list(self._unread.items()):
            if now - since > UNREAD_SECONDS or (len(self._unread) > MAX_UNREAD and since < now):
                self._cut(connection, Ended.UNREAD)

    def _age(self, connection: Connection) -> float:
        return self.clock.monotonic() - connection.opened_at

    def _unread_since(self, connection: Connection, now: float) -> _Unread:
        """Returns since when the current answer is unread. A busy client acknowledges an answer with its next request,
        so there is nearly always an unread answer, but never the same one for long.
        """
        before = self._unread.get(connection)
        return before if before is not None and before.call is connection.call else _Unread(now, connection.call)

    def end(self) -> None:
        """Closes every connection after its next answer, and also those that are opened later."""
        self.ending = True
        for connection in chain(self._strangers, self._reviewed):
            connection.end()

    def cut(self) -> None:
        """Closes all connections at once, even during a request."""
        for connection in [*self._strangers, *self._reviewed]:
            connection.cut()

    def leave(self) -> None:
        """Stops the sweep."""
        if self._sweeping is not None:
            self._sweeping.cancel()

    def _cut(self, connection: Connection, reason: Ended) -> None:
        self.count(reason)
        connection.cut()
        # The place is free at once, although `connection_lost` is called later.
        self.closed(connection)

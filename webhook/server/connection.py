"""One connection: how long it is kept, how it ends without costing its client a request, what a head may be, and who
may open it.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import random
import termios
from typing import TYPE_CHECKING, Any, cast

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState as UvicornState

from webhook.server.answer_writer import AnswerWriter
from webhook.server.answers import plain
from webhook.server.carriers import CARRIER
from webhook.server.network_metrics import Ended
from webhook.server.tls import PairContext

if TYPE_CHECKING:
    from webhook.server.connections import Connections

# The API server keeps a connection to a webhook for 90 s of silence; closing first would lose a request that it has
# just sent.
KEEP_ALIVE_SECONDS = 97
# Connections that were opened together should not all be opened anew together.
JITTER = 0.25
# The first line of a request and its headers: an API server's have half a kilobyte, and the parser has no limit.
MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 128
MAX_URL_BYTES = 8 * 1024
# How many requests may be sent ahead of an answer: Go, kubelets and browsers send none, and each is kept.
MAX_AHEAD = 8
# How long a head may take to arrive. The body has the time that the request says.
HEAD_SECONDS = 10.0
# Of an answer that its client does not take, what is kept beyond what the kernel keeps.
_WRITE_BYTES = 64 * 1024
# What a body may wait here for an application that does not read it.
_READ_BYTES = 64 * 1024
# Under which an application finds, in the scope's state, the fingerprint of the certificate that its client was shown.
SHOWN = "certificate"
# What uvicorn looks into at each request over a connection that is to end: it adds these headers to the answer, and
# does as they say.
_LAST = UvicornState()
_LAST.default_headers = [(b"connection", b"close")]


class _HeadTooLarge(Exception):
    """A head is beyond one of its limits; the parser passes it on as a fault of the request."""


class _TooManyAhead(Exception):
    """More requests wait for their turn than may; the parser reads no further."""


class Connection(HttpToolsProtocol):
    """One connection of a client, from the moment that it was accepted."""

    def __init__(
        self, connections: Connections, config: uvicorn.Config, server_state: UvicornState, **more: Any
    ) -> None:
        super().__init__(config, server_state, **more)
        self._all = connections
        self.opened_at = self.loop.time()
        # Whether there is a transport: with TLS, whether the handshake is done.
        self.made = False
        # Whether a valid AdmissionReview has come over it.
        self.reviewed = False
        self._writer: AnswerWriter | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._ageing: asyncio.TimerHandle | None = None
        # Whether any request has begun to come; whether the head of one has come in part, what of it, and what ends the
        # waiting for the rest.
        self._used = False
        self._in_head = False
        self._head_bytes = 0
        self._head_wait: asyncio.TimerHandle | None = None
        # What is wrong with a head that is too large.
        self._fault: str | None = None
        # What the request says about keeping the connection, once it has come as a whole.
        self._keeps = False
        # Parts of requests that have come as a whole, and bytes since the last of them.
        self._parts = 0
        self._loose_bytes = 0

    def accepted(self, task: asyncio.Task[None]) -> None:
        """`task` does what comes before `connection_made`: it is cancelled where the connection is cut before."""
        self._accepting = task

    @property
    def unused(self) -> bool:
        """Whether nothing has come over it yet."""
        return not self._used

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        cycle: RequestResponseCycle | None = self.cycle
        return not self._in_head and (cycle is None or cycle.response_complete)

    @property
    def answering(self) -> bool:
        """Whether a request has come as a whole that is not answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    @property
    def call(self) -> object:
        """The call that is answered over it, or was last; another object for each."""
        return self.cycle

    @property
    def unread(self) -> bool:
        """Whether its client has not taken what was said to it."""
        if not self.made or not self._used:
            return False
        unsent = array.array("i", [0])
        sock = self.transport.get_extra_info("socket")
        if sock is None or sock.fileno() < 0:
            return False
        fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, unsent)
        return bool(unsent[0])

    def carried_review(self) -> None:
        """A valid AdmissionReview has been answered over it."""
        self.reviewed = True
        self._all.carried_review(self)

    def holds_body(self, scope: Scope) -> bool:
        """Whether the body of the request with that scope has come as a whole."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.scope is scope and not cycle.more_body

    def cut(self) -> None:
        """End at once, whatever is under way."""
        if self.made:
            self.transport.abort()
        elif self._accepting is not None:
            self._accepting.cancel()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin: note when it ends, what its client was shown, and whether it is let in."""
        super().connection_made(transport)
        self.made = True
        self._writer = AnswerWriter(transport, self.loop)
        transport.set_write_buffer_limits(high=_WRITE_BYTES)
        if self._all.ending:
            self.end()
        # One over which nothing ever comes is kept no longer than one over which nothing more comes.
        self._keep_alive()
        if self._all.seconds:
            age = self._all.seconds * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - no secret
            self._ageing = self.loop.call_later(age, self._grow_old)
        self.app_state = {CARRIER: self}
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            cast("Any", transport).set_read_buffer_limits(high=_READ_BYTES)
            if isinstance(tls.context, PairContext):
                self.app_state[SHOWN] = tls.context.pair.fingerprint
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
        # The state of each request holds it: a circle that only the garbage collector would find.
        self.app_state = {}
        self.cycle = self.scope = cast("Any", None)
        self.pipeline.clear()

    def data_received(self, data: bytes) -> None:
        """Something has come: of most requests all."""
        before = self._parts
        super().data_received(data)
        if self.transport.is_closing():
            return
        self._loose_bytes = 0 if self._parts != before else self._loose_bytes + len(data)
        if self._loose_bytes > MAX_HEAD_BYTES:
            # A head without end, headers behind a body, or empty lines.
            self._fault = "the headers are too long"
            self.send_400_response("")
        elif self._in_head and self._head_wait is None:
            self._head_wait = self.loop.call_later(HEAD_SECONDS, self._head_late)
        elif self.idle and self.timeout_keep_alive_task is None:
            self._keep_alive()

    def on_message_begin(self) -> None:
        """A request begins to come."""
        super().on_message_begin()
        self._parts += 1
        self._used = self._in_head = True
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        """A part of the URL has come."""
        super().on_url(url)
        self._head_bytes += len(url)
        self._check_head()
        if len(self.url) > MAX_URL_BYTES:
            self._too_large(f"the URL is longer than {MAX_URL_BYTES} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header has come. Those behind a body in chunks are nobody's."""
        if self._in_head:
            super().on_header(name, value)
            self._head_bytes += len(name) + len(value)
            if self._head_bytes > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS:
                self._check_head()

    def on_headers_complete(self) -> None:
        """A request has come, but for its body."""
        self._parts += 1
        self._in_head = False
        if self._head_wait is not None:
            self._head_wait.cancel()
            self._head_wait = None
        if len(self.pipeline) >= MAX_AHEAD:
            self._all.count(Ended.PIPELINED)
            self.cut()
            raise _TooManyAhead
        super().on_headers_complete()
        # An answer that is given before the body has come is the last: the rest of the body is not read.
        self._keeps = self.cycle.keep_alive
        self.cycle.transport = cast("Any", self._writer)
        self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """A part of a body has come."""
        self._parts += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request has come as a whole."""
        self._parts += 1
        if not self.cycle.response_started and self.server_state is not _LAST:
            self.cycle.keep_alive = self._keeps
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong with a request, and hang up; one that was cut is told nothing."""
        if self.transport.is_closing():
            return
        if self._fault is not None:
            self._all.count(Ended.HEAD)
        super().send_400_response(self._fault or msg)

    def timeout_keep_alive_handler(self) -> None:
        """Nothing has come for as long as it may be silent."""
        if not self.transport.is_closing():
            self._all.count(Ended.IDLE)
        super().timeout_keep_alive_handler()

    def end(self) -> None:
        """Let the next answer be the last, also where its request has come already."""
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
            self._all.count(Ended.HEAD)
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

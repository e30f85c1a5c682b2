"""The network between a reconciler and a real API server: it counts requests, can answer in place of the server, and
can be cut.

Death is that of the process behind it: from then on nothing is sent, and no answer is seen, be it on its way already.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx

from tests.e2e.control_plane import ADMIN, ControlPlane
from webhook.cluster.access import Access

# The moment from which on a request is the API server's: httpcore hands the body to the connection.
_SENT = "http11.send_request_body.started"
Send = Callable[[httpx.Request], Awaitable[httpx.Response]]
# May answer in the API server's place, or send the request and see to the answer.
Meddle = Callable[[httpx.Request, Send], Awaitable[httpx.Response]]


@dataclass
class Exchange:
    """One request: its times by one clock, and its result."""

    method: str
    path: str
    watch: bool
    asked: float
    # None where it was never sent, and where no answer was seen.
    sent: float | None = None
    answered: float | None = None
    code: int | None = None

    @property
    def changes_gangs(self) -> bool:
        """Whether it writes, and not the lease."""
        return self.method != "GET" and "/leases" not in self.path


class _Cuttable(httpx.AsyncByteStream):
    """What comes of a watch, until its connection is cut."""

    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self.cut = asyncio.Event()
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks, cut = aiter(self._stream), asyncio.ensure_future(self.cut.wait())
        chunk: asyncio.Future[bytes] | None = None
        try:
            while True:
                chunk = asyncio.ensure_future(anext(chunks))
                await asyncio.wait({chunk, cut}, return_when=asyncio.FIRST_COMPLETED)
                if cut.done():
                    raise httpx.ReadError("the connection is cut")
                try:
                    yield chunk.result()
                except StopAsyncIteration:
                    return
        finally:
            for task in (cut, chunk):
                if task is not None and not task.done():
                    task.cancel()
                    with suppress(BaseException):
                        await task

    async def aclose(self) -> None:
        await self._stream.aclose()


class Network(httpx.AsyncBaseTransport):
    """The network of one reconciler. `exchanges` are its requests; `meddle` is called before each is sent."""

    def __init__(self, plane: ControlPlane) -> None:
        tls = ssl.create_default_context(cafile=str(plane.ca))
        self.access = Access(plane.url, tls, lambda: f"Bearer {ADMIN}")
        # As the client's own; it is closed by the program, not by the first of its clients that ends.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=8)
        self._real = httpx.AsyncHTTPTransport(verify=tls, limits=limits, trust_env=False)
        self.exchanges: list[Exchange] = []
        self.meddle: Meddle = lambda request, send: send(request)
        self._watches: list[_Cuttable] = []
        self._changes = 0
        self._end = float("inf")
        self._fatal: tuple[int, bool] | None = None
        self._among: Callable[[Exchange], bool] = lambda _: True

    def die_at(self, change: int, *, sent: bool, among: Callable[[Exchange], bool] = lambda _: True) -> None:
        """Die at that change from now on: before it is sent, or when it is done and before the answer is seen. `among`
        says which are counted.
        """
        self._changes, self._fatal, self._among = 0, (change, sent), among

    def die_in(self, seconds: float) -> None:
        """Die so many seconds from now."""
        self._end = time.monotonic() + seconds

    def live(self) -> None:
        """Do not die."""
        self._fatal, self._end = None, float("inf")

    @property
    def dead(self) -> bool:
        """Whether it is dead."""
        return time.monotonic() >= self._end

    @property
    def changes(self) -> list[Exchange]:
        """The requests that were to change anything but the lease, and that were sent."""
        return [found for found in self.exchanges if found.changes_gangs and found.sent is not None]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The API server's answer, or a substitute."""
        self._check()
        exchange = Exchange(
            request.method, request.url.path, request.url.params.get("watch") == "true", time.monotonic()
        )
        self.exchanges.append(exchange)
        fatal, sent = self._is_fatal(exchange)
        if fatal and not sent:
            self.die_in(0)
        self._check()
        response = await self.meddle(request, self._sending(exchange))
        if fatal:
            await response.aread()
            self.die_in(0)
        if self.dead:
            await response.aclose()
        self._check()
        exchange.answered, exchange.code = time.monotonic(), response.status_code
        if exchange.watch:
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = _Cuttable(response.stream)
            self._watches.append(response.stream)
        return response

    def cut_watches(self) -> None:
        """Cut the connection of every watch; to be called in the reconciler's own thread."""
        for watch in self._watches:
            watch.cut.set()
        self._watches.clear()

    def _is_fatal(self, exchange: Exchange) -> tuple[bool, bool]:
        if self._fatal is None or not exchange.changes_gangs or not self._among(exchange):
            return False, False
        self._changes += 1
        change, sent = self._fatal
        return self._changes == change, sent

    def _check(self) -> None:
        if self.dead:
            raise httpx.ConnectError("this process is dead")

    def _sending(self, exchange: Exchange) -> Send:
        async def send(request: httpx.Request) -> httpx.Response:
            theirs = request.extensions.get("trace")

            async def trace(event: str, info: dict[str, Any]) -> None:
                if theirs is not None:
                    await theirs(event, info)
                if event == _SENT:
                    exchange.sent = time.monotonic()

            request.extensions = {**request.extensions, "trace": trace}
            return await self._real.handle_async_request(request)

        return send

    async def aclose(self) -> None:
        """Nothing: a reconciler has several clients, and they end one after the other."""

    async def close(self) -> None:
        """Close every connection."""
        await self._real.aclose()


def refusal(code: int, why: str, **headers: str) -> httpx.Response:
    """The answer of an API server that refuses a request."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": why, "code": code}
    return httpx.Response(code, json=body, headers={name.replace("_", "-"): value for name, value in headers.items()})

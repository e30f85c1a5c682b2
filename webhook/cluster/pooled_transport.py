"""The transport of a `Client` that sends thousands of requests: aiohttp, which takes a tenth of the processor time.

httpx's own transport takes two milliseconds for a request, more than an API server. It stays the one for proxies, and
for processes that send few requests: aiohttp takes 10 MB.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import httpx
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from webhook.cluster.access import Access
from webhook.cluster.requests import Sending

# A connection without requests is closed after this time, as by httpx.
IDLE_SECONDS = 5.0


class PooledTransport:
    """Connections to one cluster, as many as there are requests at once; they are kept for the next ones."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._server = str(URL(access.url).origin())
        self._session: aiohttp.ClientSession | None = None

    async def send(self, sending: Sending) -> PooledReply:
        """Sends a request. Raises `httpx.TransportError`, and what `Sending.allowed` raises."""
        body = sending.content if sending.allowed is None else _Body(sending.content or b"", sending.allowed)
        try:
            with _translated():
                response = await self._opened().request(
                    sending.method,
                    URL(self._server + sending.target, encoded=True),
                    data=body,
                    headers=sending.headers,
                    allow_redirects=False,
                    server_hostname=self._access.server_name,
                    timeout=aiohttp.ClientTimeout(
                        total=None, connect=sending.connect_seconds, sock_read=sending.seconds
                    ),
                )
        except httpx.TransportError:
            if isinstance(body, _Body) and body.refused is not None:
                raise body.refused from None
            raise
        return PooledReply(response, sending.seconds)

    def _opened(self) -> aiohttp.ClientSession:
        """Returns the session; a new one needs the running event loop."""
        if self._session is None:
            # `Client` limits the requests at once, and a watch must never wait for a connection.
            connector = aiohttp.TCPConnector(limit=0, ssl=self._access.tls, keepalive_timeout=IDLE_SECONDS)
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, trust_env=False
            )
        return self._session

    async def aclose(self) -> None:
        """Closes every connection."""
        if self._session is not None:
            await self._session.close()


class _Body(aiohttp.BytesPayload):
    """The body of a request. It is asked for when the headers are ready and nothing of the request was sent."""

    def __init__(self, content: bytes, allowed: Callable[[], None]) -> None:
        super().__init__(content)
        self._allowed = allowed
        self.refused: Exception | None = None

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Sends the body if that is allowed."""
        try:
            self._allowed()
        except Exception as error:
            # aiohttp raises another error in its place.
            self.refused = error
            raise
        await super().write_with_length(writer, content_length)


class PooledReply:
    """An answer, as `Reply`."""

    def __init__(self, response: aiohttp.ClientResponse, seconds: float) -> None:
        """`seconds` is the longest silence of the server."""
        self._response = response
        self._seconds = seconds

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status

    def header(self, name: str) -> str | None:
        """Returns the first header of that name."""
        return self._response.headers.get(name)

    def headers(self, name: str) -> list[str]:
        return self._response.headers.getall(name, [])

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yields the body, as it arrives. Raises `httpx.TransportError`."""
        with _translated():
            while True:
                # After a malformed chunk aiohttp closes the connection, and forgets its own limit.
                async with asyncio.timeout(self._seconds):
                    chunk = await self._response.content.readany()
                if not chunk:
                    return
                yield chunk

    async def aclose(self) -> None:
        """Frees the connection, for the next request if the whole body was read."""
        self._response.release()


@contextmanager
def _translated() -> Iterator[None]:
    """Raises the errors of httpx for those of aiohttp."""
    try:
        yield
    except (aiohttp.ConnectionTimeoutError, TimeoutError) as error:
        kind: Any = httpx.ConnectTimeout if isinstance(error, aiohttp.ConnectionTimeoutError) else httpx.ReadTimeout
        raise kind(str(error)) from None
    except aiohttp.ClientConnectorError as error:
        raise httpx.ConnectError(str(error)) from None
    except (aiohttp.ClientError, HttpProcessingError) as error:
        raise httpx.RemoteProtocolError(str(error) or type(error).__name__) from None
    except OSError as error:
        raise httpx.ReadError(str(error)) from None

"""Sends the requests of a `Client` by httpx: also through a proxy, and with little memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx

from webhook.cluster.access import Access
from webhook.cluster.transport import Sending


class HttpxTransport:
    """Connections to one cluster, of which eight are kept for the next requests."""

    def __init__(self, access: Access, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """`transport` replaces the network in tests."""
        self._server_name = access.server_name
        self._url = httpx.URL(access.url)
        self._http = httpx.AsyncClient(
            verify=access.tls,
            proxy=_proxy(access),
            transport=transport,
            # `Access` decides which proxies of the environment are for this cluster.
            trust_env=False,
            # `Client` limits the requests at once. A watch keeps its connection, so it must never wait for a free one.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=8),
        )

    async def send(self, sending: Sending) -> HttpxReply:
        """Send a request. Raises `httpx.TransportError`, and what `Sending.allowed` raises."""
        extensions: dict[str, Any] = {} if self._server_name is None else {"sni_hostname": self._server_name}
        if sending.allowed is not None:
            extensions["trace"] = _before_the_body(sending.allowed)
        built = self._http.build_request(
            sending.method,
            # httpx would parse a text three times, which takes as long as the rest of a request.
            self._url.copy_with(raw_path=sending.target.encode()),
            headers=sending.headers,
            content=sending.content,
            extensions=extensions,
            timeout=httpx.Timeout(sending.seconds, connect=sending.connect_seconds),
        )
        return HttpxReply(await self._http.send(built, stream=True))

    async def aclose(self) -> None:
        """Close every connection."""
        await self._http.aclose()


class HttpxReply:
    """An answer, as `Reply`."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status_code

    def header(self, name: str) -> str | None:
        """The first header of that name."""
        return next(iter(self.headers(name)), None)

    def headers(self, name: str) -> list[str]:
        """All headers of that name."""
        return self._response.headers.get_list(name)

    def chunks(self) -> AsyncIterator[bytes]:
        """The body, as it arrives. Raises `httpx.TransportError`."""
        return self._response.aiter_bytes()

    async def aclose(self) -> None:
        """Free the connection."""
        await self._response.aclose()


def _proxy(access: Access) -> httpx.Proxy | None:
    if access.proxy is None:
        return None
    # The certificate of an https proxy is verified like the one of the API server, as in Go.
    return httpx.Proxy(access.proxy, ssl_context=access.tls if access.proxy.startswith("https://") else None)


def _before_the_body(allowed: Callable[[], None]) -> Callable[[str, Any], Awaitable[None]]:
    """Return a trace function that calls `allowed` just before the body is sent."""

    async def trace(event: str, _: Any) -> None:
        if event.endswith("send_request_body.started"):
            allowed()

    return trace

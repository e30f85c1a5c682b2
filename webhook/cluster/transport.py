"""What a `Client` sends and gets, no matter which library carries it.

`HttpxTransport` supports proxies and is for processes that send few requests. `PooledTransport` is for thousands of
requests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import NamedTuple, Protocol


class Sending(NamedTuple):
    """One request. `target` is its path and query, `seconds` the longest silence of the server, `connect_seconds` the
    time for a new connection.

    `allowed` is called just before the body is sent, and may raise: without the body the API server does nothing.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    content: bytes | None
    seconds: float
    connect_seconds: float
    allowed: Callable[[], None] | None = None


class Reply(Protocol):
    """An answer whose body is still to be read."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    def header(self, name: str) -> str | None:
        """The first header of that name."""

    def headers(self, name: str) -> list[str]:
        """All headers of that name."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body, as it arrives. Raises `httpx.TransportError`."""

    async def aclose(self) -> None:
        """Free the connection, for the next request if the whole body was read."""


class Transport(Protocol):
    """Connections to one cluster."""

    async def send(self, sending: Sending) -> Reply:
        """Send a request. Raises `httpx.TransportError`, and what `Sending.allowed` raises."""

    async def aclose(self) -> None:
        """Close every connection."""

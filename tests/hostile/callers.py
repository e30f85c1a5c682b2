"""The callers that an attack must not hurt: an API server that reuses a connection, another that opens new ones, and a
kubelet that probes health. They run for a while and count the results of their calls.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

# How often each asks: an ordinary cluster's pace, and not one that is an attack itself.
PAUSE_SECONDS = 0.02
# As the API server waits at most, by our own webhook configurations.
TIMEOUT_SECONDS = 5.0


class Percentiles(NamedTuple):
    """Milliseconds."""

    middle: float
    p99: float
    worst: float


@dataclass(slots=True)
class Calls:
    """The results of one caller's calls: the milliseconds of each answered call, and the errors of the others."""

    milliseconds: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def percentiles(self) -> Percentiles:
        """Of those that were answered."""
        waited = sorted(self.milliseconds)
        return Percentiles(waited[len(waited) // 2], waited[int(len(waited) * 0.99)], waited[-1])


class Callers(NamedTuple):
    """The three of them."""

    kept: Calls
    new: Calls
    health: Calls


async def call_for(seconds: float, port: int, health_port: int, tls: ssl.SSLContext, review: bytes) -> Callers:
    """Let all three call for so long."""
    until = perf_counter() + seconds
    callers = Callers(Calls(), Calls(), Calls())
    post = _request("POST", "/validate", review)
    get = _request("GET", "/healthz", b"")
    kept = _Kept(port, tls)

    async def over_a_new_one() -> None:
        connection = _Kept(port, tls)
        try:
            await connection.ask(post)
        finally:
            connection.close()

    async def about_health() -> None:
        connection = _Kept(health_port, None)
        try:
            await connection.ask(get)
        finally:
            connection.close()

    await asyncio.gather(
        _repeat(callers.kept, until, lambda: kept.ask(post)),
        _repeat(callers.new, until, over_a_new_one),
        _repeat(callers.health, until, about_health),
    )
    kept.close()
    return callers


async def _repeat(calls: Calls, until: float, call: Callable[[], Awaitable[None]]) -> None:
    while (begun := perf_counter()) < until:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await call()
        except (OSError, EOFError, TimeoutError, AssertionError) as error:
            calls.failed.append(f"{type(error).__name__}: {error}")
        else:
            calls.milliseconds.append((perf_counter() - begun) * 1000)
        await asyncio.sleep(PAUSE_SECONDS)


class _Kept:
    """One connection, opened when it is needed and kept as long as the server keeps it."""

    def __init__(self, port: int, tls: ssl.SSLContext | None) -> None:
        self._port = port
        self._tls = tls
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> None:
        """Send a request and read its answer. Raises AssertionError for any but 200."""
        if self._open is None:
            name = None if self._tls is None else "localhost"
            self._open = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls, server_hostname=name)
        reader, writer = self._open
        try:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = next(line for line in head.split("\r\n") if line.startswith("content-length:"))
            body = await reader.readexactly(int(length.partition(":")[2]))
            assert head.startswith("http/1.1 200 "), (head, body[:200])
        except BaseException:
            self.close()
            raise
        if "connection: close" in head:
            self.close()

    def close(self) -> None:
        """Close it, if it is open."""
        if self._open is not None:
            self._open[1].transport.abort()
            self._open = None


def _request(method: str, path: str, body: bytes) -> bytes:
    head = (f"{method} {path} HTTP/1.1", "host: localhost", "content-type: application/json")
    return "\r\n".join([*head, f"content-length: {len(body)}", "", ""]).encode() + body

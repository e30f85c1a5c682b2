"""A load of HTTPS requests over keep-alive connections. A raw client: a comfortable one would be the bottleneck."""

from __future__ import annotations

import asyncio
import ssl
import statistics
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import cast


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run came to: requests a second, and latencies in milliseconds."""

    rate: float
    p50: float
    p95: float
    p99: float
    worst: float


class _Connection(asyncio.Protocol):
    """One connection: sends the next request when the answer to the last one is whole."""

    def __init__(self, requests: list[bytes], start: int, until: float, done: asyncio.Future[list[float]]) -> None:
        self._requests = requests
        self._next = start
        self._until = until
        self._done = done
        self._sent = 0.0
        self._buffer = b""
        self._latencies: list[float] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A plain or a TLS transport, of asyncio or of uvloop: all of them write and close.
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found or len(body) < _length(head):
            return
        now = perf_counter()
        self._latencies.append(now - self._sent)
        if not head.startswith(b"HTTP/1.1 200"):
            self._fail(RuntimeError(f"the server answered {self._buffer[:200]!r}"))
            return
        self._buffer = b""
        if now < self._until:
            self._send()
        else:
            self._transport.close()
            self._done.set_result(self._latencies)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionResetError("the server closed the connection"))

    def _send(self) -> None:
        self._sent = perf_counter()
        self._transport.write(self._requests[self._next % len(self._requests)])
        self._next += 1

    def _fail(self, error: Exception) -> None:
        if not self._done.done():
            self._done.set_exception(error)


def _length(head: bytes) -> int:
    start = head.lower().index(b"content-length:") + len(b"content-length:")
    return int(head[start:].split(b"\r\n", 1)[0])


def request_bytes(path: str, body: bytes) -> bytes:
    """A whole POST request."""
    lines = [f"POST {path} HTTP/1.1", "host: localhost", "content-type: application/json"]
    head = "\r\n".join([*lines, f"content-length: {len(body)}", "", ""])
    return head.encode() + body


async def drive(port: int, ca: Path, requests: list[bytes], *, connections: int, seconds: float) -> Figures:
    """Send `requests` in turn over each of `connections` for `seconds`."""
    context = ssl.create_default_context(cafile=str(ca))
    loop = asyncio.get_running_loop()
    begun = perf_counter()
    waiting = []
    for index in range(connections):
        done: asyncio.Future[list[float]] = loop.create_future()
        start, until = index * len(requests) // connections, begun + seconds

        def connection(
            start: int = start, until: float = until, done: asyncio.Future[list[float]] = done
        ) -> _Connection:
            return _Connection(requests, start, until, done)

        await loop.create_connection(connection, "localhost", port, ssl=context)
        waiting.append(done)
    latencies = sorted(latency * 1000 for answers in await asyncio.gather(*waiting) for latency in answers)
    took = perf_counter() - begun
    cuts = statistics.quantiles(latencies, n=100)
    return Figures(len(latencies) / took, cuts[49], cuts[94], cuts[98], latencies[-1])

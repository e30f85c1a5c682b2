"""A client of an API server for steady loads: requests as bytes over kept connections. A full client would need more
CPU than the server under test.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.e2e.control_plane import Manifest

# Longer than any webhook may take, so that the API server says what has happened.
_TIMEOUT_SECONDS = 20.0
# A reader holds no longer line, and no larger part of a body.
_LIMIT = 8 * 1024 * 1024


class Answer(NamedTuple):
    """An answer, unread."""

    code: int
    body: bytes

    @property
    def message(self) -> str:
        """What an API server says of what it did not do."""
        return f"{self.code}: {json.loads(self.body).get('message')}"


class RawClient:
    """As many connections as there are requests at once; they are kept. `close` ends them."""

    def __init__(self, url: str, tls: ssl.SSLContext, token: str) -> None:
        self._where = urlsplit(url)
        self._tls = tls
        self._token = token
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    def request(self, method: str, target: str, body: Manifest | None = None) -> bytes:
        """A request, ready to be sent any number of times."""
        content = b"" if body is None else json.dumps(body).encode()
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        lines = [
            f"{method} {target} HTTP/1.1",
            f"host: {self._where.netloc}",
            f"authorization: Bearer {self._token}",
            "accept: application/json",
            f"content-type: {kind}",
            f"content-length: {len(content)}",
        ]
        return "\r\n".join([*lines, "", ""]).encode() + content

    async def send(self, request: bytes) -> Answer:
        """The answer to a request. Raises `OSError`, `EOFError` or `TimeoutError`."""
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            connection = self._kept() or await self._connect()
            reader, writer = connection
            try:
                writer.write(request)
                answer = await _read(reader)
            except BaseException:
                writer.transport.abort()
                raise
            self._idle.append(connection)
            return answer

    async def statuses(self, requests: Iterable[bytes], at_once: int) -> Counter[int]:
        """The answers to all requests, of which so many are sent at once, by HTTP status. Raises as `send` does."""
        found, waiting = Counter[int](), iter(requests)

        async def one() -> None:
            for request in waiting:
                found[(await self.send(request)).code] += 1

        await asyncio.gather(*(one() for _ in range(at_once)))
        return found

    def _kept(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        while self._idle:
            connection = self._idle.pop()
            # An API server ends a connection over which nothing came for long.
            if not connection[0].at_eof():
                return connection
            connection[1].transport.abort()
        return None

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._where.hostname, self._where.port, ssl=self._tls, limit=_LIMIT)

    def close(self) -> None:
        """End the connections that nothing is sent on."""
        for _, writer in self._idle:
            writer.transport.abort()
        self._idle.clear()


async def _read(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    code = int(head.split(b" ", 2)[1])
    if b"\r\ntransfer-encoding: chunked" in head:
        return Answer(code, await _read_chunks(reader))
    length = int(head.partition(b"\r\ncontent-length:")[2].split(b"\r\n", 1)[0])
    return Answer(code, await reader.readexactly(length))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    found = bytearray()
    while size := int(await reader.readuntil(b"\r\n"), 16):
        found += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return bytes(found)

"""The attackers: a separate program that knows only Rollcall's port.

    python attacks.py NAME PORT [--seconds N] [--body FILE] [--count N] [--path PATH]

Every attack is bounded: it ends by itself after `--seconds`, opens at most `--count` connections, and talks to the
loopback address only. It prints one JSON object with what it counted. Nothing here verifies a certificate: an attacker
does not care.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

HOST = "127.0.0.1"
# What a stalled upload announces, and what it sends of that before it stops.
ANNOUNCED, SENT = 7_000_000, 6_900_000
# So many open connections one after the other, and each keeps so many of its last.
FLOODS, FLOOD_HELD = 8, 40
# Connections a second: what 112 places hold by docs/explanation/security.md. A faster flood fills the kernel's queue
# before ours.
FLOOD_RATE = 1_000


@dataclass(slots=True)
class Attack:
    """The options of an attack, and its counts so far."""

    port: int
    until: float
    body: bytes
    count: int
    path: str
    counted: Counter[str] = field(default_factory=Counter)

    @property
    def over(self) -> bool:
        """Whether its time is up."""
        return perf_counter() >= self.until

    async def until_over(self) -> None:
        """Do nothing more until its time is up."""
        await asyncio.sleep(max(0.0, self.until - perf_counter()))

    def head(self, length: int) -> bytes:
        """The head of a POST request whose body has that length."""
        lines = (f"POST {self.path} HTTP/1.1", "host: localhost", "content-type: application/json")
        return "\r\n".join([*lines, f"content-length: {length}", "", ""]).encode()


def _careless() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _connect(attack: Attack, *, tls: bool = True) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(HOST, attack.port, ssl=_careless() if tls else None)
    attack.counted["connected"] += 1
    return reader, writer


async def idle_tls(attack: Attack) -> None:
    """Connections that say nothing after their handshake."""
    await _hold(attack, b"", tls=True)


async def idle_tcp(attack: Attack) -> None:
    """Connections that do not even begin a handshake."""
    await _hold(attack, b"", tls=False)


async def half_heads(attack: Attack) -> None:
    """Requests whose head never ends."""
    await _hold(attack, b"POST /validate HTTP/1.1\r\nhost: localhost\r\nx-more: ", tls=True)


async def plain_half_heads(attack: Attack) -> None:
    """The same without TLS, as the health port takes them."""
    await _hold(attack, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-more: ", tls=False)


async def _hold(attack: Attack, said: bytes, *, tls: bool) -> None:
    async def one() -> None:
        while not attack.over:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await _connect(attack, tls=tls)
                writer.write(said)
                # Returns when the server has closed the connection.
                with suppress(TimeoutError):
                    async with asyncio.timeout(attack.until - perf_counter()):
                        await reader.read()
                        attack.counted["closed"] += 1
                writer.transport.abort()
            await asyncio.sleep(0.05)

    await asyncio.gather(*(one() for _ in range(attack.count)))


async def stalled_uploads(attack: Attack) -> None:
    """Uploads that stop just before their end."""

    async def one() -> None:
        while not attack.over:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await _connect(attack)
                writer.write(attack.head(ANNOUNCED))
                part = b"[" * 65536
                for _ in range(SENT // len(part)):
                    writer.write(part)
                    await writer.drain()
                attack.counted["stalled"] += 1
                with suppress(TimeoutError):
                    async with asyncio.timeout(attack.until - perf_counter()):
                        status = await reader.read(12)
                        attack.counted[status.decode(errors="replace") or "closed"] += 1
                writer.transport.abort()
            await asyncio.sleep(0.05)

    await asyncio.gather(*(one() for _ in range(attack.count)))


async def sent_ahead(attack: Attack) -> None:
    """Thousands of requests in one breath over each of `count` connections."""
    said = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n" * 3000
    await _hold(attack, said, tls=True)


async def unread_posts(attack: Attack) -> None:
    """The same body over `count` connections, none of which reads an answer."""

    async def one() -> None:
        with suppress(OSError):
            _, writer = await _connect(attack)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(attack.head(len(attack.body)) + attack.body)
            await writer.drain()
            attack.counted["sent"] += 1
            await attack.until_over()
            writer.transport.abort()

    await asyncio.gather(*(one() for _ in range(attack.count)))


async def known_and_flood(attack: Attack) -> None:
    """`count` connections that each carry the body once, and meanwhile new ones one after the other."""

    async def known() -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await _connect(attack)
            writer.write(attack.head(len(attack.body)) + attack.body)
            await _counted_answer(attack, reader)
            await attack.until_over()
            writer.transport.abort()

    async def flood() -> None:
        held: deque[asyncio.StreamWriter] = deque()
        while not attack.over:
            with suppress(OSError):
                _, writer = await _connect(attack, tls=False)
                held.append(writer)
                if len(held) > FLOOD_HELD:
                    held.popleft().transport.abort()
            await asyncio.sleep(FLOODS / FLOOD_RATE)
        for writer in held:
            writer.transport.abort()

    await asyncio.gather(*(known() for _ in range(attack.count)), *(flood() for _ in range(FLOODS)))


async def posts(attack: Attack) -> None:
    """The same body again and again, from `count` clients, each of which waits for its answer."""

    async def one() -> None:
        while not attack.over:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await _connect(attack)
                try:
                    while not attack.over:
                        writer.write(attack.head(len(attack.body)) + attack.body)
                        await writer.drain()
                        if not await _counted_answer(attack, reader):
                            break
                finally:
                    writer.transport.abort()
            await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(one()) for _ in range(attack.count)]
    # An answer may take longer than the attack.
    await asyncio.wait(tasks, timeout=max(0.0, attack.until - perf_counter()))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _counted_answer(attack: Attack, reader: asyncio.StreamReader) -> bool:
    """Count one answer by its status; whether another request may follow over its connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    attack.counted[head.split(" ", 2)[1]] += 1
    length = next(line for line in head.split("\r\n") if line.startswith("content-length:"))
    await reader.readexactly(int(length.partition(":")[2]))
    return "connection: close" not in head


ATTACKS: dict[str, Callable[[Attack], Coroutine[Any, Any, None]]] = {
    made.__name__: made
    for made in (
        idle_tls,
        idle_tcp,
        half_heads,
        plain_half_heads,
        stalled_uploads,
        sent_ahead,
        unread_posts,
        known_and_flood,
        posts,
    )
}


def main() -> None:
    """Run one attack, and print what it counted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=sorted(ATTACKS))
    parser.add_argument("port", type=int)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--body", type=Path)
    parser.add_argument("--path", default="/validate")
    said = parser.parse_args()
    body = b"" if said.body is None else said.body.read_bytes()
    attack = Attack(said.port, perf_counter() + said.seconds, body, said.count, said.path)
    asyncio.run(ATTACKS[said.name](attack))
    print(json.dumps(attack.counted))


if __name__ == "__main__":
    main()

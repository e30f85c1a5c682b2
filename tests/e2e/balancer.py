"""A TCP balancer that treats connections like a Service: it polls each replica's /readyz, sends new connections to the
ready replicas in turn, and keeps existing connections.

It retries nothing. What is in TLS it cannot read either; but whether bytes have come that a replica has not answered
it can see, so that what a killed one takes with it is counted, but for an answer or a handshake cut in the middle.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, cast

import httpx

from tests.e2e.background import Background

# The period and the timeout of the readiness probe in the manifests.
PROBE_SECONDS = 1.0
_TIMEOUT_SECONDS = 1.0
# As much as TLS needs to say that a connection ends, and less than any request.
_GOODBYE_BYTES = 31


class How(StrEnum):
    """How a connection came to its end."""

    REFUSED = "refused a connection"
    OWING = "left an answer owing"
    IDLE = "ended a connection that nothing was asked on"


class Ended(NamedTuple):
    """A connection that a replica ended or did not take. At most one call goes with it: HTTP/1.1 has one at a time."""

    at: float
    replica: str
    how: How


@dataclass(eq=False)
class Replica:
    """One replica as the balancer knows it."""

    name: str
    port: int
    probe: str
    ready: bool = False
    taken: int = 0
    connections: set[_Outer] = field(default_factory=set)
    # When it was first seen as not ready; None while it is ready or gets no connections.
    doubted: float | None = None


class Balancer:
    """The balancer, on a loop of its own. With `lag` it learns of a replica that is not ready only so much later, as
    kube-proxy on a busy node does.
    """

    def __init__(self, background: Background, *, lag: float = 0.0, period: float = PROBE_SECONDS) -> None:
        self.lag = lag
        self.ended: list[Ended] = []
        # When the API server found no server to send a connection to.
        self.without_server: list[float] = []
        self._period = period
        self._background = background
        self._replicas: dict[str, Replica] = {}
        self._following: dict[str, asyncio.Task[None]] = {}
        self._turn = 0
        self.port = background.call(self._listen())

    async def _listen(self) -> int:
        self._http = httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, trust_env=False)
        self._server = await asyncio.get_running_loop().create_server(lambda: _Outer(self), "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    def add(self, name: str, port: int, probe: str) -> None:
        """Follow a replica, at `probe`; it gets connections when it is ready."""
        self._background.call(self._add(Replica(name, port, probe)))

    async def _add(self, replica: Replica) -> None:
        self._replicas[replica.name] = replica
        self._following[replica.name] = asyncio.create_task(self._follow(replica))

    def ready(self) -> set[str]:
        """The names of those that get new connections."""
        return {replica.name for replica in self._replicas.values() if replica.ready}

    def ports(self) -> dict[str, int]:
        """Where each replica listens."""
        return {replica.name: replica.port for replica in self._replicas.values()}

    def connections(self) -> dict[str, int]:
        """How many connections each replica has."""
        return {replica.name: len(replica.connections) for replica in self._replicas.values()}

    def opened(self, name: str) -> int:
        """How many connections a replica has had in all."""
        return self._replicas[name].taken

    def oldest_in_use(self, within: float) -> float:
        """When the oldest of those connections was opened that anything was sent on in so many seconds."""
        since = time.monotonic() - within
        every = [found for replica in self._replicas.values() for found in list(replica.connections)]
        return min((found.opened for found in every if found.asked >= since), default=0.0)

    def forget(self, name: str) -> None:
        """Follow a replica no more: its Pod is deleted."""
        self._background.call(self._forget(name))

    async def _forget(self, name: str) -> None:
        self._following.pop(name).cancel()
        self._replicas.pop(name).ready = False

    async def _follow(self, replica: Replica) -> None:
        while True:
            ready = await self._is_ready(replica)
            if ready:
                replica.ready, replica.doubted = True, None
            elif replica.ready:
                replica.doubted = replica.doubted or time.monotonic()
                left = replica.doubted + self.lag - time.monotonic()
                if left <= 0:
                    replica.ready = False
                else:
                    await asyncio.sleep(min(left, self._period))
                    continue
            await asyncio.sleep(self._period)

    async def _is_ready(self, replica: Replica) -> bool:
        try:
            return (await self._http.get(replica.probe)).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def choose(self) -> Replica | None:
        """Whose turn it is."""
        ready = [replica for replica in self._replicas.values() if replica.ready]
        if not ready:
            self.without_server.append(time.monotonic())
            return None
        self._turn += 1
        return ready[self._turn % len(ready)]

    def close(self) -> None:
        """Listen no more."""
        self._background.call(self._close())

    async def _close(self) -> None:
        self._server.close()
        for task in self._following.values():
            task.cancel()
        await self._http.aclose()


class _Outer(asyncio.Protocol):
    """The API server's end of a connection."""

    def __init__(self, balancer: Balancer) -> None:
        self._balancer = balancer
        self.opened = self.asked = time.monotonic()
        self.waits = False
        self._inner: asyncio.Transport | None = None
        # What came before the replica had taken the connection.
        self._early = bytearray()
        self._replica: Replica | None = None
        self._connecting: asyncio.Task[None] | None = None
        # When the replica ended the connection.
        self._left: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._replica = self._balancer.choose()
        if self._replica is None:
            self.transport.abort()
            return
        self._connecting = asyncio.create_task(self._connect(self._replica))

    async def _connect(self, replica: Replica) -> None:
        loop = asyncio.get_running_loop()
        try:
            inner, _ = await loop.create_connection(lambda: _Inner(self), "127.0.0.1", replica.port)
        except OSError:
            self._balancer.ended.append(Ended(time.monotonic(), replica.name, How.REFUSED))
            self.transport.abort()
            return
        self._inner = inner
        replica.connections.add(self)
        replica.taken += 1
        if self.transport.is_closing():
            inner.abort()
        else:
            inner.write(bytes(self._early))

    def data_received(self, data: bytes) -> None:
        if len(data) > _GOODBYE_BYTES:
            self.asked, self.waits = time.monotonic(), True
        if self._inner is None:
            self._early += data
        else:
            self._inner.write(data)

    def answered(self, data: bytes) -> None:
        """Something came from the replica."""
        self.waits = False
        self.transport.write(data)

    def left(self) -> None:
        """The replica has ended the connection. The API server is told, and read until it has understood: what it wrote
        in the meantime gets no answer.
        """
        if not self.transport.is_closing():
            self._left = time.monotonic()
            self.transport.write_eof()
        self._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._left is not None and self._replica is not None:
            how = How.OWING if self.waits else How.IDLE
            self._balancer.ended.append(Ended(self._left, self._replica.name, how))
        if self._inner is not None:
            self._inner.close()
        self._forget()

    def _forget(self) -> None:
        if self._replica is not None:
            self._replica.connections.discard(self)


class _Inner(asyncio.Protocol):
    """The replica's end of a connection."""

    def __init__(self, outer: _Outer) -> None:
        self._outer = outer

    def data_received(self, data: bytes) -> None:
        self._outer.answered(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._outer.left()

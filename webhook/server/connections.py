"""The connections of one port: their maximum number, and which one is closed for a new one.

A client that gets `Connection: close` with an answer sends its next request over a new connection, and a load balancer
may route that to another replica. So every connection ends at some age; otherwise new replicas would get no share of
the traffic. While the server drains, all connections end this way.

At the maximum, a new connection replaces the least needed one, so a client that fills the port cannot keep API servers
out. Connections that carried a review keep at most half of the places. The other half is for new connections, and each
has time for its request before it is replaced.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

import uvicorn
from uvicorn.server import ServerState as UvicornState

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.server.connection import Connection
from webhook.server.life_metrics import LifeMetrics
from webhook.server.network_metrics import ConnectionMetrics, Ended

# How often unused connections and connections with unread answers are looked for.
SWEEP_SECONDS = 1.0
# Unused connections of this age are closed, but only if connections become scarce. Go opens spare connections, and does
# not resend a POST that is lost when one is closed.
UNUSED_SECONDS = 10.0
# A connection younger than this is not replaced: its handshake and request take a few milliseconds, and more on a busy
# processor. If all are younger, the next one waits in the kernel. So 512 places are taken at most 10,240 times a
# second, and 64 places 1,280 times.
YOUNG_SECONDS = 0.05
# How long a client may take to read the rest of an answer.
UNREAD_SECONDS = 15.0
# How many clients may do so at once: each holds an answer in memory.
MAX_UNREAD = 64


class _Unread(NamedTuple):
    """An answer that the client has not read: its call, and since when it is unread."""

    since: float
    call: object


class Room(NamedTuple):
    """Room for one more connection: the connection to replace, or None if a place is free."""

    held_by: Connection | None


class Connections:
    """The connections of one port, and the settings of all of them."""

    def __init__(
        self,
        most: int,
        counted: ConnectionMetrics,
        *,
        seconds: float = 0,
        client_names: Iterable[str] = (),
        metrics: LifeMetrics | None = None,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """Allow at most `most` connections. A connection ends at about `seconds` of age, 0 for never. With
        `client_names`, the certificate of a client must have one of them.
        """
        self.most = most
        self.seconds = seconds
        self.client_names = frozenset(client_names)
        self.metrics = metrics
        self.clock = clock
        self.ending = False
        self._counted = counted
        # In the order of arrival; and those that carried a review, in the order of their last review.
        self._strangers: OrderedDict[Connection, None] = OrderedDict()
        self._known: OrderedDict[Connection, None] = OrderedDict()
        # Those with an unread answer, in the order in which that was noticed.
        self._unread: dict[Connection, _Unread] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        if metrics is not None:
            metrics.connections.set_function(lambda: len(self))

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def protocol(self, config: uvicorn.Config, server_state: UvicornState, **more: Any) -> Connection:
        """Return a new connection, for uvicorn."""
        return Connection(self, config, server_state, **more)

    def opened(self, connection: Connection) -> None:
        """Add `connection`."""
        self._strangers[connection] = None

    def closed(self, connection: Connection) -> None:
        """Remove `connection`."""
        self._strangers.pop(connection, None)
        self._known.pop(connection, None)
        self._unread.pop(connection, None)

    def carried_review(self, connection: Connection) -> None:
        """Note that `connection` carried a review: it is now needed more than the others."""
        if self._strangers.pop(connection, self) is None:
            self._known[connection] = None
        elif connection in self._known:
            self._known.move_to_end(connection)

    def count(self, reason: Ended) -> None:
        """Count a connection that the server ended."""
        self._counted.closed[reason].inc()

    def room(self) -> Room | None:
        """Return room for one more connection: a free place, or an old connection to replace. Return None if there is
        neither.
        """
        if len(self) < self.most:
            return Room(None)
        least = self._least()
        had_its_time = least is not None and (least.reviewed or self._age(least) >= YOUNG_SECONDS)
        return Room(least) if had_its_time else None

    def take(self, room: Room) -> None:
        """Close the connection that `room` replaces, if there is one."""
        if room.held_by is not None:
            self._cut(room.held_by, Ended.REPLACED)

    def replace(self) -> None:
        """Close the least needed connection, if there is one."""
        self.take(Room(self._least()))

    def _least(self) -> Connection | None:
        """Return the least needed connection. If most connections have carried a review, this is an idle one of those.
        Unknown connections keep half of the places; otherwise each new one would replace the one before.
        """
        few_strangers = len(self._strangers) < len(self._known)
        return next(
            chain(
                (found for found in self._known if few_strangers and found.idle),
                (found for found in self._strangers if not found.answering),
                (found for found in self._known if found.idle),
                (found for found in self._known if not found.answering),
                self._strangers,
                self._known,
            ),
            None,
        )

    def watch(self) -> None:
        """Start the sweep, once a second."""
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self.watch)
        self.sweep()

    def sweep(self) -> None:
        """Close the connections that hold places or memory that others may need."""
        now = self.clock.monotonic()
        if len(self) * 2 > self.most:
            for connection in list(self._strangers):
                if connection.unused and self._age(connection) > UNUSED_SECONDS:
                    self._cut(connection, Ended.UNUSED)
        unread = {
            found: self._unread_since(found, now) for found in chain(self._strangers, self._known) if found.unread
        }
        self._unread = dict(sorted(unread.items(), key=lambda item: item[1].since))
        for connection, (since, _) in list(self._unread.items()):
            if now - since > UNREAD_SECONDS or (len(self._unread) > MAX_UNREAD and since < now):
                self._cut(connection, Ended.UNREAD)

    def _age(self, connection: Connection) -> float:
        return self.clock.monotonic() - connection.opened_at

    def _unread_since(self, connection: Connection, now: float) -> _Unread:
        """Return since when the current answer is unread. A busy client acknowledges an answer with its next request,
        so there is nearly always an unread answer, but never the same one for long.
        """
        before = self._unread.get(connection)
        return before if before is not None and before.call is connection.call else _Unread(now, connection.call)

    def end(self) -> None:
        """Close every connection after its next answer, and also those that are opened later."""
        self.ending = True
        for connection in chain(self._strangers, self._known):
            connection.end()

    def cut(self) -> None:
        """Close all connections at once, even during a request."""
        for connection in [*self._strangers, *self._known]:
            connection.cut()

    def leave(self) -> None:
        """Stop the sweep."""
        if self._sweeping is not None:
            self._sweeping.cancel()

    def _cut(self, connection: Connection, reason: Ended) -> None:
        self.count(reason)
        connection.cut()
        # The place is free at once, although `connection_lost` is called later.
        self.closed(connection)

"""The connections of one port: how many there may be, and which one goes when another comes.

A client that is told `Connection: close` with an answer sends its next request over another connection, and a balancer
may lead that one elsewhere. So every connection ends at an age, or replicas that come later would get no share, and all
of them end while the server drains.

At the cap a newcomer takes the place of the connection that is needed least, so that whoever fills the port keeps no
API server out of it. Connections that carried a review keep half of the places at most. The other half is for
newcomers, each of which has time for its request before it is replaced.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

import uvicorn
from uvicorn.server import ServerState as UvicornState

from webhook.server.connection import Connection
from webhook.server.life_metrics import LifeMetrics
from webhook.server.network_metrics import ConnectionMetrics, Ended

# How often those are looked for that nothing comes over, and that take nothing.
SWEEP_SECONDS = 1.0
# Go opens spare connections, and does not send a POST again that is lost when one is closed: only where connections
# become scarce is one closed over which nothing has come for so long.
UNUSED_SECONDS = 10.0
# A newcomer is not replaced before it is this old: its handshake and its request take a few milliseconds, and more
# where the processor is busy. Where all are younger, the next waits in the kernel, so 512 places are taken at most
# 10,240 times a second, and 64 places 1,280 times.
YOUNG_SECONDS = 0.05
# How long a client may take for the rest of an answer.
UNREAD_SECONDS = 15.0
# How many may do so at once: each holds an answer.
MAX_UNREAD = 64


class _Unread(NamedTuple):
    """An answer that its client has not taken: since when, and to which call."""

    since: float
    call: object


class Room(NamedTuple):
    """Room for one more connection: in the place of another, or None where a place is free."""

    held_by: Connection | None


class Connections:
    """The connections of one port, and what holds for all of them."""

    def __init__(
        self,
        most: int,
        counted: ConnectionMetrics,
        *,
        seconds: float = 0,
        client_names: Iterable[str] = (),
        metrics: LifeMetrics | None = None,
    ) -> None:
        """There may be `most`. A connection ends at about `seconds` of age, 0 for never. With `client_names`, a
        client's certificate must bear one of them.
        """
        self.most = most
        self.seconds = seconds
        self.client_names = frozenset(client_names)
        self.metrics = metrics
        self.ending = False
        self._counted = counted
        # In the order in which they came; and those that carried a review, in the order of their last.
        self._strangers: OrderedDict[Connection, None] = OrderedDict()
        self._known: OrderedDict[Connection, None] = OrderedDict()
        # Those with an answer that their clients have not taken, in the order in which that was seen, and since when.
        self._unread: dict[Connection, _Unread] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        if metrics is not None:
            metrics.connections.set_function(lambda: len(self))

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def protocol(self, config: uvicorn.Config, server_state: UvicornState, **more: Any) -> Connection:
        """A new connection, as uvicorn makes it."""
        return Connection(self, config, server_state, **more)

    def opened(self, connection: Connection) -> None:
        """There is one more."""
        self._strangers[connection] = None

    def closed(self, connection: Connection) -> None:
        """There is one less."""
        self._strangers.pop(connection, None)
        self._known.pop(connection, None)
        self._unread.pop(connection, None)

    def carried_review(self, connection: Connection) -> None:
        """`connection` is needed more than any that carried none for longer."""
        if self._strangers.pop(connection, self) is None:
            self._known[connection] = None
        elif connection in self._known:
            self._known.move_to_end(connection)

    def count(self, reason: Ended) -> None:
        """Count one that the server ended."""
        self._counted.closed[reason].inc()

    def room(self) -> Room | None:
        """Room for one more: a free place, or the place of one that had its time. None where there is neither."""
        if len(self) < self.most:
            return Room(None)
        least = self._least()
        now = asyncio.get_running_loop().time()
        had_its_time = least is not None and (least.reviewed or now - least.opened_at >= YOUNG_SECONDS)
        return Room(least) if had_its_time else None

    def take(self, room: Room) -> None:
        """End the connection in whose place another comes, if there is one."""
        if room.held_by is not None:
            self._cut(room.held_by, Ended.REPLACED)

    def replace(self) -> None:
        """End the connection that is needed least, if there is one."""
        self.take(Room(self._least()))

    def _least(self) -> Connection | None:
        """The connection that is needed least. Where most are known, an idle one of them: strangers keep half of the
        places, or each newcomer would take that of the one before.
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
        """Look after them from now on, once a second."""
        loop = asyncio.get_running_loop()
        self._sweeping = loop.call_later(SWEEP_SECONDS, self.watch)
        self.sweep(loop.time())

    def sweep(self, now: float) -> None:
        """End those that hold what others may need."""
        if len(self) * 2 > self.most:
            for connection in list(self._strangers):
                if connection.unused and now - connection.opened_at > UNUSED_SECONDS:
                    self._cut(connection, Ended.UNUSED)
        unread = {
            found: self._unread_since(found, now) for found in chain(self._strangers, self._known) if found.unread
        }
        self._unread = dict(sorted(unread.items(), key=lambda item: item[1].since))
        for connection, (since, _) in list(self._unread.items()):
            if now - since > UNREAD_SECONDS or (len(self._unread) > MAX_UNREAD and since < now):
                self._cut(connection, Ended.UNREAD)

    def _unread_since(self, connection: Connection, now: float) -> _Unread:
        """Since when the answer that it has now is not taken. A busy client acknowledges one answer with its next
        request, so there is nearly always one that is not taken yet, and never the same one for long.
        """
        before = self._unread.get(connection)
        return before if before is not None and before.call is connection.call else _Unread(now, connection.call)

    def end(self) -> None:
        """Let the next answer over each connection be its last, also over those that are still to be opened."""
        self.ending = True
        for connection in chain(self._strangers, self._known):
            connection.end()

    def cut(self) -> None:
        """Cut them all, whatever is under way."""
        for connection in [*self._strangers, *self._known]:
            connection.cut()

    def leave(self) -> None:
        """Look after them no more."""
        if self._sweeping is not None:
            self._sweeping.cancel()

    def _cut(self, connection: Connection, reason: Ended) -> None:
        self.count(reason)
        connection.cut()
        # Its place is free at once, though its end is told a moment later.
        self.closed(connection)

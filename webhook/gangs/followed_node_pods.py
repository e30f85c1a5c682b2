"""A watch on the pods that hold room on nodes, from the first time that a gang has no room.

Most clusters have a hundred times as many pods as gangs, so nothing is read before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import cast

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster.client import Client
from webhook.cluster.watch import Watch
from webhook.model.kubernetes_kinds import PODS
from webhook.model.node_pods import NODE_PODS, NodePods


class FollowedNodePods:
    """The pods on nodes, once they are wanted."""

    def __init__(self, client: Client, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._watch = Watch(client, NODE_PODS, self._noticed, self._noticed, NODE_PODS.selector, clock=clock)
        self._wanted = asyncio.Event()
        # Whether any pod came or went since the last `take_changed`.
        self._changed = False

    @property
    def pods(self) -> NodePods | None:
        """The pods on nodes; None if they are not read yet. Then they are wanted from now on."""
        if self._watch.filled:
            return cast("NodePods", self._watch.index.entries)
        self._wanted.set()
        return None

    @property
    def is_awaited(self) -> bool:
        """Whether they are wanted, not read yet, and can be read as far as known."""
        return self._wanted.is_set() and not self._watch.filled and self._watch.trouble is None

    def take_changed(self) -> bool:
        """Whether any pod came or went since the last call."""
        changed, self._changed = self._changed, False
        return changed

    def watches(self) -> Iterator[tuple[str, Watch]]:
        """The watch, if it runs."""
        if self._wanted.is_set():
            yield PODS.api.kind, self._watch

    async def run(self) -> None:
        """Follow, until cancelled."""
        await self._wanted.wait()
        await self._watch.run()

    def _noticed(self, _: object) -> None:
        self._changed = True

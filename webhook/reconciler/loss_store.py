"""Stores the records of gangs that lost pods, by difference: nothing is written while nothing changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.clock import MACHINE_CLOCK, Clock, LoopTurn
from webhook.cluster.client import Client
from webhook.errors import NotLeading, RequestFailed
from webhook.gangs.key import GangKey
from webhook.gangs.loss_records import Line, content_of, line_of, losses_in, shard, shards
from webhook.gangs.losses import Loss
from webhook.gangs.stored_losses import stored_shards
from webhook.model.kubernetes_kinds import CONFIG_MAPS
from webhook.model.reading import Malformed, Manifest
from webhook.reconciler.writer import Writer
from webhook.telemetry.logs import log, outline

# Losses come in storms: everything of so many seconds is written at once.
WRITE_SECONDS = 3.0
# After a failure, such as a missing right.
RETRY_SECONDS = 30.0


class LossStore:
    """The stored records. Only the leader may use it: it assumes that no other process writes them."""

    def __init__(self, client: Client, writer: Writer, namespace: str, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._client = client
        self._writer = writer
        self._namespace = namespace
        self._clock = clock
        # The stored ConfigMaps by name; None while they are not read.
        self._stored: dict[str, Manifest] | None = None
        self._written: Mapping[GangKey, Loss] | None = None
        # The records as text: a loss changes few of ten thousand.
        self._lines: dict[GangKey, Line] = {}
        self._due = 0.0

    @property
    def is_read(self) -> bool:
        """Whether the stored records are known."""
        return self._stored is not None

    def forget(self) -> None:
        """Another process may write them from now on."""
        self._stored = self._written = None

    async def read(self) -> dict[GangKey, Loss]:
        """The stored records; empty if it is not time yet, or if they cannot be read."""
        if self._clock.monotonic() < self._due:
            return {}
        try:
            every = await stored_shards(self._client, self._namespace)
            found = {key: loss for raw in every.values() for key, loss in losses_in(content_of(raw))}
        except (RequestFailed, Malformed) as error:
            self._failed("losses not read", error)
            return {}
        self._stored = every
        return found

    async def write(self, losses: Mapping[GangKey, Loss]) -> None:
        """Make the stored records these."""
        if self._stored is None or self._clock.monotonic() < self._due or losses == self._written:
            return
        self._due = self._clock.monotonic() + WRITE_SECONDS
        try:
            for name, content in shards(await self._lines_of(losses)).items():
                await self._put(self._stored, name, content)
        except (RequestFailed, NotLeading) as error:
            self._failed("losses not written", error)
        else:
            self._written = losses

    async def _lines_of(self, losses: Mapping[GangKey, Loss]) -> Mapping[GangKey, Line]:
        for key in self._lines.keys() - losses.keys():
            del self._lines[key]
        changed = [key for key, loss in losses.items() if key not in self._lines or self._lines[key].loss is not loss]
        turn = LoopTurn(self._clock)
        for key in changed:
            self._lines[key] = line_of(key, losses[key])
            await turn.pause()
        return self._lines

    async def _put(self, stored: dict[str, Manifest], name: str, content: str) -> None:
        before = stored.get(name)
        if not content:
            if before is not None:
                await self._writer.delete(CONFIG_MAPS, before)
                del stored[name]
        elif before is None or _content(before) != content:
            stored[name] = await self._writer.apply(CONFIG_MAPS, shard(name, self._namespace, content))

    def _failed(self, event: str, error: Exception) -> None:
        # Something else may be stored than was known.
        self.forget()
        self._due = self._clock.monotonic() + RETRY_SECONDS
        log.warning(event, why=outline(error))


def _content(raw: Mapping[str, Any]) -> str:
    try:
        return content_of(dict(raw))
    except Malformed:
        return ""

"""Stores the records of gangs that lost pods, by difference: nothing is written while nothing changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from webhook.clock import MACHINE_CLOCK, Clock, LoopTurn
from webhook.cluster.client import Client
from webhook.errors import NotLeading, RequestFailed
from webhook.gangs.key import GangKey
from webhook.gangs.loss_records import Line, content_of, content_with, line_of, shard
from webhook.gangs.losses import Loss
from webhook.gangs.stored_losses import losses_of, stored_shards
from webhook.installation.names import LOSS_RECORDS
from webhook.model.kubernetes_kinds import CONFIG_MAPS
from webhook.model.reading import Malformed, Manifest
from webhook.reconciler.turns import HeldBack, not_noted
from webhook.reconciler.writer import Writer
from webhook.telemetry.logs import log, outline

# Losses come in storms: everything of so many seconds is written at once.
WRITE_SECONDS = 3.0
# After a failure, such as a missing right.
RETRY_SECONDS = 30.0


class LossStore:
    """The stored records. Only the leader may use it: it assumes that no other process writes them."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        namespace: str,
        *,
        held_back: HeldBack = not_noted,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._held_back = held_back
        self._client = client
        self._writer = writer
        self._namespace = namespace
        self._clock = clock
        # The stored ConfigMaps by name; None while they are not read.
        self._stored: dict[str, Manifest] | None = None
        # The records as text, by ConfigMap: a loss changes few of ten thousand.
        self._lines: dict[str, dict[GangKey, Line]] = {name: {} for name in LOSS_RECORDS}
        self._where: dict[GangKey, str] = {}
        # The gangs whose record changed, None if that may be any; and the ConfigMaps that are to be written.
        self._changed: set[GangKey] | None = None
        self._unwritten: set[str] = set()
        # The namespaces of which each ConfigMap does not have everything.
        self._cut: dict[str, frozenset[str]] = {}
        self._due = 0.0

    @property
    def is_read(self) -> bool:
        """Whether the stored records are known."""
        return self._stored is not None

    def forget(self) -> None:
        """Another process may write them from now on."""
        self._stored = self._changed = None
        self._cut = {}

    async def read(self) -> dict[GangKey, Loss]:
        """The stored records; empty if it is not time yet, or if they cannot be read."""
        if self._clock.monotonic() < self._due:
            return {}
        try:
            every = await stored_shards(self._client, self._namespace)
            losses = await losses_of(every, self._clock)
        except (RequestFailed, Malformed) as error:
            self._failed("losses not read", error)
            return {}
        self._stored = every
        return losses

    async def write(self, losses: Mapping[GangKey, Loss], changed: Iterable[GangKey]) -> None:
        """Make the stored records these, of which so many changed since the last call."""
        for namespace in frozenset().union(*self._cut.values()):
            self._held_back(namespace)
        if self._changed is not None:
            self._changed.update(changed)
        if self._stored is None or self._clock.monotonic() < self._due or self._changed == set():
            return
        self._due = self._clock.monotonic() + WRITE_SECONDS
        try:
            await self._read_lines(losses)
            for name in sorted(self._unwritten):
                content = content_with(self._lines[name])
                self._cut[name] = content.cut
                await self._put(self._stored, name, content.text)
                self._unwritten.discard(name)
        except (RequestFailed, NotLeading) as error:
            self._failed("losses not written", error)

    async def _read_lines(self, losses: Mapping[GangKey, Loss]) -> None:
        """Write the records that changed as text."""
        changed = self._changed
        if changed is None:
            changed = self._where.keys() | losses.keys()
            self._unwritten.update(LOSS_RECORDS)
        self._changed = set()
        turn = LoopTurn(self._clock)
        for key in changed:
            if (before := self._where.pop(key, None)) is not None:
                del self._lines[before][key]
                self._unwritten.add(before)
            if (loss := losses.get(key)) is not None:
                line = line_of(key, loss)
                self._lines[line.name][key] = line
                self._where[key] = line.name
                self._unwritten.add(line.name)
            await turn.pause()

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

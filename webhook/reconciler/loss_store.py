"""The stored records of gangs that lost pods, and the condition of their PodGangs. Nothing is written while nothing
changes.

The records count; the condition is for people and programs that read PodGangs. Grove's operator writes the conditions
as a whole list, with its own condition Initialized alone, until that is True. After that it writes none, and keeps
what others wrote: only then a condition of ours is added. The list has no merge keys, so it is written as it was read,
if the PodGang has not changed since.

Source: Grove main of 2026-08, operator/internal/controller/podcliqueset/components/podgang/syncflow.go
(`patchPodGangInitializedStatus`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock, LoopTurn
from webhook.cluster.logs import log, outline
from webhook.errors import NotFound, NotLeading, RequestFailed
from webhook.gangs.gang_view import losses_of, stored_shards
from webhook.gangs.key import POD_GANG, GangKey
from webhook.gangs.losses import Line, Loss, content_of, content_with, line_of, shard
from webhook.installation.names import LOSS_RECORDS
from webhook.model.known_kinds import CONFIG_MAPS
from webhook.model.projections import POD_GANGS
from webhook.model.reading import Malformed, Manifest, mapping, sequence
from webhook.reconciler.held_gangs import HeldBackNote, Turns, not_noted
from webhook.reconciler.writer import REFUSALS, Writer

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
        held_back: HeldBackNote = not_noted,
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
        """Forgets what is stored: another process may write it from now on."""
        self._stored = self._changed = None
        self._cut = {}

    async def read(self) -> dict[GangKey, Loss]:
        """Returns the stored records; empty if it is not time yet, or if they cannot be read."""
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
        """Makes the stored records these, of which so many changed since the last call."""
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
        """Writes the records that changed as text."""
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


TYPE = "rollcall.dev/LostMembers"
# So that a storm of losses does not become one of writes.
WRITES_A_LOOK = 10
# After a failure: of the API server, or of one namespace, as by a policy of its own.
CONDITION_RETRY_SECONDS = 30.0
_MESSAGE_CHARACTERS = 1024


class LossConditions:
    """The conditions that were written. Only the leader may use it."""

    def __init__(
        self, client: Client, writer: Writer, *, held_back: HeldBackNote = not_noted, clock: Clock = MACHINE_CLOCK
    ) -> None:
        self._client = client
        self._writer = writer
        self._held_back = held_back
        self._clock = clock
        # What each PodGang says, and those that may have a condition of an earlier leader.
        self._announced: dict[GangKey, Loss | None] = {}
        # Those that may say something else than they should; and whether that may be any.
        self._turns: Turns[GangKey] = Turns()
        self._any = True
        self._due = 0.0
        # Until when nothing is written to a namespace.
        self._paused: dict[str, float] = {}

    def forget(self) -> None:
        """Forgets what is written: another process may write it from now on."""
        self._announced, self._turns, self._any = {}, Turns(), True

    def stored(self, keys: Iterable[GangKey]) -> None:
        """Notes that an earlier leader may have written conditions of these gangs."""
        self._announced.update(dict.fromkeys(key for key in keys if key.kind == POD_GANG))
        self._any = True

    def missed(self) -> None:
        """Notes that any loss may have changed since `keep` was called."""
        self._any = True

    async def keep(self, losses: Mapping[GangKey, Loss], changed: Iterable[GangKey]) -> None:
        """Writes the conditions that differ, some at a time. So many of `losses` changed since the last call."""
        now = self._clock.monotonic()
        for gang in (*changed, *((*losses, *self._announced) if self._any else ())):
            if gang.kind == POD_GANG:
                self._turns.put(gang)
        self._any = False
        if now < self._due:
            return
        self._paused = {namespace: until for namespace, until in self._paused.items() if now < until}
        for _ in range(WRITES_A_LOOK):
            key = self._next(losses)
            if key is None or not await self._keep(key, losses.get(key), now):
                return
        for namespace in self._turns.namespaces - self._paused.keys():
            self._held_back(namespace)

    async def _keep(self, key: GangKey, loss: Loss | None, now: float) -> bool:
        """Writes the condition of one PodGang, and returns whether others may be written."""
        try:
            done = await self._write(key, loss)
        except Malformed:
            done = True
        except (RequestFailed, NotLeading) as error:
            self._turns.put(key)
            log.warning("condition not written", namespace=key.namespace, name=key.name, why=outline(error))
            if isinstance(error, RequestFailed) and error.code in REFUSALS:
                # It may be about this object: those of other namespaces must not wait for it.
                self._paused[key.namespace] = now + CONDITION_RETRY_SECONDS
                return True
            self._due = now + CONDITION_RETRY_SECONDS
            return False
        if not done:
            self._turns.put(key)
        elif loss is None:
            self._announced.pop(key, None)
        else:
            self._announced[key] = loss
        return True

    def _next(self, losses: Mapping[GangKey, Loss]) -> GangKey | None:
        """Returns the next PodGang with a wrong condition in a namespace that may be written to; None without one."""
        while (key := self._turns.take(lambda namespace: namespace not in self._paused)) is not None:
            differs = self._announced.get(key) != losses[key] if key in losses else key in self._announced
            if differs:
                return key
        return None

    async def _write(self, key: GangKey, loss: Loss | None) -> bool:
        """Writes the condition of one PodGang, or removes it. Returns whether nothing is left to do."""
        try:
            live = (await self._client.get(requests.read(POD_GANGS.resource, key.name, key.namespace))).content
        except NotFound:
            return True
        metadata = mapping(live.get("metadata"))
        conditions = [mapping(raw) for raw in sequence(mapping(live.get("status")).get("conditions"))]
        if not any(
            condition.get("type") == "Initialized" and condition.get("status") == "True" for condition in conditions
        ):
            # Grove's operator still writes the conditions.
            return True
        kept = [dict(condition) for condition in conditions if condition.get("type") != TYPE]
        if loss is not None and loss.uid == metadata.get("uid"):
            kept.append(condition(loss))
        if kept == conditions:
            return True
        patch: list[Manifest] = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": metadata.get("resourceVersion")},
            {"op": "replace", "path": "/status/conditions", "value": kept},
        ]
        request = requests.json_patch(POD_GANGS.resource, key.namespace, key.name, patch, subresource="status")
        try:
            await self._writer.send("condition", POD_GANGS.resource, (key.namespace, key.name), request)
        except RequestFailed as error:
            if error.code not in {HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY}:
                raise
            return False
        return True


def condition(loss: Loss) -> Manifest:
    """Returns the condition of a PodGang that lost pods."""
    pods = ", ".join(f"{pod.name} ({pod.cause.value})" for pod in loss.pods)
    more = f"{loss.more} more" if loss.more else ""
    cause = loss.causes[0].value
    return {
        "type": TYPE,
        "status": "True",
        "reason": f"{cause[0].upper()}{cause[1:]}",
        "message": f"lost since {loss.since}: {', '.join(filter(None, (pods, more)))}"[:_MESSAGE_CHARACTERS],
        "lastTransitionTime": loss.since,
    }

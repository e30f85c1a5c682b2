"""The condition of PodGangs that lost pods.

Grove's operator writes the conditions of a PodGang as a whole list, with its own condition Initialized alone, until
that is True. After that it writes none, and keeps what others wrote: only then a condition of ours is added. Source:
Grove main of 2026-08, operator/internal/controller/podcliqueset/components/podgang/syncflow.go
(`patchPodGangInitializedStatus`). The list has no merge keys, so it is written as it was read, if the PodGang has not
changed since.

The stored records count (`webhook.reconciler.loss_store`); the condition is for people and programs that read PodGangs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.errors import NotFound, NotLeading, RequestFailed
from webhook.gangs.key import POD_GANG, GangKey
from webhook.gangs.losses import Loss
from webhook.model.projections import POD_GANGS
from webhook.model.reading import Malformed, Manifest, mapping, sequence
from webhook.reconciler.turns import HeldBack, Turns, not_noted
from webhook.reconciler.writer import REFUSALS, Writer
from webhook.telemetry.logs import log, outline

TYPE = "rollcall.dev/LostMembers"
# So that a storm of losses does not become one of writes.
WRITES_A_LOOK = 10
# After a failure: of the API server, or of one namespace, as by a policy of its own.
RETRY_SECONDS = 30.0
_MESSAGE_CHARACTERS = 1024


class LossConditions:
    """The conditions that were written. Only the leader may use it."""

    def __init__(
        self, client: Client, writer: Writer, *, held_back: HeldBack = not_noted, clock: Clock = MACHINE_CLOCK
    ) -> None:
        self._client = client
        self._writer = writer
        self._held_back = held_back
        self._clock = clock
        # What each PodGang says, and those that may have a condition of an earlier leader.
        self._said: dict[GangKey, Loss | None] = {}
        # Those that may say something else than they should; and whether that may be any.
        self._turns: Turns[GangKey] = Turns()
        self._any = True
        self._due = 0.0
        # Until when nothing is written to a namespace.
        self._paused: dict[str, float] = {}

    def forget(self) -> None:
        """Another process may write them from now on."""
        self._said, self._turns, self._any = {}, Turns(), True

    def stored(self, keys: Iterable[GangKey]) -> None:
        """An earlier leader may have written conditions of these gangs."""
        self._said.update(dict.fromkeys(key for key in keys if key.kind == POD_GANG))
        self._any = True

    def missed(self) -> None:
        """Any loss may have changed since `keep` was called."""
        self._any = True

    async def keep(self, losses: Mapping[GangKey, Loss], changed: Iterable[GangKey]) -> None:
        """Write the conditions that differ, some at a time. So many of `losses` changed since the last call."""
        now = self._clock.monotonic()
        for gang in (*changed, *((*losses, *self._said) if self._any else ())):
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
        """Write the condition of one PodGang, and return whether others may be written."""
        try:
            done = await self._write(key, loss)
        except Malformed:
            done = True
        except (RequestFailed, NotLeading) as error:
            self._turns.put(key)
            log.warning("condition not written", namespace=key.namespace, name=key.name, why=outline(error))
            if isinstance(error, RequestFailed) and error.code in REFUSALS:
                # It may be about this object: those of other namespaces must not wait for it.
                self._paused[key.namespace] = now + RETRY_SECONDS
                return True
            self._due = now + RETRY_SECONDS
            return False
        if not done:
            self._turns.put(key)
        elif loss is None:
            self._said.pop(key, None)
        else:
            self._said[key] = loss
        return True

    def _next(self, losses: Mapping[GangKey, Loss]) -> GangKey | None:
        """The next PodGang that does not say what it should; None without one in a namespace that may be written to."""
        while (key := self._turns.take(lambda namespace: namespace not in self._paused)) is not None:
            differs = self._said.get(key) != losses[key] if key in losses else key in self._said
            if differs:
                return key
        return None

    async def _write(self, key: GangKey, loss: Loss | None) -> bool:
        """Write the condition of one PodGang, or remove it. Return whether nothing is left to do."""
        try:
            live = (await self._client.get(requests.read(POD_GANGS.resource, key.name, key.namespace))).content
        except NotFound:
            return True
        metadata = mapping(live.get("metadata"))
        conditions = [mapping(one) for one in sequence(mapping(live.get("status")).get("conditions"))]
        if not _is_settled(conditions):
            return True
        found = [dict(one) for one in conditions if one.get("type") != TYPE]
        if loss is not None and loss.uid == metadata.get("uid"):
            found.append(condition(loss))
        if found == conditions:
            return True
        patch: list[Manifest] = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": metadata.get("resourceVersion")},
            {"op": "replace", "path": "/status/conditions", "value": found},
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
    """The condition of a PodGang that lost pods."""
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


def _is_settled(conditions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether Grove's operator writes no more conditions."""
    return any(one.get("type") == "Initialized" and one.get("status") == "True" for one in conditions)

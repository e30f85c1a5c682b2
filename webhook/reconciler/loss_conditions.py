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
from webhook.reconciler.turns import in_turns
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

    def __init__(self, client: Client, writer: Writer, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._client = client
        self._writer = writer
        self._clock = clock
        # What each PodGang says, and those that may have a condition of an earlier leader.
        self._said: dict[GangKey, Loss | None] = {}
        self._due = 0.0
        # Until when nothing is written to a namespace.
        self._paused: dict[str, float] = {}

    def forget(self) -> None:
        """Another process may write them from now on."""
        self._said = {}

    def stored(self, keys: Iterable[GangKey]) -> None:
        """An earlier leader may have written conditions of these gangs."""
        self._said.update(dict.fromkeys(key for key in keys if key.kind == POD_GANG))

    async def keep(self, losses: Mapping[GangKey, Loss]) -> None:
        """Write the conditions that differ, some at a time."""
        now = self._clock.monotonic()
        if now < self._due:
            return
        self._paused = {namespace: until for namespace, until in self._paused.items() if now < until}
        wanted = {key: loss for key, loss in losses.items() if key.kind == POD_GANG}
        due = [key for key in wanted if self._said.get(key) != wanted[key]]
        due += [key for key in self._said if key not in wanted]
        due = [key for key in due if key.namespace not in self._paused]
        for key in in_turns(due)[:WRITES_A_LOOK]:
            if key.namespace in self._paused:
                continue
            try:
                done = await self._write(key, wanted.get(key))
            except Malformed:
                done = True
            except (RequestFailed, NotLeading) as error:
                log.warning("condition not written", namespace=key.namespace, name=key.name, why=outline(error))
                if isinstance(error, RequestFailed) and error.code in REFUSALS:
                    # It may be about this object: those of other namespaces must not wait for it.
                    self._paused[key.namespace] = now + RETRY_SECONDS
                    continue
                self._due = now + RETRY_SECONDS
                return
            if done and key in wanted:
                self._said[key] = wanted[key]
            elif done:
                del self._said[key]

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

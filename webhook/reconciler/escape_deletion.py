"""Deleting escaped pods, where the configuration says so: Grove creates them anew, and the webhook prepares those.

Never one of a workload that is not Grove's: a Job counts a deleted pod as a failure, and a LeaderWorkerSet makes its
whole group anew. Never one that is or was on a node, and never again and again: where what comes instead escapes too,
nobody asks the webhook, and each deletion would only make the next pod.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from webhook.errors import NotLeading, RequestFailed
from webhook.gangs.escapes import Escaped
from webhook.gangs.health import GangHealth
from webhook.gangs.key import POD_GANG, GangKey
from webhook.reconciler.metrics import Metrics
from webhook.reconciler.writer import Writer
from webhook.telemetry.logs import log, outline

# A pod is seen before the record or the configuration by which it was prepared: what lasts so long has escaped.
SETTLE_SECONDS = 15.0
# Between two deletions in one gang, doubled each time, up to the second.
PAUSE_SECONDS = (30.0, 1800.0)


class _Pause(NamedTuple):
    """How often pods of a gang were deleted, and until when no more are."""

    times: int
    until: float


class EscapeDeletion:
    """Deletes pods of the kinds of escape in `deleted`."""

    def __init__(self, deleted: frozenset[str], writer: Writer, metrics: Metrics) -> None:
        self._deleted = deleted
        self._writer = writer
        self._metrics = metrics
        # By the uid of a pod: since when it is known to have escaped.
        self._since: dict[str, float] = {}
        self._pauses: dict[GangKey, _Pause] = {}

    async def see(self, gangs: dict[GangKey, GangHealth]) -> None:
        """Take all gangs that have escaped pods, and delete what is due."""
        now = time.monotonic()
        found = {
            one.pod.uid: one
            for gang, health in gangs.items()
            if gang.kind == POD_GANG
            for one in health.escaped
            if one.escape.value in self._deleted and one.pod.node is None
        }
        self._since = {uid: self._since.get(uid, now) for uid in found}
        due: dict[GangKey, list[Escaped]] = {}
        for uid, one in found.items():
            if now - self._since[uid] >= SETTLE_SECONDS:
                due.setdefault(one.pod.gang, []).append(one)
        for gang, escaped in due.items():
            pause = self._pauses.get(gang)
            if pause is None or now >= pause.until:
                await self._delete(gang, escaped, pause, now)

    async def _delete(self, gang: GangKey, escaped: list[Escaped], pause: _Pause | None, now: float) -> None:
        first, most = PAUSE_SECONDS
        # Long ago is not again.
        times = 1 if pause is None or now - pause.until > most else pause.times + 1
        self._pauses[gang] = _Pause(times, now + min(most, first * 2.0 ** min(times - 1, 20)))
        for one in escaped:
            try:
                gone = await self._writer.delete_unbound(one.pod)
            except (RequestFailed, NotLeading) as error:
                log.info("escaped pod not deleted", namespace=one.pod.namespace, name=one.pod.name, why=outline(error))
                continue
            if gone:
                self._metrics.deleted.labels(one.escape.value).inc()

    def forget(self, gang: GangKey) -> None:
        """The gang is gone."""
        self._pauses.pop(gang, None)

"""Deletes escaped pods if the configuration asks for it: Grove recreates them, and the webhook prepares the new ones.

Pods of opted-in workloads are never deleted: a Job counts a deleted pod as a failure, and a LeaderWorkerSet recreates
its whole group. Pods that are or were on a node are never deleted either, and neither are pods that an exception may
cover: it is granted for a workload that does not conform. Deletions in one gang are spaced by growing pauses: if the
new pods escape too, the API server does not call the webhook, and a deletion does not help.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster.backoff import doubled
from webhook.errors import NotLeading, RequestFailed
from webhook.gangs.escapes import Escaped
from webhook.gangs.health import GangHealth
from webhook.gangs.key import POD_GANG, GangKey
from webhook.gangs.pod import GangPod
from webhook.reconciler.metrics import Metrics
from webhook.reconciler.writer import Writer
from webhook.telemetry.logs import log, outline

# A pod may be seen before the record or configuration that it was prepared from. After this time it counts as escaped.
SETTLE_SECONDS = 15.0
# Pause between two deletions in one gang: doubled each time, up to the second value.
PAUSE_SECONDS = (30.0, 1800.0)


class _Pause(NamedTuple):
    """How often pods of a gang were deleted, and until when no more may be."""

    times: int
    until: float


class EscapeDeletion:
    """Deletes pods whose kind of escape is in `deleted`, unless they are `excepted`. Call `judged` with each judgement
    of a gang, and `see` regularly while this process leads.
    """

    def __init__(
        self,
        deleted: frozenset[str],
        writer: Writer,
        metrics: Metrics,
        excepted: Callable[[GangPod], bool] = lambda _: False,
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._deleted = deleted
        self._writer = writer
        self._metrics = metrics
        self._excepted = excepted
        self._clock = clock
        # The pods of each gang that may be deleted: what is left of thousands that a tenant may have forged.
        self._escaped: dict[GangKey, tuple[Escaped, ...]] = {}
        # Since when each escaped pod is known, by its uid.
        self._since: dict[str, float] = {}
        self._pauses: dict[GangKey, _Pause] = {}

    def judged(self, key: GangKey, health: GangHealth | None) -> None:
        """Take note of a gang's health; None if the gang is gone or cannot be judged."""
        if health is None:
            self._pauses.pop(key, None)
        every = health.escaped if health is not None and key.kind == POD_GANG else ()
        if deletable := tuple(filter(self._may_delete, every)):
            self._escaped[key] = deletable
        else:
            self._escaped.pop(key, None)

    def _may_delete(self, escaped: Escaped) -> bool:
        return escaped.escape.value in self._deleted and escaped.pod.node is None

    async def see(self) -> None:
        """Delete the escaped pods that are due."""
        now = self._clock.monotonic()
        every = (one for key in sorted(self._escaped) for one in self._escaped[key])
        found = {one.pod.uid: one for one in every if not self._excepted(one.pod)}
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
        # After a long time the count starts again.
        times = 1 if pause is None or now - pause.until > PAUSE_SECONDS[1] else pause.times + 1
        self._pauses[gang] = _Pause(times, now + doubled(PAUSE_SECONDS, times))
        for one in escaped:
            try:
                gone = await self._writer.delete_unbound(one.pod)
            except (RequestFailed, NotLeading) as error:
                log.info("escaped pod not deleted", namespace=one.pod.namespace, name=one.pod.name, why=outline(error))
                continue
            if gone:
                self._metrics.deleted.labels(one.escape.value).inc()

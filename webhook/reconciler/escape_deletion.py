"""Deletes escaped pods if the configuration asks for it: Grove recreates them, and the webhook prepares the new ones.

Pods of opted-in workloads are never deleted: a Job counts a deleted pod as a failure, and a LeaderWorkerSet recreates
its whole group. Pods that are or were on a node are never deleted either, and neither are pods that an exception may
cover: it is granted for a workload that does not conform. Deletions in one gang are spaced by growing pauses: if the
new pods escape too, the API server does not call the webhook, and a deletion does not help.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster.backoff import doubled
from webhook.errors import NotLeading, RequestFailed
from webhook.gangs.escapes import Escaped
from webhook.gangs.health import GangHealth
from webhook.gangs.key import POD_GANG, GangKey
from webhook.gangs.pod import GangPod
from webhook.reconciler.metrics import Metrics
from webhook.reconciler.turns import HeldBack, Turns, not_noted
from webhook.reconciler.writer import Writer
from webhook.telemetry.logs import log, outline

# A pod may be seen before the record or configuration that it was prepared from. After this time it counts as escaped.
SETTLE_SECONDS = 15.0
# Pause between two deletions in one gang: doubled each time, up to the second value.
PAUSE_SECONDS = (30.0, 1800.0)
# Pods that are deleted at one look: gangs are judged between two looks, and each pod takes two requests.
DELETIONS_A_LOOK = 20
# Entries of the order that may be outdated.
_OUTDATED = 100


@dataclass(slots=True)
class _Case:
    """The pods of a gang that may be deleted, and since when each is known, by uid. `left` are those that are being
    deleted. `times` counts the deletions, `until` is when the next may come, and `due` when the gang is looked at.
    """

    escaped: tuple[Escaped, ...] = ()
    since: dict[str, float] = field(default_factory=dict)
    left: deque[Escaped] = field(default_factory=deque)
    times: int = 0
    until: float = 0.0
    due: float = inf


class EscapeDeletion:
    """Deletes pods whose kind of escape is in `deleted`, unless they are `excepted`. Call `judged` with each judgement
    of a gang, and `see` regularly while this process leads. Namespaces take turns.
    """

    def __init__(
        self,
        deleted: frozenset[str],
        writer: Writer,
        metrics: Metrics,
        excepted: Callable[[GangPod], bool] = lambda _: False,
        *,
        held_back: HeldBack = not_noted,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._deleted = deleted
        self._writer = writer
        self._metrics = metrics
        self._excepted = excepted
        self._held_back = held_back
        self._clock = clock
        # The gangs that have such pods, or had them: what is left of thousands that a tenant may have forged.
        self._cases: dict[GangKey, _Case] = {}
        # When gangs are due, the first first; an entry counts if its case says the same. And those that are due.
        self._later: list[tuple[float, GangKey]] = []
        self._turns: Turns[GangKey] = Turns()

    def judged(self, key: GangKey, health: GangHealth | None) -> None:
        """Take note of a gang's health; None if the gang is gone or cannot be judged."""
        if health is None:
            self._cases.pop(key, None)
            return
        every = health.escaped if key.kind == POD_GANG else ()
        deletable = tuple(filter(self._may_delete, every))
        case = self._cases.get(key)
        if case is None:
            if not deletable:
                return
            case = self._cases[key] = _Case()
        now = self._clock.monotonic()
        case.escaped = deletable
        case.since = {one.pod.uid: case.since.get(one.pod.uid, now) for one in deletable}
        self._put_off(key, case)

    def _may_delete(self, escaped: Escaped) -> bool:
        return escaped.escape.value in self._deleted and escaped.pod.node is None

    def _put_off(self, key: GangKey, case: _Case, until: float = 0.0) -> None:
        """Look at a gang when the first of its pods may be deleted, and not before `until`."""
        due = max(min(case.since.values()) + SETTLE_SECONDS, case.until, until) if case.since else inf
        if due == case.due:
            return
        case.due = due
        if due < inf:
            heappush(self._later, (due, key))
        if len(self._later) > 2 * len(self._cases) + _OUTDATED:
            self._later = [(other.due, name) for name, other in self._cases.items() if other.due < inf]
            heapify(self._later)

    async def see(self) -> None:
        """Delete escaped pods that are due, some at a time."""
        now = self._clock.monotonic()
        while self._later and self._later[0][0] <= now:
            due, key = heappop(self._later)
            if (case := self._cases.get(key)) is not None and case.due == due:
                case.due = inf
                self._turns.put(key)
        most, had = DELETIONS_A_LOOK, Counter[str]()
        while most > 0 and (gang := self._turns.take()) is not None:
            if (case := self._cases.get(gang)) is not None:
                tried = await self._delete(gang, case, most, now)
                most -= tried
                had[gang.namespace] += tried
        for namespace in self._turns.namespaces & had.keys():
            self._held_back(namespace)

    async def _delete(self, key: GangKey, case: _Case, most: int, now: float) -> int:
        """Delete pods of a gang, so many at most. Return how many were tried, and at least one."""
        if not case.left:
            settled = (one for one in case.escaped if now - case.since[one.pod.uid] >= SETTLE_SECONDS)
            case.left.extend(one for one in settled if not self._excepted(one.pod))
            if not case.left or now < case.until:
                case.left.clear()
                self._put_off(key, case, now + SETTLE_SECONDS)
                return 1
            # After a long time the count starts again.
            case.times = 1 if now - case.until > PAUSE_SECONDS[1] else case.times + 1
            case.until = now + doubled(PAUSE_SECONDS, case.times)
        tried = min(len(case.left), most)
        for _ in range(tried):
            # It may be correct by now, or on a node.
            if (escaped := case.left.popleft()).pod.uid in case.since:
                await self._try(escaped)
        if case.left:
            self._turns.put(key)
        else:
            self._put_off(key, case)
        return tried

    async def _try(self, escaped: Escaped) -> None:
        pod = escaped.pod
        try:
            gone = await self._writer.delete_unbound(pod)
        except (RequestFailed, NotLeading) as error:
            log.info("escaped pod not deleted", namespace=pod.namespace, name=pod.name, why=outline(error))
        else:
            if gone:
                self._metrics.deleted.labels(escaped.escape.value).inc()

"""Does for gangs what would otherwise need a person, as far as the configuration asks for it.

A cause must last for a while before anything is done. Then there are growing pauses in each gang, and a limit on the
remedies of the whole cluster a minute: a scheduler that is down, or a cause that is judged wrongly, must not turn into
a storm of writes. What was found and done, and whether it helped, is told by events on the gang.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from webhook.cluster.backoff import doubled
from webhook.config.settings import RemedySettings
from webhook.errors import FactsUnavailable, NotLeading, RequestFailed
from webhook.gangs.health import GangHealth
from webhook.gangs.hold_reasons import RemedyReason
from webhook.gangs.key import GangKey
from webhook.gangs.observed import Observed
from webhook.gangs.remedies import Act, Cause, Excepted, Remedy, may_need_remedy, nothing_excepted, remedy_for
from webhook.model.reading import Malformed
from webhook.model.workloads.podgang import PodGang
from webhook.reconciler.events import Events
from webhook.reconciler.remedy_metrics import Outcome, RemedyMetrics
from webhook.reconciler.remedy_writes import carry_out
from webhook.reconciler.writer import Writer
from webhook.telemetry.logs import log, outline

# The longest pause in one gang.
MAX_PAUSE_SECONDS = 1800.0
# A remedy has helped if its cause is gone after this time: a scheduler that was woken takes a moment to bind a gang.
HELPED_SECONDS = 20.0
_MINUTE = 60.0
# Remedies that are begun at one look, so that other gangs are judged in between.
AT_A_LOOK = 5


@dataclass(slots=True)
class _Case:
    """A gang that needs a remedy. `since` is when its cause was first seen, `until` when the next remedy is due.
    `times` counts its remedies, and `woken` the wakes among them that did not help. `done` is the last remedy while it
    is not known whether it helped.
    """

    cause: Cause | None = None
    since: float = 0.0
    until: float = 0.0
    times: int = 0
    woken: int = 0
    done: Remedy | None = None
    done_at: float = 0.0


class Remedies:
    """Remedies for gangs. Call `judged` with each judgement of a gang, and `see` regularly while this process leads."""

    def __init__(
        self,
        settings: RemedySettings,
        observed: Callable[[GangKey], Observed | None],
        writer: Writer,
        events: Events,
        metrics: RemedyMetrics,
        *,
        excepted: Excepted = nothing_excepted,
    ) -> None:
        """`observed` returns what is known of a gang. Pods that are `excepted` are never deleted."""
        self._settings = settings
        self._observed = observed
        self._writer = writer
        self._events = events
        self._metrics = metrics
        self._excepted = excepted
        # The health of each gang that may need a remedy, or that had one whose outcome is not known.
        self._held: dict[GangKey, GangHealth] = {}
        self._cases: dict[GangKey, _Case] = {}
        # When the remedies of the last minute were begun.
        self._begun: deque[float] = deque()

    def judged(self, key: GangKey, health: GangHealth | None) -> None:
        """Take note of a gang's health; None if the gang is gone or cannot be judged."""
        if health is None:
            self._held.pop(key, None)
            self._cases.pop(key, None)
        elif may_need_remedy(health):
            self._held[key] = health
        else:
            self._held.pop(key, None)

    async def see(self) -> None:
        """Tell what came of earlier remedies, and begin those that are due."""
        now = time.monotonic()
        begun = late = 0
        for key in sorted({*self._held, *self._cases}):
            case = self._cases.setdefault(key, _Case())
            remedy, podgang = self._remedy(key, case)
            if case.done is not None:
                await self._tell(case, case.done, remedy, podgang, now)
            if remedy is None or podgang is None:
                case.cause = None
                if case.done is None and now >= case.until + MAX_PAUSE_SECONDS:
                    # It was well for long enough: the next pause is a first one again.
                    del self._cases[key]
                continue
            if case.cause is not remedy.cause:
                case.cause, case.since = remedy.cause, now
            if case.done is not None or now < case.until or now - case.since < self._settings.settle_seconds:
                continue
            if begun == AT_A_LOOK or not self._may_begin(now):
                late += 1
                continue
            begun += 1
            await self._begin(case, remedy, podgang, now)
        self._metrics.waiting.set(late)

    def _remedy(self, key: GangKey, case: _Case) -> tuple[Remedy | None, PodGang | None]:
        """The remedy that a gang needs now, if the configuration asks for it, and the gang."""
        health = self._held.get(key)
        try:
            seen = self._observed(key)
            if seen is None:
                return None, None
            found = None if health is None else remedy_for(health, seen, case.woken, self._excepted)
        except (Malformed, FactsUnavailable):
            return None, None
        wanted = found is not None and found.cause.value in self._settings.causes
        return found if wanted else None, seen.podgang

    def _may_begin(self, now: float) -> bool:
        while self._begun and now - self._begun[0] >= _MINUTE:
            self._begun.popleft()
        return len(self._begun) < self._settings.per_minute

    async def _begin(self, case: _Case, remedy: Remedy, podgang: PodGang, now: float) -> None:
        self._begun.append(now)
        case.times += 1
        case.until = now + doubled((self._settings.pause_seconds, MAX_PAUSE_SECONDS), case.times)
        await self._events.say(podgang, RemedyReason.BEGUN, f"{remedy.found}; remedy: {remedy.act}")
        try:
            done = await carry_out(remedy, self._writer, datetime.now(UTC).isoformat(timespec="microseconds"))
        except (RequestFailed, NotLeading) as error:
            log.info("remedy failed", namespace=podgang.namespace, name=podgang.name, why=outline(error))
            self._metrics.done.labels(remedy.cause.value, Outcome.FAILED.value).inc()
            await self._events.say(podgang, RemedyReason.FAILED, f"the remedy failed: {error}")
            return
        if done:
            case.done, case.done_at = remedy, now

    async def _tell(self, case: _Case, done: Remedy, still: Remedy | None, podgang: PodGang | None, now: float) -> None:
        """Tell whether the last remedy, `done`, helped, once that is known. `still` is what the gang needs now."""
        if podgang is None:
            case.done = None
            return
        lasts = still is not None and still.cause is done.cause
        if lasts and now - case.done_at < HELPED_SECONDS:
            return
        case.done = None
        if lasts:
            if done.act is Act.WAKE:
                case.woken += 1
            self._metrics.done.labels(done.cause.value, Outcome.NOT_HELPED.value).inc()
            note = f"Rollcall {done.done}. That did not help: {done.found}"
            await self._events.say(podgang, RemedyReason.FAILED, note)
            return
        case.woken = 0
        self._metrics.done.labels(done.cause.value, Outcome.HELPED.value).inc()
        await self._events.say(podgang, RemedyReason.HELPED, f"Rollcall {done.done}. That helped")

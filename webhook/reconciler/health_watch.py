"""Keeps the health of all gangs: judges a gang again after a change, counts gangs by state, and reports a gang that is
held for the same reason for a while.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from webhook.clock import MACHINE_CLOCK, Clock, LoopTurn
from webhook.errors import FactsUnavailable
from webhook.fit.amounts import sentence_list
from webhook.gangs.anchored_health import AnchoredHealth, Health
from webhook.gangs.grouping import Grouping
from webhook.gangs.health import GangHealth, State
from webhook.gangs.hold_reasons import HoldReason, Reason
from webhook.gangs.key import GangKey
from webhook.model.reading import Malformed
from webhook.model.workloads.podgang import PodGang
from webhook.reconciler.escape_deletion import EscapeDeletion
from webhook.reconciler.events import REPEAT_SECONDS, Events
from webhook.reconciler.held_gangs import HeldGangs, Pace, Series
from webhook.reconciler.judgements import Judgement, judgement_of
from webhook.reconciler.metrics import Metrics
from webhook.reconciler.remedies import Remedies
from webhook.reconciler.stranger_watch import StrangerWatch
from webhook.reconciler.turns import HeldBack, Turns, not_noted
from webhook.telemetry.logs import log, outline

# Changes come in bursts: a gang is judged once for all changes within this many seconds.
LOOK_SECONDS = 1.0
# A gang that is being created briefly lacks pods and objects; only a lasting problem is reported.
SETTLE_SECONDS = 10.0
# In a full cluster hundreds of gangs wait for room. The limit protects the API server from an event for each.
EVENTS_A_LOOK = 20
# Number of gangs judged at one look, of those that changed and of those that only may have another reason now. In a
# cluster with ten thousand gangs that wait, something that may concern all of them changes every second.
CHANGED_A_LOOK, AGAIN_A_LOOK = 2000, 200
# Of the second, so many are judged even if this look has judged enough shapes: most reasons are not about room.
AGAIN_AT_LEAST = 20
# So much of a processor is used for judging at one look: gangs may be as large as a tenant likes, and events, records
# of losses and remedies wait for the end of a look.
JUDGING_SECONDS = 1.0
# The reasons of gangs that wait for room, or may do so.
_FOR_ROOM = frozenset({Reason.NEVER_FITS, Reason.NO_ROOM, Reason.SILENT, Reason.SCHEDULER_ERROR})
# The writer of the objects has reported these already.
_SAID_BY_WRITER = frozenset({Reason.CONFLICT, Reason.FROZEN, Reason.INEXPRESSIBLE, Reason.REFUSED})

T = TypeVar("T")


class Looking(Protocol):
    """Judges a limited number of gangs at each look."""

    def look(self) -> bool:
        """Begin a look. Return whether gangs without room must be judged again."""

    @property
    def has_left(self) -> bool:
        """Whether this look may judge more."""

    def take_behind(self) -> bool:
        """Whether a gang was not judged since the last call, because this look had judged enough."""


class Losses(Protocol):
    """Knows which gangs lost pods since they had started."""

    async def look(self) -> Iterable[GangKey]:
        """Begin a look. Return the gangs that must be judged again."""

    def judged(self, key: GangKey, health: GangHealth | None) -> GangHealth | None:
        """The health of a gang with what it lost; None for a gang that does not exist. Raises `Malformed`,
        `FactsUnavailable`.
        """

    async def keep(self) -> None:
        """End a look: count and store what was lost."""


class HealthWatch:
    """Judges gangs. Call `mark` if one gang may have changed, and `mark_held` if all gangs that are not started may
    have. Namespaces take turns.
    """

    def __init__(  # noqa: PLR0913 - whom it asks and whom it tells
        self,
        health: Health,
        podgang: Callable[[GangKey], PodGang | None],
        events: Events,
        metrics: Metrics,
        leads: Callable[[], bool],
        *,
        deletion: EscapeDeletion | None = None,
        remedies: Remedies | None = None,
        fits: Looking | None = None,
        losses: Losses | None = None,
        strangers: StrangerWatch | None = None,
        has_turn: Callable[[GangKey], bool] = lambda _: False,
        held_back: HeldBack = not_noted,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`fits` judges whether gangs have room, as far as `health` asks it. `losses` adds to the health of a gang what
        it lost. `has_turn` returns whether the objects of a gang are about to be written: it is judged afterwards.
        """
        self._judging = AnchoredHealth(health)
        self._podgang = podgang
        self._events = events
        self._metrics = metrics
        self._leads = leads
        self._deletion = deletion
        self._remedies = remedies
        self._fits = fits
        self._losses = losses
        self._strangers = strangers
        self._has_turn = has_turn
        self._held_back = held_back
        self._clock = clock
        # Gangs that changed, and gangs that may have another reason now.
        self._marked: Turns[GangKey] = Turns()
        self._again: Turns[GangKey] = Turns()
        # Where the gangs that have not started are to be judged again; None is everywhere.
        self._held_in: set[str | None] = set()
        self._known: dict[GangKey, Judgement] = {}
        # Those that have not started, by namespace; and those of them that wait for room, or may do so.
        self._waiting: Grouping[GangKey, str] = Grouping()
        self._for_room: set[GangKey] = set()
        # What is to be reported.
        self._held = HeldGangs(events.own)
        # How often each part of a look failed.
        self._faults: Counter[str] = Counter()

    def mark(self, key: GangKey) -> None:
        """Judge this gang again."""
        self._marked.put(key)

    def mark_held(self, namespace: str | None = None) -> None:
        """Judge every gang of a namespace, or of all, again that has not started: what it was held for may exist now,
        or have another reason.
        """
        self._held_in.add(namespace)

    def known(self, key: GangKey) -> Judgement | None:
        """The last judgement of a gang."""
        return self._known.get(key)

    async def run(self, ready: Callable[[], bool]) -> None:
        """Judge the marked gangs once a second while `ready` returns true; until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if ready():
                await self.look()

    async def look(self) -> None:
        """Judge the marked gangs, and report what is due."""
        self._judging.forget()
        turn = LoopTurn(self._clock)
        await self._mark_again(turn, room=self._fits is not None and self._fits.look())
        if self._losses is not None:
            for key in await self._unbroken("losses", self._losses.look()) or ():
                self._marked.put(key)
        for key in self._due():
            self._judge(key)
            # Reconciling gangs has priority.
            await turn.pause()
        if self._losses is not None:
            await self._unbroken("losses", self._losses.keep())
        if self._leads():
            await self._unbroken("events", self._tell())
            if self._deletion is not None:
                await self._unbroken("deletion", self._deletion.see())
            if self._remedies is not None:
                await self._unbroken("remedies", self._remedies.see())

    async def _mark_again(self, turn: LoopTurn, *, room: bool) -> None:
        """Mark the gangs that may have another reason now; with `room`, those among them that wait for room."""
        held, self._held_in = self._held_in, set()
        namespaces = self._waiting.groups() if None in held else (name for name in held if name is not None)
        for keys in (*map(self._waiting.members, namespaces), self._for_room if room else ()):
            for key in keys:
                self._again.put(key)
                await turn.pause()

    def _due(self) -> Iterator[GangKey]:
        """The gangs to judge at one look. A few of those that may have another reason come first: gangs of one tenant
        that change all the time must not use up the shapes that a look judges.
        """
        judged, had = set[GangKey](), Counter[str]()
        later: list[GangKey] = []
        first = min(AGAIN_AT_LEAST, AGAIN_A_LOOK)
        until = self._clock.processor() + JUDGING_SECONDS

        def may() -> bool:
            return self._clock.processor() < until

        def may_be_first() -> bool:
            # Half of the time is for gangs that changed.
            return self._clock.processor() < until - JUDGING_SECONDS / 2

        for turns, most, allowed in ((self._again, first, may_be_first), (self._marked, CHANGED_A_LOOK, may)):
            for key in self._taken(turns, most, later, allowed):
                judged.add(key)
                had[key.namespace] += 1
                yield key
        if had.total() >= CHANGED_A_LOOK or not may():
            self._note_held_back(had)
        for key in self._taken(self._again, AGAIN_A_LOOK - first, later, lambda: may() and self._judges_shapes):
            if key not in judged:
                yield key
        for key in later:
            self._marked.put(key)

    def _note_held_back(self, had: Counter[str]) -> None:
        """Note the namespaces that had most of a look and want more. Others only changed since it began."""
        for namespace in self._marked.namespaces:
            if had[namespace] * len(had) >= had.total():
                self._held_back(namespace)

    @property
    def _judges_shapes(self) -> bool:
        """Whether this look may judge more shapes."""
        return self._fits is None or self._fits.has_left

    def _taken(
        self, turns: Turns[GangKey], most: int, later: list[GangKey], may: Callable[[], bool]
    ) -> Iterator[GangKey]:
        """Take so many gangs at most, while they `may` be judged. Those whose objects are about to be written come
        `later`.
        """
        for _ in range(min(len(turns), most)):
            key = turns.take() if may() else None
            if key is None:
                return
            if self._has_turn(key):
                later.append(key)
            else:
                yield key

    async def _unbroken(self, part: str, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of one part of a look, None if it failed: a fault of ours, as with an object that a tenant
        wrote, must not end the process, which also writes the objects of all gangs.
        """
        try:
            return await work
        except Exception:  # noqa: BLE001 - whatever it is
            self._faults[part] += 1
            if self._faults[part].bit_count() == 1:
                # At 1, 2, 4, 8 and so on.
                log.exception("health not handled", part=part, count=self._faults[part])
            return None

    def _health(self, key: GangKey) -> GangHealth | None:
        try:
            health = self._judging.health(key)
            return health if self._losses is None else self._losses.judged(key, health)
        except (Malformed, FactsUnavailable) as error:
            log.info("gang not judged", kind=key.kind, namespace=key.namespace, name=key.name, why=outline(error))
        except Exception:  # noqa: BLE001 - a fault of ours with one gang must keep no gang from its objects
            log.exception("gang not judged", kind=key.kind, namespace=key.namespace, name=key.name)
        return None

    def _affected(self, key: GangKey) -> Iterable[GangKey]:
        try:
            return self._judging.affected(key)
        except Exception:  # noqa: BLE001 - as above
            log.exception("gang not judged", kind=key.kind, namespace=key.namespace, name=key.name)
            return ()

    def _judge(self, key: GangKey) -> None:
        health = self._health(key)
        for waiting in self._affected(key):
            self._marked.put(waiting)
        if self._fits is not None and self._fits.take_behind():
            self._again.put(key)
        before = self._known.get(key)
        if before is not None:
            self._count(before, -1)
        if self._deletion is not None:
            self._deletion.judged(key, health)
        if self._remedies is not None:
            self._remedies.judged(key, health)
        if self._strangers is not None:
            self._strangers.judged(key, health)
        if health is None:
            self._forget(key)
            return
        held = _last_held(health, None if before is None else before.held)
        now = self._known[key] = judgement_of(_with_both_halves(health, held), held)
        self._count(now, 1)
        waits = bool(now.obstacles) and now.state is not State.EMPTY
        self._waiting.move(key, key.namespace if waits else None)
        if waits and now.word in _FOR_ROOM:
            self._for_room.add(key)
        else:
            self._for_room.discard(key)
        if now.in_trouble:
            reason = now.obstacles[0].reason
            self._held.put(key, reason, self._clock.monotonic(), told=reason in _SAID_BY_WRITER)
            if _names_unowned(now) and not (before is not None and _names_unowned(before)):
                self._held.tell_again(key)
        else:
            self._held.drop(key, self._clock.monotonic())

    def _forget(self, key: GangKey) -> None:
        self._known.pop(key, None)
        self._waiting.move(key, None)
        self._for_room.discard(key)
        self._held.drop(key, self._clock.monotonic())

    def _count(self, judgement: Judgement, by: int) -> None:
        scheduler = self._metrics.scheduler(judgement.scheduler)
        self._metrics.gangs.labels(scheduler, judgement.word).inc(by)
        if judgement.never is not None:
            self._metrics.never.labels(scheduler, judgement.never.scope.label, judgement.never.family).inc(by)
        for escape, pods in judgement.escapes:
            self._metrics.escaped.labels(scheduler, escape).inc(by * pods)

    async def _tell(self) -> None:
        now = self._clock.monotonic()
        for one in self._held.due(now, Pace(SETTLE_SECONDS, REPEAT_SECONDS), EVENTS_A_LOOK):
            if isinstance(one, Series):
                note = _note_of_many(one, [(key.name, self._known[key]) for key in one.examples])
                event = await self._events.say_of_many(*one.cause, note, one.number, one.event)
                self._held.written(one, event, now)
                continue
            # One that cannot be read must not take the events of others with it.
            with suppress(Malformed, FactsUnavailable):
                if (podgang := self._podgang(one)) is not None:
                    judgement = self._known[one]
                    await self._events.say(podgang, judgement.obstacles[0].reason, _note(judgement))


def _names_unowned(judgement: Judgement) -> bool:
    return any(one.reason is Reason.UNOWNED for one in judgement.obstacles)


def _last_held(health: GangHealth, before: HoldReason | None) -> HoldReason | None:
    """Why the scheduler of a gang holds it, or last held it; None once the gang has started."""
    if health.state is State.STARTED:
        return None
    own = (one for one in health.obstacles if not one.is_kueues)
    return next(own, before) if health.state in {State.HELD, State.IN_PART} else before


def _with_both_halves(health: GangHealth, held: HoldReason | None) -> GangHealth:
    """The health of a gang that Kueue took back, with the reason why its scheduler held it before."""
    if held is None or health.state is not State.QUEUED:
        return health
    said = f"; it was last held by {held.reason}: {held.why}"
    loop = Reason.KUEUE_TOOK_BACK
    whole = (one._replace(why=one.why + said) if one.reason is loop else one for one in health.obstacles)
    return replace(health, obstacles=tuple(whole))


def _note(judgement: Judgement) -> str:
    first, *others = judgement.obstacles
    if first.reason is Reason.LOST_MEMBERS:
        more = f" (also: {', '.join(dict.fromkeys(one.reason.value for one in others))})" if others else ""
        return f"The gang has lost members: {first.why}; {first.remedy}{more}"
    words = [f"{one.reason}{_IN_WORDS.get(one.reason, '').format(one=one)}" for one in others]
    more = f" (also: {', '.join(dict.fromkeys(words))})" if others else ""
    what = _IN_STATE.get(judgement.state, "The gang does not start")
    return f"{what}: {judgement.why}; {first.remedy}{more}"


# Other reasons that are told in words: no other output names pods of other owners, and a record does not come back.
_IN_WORDS = {Reason.UNOWNED: ": {one.why}", Reason.UNRECORDED: ": {one.why}; {one.remedy}"}
_IN_STATE = {State.IN_PART: "The gang has started in part", State.STARTED: "The gang runs, but its next pods may not"}
# What many gangs have in common that had started, at least in part.
_OF_MANY = {
    Reason.LOST_MEMBERS: "have lost members",
    Reason.IN_PART: "have started in part",
    Reason.UNRECORDED: "have no record",
}


def _note_of_many(series: Series, examples: Sequence[tuple[str, Judgement]]) -> str:
    """The note of a series, which stays while its number changes, with the names and judgements of its examples."""
    name, first = examples[0]
    names = sentence_list([name for name, _ in examples])
    unowned = (
        f"; {name}: {reason.reason}: {reason.why}"
        for name, judgement in examples
        for reason in judgement.obstacles[1:]
        if reason.reason is Reason.UNOWNED
    )
    what = _OF_MANY.get(series.cause.reason, "do not start for the same cause")
    return (
        f"Many gangs of this namespace {what}, and share this event; its series counts them: "
        f"rollcall gangs -n {series.cause.namespace} --held shows all. They are, for example, {names}. "
        f"{name}: {first.why}; {first.obstacles[0].remedy}{''.join(unowned)}"
    )

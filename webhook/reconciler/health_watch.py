"""The health of all gangs, kept up to date: judges a gang again after a change, counts gangs by state, and reports
held gangs.

A gang that runs in part or is held may have strangers: other pods that name one of its groups. A watch on every pod of
a cluster would cost more than that is worth. So the leader lists the pods of those namespaces in which a gang waits, a
few pages a second, and the namespaces take turns page by page. Those come first in which a gang runs in part. No pages
are kept.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, NamedTuple, Protocol, TypeVar

from webhook.cluster.client import Page
from webhook.cluster.clock import MACHINE_CLOCK, Clock, LoopTurn, doubled
from webhook.cluster.logs import log, outline
from webhook.errors import FactsUnavailable, RequestFailed
from webhook.fit.verdict import sentence_list
from webhook.gangs.cluster_view import ClusterView
from webhook.gangs.escapes import NO_STRANGERS, StrangerSearch
from webhook.gangs.health import AnchoredHealth, GangHealth, GangState, Health
from webhook.gangs.hold_reasons import GangReason, HoldReason
from webhook.gangs.key import GangKey, Grouping
from webhook.model.grove import PodGang
from webhook.model.reading import Malformed
from webhook.reconciler import held_gangs
from webhook.reconciler.events import REPEAT_SECONDS, Events
from webhook.reconciler.metrics import ReconcilerMetrics
from webhook.reconciler.remedies import EscapeDeletion, Remedies

# How often pages are read.
SEARCH_LOOK_SECONDS = 1.0
# The shortest pause between two lists of a namespace, after a further gang came.
PAUSE_SECONDS = 10.0
# The first and the longest pause after a list that failed: doubled each time.
SEARCH_RETRY_SECONDS = (10.0, 600.0)
# A list ends after so many pages, which are a hundred thousand pods: what it has found until then counts.
MOST_PAGES = 1000


class SearchPace(NamedTuple):
    """How the gangs of a state are searched for: so long after one came, so often, and so many pages at a look."""

    settle: float
    period: float
    pages: int


# A gang that starts is in part for some seconds, while its scheduler binds its pods. It is told of after ten seconds,
# and should then be told of with its strangers. 400 pods a second take some hundredths of a processor. A full cluster
# has thousands of gangs that are held.
PACES = {GangState.IN_PART: SearchPace(4.0, 60.0, 4), GangState.HELD: SearchPace(60.0, 600.0, 1)}


@dataclass(slots=True)
class _PodPages:
    """A list of the pods of a namespace that is being read, and how many pages were."""

    pages: AsyncGenerator[Page, None]
    search: StrangerSearch
    gangs: frozenset[GangKey]
    read: int = 0


@dataclass(slots=True)
class _SearchedNamespace:
    """The gangs of a namespace in one state, when it is listed next, and since when it may be listed again."""

    due: float
    earliest: float = 0.0
    failures: int = 0
    gangs: set[GangKey] = field(default_factory=set)
    list: _PodPages | None = None


class StrangerWatch:
    """The strangers of gangs that wait, as the leader last found them. `view` keeps them."""

    def __init__(self, view: ClusterView, leads: Callable[[], bool], *, clock: Clock = MACHINE_CLOCK) -> None:
        self._view = view
        self._leads = leads
        self._clock = clock
        # By state; the namespace whose turn is next comes first.
        self._namespaces: dict[GangState, OrderedDict[str, _SearchedNamespace]] = {
            state: OrderedDict() for state in PACES
        }
        self._states: dict[GangKey, GangState] = {}
        # Lists that are not needed any more.
        self._left: list[_PodPages] = []
        # Whether there may be lists and strangers that only a leader has.
        self._looked = False

    def judged(self, key: GangKey, health: GangHealth | None) -> None:
        """Notes how a gang was judged; None for a gang that does not exist."""
        before = self._states.get(key)
        now = health.state if health is not None and health.may_have_strangers else None
        if before is now:
            return
        if before is not None:
            self._drop(key, before)
        if now is None:
            self._view.put_strangers(key, NO_STRANGERS)
            return
        self._states[key] = now
        namespace = self._namespaces[now].setdefault(key.namespace, _SearchedNamespace(inf))
        namespace.gangs.add(key)
        due = max(self._clock.monotonic() + PACES[now].settle, namespace.earliest)
        namespace.due = min(namespace.due, due)

    def _drop(self, key: GangKey, state: GangState) -> None:
        del self._states[key]
        namespace = self._namespaces[state][key.namespace]
        namespace.gangs.remove(key)
        if not namespace.gangs:
            del self._namespaces[state][key.namespace]
            self._leave(namespace)

    def _every(self) -> Iterator[_SearchedNamespace]:
        return (namespace for namespaces in self._namespaces.values() for namespace in namespaces.values())

    async def run(self) -> None:
        """Reads pages while this process leads, until cancelled."""
        try:
            while True:
                await asyncio.sleep(SEARCH_LOOK_SECONDS)
                if self._leads():
                    await self.look()
                elif self._looked:
                    await self._forget()
        finally:
            for namespace in self._every():
                self._leave(namespace)
            await self._close()

    async def look(self) -> None:
        """Reads the next pages, each of the namespace whose turn it is. Another leader ends that."""
        self._looked = True
        for state, pace in PACES.items():
            namespaces, read = self._namespaces[state], 0
            while read < pace.pages and self._leads() and (name := self._next(namespaces)) is not None:
                namespace = namespaces[name]
                read += await self._read(name, namespace, pace)
                if namespaces.get(name) is not namespace:
                    # None of its gangs is in that state any more.
                    self._leave(namespace)
        await self._close()

    def _next(self, namespaces: OrderedDict[str, _SearchedNamespace]) -> str | None:
        """Returns the namespace whose turn it is, which is then the last; None if none is due."""
        now = self._clock.monotonic()
        for name, namespace in namespaces.items():
            if namespace.list is not None or now >= namespace.due:
                namespaces.move_to_end(name)
                return name
        return None

    async def _read(self, name: str, namespace: _SearchedNamespace, pace: SearchPace) -> bool:
        """Reads the next page of a namespace. Returns whether there was one; if not, the namespace is not due."""
        try:
            listed = namespace.list
            if listed is None:
                gangs = frozenset(namespace.gangs)
                search = await self._view.stranger_search(gangs)
                listed = namespace.list = _PodPages(self._view.living_pods(name), search, gangs)
            page = await anext(listed.pages, None) if listed.search.is_needed else None
            if page is not None:
                listed.search.see(page.items)
                listed.read += 1
            if page is None or listed.read == MOST_PAGES:
                self._finish(namespace, listed, pace)
        except RequestFailed as error:
            self._fail(name, namespace, outline(error), error.wait or 0.0)
        except Exception:  # noqa: BLE001 - a fault of ours with a list must keep no gang from its objects
            log.exception("strangers not read", namespace=name)
            self._fail(name, namespace, "an internal error")
        else:
            return page is not None
        return True

    def _finish(self, namespace: _SearchedNamespace, listed: _PodPages, pace: SearchPace) -> None:
        self._leave(namespace)
        namespace.failures = 0
        namespace.earliest = self._clock.monotonic() + PAUSE_SECONDS
        is_behind = bool(namespace.gangs - listed.gangs)
        namespace.due = namespace.earliest if is_behind else self._clock.monotonic() + pace.period
        for key, strangers in listed.search.strangers().items():
            if key in namespace.gangs:
                self._view.put_strangers(key, strangers)

    def _fail(self, name: str, namespace: _SearchedNamespace, why: str, wait: float = 0.0) -> None:
        """Keeps what the last list has found, and lets it be tried again later."""
        self._leave(namespace)
        namespace.failures += 1
        pause = max(doubled(SEARCH_RETRY_SECONDS, namespace.failures), wait)
        namespace.due = namespace.earliest = self._clock.monotonic() + pause
        if namespace.failures.bit_count() == 1:
            # At 1, 2, 4, 8 and so on.
            log.warning("strangers not read", namespace=name, why=why, failures=namespace.failures)

    async def _forget(self) -> None:
        """Forgets what only a leader knows."""
        self._looked = False
        for namespace in self._every():
            self._leave(namespace)
            namespace.due, namespace.earliest, namespace.failures = self._clock.monotonic(), 0.0, 0
            for key in namespace.gangs:
                self._view.put_strangers(key, NO_STRANGERS)
        await self._close()

    def _leave(self, namespace: _SearchedNamespace) -> None:
        """Ends the list of a namespace, if one is being read."""
        if namespace.list is not None:
            self._left.append(namespace.list)
            namespace.list = None

    async def _close(self) -> None:
        while self._left:
            await self._left.pop().pages.aclose()


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
_FOR_ROOM = frozenset({GangReason.NEVER_FITS, GangReason.NO_ROOM, GangReason.SILENT, GangReason.SCHEDULER_ERROR})
# The writer of the objects has reported these already.
_SAID_BY_WRITER = frozenset({GangReason.CONFLICT, GangReason.FROZEN, GangReason.INEXPRESSIBLE, GangReason.REFUSED})

T = TypeVar("T")


class ShapeBudget(Protocol):
    """Judges a limited number of gangs at each look."""

    def look(self) -> bool:
        """Begins a look. Returns whether gangs without room must be judged again."""

    @property
    def has_left(self) -> bool:
        """Whether this look may judge more."""

    def take_behind(self) -> bool:
        """Returns whether a gang was not judged since the last call, because this look had judged enough."""


class Losses(Protocol):
    """Knows which gangs lost pods since they had started."""

    async def look(self) -> Iterable[GangKey]:
        """Begins a look. Returns the gangs that must be judged again."""

    def judged(self, key: GangKey, health: GangHealth | None) -> GangHealth | None:
        """Returns a health with what the gang lost; None without a gang. Raises `Malformed`, `FactsUnavailable`."""

    async def keep(self) -> None:
        """Ends a look: counts and stores what was lost."""


class HealthWatch:
    """The health of gangs. Call `mark` for a gang that changed, and `mark_held` if those that wait may have."""

    def __init__(  # noqa: PLR0913 - whom it asks and whom it tells
        self,
        health: Health,
        podgang: Callable[[GangKey], PodGang | None],
        events: Events,
        metrics: ReconcilerMetrics,
        leads: Callable[[], bool],
        *,
        deletion: EscapeDeletion | None = None,
        remedies: Remedies | None = None,
        fits: ShapeBudget | None = None,
        losses: Losses | None = None,
        strangers: StrangerWatch | None = None,
        has_turn: Callable[[GangKey], bool] = lambda _: False,
        held_back: held_gangs.HeldBackNote = held_gangs.not_noted,
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
        self._marked: held_gangs.Turns[GangKey] = held_gangs.Turns()
        self._again: held_gangs.Turns[GangKey] = held_gangs.Turns()
        # Where the gangs that have not started are to be judged again; None is everywhere.
        self._held_in: set[str | None] = set()
        self._judgements: dict[GangKey, held_gangs.HealthJudgement] = {}
        # Those that have not started, by namespace; and those of them that wait for room, or may do so.
        self._waiting: Grouping[GangKey, str] = Grouping()
        self._for_room: set[GangKey] = set()
        # What is to be reported.
        self._held = held_gangs.HeldGangs(events.own)
        # How often each part of a look failed.
        self._faults: Counter[str] = Counter()

    def mark(self, key: GangKey) -> None:
        """Judges this gang again."""
        self._marked.put(key)

    def mark_held(self, namespace: str | None = None) -> None:
        """Judges the gangs of a namespace, or all, again that have not started: their reasons may have passed."""
        self._held_in.add(namespace)

    def judgement(self, key: GangKey) -> held_gangs.HealthJudgement | None:
        """Returns the last judgement of a gang."""
        return self._judgements.get(key)

    async def run(self, ready: Callable[[], bool]) -> None:
        """Judges the marked gangs once a second while `ready` returns true; until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if ready():
                await self.look()

    async def look(self) -> None:
        """Judges the marked gangs, and reports what is due."""
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
        """Marks the gangs that may have another reason now; with `room`, those among them that wait for room."""
        held, self._held_in = self._held_in, set()
        namespaces = self._waiting.groups() if None in held else (name for name in held if name is not None)
        for keys in (*map(self._waiting.members, namespaces), self._for_room if room else ()):
            for key in keys:
                self._again.put(key)
                await turn.pause()

    def _due(self) -> Iterator[GangKey]:
        """Yields the gangs to judge at one look. A few of those that may have another reason come first: gangs of one
        tenant that change all the time must not use up the shapes that a look judges.
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
            # These had most of the look and want more. Others only changed since it began.
            for namespace in self._marked.namespaces:
                if had[namespace] * len(had) >= had.total():
                    self._held_back(namespace)
        for key in self._taken(
            self._again, AGAIN_A_LOOK - first, later, lambda: may() and (self._fits is None or self._fits.has_left)
        ):
            if key not in judged:
                yield key
        for key in later:
            self._marked.put(key)

    def _taken(
        self, turns: held_gangs.Turns[GangKey], most: int, later: list[GangKey], may: Callable[[], bool]
    ) -> Iterator[GangKey]:
        """Takes at most so many gangs while they `may` be judged; `later` those about to be written."""
        for _ in range(min(len(turns), most)):
            key = turns.take() if may() else None
            if key is None:
                return
            if self._has_turn(key):
                later.append(key)
            else:
                yield key

    async def _unbroken(self, part: str, work: Coroutine[Any, Any, T]) -> T | None:
        """Returns the result of one part of a look, None if it failed: a fault of ours, as with an object that a tenant
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
        before = self._judgements.get(key)
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
        now = self._judgements[key] = held_gangs.judgement_of(_add_last_hold(health, held), held)
        self._count(now, 1)
        waits = bool(now.obstacles) and now.state is not GangState.EMPTY
        self._waiting.move(key, key.namespace if waits else None)
        if waits and now.word in _FOR_ROOM:
            self._for_room.add(key)
        else:
            self._for_room.discard(key)
        if now.is_troubled:
            reason = now.obstacles[0].reason
            self._held.put(key, reason, self._clock.monotonic(), told_elsewhere=reason in _SAID_BY_WRITER)
            if _names_unowned(now) and not (before is not None and _names_unowned(before)):
                self._held.tell_again(key)
        else:
            self._held.drop(key, self._clock.monotonic())

    def _forget(self, key: GangKey) -> None:
        self._judgements.pop(key, None)
        self._waiting.move(key, None)
        self._for_room.discard(key)
        self._held.drop(key, self._clock.monotonic())

    def _count(self, judgement: held_gangs.HealthJudgement, by: int) -> None:
        scheduler = self._metrics.scheduler(judgement.scheduler)
        self._metrics.gangs.labels(scheduler, judgement.word).inc(by)
        if judgement.never is not None:
            self._metrics.never.labels(scheduler, judgement.never.scope.label, judgement.never.family).inc(by)
        for escape, pods in judgement.escapes:
            self._metrics.escaped.labels(scheduler, escape).inc(by * pods)

    async def _tell(self) -> None:
        now = self._clock.monotonic()
        for due in self._held.due(now, held_gangs.EventPace(SETTLE_SECONDS, REPEAT_SECONDS), EVENTS_A_LOOK):
            if isinstance(due, held_gangs.Series):
                note = _note_of_many(due, [(key.name, self._judgements[key]) for key in due.examples])
                event = await self._events.say_of_many(*due.cause, note, due.number, due.event)
                self._held.written(due, event, now)
                continue
            # One that cannot be read must not take the events of others with it.
            with suppress(Malformed, FactsUnavailable):
                if (podgang := self._podgang(due)) is not None:
                    judgement = self._judgements[due]
                    await self._events.say(podgang, judgement.obstacles[0].reason, _note(judgement))


def _names_unowned(judgement: held_gangs.HealthJudgement) -> bool:
    return any(obstacle.reason is GangReason.UNOWNED for obstacle in judgement.obstacles)


def _last_held(health: GangHealth, before: HoldReason | None) -> HoldReason | None:
    """Returns why the scheduler of a gang holds it, or last held it; None once the gang has started."""
    if health.state is GangState.STARTED:
        return None
    obstacles = (obstacle for obstacle in health.obstacles if not obstacle.is_kueues)
    return next(obstacles, before) if health.state in {GangState.HELD, GangState.IN_PART} else before


def _add_last_hold(health: GangHealth, held: HoldReason | None) -> GangHealth:
    """Returns the health of a gang that Kueue took back, with the reason why its scheduler held it before."""
    if held is None or health.state is not GangState.QUEUED:
        return health
    suffix = f"; it was last held by {held.reason}: {held.why}"
    loop = GangReason.KUEUE_TOOK_BACK
    whole = (
        obstacle._replace(why=obstacle.why + suffix) if obstacle.reason is loop else obstacle
        for obstacle in health.obstacles
    )
    return replace(health, obstacles=tuple(whole))


def _note(judgement: held_gangs.HealthJudgement) -> str:
    first, *others = judgement.obstacles
    if first.reason is GangReason.LOST_MEMBERS:
        more = f" (also: {', '.join(dict.fromkeys(other.reason.value for other in others))})" if others else ""
        return f"The gang has lost members: {first.why}; {first.remedy}{more}"
    words = [f"{other.reason}{_IN_WORDS.get(other.reason, '').format(reason=other)}" for other in others]
    more = f" (also: {', '.join(dict.fromkeys(words))})" if others else ""
    what = _IN_STATE.get(judgement.state, "The gang does not start")
    return f"{what}: {judgement.why}; {first.remedy}{more}"


# Other reasons that are told in words: no other output names pods of other owners, and a record does not come back.
_IN_WORDS = {GangReason.UNOWNED: ": {reason.why}", GangReason.UNRECORDED: ": {reason.why}; {reason.remedy}"}
_IN_STATE = {
    GangState.IN_PART: "The gang has started in part",
    GangState.STARTED: "The gang runs, but its next pods may not",
}
# What many gangs have in common that had started, at least in part.
_OF_MANY = {
    GangReason.LOST_MEMBERS: "have lost members",
    GangReason.IN_PART: "have started in part",
    GangReason.UNRECORDED: "have no record",
}


def _note_of_many(series: held_gangs.Series, examples: Sequence[tuple[str, held_gangs.HealthJudgement]]) -> str:
    """Returns the note of a series, which stays while its number changes, with its examples."""
    name, first = examples[0]
    names = sentence_list([name for name, _ in examples])
    unowned = (
        f"; {name}: {reason.reason}: {reason.why}"
        for name, judgement in examples
        for reason in judgement.obstacles[1:]
        if reason.reason is GangReason.UNOWNED
    )
    what = _OF_MANY.get(series.cause.reason, "do not start for the same cause")
    return (
        f"Many gangs of this namespace {what}, and share this event; its series counts them: "
        f"rollcall gangs -n {series.cause.namespace} --held shows all. They are, for example, {names}. "
        f"{name}: {first.why}; {first.obstacles[0].remedy}{''.join(unowned)}"
    )

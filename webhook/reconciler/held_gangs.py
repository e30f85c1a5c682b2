"""The gangs that are held: what the reconciler keeps of their health, and which get an event of their own (no I/O).

A namespace may have thousands of gangs that are held for the same cause. The first get an event each. All of them
together get one event whose series says how many they are. Namespaces take turns wherever there is little of
something: a tenant can make any number of gangs, and must not delay those of the others. Of a health only what is
counted and told is kept, and equal judgements are one object.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, KeysView
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import Any, Generic, NamedTuple, TypeVar

from webhook.fit.verdict import FitFamily, FitScope
from webhook.gangs.escapes import Escape
from webhook.gangs.health import GangHealth, GangState
from webhook.gangs.hold_reasons import GangReason, HoldReason
from webhook.gangs.key import GangKey
from webhook.model.bounds import latest_equal

# What takes turns: the first of its parts is its namespace.
K = TypeVar("K", bound=tuple[Any, ...])


def _any(_: str) -> bool:
    return True


# Gets a namespace each time that it wants more than its share.
HeldBackNote = Callable[[str], None]


def not_noted(_: str) -> None:
    """Leaves it unsaid that a namespace wants more than its share."""


class Turns(Generic[K]):
    """Waiting keys, each once. A namespace hands out its first key, and then waits until all others had a turn."""

    def __init__(self) -> None:
        # The namespace whose turn is next comes first.
        self._waiting: OrderedDict[str, deque[K]] = OrderedDict()
        self._keys: set[K] = set()

    def __len__(self) -> int:
        """The number of waiting keys."""
        return len(self._keys)

    def __contains__(self, key: K) -> bool:
        """Whether `key` waits."""
        return key in self._keys

    @property
    def namespaces(self) -> KeysView[str]:
        """The namespaces that have waiting keys."""
        return self._waiting.keys()

    def put(self, key: K) -> None:
        """Lets `key` wait as the last of its namespace; a key that waits keeps its place."""
        if key not in self._keys:
            self._keys.add(key)
            self._waiting.setdefault(key[0], deque()).append(key)

    def take(self, may: Callable[[str], bool] = _any) -> K | None:
        """Returns the next key of a namespace that `may` have a turn; None if no key of such a namespace waits."""
        namespace = next(filter(may, self._waiting), None)
        if namespace is None:
            return None
        keys = self._waiting[namespace]
        key = keys.popleft()
        self._keys.remove(key)
        if keys:
            self._waiting.move_to_end(namespace)
        else:
            del self._waiting[namespace]
        return key


# How many gangs of one namespace get an event of their own for one reason before the events are repeated.
OWN_EVENTS = 10
# A series is written at most this often, and while its number changes all the time at least this often. The second is
# the interval of Kubernetes' own events (client-go, tools/events/event_broadcaster.go).
SERIES_SECONDS = (30.0, 360.0)
# How many gangs a series names.
EXAMPLES = 3
# How many causes are remembered.
_MEMORY = 10_000


class HeldCause(NamedTuple):
    """Why gangs of a namespace are held."""

    namespace: str
    reason: GangReason


class EventPace(NamedTuple):
    """When events are due, in seconds: once a reason has lasted for `settle`, and again after `repeat`."""

    settle: float
    repeat: float


class Series(NamedTuple):
    """An event for all gangs of a cause that is due: their number, and some of them. `event` is the name of the event
    to continue, None for a new one.
    """

    cause: HeldCause
    number: int
    examples: tuple[GangKey, ...]
    event: str | None


class OwnEvents:
    """When gangs of a cause got events of their own: at most `OWN_EVENTS` within the time after which events are
    repeated. `held_back` gets the namespace of each further gang.
    """

    def __init__(self, held_back: HeldBackNote = not_noted) -> None:
        self.held_back = held_back
        self._times: OrderedDict[HeldCause, deque[float]] = OrderedDict()

    def is_left(self, cause: HeldCause, now: float, repeat: float) -> bool:
        """Returns whether one more gang of this cause may get an event of its own."""
        times = self._times.get(cause)
        return times is None or len(times) < OWN_EVENTS or now - times[0] >= repeat

    def take(self, cause: HeldCause, now: float, repeat: float) -> bool:
        """Counts an event of a gang of this cause, and returns whether it may be written."""
        if not self.is_left(cause, now, repeat):
            self.held_back(cause.namespace)
            return False
        self._times.setdefault(cause, deque(maxlen=OWN_EVENTS)).append(now)
        self._times.move_to_end(cause)
        if len(self._times) > _MEMORY:
            self._times.popitem(last=False)
        return True


@dataclass(slots=True)
class _Written:
    """The event of a series: its name (None if not written), when it was made and last written, and its number."""

    event: str | None
    begun: float
    at: float
    number: int


@dataclass(slots=True)
class _HeldGroup:
    """The gangs of a cause: since when each is held, those that got no event of their own, and when the others did,
    each in the order of time: thousands may wait, so they are not gone through. `changed` is when the number of gangs
    last changed, and `begun` when the first came. `counted` means that the series has that number.
    """

    begun: float
    changed: float
    since: dict[GangKey, float] = field(default_factory=dict)
    untold: OrderedDict[GangKey, None] = field(default_factory=OrderedDict)
    reported: OrderedDict[GangKey, float] = field(default_factory=OrderedDict)
    series: _Written | None = None
    counted: bool = False


class HeldGangs:
    """The held gangs by cause."""

    def __init__(self, own_events: OwnEvents) -> None:
        self._own_events = own_events
        self._causes: dict[HeldCause, _HeldGroup] = {}
        self._of: dict[GangKey, HeldCause] = {}
        # The namespace that had the last turn.
        self._last = ""

    def put(self, key: GangKey, reason: GangReason, now: float, *, told_elsewhere: bool) -> None:
        """Notes that a gang is held. With `told_elsewhere` another part of the process writes the gang's own event."""
        cause = HeldCause(key.namespace, reason)
        if self._of.get(key) == cause:
            return
        self.drop(key, now)
        self._of[key] = cause
        held = self._causes.setdefault(cause, _HeldGroup(now, now))
        if not held.since:
            held.begun = now
        held.since[key] = held.changed = now
        held.counted = False
        if not told_elsewhere:
            held.untold[key] = None

    def tell_again(self, key: GangKey) -> None:
        """Lets a gang get one more own event, as more is known of it, unless another part writes its events."""
        cause = self._of.get(key)
        if cause is not None and self._causes[cause].reported.pop(key, None) is not None:
            untold = self._causes[cause].untold
            untold[key] = None
            untold.move_to_end(key, last=False)

    def drop(self, key: GangKey, now: float) -> None:
        """Forgets a gang that is not held any more."""
        cause = self._of.pop(key, None)
        if cause is None:
            return
        held = self._causes[cause]
        del held.since[key]
        held.untold.pop(key, None)
        held.reported.pop(key, None)
        held.changed, held.counted = now, False

    def due(self, now: float, pace: EventPace, most: int) -> list[GangKey | Series]:
        """Returns what to tell now, at most so much, which counts as told. Namespaces take turns."""
        causes: dict[str, list[HeldCause]] = {}
        for cause, held in list(self._causes.items()):
            if held.since:
                causes.setdefault(cause.namespace, []).append(cause)
            elif held.series is None or now - held.series.begun >= pace.repeat:
                del self._causes[cause]
        names = sorted(causes, key=lambda name: (name <= self._last, name))
        turns = deque((name, self._due_of(sorted(causes[name]), now, pace)) for name in names)
        reports: list[GangKey | Series] = []
        while turns and len(reports) < most:
            name, left = turns.popleft()
            if (report := next(left, None)) is not None:
                reports.append(report)
                self._last = name
                turns.append((name, left))
        return reports

    def written(self, series: Series, event: str | None, now: float) -> None:
        """Notes that a series was written as the event of this name; None if it could not be."""
        if (held := self._causes.get(series.cause)) is not None:
            begun = now if series.event is None or held.series is None else held.series.begun
            held.series = _Written(event, begun, now, series.number)

    def _due_of(self, causes: Iterable[HeldCause], now: float, pace: EventPace) -> Iterator[GangKey | Series]:
        for cause in causes:
            held = self._causes[cause]
            yield from self._gangs(cause, held, now, pace)
            if (series := self._series(cause, held, now, pace)) is not None:
                yield series

    def _gangs(self, cause: HeldCause, held: _HeldGroup, now: float, pace: EventPace) -> Iterator[GangKey]:
        """Yields the gangs that get an event of their own, first those that had one before."""
        while (key := _next(held, now, pace)) is not None and self._own_events.take(cause, now, pace.repeat):
            held.untold.pop(key, None)
            held.reported[key] = now
            held.reported.move_to_end(key)
            yield key

    def _series(self, cause: HeldCause, held: _HeldGroup, now: float, pace: EventPace) -> Series | None:
        before = held.series
        expired = before is None or now - before.begun >= pace.repeat
        if held.counted and not expired:
            return None
        least, longest = SERIES_SECONDS
        if before is not None and now - before.at < least:
            return None
        changing = now - held.changed < pace.settle
        if changing and now - (held.begun if before is None else before.at) < longest:
            return None
        held.counted = not changing
        late = takewhile(lambda since: now - since < pace.settle, reversed(held.since.values()))
        settled = len(held.since) - sum(1 for _ in late)
        examples = tuple(islice(held.since, min(settled, EXAMPLES)))
        if before is not None and not expired:
            changed = settled not in {before.number, 0}
            return Series(cause, settled, examples, before.event) if changed else None
        spent = not self._own_events.is_left(cause, now, pace.repeat)
        needed = settled > OWN_EVENTS or (spent and _next(held, now, pace) in held.untold)
        return Series(cause, settled, examples, None) if needed else None


def _next(held: _HeldGroup, now: float, pace: EventPace) -> GangKey | None:
    """Returns the next gang that an event of its own is due for, None if there is none."""
    reported = next(iter(held.reported), None)
    if reported is not None and now - held.reported[reported] >= pace.repeat:
        return reported
    untold = next(iter(held.untold), None)
    return untold if untold is not None and now - held.since[untold] >= pace.settle else None


_latest = latest_equal(256)


class NeverFits(NamedTuple):
    """That a gang can never start, as it is counted."""

    scope: FitScope
    family: FitFamily


@dataclass(frozen=True, slots=True)
class HealthJudgement:
    """The last judgement of a gang. `escapes` are the numbers of its escaped pods. `why` is the first of `obstacles` in
    words, and `held` is why its scheduler last held it, until it starts. The other fields are those of `GangHealth`.
    """

    scheduler: str | None
    state: GangState
    word: str
    is_troubled: bool
    never: NeverFits | None
    escapes: tuple[tuple[str, int], ...]
    obstacles: tuple[HoldReason, ...]
    why: str
    held: HoldReason | None


def judgement_of(health: GangHealth, held: HoldReason | None) -> HealthJudgement:
    """Returns what is kept of a health."""
    escapes = Counter(escaped.escape.value for escaped in health.escaped)
    if health.further:
        escapes[Escape.UNOWNED.value] += health.further
    judgement = HealthJudgement(
        health.scheduler,
        health.state,
        health.word,
        health.is_troubled,
        None if health.never is None else NeverFits(health.never.scope, health.never.family),
        tuple(escapes.items()),
        health.obstacles,
        health.why,
        held,
    )
    # Of empty PodGangs all that is kept is the same, and a tenant may create thousands.
    is_own = judgement.state is not GangState.EMPTY and (judgement.obstacles or judgement.held is not None)
    return judgement if is_own else _latest(judgement)

"""Remedies: does for gangs what would otherwise need a person, as far as the configuration asks for it.

A cause must last for a while before anything is done. Then there are growing pauses in each gang, and a limit on the
remedies of the whole cluster a minute, in which each deleted pod counts. The namespaces take turns. Every write is
refused if its object is another one by now, or has changed in what matters. What was found and done, and whether it
helped, is told by events on the gang.

A wake of koord-scheduler takes two writes; if the process ends between them, the next one writes the gang object as it
writes any other that differs.

Escaped pods are deleted if the configuration asks for it: Grove recreates them, and the webhook prepares the new ones.
Pods of opted-in workloads, pods that are or were on a node, and pods that an exception may cover are never deleted.
Deletions in one gang are spaced by growing pauses: if the new pods escape too, the API server does not call the
webhook.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from http import HTTPStatus
from math import inf
from typing import Any

from webhook.backends.base import Wake
from webhook.cluster import requests
from webhook.cluster.clock import MACHINE_CLOCK, Clock, LoopTurn, doubled
from webhook.cluster.logs import log, outline
from webhook.config.settings import RemedySettings
from webhook.errors import FactsUnavailable, NotLeading, RequestFailed
from webhook.gangs.escapes import Escaped
from webhook.gangs.health import GangHealth, GangState, Observed
from webhook.gangs.hold_reasons import RemedyReason
from webhook.gangs.key import POD_GANG, GangKey
from webhook.gangs.members import GangPod
from webhook.gangs.object_plan import FIELD_MANAGER
from webhook.gangs.remedies import Act, Excepted, Remedy, RemedyCause, may_need_remedy, needed_remedy, nothing_excepted
from webhook.model import grove
from webhook.model.grove import PodGang
from webhook.model.known_kinds import PODS
from webhook.model.projections import Resource, key_of
from webhook.model.reading import Malformed, Manifest, mapping
from webhook.mutators.prepare_pod import STAMP_ANNOTATION
from webhook.reconciler.events import Events
from webhook.reconciler.held_gangs import HeldBackNote, Turns, not_noted
from webhook.reconciler.metrics import ReconcilerMetrics, RemedyMetrics, RemedyOutcome
from webhook.reconciler.writer import Writer

# The field manager of the annotation that makes Grove reconcile a PodCliqueSet.
TRIGGER_MANAGER = f"{FIELD_MANAGER}-trigger"
# On what a wake changes: when it did.
WOKEN_ANNOTATION = "rollcall.dev/woken"
_WOKEN = f"/metadata/annotations/{WOKEN_ANNOTATION.replace('/', '~1')}"


async def carry_out(remedy: Remedy, writer: Writer, now: str) -> bool:
    """Carries out a remedy. Returns whether anything was done: not if its objects have changed. `now` is the time as
    text. Raises `RequestFailed`, `NotLeading`.
    """
    if remedy.act is Act.REPLACE:
        return any([await writer.delete_unbound(pod) for pod in remedy.pods])
    target, api = remedy.target, remedy.api
    if target is None or api is None:
        return False
    resource = Resource(api, f"{api.kind.lower()}s")
    if remedy.act is Act.TRIGGER:
        return await _trigger(writer, resource, target, now)
    if remedy.act is Act.DELETE:
        return await writer.delete_unchanged(resource, target)
    if remedy.act is Act.RELEASE:
        finalizers = target["metadata"]["finalizers"]
        return await _patch(
            writer,
            "release",
            resource,
            target,
            {"op": "test", "path": "/metadata/finalizers", "value": finalizers},
            {"op": "remove", "path": "/metadata/finalizers"},
        )
    return await _wake(remedy, writer, resource, target, now)


async def _trigger(writer: Writer, resource: Resource, target: Manifest, now: str) -> bool:
    """Has Grove reconcile a PodCliqueSet. With its uid, none is created, and none of the same name is changed."""
    annotated = {**target, "metadata": {**target["metadata"], "annotations": {grove.RECONCILE_TRIGGER: now}}}
    request = requests.apply(resource, annotated, TRIGGER_MANAGER, dry_run=writer.dry_run)
    try:
        await writer.send("trigger", resource, key_of(target), request)
    except RequestFailed as error:
        if error.code == HTTPStatus.CONFLICT:
            return False
        raise
    return True


async def _wake(remedy: Remedy, writer: Writer, resource: Resource, target: Manifest, now: str) -> bool:
    if remedy.wake is Wake.ANNOTATE:
        return await _patch(writer, "wake", resource, target, {"op": "add", "path": _WOKEN, "value": now})
    path, before = "/spec/minMember", mapping(target.get("spec")).get("minMember")
    if before is None:
        # A user has removed it: the reconciler writes the object again, and the scheduler hears of that.
        return False
    # koord-scheduler forgets the pods of a PodGroup that was deleted, and hears of each again when it changes.
    for pod in remedy.pods:
        await _annotate(writer, pod, now)
    raised = await _patch(
        writer,
        "wake",
        resource,
        target,
        {"op": "test", "path": path, "value": before},
        {"op": "replace", "path": path, "value": remedy.raised},
    )
    if not raised:
        return False
    await _patch(
        writer,
        "wake",
        resource,
        target,
        {"op": "test", "path": path, "value": remedy.raised},
        {"op": "replace", "path": path, "value": before},
    )
    # If that was refused, the reconciler itself has set it back meanwhile.
    return True


async def _annotate(writer: Writer, pod: GangPod, now: str) -> None:
    """Annotates a pod that Rollcall prepared."""
    if STAMP_ANNOTATION not in pod.annotations:
        return
    same = {"op": "test", "path": "/metadata/uid", "value": pod.uid}
    change = {"op": "add", "path": _WOKEN, "value": now}
    await _sent(writer, "annotate", PODS, pod.namespace, pod.name, [same, change])


async def _patch(writer: Writer, action: str, resource: Resource, live: Manifest, *operations: Manifest) -> bool:
    same = {"op": "test", "path": "/metadata/uid", "value": live["metadata"]["uid"]}
    return await _sent(writer, action, resource, *key_of(live), [same, *operations])


async def _sent(
    writer: Writer, action: str, resource: Resource, namespace: str, name: str, operations: list[Manifest]
) -> bool:
    """Sends a patch. Returns whether it applied."""
    request = requests.json_patch(resource, namespace, name, operations, dry_run=writer.dry_run)
    try:
        await writer.send(action, resource, (namespace, name), request)
    except RequestFailed as error:
        if error.is_outdated_patch:
            return False
        raise
    return True


# The longest pause in one gang.
MAX_PAUSE_SECONDS = 1800.0
# A scheduler that was woken takes a moment to bind a gang. After this time the remedy has not helped.
HELPED_SECONDS = 20.0
# A gang that looks as if it needed a remedy, and needs none, is looked at again after this time.
LOOK_AGAIN_SECONDS = 10.0
# Gangs that are looked at closely at one look: each takes some tenths of a millisecond.
GANGS_A_LOOK = 50
# Looks come each second while this process leads.
BREAK_SECONDS = 10.0
_MINUTE = 60.0
# Entries of the order that may be outdated.
_OUTDATED = 100


@dataclass(slots=True)
class _RemedyCase:
    """A gang that may need a remedy, or had one. `since` is since when it may without a break, None if it does not.
    `until` is when it may get the next one, `due` when it is to be looked at, and `ready` whether it is. `times` counts
    its remedies, and `woken` the wakes that did not help. `done` is the last remedy while it is not known whether it
    helped; `health` is the gang's health since then.
    """

    since: float | None = None
    until: float = 0.0
    due: float = inf
    ready: bool = False
    times: int = 0
    woken: int = 0
    done: Remedy | None = None
    done_at: float = 0.0
    health: GangHealth | None = None


class Remedies:
    """Remedies for gangs. Call `judged` with each judgement of a gang, and `see` regularly while this process leads."""

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        settings: RemedySettings,
        observed: Callable[[GangKey], Observed | None],
        writer: Writer,
        events: Events,
        metrics: RemedyMetrics,
        *,
        excepted: Excepted = nothing_excepted,
        held_back: HeldBackNote = not_noted,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`observed` returns what is known of a gang. Pods that are `excepted` are never deleted."""
        self._settings = settings
        self._observed = observed
        self._writer = writer
        self._events = events
        self._metrics = metrics
        self._excepted = excepted
        self._held_back = held_back
        self._clock = clock
        # The health of each gang that may need a remedy.
        self._held: dict[GangKey, GangHealth] = {}
        self._cases: dict[GangKey, _RemedyCase] = {}
        # When gangs are due, the first first; an entry counts if its case says the same. Those that are due, by
        # namespace, first those that may get a remedy for longest; and those that had one of which it is not known
        # whether it helped.
        self._later: list[tuple[float, GangKey]] = []
        self._ready: dict[str, list[tuple[float, GangKey]]] = {}
        self._followed: dict[GangKey, None] = {}
        # When the remedies of the last minute were begun, each with its namespace, as often as it counts.
        self._begun: deque[tuple[float, str]] = deque()
        # How many gangs of this look were put off by the limit.
        self._late = 0
        # When this process last led, and from when on it begins remedies.
        self._seen_at = -inf
        self._from = 0.0

    def judged(self, key: GangKey, health: GangHealth | None) -> None:
        """Takes note of a gang's health; None if the gang is gone or cannot be judged."""
        if health is None:
            self._held.pop(key, None)
            self._cases.pop(key, None)
            return
        needs = may_need_remedy(health)
        case = self._cases.get(key)
        if case is None and needs:
            case = self._cases[key] = _RemedyCase()
        if needs:
            self._held[key] = health
        else:
            self._held.pop(key, None)
        if case is not None:
            case.health = health
            case.since = None if not needs else self._clock.monotonic() if case.since is None else case.since
            self._put_off(key, case)

    def _put_off(self, key: GangKey, case: _RemedyCase) -> None:
        """Looks at a gang when it may get a remedy; at one that needs none, when it has been well for long enough."""
        due = case.until + MAX_PAUSE_SECONDS
        if case.since is not None:
            due = max(case.until, case.since + self._settings.settle_seconds)
        if due == case.due or case.ready:
            return
        case.due = due
        heappush(self._later, (due, key))
        if len(self._later) > 2 * len(self._cases) + _OUTDATED:
            self._later = [(other.due, name) for name, other in self._cases.items()]
            heapify(self._later)

    async def see(self) -> None:
        """Tells what came of earlier remedies, and begins those that are due. After a break, another process may have
        led and begun some: then each cause must last anew.
        """
        now, turn = self._clock.monotonic(), LoopTurn(self._clock)
        if now - self._seen_at >= BREAK_SECONDS:
            self._from = now + self._settings.settle_seconds
        self._seen_at = now
        for key in list(self._followed):
            if (case := self._cases.get(key)) is not None and case.done is not None:
                await self._unbroken(key, case, self._follow(key, case, case.done, now), now)
                await turn.pause()
            if case is None or case.done is None:
                del self._followed[key]
            if case is not None and case.done is None:
                self._put_off(key, case)
        if now < self._from:
            return
        self._take_due(now)
        while self._begun and now - self._begun[0][0] >= _MINUTE:
            self._begun.popleft()
        self._late = 0
        had = Counter(namespace for _, namespace in self._begun)
        left = GANGS_A_LOOK
        while left > 0 and (gang := self._next(had)) is not None:
            if (case := self._cases.get(gang)) is not None and case.ready:
                left -= 1
                case.ready = False
                await self._unbroken(gang, case, self._try(gang, case, now), now)
                self._put_off(gang, case)
                await turn.pause()
        self._metrics.waiting.set(self._late)

    def _next(self, had: Counter[str]) -> GangKey | None:
        """Returns the next gang that is due, of a namespace that had fewest remedies and looks."""
        if not self._ready:
            return None
        namespace = min(self._ready, key=lambda name: (had[name], self._ready[name][0]))
        had[namespace] += 1
        _, key = heappop(self._ready[namespace])
        if not self._ready[namespace]:
            del self._ready[namespace]
        return key

    def _take_due(self, now: float) -> None:
        """Puts the gangs that are due in turn."""
        while self._later and self._later[0][0] <= now:
            due, key = heappop(self._later)
            case = self._cases.get(key)
            if case is None or case.due != due:
                continue
            case.due = inf
            if case.done is not None:
                continue
            if case.since is not None:
                case.ready = True
                heappush(self._ready.setdefault(key.namespace, []), (case.until, key))
            else:
                # It was well for long enough: the next pause is a first one again.
                del self._cases[key]

    async def _unbroken(self, key: GangKey, case: _RemedyCase, work: Coroutine[Any, Any, None], now: float) -> None:
        try:
            await work
        except Exception:  # noqa: BLE001 - a fault of ours with one gang must keep no other from its remedy
            log.exception("remedy failed", namespace=key.namespace, name=key.name)
            case.done, case.until = None, now + MAX_PAUSE_SECONDS

    async def _try(self, key: GangKey, case: _RemedyCase, now: float) -> None:
        remedy, podgang = self._remedy(key, case, self._settings.causes)
        if remedy is None or podgang is None:
            case.until = now + LOOK_AGAIN_SECONDS
        elif (left := self._settings.per_minute - len(self._begun)) > 0:
            await self._begin(case, remedy.limit_weight(left), podgang, now)
            if case.done is not None:
                self._followed[key] = None
        else:
            self._late += 1
            self._held_back(key.namespace)

    def _remedy(self, key: GangKey, case: _RemedyCase, causes: Collection[str]) -> tuple[Remedy | None, PodGang | None]:
        """Returns the remedy that a gang needs now for one of these causes, and the gang."""
        health = self._held.get(key)
        try:
            seen = self._observed(key)
            if seen is None:
                return None, None
            remedy = None if health is None else needed_remedy(health, seen, case.woken, self._excepted, causes)
        except (Malformed, FactsUnavailable):
            return None, None
        return remedy, seen.podgang

    async def _begin(self, case: _RemedyCase, remedy: Remedy, podgang: PodGang, now: float) -> None:
        self._begun.extend([(now, podgang.namespace)] * remedy.weight)
        await self._events.say(podgang, RemedyReason.BEGUN, f"{remedy.problem}; remedy: {remedy.act}")
        done = await self._carry_out(remedy, podgang)
        if done:
            case.done, case.done_at = remedy, now
        if not done or not remedy.later:
            self._pause(case, now)
        else:
            # The rest of its pods comes after the gangs that are due now.
            case.until = now

    async def _carry_out(self, remedy: Remedy, podgang: PodGang) -> bool:
        try:
            return await carry_out(remedy, self._writer, self._clock.now().isoformat(timespec="microseconds"))
        except (RequestFailed, NotLeading) as error:
            log.info("remedy failed", namespace=podgang.namespace, name=podgang.name, why=outline(error))
            self._metrics.done.labels(remedy.cause.value, RemedyOutcome.FAILED.value).inc()
            await self._events.say(podgang, RemedyReason.FAILED, f"the remedy failed: {error}")
            return False

    def _pause(self, case: _RemedyCase, now: float) -> None:
        case.times += 1
        case.until = now + doubled((self._settings.pause_seconds, MAX_PAUSE_SECONDS), case.times)

    async def _follow(self, key: GangKey, case: _RemedyCase, done: Remedy, now: float) -> None:
        """Tells what came of the remedy `done`, once that is known."""
        still, podgang = self._remedy(key, case, {done.cause})
        outcome = self._outcome(case, done, still, now)
        if outcome is None:
            return
        case.done = None
        case.woken = case.woken + 1 if outcome is RemedyOutcome.NOT_HELPED and done.act is Act.WAKE else 0
        self._metrics.done.labels(done.cause.value, outcome.value).inc()
        if outcome is RemedyOutcome.NOT_HELPED and done.later:
            self._pause(case, now)
        if podgang is None:
            return
        if outcome is RemedyOutcome.NOT_HELPED:
            note = f"Rollcall {done.done}. That did not help: {done.problem}"
            await self._events.say(podgang, RemedyReason.FAILED, note)
            return
        health = None if outcome is RemedyOutcome.HELPED else case.health
        why = "" if health is None else f" to find out what it lacks: {health.why}"
        await self._events.say(podgang, RemedyReason.HELPED, f"Rollcall {done.done}. That helped{why}")

    def _outcome(self, case: _RemedyCase, done: Remedy, still: Remedy | None, now: float) -> RemedyOutcome | None:
        """Returns what came of a remedy; None while that is not known."""
        if done.cause is not RemedyCause.FORGOTTEN:
            # The pods that were left for later need another remedy, and no others do.
            late = {pod.uid for pod in done.later}
            gone = still is None or (bool(late) and {pod.uid for pod in still.pods} <= late)
        else:
            gone = case.health is not None and case.health.state is GangState.STARTED
        if gone:
            return RemedyOutcome.HELPED
        if now - case.done_at < HELPED_SECONDS:
            return None
        return RemedyOutcome.EXPLAINED if still is None else RemedyOutcome.NOT_HELPED


# A pod may be seen before the record or configuration that it was prepared from. After this time it counts as escaped.
SETTLE_SECONDS = 15.0
# Pause between two deletions in one gang: doubled each time, up to the second value.
PAUSE_SECONDS = (30.0, 1800.0)
# Pods that are deleted at one look: gangs are judged between two looks, and each pod takes two requests.
DELETIONS_A_LOOK = 20


@dataclass(slots=True)
class _DeletionCase:
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
        metrics: ReconcilerMetrics,
        excepted: Callable[[GangPod], bool] = lambda _: False,
        *,
        held_back: HeldBackNote = not_noted,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._deleted = deleted
        self._writer = writer
        self._metrics = metrics
        self._excepted = excepted
        self._held_back = held_back
        self._clock = clock
        # The gangs that have such pods, or had them: what is left of thousands that a tenant may have forged.
        self._cases: dict[GangKey, _DeletionCase] = {}
        # When gangs are due, the first first; an entry counts if its case says the same. And those that are due.
        self._later: list[tuple[float, GangKey]] = []
        self._turns: Turns[GangKey] = Turns()

    def judged(self, key: GangKey, health: GangHealth | None) -> None:
        """Takes note of a gang's health; None if the gang is gone or cannot be judged."""
        if health is None:
            self._cases.pop(key, None)
            return
        every = health.escaped if key.kind == POD_GANG else ()
        unbound = (escaped for escaped in every if escaped.pod.node is None)
        deletable = tuple(escaped for escaped in unbound if escaped.escape.value in self._deleted)
        case = self._cases.get(key)
        if case is None:
            if not deletable:
                return
            case = self._cases[key] = _DeletionCase()
        now = self._clock.monotonic()
        case.escaped = deletable
        case.since = {escaped.pod.uid: case.since.get(escaped.pod.uid, now) for escaped in deletable}
        self._put_off(key, case)

    def _put_off(self, key: GangKey, case: _DeletionCase, until: float = 0.0) -> None:
        """Looks at a gang when the first of its pods may be deleted, and not before `until`."""
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
        """Deletes escaped pods that are due, some at a time."""
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

    async def _delete(self, key: GangKey, case: _DeletionCase, most: int, now: float) -> int:
        """Deletes pods of a gang, so many at most. Returns how many were tried, and at least one."""
        if not case.left:
            settled = (escaped for escaped in case.escaped if now - case.since[escaped.pod.uid] >= SETTLE_SECONDS)
            case.left.extend(escaped for escaped in settled if not self._excepted(escaped.pod))
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

"""Why a gang does not start (no I/O): takes what is known of a gang, returns its state and hold reasons.

Schedulers hold a gang silently: koord-scheduler writes no event for a missing member, and conditions of Volcano and KAI
stay after their reasons are gone. So the gang is judged by its pods. What it waits for is derived from its objects, its
pods' gates, the rules that would refuse its workload today, and last from the scheduler's message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from webhook.config.settings import Profile
from webhook.fit.verdict import Witness
from webhook.gangs.anchors import Wait, anchors_of, wait_of
from webhook.gangs.escapes import Escaped, Escapes, not_its_own
from webhook.gangs.fit_reasons import NOTHING_ABOUT_ROOM, has_room_for_rest, room_reasons, waiting_gang
from webhook.gangs.hold_reasons import ITS_TURN, HoldReason, Reason, ordered
from webhook.gangs.key import POD_GANG, GangKey, key_of_gang
from webhook.gangs.kueue.hold import KueueHold, KueueSight, QueuedAs, kueue_hold
from webhook.gangs.losses import LostMembers
from webhook.gangs.object_reasons import object_reasons, removed_record
from webhook.gangs.observed import Observed
from webhook.gangs.plan import SkipReason, decided, is_groves, recorded
from webhook.gangs.pod import GangPod
from webhook.gangs.pod_reasons import (
    Tally,
    astray,
    gated,
    migration,
    tallies,
    too_few,
    unowned,
    unscheduled,
    waiting_for_resync,
)
from webhook.gangs.rule_reasons import rule_reasons
from webhook.gangs.waiting_gang import Waiting
from webhook.gangs.writers import Writer, writer_of
from webhook.model import grove
from webhook.model.disruption import Disruption
from webhook.model.gang_object import group_conditions
from webhook.model.keys import ObjectKey, Record
from webhook.model.kueue import keys
from webhook.model.reading import Malformed, mapping
from webhook.model.workloads.gang import OptedInGang, no_gang
from webhook.model.workloads.place import label_value
from webhook.model.workloads.podgang import PodGang

# Of a gang with so many pods it is kept how each escaped: each takes some tens of microseconds.
_MANY_PODS = 100


class State(StrEnum):
    """The state of a gang; a metric's label if there is no more exact reason."""

    STARTED = "started"
    # Fewer of its pods are on nodes than it starts with.
    IN_PART = "inPart"
    HELD = "held"
    LEAVING = "leaving"
    # PodGangs only: without pods, PodCliques and gang objects. Nothing waits for it.
    EMPTY = "empty"
    # Kueue has not admitted it.
    QUEUED = "queued"
    # Opted-in workloads only: suspended, run in another cluster, finished, or to start after another part of the same
    # workload.
    SUSPENDED = "suspended"
    ELSEWHERE = "elsewhere"
    ENDED = "ended"
    LATER = "later"


class MemberHealth(NamedTuple):
    """One member of a gang: how many pods exist (`present`), are on nodes (`bound`) and are needed to start
    (`minimum`).
    """

    name: str
    minimum: int
    present: int
    bound: int


@dataclass(frozen=True, slots=True)
class GangHealth:
    """The health of a gang.

    `obstacles` say why it does not start, the most urgent first. `escaped` are its pods that lack what preparation
    writes. `kind` and `workload` are set for an opted-in workload.
    """

    namespace: str
    name: str
    scheduler: str | None
    state: State
    created: str
    members: tuple[MemberHealth, ...] = ()
    obstacles: tuple[HoldReason, ...] = ()
    escaped: tuple[Escaped, ...] = ()
    kind: str = "PodGang"
    workload: str = ""
    # As its objects state it. None if it has no objects yet, or if its scheduler has no such mode.
    disruption_mode: Disruption | None = None
    # Who writes its objects.
    writer: Writer = Writer.NONE
    # The PodGang that it waits for.
    anchor: str | None = None
    # Its Workload of Kueue, which may not exist yet, and its place in Kueue's queues.
    kueue_workload: ObjectKey | None = None
    queued: QueuedAs | None = None
    # When Kueue takes it back unless it runs; empty if Kueue does not.
    deadline: str = ""
    # The proof that it can never start.
    never: Witness | None = None
    # The pods that it lost since it had started.
    lost: LostMembers | None = None
    # Whether there is room for it now, by an estimate; None without one.
    has_room: bool | None = None
    # How many unowned pods there are besides those in `escaped`.
    further: int = 0
    # How many pods Grove's gate holds that its PodGang does not name.
    unnamed: int = 0

    def with_loss(self, lost: LostMembers) -> GangHealth:
        """The health of a gang that had started and lost pods. If none of its pods is on a node, it holds nothing, and
        other reasons are more urgent.
        """
        reasons = (lost.reason, *self.obstacles) if lost.bound else (*self.obstacles, lost.reason)
        return replace(self, lost=lost, obstacles=reasons)

    @property
    def key(self) -> GangKey:
        """The key of the gang."""
        name = self.name if self.kind == POD_GANG else label_value(self.name)
        return GangKey(self.namespace, name, self.kind, self.workload)

    @property
    def word(self) -> str:
        """The first reason; the state if there is none, if it only waits for its turn, or if it is empty."""
        return self.obstacles[0].reason.value if self.in_trouble else self.state.value

    @property
    def why(self) -> str:
        """The first reason in words, with the time that Kueue leaves; empty if there is none."""
        found = self.obstacles[0].why if self.obstacles else ""
        return f"{found}; {self.deadline}" if found and self.deadline else found

    @property
    def in_trouble(self) -> bool:
        """Whether it has a hold reason, is not empty, and does not only wait for its turn in Kueue's queue."""
        if self.state is State.EMPTY:
            return False
        if self.state is State.QUEUED:
            return any(one.reason not in ITS_TURN for one in self.obstacles)
        return bool(self.obstacles)

    @property
    def may_have_strangers(self) -> bool:
        """Whether other pods that name its groups may have the place of its own, which wait."""
        return self.state is State.IN_PART or (self.state is State.HELD and self.present > 0)

    @property
    def bound(self) -> int:
        """How many of its pods are on nodes."""
        return sum(member.bound for member in self.members)

    @property
    def minimum(self) -> int:
        """How many pods it needs to start."""
        return sum(member.minimum for member in self.members)

    @property
    def present(self) -> int:
        """How many pods it has."""
        return sum(member.present for member in self.members)

    def as_json(self) -> dict[str, Any]:
        """The health as plain JSON values."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "kind": self.kind,
            **({"workload": self.workload} if self.workload else {}),
            "scheduler": self.scheduler,
            "writer": self.writer.value,
            "disruptionMode": self.disruption_mode,
            "state": self.state.value,
            "createdAt": self.created,
            "members": [member._asdict() for member in self.members],
            **({"kueue": self.queued.as_json()} if self.queued is not None else {}),
            **({"deadline": self.deadline} if self.deadline else {}),
            **({} if self.never is None else {"neverFits": _proof(self.never)}),
            **({} if self.lost is None else {"lost": self.lost.as_json()}),
            "reasons": [{"reason": one.reason.value, "why": one.why, "remedy": one.remedy} for one in self.obstacles],
            "escaped": [
                {"pod": one.pod.name, "escape": one.escape.value, "fields": list(one.fields)} for one in self.escaped
            ],
            **({"furtherUnowned": self.further} if self.further else {}),
        }


def judge(seen: Observed) -> GangHealth:
    """The health of a gang. Raises `Malformed` for a PodGang that cannot be read."""
    podgang = seen.podgang
    record = recorded(podgang, seen.facts)
    profile = None if record is None else seen.settings.profiles.get(record.scheduler or "")
    counted = tallies(podgang, seen.roster.members)
    strays = _strays(seen, profile, record)
    state = _state(seen, counted)
    obstacles = list(_though_it_waits_for_nothing(seen, state, record))
    wait: Wait | None = None
    kueue, room = KueueHold(), NOTHING_ABOUT_ROOM
    if state in {State.HELD, State.IN_PART, State.SUSPENDED}:
        sight = KueueSight(seen.facts, seen.settings.kueue, seen.places, seen.now)
        kueue = kueue_hold(podgang, seen.roster.members, _scheduler_of(seen.roster.members, profile), sight)
    if state is State.SUSPENDED and kueue.why is not None:
        state, obstacles = State.QUEUED, kueue.reasons
    if state in {State.HELD, State.IN_PART}:
        wait = _wait(seen, counted)
        found = list(_before_its_scheduler(seen, counted, profile))
        obstacles += [one for one in found if one.reason is not Reason.TOPOLOGY_LEFT_OUT]
        obstacles += gated(counted, None if wait is None else wait.reason, kueue.why)
        obstacles += astray(strays, podgang)
        waiting = _waiting(seen, counted, profile, record) if state is State.HELD and _only_room(obstacles) else None
        if not obstacles:
            scheduler = _scheduler_of(seen.roster.members, profile)
            obstacles += unscheduled(
                counted,
                scheduler,
                "" if profile is None else profile.backend.when_held,
                list(group_conditions(seen.own)),
            )
        if waiting is not None and seen.fits is not None:
            room = room_reasons(waiting, seen.fits, has_no_room=obstacles[0].reason is Reason.NO_ROOM)
            obstacles = [*room.reasons, *obstacles]
        elif state is State.IN_PART and obstacles[0].reason is Reason.NO_ROOM:
            room = room._replace(has_room=_has_room_for_rest(seen, counted, profile, record))
        if state is State.HELD and _is_queued(obstacles, counted):
            state = State.QUEUED
        else:
            # The gang starts without it, so it must not hide another reason.
            obstacles += [one for one in found if one.reason is Reason.TOPOLOGY_LEFT_OUT]
        obstacles += [] if kueue.loop is None else [kueue.loop]
        if state is State.IN_PART:
            obstacles.append(_in_part(counted))
        if seen.workload is not None:
            obstacles += migration(seen.workload)
        # Last: any user who may create pods can cause this reason, so it must not hide another one.
        obstacles += unowned(seen.roster, podgang)
    return GangHealth(
        podgang.namespace,
        podgang.name,
        None if record is None else record.scheduler,
        state,
        str(mapping(podgang.raw.get("metadata")).get("creationTimestamp") or ""),
        tuple(MemberHealth(one.member.name, one.member.min_replicas, len(one.pods), one.bound) for one in counted),
        ordered(obstacles),
        (*strays, *not_its_own((*seen.roster.unowned, *seen.roster.strangers))),
        *((podgang.owner.kind, podgang.owner.name) if isinstance(podgang, OptedInGang) else ("PodGang", "")),
        _disruption_mode(seen, profile),
        writer_of(podgang, seen.facts, seen.settings),
        None if wait is None else wait.anchor,
        None if kueue.gang is None else kueue.gang.key,
        kueue.queued,
        kueue.deadline,
        room.never,
        has_room=room.has_room,
        further=seen.roster.further,
        unnamed=len(seen.roster.unnamed_with_gate),
    )


def _though_it_waits_for_nothing(seen: Observed, state: State, record: Record | None) -> Iterator[HoldReason]:
    """What is wrong with a gang that is empty, or has started."""
    if state is State.EMPTY:
        yield from object_reasons(seen)
    is_unrecorded = record is not None and record.scheduler is None and not is_groves(seen.podgang)
    if state is State.STARTED and is_unrecorded and (removed := removed_record(seen)) is not None:
        # It runs on, and the pods that replace others are no gang.
        yield removed
    if state is State.STARTED and not isinstance(seen.podgang, OptedInGang):
        yield from waiting_for_resync(seen.podgang, seen.roster)


def _before_its_scheduler(seen: Observed, counted: Sequence[Tally], profile: Profile | None) -> Iterator[HoldReason]:
    """What a gang lacks of what its scheduler needs: objects, what the rules ask for, and pods."""
    yield from object_reasons(seen)
    if not _is_hindered(seen.podgang):
        # For a hindered gang the hindrance is the whole reason.
        if profile is not None:
            yield from rule_reasons(
                seen.podgang, seen.workload, profile, seen.facts, seen.settings, seen.now, seen.outcomes
            )
        yield from too_few(seen.podgang, counted, seen.roster.unnamed)


def _only_room(obstacles: Sequence[HoldReason]) -> bool:
    """Whether a gang may wait for room alone. A quota may also be why pods are missing."""
    return all(one.reason is Reason.TOO_FEW_PODS for one in obstacles)


def _waiting(
    seen: Observed, counted: Sequence[Tally], profile: Profile | None, record: Record | None
) -> Waiting | None:
    """The gang as it waits for room; None if that is not judged."""
    if seen.fits is None or profile is None or record is None:
        return None
    return waiting_gang(seen.podgang, seen.workload, seen.roster, counted, profile, record, seen.own)


def _has_room_for_rest(
    seen: Observed, counted: Sequence[Tally], profile: Profile | None, record: Record | None
) -> bool | None:
    """Whether a gang in part has room for the rest; None without an estimate."""
    if seen.fits is None or profile is None or record is None:
        return None
    try:
        return has_room_for_rest(seen.podgang, seen.workload, counted, profile, record, seen.fits)
    except Malformed:
        return None


def _is_queued(obstacles: Sequence[HoldReason], counted: Sequence[Tally]) -> bool:
    """Whether Kueue alone keeps every pod of a gang from its scheduler."""
    pods = [pod for tally in counted for pod in tally.pods]
    return all(one.is_kueues for one in obstacles) and all(keys.ADMISSION_GATE in pod.gates for pod in pods)


def _wait(seen: Observed, counted: Sequence[Tally]) -> Wait | None:
    """The anchor that the gang waits for: Grove's gate is on its pods until the anchor has started."""
    pods = [pod for tally in counted for pod in tally.pods]
    if not any(grove.GATE in pod.gates for pod in pods):
        return None
    return wait_of(seen.podgang, anchors_of(seen.podgang, pods, seen.facts), seen.anchors)


def _state(seen: Observed, counted: Sequence[Tally]) -> State:
    podgang = seen.podgang
    if seen.empty and decided(podgang, seen.facts, seen.settings, empty=True) is SkipReason.EMPTY:
        return State.EMPTY
    if mapping(podgang.raw.get("metadata")).get("deletionTimestamp") is not None:
        return State.LEAVING
    if isinstance(podgang, OptedInGang) and (other := _of_its_workload(podgang, counted)) is not None:
        return other
    if all(tally.started for tally in counted):
        return State.STARTED
    return State.IN_PART if any(tally.bound for tally in counted) else State.HELD


def _of_its_workload(gang: OptedInGang, counted: Sequence[Tally]) -> State | None:
    """The state that the workload alone determines, regardless of its pods; None if it determines none."""
    workload = gang.workload
    if workload.finished:
        return State.ENDED
    if workload.managed_elsewhere is not None:
        return State.ELSEWHERE
    if workload.suspended:
        return State.SUSPENDED
    waits = (part.after for part in workload.parts if gang.name == f"{workload.name}-{part.name}")
    return State.LATER if any(waits) and not any(tally.pods for tally in counted) else None


def _is_hindered(podgang: PodGang) -> bool:
    """Whether Rollcall makes no gang of the workload and leaves its pods alone."""
    return isinstance(podgang, OptedInGang) and no_gang(podgang.workload) is not None


def _strays(seen: Observed, profile: Profile | None, record: Record | None) -> tuple[Escaped, ...]:
    if profile is None or record is None or _is_hindered(seen.podgang) or is_groves(seen.podgang):
        # Pods of a workload without a record are not prepared, so they lack nothing. Grove prepares its own.
        return ()
    key = key_of_gang(seen.podgang)
    before = None if seen.escapes is None else seen.escapes.get(key)
    now = Escapes(seen.podgang, profile, record, seen.facts, before)
    escaped = now.among(pod for pod in seen.roster.members if pod.counts)
    if seen.escapes is not None and len(seen.roster.members) >= _MANY_PODS:
        seen.escapes.put(key.namespace, key, now)
    return escaped


def _scheduler_of(pods: Sequence[GangPod], profile: Profile | None) -> str:
    if profile is not None:
        return profile.name
    return next((str(name) for pod in pods if (name := pod.spec.get("schedulerName"))), "its scheduler")


def _in_part(counted: Sequence[Tally]) -> HoldReason:
    short = [tally for tally in counted if not tally.started]
    parts = ", ".join(f"{tally.member.name} has {tally.bound} of {tally.member.min_replicas}" for tally in short)
    why = f"a part of the gang is on nodes and the rest is not: {parts}"
    return HoldReason(
        Reason.IN_PART, why, "see below what the rest waits for; until then the running part wastes its nodes"
    )


def _proof(never: Witness) -> dict[str, Any]:
    """The proof that a gang can never start, as plain JSON values."""
    return {
        "family": str(never.family),
        "scope": str(never.scope),
        "why": never.why,
        "remedy": never.remedy,
        "domain": never.domain,
        "short": [one._asdict() for one in never.shortfalls],
    }


def _disruption_mode(seen: Observed, profile: Profile | None) -> Disruption | None:
    try:
        return None if profile is None else profile.backend.disruption_mode(seen.own)
    except Malformed:
        return None

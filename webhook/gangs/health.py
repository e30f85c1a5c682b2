"""The health of a gang: its state, and why it does not start (no I/O).

Schedulers hold a gang silently: koord-scheduler writes no event for a missing member, and conditions of Volcano and
KAI stay after their reasons are gone. So the gang is judged by its pods. What it waits for is derived from its
objects, each compared with what it should be, then its pods' gates, the rules that would refuse its workload today,
and last the scheduler's message. `Observed` is what is known of a gang when it is judged. `AnchoredHealth` judges it
together with its anchors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from webhook.config.settings import Profile, Settings
from webhook.errors import FactsUnavailable, Inexpressible
from webhook.fit.verdict import Witness
from webhook.gangs import object_plan, pod_reasons
from webhook.gangs.escapes import Escaped, Escapes, unowned_escapes
from webhook.gangs.hold_reasons import ITS_TURN, GangReason, HoldReason, ordered
from webhook.gangs.key import POD_GANG, GangKey, Grouping, key_of_gang
from webhook.gangs.kueue_hold import KueueHold, KueueSight, QueuedAs, kueue_hold
from webhook.gangs.kueue_queue import QueuePlaces
from webhook.gangs.losses import LostMembers
from webhook.gangs.members import GangPod, Roster
from webhook.gangs.waiting_gang import (
    NOTHING_ABOUT_ROOM,
    RoomJudge,
    RoomReasons,
    WaitingGang,
    has_room_for_rest,
    room_reasons,
    waiting_gang,
)
from webhook.model import grove
from webhook.model import kueue as kueue_module
from webhook.model.bounds import FairMemory
from webhook.model.capabilities import Disruption
from webhook.model.facts import ClusterFacts
from webhook.model.gang_objects import Stage, group_conditions
from webhook.model.grove import PodGang
from webhook.model.keys import ObjectKey, Record
from webhook.model.place import label_value
from webhook.model.reading import Malformed, Manifest, mapping
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.mutators.prepare_pod import stamped_scheduler
from webhook.workloads.opted_in_gang import OptedInGang, no_gang, template_record
from webhook.workloads.pod_clique_set import PodCliqueSet

# Returns the live object for a wanted one, or None. Raises `FactsUnavailable` if that kind is not read.
Live = Callable[[Manifest], Manifest | None]


class Observed(NamedTuple):
    """What is known of one gang.

    `workload` is None if the whole PodCliqueSet is not known; its rules are not checked then. The gang of an opted-in
    workload holds its workload itself. `anchors` judges the PodGangs that Grove starts before it; None if they are not
    judged. `places` and `now` are for a gang that Kueue may hold: the order of its queues, and the time. `fits` judges
    whether the gang can ever start; None if that is not judged. `outcomes` has what the rules say of `workload` as far
    as that was worked out, and `escapes` how the pods of large gangs escaped when these were last judged; None if that
    is not kept. `empty` as by `PodGangs.is_empty`.
    """

    podgang: PodGang
    roster: Roster
    live: Live
    # The gang's objects that Rollcall made, including those it no longer needs.
    gang_objects: Sequence[Manifest]
    workload: PodCliqueSet | None
    facts: ClusterFacts
    settings: Settings
    anchors: pod_reasons.Anchors | None = None
    places: QueuePlaces = QueuePlaces()
    now: datetime = datetime.max.replace(tzinfo=UTC)
    fits: RoomJudge | None = None
    outcomes: pod_reasons.Outcomes | None = None
    escapes: FairMemory[GangKey, Escapes] | None = None
    empty: bool = False

    def plan(self) -> object_plan.GangPlan | object_plan.SkipReason:
        """Returns the objects that the gang needs, with what its existing objects have decided if these can be read, or
        why it is skipped. Raises as `plan.plan` does.
        """
        planned = object_plan.plan(self.podgang, self.facts, self.settings, empty=self.empty)
        if isinstance(planned, object_plan.SkipReason):
            return planned
        try:
            live = [live_object for desired in planned.objects if (live_object := self.live(desired)) is not None]
            return replace(planned, objects=planned.profile.backend.settle(planned.objects, live))
        except (FactsUnavailable, Malformed):
            return planned


def object_reasons(seen: Observed) -> Iterator[HoldReason]:
    """Yields what is wrong with the objects of a gang."""
    try:
        planned = seen.plan()
    except Inexpressible as refusal:
        yield _untranslated(seen, refusal)
        return
    except FactsUnavailable as error:
        yield HoldReason(
            GangReason.OBJECT_MISSING, f"its objects cannot be made: {error}", "find out why that is missing"
        )
        return
    if planned is object_plan.SkipReason.UNRECORDED and (removed := removed_record(seen)) is not None:
        yield removed
        return
    if isinstance(planned, object_plan.SkipReason):
        if (aside := _ASIDES.get(planned)) is not None:
            kind = seen.podgang.workload_kind
            yield HoldReason(aside.reason, aside.why.format(kind=kind), aside.remedy.format(kind=kind))
        return
    faults = [fault for desired in planned.objects if (fault := _object_fault(seen, planned, desired)) is not None]
    owned = any(fault.reason is GangReason.CONFLICT for fault in faults)
    if not owned and (frozen := _frozen(seen, planned)) is not None:
        yield frozen
    yield from faults


def removed_record(seen: Observed) -> HoldReason | None:
    """Returns that a record was removed while Rollcall did not answer; None if pods and objects show none."""
    kind, pods = seen.podgang.workload_kind, (prepared_for(pod, seen.settings) for pod in seen.roster.members)
    if (scheduler := next(filter(None, pods), None)) is not None:
        sign = f"its pods are prepared for {scheduler}"
    elif (scheduler := _writing_scheduler(seen.gang_objects, seen.settings)) is not None:
        sign = f"it has gang objects of {scheduler}"
    else:
        return None
    return HoldReason(
        GangReason.UNRECORDED,
        f"the label {SCHEDULER_LABEL} of its {kind} was removed while Rollcall did not answer, although {sign}: the "
        "pods that come now are not prepared, and some may start alone",
        f"set the label {SCHEDULER_LABEL}: {scheduler} on the {kind} again"
        if _may_return(seen, scheduler)
        else f"delete the {kind} and recreate it: the label cannot be set again, because some of its pods or templates "
        "were not prepared",
    )


def _may_return(seen: Observed, scheduler: str) -> bool:
    """Returns whether admission allows to set a record again: what is there was prepared for that scheduler."""
    if isinstance(seen.podgang, OptedInGang):
        return template_record(seen.podgang.workload) == scheduler
    return all(prepared_for(pod, seen.settings) == scheduler for pod in seen.roster.members if pod.node is not None)


def prepared_for(pod: GangPod, settings: Settings) -> str | None:
    """Returns the scheduler that a pod was prepared for; None if it was not."""
    scheduler = stamped_scheduler(pod.annotations)
    return scheduler if scheduler in settings.profiles else None


def _writing_scheduler(gang_objects: Sequence[Manifest], settings: Settings) -> str | None:
    """Returns the scheduler that Rollcall wrote gang objects for, by their kinds; None without objects."""
    kinds = {(str(live["apiVersion"]).partition("/")[0], live["kind"]) for live in gang_objects}
    writers = (
        profile.name
        for profile in settings.profiles.values()
        if kinds & {api.group_kind for api in profile.backend.writable_kinds}
    )
    return next(writers, None)


def _untranslated(seen: Observed, refusal: Inexpressible) -> HoldReason:
    """Returns why no objects can be made: what its scheduler cannot express, or that its API is unknown."""
    missing = next((unjudged for unjudged in refusal.unjudged if unjudged.part == "apis" and unjudged.remedy), None)
    if missing is not None:
        return HoldReason(GangReason.API_MISSING, f"{missing.needs} are unknown", missing.remedy)
    remedy = f"change the {seen.podgang.workload_kind}, or choose another scheduler"
    return HoldReason(GangReason.INEXPRESSIBLE, str(refusal), remedy)


def _frozen(seen: Observed, planned: object_plan.GangPlan) -> HoldReason | None:
    """Returns why the scheduler would not follow a change of the PodGang at its present stage; None if it would."""
    backend = planned.profile.backend
    try:
        replaced = [seen.live(desired) for desired in planned.objects]
        pairs = zip(planned.objects, replaced, strict=True)
        adopted = [object_plan.add_digest(backend.adopt(desired, live)) for desired, live in pairs]
        frozen = backend.frozen(adopted, object_plan.include_replaced(seen.gang_objects, replaced))
    except (FactsUnavailable, Malformed):
        return None
    # The check before a write asks the cluster the same way. A pod that the PodGang does not name (yet, or any more)
    # may be on a node.
    if frozen is None or _stage([*seen.roster.members, *seen.roster.unnamed]) <= frozen.until:
        return None
    remedy = f"undo the change, or delete and recreate the {seen.podgang.workload_kind}"
    return HoldReason(GangReason.FROZEN, f"{frozen.what}: {frozen.why}", remedy)


def _stage(pods: Sequence[GangPod]) -> Stage:
    if any(pod.node is not None for pod in pods):
        return Stage.BOUND
    return Stage.WAITING if pods else Stage.EMPTY


_ASIDES = {
    object_plan.SkipReason.UNRECORDED: HoldReason(
        GangReason.UNRECORDED,
        "its {kind} predates Rollcall or was admitted without it, so its pods are not changed",
        f"set the label {SCHEDULER_LABEL} on the {{kind}} while none of its pods is on a node",
    ),
    object_plan.SkipReason.NO_PROFILE: HoldReason(
        GangReason.NO_PROFILE,
        "the scheduler recorded on its {kind} is not a profile of this configuration",
        "enable the profile again, or recreate the {kind} for another scheduler",
    ),
    object_plan.SkipReason.EMPTY: HoldReason(
        GangReason.TOO_FEW_PODS,
        "no pod names it and none of its PodCliques exists, so no gang objects are written yet",
        "read the log of Grove's operator, which creates PodCliques; delete the PodGang if nobody uses it",
    ),
}


def _object_fault(seen: Observed, planned: object_plan.GangPlan, desired: Manifest) -> HoldReason | None:
    name = f"{desired['kind']} {desired['metadata']['name']}"
    try:
        live = seen.live(desired)
    except FactsUnavailable as error:
        return HoldReason(GangReason.API_MISSING, f"{name} cannot exist: {error}", "install the scheduler's CRDs")
    if live is None:
        return HoldReason(
            GangReason.OBJECT_MISSING,
            f"{name} is missing",
            "check that rollcall reconcile is running, and read its log",
        )
    if live["metadata"].get("deletionTimestamp") is not None:
        return object_plan.leaving(live)
    if object_plan.left_behind(live, seen.podgang):
        why = f"{name} still belongs to an earlier {seen.podgang.owner.kind} of this name"
        return HoldReason(
            GangReason.OBJECT_LEAVING,
            why,
            "the garbage collector deletes it; if it stays, check that the garbage collector is running",
        )
    if (owner := object_plan.other_owner(live, seen.podgang)) is not None:
        return HoldReason(GangReason.CONFLICT, f"{name} belongs to {owner}", "delete or rename it")
    try:
        adopted = object_plan.add_digest(planned.profile.backend.adopt(desired, live))
    except Malformed as error:
        return HoldReason(GangReason.OBJECT_DIFFERS, f"{name} cannot be read: {error}", "delete it")
    if object_plan.is_in_step(adopted, live):
        return None
    why = f"{name} differs from the desired object: {object_plan.first_difference(adopted, live)}"
    return HoldReason(GangReason.OBJECT_DIFFERS, why, "check that rollcall reconcile is running, and read its log")


# Of a gang with so many pods it is kept how each escaped: each takes some tens of microseconds.
_MANY_PODS = 100


class GangState(StrEnum):
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
    """A member of a gang: how many pods it has (`present`), has on nodes (`bound`) and needs to start (`minimum`)."""

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
    state: GangState
    created: str
    members: tuple[MemberHealth, ...] = ()
    obstacles: tuple[HoldReason, ...] = ()
    escaped: tuple[Escaped, ...] = ()
    kind: str = "PodGang"
    workload: str = ""
    # As its objects state it. None if it has no objects yet, or if its scheduler has no such mode.
    disruption_mode: Disruption | None = None
    # Who writes its objects.
    writer: object_plan.GangObjectWriter = object_plan.GangObjectWriter.NONE
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

    def add_loss(self, lost: LostMembers) -> GangHealth:
        """Returns the health of a gang that had started and lost pods. If none of its pods is on a node, it holds
        nothing, and other reasons are more urgent.
        """
        reasons = (lost.reason, *self.obstacles) if lost.bound else (*self.obstacles, lost.reason)
        return replace(self, lost=lost, obstacles=reasons)

    @property
    def key(self) -> GangKey:
        name = self.name if self.kind == POD_GANG else label_value(self.name)
        return GangKey(self.namespace, name, self.kind, self.workload)

    @property
    def word(self) -> str:
        """The first reason; the state if there is none, if it only waits for its turn, or if it is empty."""
        return self.obstacles[0].reason.value if self.is_troubled else self.state.value

    @property
    def why(self) -> str:
        """The first reason in words, with the time that Kueue leaves; empty if there is none."""
        first_why = self.obstacles[0].why if self.obstacles else ""
        return f"{first_why}; {self.deadline}" if first_why and self.deadline else first_why

    @property
    def is_troubled(self) -> bool:
        """Whether it has a hold reason, is not empty, and does not only wait for its turn in Kueue's queue."""
        if self.state is GangState.EMPTY:
            return False
        if self.state is GangState.QUEUED:
            return any(obstacle.reason not in ITS_TURN for obstacle in self.obstacles)
        return bool(self.obstacles)

    @property
    def may_have_strangers(self) -> bool:
        """Whether other pods that name its groups may have the place of its own, which wait."""
        return self.state is GangState.IN_PART or (self.state is GangState.HELD and self.present > 0)

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
        """Returns the health as plain JSON values."""
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
            "reasons": [
                {"reason": obstacle.reason.value, "why": obstacle.why, "remedy": obstacle.remedy}
                for obstacle in self.obstacles
            ],
            "escaped": [
                {"pod": escaped.pod.name, "escape": escaped.escape.value, "fields": list(escaped.fields)}
                for escaped in self.escaped
            ],
            **({"furtherUnowned": self.further} if self.further else {}),
        }


class _CountedGang(NamedTuple):
    """A gang with its pods counted by member, and what makes its objects."""

    seen: Observed
    tallies: Sequence[pod_reasons.MemberTally]
    profile: Profile | None
    record: Record | None


class _Judgement(NamedTuple):
    """What keeps a gang from its nodes."""

    state: GangState
    obstacles: list[HoldReason]
    wait: pod_reasons.Wait | None = None
    room: RoomReasons = NOTHING_ABOUT_ROOM


def judge(seen: Observed) -> GangHealth:
    """Returns the health of a gang. Raises `Malformed` for a PodGang that cannot be read."""
    podgang, members = seen.podgang, seen.roster.members
    record = object_plan.recorded(podgang, seen.facts)
    profile = None if record is None else seen.settings.profiles.get(record.scheduler or "")
    gang = _CountedGang(seen, pod_reasons.tallies(podgang, members), profile, record)
    strays = _strays(seen, profile, record)
    state = _state(seen, gang.tallies)
    judgement = _Judgement(state, list(_settled_faults(seen, state, record)))
    kueue = KueueHold()
    if state in {GangState.HELD, GangState.IN_PART, GangState.SUSPENDED}:
        sight = KueueSight(seen.facts, seen.settings.kueue, seen.places, seen.now)
        kueue = kueue_hold(podgang, members, _scheduler_of(members, profile), sight)
    if state in {GangState.HELD, GangState.IN_PART}:
        judgement = _judge_waiting(gang, state, strays, kueue)
    elif state is GangState.SUSPENDED and kueue.why is not None:
        judgement = _Judgement(GangState.QUEUED, kueue.reasons)
    return GangHealth(
        podgang.namespace,
        podgang.name,
        None if record is None else record.scheduler,
        judgement.state,
        str(mapping(podgang.raw.get("metadata")).get("creationTimestamp") or ""),
        tuple(
            MemberHealth(tally.member.name, tally.member.min_replicas, len(tally.pods), tally.bound)
            for tally in gang.tallies
        ),
        ordered(judgement.obstacles),
        (*strays, *unowned_escapes((*seen.roster.unowned, *seen.roster.strangers))),
        *((podgang.owner.kind, podgang.owner.name) if isinstance(podgang, OptedInGang) else ("PodGang", "")),
        _disruption_mode(seen, profile),
        object_plan.writer_of(podgang, seen.facts, seen.settings),
        None if judgement.wait is None else judgement.wait.anchor,
        None if kueue.gang is None else kueue.gang.key,
        kueue.queued,
        kueue.deadline,
        judgement.room.never,
        has_room=judgement.room.has_room,
        further=seen.roster.further,
        unnamed=len(seen.roster.unnamed_with_gate),
    )


def _judge_waiting(gang: _CountedGang, state: GangState, strays: Sequence[Escaped], kueue: KueueHold) -> _Judgement:
    """Returns what a gang waits for whose pods are not all on nodes."""
    seen, counted, profile = gang.seen, gang.tallies, gang.profile
    podgang, room = seen.podgang, NOTHING_ABOUT_ROOM
    wait = _wait(seen, counted)
    lacks = list(_missing_for_scheduler(gang))
    obstacles = [lack for lack in lacks if lack.reason is not GangReason.TOPOLOGY_LEFT_OUT]
    obstacles += pod_reasons.gated(counted, None if wait is None else wait.reason, kueue.why)
    obstacles += pod_reasons.astray(strays, podgang)
    # A quota may also be why pods are missing.
    only_room = all(obstacle.reason is GangReason.TOO_FEW_PODS for obstacle in obstacles)
    waiting = _waiting(gang) if state is GangState.HELD and only_room else None
    if not obstacles:
        scheduler = _scheduler_of(seen.roster.members, profile)
        advice = "" if profile is None else profile.backend.when_held
        obstacles += pod_reasons.unscheduled(counted, scheduler, advice, list(group_conditions(seen.gang_objects)))
    if waiting is not None and seen.fits is not None:
        room = room_reasons(waiting, seen.fits, has_no_room=obstacles[0].reason is GangReason.NO_ROOM)
        obstacles = [*room.reasons, *obstacles]
    elif state is GangState.IN_PART and obstacles[0].reason is GangReason.NO_ROOM:
        room = room._replace(has_room=_has_room_for_rest(gang))
    if state is GangState.HELD and _is_queued(obstacles, counted):
        state = GangState.QUEUED
    else:
        # The gang starts without it, so it must not hide another reason.
        obstacles += [lack for lack in lacks if lack.reason is GangReason.TOPOLOGY_LEFT_OUT]
    obstacles += [] if kueue.loop is None else [kueue.loop]
    if state is GangState.IN_PART:
        obstacles.append(_partial_start(counted))
    if seen.workload is not None:
        obstacles += pod_reasons.migration(seen.workload)
    # Last: any user who may create pods can cause this reason, so it must not hide another one.
    obstacles += pod_reasons.unowned(seen.roster, podgang)
    return _Judgement(state, obstacles, wait, room)


def _settled_faults(seen: Observed, state: GangState, record: Record | None) -> Iterator[HoldReason]:
    """Yields what is wrong with a gang that is empty, or has started."""
    if state is GangState.EMPTY:
        yield from object_reasons(seen)
    is_unrecorded = record is not None and record.scheduler is None and not object_plan.is_groves(seen.podgang)
    if state is GangState.STARTED and is_unrecorded and (removed := removed_record(seen)) is not None:
        # It runs on, and the pods that replace others are no gang.
        yield removed
    if state is GangState.STARTED and not isinstance(seen.podgang, OptedInGang):
        yield from pod_reasons.waiting_for_resync(seen.podgang, seen.roster)


def _missing_for_scheduler(gang: _CountedGang) -> Iterator[HoldReason]:
    """Yields what a gang lacks of what its scheduler needs: objects, what the rules ask for, and pods."""
    seen = gang.seen
    yield from object_reasons(seen)
    if not _is_hindered(seen.podgang):
        # For a hindered gang the hindrance is the whole reason.
        if gang.profile is not None:
            yield from pod_reasons.rule_reasons(
                seen.podgang, seen.workload, gang.profile, seen.facts, seen.settings, seen.now, seen.outcomes
            )
        yield from pod_reasons.too_few(seen.podgang, gang.tallies, seen.roster.unnamed)


def _waiting(gang: _CountedGang) -> WaitingGang | None:
    """Returns the gang as it waits for room; None if that is not judged."""
    seen, profile, record = gang.seen, gang.profile, gang.record
    if seen.fits is None or profile is None or record is None:
        return None
    return waiting_gang(seen.podgang, seen.workload, seen.roster, gang.tallies, profile, record, seen.gang_objects)


def _has_room_for_rest(gang: _CountedGang) -> bool | None:
    """Returns whether a gang in part has room for the rest; None without an estimate."""
    seen, profile, record = gang.seen, gang.profile, gang.record
    if seen.fits is None or profile is None or record is None:
        return None
    try:
        return has_room_for_rest(seen.podgang, seen.workload, gang.tallies, profile, record, seen.fits)
    except Malformed:
        return None


def _is_queued(obstacles: Sequence[HoldReason], counted: Sequence[pod_reasons.MemberTally]) -> bool:
    """Returns whether Kueue alone keeps every pod of a gang from its scheduler."""
    pods = [pod for tally in counted for pod in tally.pods]
    gated_by_kueue = all(kueue_module.ADMISSION_GATE in pod.gates for pod in pods)
    return gated_by_kueue and all(obstacle.is_kueues for obstacle in obstacles)


def _wait(seen: Observed, counted: Sequence[pod_reasons.MemberTally]) -> pod_reasons.Wait | None:
    """Returns the anchor that the gang waits for: Grove's gate is on its pods until the anchor has started."""
    pods = [pod for tally in counted for pod in tally.pods]
    if not any(grove.GATE in pod.gates for pod in pods):
        return None
    return pod_reasons.wait_of(seen.podgang, pod_reasons.anchors_of(seen.podgang, pods, seen.facts), seen.anchors)


def _state(seen: Observed, counted: Sequence[pod_reasons.MemberTally]) -> GangState:
    podgang = seen.podgang
    if (
        seen.empty
        and object_plan.decided(podgang, seen.facts, seen.settings, empty=True) is object_plan.SkipReason.EMPTY
    ):
        return GangState.EMPTY
    if mapping(podgang.raw.get("metadata")).get("deletionTimestamp") is not None:
        return GangState.LEAVING
    if isinstance(podgang, OptedInGang) and (other := _workload_state(podgang, counted)) is not None:
        return other
    if all(tally.started for tally in counted):
        return GangState.STARTED
    return GangState.IN_PART if any(tally.bound for tally in counted) else GangState.HELD


def _workload_state(gang: OptedInGang, counted: Sequence[pod_reasons.MemberTally]) -> GangState | None:
    """Returns the state that the workload alone determines, regardless of its pods; None if it determines none."""
    workload = gang.workload
    if workload.finished:
        return GangState.ENDED
    if workload.managed_elsewhere is not None:
        return GangState.ELSEWHERE
    if workload.suspended:
        return GangState.SUSPENDED
    waits = (part.after for part in workload.parts if gang.name == f"{workload.name}-{part.name}")
    return GangState.LATER if any(waits) and not any(tally.pods for tally in counted) else None


def _is_hindered(podgang: PodGang) -> bool:
    """Returns whether Rollcall makes no gang of the workload and leaves its pods alone."""
    return isinstance(podgang, OptedInGang) and no_gang(podgang.workload) is not None


def _strays(seen: Observed, profile: Profile | None, record: Record | None) -> tuple[Escaped, ...]:
    if profile is None or record is None or _is_hindered(seen.podgang) or object_plan.is_groves(seen.podgang):
        # Pods of a workload without a record are not prepared, so they lack nothing. Grove prepares its own.
        return ()
    key = key_of_gang(seen.podgang)
    before = None if seen.escapes is None else seen.escapes.get(key)
    now = Escapes(seen.podgang, profile, record, seen.facts, before)
    escaped = now.find_escaped(pod for pod in seen.roster.members if pod.counts)
    if seen.escapes is not None and len(seen.roster.members) >= _MANY_PODS:
        seen.escapes.put(key.namespace, key, now)
    return escaped


def _scheduler_of(pods: Sequence[GangPod], profile: Profile | None) -> str:
    if profile is not None:
        return profile.name
    return next((str(name) for pod in pods if (name := pod.spec.get("schedulerName"))), "its scheduler")


def _partial_start(counted: Sequence[pod_reasons.MemberTally]) -> HoldReason:
    short = [tally for tally in counted if not tally.started]
    parts = ", ".join(f"{tally.member.name} has {tally.bound} of {tally.member.min_replicas}" for tally in short)
    why = f"a part of the gang is on nodes and the rest is not: {parts}"
    return HoldReason(
        GangReason.IN_PART, why, "see below what the rest waits for; until then the running part wastes its nodes"
    )


def _proof(never: Witness) -> dict[str, Any]:
    """Returns the proof that a gang can never start, as plain JSON values."""
    return {
        "family": str(never.family),
        "scope": str(never.scope),
        "why": never.why,
        "remedy": never.remedy,
        "domain": never.domain,
        "short": [shortfall._asdict() for shortfall in never.shortfalls],
    }


def _disruption_mode(seen: Observed, profile: Profile | None) -> Disruption | None:
    try:
        return None if profile is None else profile.backend.disruption_mode(seen.gang_objects)
    except Malformed:
        return None


# The health of a gang; its anchors are judged by the function, and not at all without one. None if it does not exist.
Health = Callable[[GangKey, pod_reasons.Anchors | None], GangHealth | None]

_STATES = {GangState.HELD: "held", GangState.IN_PART: "on nodes only in part", GangState.LEAVING: "being deleted"}


class AnchoredHealth:
    """The health of gangs. Many gangs may wait for one anchor, so an anchor is judged once until `forget` is called."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._anchors: dict[GangKey, pod_reasons.Anchor | None] = {}
        # Gangs by the anchor that they wait for, as last judged.
        self._waiting: Grouping[GangKey, GangKey] = Grouping()
        # Each anchor as all gangs that wait for it were judged with it, or will be.
        self._as_known: dict[GangKey, pod_reasons.Anchor | None] = {}

    def health(self, key: GangKey) -> GangHealth | None:
        """Returns the health of a gang; None if it does not exist or Rollcall does not make it. Raises `Malformed`, and
        `FactsUnavailable` if it is not known yet whether the gang exists.
        """
        self._waiting.move(key, None)
        gang_health = self._health(key, lambda name: self._anchor(GangKey(key.namespace, name)))
        if gang_health is None:
            self._as_known.pop(key, None)
        elif gang_health.anchor is not None:
            self._waiting.move(key, GangKey(key.namespace, gang_health.anchor))
        return gang_health

    def affected(self, changed: GangKey) -> Collection[GangKey]:
        """Returns the gangs that wait for a changed gang; none if it still is as they know it."""
        waiting = self._waiting.members(changed) if changed.kind == POD_GANG else ()
        if not waiting:
            self._as_known.pop(changed, None)
            return ()
        self._anchors.pop(changed, None)
        now = self._anchor(changed)
        if changed in self._as_known and self._as_known[changed] == now:
            return ()
        self._as_known[changed] = now
        return tuple(waiting)

    def forget(self) -> None:
        """Judges each anchor again from now on."""
        self._anchors.clear()

    def _anchor(self, key: GangKey) -> pod_reasons.Anchor | None:
        if key not in self._anchors:
            now = self._anchors[key] = self._judged(key)
            if self._as_known.get(key, now) != now:
                # One of the gangs that wait knows more than the others.
                del self._as_known[key]
        return self._anchors[key]

    def _judged(self, key: GangKey) -> pod_reasons.Anchor | None:
        try:
            health = self._health(key, None)
        except (Malformed, FactsUnavailable):
            return None
        if health is None:
            return None
        first = health.obstacles[0] if health.obstacles else None
        return pod_reasons.Anchor(
            key.name, health.state is GangState.STARTED, _STATES.get(health.state, health.state.value), first
        )

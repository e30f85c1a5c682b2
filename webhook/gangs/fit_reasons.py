"""Why a gang never fits, or what it lacks now, for a gang that waits although nothing else is wrong (no I/O).

Only a gang none of whose pods has a node is judged: schedulers count the pods that are on nodes in different ways. A
gang that was started before is left alone, too, because some schedulers then start its pods one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from webhook.config.settings import Profile
from webhook.fit.amounts import amount_of, counted, sentence_list
from webhook.fit.domain_rooms import ALL_NODES
from webhook.fit.now import Now, NowAnswer
from webhook.fit.verdict import Family, Scope, Shortfall, Witness
from webhook.gangs.hold_reasons import HoldReason, Reason
from webhook.gangs.pod import GangPod
from webhook.gangs.pod_reasons import Tally
from webhook.gangs.roster import Roster
from webhook.gangs.waiting_gang import Waiting
from webhook.gangs.waiting_pods import pod_shapes, template_shape
from webhook.model.gang_object import says_started
from webhook.model.keys import Record
from webhook.model.reading import Malformed, Manifest
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podgang import PodGang


class Fits(Protocol):
    """Judges gangs that wait."""

    def never(self, gang: Waiting) -> Witness | None:
        """The proof that the gang can never start; None without one."""

    def now(self, gang: Waiting) -> Now | None:
        """An estimate of whether the gang has room now; None without one."""


class RoomReasons(NamedTuple):
    """The hold reasons of a gang that are about room. `never` is the proof that it can never start. `has_room` is the
    estimate of whether there is room now; None without one.
    """

    reasons: tuple[HoldReason, ...] = ()
    never: Witness | None = None
    has_room: bool | None = None


NOTHING_ABOUT_ROOM = RoomReasons()
# What a proof by the templates relies on: pods are missing, so it is not known what they request.
_OF_TEMPLATES = ", if no other webhook lowers the requests of its pods"


def waiting_gang(  # noqa: PLR0913, PLR0917 - what is known of a gang
    podgang: PodGang,
    workload: PodCliqueSet | None,
    roster: Roster,
    tallies: Sequence[Tally],
    profile: Profile,
    record: Record,
    own: Sequence[Manifest],
) -> Waiting | None:
    """The gang as it waits; None if it was started before."""
    try:
        if any(map(says_started, own)) or any(map(_has_run, roster.pods)) or profile.backend.may_be_started(own):
            return None
    except Malformed:
        return None
    counts = {one.member.name: len(one.pods) for one in tallies}
    return Waiting(podgang, workload, profile, record, pod_shapes(tallies), counts)


def has_room_for_rest(
    podgang: PodGang,
    workload: PodCliqueSet | None,
    tallies: Sequence[Tally],
    profile: Profile,
    record: Record,
    fits: Fits,
) -> bool | None:
    """Whether a gang in part would have room now: as if it were placed again as a whole, where its own pods on nodes
    count as free. What a pod on a node needs is not kept, so a member whose pods are all on nodes is judged by its
    template. None without an estimate. Raises `Malformed`.
    """
    waiting = [one._replace(pods=tuple(pod for pod in one.pods if pod.node is None)) for one in tallies]
    shapes = pod_shapes(waiting)
    for one in waiting:
        if not one.pods and (shape := template_shape(podgang, workload, one.member.name)) is not None:
            shapes[one.member.name] = shape
    counts = {one.member.name: len(one.pods) for one in tallies}
    now = fits.now(Waiting(podgang, workload, profile, record, shapes, counts))
    return None if now is None or now.answer is NowAnswer.UNKNOWN else now.answer is NowAnswer.ROOM


def room_reasons(gang: Waiting, fits: Fits, *, has_no_room: bool) -> RoomReasons:
    """Why a gang can never start, or if `has_no_room`, what it lacks now. If pods are missing, only a quota counts:
    nothing else about room keeps pods from being made.
    """
    if (witness := fits.never(gang)) is not None:
        if not gang.is_whole and witness.family is not Family.QUOTA:
            return NOTHING_ABOUT_ROOM
        why = f"{_never(witness)}{'' if gang.is_whole else _OF_TEMPLATES}"
        return RoomReasons((HoldReason(Reason.NEVER_FITS, why, witness.remedy),), witness)
    now = fits.now(gang) if has_no_room else None
    if now is None or now.answer is NowAnswer.UNKNOWN:
        return NOTHING_ABOUT_ROOM
    if now.answer is NowAnswer.ROOM:
        return RoomReasons(has_room=True)
    return RoomReasons((HoldReason(Reason.NO_ROOM, _short(now), _advice(gang, now)),), has_room=False)


def _never(witness: Witness) -> str:
    if witness.scope is Scope.EVER:
        return f"it can never start: {witness.why}"
    return f"it can never start on these nodes, even if nothing else runs there: {witness.why}"


def _short(now: Now) -> str:
    lacks = sentence_list([_lacking(one) for one in now.short])
    said = f"by an estimate it has no room now: {now.why}"
    if now.nearest in {None, ALL_NODES}:
        return f"{said}; it lacks {lacks}" if lacks else said
    return f"{said}; {now.nearest} comes nearest{f', and lacks {lacks}' if lacks else ''}"


def _lacking(short: Shortfall) -> str:
    missing = short.needed - short.there
    return f"room for {counted(missing, 'pod')}" if short.resource == "pods" else amount_of(short.resource, missing)


def _advice(gang: Waiting, now: Now) -> str:
    where = "" if now.nearest in {None, ALL_NODES} else f" in {now.nearest}"
    advice = f"wait until gangs{where} have ended, or request less"
    if (name := gang.workload_name) is None:
        return advice
    return f"{advice}: rollcall fit {name} -n {gang.podgang.namespace} shows which ones hold the room"


def _has_run(pod: GangPod) -> bool:
    return pod.node is not None or pod.failed

"""Why a gang never fits, or what it lacks now, for a gang that waits although nothing else is wrong (no I/O).

Only a gang none of whose pods has a node is judged: schedulers count the pods that are on nodes in different ways. A
gang that was started before is left alone, too, because some schedulers then start its pods one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from webhook.config.settings import Profile
from webhook.fit.verdict import Answer, Family, Scope, Verdict, Witness
from webhook.gangs.fits import Waiting
from webhook.gangs.hold_reasons import HoldReason, Reason
from webhook.gangs.pod import GangPod
from webhook.gangs.roster import Roster
from webhook.gangs.waiting_pods import pod_shapes
from webhook.gangs.waits import Tally
from webhook.model.keys import Record
from webhook.model.reading import Malformed, Manifest, integer, mapping, text
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podgang import PodGang


class Fits(Protocol):
    """Judges gangs that wait."""

    def verdict(self, gang: Waiting) -> Verdict | None:
        """Whether the gang can ever start; None if that is not judged."""

    def shortage(self, gang: Waiting) -> Witness | None:
        """What the gang lacks now, by an estimate; None if nothing is known to be short."""


class RoomReasons(NamedTuple):
    """The hold reasons of a gang that are about room. `never` is the proof that it can never start."""

    reasons: tuple[HoldReason, ...] = ()
    never: Witness | None = None


NOTHING_ABOUT_ROOM = RoomReasons()
# Phases of a PodGroup, of any scheduler, that has not been started yet.
_NOT_STARTED = frozenset({"", "Pending", "PreScheduling", "Inqueue", "Unknown", "Unschedulable"})
_STARTED_COUNTS = ("scheduled", "running", "succeeded", "failed")


def waiting_gang(  # noqa: PLR0913, PLR0917 - what is known of a gang
    podgang: PodGang,
    workload: PodCliqueSet | None,
    roster: Roster,
    counted: Sequence[Tally],
    profile: Profile,
    record: Record,
    own: Sequence[Manifest],
) -> Waiting | None:
    """The gang as it waits; None if its pods are not known well enough, or if it was started before."""
    try:
        if any(map(_was_started, own)) or any(map(_has_run, roster.pods)):
            return None
        shapes = pod_shapes(counted)
    except Malformed:
        return None
    if shapes is None:
        return None
    return Waiting(podgang, workload, profile, record, shapes, {one.member.name: len(one.pods) for one in counted})


def room_reasons(gang: Waiting, fits: Fits, *, has_no_room: bool) -> RoomReasons:
    """Why a gang can never start, or if `has_no_room`, what it lacks now. If pods are missing, only a quota counts:
    nothing else about room keeps pods from being made.
    """
    verdict = fits.verdict(gang)
    witness = None if verdict is None or verdict.answer is not Answer.NEVER else verdict.witness
    if witness is not None and (gang.is_whole or witness.family is Family.QUOTA):
        return RoomReasons((HoldReason(Reason.NEVER_FITS, _never(witness), witness.remedy),), witness)
    if witness is not None or not has_no_room or (short := fits.shortage(gang)) is None:
        return NOTHING_ABOUT_ROOM
    return RoomReasons((HoldReason(Reason.NO_ROOM, f"by an estimate it has no room now: {short.why}", short.remedy),))


def _never(witness: Witness) -> str:
    if witness.scope is Scope.EVER:
        return f"it can never start: {witness.why}"
    return f"it can never start on these nodes, even if nothing else runs there: {witness.why}"


def _has_run(pod: GangPod) -> bool:
    return pod.node is not None or pod.failed


def _was_started(live: Manifest) -> bool:
    """Whether a gang object says that pods of the gang were on nodes. Raises `Malformed`."""
    status = mapping(live.get("status"))
    if (text(status.get("phase")) or "") not in _NOT_STARTED:
        return True
    return any((integer(status.get(count)) or 0) > 0 for count in _STARTED_COUNTS)

"""What is wrong with the objects of a gang that does not start (no I/O): each is compared with what it should be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable, Inexpressible
from webhook.gangs.differences import first_difference, in_step, left_behind, other_owner, to_apply, with_replaced
from webhook.gangs.hold_reasons import HoldReason, Reason
from webhook.gangs.leaving_objects import leaving
from webhook.gangs.observed import Observed
from webhook.gangs.plan import Plan, SkipReason
from webhook.gangs.pod import GangPod
from webhook.model.frozen_changes import Stage
from webhook.model.reading import Malformed, Manifest
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.gang import OptedInGang, template_record
from webhook.mutators.prepare_pod import stamped_scheduler


def object_reasons(seen: Observed) -> Iterator[HoldReason]:
    """What is wrong with the objects of a gang."""
    try:
        planned = seen.plan()
    except Inexpressible as refusal:
        yield _untranslated(seen, refusal)
        return
    except FactsUnavailable as error:
        yield HoldReason(Reason.OBJECT_MISSING, f"its objects cannot be made: {error}", "find out why that is missing")
        return
    if planned is SkipReason.UNRECORDED and (removed := removed_record(seen)) is not None:
        yield removed
        return
    if isinstance(planned, SkipReason):
        if (told := _ASIDES.get(planned)) is not None:
            kind = seen.podgang.workload_kind
            yield HoldReason(told.reason, told.why.format(kind=kind), told.remedy.format(kind=kind))
        return
    found = [one for desired in planned.objects if (one := _of_object(seen, planned, desired)) is not None]
    if not any(one.reason is Reason.CONFLICT for one in found) and (frozen := _frozen(seen, planned)) is not None:
        yield frozen
    yield from found


def removed_record(seen: Observed) -> HoldReason | None:
    """That the record of a gang without one was removed while Rollcall did not answer: it would have kept it. None if
    neither its pods nor its objects say that it had one.
    """
    kind, pods = seen.podgang.workload_kind, (prepared_for(pod, seen.settings) for pod in seen.roster.members)
    if (scheduler := next(filter(None, pods), None)) is not None:
        sign = f"its pods are prepared for {scheduler}"
    elif (scheduler := _written_for(seen.own, seen.settings)) is not None:
        sign = f"it has gang objects of {scheduler}"
    else:
        return None
    return HoldReason(
        Reason.UNRECORDED,
        f"the label {SCHEDULER_LABEL} of its {kind} was removed while Rollcall did not answer, although {sign}: the "
        "pods that come now are not prepared, and some may start alone",
        f"set the label {SCHEDULER_LABEL}: {scheduler} on the {kind} again"
        if _may_return(seen, scheduler)
        else f"delete the {kind} and recreate it: the label cannot be set again, because some of its pods or templates "
        "were not prepared",
    )


def _may_return(seen: Observed, scheduler: str) -> bool:
    """Whether admission allows to set a record again: what is there was prepared for that scheduler."""
    if isinstance(seen.podgang, OptedInGang):
        return template_record(seen.podgang.workload) == scheduler
    return all(prepared_for(pod, seen.settings) == scheduler for pod in seen.roster.members if pod.node is not None)


def prepared_for(pod: GangPod, settings: Settings) -> str | None:
    """The scheduler that a pod was prepared for; None if it was not."""
    scheduler = stamped_scheduler(pod.annotations)
    return scheduler if scheduler in settings.profiles else None


def _written_for(own: Sequence[Manifest], settings: Settings) -> str | None:
    """The scheduler that Rollcall wrote gang objects for, by their kinds; None without objects."""
    kinds = {(str(live["apiVersion"]).partition("/")[0], live["kind"]) for live in own}
    writers = (
        one.name for one in settings.profiles.values() if kinds & {api.group_kind for api in one.backend.writable_kinds}
    )
    return next(writers, None)


def _untranslated(seen: Observed, refusal: Inexpressible) -> HoldReason:
    """Why no objects can be made: what its scheduler cannot express, or that its API is unknown."""
    missing = next((one for one in refusal.unjudged if one.part == "apis" and one.remedy), None)
    if missing is not None:
        return HoldReason(Reason.API_MISSING, f"{missing.needs} are unknown", missing.remedy)
    remedy = f"change the {seen.podgang.workload_kind}, or choose another scheduler"
    return HoldReason(Reason.INEXPRESSIBLE, str(refusal), remedy)


def _frozen(seen: Observed, planned: Plan) -> HoldReason | None:
    """Why the scheduler would not follow a change of the PodGang at the gang's present stage; None if it would."""
    backend = planned.profile.backend
    try:
        replaced = [seen.live(desired) for desired in planned.objects]
        pairs = zip(planned.objects, replaced, strict=True)
        adopted = [to_apply(backend.adopt(desired, live)) for desired, live in pairs]
        frozen = backend.frozen(adopted, with_replaced(seen.own, replaced))
    except (FactsUnavailable, Malformed):
        return None
    # The check before a write asks the cluster the same way. A pod that the PodGang does not name (yet, or any more)
    # may be on a node.
    if frozen is None or _stage([*seen.roster.members, *seen.roster.unnamed]) <= frozen.until:
        return None
    remedy = f"undo the change, or delete and recreate the {seen.podgang.workload_kind}"
    return HoldReason(Reason.FROZEN, f"{frozen.what}: {frozen.why}", remedy)


def _stage(pods: Sequence[GangPod]) -> Stage:
    if any(pod.node is not None for pod in pods):
        return Stage.BOUND
    return Stage.WAITING if pods else Stage.EMPTY


_ASIDES = {
    SkipReason.UNRECORDED: HoldReason(
        Reason.UNRECORDED,
        "its {kind} predates Rollcall or was admitted without it, so its pods are not changed",
        f"set the label {SCHEDULER_LABEL} on the {{kind}} while none of its pods is on a node",
    ),
    SkipReason.NO_PROFILE: HoldReason(
        Reason.NO_PROFILE,
        "the scheduler recorded on its {kind} is not a profile of this configuration",
        "enable the profile again, or recreate the {kind} for another scheduler",
    ),
    SkipReason.EMPTY: HoldReason(
        Reason.TOO_FEW_PODS,
        "no pod names it and none of its PodCliques exists, so no gang objects are written yet",
        "read the log of Grove's operator, which creates PodCliques; delete the PodGang if nobody uses it",
    ),
}


def _of_object(seen: Observed, planned: Plan, desired: Manifest) -> HoldReason | None:
    """What is wrong with one object of the gang; None if nothing is."""
    name = f"{desired['kind']} {desired['metadata']['name']}"
    try:
        live = seen.live(desired)
    except FactsUnavailable as error:
        return HoldReason(Reason.API_MISSING, f"{name} cannot exist: {error}", "install the scheduler's CRDs")
    if live is None:
        return HoldReason(
            Reason.OBJECT_MISSING, f"{name} is missing", "check that rollcall reconcile is running, and read its log"
        )
    if live["metadata"].get("deletionTimestamp") is not None:
        return leaving(live)
    if left_behind(live, seen.podgang):
        why = f"{name} still belongs to an earlier {seen.podgang.owner.kind} of this name"
        return HoldReason(
            Reason.OBJECT_LEAVING,
            why,
            "the garbage collector deletes it; if it stays, check that the garbage collector is running",
        )
    if (owner := other_owner(live, seen.podgang)) is not None:
        return HoldReason(Reason.CONFLICT, f"{name} belongs to {owner}", "delete or rename it")
    try:
        wanted = to_apply(planned.profile.backend.adopt(desired, live))
    except Malformed as error:
        return HoldReason(Reason.OBJECT_DIFFERS, f"{name} cannot be read: {error}", "delete it")
    if in_step(wanted, live):
        return None
    why = f"{name} differs from the desired object: {first_difference(wanted, live)}"
    return HoldReason(Reason.OBJECT_DIFFERS, why, "check that rollcall reconcile is running, and read its log")

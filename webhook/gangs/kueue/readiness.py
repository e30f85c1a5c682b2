"""Kueue's clock on an admitted Workload: when Kueue takes it back if its pods are not ready, and how often it has done
so (no I/O).

Source: kubernetes-sigs/kueue v0.19, pkg/controller/core/workload_controller.go (admittedNotReadyWorkload); of 0.20,
keps/13502-unscheduled-pods-timeout (Timeout interaction).
"""

from __future__ import annotations

from datetime import datetime

from webhook.gangs.hold_reasons import HoldReason, Reason
from webhook.gangs.kueue.moments import later, moment, span, until
from webhook.model.kueue import keys
from webhook.model.kueue.objects import KueueWorkload
from webhook.model.kueue.settings import KueueSettings


def countdown(workload: KueueWorkload, settings: KueueSettings, now: datetime) -> str:
    """When Kueue takes an admitted Workload back; empty if it does not."""
    ready = workload.condition(keys.PODS_READY)
    if not workload.admitted or workload.is_true(keys.EVICTED) or ready is None or ready.status:
        # Without `waitForPodsReady` Kueue does not write the condition.
        return ""
    lost = ready.reason == keys.WAIT_FOR_RECOVERY
    admitted = workload.condition(keys.ADMITTED)
    begun = moment(ready.at if lost or admitted is None else admitted.at)
    times = settings.ready_times(workload.stated_times)
    seconds, goal = times.recovery if lost else times.ready, "ready"
    if times.scheduled is not None and not lost and _is_unscheduled(workload):
        seconds, goal = times.scheduled, "on nodes"
    if begun is None or seconds is None:
        return ""
    pods = sum(one.count if one.admitted is None else one.admitted for one in workload.pods)
    every = "its pod is" if pods == 1 else f"all {pods} pods are"
    return f"Kueue takes it back {until(later(begun, seconds), now)}, unless {every} {goal}"


def _is_unscheduled(workload: KueueWorkload) -> bool:
    """Whether Kueue has seen, since the last admission, that not all pods are on nodes. The condition PodsScheduled of
    an earlier admission stays.
    """
    ready, admitted = workload.condition(keys.PODS_READY), workload.condition(keys.ADMITTED)
    scheduled = workload.condition(keys.PODS_SCHEDULED)
    if ready is None or admitted is None or scheduled is None or scheduled.status:
        return False
    if not ready.reason == scheduled.reason == keys.WAIT_FOR_SCHEDULING:
        return False
    seen, begun = moment(scheduled.at), moment(admitted.at)
    return seen is not None and begun is not None and seen > begun


def taken_back(workload: KueueWorkload, settings: KueueSettings, scheduler: str) -> HoldReason | None:
    """That Kueue admitted a Workload, and took it back because its pods were not ready in time; None if it did not."""
    late = [one for one in workload.evictions if one.reason == keys.PODS_READY_TIMEOUT]
    count = sum(one.count for one in late)
    if count < 1:
        return None
    times, causes = settings.ready_times(workload.stated_times), {one.cause for one in late}
    goal, seconds, setting = "running and ready", times.ready, "waitForPodsReady.timeout of Kueue"
    if causes == {keys.WAIT_FOR_SCHEDULING}:
        goal, seconds, setting = "on nodes", times.scheduled, "waitForPodsReady.unscheduledTimeout of Kueue"
    elif times.stated:
        setting = f"timeoutSeconds of its annotation {keys.WAIT_FOR_PODS_READY}"
    is_one = causes <= {keys.WAIT_FOR_START, ""} or causes == {keys.WAIT_FOR_SCHEDULING}
    within = f"within {span(seconds)}" if is_one and seconds is not None else "in time"
    often = "once" if count == 1 else f"{count} times"
    why = f"Kueue took it back {often}, because {scheduler} did not get all of its pods {goal} {within}"
    remedy = (
        f"find out what {scheduler} lacks for the whole gang, or raise {setting} above the time that the gang needs"
    )
    return HoldReason(Reason.KUEUE_TOOK_BACK, why, remedy)

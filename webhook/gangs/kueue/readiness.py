"""Kueue's clock on an admitted Workload: when Kueue takes it back if its pods are not ready, and how often it has done
so (no I/O).

Source: kubernetes-sigs/kueue v0.19, pkg/controller/core/workload_controller.go (admittedNotReadyWorkload).
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
    seconds = settings.recovery_seconds if lost else settings.pods_ready_seconds
    if begun is None or seconds is None:
        return ""
    pods = sum(one.count if one.admitted is None else one.admitted for one in workload.pods)
    every = "its pod is" if pods == 1 else f"all {pods} pods are"
    return f"Kueue takes it back {until(later(begun, seconds), now)}, unless {every} ready"


def taken_back(workload: KueueWorkload, settings: KueueSettings, scheduler: str) -> HoldReason | None:
    """That Kueue admitted a Workload, and took it back because its pods were not ready in time; None if it did not."""
    times = sum(one.count for one in workload.evictions if one.reason == keys.PODS_READY_TIMEOUT)
    if times < 1:
        return None
    within = "in time" if settings.pods_ready_seconds is None else f"within {span(settings.pods_ready_seconds)}"
    often = "once" if times == 1 else f"{times} times"
    why = f"Kueue took it back {often}, because {scheduler} did not get all of its pods running and ready {within}"
    remedy = (
        f"find out what {scheduler} lacks for the whole gang, or raise waitForPodsReady.timeout of Kueue above "
        "the time that the gang needs"
    )
    return HoldReason(Reason.KUEUE_TOOK_BACK, why, remedy)

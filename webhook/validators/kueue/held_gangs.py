"""The gangs of opted-in workloads that Kueue holds: what several rules ask about them, and the words for it."""

from __future__ import annotations

from typing import Any, NamedTuple

from webhook.model.fields import LABELS, FieldPath
from webhook.model.kueue.holding import Held, held
from webhook.model.kueue.keys import QUEUE_NAME, WAIT_FOR_PODS_READY
from webhook.model.kueue.settings import ReadyTimes
from webhook.model.workloads.applied_pods import with_pods
from webhook.model.workloads.gang import starts_alone
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.trainjob import MadeJobSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.registry import Context


class HeldGang(NamedTuple):
    """A workload that Kueue holds and whose pods a gang scheduler starts together. `pods` makes its pods: the JobSet of
    a TrainJob, else the workload itself.
    """

    held: Held
    pods: OptedInWorkload

    @property
    def path(self) -> FieldPath:
        """Where the workload names its LocalQueue, or would name it."""
        return self.held.path or LABELS / QUEUE_NAME


def held_gang(workload: OptedInWorkload, context: Context[Any]) -> HeldGang | None:
    """A workload that Kueue holds and that is a gang here. None for a single pod, for a scheduler without gangs, for a
    TrainJob without a known runtime, and for the JobSet of a TrainJob, which is judged with the TrainJob.
    """
    scheduler = context.gang_scheduler
    if not (scheduler.makes_opted_in_gangs or scheduler.groups_opted_in):
        return None
    found = held(workload, context.facts, context.kueue)
    if found is None or (pods := with_pods(workload, context.facts)) is None:
        return None
    # Another controller runs the pods, often in another cluster.
    return None if pods.managed_elsewhere is not None or starts_alone(pods) else HeldGang(found, pods)


def ready_times(workload: OptedInWorkload, context: Context[Any]) -> ReadyTimes:
    """How long Kueue waits for the pods of a workload: as its annotation says, else as Kueue's settings do."""
    top = workload.train_job if isinstance(workload, MadeJobSet) else workload
    return context.kueue.ready_times(top.annotations.get(WAIT_FOR_PODS_READY))


def start_limit(times: ReadyTimes) -> tuple[str, str]:
    """What all pods of a workload have to be in the time that Kueue leaves them first, and where that time is set."""
    if times.scheduled is not None:
        return "on nodes", "Kueue's waitForPodsReady.unscheduledTimeout"
    return "ready", f"timeoutSeconds of {WAIT_FOR_PODS_READY}" if times.stated else "Kueue's waitForPodsReady.timeout"


def gangs_in_turn(pods: OptedInWorkload) -> int:
    """How many gangs of a workload start one after another, at most."""
    if not isinstance(pods, JobSet) or pods.sequence_path is None:
        return 1
    steps: dict[str, int] = {}
    for part in pods.parts:
        # JobSet only accepts names of earlier parts.
        before = max((steps.get(name, 0) for name in part.after), default=0)
        steps[part.name] = before + (1 if part.pods > 0 else 0)
    return max(steps.values(), default=1)


def duration(seconds: int) -> str:
    """A time as Kueue's configuration writes it: 30m."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"

"""What Kueue holds: the cliques of a PodCliqueSet and the gangs of opted-in workloads, with what several rules ask
about them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.model import kueue
from webhook.model.fields import LABELS, FieldPath
from webhook.model.kueue import QUEUE_NAME, WAIT_FOR_PODS_READY, ReadyTimes
from webhook.model.reading import mapping
from webhook.validators.registry import Context
from webhook.workloads.jobset import JobSet
from webhook.workloads.kueue_integration import Held, held, held_clique, is_installed, workload_with_pods
from webhook.workloads.opted_in_gang import starts_alone
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import Clique, PodCliqueSet
from webhook.workloads.trainjob import TrainerJobSet


class HeldClique(NamedTuple):
    """A clique whose pods Kueue holds."""

    clique: Clique
    held: Held

    @property
    def group_path(self) -> FieldPath:
        """Where the clique names its pod group."""
        template = self.clique.template
        if template.annotations.get(kueue.POD_GROUP_NAME):
            return template.annotations_path / kueue.POD_GROUP_NAME
        return template.labels_path / kueue.POD_GROUP_NAME

    @property
    def starts_early(self) -> bool:
        """Whether Kueue admits its pod group before all pods of the group exist."""
        return self.clique.annotations.get(kueue.POD_GROUP_FAST_ADMISSION) == "true"


def may_be_held(labels: Mapping[str, Any], namespace: str, context: Context[Any]) -> bool:
    """Returns whether an object with these labels can be in a queue of Kueue. Cheap, because most objects are in
    none.
    """
    return (
        kueue.QUEUE_NAME in labels
        or context.kueue.manage_without_queue_name
        or (namespace, kueue.DEFAULT_QUEUE) in (context.facts.local_queues or ())
    )


def held_cliques(workload: PodCliqueSet, context: Context[Any]) -> Iterator[HeldClique]:
    """Yields the cliques that have pods and whose pods Kueue holds."""
    cliques = [
        clique
        for clique in workload.cliques
        if may_be_held(mapping(clique.raw.get("labels")), workload.namespace, context)
    ]
    if not cliques or is_installed(context.facts) is False:
        return
    for clique in cliques:
        held = held_clique(clique, workload, context.facts, context.kueue)
        if held is not None and clique.replicas > 0:
            yield HeldClique(clique, held)


def pods_of(clique: Clique, workload: PodCliqueSet) -> int:
    """Returns the number of pods that a set has of a clique, in all its gangs."""
    # A set without replicas gets them later.
    return max(workload.replicas, 1) * clique.replicas * (1 if clique.group is None else clique.group.replicas)


def set_starts_alone(workload: PodCliqueSet) -> bool:
    """Returns whether each gang of a set has a single pod."""
    base = sum(
        clique.replicas * (1 if clique.group is None else clique.group.min_available) for clique in workload.cliques
    )
    if base > 1:
        return False
    members = {clique.name: clique.replicas for clique in workload.cliques}
    return all(sum(members.get(name, 0) for name in group.clique_names) <= 1 for group in workload.scaling_groups)


def growth(workload: PodCliqueSet) -> str | None:
    """Returns why a set is not a single gang with a fixed number of pods, in words; None if it is."""
    if workload.replicas > 1:
        return f"the gangs of all {workload.replicas} replicas share this pod group, whose number of pods is fixed"
    for group in workload.scaling_groups:
        if group.replicas > group.min_available or group.raw.get("scaleConfig") is not None:
            return f"all gangs of the scaling group {group.name} share this pod group, whose number of pods is fixed"
    for clique in workload.cliques:
        if clique.spec.get("autoScalingConfig") is not None:
            return f"autoScalingConfig of {clique.name} changes the number of pods, which is fixed in a pod group"
    return None


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
    """Returns a workload that Kueue holds and that is a gang here. None for a single pod, for a scheduler without
    gangs, for a TrainJob without a known runtime, and for the JobSet of a TrainJob, which is judged with the TrainJob.
    """
    scheduler = context.gang_scheduler
    if not (scheduler.makes_opted_in_gangs or scheduler.groups_opted_in):
        return None
    hold = held(workload, context.facts, context.kueue)
    if hold is None or (pods := workload_with_pods(workload, context.facts)) is None:
        return None
    # Another controller runs the pods, often in another cluster.
    return None if pods.managed_elsewhere is not None or starts_alone(pods) else HeldGang(hold, pods)


def ready_times(workload: OptedInWorkload, context: Context[Any]) -> ReadyTimes:
    """Returns how long Kueue waits for the pods of a workload: as its annotation says, else as Kueue's settings do."""
    top = workload.train_job if isinstance(workload, TrainerJobSet) else workload
    return context.kueue.ready_times(top.annotations.get(WAIT_FOR_PODS_READY))


def start_limit(times: ReadyTimes) -> tuple[str, str]:
    """Returns what all pods of a workload have to be in the time that Kueue leaves them first, and where that time is
    set.
    """
    if times.scheduled is not None:
        return "on nodes", "Kueue's waitForPodsReady.unscheduledTimeout"
    return "ready", f"timeoutSeconds of {WAIT_FOR_PODS_READY}" if times.stated else "Kueue's waitForPodsReady.timeout"


def gangs_in_turn(pods: OptedInWorkload) -> int:
    """Returns how many gangs of a workload start one after another, at most."""
    if not isinstance(pods, JobSet) or pods.sequence_path is None:
        return 1
    steps: dict[str, int] = {}
    for part in pods.parts:
        # JobSet only accepts names of earlier parts.
        before = max((steps.get(name, 0) for name in part.after), default=0)
        steps[part.name] = before + (1 if part.pods > 0 else 0)
    return max(steps.values(), default=1)


def duration(seconds: int) -> str:
    """Returns a time as Kueue's configuration writes it: 30m."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"

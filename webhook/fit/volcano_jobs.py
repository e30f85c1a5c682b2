"""The gang of a Volcano Job, which Volcano's controller makes: with the Job's queue, under the scheduler that it names.

The PodGroup wants `minAvailable` pods in all, by default those of all tasks, and of each task its own minAvailable, by
default its replicas, unless these are more than the former together. Tasks that start after others are not judged.

Source: volcano-sh/volcano v1.15.1, pkg/controllers/job/job_controller_actions.go, pkg/scheduler/api/job_info.go
(`CheckTaskValid`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from webhook.fit.shape import GangShape, MemberShape
from webhook.model.reading import integer, mapping, sequence, text
from webhook.model.workloads.workload import OptedInWorkload, Part

GROUP_KIND = ("batch.volcano.sh", "Job")
# What Volcano fills in.
_SCHEDULER, _QUEUE = "volcano", "default"
_FURTHER = "which further pods the gang starts with"
_TOPOLOGY = "the HyperNodes that the Job requires"


class _Task(NamedTuple):
    """A task: its part of the Job, and the least number of its pods by its own word."""

    part: Part
    minimum: int


def is_volcano_job(workload: OptedInWorkload) -> bool:
    """Return whether it is a Volcano Job."""
    api = workload.resource.api
    return (api.group, api.kind) == GROUP_KIND


def shape_of_volcano_job(workload: OptedInWorkload, scheduler: str) -> GangShape | None:
    """Return the gang of a Volcano Job; None if another scheduler places its pods, or if its tasks start one after
    another. Raises `Malformed`.
    """
    spec = workload.spec
    if (text(spec.get("schedulerName")) or _SCHEDULER) != scheduler:
        return None
    tasks = list(_tasks(workload))
    raw = [mapping(one) for one in sequence(spec.get("tasks"))]
    if len(tasks) != len(raw) or any(one.get("dependsOn") is not None for one in raw):
        return None
    if any((text(task.part.template.spec.get("schedulerName")) or scheduler) != scheduler for task in tasks):
        return None
    own = sum(task.minimum for task in tasks)
    every = sum(task.part.pods for task in tasks)
    minimum = integer(spec.get("minAvailable")) or own
    members = tuple(
        MemberShape(
            f"{workload.name}-{task.part.name}",
            task.part.place,
            task.part.template,
            max(task.minimum if own <= minimum else 0, minimum - (every - task.part.pods), 0),
            task.part.pods,
            role=task.part.name,
        )
        for task in tasks
    )
    left_out = [_FURTHER] if sum(member.minimum for member in members) < minimum else []
    left_out += [_TOPOLOGY] if spec.get("networkTopology") is not None else []
    return GangShape(
        workload.name,
        workload.namespace,
        members,
        workload.record,
        labels=workload.labels,
        annotations=workload.annotations,
        left_out=tuple(left_out),
        queue=text(spec.get("queue")) or _QUEUE,
    )


def _tasks(workload: OptedInWorkload) -> Iterator[_Task]:
    for part, raw in zip(workload.parts, sequence(workload.spec.get("tasks")), strict=False):
        stated = integer(mapping(raw).get("minAvailable"))
        yield _Task(part, part.pods if stated is None else stated)

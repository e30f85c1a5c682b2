"""The tasks of a Volcano Job (batch.volcano.sh), and how many pods of each its gang surely needs.

Volcano counts `minAvailable` over all tasks, and the minimum of each task besides, unless these are more together. A
task has the minimum of its replicas unless it states one. A task with `dependsOn` has no pods before others run.

Source: volcano-sh/volcano, pkg/controllers/job, pkg/webhooks/admission/jobs, pkg/scheduler/api/job_info.go
(`CheckTaskValid`, v1.15.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.reading import integer, mapping, sequence, text
from webhook.workloads.opted_in_workload import OptedInWorkload, SchedulerGroup, SchedulerGroups

VOLCANO_JOB = ("batch.volcano.sh", "Job")
# What Volcano fills in.
SCHEDULER, QUEUE = "volcano", "default"


class Task(NamedTuple):
    """A task: its pods, the minimum that it states, and the one that it has; None if the releases differ."""

    path: FieldPath
    replicas: int
    stated: int | None
    needed: int | None
    waits: bool


def is_volcano_job(workload: OptedInWorkload) -> bool:
    return workload.resource.api.group_kind == VOLCANO_JOB


def tasks_of(workload: OptedInWorkload) -> list[Task]:
    """Returns the tasks of a Volcano Job. Raises `Malformed`."""
    tasks = []
    for index, raw in enumerate(sequence(workload.spec.get("tasks"))):
        task = mapping(raw)
        replicas, stated = integer(task.get("replicas")) or 0, integer(task.get("minAvailable"))
        needed = _filled_in(task, replicas) if stated is None else stated
        waits = bool(sequence(mapping(task.get("dependsOn")).get("name")))
        tasks.append(Task(SPEC / "tasks" / Item(index, text(task.get("name"))), replicas, stated, needed, waits))
    return tasks


def _filled_in(task: Mapping[str, Any], replicas: int) -> int | None:
    """Returns the minimum that Volcano's webhook writes for a task. None if there are partitions and no minPartitions:
    it was 0 before v1.14.4 and in v1.15.0, and is that of all replicas.
    """
    if task.get("partitionPolicy") is None:
        return replicas
    policy = mapping(task["partitionPolicy"])
    least, size = integer(policy.get("minPartitions")) or 0, integer(policy.get("partitionSize")) or 0
    return least * size if least > 0 else None


def minimum_of(workload: OptedInWorkload) -> int | None:
    """Returns a stated minAvailable. For 0 Volcano's webhook writes the sum of the tasks. Raises `Malformed`."""
    return integer(workload.spec.get("minAvailable")) or None


def tasks_count(tasks: list[Task], minimum: int) -> bool:
    """Returns whether the minimum of each task counts besides that of the Job."""
    needed = [task.needed for task in tasks]
    return None not in needed and sum(count or 0 for count in needed) <= minimum


def least_pods(workload: OptedInWorkload) -> dict[FieldPath, int] | None:
    """Returns by task path the pods surely needed; None if unknown, or never reached. Raises `Malformed`."""
    tasks, stated = tasks_of(workload), minimum_of(workload)
    if any(task.needed is None for task in tasks):
        return None
    minimum = sum(task.needed or 0 for task in tasks) if stated is None else stated
    each = tasks_count(tasks, minimum)
    pods = sum(task.replicas for task in tasks if not task.waits)
    if minimum > pods or (each and any(task.waits and task.needed for task in tasks)):
        return None
    first = [task for task in tasks if not task.waits]
    least = {}
    for task in first:
        # The other tasks may give all of their pods.
        rest = minimum - (pods - task.replicas)
        least[task.path] = max(rest, task.needed or 0 if each else 0, 0)
    return least


def pod_groups_of(workload: OptedInWorkload) -> SchedulerGroups:
    """Returns the PodGroup that Volcano's controller makes of a Volcano Job. Raises `Malformed`."""
    tasks, minimum = tasks_of(workload), minimum_of(workload)
    if any(task.needed is None for task in tasks):
        return SchedulerGroups((), "a task with partitions states no minimum, and releases of Volcano differ in it")
    if minimum is None:
        minimum = sum(task.needed or 0 for task in tasks)
    each = tasks_count(tasks, minimum)
    needed = {task.path: task.needed or 0 for task in tasks}
    below = tuple(
        SchedulerGroup(
            part.name,
            part.pods,
            needed[part.path] if each else part.pods,
            part,
            waits_for=", ".join(part.after) or None,
        )
        for part in workload.parts
        if part.pods > 0
    )
    pods = sum(part.pods for part in below)
    return SchedulerGroups((SchedulerGroup(workload.name, pods, minimum, below=below),))

"""The minimum of a Volcano Job (batch.volcano.sh), from which Volcano's controller makes a PodGroup.

Volcano counts `minAvailable` over all tasks, and the minimum of each task besides, unless these are more together. A
task has the minimum of its replicas unless it states one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from webhook.backends.volcano.settings import RuleContext
from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.findings import Finding
from webhook.model.reading import Manifest, integer, mapping, sequence, text
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.registry import Example, Results, Subject, rule

_KIND = ("batch.volcano.sh", "Job")
_MINIMUM = SPEC / "minAvailable"


class _Task(NamedTuple):
    """A task: the pods that it has, and those that it needs; None if that depends on its partitions."""

    path: FieldPath
    replicas: int
    stated: int | None
    needed: int | None
    waits: bool


def _tasks(workload: OptedInWorkload) -> Iterator[_Task]:
    for index, raw in enumerate(sequence(workload.spec.get("tasks"))):
        task = mapping(raw)
        replicas, stated = integer(task.get("replicas")) or 0, integer(task.get("minAvailable"))
        needed = replicas if stated is None and task.get("partitionPolicy") is None else stated
        waits = bool(sequence(mapping(task.get("dependsOn")).get("name")))
        yield _Task(SPEC / "tasks" / Item(index, text(task.get("name"))), replicas, stated, needed, waits)


def _job(*tasks: Manifest, **spec: object) -> Manifest:
    metadata = {"name": "demo", "namespace": "default", "labels": {SCHEDULER_LABEL: "volcano"}}
    body = {"schedulerName": "volcano", "tasks": list(tasks), **spec}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": body}


def _task(name: str, replicas: int, **fields: object) -> Manifest:
    container = {"name": "main", "image": "example.com/main"}
    return {"name": name, "replicas": replicas, "template": {"spec": {"containers": [container]}}, **fields}


_TAIL = _task("tail", 2, dependsOn={"name": ["head"]})


@rule(
    "volcano/job-minimum",
    subject=Subject.OPTED_IN,
    passes=Example(_job(_task("worker", 4), minAvailable=4)),
    fails=Example(_job(_task("worker", 4), minAvailable=5)),
)
def job_minimum(workload: OptedInWorkload, _: RuleContext) -> Results:
    """Volcano's own webhook refuses a Job whose minAvailable is above the replicas of all tasks, or that of a task above
    the task's replicas. Without the webhook the gang waits for pods that are never created.

    Source: volcano-sh/volcano, pkg/webhooks/admission/jobs/validate/admit_job.go (v1.9 to v1.15.1).
    """
    if workload.resource.api.group_kind != _KIND:
        return
    tasks = list(_tasks(workload))
    minimum, pods = integer(workload.spec.get("minAvailable")), sum(task.replicas for task in tasks)
    if minimum is not None and (minimum < 0 or (tasks and minimum > pods)):
        yield _refused(_MINIMUM, minimum, f"all tasks have {pods} pods together", pods)
    for task in tasks:
        if task.stated is not None and not 0 <= task.stated <= task.replicas:
            yield _refused(task.path / "minAvailable", task.stated, f"the task has {task.replicas} pods", task.replicas)


def _refused(at: FieldPath, minimum: int, has: str, pods: int) -> Finding:
    why = f"{has}, so Volcano refuses the Job"
    return Finding(at=at, found=minimum, why=why, remedy=f"set 0 to {pods}", instead=(pods,))


@rule(
    "volcano/job-in-turn",
    subject=Subject.OPTED_IN,
    passes=Example(_job(_task("head", 4), _TAIL, minAvailable=4)),
    fails=Example(_job(_task("head", 4), _TAIL, minAvailable=5)),
)
def job_in_turn(workload: OptedInWorkload, _: RuleContext) -> Results:
    """Volcano creates the pods of a task with dependsOn when the tasks before it run, but no task runs before the gang
    has its minimum. A minimum that counts pods of later tasks is never reached. The minimums of tasks count, too, if
    they are not more than minAvailable together.

    Source: volcano-sh/volcano, pkg/controllers/job/job_controller_actions.go, pkg/scheduler/api/job_info.go
    (`CheckTaskValid`, v1.15.1), issues 2226 and 2944.
    """
    minimum = integer(workload.spec.get("minAvailable")) if workload.resource.api.group_kind == _KIND else None
    if minimum is None:
        # Without one, owner/incomplete reports the task.
        return
    tasks = list(_tasks(workload))
    first = sum(task.replicas for task in tasks if not task.waits)
    waiting = [task for task in tasks if task.waits and task.replicas > 0]
    if not waiting:
        return
    if minimum > first:
        yield Finding(
            at=_MINIMUM,
            found=minimum,
            why=f"only {first} pods exist before the tasks with dependsOn are created, so the gang never starts",
            remedy=f"set at most {first}",
            instead=(first,),
        )
        return
    needed = [task.needed for task in tasks]
    if None in needed or sum(one or 0 for one in needed) > minimum:
        # Volcano ignores the minimums of tasks.
        return
    for task in waiting:
        if task.needed:
            yield Finding(
                at=task.path / "minAvailable",
                found=task.stated,
                why="the gang waits for pods of this task, which is created when the tasks before it run",
                remedy="set it to 0",
                instead=(0,),
            )

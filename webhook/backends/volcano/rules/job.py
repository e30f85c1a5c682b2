"""The minimum of a Volcano Job (batch.volcano.sh), from which Volcano's controller makes a PodGroup."""

from __future__ import annotations

from webhook.backends.volcano.settings import RuleContext
from webhook.model.fields import SPEC, FieldPath
from webhook.model.findings import Finding
from webhook.model.workloads.volcano_job import is_volcano_job, minimum_of, tasks_count, tasks_of
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import volcano_job, volcano_task
from webhook.validators.registry import Example, Results, Subject, rule

_MINIMUM = SPEC / "minAvailable"


_TAIL = volcano_task("tail", 2, dependsOn={"name": ["head"]})


@rule(
    "volcano/job-minimum",
    subject=Subject.OPTED_IN,
    passes=Example(volcano_job(volcano_task("worker", 4), minAvailable=4)),
    fails=Example(volcano_job(volcano_task("worker", 4), minAvailable=5)),
)
def job_minimum(workload: OptedInWorkload, _: RuleContext) -> Results:
    """Volcano's own webhook refuses a Job whose minAvailable is above the replicas of all tasks, or that of a task
    above the task's replicas. Without the webhook the gang waits for pods that are never created.

    Source: volcano-sh/volcano, pkg/webhooks/admission/jobs/validate/admit_job.go (v1.9 to v1.15.1).
    """
    if not is_volcano_job(workload):
        return
    tasks, minimum = tasks_of(workload), minimum_of(workload)
    pods = sum(task.replicas for task in tasks)
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
    passes=Example(volcano_job(volcano_task("head", 4), _TAIL, minAvailable=4)),
    fails=Example(volcano_job(volcano_task("head", 4), _TAIL, minAvailable=5)),
)
def job_in_turn(workload: OptedInWorkload, _: RuleContext) -> Results:
    """Volcano creates the pods of a task with dependsOn when the tasks before it run, but no task runs before the gang
    has its minimum. A minimum that counts pods of later tasks is never reached. The minimums of tasks count, too, if
    they are not more than minAvailable together.

    Source: volcano-sh/volcano, pkg/controllers/job/job_controller_actions.go, pkg/scheduler/api/job_info.go
    (`CheckTaskValid`, v1.15.1), issues 2226 and 2944.
    """
    minimum = minimum_of(workload) if is_volcano_job(workload) else None
    if minimum is None:
        # Without one, owner/incomplete reports the task.
        return
    tasks = tasks_of(workload)
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
    for task in waiting if tasks_count(tasks, minimum) else ():
        if task.needed:
            yield Finding(
                at=task.path / "minAvailable",
                found=task.stated,
                why="the gang waits for pods of this task, which is created when the tasks before it run",
                remedy="set it to 0",
                instead=(0,),
            )

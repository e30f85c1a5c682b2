"""The Volcano queue of TrainJobs, JobSets, LeaderWorkerSets and Jobs: all pods use one queue, which exists, is Open,
and is a leaf.

A workload names its queue by the annotation scheduling.grove.io/volcano-queue, or by Volcano's own annotation, on
itself or on its pod templates. If a plugin of Trainer or LeaderWorkerSet's provider makes the PodGroup, it reads
Volcano's own annotation.
"""

from __future__ import annotations

from webhook.backends import families
from webhook.backends.queue_families import opted_in_disagreement, opted_in_queue
from webhook.backends.volcano.rules import workload as set_rules
from webhook.backends.volcano.rules.examples import KNOWN_QUEUES, asking
from webhook.backends.volcano.rules.queue import judge_queue, syntax_rule
from webhook.backends.volcano.settings import RuleContext
from webhook.model.capabilities import VOLCANO_QUEUE
from webhook.model.fields import SPEC
from webhook.model.findings import Finding
from webhook.model.workloads.volcano_job import VOLCANO_JOB, minimum_of, tasks_count, tasks_of
from webhook.model.workloads.workload import QUEUE_ANNOTATIONS, OptedInWorkload
from webhook.validators.opted_in_examples import job, volcano_job, volcano_task
from webhook.validators.opted_in_names import Key, named
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.volcano_jobs import order_faults

_VOLCANO = "volcano"


def _keys(_: RuleContext) -> tuple[Key, ...]:
    return tuple(("annotations", key) for key in QUEUE_ANNOTATIONS)


queue = opted_in_queue(
    "volcano/owner-queue",
    """Volcano drops a gang whose queue is missing, with only a log line. It holds a gang whose queue is not Open. A
    gang in `root` or in a queue with children may stop every other queue. A workload that names no queue is in the
    profile's defaultQueue.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/{proportion,capacity}; seen with vc-scheduler v1.15.1.
    """,
    keys=_keys,
    judge=judge_queue,
    passes=Example(job(scheduler=_VOLCANO, annotations=asking("team-a")), facts=KNOWN_QUEUES),
    fails=Example(job(scheduler=_VOLCANO, annotations=asking("team-b")), facts=KNOWN_QUEUES),
)


queue_name = syntax_rule(
    "volcano/owner-queue-name",
    lambda workload, context: named(workload, _keys(context), _keys(context)),
    subject=Subject.OPTED_IN,
    passes=Example(job(scheduler=_VOLCANO, annotations=asking("team-a"))),
    fails=Example(job(scheduler=_VOLCANO, annotations=asking("Team A"))),
)


queue_disagree = opted_in_disagreement(
    "volcano/owner-queue-disagree",
    """A gang is one PodGroup with one queue. If a pod template names another queue, that name is ignored.

    Source: the PodGroup CRD of scheduling.volcano.sh/v1beta1.
    """,
    scheduler=_VOLCANO,
    key=("annotations", VOLCANO_QUEUE),
    keys=_keys,
    of_pods=_keys,
    remedy=lambda _: f"name one queue, preferably in the annotation {VOLCANO_QUEUE} of the workload",
)


resource_claims = families.opted_in_resource_claims(
    "volcano/owner-resource-claims", set_rules.resource_claims.documentation, scheduler=_VOLCANO
)


# --- Volcano's own Job

_TAIL = volcano_task("tail", 2, dependsOn={"name": ["head"]})


@rule(
    "volcano/job-in-turn",
    subject=Subject.OPTED_IN,
    independent=True,
    of_kind=VOLCANO_JOB,
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
    minimum = minimum_of(workload)
    if minimum is None or any(order_faults(workload)):
        # Without one, owner/incomplete reports the task; volcano/job-shape reports an order that cannot be.
        return
    tasks = tasks_of(workload)
    first = sum(task.replicas for task in tasks if not task.waits)
    waiting = [task for task in tasks if task.waits and task.replicas > 0]
    if not waiting:
        return
    if minimum > first:
        yield Finding(
            at=SPEC / "minAvailable",
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

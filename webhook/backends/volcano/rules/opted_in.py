"""The Volcano queue of TrainJobs, JobSets, LeaderWorkerSets and Jobs: all pods use one queue, which exists, is Open,
and is a leaf.

A workload names it by the annotation scheduling.grove.io/volcano-queue, or by Volcano's own annotation, on itself or on
its pod templates. If a plugin of Trainer or LeaderWorkerSet's provider makes the PodGroup, it reads Volcano's own.
"""

from __future__ import annotations

from webhook.backends.volcano.rules.examples import QUEUES, asking
from webhook.backends.volcano.rules.queue import judge_queue, judge_queues
from webhook.backends.volcano.settings import RuleContext
from webhook.model.capabilities import VOLCANO_QUEUE
from webhook.model.findings import Finding
from webhook.model.naming import is_subdomain
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.trainjob import train_job_of
from webhook.model.workloads.workload import QUEUE_ANNOTATIONS, OwnedWorkload
from webhook.validators.owner_examples import job, job_set, pod_template, replicated
from webhook.validators.owner_names import disagreeing, named
from webhook.validators.registry import Example, Results, Subject, rule

_VOLCANO = "volcano"
_KEYS = tuple(("annotations", key) for key in QUEUE_ANNOTATIONS)


@rule(
    "volcano/owner-queue",
    subject=Subject.OWNER,
    passes=Example(job(scheduler=_VOLCANO, annotations=asking("team-a")), facts=QUEUES),
    fails=Example(job(scheduler=_VOLCANO, annotations=asking("team-b")), facts=QUEUES),
)
def owner_queue(workload: OwnedWorkload, context: RuleContext) -> Results:
    """Volcano drops a gang whose queue is missing with a log line, holds one whose queue is not Open, and may stop
    every other queue while a gang is in `root` or in a queue with children. A workload that names none is in the
    profile's defaultQueue.

    Source: volcano-sh/volcano, pkg/scheduler/plugins/{proportion,capacity}; seen with vc-scheduler v1.15.1.
    """
    uses = named(workload, _KEYS, _KEYS)
    yield from judge_queues(uses, context.facts)
    # For a TrainJob's JobSet, the TrainJob may name a queue.
    if not uses and not (isinstance(workload, JobSet) and train_job_of(workload)):
        queue, path = context.settings.defaultQueue, context.choice.path
        yield from judge_queue(queue, path, "the profile's defaultQueue", context.facts)


@rule(
    "volcano/owner-queue-name",
    subject=Subject.OWNER,
    fails_closed=True,
    passes=Example(job(scheduler=_VOLCANO, annotations=asking("team-a"))),
    fails=Example(job(scheduler=_VOLCANO, annotations=asking("Team A"))),
)
def owner_queue_name(workload: OwnedWorkload, _: RuleContext) -> Results:
    """The API server refuses a PodGroup whose queue is no DNS subdomain, and the gang would wait for a group that
    nobody can write.

    Source: the PodGroup CRD of scheduling.volcano.sh/v1beta1 (`spec.queue`).
    """
    for use in named(workload, _KEYS, _KEYS):
        if not is_subdomain(use.value):
            why = "it is no DNS subdomain, so no Queue has that name"
            yield Finding(at=use.path, found=use.value, why=why, remedy="name a Queue that exists")


@rule(
    "volcano/owner-queue-disagree",
    subject=Subject.OWNER,
    passes=Example(
        job_set(
            replicated("node", template=pod_template(annotations=asking("team-a"))),
            scheduler=_VOLCANO,
            annotations=asking("team-a"),
        )
    ),
    fails=Example(
        job_set(
            replicated("node", template=pod_template(annotations=asking("team-b"))),
            scheduler=_VOLCANO,
            annotations=asking("team-a"),
        )
    ),
)
def owner_queue_disagree(workload: OwnedWorkload, _: RuleContext) -> Results:
    """A gang is one PodGroup, and that is in one queue: what a pod template says against the others is dropped.

    Source: the PodGroup CRD of scheduling.volcano.sh/v1beta1.
    """
    remedy = f"name one queue, best by the annotation {VOLCANO_QUEUE} of the workload"
    yield from disagreeing(workload, _KEYS, _KEYS, "queue", remedy)

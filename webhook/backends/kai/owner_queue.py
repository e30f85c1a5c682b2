"""The queue of TrainJobs, JobSets, LeaderWorkerSets and Jobs. KAI's podgrouper makes their groups.

Podgrouper reads the label kai.scheduler/queue (or the key that KAI was installed with) from the workload; the label of
a TrainJob's JobSet comes before the TrainJob's own. Then it reads the label of the pods, then it uses `default-queue`.
Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/{defaultgrouper,skiptopowner} (v0.17.0).
"""

from __future__ import annotations

from webhook.backends.kai.keys import LABEL_QUEUE
from webhook.backends.kai.queue import judge_name, judge_names
from webhook.backends.kai.rules import Rules
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS
from webhook.model.findings import Action, Finding
from webhook.model.known_objects import KaiQueue
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.trainjob import train_job_of
from webhook.model.workloads.workload import OwnedWorkload
from webhook.validators.owner_examples import job, job_set, pod_template, replicated, train_job
from webhook.validators.owner_names import Key, disagreeing, named
from webhook.validators.registry import Example, Results, Subject, rule

_KAI = "kai-scheduler"
_QUEUES = ClusterFacts(kai_queues={"research": KaiQueue(None), "team-a": KaiQueue("research")})


def _keys(context: Rules) -> tuple[Key, ...]:
    return (("labels", context.settings.queueLabelKey),)


@rule(
    "kai/owner-queue",
    subject=Subject.OWNER,
    passes=Example(train_job(scheduler=_KAI, labels={LABEL_QUEUE: "team-a"}), facts=_QUEUES),
    fails=Example(train_job(scheduler=_KAI, labels={LABEL_QUEUE: "research"}), facts=_QUEUES),
)
def owner_queue(workload: OwnedWorkload, context: Rules) -> Results:
    """kai-scheduler never tries a group in a queue that has children, and says only "unable to schedule". One that is
    missing, or whose parent is, counts as not there. A workload that names none is in the profile's defaultQueue, or,
    without that, in KAI's `default-queue`.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info, pkg/scheduler/actions/utils; seen with
    v0.16.8.
    """
    keys = _keys(context)
    uses = named(workload, keys, keys)
    yield from judge_names(uses, context.facts)
    default = context.settings.defaultQueue
    # For a TrainJob's JobSet, the TrainJob may name a queue.
    if not uses and default is not None and not (isinstance(workload, JobSet) and train_job_of(workload)):
        yield from judge_name(default, context.choice.path, "the profile's defaultQueue", context.facts)


@rule(
    "kai/owner-queue-disagree",
    subject=Subject.OWNER,
    passes=Example(
        job_set(
            replicated("node", template=pod_template(labels={LABEL_QUEUE: "team-a"})),
            scheduler=_KAI,
            labels={LABEL_QUEUE: "team-a"},
        )
    ),
    fails=Example(
        job_set(
            replicated("node", template=pod_template(labels={LABEL_QUEUE: "team-b"})),
            scheduler=_KAI,
            labels={LABEL_QUEUE: "team-a"},
        )
    ),
)
def owner_queue_disagree(workload: OwnedWorkload, context: Rules) -> Results:
    """The group is in one queue: the JobSet's, else the TrainJob's, else that of the first pod that podgrouper meets.
    What the others say is dropped in silence.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/{defaultgrouper,skiptopowner} (v0.17.0).
    """
    keys = _keys(context)
    remedy = f"name one queue, best by the label {context.settings.queueLabelKey} of the workload"
    yield from disagreeing(workload, keys, keys, "queue", remedy)


@rule(
    "kai/owner-queue-annotation",
    subject=Subject.OWNER,
    default=Action.WARN,
    passes=Example(job(scheduler=_KAI, labels={LABEL_QUEUE: "team-a"}, annotations={LABEL_QUEUE: "team-a"})),
    fails=Example(job(scheduler=_KAI, annotations={LABEL_QUEUE: "team-a"})),
)
def owner_queue_annotation(workload: OwnedWorkload, context: Rules) -> Results:
    """KAI reads the queue of these workloads from a label alone; by an annotation it is named to nobody.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/defaultgrouper (v0.17.0).
    """
    key = context.settings.queueLabelKey
    if key in workload.annotations and not workload.labels.get(key):
        yield Finding(
            at=ANNOTATIONS / key,
            found=workload.annotations[key],
            why="podgrouper reads that key as a label, so the workload is not in the queue that it names",
            remedy="make it a label",
        )

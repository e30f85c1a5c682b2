"""Rules for the groups that KAI's podgrouper makes for TrainJobs, JobSets, LeaderWorkerSets and Jobs: groups that never
start, or that are not gangs.

Before 0.16 the group of a JobSet has a minimum of one pod. From 0.16 on it is a tree that requires all replicated Jobs,
all Jobs of each, and all pods of each Job. The annotation kai.scheduler/batch-min-member overrides the minimum: on a
JobSet it counts replicated Jobs, on a Job it counts pods. Source: kai-scheduler/KAI-Scheduler,
pkg/podgrouper/podgrouper/plugins/{jobset,job,leaderworkerset,skiptopowner} (v0.15.2, v0.17.0).

The queue: podgrouper reads the label kai.scheduler/queue (or the key that KAI was installed with) from the workload.
The label of a TrainJob's JobSet wins over the TrainJob's own label. Without such a label podgrouper reads the label of
the pods, and then uses `default-queue`. Source: pkg/podgrouper/podgrouper/plugins/{defaultgrouper,skiptopowner}
(v0.17.0).
"""

from __future__ import annotations

from collections.abc import Iterable

from webhook.backends.kai.keys import (
    ANNOTATION_GRACE,
    ANNOTATION_GROUP,
    ANNOTATION_MINIMUM,
    ANNOTATION_SKIP,
    LABEL_QUEUE,
)
from webhook.backends.kai.podgrouper import (
    TREES,
    Fault,
    PodGrouping,
    annotations_of,
    first_parts,
    grouping_of,
    root_minimum,
    stated_minimum,
)
from webhook.backends.kai.rules.queue import judge_queue
from webhook.backends.kai.settings import RuleContext
from webhook.backends.queue_families import opted_in_disagreement, opted_in_queue
from webhook.model.capabilities import Capability
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS
from webhook.model.findings import Action, Finding
from webhook.model.go_values import nanoseconds
from webhook.model.known_objects import KaiQueue
from webhook.model.reading import mapping, text
from webhook.model.version import Version
from webhook.model.workloads.applied_pods import with_pods
from webhook.model.workloads.gang import is_claimed
from webhook.model.workloads.job import Job
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.trainjob import MadeJobSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.opted_in_examples import job, job_set, pod_template, replicated, runtimes, train_job
from webhook.validators.opted_in_names import Key
from webhook.validators.registry import Example, Results, Subject, rule

_KAI = "kai-scheduler"
# A minimum that any workload reaches with its first pod.
_ONE = {ANNOTATION_MINIMUM: "1"}
_MOST_DIGITS = 18
# From this version on, a workload says how long its group may lack pods. KAI's own time, in nanoseconds.
_GRACE, _KAI_GRACE = Version(0, 17), 60 * 10**9
_FOREVER = f'{ANNOTATION_GRACE}: "-1s"'
_STEPS = (
    replicated("initializer", 1),
    replicated("node", 2, dependsOn=[{"name": "initializer", "status": "Complete"}]),
)
_EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}


def _before_trees(context: RuleContext) -> bool:
    """Whether the profile states a version without trees. If it states none, a current version is assumed."""
    return context.scheduler_version is not None and context.scheduler_version < TREES


def _is_for_kai(context: RuleContext) -> bool:
    """Whether the pods of a workload are for KAI. A profile also judges those that name a scheduler without one."""
    return context.opted_in or context.choice.scheduler == _KAI


def _grouping(workload: OptedInWorkload, context: RuleContext) -> PodGrouping | None:
    """What podgrouper makes of a workload, or of the JobSet of a TrainJob; None if its pods name another scheduler."""
    if not _is_for_kai(context):
        return None
    whole = with_pods(workload, context.facts)
    return None if whole is None else grouping_of(whole, trees=not _before_trees(context))


def _findings(workload: OptedInWorkload, faults: Iterable[Fault], context: RuleContext) -> Results:
    """One finding for each fault, at the field that the author of the workload wrote."""
    made, version = with_pods(workload, context.facts), context.scheduler_version
    for fault in faults:
        if fault.until is not None and version is not None and version >= fault.until:
            continue
        at, why = fault.at, fault.why
        if isinstance(made, MadeJobSet) and not (at.parts[0] == "metadata" and at.parts[-1] not in made.annotations):
            where, at = made.where(at), made.in_train_job(at)
            why = why if where == str(at) else f"{why} ({where})"
        unsure = fault.until is not None and version is None
        most = Action.WARN if unsure else Action.DENY
        yield Finding(at=at, found=fault.value, why=why, remedy=fault.remedy, at_most=most)


@rule(
    "kai/owner-in-turn",
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(train_job(scheduler=_KAI, annotations=_ONE), facts=runtimes(*_STEPS)),
    fails=Example(train_job(scheduler=_KAI), facts=runtimes(*_STEPS)),
)
def dependent_steps(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Podgrouper supports InOrder but not `dependsOn`. The group waits for the pods of all steps, but the pods of later
    steps are created only after the first step runs or is complete. With InOrder it waits for one step, unless an
    annotation says more.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/jobset (v0.16.0 to v0.17.0; up to v0.15 the
    minimum is one pod unless an annotation says more).
    """
    pods = with_pods(workload, context.facts)
    if not isinstance(pods, JobSet) or pods.sequence_path is None or (pods.in_order and _before_trees(context)):
        return
    stated = stated_minimum(pods)
    needed, first = root_minimum(pods), first_parts(pods)
    if _before_trees(context):
        # One group counts the pods of all steps.
        first = 1
        needed = None if stated is None else needed
    if needed is None or needed <= first:
        return
    where = pods.where(pods.sequence_path) if isinstance(pods, MadeJobSet) else str(pods.sequence_path)
    yield Finding(
        at=ANNOTATIONS / ANNOTATION_MINIMUM,
        found=stated,
        why=f"podgrouper makes one group of all steps, and a step has no pods until another one ran ({where})",
        remedy=_in_turn_remedy(first, context),
    )


def _in_turn_remedy(first: int, context: RuleContext) -> str:
    """What to set so that the first steps start, and are not evicted while the others have no pods."""
    minimum = f'set the annotation {ANNOTATION_MINIMUM}: "{first}"'
    if _before_trees(context):
        return f"{minimum}, so that each step is its own gang"
    if _lacks_grace(context):
        return f"{minimum} and run KAI 0.17 with {_FOREVER}: before it, KAI evicts a step of over 60 s"
    return f"{minimum}, and {_FOREVER} (KAI 0.17 on), or KAI evicts a step of over 60 s"


def _lacks_grace(context: RuleContext) -> bool:
    """Whether the profile states a version in which a workload cannot say how long it may lack pods."""
    return context.scheduler_version is not None and context.scheduler_version < _GRACE


def _is_patient(job_set: JobSet, context: RuleContext) -> bool:
    """Whether a JobSet says how long it may lack pods: never evicted, or longer than KAI's 60 seconds."""
    written = text(annotations_of(job_set).get(ANNOTATION_GRACE))
    stated = None if written is None or _lacks_grace(context) else nanoseconds(written)
    return stated is not None and (stated < 0 or stated > _KAI_GRACE)


@rule(
    "kai/owner-stale",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    independent=True,
    passes=Example(train_job(scheduler=_KAI, annotations={**_ONE, ANNOTATION_GRACE: "-1s"}), facts=runtimes(*_STEPS)),
    fails=Example(train_job(scheduler=_KAI, annotations=_ONE), facts=runtimes(*_STEPS)),
)
def stale_steps(workload: OptedInWorkload, context: RuleContext) -> Results:
    """KAI evicts all pods of a group of which a leaf has had fewer pods than its minimum for 60 seconds, also if the
    group needs only some of its replicated Jobs. So a JobSet whose other steps have no pods yet, or no place, is
    evicted again and again, unless it says how long it may lack pods.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/job_info.go (`IsStale`),
    pkg/scheduler/actions/stalegangeviction, pkg/podgrouper/podgrouper/plugins/jobset (v0.17.0); such a leaf was seen
    evicted with v0.16.8.
    """
    pods = with_pods(workload, context.facts)
    if not isinstance(pods, JobSet) or _before_trees(context) or not _is_for_kai(context):
        return
    if pods.annotations.get(ANNOTATION_SKIP) == "true":
        return
    needed, count = root_minimum(pods), len(pods.parts)
    empty = sum(part.pods <= 0 for part in pods.parts)
    if needed is None or needed >= count or count - empty <= 1 or _is_patient(pods, context):
        return
    stated = stated_minimum(pods)
    at, found = ANNOTATIONS / ANNOTATION_MINIMUM, stated
    if stated is None and pods.sequence_path is not None:
        at, found = pods.sequence_path, "InOrder"
        at = pods.in_train_job(at) if isinstance(pods, MadeJobSet) else at
    remedy = f"annotate it with {_FOREVER}{', and run KAI 0.17' if _lacks_grace(context) else ' (KAI 0.17 on)'}"
    yield Finding(
        at=at,
        found=found,
        why=f"it starts with {needed} of {count} steps; KAI evicts it once another lacks pods for 60 s",
        remedy=remedy,
    )


@rule(
    "kai/owner-ungrouped",
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(job(scheduler=_KAI, annotations={ANNOTATION_MINIMUM: "2"})),
    fails=Example(job(scheduler=_KAI, annotations={ANNOTATION_MINIMUM: "all"})),
)
def ungrouped(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Podgrouper makes no PodGroup of a workload in which it cannot read a number that it needs: a minimum, the
    replicas of a PyTorchJob or MPIJob, a segment; a RayCluster with more minReplicas than replicas, or with a level of
    topology on a template and no Topology. Its pods wait, with a warning event.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/{job,jobset,leaderworkerset,ray},
    kubeflow/{distributed_common,pytorch,mpi} (v0.17.0 to 2026-08).
    """
    grouping = _grouping(workload, context)
    if grouping is not None:
        yield from _findings(workload, grouping.errors, context)


@rule(
    "kai/owner-no-gang",
    subject=Subject.OPTED_IN,
    capability=Capability.GANG,
    default=Action.WARN,
    passes=Example(job(scheduler=_KAI, annotations={ANNOTATION_MINIMUM: "2"})),
    fails=Example(job(scheduler=_KAI)),
)
def job_without_minimum(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Podgrouper's group of a Job has a minimum of one pod unless an annotation sets a higher one, so the pods start
    one by one.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/job (v0.17.0).
    """
    if not isinstance(workload, Job) or is_claimed(workload):
        # Podgrouper skips pods that name their group.
        return
    if stated_minimum(workload) is None and (pods := workload.parts[0].pods) > 1:
        yield Finding(
            at=ANNOTATIONS / ANNOTATION_MINIMUM,
            found=None,
            why="podgrouper's group of a Job has a minimum of one pod, so its pods start one by one",
            remedy=f'set the annotation {ANNOTATION_MINIMUM}: "{pods}"',
        )


@rule(
    "kai/owner-minimum",
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(job(scheduler=_KAI, annotations={ANNOTATION_MINIMUM: "2"})),
    fails=Example(job(scheduler=_KAI, annotations={ANNOTATION_MINIMUM: "3"})),
)
def minimum_above_pods(workload: OptedInWorkload, context: RuleContext) -> Results:
    """A group never starts if its minimum is higher than the number of pods that exist at a time: that of a Job, of a
    JobSet's Job, of a PyTorchJob, an MPIJob or a group of Ray's workers.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/{job,jobset,ray},
    kubeflow/{distributed_common,pytorch,mpi} (v0.17.0); for the whole JobSet v0.15.2, while later versions take no more
    than there are replicated Jobs.
    """
    grouping = _grouping(workload, context)
    if grouping is not None:
        yield from _findings(workload, grouping.unreachable, context)
    whole = with_pods(workload, context.facts)
    if not isinstance(whole, JobSet) or not _before_trees(context):
        return
    stated = stated_minimum(whole)
    if stated is None or not (stated.isascii() and stated.isdigit()):
        return
    pods = sum(part.pods for part in whole.parts)
    # Python refuses to convert a number with thousands of digits, and there are never that many pods.
    if pods > 0 and (len(stated.lstrip("0")) > _MOST_DIGITS or pods < int(stated)):
        yield Finding(
            at=ANNOTATIONS / ANNOTATION_MINIMUM,
            found=stated,
            why=f"the workload has {pods} pods at a time, and a group with a higher minimum never starts",
            remedy=f"set at most {pods}",
        )


@rule(
    "kai/owner-pods-to-come",
    subject=Subject.OPTED_IN,
    independent=True,
    passes=Example(
        job_set(replicated("node", 4, metadata={"annotations": _ONE}), scheduler=_KAI, annotations=_EXCLUSIVE)
    ),
    fails=Example(job_set(replicated("node", 4), scheduler=_KAI, annotations=_EXCLUSIVE)),
)
def pods_created_later(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Podgrouper waits for all pods that a Job, or a group of a LeaderWorkerSet, has at a time. With exclusive
    topology, the other pods are created only after the first pod is on a node. A Job with more completions than pods
    ends with fewer pods.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/{jobset,leader_worker_set} (v0.17.0), issue
    1347; jobset, pkg/webhooks/pod_admission_webhook.go (v0.12.0); lws, pkg/controllers/pod_controller.go (v0.9).
    """
    # `owner/exclusive-topology` says it of gangs that Rollcall makes.
    if context.makes_gangs or not _waits_for_all_pods(workload, context):
        return
    for found in workload.hindrances:
        if found.rule in {"owner/exclusive-topology", "owner/completions"}:
            yield Finding(at=found.at, found=found.found, why=found.why, remedy=_remedy_for(found.remedy, workload))


def _waits_for_all_pods(workload: OptedInWorkload, context: RuleContext) -> bool:
    """Whether podgrouper waits for all pods of a Job, or of a group."""
    if isinstance(workload, LeaderWorkerSet):
        # Until the leader is on a node, podgrouper waits only for the leader.
        return text(workload.spec.get("startupPolicy")) != "LeaderReady"
    if isinstance(workload, JobSet) and not _before_trees(context):
        jobs = [workload.job_metadata(index) for index, part in enumerate(workload.parts) if part.each > 1]
        return any(mapping(one.get("annotations")).get(ANNOTATION_MINIMUM) != "1" for one in jobs)
    return stated_minimum(workload) not in {None, "1"}


def _remedy_for(remedy: str, workload: OptedInWorkload) -> str:
    if isinstance(workload, JobSet):
        return f'{remedy}; or annotate the Job\'s template with {ANNOTATION_MINIMUM}: "1"'
    return remedy


@rule(
    "kai/owner-version",
    subject=Subject.OPTED_IN,
    passes=Example(job_set(scheduler=_KAI), version="0.16.8"),
    fails=Example(job_set(scheduler=_KAI), version="0.15.2"),
)
def job_set_before_trees(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Before 0.16 podgrouper's group of a JobSet has a minimum of one pod unless an annotation sets a higher one.
    The pods then start one by one instead of as a gang, without a message.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/jobset (v0.15.2).
    """
    pods = with_pods(workload, context.facts)
    if not isinstance(pods, JobSet) or not _before_trees(context) or stated_minimum(pods) is not None:
        return
    if (count := sum(part.pods for part in pods.parts)) > 1:
        yield Finding(
            at=ANNOTATIONS / ANNOTATION_MINIMUM,
            found=None,
            why=f"before {TREES} podgrouper starts the pods of a JobSet one by one",
            remedy=f'set the annotation {ANNOTATION_MINIMUM}: "{count}", or "1" if its pods need not start together',
        )


@rule(
    "kai/owner-claimed",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=Example(
        job(
            scheduler=_KAI,
            annotations={ANNOTATION_MINIMUM: "2"},
            template=pod_template(annotations={ANNOTATION_GROUP: "mine", ANNOTATION_SKIP: "true"}),
        )
    ),
    fails=Example(job(scheduler=_KAI, template=pod_template(annotations={ANNOTATION_GROUP: "mine"}))),
)
def overwritten_group(workload: OptedInWorkload, _: RuleContext) -> Results:
    """Podgrouper overwrites the group of a pod that has an ownerReference, unless an annotation tells it to skip the
    pod. The group that the template names never gets its pods.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/pod_controller.go (v0.17.0).
    """
    skipped = workload.annotations.get(ANNOTATION_SKIP) == "true"
    for part in workload.distinct_parts:
        said = part.template.annotations
        if said.get(ANNOTATION_GROUP) and said.get(ANNOTATION_SKIP) != "true" and not skipped:
            yield Finding(
                at=part.template.annotations_path / ANNOTATION_GROUP,
                found=said[ANNOTATION_GROUP],
                why="podgrouper makes its own group for these pods and overwrites the annotation",
                remedy=f'add the annotation {ANNOTATION_SKIP}: "true", or remove this one',
            )


_QUEUES = ClusterFacts(kai_queues={"research": KaiQueue(None), "team-a": KaiQueue("research")})


def _keys(context: RuleContext) -> tuple[Key, ...]:
    return (("labels", context.settings.queueLabelKey),)


queue = opted_in_queue(
    "kai/owner-queue",
    """kai-scheduler never tries a group in a queue that is missing, whose parent is missing, or that has children. For
    a queue with children it reports only "unable to schedule". A workload without a queue is in the profile's
    defaultQueue. If the profile has none, the workload is in KAI's `default-queue`.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info, pkg/scheduler/actions/utils; seen with
    v0.16.8.
    """,
    keys=_keys,
    judge=judge_queue,
    passes=Example(train_job(scheduler=_KAI, labels={LABEL_QUEUE: "team-a"}), facts=_QUEUES),
    fails=Example(train_job(scheduler=_KAI, labels={LABEL_QUEUE: "research"}), facts=_QUEUES),
)


queue_disagree = opted_in_disagreement(
    "kai/owner-queue-disagree",
    """A group has one queue: the JobSet's, else the TrainJob's, else that of the first pod that podgrouper sees.
    Podgrouper ignores the other values without a message.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/{defaultgrouper,skiptopowner} (v0.17.0).
    """,
    scheduler=_KAI,
    key=("labels", LABEL_QUEUE),
    keys=_keys,
    of_pods=_keys,
    remedy=lambda context: f"name one queue, preferably in the workload's label {context.settings.queueLabelKey}",
)


@rule(
    "kai/owner-queue-annotation",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    independent=True,
    passes=Example(job(scheduler=_KAI, labels={LABEL_QUEUE: "team-a"}, annotations={LABEL_QUEUE: "team-a"})),
    fails=Example(job(scheduler=_KAI, annotations={LABEL_QUEUE: "team-a"})),
)
def queue_annotation(workload: OptedInWorkload, context: RuleContext) -> Results:
    """KAI reads the queue of these workloads only from a label. An annotation with the queue has no effect.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/defaultgrouper (v0.17.0).
    """
    key = context.settings.queueLabelKey
    if key in workload.annotations and not workload.labels.get(key):
        yield Finding(
            at=ANNOTATIONS / key,
            found=workload.annotations[key],
            why="podgrouper reads this key only as a label, so the workload is not in this queue",
            remedy="set it as a label instead",
        )

"""Rules about the groups and the topology that KAI's podgrouper makes for TrainJobs, JobSets, LeaderWorkerSets and
Jobs, and about workloads of declared kinds: groups that never start, or that are not gangs.

Before 0.16 the group of a JobSet has a minimum of one pod. From 0.16 on it is a tree that requires all replicated
Jobs, all Jobs of each, and all pods of each Job. The annotation kai.scheduler/batch-min-member overrides the minimum:
on a JobSet it counts replicated Jobs, on a Job it counts pods.

The queue: podgrouper reads the label kai.scheduler/queue (or the key that KAI was installed with) from the workload.
The label of a TrainJob's JobSet wins over the TrainJob's own label. Without such a label podgrouper reads the label of
the pods, and then uses `default-queue`.

The topology: podgrouper reads three annotations, on the workload for the whole PodGroup, on the template of a JobSet's
Jobs for each Job, and on the pod templates of Ray's head and groups of workers for each of these. If a TrainJob's
JobSet lacks an annotation, podgrouper adds the TrainJob's. It ignores a Job's annotations unless they name a Topology
and a level, and before 0.16 in any case.

Podgrouper knows kinds by a table. The pods of a kind that is not in it would get a group with a minimum of one pod,
each pod of a Deployment a group of its own. Rollcall makes the gangs of these kinds.

Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/hub/hub.go and
plugins/{defaultgrouper,deployment,job,jobset,kubeflow,leaderworkerset,podjob,ray,skiptopowner} (v0.15.2, v0.17.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from webhook.backends.kai import keys, pod_groups, podgrouper
from webhook.backends.kai.gangs import named_queue
from webhook.backends.kai.keys import NAME, RuleContext
from webhook.backends.kai.pod_clique_sets import judge_queue
from webhook.backends.queues import leaves, opted_in_disagreement, opted_in_queue, suggested
from webhook.backends.topologies import CarriedTopology, opted_in_topology
from webhook.model.admission_request import value_at
from webhook.model.capabilities import Capability, Use
from webhook.model.facts import ClusterFacts
from webhook.model.fields import ANNOTATIONS, LABELS
from webhook.model.findings import Action, Finding
from webhook.model.known_objects import KaiLevels, KaiQueue
from webhook.model.quantity import Version, nanoseconds
from webhook.model.reading import Manifest, integer, mapping, text
from webhook.validators.examples import (
    disaggregated_set,
    job,
    job_set,
    pod_template,
    ray_cluster,
    replicated,
    runtimes,
    train_job,
)
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.validators.shared_checks import Key
from webhook.workloads.job import Job
from webhook.workloads.jobset import JobSet
from webhook.workloads.kueue_integration import workload_with_pods
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import (
    KAI_REQUIRED,
    KAI_TOPOLOGY,
    Annotations,
    annotations_of_jobs,
    annotations_of_pods,
    annotations_of_workload,
    is_claimed,
    no_gang,
)
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.trainjob import TrainerJobSet, TrainJob

owner_rule = partial(rule, subject=Subject.OPTED_IN)
# A minimum that any workload reaches with its first pod.
_ONE = {keys.ANNOTATION_MINIMUM: "1"}
_MOST_DIGITS = 18
# From this version on, a workload says how long its group may lack pods. KAI's own time, in nanoseconds.
_GRACE, _KAI_GRACE = Version(0, 17), 60 * 10**9
_FOREVER = f'{keys.ANNOTATION_GRACE}: "-1s"'
_STEPS = (
    replicated("initializer", 1),
    replicated("node", 2, dependsOn=[{"name": "initializer", "status": "Complete"}]),
)
_EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}


def _lacks_trees(context: RuleContext) -> bool:
    """Returns whether the profile states a version without trees. If it states none, a current version is assumed."""
    return context.scheduler_version is not None and context.scheduler_version < podgrouper.TREES


def _is_for_kai(context: RuleContext) -> bool:
    """Returns whether the pods are for KAI. A profile also judges workloads that name a scheduler without one."""
    return context.opted_in or context.choice.scheduler == NAME


def _grouping(workload: OptedInWorkload, context: RuleContext) -> podgrouper.PodGrouping | None:
    """Returns what podgrouper makes of a workload or of a TrainJob's JobSet; None for another scheduler."""
    if not _is_for_kai(context):
        return None
    whole = workload_with_pods(workload, context.facts)
    return None if whole is None else podgrouper.grouping_of(whole, trees=not _lacks_trees(context))


def _findings(workload: OptedInWorkload, faults: Iterable[podgrouper.GroupingFault], context: RuleContext) -> Results:
    """Yields one finding for each fault, at the field that the author of the workload wrote."""
    whole, version = workload_with_pods(workload, context.facts), context.scheduler_version
    for fault in faults:
        if fault.until is not None and version is not None and version >= fault.until:
            continue
        at, why = fault.at, fault.why
        if isinstance(whole, TrainerJobSet) and not (
            at.parts[0] == "metadata" and at.parts[-1] not in whole.annotations
        ):
            where, at = whole.where(at), whole.path_in_train_job(at)
            why = why if where == str(at) else f"{why} ({where})"
        unsure = fault.until is not None and version is None
        most = Action.WARN if unsure else Action.DENY
        yield Finding(at=at, value=fault.value, why=why, remedy=fault.remedy, at_most=most)


@owner_rule(
    "kai/owner-in-turn",
    independent=True,
    passes=Example(train_job(scheduler=NAME, annotations=_ONE), facts=runtimes(*_STEPS)),
    fails=Example(train_job(scheduler=NAME), facts=runtimes(*_STEPS)),
)
def dependent_steps(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Podgrouper supports InOrder but not `dependsOn`. The group waits for the pods of all steps, but the pods of later
    steps are created only after the first step runs or is complete. With InOrder it waits for one step, unless an
    annotation says more.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/jobset (v0.16.0 to v0.17.0; up to v0.15 the
    minimum is one pod unless an annotation says more).
    """
    pods = workload_with_pods(workload, context.facts)
    if not isinstance(pods, JobSet) or pods.sequence_path is None or (pods.starts_in_order and _lacks_trees(context)):
        return
    stated = podgrouper.stated_minimum(pods)
    needed, first = podgrouper.root_minimum(pods), podgrouper.first_parts(pods)
    if _lacks_trees(context):
        # One group counts the pods of all steps.
        first = 1
        needed = None if stated is None else needed
    if needed is None or needed <= first:
        return
    where = pods.where(pods.sequence_path) if isinstance(pods, TrainerJobSet) else str(pods.sequence_path)
    why = f"podgrouper makes one group of all steps, and a step has no pods until another one ran ({where})"
    yield Finding(at=ANNOTATIONS / keys.ANNOTATION_MINIMUM, value=stated, why=why, remedy=_steps_remedy(first, context))


def _steps_remedy(first: int, context: RuleContext) -> str:
    """Returns what to set so that the first steps start, and are not evicted while the others have no pods."""
    minimum = f'set the annotation {keys.ANNOTATION_MINIMUM}: "{first}"'
    if _lacks_trees(context):
        return f"{minimum}, so that each step is its own gang"
    if _lacks_grace(context):
        return f"{minimum} and run KAI 0.17 with {_FOREVER}: before it, KAI evicts a step of over 60 s"
    return f"{minimum}, and {_FOREVER} (KAI 0.17 on), or KAI evicts a step of over 60 s"


def _lacks_grace(context: RuleContext) -> bool:
    """Returns whether the profile states a version in which a workload cannot say how long it may lack pods."""
    return context.scheduler_version is not None and context.scheduler_version < _GRACE


def _is_patient(workload: JobSet, context: RuleContext) -> bool:
    """Returns whether a JobSet says how long it may lack pods: never evicted, or longer than KAI's 60 seconds."""
    written = text(podgrouper.annotations_of(workload).get(keys.ANNOTATION_GRACE))
    stated = None if written is None or _lacks_grace(context) else nanoseconds(written)
    return stated is not None and (stated < 0 or stated > _KAI_GRACE)


@owner_rule(
    "kai/owner-stale",
    default=Action.WARN,
    independent=True,
    passes=Example(
        train_job(scheduler=NAME, annotations={**_ONE, keys.ANNOTATION_GRACE: "-1s"}), facts=runtimes(*_STEPS)
    ),
    fails=Example(train_job(scheduler=NAME, annotations=_ONE), facts=runtimes(*_STEPS)),
)
def stale_steps(workload: OptedInWorkload, context: RuleContext) -> Results:
    """KAI evicts all pods of a group of which a leaf has had fewer pods than its minimum for 60 seconds, also if the
    group needs only some of its replicated Jobs. So a JobSet whose other steps have no pods yet, or no place, is
    evicted again and again, unless it says how long it may lack pods.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/job_info.go (`IsStale`),
    pkg/scheduler/actions/stalegangeviction, pkg/podgrouper/podgrouper/plugins/jobset (v0.17.0); such a leaf was seen
    evicted with v0.16.8.
    """
    pods = workload_with_pods(workload, context.facts)
    if not isinstance(pods, JobSet) or _lacks_trees(context) or not _is_for_kai(context):
        return
    if pods.annotations.get(keys.ANNOTATION_SKIP) == "true":
        return
    needed, count = podgrouper.root_minimum(pods), len(pods.parts)
    empty = sum(part.pods <= 0 for part in pods.parts)
    if needed is None or needed >= count or count - empty <= 1 or _is_patient(pods, context):
        return
    stated = podgrouper.stated_minimum(pods)
    at, value = ANNOTATIONS / keys.ANNOTATION_MINIMUM, stated
    if stated is None and pods.sequence_path is not None:
        at, value = pods.sequence_path, "InOrder"
        at = pods.path_in_train_job(at) if isinstance(pods, TrainerJobSet) else at
    remedy = f"annotate it with {_FOREVER}{', and run KAI 0.17' if _lacks_grace(context) else ' (KAI 0.17 on)'}"
    why = f"it starts with {needed} of {count} steps; KAI evicts it once another lacks pods for 60 s"
    yield Finding(at=at, value=value, why=why, remedy=remedy)


@owner_rule(
    "kai/owner-ungrouped",
    independent=True,
    passes=Example(job(scheduler=NAME, annotations={keys.ANNOTATION_MINIMUM: "2"})),
    fails=Example(job(scheduler=NAME, annotations={keys.ANNOTATION_MINIMUM: "all"})),
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


@owner_rule(
    "kai/owner-no-gang",
    capability=Capability.GANG,
    default=Action.WARN,
    passes=Example(job(scheduler=NAME, annotations={keys.ANNOTATION_MINIMUM: "2"})),
    fails=Example(job(scheduler=NAME)),
)
def job_without_minimum(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Podgrouper's group of a Job has a minimum of one pod unless an annotation sets a higher one, so the pods start
    one by one.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/job (v0.17.0).
    """
    if not isinstance(workload, Job) or is_claimed(workload):
        # Podgrouper skips pods that name their group.
        return
    if podgrouper.stated_minimum(workload) is None and (pods := workload.parts[0].pods) > 1:
        why = "podgrouper's group of a Job has a minimum of one pod, so its pods start one by one"
        remedy = f'set the annotation {keys.ANNOTATION_MINIMUM}: "{pods}"'
        yield Finding(at=ANNOTATIONS / keys.ANNOTATION_MINIMUM, value=None, why=why, remedy=remedy)


@owner_rule(
    "kai/owner-minimum",
    independent=True,
    passes=Example(job(scheduler=NAME, annotations={keys.ANNOTATION_MINIMUM: "2"})),
    fails=Example(job(scheduler=NAME, annotations={keys.ANNOTATION_MINIMUM: "3"})),
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
    whole = workload_with_pods(workload, context.facts)
    if not isinstance(whole, JobSet) or not _lacks_trees(context):
        return
    stated = podgrouper.stated_minimum(whole)
    if stated is None or not (stated.isascii() and stated.isdigit()):
        return
    pods = sum(part.pods for part in whole.parts)
    # Python refuses to convert a number with thousands of digits, and there are never that many pods.
    if pods > 0 and (len(stated.lstrip("0")) > _MOST_DIGITS or pods < int(stated)):
        why = f"the workload has {pods} pods at a time, and a group with a higher minimum never starts"
        yield Finding(at=ANNOTATIONS / keys.ANNOTATION_MINIMUM, value=stated, why=why, remedy=f"set at most {pods}")


@owner_rule(
    "kai/owner-pods-to-come",
    independent=True,
    passes=Example(
        job_set(replicated("node", 4, metadata={"annotations": _ONE}), scheduler=NAME, annotations=_EXCLUSIVE)
    ),
    fails=Example(job_set(replicated("node", 4), scheduler=NAME, annotations=_EXCLUSIVE)),
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
    for hindrance in workload.hindrances:
        if hindrance.rule in {"owner/exclusive-topology", "owner/completions"}:
            remedy = hindrance.remedy
            if isinstance(workload, JobSet):
                remedy = f'{remedy}; or annotate the Job\'s template with {keys.ANNOTATION_MINIMUM}: "1"'
            yield Finding(at=hindrance.at, value=hindrance.value, why=hindrance.why, remedy=remedy)


def _waits_for_all_pods(workload: OptedInWorkload, context: RuleContext) -> bool:
    if isinstance(workload, LeaderWorkerSet):
        # Until the leader is on a node, podgrouper waits only for the leader.
        return text(workload.spec.get("startupPolicy")) != "LeaderReady"
    if isinstance(workload, JobSet) and not _lacks_trees(context):
        jobs = [workload.job_metadata(index) for index, part in enumerate(workload.parts) if part.each > 1]
        return any(mapping(metadata.get("annotations")).get(keys.ANNOTATION_MINIMUM) != "1" for metadata in jobs)
    return podgrouper.stated_minimum(workload) not in {None, "1"}


@owner_rule(
    "kai/owner-version",
    passes=Example(job_set(scheduler=NAME), version="0.16.8"),
    fails=Example(job_set(scheduler=NAME), version="0.15.2"),
)
def job_set_before_trees(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Before 0.16 podgrouper's group of a JobSet has a minimum of one pod unless an annotation sets a higher one.
    The pods then start one by one instead of as a gang, without a message.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/jobset (v0.15.2).
    """
    pods = workload_with_pods(workload, context.facts)
    if not isinstance(pods, JobSet) or not _lacks_trees(context) or podgrouper.stated_minimum(pods) is not None:
        return
    if (count := sum(part.pods for part in pods.parts)) > 1:
        why = f"before {podgrouper.TREES} podgrouper starts the pods of a JobSet one by one"
        remedy = f'set the annotation {keys.ANNOTATION_MINIMUM}: "{count}", or "1" if its pods need not start together'
        yield Finding(at=ANNOTATIONS / keys.ANNOTATION_MINIMUM, value=None, why=why, remedy=remedy)


@owner_rule(
    "kai/owner-claimed",
    default=Action.WARN,
    passes=Example(
        job(
            scheduler=NAME,
            annotations={keys.ANNOTATION_MINIMUM: "2"},
            template=pod_template(annotations={keys.ANNOTATION_GROUP: "mine", keys.ANNOTATION_SKIP: "true"}),
        )
    ),
    fails=Example(job(scheduler=NAME, template=pod_template(annotations={keys.ANNOTATION_GROUP: "mine"}))),
)
def overwritten_group(workload: OptedInWorkload, _: RuleContext) -> Results:
    """Podgrouper overwrites the group of a pod that has an ownerReference, unless an annotation tells it to skip the
    pod. The group that the template names never gets its pods.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/pod_controller.go (v0.17.0).
    """
    skipped = workload.annotations.get(keys.ANNOTATION_SKIP) == "true"
    for part in workload.distinct_parts:
        annotations = part.template.annotations
        if annotations.get(keys.ANNOTATION_GROUP) and annotations.get(keys.ANNOTATION_SKIP) != "true" and not skipped:
            path = part.template.annotations_path / keys.ANNOTATION_GROUP
            why = "podgrouper makes its own group for these pods and overwrites the annotation"
            remedy = f'add the annotation {keys.ANNOTATION_SKIP}: "true", or remove this one'
            yield Finding(at=path, value=annotations[keys.ANNOTATION_GROUP], why=why, remedy=remedy)


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
    passes=Example(train_job(scheduler=NAME, labels={keys.LABEL_QUEUE: "team-a"}), facts=_QUEUES),
    fails=Example(train_job(scheduler=NAME, labels={keys.LABEL_QUEUE: "research"}), facts=_QUEUES),
)

queue_disagree = opted_in_disagreement(
    "kai/owner-queue-disagree",
    """A group has one queue: the JobSet's, else the TrainJob's, else that of the first pod that podgrouper sees.
    Podgrouper ignores the other values without a message.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/{defaultgrouper,skiptopowner} (v0.17.0).
    """,
    scheduler=NAME,
    key=("labels", keys.LABEL_QUEUE),
    keys=_keys,
    of_pods=_keys,
    remedy=lambda context: f"name one queue, preferably in the workload's label {context.settings.queueLabelKey}",
)


@owner_rule(
    "kai/owner-queue-annotation",
    default=Action.WARN,
    independent=True,
    passes=Example(job(scheduler=NAME, labels={keys.LABEL_QUEUE: "team-a"}, annotations={keys.LABEL_QUEUE: "team-a"})),
    fails=Example(job(scheduler=NAME, annotations={keys.LABEL_QUEUE: "team-a"})),
)
def queue_annotation(workload: OptedInWorkload, context: RuleContext) -> Results:
    """KAI reads the queue of these workloads only from a label. An annotation with the queue has no effect.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/defaultgrouper (v0.17.0).
    """
    key = context.settings.queueLabelKey
    if key in workload.annotations and not workload.labels.get(key):
        why = "podgrouper reads this key only as a label, so the workload is not in this queue"
        remedy = "set it as a label instead"
        yield Finding(at=ANNOTATIONS / key, value=workload.annotations[key], why=why, remedy=remedy)


_ZONE, _RACK = "example.com/zone", "example.com/rack"
_LEVELS = ClusterFacts(kai_topologies={"dc": KaiLevels((_ZONE, _RACK), {})})
_FACTS = replace(runtimes(), kai_topologies=_LEVELS.kai_topologies)


def _near(topology: str = "dc") -> dict[str, str]:
    return {KAI_TOPOLOGY: topology, KAI_REQUIRED: _RACK}


def _read_by_podgrouper(workload: OptedInWorkload, context: RuleContext) -> OptedInWorkload | None:
    """Returns the workload whose PodGroup podgrouper makes. If the runtime of a TrainJob is unknown, only the
    TrainJob's own annotations are known. None if podgrouper makes no PodGroup, or if the JobSet is judged with its
    TrainJob.
    """
    if workload.annotations.get(keys.ANNOTATION_SKIP) == "true":
        return None
    whole = workload_with_pods(workload, context.facts)
    return workload if whole is None and isinstance(workload, TrainJob) else whole


def _topology_uses(place: Annotations) -> dict[str, Use]:
    return {keys.TOPOLOGY_FIELDS[str(use.path.parts[-1])]: use for use in place.asks(*keys.TOPOLOGY_FIELDS)}


def _whole_uses(whole: OptedInWorkload) -> dict[str, Use]:
    """Returns what the whole PodGroup asks for, by field, with the places in the workload that its author wrote."""
    uses = _placed(_topology_uses(annotations_of_workload(whole)), whole)
    if isinstance(whole, TrainerJobSet):
        merged = {**_topology_uses(annotations_of_workload(whole.train_job)), **uses}
        uses = {field: merged[field] for field in keys.TOPOLOGY_FIELDS.values() if field in merged}
    return uses


def _is_complete(uses: Mapping[str, Use]) -> bool:
    """Returns whether podgrouper reads what a Job asks for."""
    return "topology" in uses and len(uses) > 1


def _carried(workload: OptedInWorkload, context: RuleContext) -> Iterator[CarriedTopology]:
    whole = _read_by_podgrouper(workload, context)
    if whole is None:
        return
    places = [_whole_uses(whole)]
    if podgrouper.reads_pods(whole):
        places += [
            uses for part in whole.distinct_parts if _is_complete(uses := _topology_uses(annotations_of_pods(part)))
        ]
    if not _lacks_trees(context):
        places += [
            _placed(uses, whole) for uses in map(_topology_uses, annotations_of_jobs(whole)) if _is_complete(uses)
        ]
    for uses in places:
        if uses:
            constraint = {field: use.value for field, use in uses.items()}
            metadata = {"name": whole.name, "namespace": whole.namespace}
            manifest = {"metadata": metadata, "spec": {"topologyConstraint": constraint}}
            yield CarriedTopology(manifest, uses, _where(uses, whole))


def _placed(uses: Mapping[str, Use], whole: OptedInWorkload) -> dict[str, Use]:
    if not isinstance(whole, TrainerJobSet):
        return dict(uses)
    return {field: Use(whole.path_in_train_job(use.path), use.value) for field, use in uses.items()}


def _where(uses: Mapping[str, Use], whole: OptedInWorkload) -> str:
    """Names the runtime of a TrainJob, if it is the origin of a value."""
    if isinstance(whole, TrainerJobSet) and any(use.path == whole.train_job.runtime_path for use in uses.values()):
        return f"{whole.train_job.runtime_kind} {whole.runtime.name}"
    return ""


topology = opted_in_topology(
    "kai/owner-topology",
    """kai-scheduler never starts a group whose Topology does not exist, whose level is not in the Topology, that names
    no level, or whose preferred level is broader than the required one. If the level is at fault, it reports only
    "unable to schedule". Podgrouper copies the annotations of these workloads without a check.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/{defaultgrouper,jobset},
    pkg/scheduler/plugins/topology; seen with v0.16.8.
    """,
    kind=keys.POD_GROUPS,
    version=keys.POD_GROUP.version,
    rules=(pod_groups.group_topology,),
    carried=_carried,
    looks_at=keys.TOPOLOGY_FIELDS,
    passes=Example(train_job(scheduler=NAME, annotations=_near()), facts=_FACTS),
    fails=Example(train_job(scheduler=NAME, annotations=_near("racks")), facts=_FACTS),
)

unnamed = opted_in_topology(
    "kai/owner-topology-unnamed",
    """kai-scheduler ignores a level without a Topology, and the pods start on any nodes.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/api/podgroup_info/subgroup_info/factory.go; seen with v0.16.8.
    """,
    kind=keys.POD_GROUPS,
    version=keys.POD_GROUP.version,
    rules=(pod_groups.group_topology_unnamed,),
    carried=_carried,
    looks_at=keys.TOPOLOGY_FIELDS,
    passes=Example(train_job(scheduler=NAME, annotations=_near()), facts=_FACTS),
    fails=Example(train_job(scheduler=NAME, annotations={KAI_REQUIRED: _RACK}), facts=_FACTS),
    default=Action.WARN,
)


def _annotated_job_set(**annotations: str) -> Manifest:
    prefixed = {f"kai.scheduler/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return job_set(replicated("node", metadata={"annotations": prefixed}), scheduler=NAME)


@owner_rule(
    "kai/owner-topology-of-jobs",
    capability=Capability.TOPOLOGY_WORKLOAD,
    looks_at=keys.TOPOLOGY_FIELDS,
    default=Action.WARN,
    passes=Example(_annotated_job_set(topology="dc", topology_required_placement=_RACK), facts=_LEVELS),
    fails=Example(_annotated_job_set(topology_required_placement=_RACK), facts=_LEVELS),
)
def topology_of_jobs(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Podgrouper reads the topology of a JobSet's Jobs only if the same template names a Topology and a level, and only
    from 0.16 on. Otherwise it ignores these annotations without a message, as it ignores a Topology without a level on
    a template of Ray's.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/{jobset,ray} (v0.15.2, v0.17.0).
    """
    whole = _read_by_podgrouper(workload, context)
    for part in whole.distinct_parts if whole is not None and podgrouper.reads_pods(whole) else ():
        uses = _topology_uses(annotations_of_pods(part))
        if uses.keys() == {"topology"}:
            use = uses["topology"]
            why, remedy = "podgrouper ignores it without a level", f"add {KAI_REQUIRED} to the template"
            yield Finding(at=use.path, value=use.value, why=why, remedy=remedy)
    for place in () if whole is None else annotations_of_jobs(whole):
        uses = _topology_uses(place)
        if not uses or (_is_complete(uses) and not _lacks_trees(context)):
            continue
        use = next(iter(_placed(uses, whole or workload).values()))
        if not _lacks_trees(context):
            other = KAI_REQUIRED if "topology" in uses else KAI_TOPOLOGY
            why = "podgrouper ignores it without the other annotation"
            remedy = f"add {other} to the template"
        else:
            why = f"before {podgrouper.TREES} podgrouper does not read the topology of a JobSet's Jobs"
            remedy = "set it on the workload itself"
        yield Finding(at=use.path, value=use.value, why=why, remedy=remedy)


@owner_rule(
    "kai/owner-no-queue",
    fails_closed=True,
    passes=Example(disaggregated_set(scheduler=NAME, labels={keys.LABEL_QUEUE: "team-a"})),
    fails=Example(disaggregated_set(scheduler=NAME)),
)
def no_queue(workload: OptedInWorkload, context: RuleContext) -> Results:
    """kai-scheduler does not start a gang without a queue. Podgrouper puts a workload without one into `default-queue`,
    but it does not know workloads of this kind, so Rollcall makes their PodGroups.

    Source: kai-scheduler/KAI-Scheduler, pkg/scheduler/cache/cluster_info, pkg/podgrouper/podgrouper/hub/hub.go
    (v0.17.0); a PodGroup without a queue was seen with v0.16.8.
    """
    # A LeaderWorkerSet may have the queue of the workload that made it, which was judged.
    if not context.makes_gangs or isinstance(workload, LeaderWorkerSet) or no_gang(workload) is not None:
        return
    key = context.settings.queueLabelKey
    queue_name = named_queue(workload, context.settings) or context.settings.defaultQueue
    if workload.has_gangs and queue_name is None:
        why = "the workload names no queue and the profile has no defaultQueue, so its gang never starts"
        remedy = f"name a leaf Queue in the label {key}, or in the profile's defaultQueue"
        leaf_queues = suggested(leaves(context.facts.kai_queues or {}))
        yield Finding(at=LABELS / key, value=None, why=why, remedy=remedy, instead=leaf_queues)


@owner_rule(
    "kai/ray-minimum",
    default=Action.WARN,
    independent=True,
    passes=Example(ray_cluster(scheduler=NAME, minReplicas=2)),
    fails=Example(ray_cluster(scheduler=NAME, minReplicas=1)),
)
def ray_minimum(workload: OptedInWorkload, _: RuleContext) -> Results:
    """Podgrouper takes the minimum of a worker group from minReplicas if that is above 0, whether an autoscaler is
    enabled or not. With fewer than `replicas` the cluster starts without some of its workers.

    Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/ray (v0.17.0), issue 500.
    """
    if workload.resource.api.group != podgrouper.RAY:
        return
    for part in workload.parts:
        entry = mapping(value_at(workload.raw, part.path)[1])
        least, replicas = integer(entry.get("minReplicas")), integer(entry.get("replicas")) or 0
        if least and part.needed == part.pods and least < replicas:
            why = f"KAI's group needs only {least} of the {replicas} replicas of {part.name}"
            remedy = "set minReplicas to replicas, or enable the autoscaler"
            yield Finding(at=part.path / "minReplicas", value=least, why=why, remedy=remedy)

"""The facts of opted-in workloads, by namespace and name, and the facts that are known of a cluster whichever
schedulers are enabled.

In a cluster only the workloads that Rollcall has recorded are watched: Rollcall's label on them narrows list and
watch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from webhook.model import projections
from webhook.model.bounds import KEPT_BYTES, Packed, names_kept
from webhook.model.keys import ObjectKey, Record
from webhook.model.known_kinds import (
    CLUSTER_TRAINING_RUNTIMES,
    JOB_SETS,
    JOBS,
    LEADER_WORKER_SETS,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    is_a,
)
from webhook.model.kueue_objects import FOLLOWED, KUEUE_PROJECTIONS, WORKLOADS
from webhook.model.nodes import GROWTH, NODES
from webhook.model.pod_gang_map import POD_GANG_MAPS
from webhook.model.reading import Manifest, mapping
from webhook.model.resources import DEVICE_PROJECTIONS, LIMIT_RANGES, RESOURCE_QUOTAS
from webhook.model.workload_record import SCHEDULER_LABEL
from webhook.workloads.job import Job
from webhook.workloads.jobset import JobSet
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import names_of, no_gang
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.trainjob import Runtime, TrainJob, train_job_of


class WorkloadFacts(NamedTuple):
    """What an opted-in workload's pods and owned objects depend on. `no_gang` is the reason why Rollcall makes no gang
    for it. `train_job` is the TrainJob that made it. `names` are the names of its gangs and their members; None if
    there are more than the limit. No gang needs pods of the parts in `spare`. `together` has the roles of which
    a stated number of groups starts together.
    """

    record: Record
    uid: str | None = None
    sequenced: bool = False
    no_gang: str | None = None
    train_job: ObjectKey | None = None
    names: frozenset[str] | None = frozenset()
    spare: frozenset[str] | None = frozenset()
    together: tuple[tuple[str, int], ...] = ()


def workload_facts(workload: OptedInWorkload) -> WorkloadFacts:
    """Returns the facts that are kept of a workload. Raises `Malformed`."""
    barred = no_gang(workload)
    made_by = train_job_of(workload) if isinstance(workload, JobSet) else None
    sequenced = workload.gang_per_part
    why = None if barred is None else barred.why
    if isinstance(workload, Job) and (made_it := workload.controller) is not None and is_a(made_it, JOB_SETS):
        # Pods of a JobSet's Jobs are assigned to the JobSet. Any other Job that names a JobSet as its controller gets
        # no gang.
        why = f"its Job names JobSet {made_it.name} as its controller, but its pods do not belong to that JobSet"
    names = names_kept(names_of(workload))
    spare = frozenset(part.name for part in workload.parts if part.needed == 0) if workload.crd else frozenset()
    together = tuple((workload.together or {}).items())
    return WorkloadFacts(workload.record, workload.uid, sequenced, why, made_by, names, names_kept(spare), together)


# The view of each kind, by group and kind.
VIEWS: Mapping[tuple[str, str], type[OptedInWorkload]] = {
    (view.resource.api.group, view.resource.api.kind): view for view in (Job, JobSet, LeaderWorkerSet, TrainJob)
}


def _reader(view: type[OptedInWorkload]) -> Callable[[Manifest], tuple[ObjectKey, WorkloadFacts]]:
    def read(raw: Manifest) -> tuple[ObjectKey, WorkloadFacts]:
        return projections.key_of(raw), workload_facts(view(raw))

    return read


def _spec(raw: Manifest) -> Packed:
    runtime = {"metadata": {"name": projections.name_of(raw)}, "spec": dict(mapping(raw.get("spec")))}
    packed = Packed.pack(runtime)
    if len(packed) <= KEPT_BYTES:
        # An unreadable runtime must fail here, and not as a fault of the TrainJob that names it. For a runtime that is
        # too large to keep, this check would take too long for one event.
        job_set = TrainJob({}).job_set(Runtime(runtime))
        _ = job_set.record, job_set.sequence_path, job_set.hindrances, names_of(job_set)
    return packed


def _runtime(raw: Manifest) -> tuple[ObjectKey, Packed]:
    return projections.key_of(raw), _spec(raw)


def _cluster_runtime(raw: Manifest) -> tuple[str, Packed]:
    return projections.name_of(raw), _spec(raw)


# What `rollcall facts` writes of the workloads and runtimes.
_MARKS = ("metadata.labels", "metadata.annotations")
_COMMON = (*_MARKS, "metadata.uid", "metadata.ownerReferences", "spec.managedBy", "spec.suspend", "spec.scheduling")
_COUNTS = ("parallelism", "completions", "scheduling")


def _job_fields(job: str) -> tuple[str, ...]:
    return (*(f"{job}.{field}" for field in _COUNTS), *projections.template_fields(f"{job}.template"))


def _job_set_fields(spec: str) -> tuple[str, ...]:
    jobs = f"{spec}.replicatedJobs"
    fields = tuple(f"{jobs}.{field}" for field in ("name", "replicas", "dependsOn"))
    marks = tuple(f"{jobs}.template.{mark}" for mark in _MARKS)
    return (f"{spec}.startupPolicy", f"{spec}.scheduling", *fields, *marks, *_job_fields(f"{jobs}.template.spec"))


_OF_LEADER_WORKER_SETS = (
    "spec.replicas",
    "spec.startupPolicy",
    "spec.leaderWorkerTemplate.size",
    *projections.template_fields(
        "spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"
    ),
)
_PATCH = "spec.runtimePatches.trainingRuntimeSpec.template"
_OF_TRAIN_JOBS = (
    "spec.runtimeRef",
    "spec.trainer.numNodes",
    *(f"{_PATCH}.{mark}" for mark in _MARKS),
    *_job_set_fields(f"{_PATCH}.spec"),
)
_OF_RUNTIMES = (
    "spec.podGroupPolicy",
    "spec.mlPolicy.numNodes",
    "spec.mlPolicy.mpi.runLauncherAsNode",
    *(f"spec.template.{mark}" for mark in _MARKS),
    *_job_set_fields("spec.template.spec"),
)
TRAIN_JOB_FACTS = projections.Projection(
    "train_jobs", TRAIN_JOBS, _reader(TrainJob), label_selector=SCHEDULER_LABEL, fields=(*_COMMON, *_OF_TRAIN_JOBS)
)
PROJECTIONS = (
    projections.Projection(
        "jobs", JOBS, _reader(Job), label_selector=SCHEDULER_LABEL, fields=(*_COMMON, *_job_fields("spec"))
    ),
    projections.Projection(
        "job_sets",
        JOB_SETS,
        _reader(JobSet),
        label_selector=SCHEDULER_LABEL,
        fields=(*_COMMON, *_job_set_fields("spec")),
    ),
    projections.Projection(
        "leader_worker_sets",
        LEADER_WORKER_SETS,
        _reader(LeaderWorkerSet),
        label_selector=SCHEDULER_LABEL,
        fields=(*_COMMON, *_OF_LEADER_WORKER_SETS),
    ),
    TRAIN_JOB_FACTS,
    projections.Projection("training_runtimes", TRAINING_RUNTIMES, _runtime, fields=_OF_RUNTIMES),
    projections.Projection(
        "cluster_training_runtimes", CLUSTER_TRAINING_RUNTIMES, _cluster_runtime, fields=_OF_RUNTIMES
    ),
)


# What limits gangs under every scheduler.
_LIMITS = (RESOURCE_QUOTAS, LIMIT_RANGES, *DEVICE_PROJECTIONS, NODES, *GROWTH)
_OF_GANGS = (
    projections.NAMESPACES,
    projections.POD_CLIQUE_SETS,
    projections.POD_GANGS,
    POD_GANG_MAPS,
    projections.TOPOLOGY_BINDINGS,
    projections.PRIORITY_CLASSES,
    *_LIMITS,
)
# For admission, without Kueue.
GENERAL = (*_OF_GANGS, *PROJECTIONS)
# What files may contain, and what commands read.
EVERY_GENERAL = (*GENERAL, *KUEUE_PROJECTIONS, WORKLOADS)
# Gangs are also judged by who may not read Kueue's objects, so nothing waits for them.
KUEUE_TO_RECONCILER = tuple(projection._replace(awaited=False) for projection in (*FOLLOWED, WORKLOADS))


def general_to_server(*, kueue: bool) -> tuple[projections.Projection, ...]:
    """Returns the facts that admission knows; `kueue` adds Kueue's queues."""
    return (*GENERAL, *FOLLOWED) if kueue else GENERAL


def general_to_reconciler(*, opted_in: bool, kueue: bool) -> tuple[projections.Projection, ...]:
    """Returns the facts that a reconciler knows. With `opted_in` it also makes the gangs of opted-in workloads. It
    watches these and PodGangs as whole objects; of a TrainJob it watches only the record, which the record of its
    JobSet completes. With `kueue` it says of gangs that Kueue holds them.
    """
    return (
        *(projection for projection in _OF_GANGS if projection is not projections.POD_GANGS),
        *((TRAIN_JOB_FACTS,) if opted_in else ()),
        *(KUEUE_TO_RECONCILER if kueue else ()),
    )

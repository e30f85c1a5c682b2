"""What KAI's podgrouper makes of workloads of the kinds that it knows: the minimum of each part in their PodGroup, why
it makes no PodGroup, and why the PodGroup never starts.

It reads the stored object, so what a controller assumes for a missing field does not count. The minimum of a Job is one
pod, that of a JobSet is a tree; an annotation overrides both. A RayCluster, and a PyTorchJob, have a leaf for each
part. An MPIJob has one minimum for launcher and workers.

Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/{job,jobset,leaderworkerset,ray,minmember},
kubeflow/{distributed_common,pytorch,mpi} (v0.17.0 to 2026-08).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from webhook.backends.kai.keys import (
    ANNOTATION_MINIMUM,
    ANNOTATION_SEGMENT,
    ANNOTATION_SEGMENT_REQUIRED,
    ANNOTATION_SKIP,
)
from webhook.model.changes import value_at
from webhook.model.fields import ANNOTATIONS, SPEC, FieldPath
from webhook.model.go_values import int32
from webhook.model.reading import Malformed, flag, integer, mapping, text
from webhook.model.version import Version
from webhook.model.workloads.gang import made_elsewhere
from webhook.model.workloads.job import Job, parallelism
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.topology_request import KAI_PREFERRED, KAI_REQUIRED, KAI_TOPOLOGY, of_pods
from webhook.model.workloads.trainjob import MadeJobSet
from webhook.model.workloads.workload import OptedInWorkload, Part

# From this version on, podgrouper's groups of JobSets are trees.
TREES = Version(0, 16)
RAY = "ray.io"
# Where each kind of Ray has the spec of its RayCluster.
_CLUSTERS = {"RayCluster": SPEC, "RayJob": SPEC / "rayClusterSpec", "RayService": SPEC / "rayClusterConfig"}
_MIN_AVAILABLE = SPEC / "runPolicy" / "schedulingPolicy" / "minAvailable"
_DELAYED = "WaitForWorkersReady"
# From this version on, the minimum of a PodGroup may be 0.
_OPTIONAL = Version(0, 18)


class Fault(NamedTuple):
    """A field of a workload for which podgrouper makes no PodGroup, or one that never starts. `until` is the version of
    KAI from which on it is right, if there is one.
    """

    at: FieldPath
    value: Any
    why: str
    remedy: str
    until: Version | None = None


@dataclass(slots=True)
class PodGrouping:
    """What podgrouper makes of a workload. `minimums` has that of each part by the path of its pod template. `total` is
    the minimum of a group without leaves. `errors` are why there is no PodGroup, `unreachable` why it never starts, and
    `unsure` what it needs besides, in words.
    """

    minimums: dict[FieldPath, int] = field(default_factory=dict)
    total: int | None = None
    errors: list[Fault] = field(default_factory=list)
    unreachable: list[Fault] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)


def reads_pods(workload: OptedInWorkload) -> bool:
    """Whether podgrouper reads the topology of a part from its pod template."""
    return workload.resource.api.group == RAY


def grouping_of(workload: OptedInWorkload, *, trees: bool = True) -> PodGrouping | None:
    """What podgrouper makes of a workload; None for a kind of which nothing is read here, and if podgrouper skips it.
    `trees`: whether it makes trees of JobSets.
    """
    if workload.annotations.get(ANNOTATION_SKIP) == "true" or made_elsewhere(workload):
        return None
    try:
        return _read(workload, trees=trees)
    except Malformed:
        # Rules about the shape of the object report the field.
        return None


def _read(workload: OptedInWorkload, *, trees: bool) -> PodGrouping | None:
    if isinstance(workload, Job):
        return _of_job(workload)
    if isinstance(workload, JobSet):
        return _of_job_set(workload, trees=trees)
    if isinstance(workload, LeaderWorkerSet):
        return _of_group(workload)
    api = workload.resource.api
    if api.group == RAY and api.kind in _CLUSTERS:
        return _of_ray(workload)
    if api.group_kind == ("kubeflow.org", "PyTorchJob"):
        return _of_pytorch(workload)
    return _of_mpi(workload) if api.group_kind == ("kubeflow.org", "MPIJob") else None


def holders_of(workload: OptedInWorkload) -> tuple[OptedInWorkload, ...]:
    """The workloads whose labels and annotations podgrouper reads for a gang, the nearest first: a JobSet also has
    those of its TrainJob.
    """
    return (workload, workload.train_job) if isinstance(workload, MadeJobSet) else (workload,)


def annotations_of(workload: OptedInWorkload) -> Mapping[str, Any]:
    """The annotations that podgrouper reads of a workload."""
    return {key: value for holder in reversed(holders_of(workload)) for key, value in holder.annotations.items()}


def stated_minimum(workload: OptedInWorkload) -> str | None:
    """The minimum that a workload states. If the JobSet of a TrainJob lacks an annotation, podgrouper adds the
    TrainJob's.
    """
    minimums = (text(holder.annotations.get(ANNOTATION_MINIMUM)) for holder in holders_of(workload))
    return next((minimum for minimum in minimums if minimum is not None), None)


def first_parts(job_set: JobSet) -> int:
    """How many replicated Jobs have all of their pods, or need none, before another one runs or is complete."""
    empty = sum(part.pods <= 0 for part in job_set.parts)
    if job_set.in_order:
        return min(empty + 1, len(job_set.parts))
    return empty + sum(part.pods > 0 and not part.after for part in job_set.parts)


def root_minimum(job_set: JobSet) -> int | None:
    """How many replicated Jobs the tree of a JobSet needs; None if that cannot be read."""
    stated = stated_minimum(job_set)
    count = len(job_set.parts)
    if stated is None:
        return min(count, 1) if job_set.in_order else count
    minimum = int32(stated)
    return None if minimum is None or minimum < 1 else min(minimum, count)


def _annotated(path: FieldPath, stated: str | None, found: PodGrouping) -> int | None:
    """The minimum in an annotation at `path`. One that podgrouper cannot read is an error."""
    if stated is None:
        return None
    minimum = int32(stated)
    if minimum is not None and minimum > 0:
        return minimum
    why = "podgrouper reads no number of 1 or more here, so it makes no PodGroup and the pods wait"
    found.errors.append(Fault(path, stated, why, "set a whole number of 1 or more"))
    return None


def _above(fault: FieldPath, value: Any, minimum: int, pods: int, found: PodGrouping) -> None:
    """Adds that a minimum is above the number of pods that exist at a time."""
    if minimum > pods:
        why = f"KAI's group needs {minimum} pods, and {pods} exist at a time, so it never starts"
        found.unreachable.append(Fault(fault, value, why, f"let it need at most {pods}"))


def _of_job(workload: Job) -> PodGrouping:
    found, path = PodGrouping(), ANNOTATIONS / ANNOTATION_MINIMUM
    stated = stated_minimum(workload)
    minimum = None if stated is None else int32(stated)
    if minimum is not None and minimum < 1:
        # Podgrouper itself takes any number.
        until = None if minimum < 0 else _OPTIONAL
        who = "KAI" if until is None else "KAI up to 0.17"
        why = f"{who} refuses the PodGroup, because its minimum is below {0 if until is None else 1}; the pods wait"
        found.errors.append(Fault(path, stated, why, "set a whole number of 1 or more", until))
    else:
        minimum = _annotated(path, stated, found)
    pods = workload.parts[0].pods
    if minimum is not None and pods > 0:
        _above(path, stated, minimum, pods, found)
    found.minimums[workload.parts[0].place] = max(minimum or 1, 1)
    return found


def _of_job_set(workload: JobSet, *, trees: bool) -> PodGrouping:
    """The faults of the root, and of the leaf of each of its Jobs."""
    found = PodGrouping()
    _annotated(ANNOTATIONS / ANNOTATION_MINIMUM, stated_minimum(workload), found)
    for index, part in enumerate(workload.parts if trees else ()):
        if part.pods <= 0:
            continue
        template = part.path / "template"
        path = template / "metadata" / "annotations" / ANNOTATION_MINIMUM
        stated = text(mapping(workload.job_metadata(index).get("annotations")).get(ANNOTATION_MINIMUM)) or None
        minimum = _annotated(path, stated, found)
        value: str | int | None = stated
        if stated is None:
            minimum = value = parallelism(workload.job_spec(index))
            path = template / "spec" / "parallelism"
        if minimum is not None:
            _above(path, value, minimum, part.each, found)
            found.minimums[part.place] = part.pods // max(part.each, 1) * minimum
    return found


class _Segment(NamedTuple):
    """The size of the segments of a LeaderWorkerSet's groups, where it is stated, and the value there."""

    path: FieldPath
    value: Any
    size: int


def _segment_of(workload: LeaderWorkerSet) -> _Segment | None:
    group = SPEC / "leaderWorkerTemplate"
    template = mapping(workload.spec.get("leaderWorkerTemplate"))
    size = integer(mapping(template.get("subGroupPolicy")).get("subGroupSize"))
    if size is not None:
        return _Segment(group / "subGroupPolicy" / "subGroupSize", size, size)
    of_worker = group / "workerTemplate" / "metadata" / "annotations"
    for at, holder in ((ANNOTATIONS, workload.annotations), (of_worker, mapping(value_at(workload.raw, of_worker)[1]))):
        if (stated := text(holder.get(ANNOTATION_SEGMENT))) is not None:
            return _Segment(at / ANNOTATION_SEGMENT, stated, int32(stated) or 0)
    return None


def segment_size(workload: LeaderWorkerSet) -> int | None:
    """How many pods a segment of a LeaderWorkerSet's groups has; None if there are no segments."""
    segment = _segment_of(workload)
    return None if segment is None else segment.size


def _of_group(workload: LeaderWorkerSet) -> PodGrouping:
    """The faults of the segments of a group."""
    found, segment = PodGrouping(), _segment_of(workload)
    if segment is None:
        return found
    if not 1 < segment.size <= workload.size:
        why = f"podgrouper wants segments of 2 to {workload.size} pods, so it makes no PodGroup and the pods wait"
        found.errors.append(Fault(segment.path, segment.value, why, "set a number in this range, or remove it"))
    elif text(workload.spec.get("startupPolicy")) == "LeaderReady":
        why = "with LeaderReady podgrouper counts only the leader at first, so it makes no PodGroup"
        found.errors.append(Fault(segment.path, segment.value, why, "remove it, or set startupPolicy to LeaderCreated"))
    elif segment.size == workload.size - 1:
        why = f"podgrouper counts the leader twice in one segment of {segment.size} workers, so its group never starts"
        found.unreachable.append(Fault(segment.path, segment.value, why, "set a smaller number, or remove it"))
    if workload.parts[-1].template.annotations.get(ANNOTATION_SEGMENT_REQUIRED):
        found.unsure.append("the level that each segment requires is not judged")
    return found


def _of_ray(workload: OptedInWorkload) -> PodGrouping:
    found = PodGrouping()
    spec = mapping(value_at(workload.raw, _CLUSTERS[workload.resource.api.kind])[1])
    autoscaling = flag(spec.get("enableInTreeAutoscaling"))
    for part in workload.parts:
        _require_topology(part, found)
        if part.path == SPEC:
            found.minimums[part.place] = 1
            continue
        group = mapping(value_at(workload.raw, part.path)[1])
        replicas, least = integer(group.get("replicas")) or 0, integer(group.get("minReplicas")) or 0
        # Podgrouper would leave out a group that is `suspended`, a field that KubeRay's schema does not have.
        if not (replicas or least):
            continue
        if least > replicas:
            why = f"podgrouper makes no PodGroup if replicas ({replicas}) is lower, so no pod of the cluster starts"
            found.errors.append(Fault(part.path / "minReplicas", least, why, f"set replicas to at least {least}"))
            continue
        hosts = integer(group.get("numOfHosts"))
        minimum = (least or (0 if autoscaling else replicas)) * (1 if hosts is None else hosts)
        if autoscaling and not least:
            found.unsure.append(f"KAI up to 0.17 needs all workers of {part.name}")
        found.minimums[part.place] = minimum
        _above(part.path / ("minReplicas" if least else "replicas"), least or replicas, minimum, part.pods, found)
    return found


def _require_topology(part: Part, found: PodGrouping) -> None:
    """Adds the error of a template that asks for a level of no Topology."""
    asked = {str(use.path.parts[-1]): use for use in of_pods(part).asks(KAI_TOPOLOGY, KAI_REQUIRED, KAI_PREFERRED)}
    if asked and KAI_TOPOLOGY not in asked:
        use = next(iter(asked.values()))
        why = f"without {KAI_TOPOLOGY} beside it podgrouper makes no PodGroup, so no pod of the cluster starts"
        found.errors.append(Fault(use.path, use.value, why, f"add {KAI_TOPOLOGY} to the template"))


def _replicas(specs: Mapping[str, Any], path: FieldPath, found: PodGrouping) -> int:
    """The pods of an operator's replica specs; one without a number is an error."""
    total = 0
    for name, raw in specs.items():
        replicas = integer(mapping(raw).get("replicas"))
        if not replicas:
            why = f"podgrouper counts no {name} here, so it makes no PodGroup and the pods wait"
            found.errors.append(Fault(path / name / "replicas", replicas, why, "state the number of pods, 1 or more"))
        total += replicas or 0
    return total


def _of_pytorch(workload: OptedInWorkload) -> PodGrouping:
    found, path = PodGrouping(), SPEC / "pytorchReplicaSpecs"
    specs = mapping(workload.spec.get("pytorchReplicaSpecs"))
    total, at = integer(value_at(workload.raw, _MIN_AVAILABLE)[1]), _MIN_AVAILABLE
    if total is None:
        count = _replicas(specs, path, found)
        at = SPEC / "elasticPolicy" / "minReplicas"
        total = integer(value_at(workload.raw, at)[1])
        total = count if total is None else total
    masters = integer(mapping(specs.get("Master")).get("replicas")) or 0
    for part in workload.parts:
        if part.name == "master" and masters:
            found.minimums[part.place] = masters
        if part.name == "worker":
            minimum = max(total - masters, 0)
            found.minimums[part.place] = minimum
            if not found.errors and minimum > part.pods:
                _above(at, total, total, part.pods + masters, found)
            segment = text(part.template.annotations.get(ANNOTATION_SEGMENT))
            if segment is not None:
                found.unsure.append("the workers are placed in segments, which are not judged")
                _annotated(part.template.annotations_path / ANNOTATION_SEGMENT, segment, found)
    return found


def _of_mpi(workload: OptedInWorkload) -> PodGrouping:
    """The group of launcher and workers. A launcher that is created later is counted from then on."""
    found, path = PodGrouping(), SPEC / "mpiReplicaSpecs"
    specs = mapping(workload.spec.get("mpiReplicaSpecs"))
    total, at = integer(value_at(workload.raw, _MIN_AVAILABLE)[1]), _MIN_AVAILABLE
    delayed = text(workload.spec.get("launcherCreationPolicy")) == _DELAYED
    if total is None:
        total, at = _replicas(specs, path, found), path
        for name in ("Launcher", "Worker"):
            if name not in specs:
                why = f"podgrouper makes no PodGroup of an MPIJob without {name}, so its pods wait"
                found.errors.append(Fault(path / name, None, why, f"add a {name}"))
    if delayed:
        total -= integer(mapping(specs.get("Launcher")).get("replicas")) or 0
    else:
        found.unsure.append("the launcher counts for the minimum, too, and where it fits is not judged")
    workers = next((part for part in workload.parts if part.name == "worker"), None)
    found.total = max(total, 0)
    if workers is not None and not found.errors:
        found.minimums[workers.place] = max(total - (0 if delayed else 1), 0)
        _above(at, total if at == _MIN_AVAILABLE else None, total, workers.pods + (0 if delayed else 1), found)
    return found

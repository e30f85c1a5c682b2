"""Foretells, and never writes, what KAI's podgrouper makes of workloads of the kinds that it knows: the minimum of each
part, why it makes no PodGroup, why the PodGroup never starts, and the PodGroups as trees. The rules about the minimum
of Jobs that Kueue starts are here, too.

It reads the stored object, so what a controller assumes for a missing field does not count. The minimum of a Job is
one pod, an MPIJob has one minimum for all pods, and a JobSet is a tree with a leaf for each of its Jobs; the
annotation kai.scheduler/batch-min-member overrides the minimums of Jobs and JobSets. A RayCluster and a PyTorchJob
have a leaf for each part. Each group of a LeaderWorkerSet is a PodGroup with leaves for leader and workers; workers
may be in segments, each a leaf.

Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/{job,jobset,leaderworkerset,ray,minmember},
kubeflow/{distributed_common,pytorch,mpi} (v0.15.2 to 2026-08); kubernetes-sigs/kueue v0.19,
pkg/controller/jobs/job/job_controller.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from webhook.backends.kai import keys
from webhook.backends.kai.keys import RuleContext
from webhook.model.admission_request import value_at
from webhook.model.fields import ANNOTATIONS, SPEC, FieldPath
from webhook.model.findings import Action, Finding
from webhook.model.kueue import COMPLETIONS_IN_STEP, MIN_PARALLELISM, QUEUE_NAME
from webhook.model.quantity import Version, int32
from webhook.model.reading import Malformed, flag, integer, mapping, text
from webhook.validators.examples import job
from webhook.validators.kueue_holds import duration, ready_times
from webhook.validators.registry import Example, Results, Subject, rule
from webhook.workloads.job import Job, parallelism
from webhook.workloads.jobset import JobSet
from webhook.workloads.kueue_integration import held, least_parallelism
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import (
    KAI_PREFERRED,
    KAI_REQUIRED,
    KAI_TOPOLOGY,
    annotations_of_pods,
    has_foreign_gang,
)
from webhook.workloads.opted_in_workload import OptedInWorkload, Part, SchedulerGroup, SchedulerGroups, group_of
from webhook.workloads.trainjob import TrainerJobSet

# From this version on, podgrouper's groups of JobSets are trees.
TREES = Version(0, 16)
RAY = "ray.io"
# Where each kind of Ray has the spec of its RayCluster.
_CLUSTERS = {"RayCluster": SPEC, "RayJob": SPEC / "rayClusterSpec", "RayService": SPEC / "rayClusterConfig"}
_MIN_AVAILABLE = SPEC / "runPolicy" / "schedulingPolicy" / "minAvailable"
# From this version on, the minimum of a PodGroup may be 0.
_OPTIONAL = Version(0, 18)


class GroupingFault(NamedTuple):
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
    errors: list[GroupingFault] = field(default_factory=list)
    unreachable: list[GroupingFault] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)

    def refuse(self, at: FieldPath, value: Any, why: str, remedy: str) -> None:
        self.errors.append(GroupingFault(at, value, why, remedy))

    def check_reachable(self, at: FieldPath, value: Any, minimum: int, pods: int) -> None:
        """Adds that a minimum is above the number of pods that exist at a time."""
        if minimum > pods:
            why = f"KAI's group needs {minimum} pods, and {pods} exist at a time, so it never starts"
            self.unreachable.append(GroupingFault(at, value, why, f"let it need at most {pods}"))

    def annotated_minimum(self, path: FieldPath, stated: str | None) -> int | None:
        """Returns the minimum in an annotation at `path`. One that podgrouper cannot read is an error."""
        if stated is None:
            return None
        minimum = int32(stated)
        if minimum is not None and minimum > 0:
            return minimum
        why = "podgrouper reads no number of 1 or more here, so it makes no PodGroup and the pods wait"
        self.refuse(path, stated, why, "set a whole number of 1 or more")
        return None


def reads_pods(workload: OptedInWorkload) -> bool:
    """Returns whether podgrouper reads the topology of a part from its pod template."""
    return workload.resource.api.group == RAY


def grouping_of(workload: OptedInWorkload, *, trees: bool = True) -> PodGrouping | None:
    """Returns what podgrouper makes of a workload; None for a kind of which nothing is read here, and if podgrouper
    skips it. `trees`: whether it makes trees of JobSets.
    """
    if workload.annotations.get(keys.ANNOTATION_SKIP) == "true" or has_foreign_gang(workload):
        return None
    api = workload.resource.api
    try:
        if isinstance(workload, Job):
            return _job_grouping(workload)
        if isinstance(workload, JobSet):
            return _job_set_grouping(workload, trees=trees)
        if isinstance(workload, LeaderWorkerSet):
            return _leader_worker_set_grouping(workload)
        if api.group == RAY and api.kind in _CLUSTERS:
            return _ray_grouping(workload)
        if api.group_kind == ("kubeflow.org", "PyTorchJob"):
            return _pytorch_grouping(workload)
        return _mpi_grouping(workload) if api.group_kind == ("kubeflow.org", "MPIJob") else None
    except Malformed:
        # Rules about the shape of the object report the field.
        return None


def holders_of(workload: OptedInWorkload) -> tuple[OptedInWorkload, ...]:
    """Returns the workloads whose labels and annotations count, the nearest first: a JobSet, then its TrainJob."""
    return (workload, workload.train_job) if isinstance(workload, TrainerJobSet) else (workload,)


def annotations_of(workload: OptedInWorkload) -> Mapping[str, Any]:
    return {key: value for holder in reversed(holders_of(workload)) for key, value in holder.annotations.items()}


def stated_minimum(workload: OptedInWorkload) -> str | None:
    """Returns the minimum that a workload states, else the one of its JobSet's TrainJob."""
    minimums = (text(holder.annotations.get(keys.ANNOTATION_MINIMUM)) for holder in holders_of(workload))
    return next((minimum for minimum in minimums if minimum is not None), None)


def first_parts(job_set: JobSet) -> int:
    """Returns how many replicated Jobs have all of their pods, or need none, before another one runs or is complete."""
    empty = sum(part.pods <= 0 for part in job_set.parts)
    if job_set.starts_in_order:
        return min(empty + 1, len(job_set.parts))
    return empty + sum(part.pods > 0 and not part.after for part in job_set.parts)


def root_minimum(job_set: JobSet) -> int | None:
    """Returns how many replicated Jobs the tree of a JobSet needs; None if that cannot be read."""
    stated = stated_minimum(job_set)
    count = len(job_set.parts)
    if stated is None:
        return min(count, 1) if job_set.starts_in_order else count
    minimum = int32(stated)
    return None if minimum is None or minimum < 1 else min(minimum, count)


def _job_grouping(workload: Job) -> PodGrouping:
    grouping, path = PodGrouping(), ANNOTATIONS / keys.ANNOTATION_MINIMUM
    stated = stated_minimum(workload)
    minimum = None if stated is None else int32(stated)
    if minimum is not None and minimum < 1:
        # Podgrouper itself takes any number.
        until = None if minimum < 0 else _OPTIONAL
        who = "KAI" if until is None else "KAI up to 0.17"
        why = f"{who} refuses the PodGroup, because its minimum is below {0 if until is None else 1}; the pods wait"
        grouping.errors.append(GroupingFault(path, stated, why, "set a whole number of 1 or more", until))
    else:
        minimum = grouping.annotated_minimum(path, stated)
    pods = workload.parts[0].pods
    if minimum is not None and pods > 0:
        grouping.check_reachable(path, stated, minimum, pods)
    grouping.minimums[workload.parts[0].place] = max(minimum or 1, 1)
    return grouping


def _job_set_grouping(workload: JobSet, *, trees: bool) -> PodGrouping:
    """Returns the faults of the root, and of the leaf of each of its Jobs."""
    grouping = PodGrouping()
    grouping.annotated_minimum(ANNOTATIONS / keys.ANNOTATION_MINIMUM, stated_minimum(workload))
    for index, part in enumerate(workload.parts if trees else ()):
        if part.pods <= 0:
            continue
        template = part.path / "template"
        path = template / "metadata" / "annotations" / keys.ANNOTATION_MINIMUM
        stated = text(mapping(workload.job_metadata(index).get("annotations")).get(keys.ANNOTATION_MINIMUM)) or None
        minimum = grouping.annotated_minimum(path, stated)
        value: str | int | None = stated
        if stated is None:
            minimum = value = parallelism(workload.job_spec(index))
            path = template / "spec" / "parallelism"
        if minimum is not None:
            grouping.check_reachable(path, value, minimum, part.each)
            grouping.minimums[part.place] = part.pods // max(part.each, 1) * minimum
    return grouping


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
        if (stated := text(holder.get(keys.ANNOTATION_SEGMENT))) is not None:
            return _Segment(at / keys.ANNOTATION_SEGMENT, stated, int32(stated) or 0)
    return None


def _leader_worker_set_grouping(workload: LeaderWorkerSet) -> PodGrouping:
    grouping, segment = PodGrouping(), _segment_of(workload)
    if segment is None:
        return grouping
    if not 1 < segment.size <= workload.size:
        why = f"podgrouper wants segments of 2 to {workload.size} pods, so it makes no PodGroup and the pods wait"
        grouping.refuse(segment.path, segment.value, why, "set a number in this range, or remove it")
    elif text(workload.spec.get("startupPolicy")) == "LeaderReady":
        why = "with LeaderReady podgrouper counts only the leader at first, so it makes no PodGroup"
        grouping.refuse(segment.path, segment.value, why, "remove it, or set startupPolicy to LeaderCreated")
    elif segment.size == workload.size - 1:
        why = f"podgrouper counts the leader twice in one segment of {segment.size} workers, so its group never starts"
        fault = GroupingFault(segment.path, segment.value, why, "set a smaller number, or remove it")
        grouping.unreachable.append(fault)
    if workload.parts[-1].template.annotations.get(keys.ANNOTATION_SEGMENT_REQUIRED):
        grouping.unsure.append("the level that each segment requires is not judged")
    return grouping


def _ray_grouping(workload: OptedInWorkload) -> PodGrouping:
    grouping = PodGrouping()
    spec = mapping(value_at(workload.raw, _CLUSTERS[workload.resource.api.kind])[1])
    autoscaling = flag(spec.get("enableInTreeAutoscaling"))
    for part in workload.parts:
        uses = {
            str(use.path.parts[-1]): use
            for use in annotations_of_pods(part).asks(KAI_TOPOLOGY, KAI_REQUIRED, KAI_PREFERRED)
        }
        if uses and KAI_TOPOLOGY not in uses:
            use = next(iter(uses.values()))
            why = f"without {KAI_TOPOLOGY} beside it podgrouper makes no PodGroup, so no pod of the cluster starts"
            grouping.refuse(use.path, use.value, why, f"add {KAI_TOPOLOGY} to the template")
        if part.path == SPEC:
            grouping.minimums[part.place] = 1
            continue
        group = mapping(value_at(workload.raw, part.path)[1])
        replicas, least = integer(group.get("replicas")) or 0, integer(group.get("minReplicas")) or 0
        # Podgrouper would leave out a group that is `suspended`, a field that KubeRay's schema does not have.
        if not (replicas or least):
            continue
        if least > replicas:
            why = f"podgrouper makes no PodGroup if replicas ({replicas}) is lower, so no pod of the cluster starts"
            grouping.refuse(part.path / "minReplicas", least, why, f"set replicas to at least {least}")
            continue
        hosts = integer(group.get("numOfHosts"))
        minimum = (least or (0 if autoscaling else replicas)) * (1 if hosts is None else hosts)
        if autoscaling and not least:
            grouping.unsure.append(f"KAI up to 0.17 needs all workers of {part.name}")
        grouping.minimums[part.place] = minimum
        at = part.path / ("minReplicas" if least else "replicas")
        grouping.check_reachable(at, least or replicas, minimum, part.pods)
    return grouping


def _replicas(specs: Mapping[str, Any], path: FieldPath, grouping: PodGrouping) -> int:
    """Returns the pods of an operator's replica specs; one without a number is an error."""
    total = 0
    for name, raw in specs.items():
        replicas = integer(mapping(raw).get("replicas"))
        if not replicas:
            why = f"podgrouper counts no {name} here, so it makes no PodGroup and the pods wait"
            grouping.refuse(path / name / "replicas", replicas, why, "state the number of pods, 1 or more")
        total += replicas or 0
    return total


def _pytorch_grouping(workload: OptedInWorkload) -> PodGrouping:
    grouping, path = PodGrouping(), SPEC / "pytorchReplicaSpecs"
    specs = mapping(workload.spec.get("pytorchReplicaSpecs"))
    total, at = integer(value_at(workload.raw, _MIN_AVAILABLE)[1]), _MIN_AVAILABLE
    if total is None:
        count = _replicas(specs, path, grouping)
        at = SPEC / "elasticPolicy" / "minReplicas"
        total = integer(value_at(workload.raw, at)[1])
        total = count if total is None else total
    masters = integer(mapping(specs.get("Master")).get("replicas")) or 0
    for part in workload.parts:
        if part.name == "master" and masters:
            grouping.minimums[part.place] = masters
        if part.name == "worker":
            minimum = max(total - masters, 0)
            grouping.minimums[part.place] = minimum
            if not grouping.errors and minimum > part.pods:
                grouping.check_reachable(at, total, total, part.pods + masters)
            segment = text(part.template.annotations.get(keys.ANNOTATION_SEGMENT))
            if segment is not None:
                grouping.unsure.append("the workers are placed in segments, which are not judged")
                grouping.annotated_minimum(part.template.annotations_path / keys.ANNOTATION_SEGMENT, segment)
    return grouping


def _mpi_grouping(workload: OptedInWorkload) -> PodGrouping:
    """Returns the group of launcher and workers. A launcher that is created later is counted from then on."""
    grouping, path = PodGrouping(), SPEC / "mpiReplicaSpecs"
    specs = mapping(workload.spec.get("mpiReplicaSpecs"))
    total, at = integer(value_at(workload.raw, _MIN_AVAILABLE)[1]), _MIN_AVAILABLE
    delayed = text(workload.spec.get("launcherCreationPolicy")) == "WaitForWorkersReady"
    if total is None:
        total, at = _replicas(specs, path, grouping), path
        for name in ("Launcher", "Worker"):
            if name not in specs:
                why = f"podgrouper makes no PodGroup of an MPIJob without {name}, so its pods wait"
                grouping.refuse(path / name, None, why, f"add a {name}")
    if delayed:
        total -= integer(mapping(specs.get("Launcher")).get("replicas")) or 0
    else:
        grouping.unsure.append("the launcher counts for the minimum, too, and where it fits is not judged")
    workers = next((part for part in workload.parts if part.name == "worker"), None)
    grouping.total = max(total, 0)
    if workers is not None and not grouping.errors:
        launchers = 0 if delayed else 1
        grouping.minimums[workers.place] = max(total - launchers, 0)
        value = total if at == _MIN_AVAILABLE else None
        grouping.check_reachable(at, value, total, workers.pods + launchers)
    return grouping


# Up to this many equal groups are shown one by one; of more, only the first.
_ONE_BY_ONE = 2
# Podgrouper's own limit.
_MOST_SEGMENTS = 10_000


def pod_groups_of(workload: OptedInWorkload, version: Version | None) -> SchedulerGroups | None:
    """Returns the PodGroups of a workload; None for a kind of which podgrouper makes none, or nothing is read here."""
    trees = version is None or version >= TREES
    grouping = grouping_of(workload, trees=trees)
    if grouping is None:
        return None
    for fault in grouping.errors:
        if fault.until is None or version is None or version < fault.until:
            return SchedulerGroups((), f"podgrouper makes no PodGroup: {fault.at}: {fault.why}")
    if isinstance(workload, JobSet):
        groups = _job_set_tree(workload, grouping) if trees else _flat_job_set(workload)
        return groups if version is not None else groups._replace(why=f"if kai-scheduler is {TREES} or newer")
    if isinstance(workload, LeaderWorkerSet):
        return _leader_worker_set_groups(workload)
    domains = _domains(annotations_of(workload))
    if grouping.total is not None or isinstance(workload, Job):
        return SchedulerGroups((_flat(workload, grouping, domains),))
    leaves = [leaf for part in workload.parts for leaf in _leaves(workload, part, grouping)]
    return SchedulerGroups((group_of(workload.name, tuple(leaves), domains=domains),))


def _domains(annotations: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Returns the levels that annotations require and prefer; none without a Topology."""
    if not text(annotations.get(KAI_TOPOLOGY)):
        return None, None
    return text(annotations.get(KAI_REQUIRED)) or None, text(annotations.get(KAI_PREFERRED)) or None


def _leaf(part: Part, minimum: int, domains: tuple[str | None, str | None] = (None, None)) -> SchedulerGroup:
    return SchedulerGroup(part.name, part.pods, minimum, part, None, *domains, waits_for=", ".join(part.after) or None)


def _folded(group: SchedulerGroup, stem: str, count: int, first: int = 0) -> tuple[SchedulerGroup, ...]:
    """Returns so many equal groups, numbered from the first."""
    if count <= _ONE_BY_ONE:
        return tuple(replace(group, name=f"{stem}-{index}") for index in range(first, first + count))
    return (replace(group, name=f"{stem}-{first}", more=count - 1, last=f"{stem}-{first + count - 1}"),)


def _flat(workload: OptedInWorkload, grouping: PodGrouping, domains: tuple[str | None, str | None]) -> SchedulerGroup:
    """Returns the PodGroup of a Job or MPIJob. Its minimum counts any of the pods; its parts have none."""
    parts = [part for part in (*workload.outside_parts, *workload.parts) if part.pods > 0]
    is_job = isinstance(workload, Job)
    below = () if is_job else tuple(_leaf(part, part.pods) for part in parts)
    minimum = sum(grouping.minimums.values()) if grouping.total is None else grouping.total
    pods = sum(part.pods for part in parts)
    part = workload.parts[0] if is_job else None
    return SchedulerGroup(workload.name, pods, minimum, part, None, *domains, below=below)


def _leaves(workload: OptedInWorkload, part: Part, grouping: PodGrouping) -> Iterator[SchedulerGroup]:
    """Yields the leaf of a part, or its segments. Podgrouper reads the level of a leaf from Ray's templates."""
    minimum = grouping.minimums.get(part.place)
    if part.pods <= 0 and not minimum:
        return
    minimum = part.pods if minimum is None else minimum
    size = None if reads_pods(workload) or part.name != "worker" else _size(part)
    if size is None:
        yield _leaf(part, minimum, _domains(part.template.annotations) if reads_pods(workload) else (None, None))
        return
    # Those that lie within the minimum must be complete, the others may be empty.
    domains = _segment_domains(workload, part.template.annotations)
    full, rest = divmod(part.pods, size)
    needed = -(-minimum // size)
    segments = [
        *_segments("worker", range(min(full, needed)), size, size, part, domains),
        *_segments("worker", range(needed, full), size, 0, part, domains),
    ]
    if rest:
        segments += _segments("worker", range(full, full + 1), rest, rest if full < needed else 0, part, domains)
    yield group_of(part.name, tuple(segments))


def _size(part: Part) -> int | None:
    size = int32(text(part.template.annotations.get(keys.ANNOTATION_SEGMENT)) or "")
    return size if size is not None and size > 0 and part.pods <= size * _MOST_SEGMENTS and part.pods > 0 else None


def _segments(
    stem: str, indices: range, pods: int, minimum: int, part: Part, domains: tuple[str | None, str | None]
) -> tuple[SchedulerGroup, ...]:
    return _folded(SchedulerGroup("", pods, minimum, part, None, *domains), stem, len(indices), indices.start)


def _segment_domains(workload: OptedInWorkload, annotations: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Returns the levels of segments, from the template of the workers; the Topology may be named by the workload."""
    if not (text(annotations.get(KAI_TOPOLOGY)) or text(workload.annotations.get(KAI_TOPOLOGY))):
        return None, None
    levels = (keys.ANNOTATION_SEGMENT_REQUIRED, keys.ANNOTATION_SEGMENT_PREFERRED)
    required, preferred = (text(annotations.get(key)) or None for key in levels)
    return required, preferred


def _job_set_tree(workload: JobSet, grouping: PodGrouping) -> SchedulerGroups:
    """Returns the tree of a JobSet: all replicated Jobs, or as many as an annotation says, and all Jobs of each."""
    below = []
    for index, part in enumerate(workload.parts):
        if part.pods <= 0:
            continue
        jobs = part.pods // max(part.each, 1)
        domains = _domains(mapping(workload.job_metadata(index).get("annotations")))
        least = grouping.minimums.get(part.place, part.pods) // max(jobs, 1)
        leaf = SchedulerGroup("", part.each, least, part, None, *domains)
        group = group_of(part.name, _folded(leaf, f"{part.name}-replica", jobs))
        below.append(replace(group, waits_for=", ".join(part.after) or None))
    needed = root_minimum(workload)
    if needed is not None:
        # A replicated Job without pods has its minimum.
        needed = max(needed - (len(workload.parts) - len(below)), 0)
    domains = _domains(annotations_of(workload))
    return SchedulerGroups((group_of(workload.name, tuple(below), needed, domains),))


def _flat_job_set(workload: JobSet) -> SchedulerGroups:
    """Returns the PodGroup of a JobSet before there were trees, or one for each replicated Job if they start in order.
    Its minimum is one pod, or the number in an annotation.
    """
    minimum = int32(stated_minimum(workload) or "") or 1
    domains = _domains(annotations_of(workload))
    parts = [part for part in workload.parts if part.pods > 0]
    if workload.starts_in_order:
        return SchedulerGroups(
            tuple(replace(_leaf(part, minimum, domains), name=f"{workload.name}-{part.name}") for part in parts)
        )
    pods = sum(part.pods for part in parts)
    below = tuple(_leaf(part, part.pods) for part in parts)
    return SchedulerGroups((SchedulerGroup(workload.name, pods, minimum, None, None, *domains, below=below),))


def _leader_worker_set_groups(workload: LeaderWorkerSet) -> SchedulerGroups:
    """Returns the PodGroups of a LeaderWorkerSet. With LeaderReady they wait for the leader alone at first."""
    segment = _segment_of(workload)
    leader, *others = workload.parts
    first = replace(_leaf(leader, 1), pods=1)
    below = (first, *(replace(_leaf(part, part.each), name="workers", pods=part.each) for part in others))
    if segment is not None:
        below = tuple(_group_segments(workload, first, others[0], segment.size))
    group = group_of("", below, domains=_domains(workload.annotations))
    if text(workload.spec.get("startupPolicy")) == "LeaderReady" and others:
        waiting = tuple(replace(part, waits_for="leader") for part in below[1:])
        group = replace(group, minimum=1, below=(first, *waiting))
    return SchedulerGroups(_folded(group, workload.name, max(workload.replicas, 0)))


def _group_segments(
    workload: LeaderWorkerSet, leader: SchedulerGroup, part: Part, size: int
) -> Iterator[SchedulerGroup]:
    """Yields the segments of one group. The first has the leader, unless it is excluded; it may be larger then."""
    domains = _segment_domains(workload, part.template.annotations)
    workers = workload.size - 1
    # A segment of all workers counts the leader once too often.
    more = 1 if size == workers else 0
    policy = mapping(mapping(workload.spec.get("leaderWorkerTemplate")).get("subGroupPolicy"))
    if text(policy.get("subGroupPolicyType")) == "LeaderExcluded":
        yield leader
        yield from _segments("segment", range(workers // size), size, size + more, part, domains)
        return
    first = size if workers % size == 0 else size - 1
    of_first = SchedulerGroup("workers", first, first + more, part)
    yield replace(group_of("segment-0", (leader, of_first)), required=domains[0], preferred=domains[1])
    full, rest = divmod(workers - first, size)
    yield from _segments("segment", range(1, 1 + full), size, size, part, domains)
    if rest:
        yield from _segments("segment", range(1 + full, 2 + full), rest, rest, part, domains)


_MOST_DIGITS = 10


def _minimum(workload: OptedInWorkload, context: RuleContext) -> int | None:
    """Returns the minimum that a Job states, if Kueue holds it and its group is a gang."""
    if not isinstance(workload, Job) or workload.managed_elsewhere is not None:
        return None
    stated = text(workload.annotations.get(keys.ANNOTATION_MINIMUM)) or ""
    if not (stated.isascii() and stated.isdigit() and len(stated) <= _MOST_DIGITS) or int(stated) <= 1:
        return None
    return None if held(workload, context.facts, context.kueue) is None else int(stated)


def _job(minimum: int, **annotations: str) -> Example:
    labels = {QUEUE_NAME: "research"}
    stated = {keys.ANNOTATION_MINIMUM: str(minimum), **annotations}
    counts: dict[str, Any] = {"parallelism": 4, "completions": 4, "completionMode": "Indexed"}
    return Example(job(scheduler="kai-scheduler", labels=labels, annotations=stated, **counts))


_PARTIAL = {MIN_PARALLELISM: "2", COMPLETIONS_IN_STEP: "true"}


@rule(
    "kueue/kai-minimum",
    subject=Subject.OPTED_IN,
    default=Action.WARN,
    passes=_job(2, **_PARTIAL),
    fails=_job(4, **_PARTIAL),
)
def minimum_above_partial(workload: OptedInWorkload, context: RuleContext) -> Results:
    """If its queue has too little room, Kueue resumes a Job with a lower parallelism. Podgrouper's minimum does not
    follow, so the gang waits for pods that the Job never creates.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/job (`RunWithPodSetsInfo`); kai-scheduler/KAI-Scheduler,
    pkg/podgrouper/podgrouper/plugins/job (v0.17.0).
    """
    minimum = _minimum(workload, context)
    least = least_parallelism(workload) if isinstance(workload, Job) else None
    if minimum is not None and least is not None and minimum > least:
        why = f"Kueue may start the Job with {least} pods, and KAI then waits for {minimum}"
        remedy = f"set it to at most {least}, as {MIN_PARALLELISM}"
        yield Finding(at=ANNOTATIONS / keys.ANNOTATION_MINIMUM, value=str(minimum), why=why, remedy=remedy)


@rule("kueue/kai-ready-minimum", subject=Subject.OPTED_IN, default=Action.WARN, passes=_job(4), fails=_job(2))
def minimum_below_ready(workload: OptedInWorkload, context: RuleContext) -> Results:
    """Kueue calls a Job ready when all pods that it has at a time are ready or have succeeded. A gang that KAI starts
    with its minimum is not ready in that sense, so Kueue stops it while it works.

    Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobs/job/job_controller.go (`PodsReady`).
    """
    minimum, timeout = _minimum(workload, context), ready_times(workload, context).ready
    if minimum is None or timeout is None or minimum >= (pods := workload.parts[0].pods):
        return
    if isinstance(workload, Job) and least_parallelism(workload) == minimum:
        # The other rule asks for this: Kueue then waits for the pods that it has admitted.
        return
    yield Finding(
        at=ANNOTATIONS / keys.ANNOTATION_MINIMUM,
        value=str(minimum),
        why=f"Kueue wants all {pods} pods ready, and KAI starts the gang with {minimum}: it is stopped "
        f"{duration(timeout)} after its admission although it runs",
        remedy=f'set it to "{pods}"',
    )

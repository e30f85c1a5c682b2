"""The PodGroups that KAI's podgrouper makes of a workload, as trees: with every subgroup, and all pods that count.

A Job and an MPIJob have one minimum for all pods. A JobSet has a subgroup for each replicated Job, and below it a leaf
for each of its Jobs. A RayCluster and a PyTorchJob have a leaf for each part. Each group of a LeaderWorkerSet is a
PodGroup with leaves for leader and workers. Workers may be in segments, each a leaf.

Source: kai-scheduler/KAI-Scheduler, pkg/podgrouper/podgrouper/plugins/{job,jobset,leaderworkerset,ray},
kubeflow/{pytorch,mpi} (v0.15.2 to 2026-08).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.backends.kai.keys import (
    ANNOTATION_SEGMENT,
    ANNOTATION_SEGMENT_PREFERRED,
    ANNOTATION_SEGMENT_REQUIRED,
)
from webhook.backends.kai.podgrouper import (
    TREES,
    PodGrouping,
    annotations_of,
    grouping_of,
    reads_pods,
    root_minimum,
    segment_size,
    stated_minimum,
)
from webhook.model.go_values import int32
from webhook.model.reading import mapping, text
from webhook.model.version import Version
from webhook.model.workloads.job import Job
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.scheduler_group import SchedulerGroup, SchedulerGroups, group_of
from webhook.model.workloads.topology_request import KAI_PREFERRED, KAI_REQUIRED, KAI_TOPOLOGY
from webhook.model.workloads.workload import OptedInWorkload, Part

_ASSUMED = f"if kai-scheduler is {TREES} or newer"
# Up to this many equal groups are shown one by one; of more, only the first.
_ONE_BY_ONE = 2
# Podgrouper's own limit.
_MOST_SEGMENTS = 10_000


def pod_groups_of(workload: OptedInWorkload, version: Version | None) -> SchedulerGroups | None:
    """The PodGroups of a workload; None for a kind of which podgrouper makes none, or nothing is read here."""
    trees = version is None or version >= TREES
    grouping = grouping_of(workload, trees=trees)
    if grouping is None:
        return None
    for fault in grouping.errors:
        if fault.until is None or version is None or version < fault.until:
            return SchedulerGroups((), f"podgrouper makes no PodGroup: {fault.at}: {fault.why}")
    if isinstance(workload, JobSet):
        groups = _of_job_set(workload, grouping) if trees else _of_flat_job_set(workload)
        return groups if version is not None else groups._replace(why=_ASSUMED)
    if isinstance(workload, LeaderWorkerSet):
        return _of_groups(workload)
    domains = _domains(annotations_of(workload))
    if grouping.total is not None or isinstance(workload, Job):
        return SchedulerGroups((_flat(workload, grouping, domains),))
    leaves = [leaf for part in workload.parts for leaf in _leaves(workload, part, grouping)]
    return SchedulerGroups((group_of(workload.name, tuple(leaves), domains=domains),))


def _domains(annotations: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The levels that annotations require and prefer; none without a Topology."""
    if not text(annotations.get(KAI_TOPOLOGY)):
        return None, None
    return text(annotations.get(KAI_REQUIRED)) or None, text(annotations.get(KAI_PREFERRED)) or None


def _leaf(part: Part, minimum: int, domains: tuple[str | None, str | None] = (None, None)) -> SchedulerGroup:
    return SchedulerGroup(part.name, part.pods, minimum, part, None, *domains, waits_for=", ".join(part.after) or None)


def _folded(group: SchedulerGroup, stem: str, count: int) -> tuple[SchedulerGroup, ...]:
    """The groups `stem`-0 to `stem`-`count - 1`, which are equal."""
    if count <= _ONE_BY_ONE:
        return tuple(replace(group, name=f"{stem}-{index}") for index in range(count))
    return (replace(group, name=f"{stem}-0", more=count - 1, last=f"{stem}-{count - 1}"),)


def _flat(workload: OptedInWorkload, grouping: PodGrouping, domains: tuple[str | None, str | None]) -> SchedulerGroup:
    """The PodGroup of a Job or MPIJob: its minimum counts any of the pods, so its parts have none of their own."""
    parts = [part for part in (*workload.outside_parts, *workload.parts) if part.pods > 0]
    is_job = isinstance(workload, Job)
    below = () if is_job else tuple(_leaf(part, part.pods) for part in parts)
    minimum = sum(grouping.minimums.values()) if grouping.total is None else grouping.total
    pods = sum(part.pods for part in parts)
    part = workload.parts[0] if is_job else None
    return SchedulerGroup(workload.name, pods, minimum, part, None, *domains, below=below)


def _leaves(workload: OptedInWorkload, part: Part, grouping: PodGrouping) -> Iterator[SchedulerGroup]:
    """The leaf of a part of a RayCluster or PyTorchJob, or its segments. Podgrouper reads the level of a leaf from
    Ray's templates.
    """
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
    """The pods of a segment of workers, if podgrouper makes segments."""
    size = int32(text(part.template.annotations.get(ANNOTATION_SEGMENT)) or "")
    return size if size is not None and size > 0 and part.pods <= size * _MOST_SEGMENTS and part.pods > 0 else None


def _segments(
    stem: str, indices: range, pods: int, minimum: int, part: Part, domains: tuple[str | None, str | None]
) -> list[SchedulerGroup]:
    """The segments of these indices, which are equal."""
    group = SchedulerGroup("", pods, minimum, part, None, *domains)
    first, count = indices.start, len(indices)
    if count <= _ONE_BY_ONE:
        return [replace(group, name=f"{stem}-{index}") for index in indices]
    return [replace(group, name=f"{stem}-{first}", more=count - 1, last=f"{stem}-{first + count - 1}")]


def _segment_domains(workload: OptedInWorkload, annotations: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The levels of segments, from the template of the workers; the Topology may be named by the workload."""
    if not (text(annotations.get(KAI_TOPOLOGY)) or text(workload.annotations.get(KAI_TOPOLOGY))):
        return None, None
    levels = (ANNOTATION_SEGMENT_REQUIRED, ANNOTATION_SEGMENT_PREFERRED)
    required, preferred = (text(annotations.get(key)) or None for key in levels)
    return required, preferred


def _of_job_set(workload: JobSet, grouping: PodGrouping) -> SchedulerGroups:
    """The tree of a JobSet: of its replicated Jobs all, or as many as an annotation says; of each of these all Jobs."""
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


def _of_flat_job_set(workload: JobSet) -> SchedulerGroups:
    """The PodGroup of a JobSet before there were trees, or one for each replicated Job if they start in order. Its
    minimum is one pod, or the number in an annotation.
    """
    minimum = int32(stated_minimum(workload) or "") or 1
    domains = _domains(annotations_of(workload))
    parts = [part for part in workload.parts if part.pods > 0]
    if workload.in_order:
        return SchedulerGroups(
            tuple(replace(_leaf(part, minimum, domains), name=f"{workload.name}-{part.name}") for part in parts)
        )
    pods = sum(part.pods for part in parts)
    below = tuple(_leaf(part, part.pods) for part in parts)
    return SchedulerGroups((SchedulerGroup(workload.name, pods, minimum, None, None, *domains, below=below),))


def _of_groups(workload: LeaderWorkerSet) -> SchedulerGroups:
    """The PodGroup of each group of a LeaderWorkerSet. With LeaderReady, the leader alone is enough until it is on a
    node.
    """
    segment = segment_size(workload)
    leader, *others = workload.parts
    first = replace(_leaf(leader, 1), pods=1)
    below = (first, *(replace(_leaf(part, part.each), name="workers", pods=part.each) for part in others))
    if segment is not None:
        below = tuple(_of_segments(workload, first, others[0], segment))
    group = group_of("", below, domains=_domains(workload.annotations))
    if text(workload.spec.get("startupPolicy")) == "LeaderReady" and others:
        waiting = tuple(replace(part, waits_for="leader") for part in below[1:])
        group = replace(group, minimum=1, below=(first, *waiting))
    return SchedulerGroups(_folded(group, workload.name, max(workload.replicas, 0)))


def _of_segments(workload: LeaderWorkerSet, leader: SchedulerGroup, part: Part, size: int) -> Iterator[SchedulerGroup]:
    """The segments of one group. The first has the leader, unless it is excluded; it may be larger then."""
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

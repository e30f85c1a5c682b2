"""How Kueue holds a workload: by which LocalQueue, by which means, and as which pod sets.

It answers for a workload as it is written, before or after Kueue's webhook has changed it. It does not know what Kueue
has decided: see `KueueWorkload` for that. Source: kubernetes-sigs/kueue v0.19, pkg/controller/jobframework,
pkg/controller/jobs/{job,jobset,trainjob,leaderworkerset,pod}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, FieldPath
from webhook.model.keys import Api
from webhook.model.kueue import keys
from webhook.model.kueue.settings import KueueSettings
from webhook.model.reading import mapping, text
from webhook.model.version import Version
from webhook.model.workloads.job import Job, parallelism
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.pod import Pod
from webhook.model.workloads.podcliqueset import Clique, PodCliqueSet
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.model.workloads.trainjob import MadeJobSet, TrainJob
from webhook.model.workloads.workload import OptedInWorkload


class HeldBy(StrEnum):
    """By which means Kueue keeps the pods from starting."""

    SUSPEND = "suspend"
    GATES = "gates"
    # An elastic Job is never suspended: Kueue frees as many of its pods as it has granted.
    ELASTIC = "elastic"


class Unit(StrEnum):
    """What Kueue admits at once, as one Workload."""

    WORKLOAD = "workload"
    # A group of a LeaderWorkerSet.
    GROUP = "group"
    # All pods that name the same pod group.
    POD_GROUP = "pod group"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods of one template in a Workload. `min_count` is the least number that Kueue may start, None for all."""

    name: str
    count: int
    template: PodTemplate
    min_count: int | None = None


class Held(NamedTuple):
    """How Kueue holds a workload or pods.

    `queue` is the name of the LocalQueue, None if Kueue holds the workload without one. `path` is where the object
    names it, None if it does not. `pod_sets` are those of one Workload; a TrainJob has none here, its runtime has them.
    """

    queue: str | None
    path: FieldPath | None
    by: HeldBy
    unit: Unit
    pod_sets: tuple[PodSet, ...] = ()
    # The name and the stated number of pods of a pod group.
    group: str | None = None
    total: str | None = None


def held(workload: OptedInWorkload, facts: ClusterFacts, settings: KueueSettings) -> Held | None:
    """How Kueue holds a workload; None if it does not, as far as is known. The JobSet that is made from a TrainJob is
    held as the TrainJob, with its own pods. Other parts of a workload (a Job of a JobSet) are held through their owner.
    """
    top = workload.train_job if isinstance(workload, MadeJobSet) else workload
    if not settings.integrates(top.kind) or _through_owner(top):
        return None
    queue = _queue(top.labels, top.namespace, facts, settings)
    if queue is None:
        return None
    path = LABELS / keys.QUEUE_NAME if queue.named else None
    if isinstance(workload, LeaderWorkerSet):
        return Held(queue.name, path, HeldBy.GATES, Unit.GROUP, pod_sets(workload))
    by = HeldBy.ELASTIC if isinstance(workload, Job) and is_elastic(workload) else HeldBy.SUSPEND
    return Held(queue.name, path, by, Unit.WORKLOAD, pod_sets(workload))


def pod_sets(workload: OptedInWorkload) -> tuple[PodSet, ...]:
    """The pod sets of a Workload that Kueue makes for a workload, or for a group of a LeaderWorkerSet."""
    return tuple(_of_group(workload) if isinstance(workload, LeaderWorkerSet) else _of_workload(workload))


def framework_of(workload: OptedInWorkload) -> str | None:
    """What Kueue calls a kind of an operator that it can hold."""
    api = workload.resource.api
    return keys.OPERATOR_FRAMEWORKS.get((api.group, api.kind))


def held_by_label(workload: OptedInWorkload, facts: ClusterFacts, settings: KueueSettings) -> Held | None:
    """How Kueue holds a workload of an operator that names a queue, if Kueue is set up to hold its kind; None if it
    names none, or if Kueue can hold no such kind.
    """
    if framework_of(workload) is None or keys.QUEUE_NAME not in workload.labels or _through_owner(workload):
        return None
    queue = _queue(workload.labels, workload.namespace, facts, settings)
    if queue is None:
        return None
    return Held(queue.name, LABELS / keys.QUEUE_NAME, HeldBy.SUSPEND, Unit.WORKLOAD, tuple(_of_workload(workload)))


def held_clique(clique: Clique, workload: PodCliqueSet, facts: ClusterFacts, settings: KueueSettings) -> Held | None:
    """How Kueue holds the pods of a clique; None if it does not. To Kueue, Grove's pods are plain pods."""
    if _queue(mapping(clique.raw.get("labels")), workload.namespace, facts, settings) is None:
        # Most cliques: no view of their pods is made.
        return None
    return held_template(clique.template, workload.namespace, clique.replicas, facts, settings)


def held_template(
    template: PodTemplate, namespace: str, count: int, facts: ClusterFacts, settings: KueueSettings
) -> Held | None:
    """How Kueue holds `count` plain pods made of a template; None if it does not."""
    if not settings.integrates(Pod.kind):
        return None
    queue = _queue(template.labels, namespace, facts, settings)
    if queue is None:
        return None
    path = template.labels_path / keys.QUEUE_NAME if queue.named else None
    group = pod_group(template)
    total = text(template.annotations.get(keys.POD_GROUP_TOTAL_COUNT))
    pods = PodSet(text(template.annotations.get(keys.ROLE_HASH)) or keys.MAIN, count if group else 1, template)
    return Held(queue.name, path, HeldBy.GATES, Unit.POD_GROUP if group else Unit.POD, (pods,), group, total)


def pod_group(template: PodTemplate) -> str | None:
    """The name of the pod group that pods belong to. The annotation counts before the label."""
    return text(template.annotations.get(keys.POD_GROUP_NAME)) or text(template.labels.get(keys.POD_GROUP_NAME))


def is_elastic(job: Job) -> bool:
    """Whether Kueue may give a Job its pods in parts."""
    return text(job.annotations.get(keys.ELASTIC_JOB)) == "true"


def runs_elsewhere(workload: OptedInWorkload) -> bool:
    """Whether MultiKueue runs the workload's pods in another cluster."""
    return text(workload.spec.get("managedBy")) == keys.MULTIKUEUE


def least_parallelism(job: Job) -> int | None:
    """The least parallelism with which Kueue may start a Job; None if it starts all or nothing."""
    stated = text(job.annotations.get(keys.MIN_PARALLELISM)) or ""
    if not (stated.isascii() and stated.isdigit() and len(stated) < _MOST_DIGITS):
        return None
    return int(stated) if 0 < int(stated) < parallelism(job.spec) else None


# A count of pods has 32 bits.
_MOST_DIGITS = 11


def is_installed(facts: ClusterFacts) -> bool | None:
    """Whether the cluster serves Kueue's API; None if that is not known, as for files."""
    if facts.local_queues is not None:
        return True
    return None if facts.apis is None else any(api.group == keys.GROUP for api in facts.apis)


def release(facts: ClusterFacts, settings: KueueSettings) -> Version | None:
    """Returns Kueue's release: the stated one, else 0.19 or 0.20 by the API versions that the cluster serves. None if
    neither is known.

    Source: kubernetes-sigs/kueue, CHANGELOG-0.20 (pull request 14558: v1beta1 is no longer served).
    """
    if settings.release is not None or facts.apis is None:
        return settings.release
    for version, served_by in _RELEASES:
        if Api(keys.GROUP, version, "LocalQueue") in facts.apis:
            return served_by
    return None


# The release that is assumed where an API version is served, the older one first.
_RELEASES = ((keys.OLD_VERSION, Version(0, 19)), (keys.VERSION, Version(0, 20)))


class _Queue(NamedTuple):
    """The name of a LocalQueue, None if there is none, and whether the object itself names it."""

    name: str | None
    named: bool


def _queue(labels: Mapping[str, Any], namespace: str, facts: ClusterFacts, settings: KueueSettings) -> _Queue | None:
    """The LocalQueue of an object; None if Kueue does not manage it. Most objects are not managed: this is quick for
    them.
    """
    found = _Queue(text(labels.get(keys.QUEUE_NAME)), named=True)
    if found.name is None:
        if (namespace, keys.DEFAULT_QUEUE) in (facts.local_queues or ()):
            found = _Queue(keys.DEFAULT_QUEUE, named=False)
        elif settings.manage_without_queue_name and is_installed(facts):
            found = _Queue(None, named=False)
        else:
            return None
    if is_installed(facts) is False:
        return None
    known = (facts.namespaces or {}).get(namespace)
    managed = settings.manages_namespace(namespace, None if known is None else known.labels)
    return None if managed is False else found


def _through_owner(workload: OptedInWorkload) -> bool:
    """Whether another workload that Kueue can hold made this one."""
    owner = workload.controller
    return owner is not None and (owner.group, owner.kind) in keys.HOLDING_OWNERS


def _of_workload(workload: OptedInWorkload) -> Iterator[PodSet]:
    if isinstance(workload, TrainJob):
        return
    for part in workload.parts:
        if isinstance(workload, Job):
            yield PodSet(keys.MAIN, part.pods, part.template, least_parallelism(workload))
        else:
            yield PodSet(part.name, part.pods, part.template)


def _of_group(workload: LeaderWorkerSet) -> Iterator[PodSet]:
    """The pod sets of one group: one for all its pods, or one for a leader with its own template."""
    parts = {part.name: part for part in workload.parts}
    leader, worker = parts["leader"], parts.get("worker")
    templates = mapping(workload.spec.get("leaderWorkerTemplate"))
    if templates.get("leaderTemplate") is None:
        yield PodSet(keys.MAIN, workload.size, leader.template)
        return
    yield PodSet("leader", 1, leader.template)
    if worker is not None:
        yield PodSet("worker", worker.each, worker.template)

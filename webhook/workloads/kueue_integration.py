"""How Kueue holds a workload: by which LocalQueue, by which means, as which pod sets, and which topology its gangs
require.

It answers for a workload as it is written, before or after Kueue's webhook has changed it. It does not know what Kueue
has decided: see `KueueWorkload` for that. Rollcall is also an AdmissionCheck controller of Kueue: here is which
Workloads wait for its answer and what it writes. The pods of a TrainJob are made from a runtime that is stored
separately. Source: kubernetes-sigs/kueue v0.19, apis/kueue/v1beta2/workload_types.go and admissioncheck_types.go,
pkg/workload/admissionchecks.go, pkg/controller/jobframework,
pkg/controller/jobs/{job,jobset,trainjob,leaderworkerset,pod}.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from webhook.model import kueue
from webhook.model.bounds import Packed, unpacked
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, FieldPath, Item
from webhook.model.grove import OwnerReference, controller_in
from webhook.model.keys import Api
from webhook.model.known_kinds import PODS
from webhook.model.known_objects import KaiLevels
from webhook.model.kueue import KueueSettings
from webhook.model.kueue_objects import KueueWorkload
from webhook.model.pod_template import Pod, PodTemplate
from webhook.model.projections import POD_CLIQUE_SETS
from webhook.model.quantity import Version
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.workloads import opted_in_gang
from webhook.workloads.job import Job, parallelism
from webhook.workloads.jobset import JobSet
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.pod_clique_set import Clique, PodCliqueSet
from webhook.workloads.trainjob import Runtime, TrainerJobSet, TrainJob, train_job_of

# `spec.controllerName` of the AdmissionChecks that Rollcall answers.
CONTROLLER = "rollcall.dev/gang"
# The kinds of objects that a Workload may be made for, or that decide about its pods, besides opted-in workloads.
OWNERS_BESIDES = (POD_CLIQUE_SETS.resource, PODS)
# Conditions that end or undo a reservation: what is written after one of them is lost, or stops a running workload.
_OVER = (kueue.ADMITTED, kueue.EVICTED, kueue.FINISHED, kueue.DEACTIVATION_TARGET)


class CheckMode(StrEnum):
    """Whether Rollcall answers AdmissionChecks: not at all, always with Ready, or as it has decided."""

    OFF = "off"
    AUDIT = "audit"
    ON = "on"


def waiting_checks(workload: KueueWorkload, ours: Container[str]) -> tuple[str, ...]:
    """Returns the checks among `ours` that hold a workload which has quota. An answer at any other time is not reset by
    Kueue, or stops a workload that runs.
    """
    if not workload.active or not workload.is_true(kueue.QUOTA_RESERVED) or any(map(workload.is_true, _OVER)):
        return ()
    return tuple(check.name for check in workload.checks if check.state == kueue.CHECK_PENDING and check.name in ours)


def reserved_at(workload: KueueWorkload) -> str:
    """Returns when Kueue reserved quota for a workload, as Kueue writes it; empty if it did not."""
    condition = workload.condition(kueue.QUOTA_RESERVED)
    return "" if condition is None else condition.at


def owners_of(raw: Manifest) -> Iterator[OwnerReference]:
    """Yields what a Workload is made for: its controller, or every pod of a pod group. Raises `Malformed`."""
    metadata = mapping(raw.get("metadata"))
    if (controller := controller_in(metadata)) is not None:
        # Kueue makes a job the controller of its Workload. Any user may add other owners.
        yield controller
        return
    for reference in map(mapping, sequence(metadata.get("ownerReferences"))):
        version, kind, name = (text(reference.get(key)) or "" for key in ("apiVersion", "kind", "name"))
        yield OwnerReference(version, kind, name, text(reference.get("uid")))


def answered(raw: Manifest, names: Container[str], state: str, message: str, now: str) -> list[Manifest]:
    """Returns the JSON Patch of a Workload's status that answers the checks `names`, and changes no other entry. It is
    refused if the Workload has changed since it was read: Kueue writes the whole list. Raises `Malformed`.
    """
    version = mapping(raw.get("metadata")).get("resourceVersion")
    patch: list[Manifest] = [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}]
    for index, entry in enumerate(map(mapping, sequence(mapping(raw.get("status")).get("admissionChecks")))):
        if entry.get("name") in names and entry.get("state") == kueue.CHECK_PENDING:
            written = {**entry, "state": state, "message": message, "lastTransitionTime": now}
            patch.append({"op": "replace", "path": f"/status/admissionChecks/{index}", "value": written})
    return patch


def activation(name: str, now: str) -> Manifest:
    """Returns the status of a served AdmissionCheck. Kueue admits nothing by a ClusterQueue with an inactive one."""
    return {
        "apiVersion": f"{kueue.GROUP}/{kueue.VERSION}",
        "kind": "AdmissionCheck",
        "metadata": {"name": name},
        "status": {
            "conditions": [
                {
                    "type": kueue.ACTIVE,
                    "status": "True",
                    "reason": "Served",
                    "message": "Rollcall's reconciler answers this check",
                    "lastTransitionTime": now,
                }
            ]
        },
    }


def runtime_of(workload: TrainJob, facts: ClusterFacts) -> Runtime | None:
    """Returns the runtime of a TrainJob, or None if it is unknown."""
    stored = _stored(workload, facts)
    return None if stored is None else Runtime(unpacked(stored))


def workload_with_pods(workload: OptedInWorkload, facts: ClusterFacts) -> OptedInWorkload | None:
    """Returns the workload that an applied workload's pods are made from: itself, or the JobSet of a TrainJob whose
    runtime is known. None for a JobSet that a TrainJob makes: it is judged with the TrainJob.
    """
    if isinstance(workload, TrainJob):
        stored = _stored(workload, facts)
        return None if stored is None else workload.job_set_of(stored)
    return None if isinstance(workload, JobSet) and train_job_of(workload) is not None else workload


def _stored(workload: TrainJob, facts: ClusterFacts) -> Manifest | Packed | None:
    needed = workload.runtime
    stored: Manifest | Packed | None = (getattr(facts, needed.part) or {}).get(needed.key)
    return stored


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
    """Returns how Kueue holds a workload; None if it does not, as far as is known. The JobSet that is made from a
    TrainJob is held as the TrainJob, with its own pods. Other parts of a workload (a Job of a JobSet) are held through
    their owner.
    """
    top = workload.train_job if isinstance(workload, TrainerJobSet) else workload
    if not settings.integrates(top.kind) or _through_owner(top):
        return None
    queue = _queue(top.labels, top.namespace, facts, settings)
    if queue is None:
        return None
    path = LABELS / kueue.QUEUE_NAME if queue.is_named else None
    if isinstance(workload, LeaderWorkerSet):
        return Held(queue.name, path, HeldBy.GATES, Unit.GROUP, pod_sets(workload))
    by = HeldBy.ELASTIC if isinstance(workload, Job) and is_elastic(workload) else HeldBy.SUSPEND
    return Held(queue.name, path, by, Unit.WORKLOAD, pod_sets(workload))


def pod_sets(workload: OptedInWorkload) -> tuple[PodSet, ...]:
    """Returns the pod sets of a Workload that Kueue makes for a workload, or for a group of a LeaderWorkerSet."""
    return tuple(_group_pod_sets(workload) if isinstance(workload, LeaderWorkerSet) else _workload_pod_sets(workload))


def framework_of(workload: OptedInWorkload) -> str | None:
    """Returns what Kueue calls a kind of an operator that it can hold."""
    api = workload.resource.api
    return kueue.OPERATOR_FRAMEWORKS.get((api.group, api.kind))


def held_by_label(workload: OptedInWorkload, facts: ClusterFacts, settings: KueueSettings) -> Held | None:
    """Returns how Kueue holds a workload of an operator that names a queue, if Kueue is set up to hold its kind; None
    if it names none, or if Kueue can hold no such kind.
    """
    if framework_of(workload) is None or kueue.QUEUE_NAME not in workload.labels or _through_owner(workload):
        return None
    queue = _queue(workload.labels, workload.namespace, facts, settings)
    if queue is None:
        return None
    return Held(
        queue.name, LABELS / kueue.QUEUE_NAME, HeldBy.SUSPEND, Unit.WORKLOAD, tuple(_workload_pod_sets(workload))
    )


def held_clique(clique: Clique, workload: PodCliqueSet, facts: ClusterFacts, settings: KueueSettings) -> Held | None:
    """Returns how Kueue holds the pods of a clique; None if it does not. To Kueue, Grove's pods are plain pods."""
    if _queue(mapping(clique.raw.get("labels")), workload.namespace, facts, settings) is None:
        # Most cliques: no view of their pods is made.
        return None
    return held_template(clique.template, workload.namespace, clique.replicas, facts, settings)


def held_template(
    template: PodTemplate, namespace: str, count: int, facts: ClusterFacts, settings: KueueSettings
) -> Held | None:
    """Returns how Kueue holds `count` plain pods made of a template; None if it does not."""
    if not settings.integrates(Pod.kind):
        return None
    queue = _queue(template.labels, namespace, facts, settings)
    if queue is None:
        return None
    path = template.labels_path / kueue.QUEUE_NAME if queue.is_named else None
    group = pod_group(template)
    total = text(template.annotations.get(kueue.POD_GROUP_TOTAL_COUNT))
    pods = PodSet(text(template.annotations.get(kueue.ROLE_HASH)) or kueue.MAIN, count if group else 1, template)
    return Held(queue.name, path, HeldBy.GATES, Unit.POD_GROUP if group else Unit.POD, (pods,), group, total)


def pod_group(template: PodTemplate) -> str | None:
    """Returns the name of the pod group that pods belong to. The annotation counts before the label."""
    return text(template.annotations.get(kueue.POD_GROUP_NAME)) or text(template.labels.get(kueue.POD_GROUP_NAME))


def is_elastic(job: Job) -> bool:
    """Returns whether Kueue may give a Job its pods in parts."""
    return text(job.annotations.get(kueue.ELASTIC_JOB)) == "true"


def runs_elsewhere(workload: OptedInWorkload) -> bool:
    """Returns whether MultiKueue runs the workload's pods in another cluster."""
    return text(workload.spec.get("managedBy")) == kueue.MULTIKUEUE


def least_parallelism(job: Job) -> int | None:
    """Returns the least parallelism with which Kueue may start a Job; None if it starts all or nothing."""
    stated = text(job.annotations.get(kueue.MIN_PARALLELISM)) or ""
    if not (stated.isascii() and stated.isdigit() and len(stated) < _MOST_DIGITS):
        return None
    return int(stated) if 0 < int(stated) < parallelism(job.spec) else None


# A count of pods has 32 bits.
_MOST_DIGITS = 11


def is_installed(facts: ClusterFacts) -> bool | None:
    """Returns whether the cluster serves Kueue's API; None if that is not known, as for files."""
    if facts.local_queues is not None:
        return True
    return None if facts.apis is None else any(api.group == kueue.GROUP for api in facts.apis)


def release(facts: ClusterFacts, settings: KueueSettings) -> Version | None:
    """Returns Kueue's release: the stated one, else 0.19 or 0.20 by the API versions that the cluster serves. None if
    neither is known.

    Source: kubernetes-sigs/kueue, CHANGELOG-0.20 (pull request 14558: v1beta1 is no longer served).
    """
    if settings.release is not None or facts.apis is None:
        return settings.release
    for version, served_by in _RELEASES:
        if Api(kueue.GROUP, version, "LocalQueue") in facts.apis:
            return served_by
    return None


# The release that is assumed where an API version is served, the older one first.
_RELEASES = ((kueue.OLD_VERSION, Version(0, 19)), (kueue.VERSION, Version(0, 20)))


class _Queue(NamedTuple):
    """The name of a LocalQueue, None if there is none, and whether the object itself names it."""

    name: str | None
    is_named: bool


def _queue(labels: Mapping[str, Any], namespace: str, facts: ClusterFacts, settings: KueueSettings) -> _Queue | None:
    """Returns the LocalQueue of an object; None, quickly, if Kueue does not manage it, as most objects."""
    queue = _Queue(text(labels.get(kueue.QUEUE_NAME)), is_named=True)
    if queue.name is None:
        if (namespace, kueue.DEFAULT_QUEUE) in (facts.local_queues or ()):
            queue = _Queue(kueue.DEFAULT_QUEUE, is_named=False)
        elif settings.manage_without_queue_name and is_installed(facts):
            queue = _Queue(None, is_named=False)
        else:
            return None
    if is_installed(facts) is False:
        return None
    namespace_facts = (facts.namespaces or {}).get(namespace)
    managed = settings.manages_namespace(namespace, None if namespace_facts is None else namespace_facts.labels)
    return None if managed is False else queue


def _through_owner(workload: OptedInWorkload) -> bool:
    """Returns whether another workload that Kueue can hold made this one."""
    owner = workload.controller
    return owner is not None and (owner.group, owner.kind) in kueue.HOLDING_OWNERS


def _workload_pod_sets(workload: OptedInWorkload) -> Iterator[PodSet]:
    if isinstance(workload, TrainJob):
        return
    for part in workload.parts:
        if isinstance(workload, Job):
            yield PodSet(kueue.MAIN, part.pods, part.template, least_parallelism(workload))
        else:
            yield PodSet(part.name, part.pods, part.template)


def _group_pod_sets(workload: LeaderWorkerSet) -> Iterator[PodSet]:
    """Yields the pod sets of one group: one for all its pods, or one for a leader with its own template."""
    parts = {part.name: part for part in workload.parts}
    leader, worker = parts["leader"], parts.get("worker")
    templates = mapping(workload.spec.get("leaderWorkerTemplate"))
    if templates.get("leaderTemplate") is None:
        yield PodSet(kueue.MAIN, workload.size, leader.template)
        return
    yield PodSet("leader", 1, leader.template)
    if worker is not None:
        yield PodSet("worker", worker.each, worker.template)


# The ClusterNetworkTopology that koord-scheduler reads.
_NETWORK_TOPOLOGY = "default"


class RequiredLevel(NamedTuple):
    """A level of a topology: all pods of `parts` must be in one domain of it. `parts` are names of cliques, or of the
    parts of a workload; None for all. `said` is what the author wrote, and `key` the node label key, which Volcano's
    tiers do not have. `inherited` means that a TrainJob says it, and not the JobSet that is made of it.
    """

    stated: str
    path: FieldPath
    key: str | None = None
    parts: tuple[str, ...] | None = None
    inherited: bool = False

    @property
    def name(self) -> str:
        """The node label key, else what the author wrote."""
        return self.key or self.stated


def levels_of_set(workload: PodCliqueSet, facts: ClusterFacts) -> Iterator[RequiredLevel]:
    """Yields the levels that a PodCliqueSet requires, if their ClusterTopologyBinding is known."""
    binding = (facts.topology_bindings or {}).get(workload.topology_name() or "")
    if binding is None:
        return
    for constraint in workload.constraints():
        domain = constraint.topology.required or ""
        if (key := binding.keys.get(domain)) is not None:
            yield RequiredLevel(
                domain, constraint.topology.required_path, key, tuple(dict.fromkeys(constraint.clique_names))
            )


def levels_for(system: str, workload: OptedInWorkload, facts: ClusterFacts) -> Iterator[RequiredLevel]:
    """Yields the levels that `system` (a name of `webhook.model.claims`) reads in a workload's annotations."""
    if system == "KAI":
        yield from _kai_levels(opted_in_gang.annotations_of_workload(workload), facts)
        # Podgrouper reads the templates of a JobSet's Jobs as well, and no pods.
        for part, place in zip(workload.parts, opted_in_gang.annotations_of_jobs(workload), strict=False):
            yield from (level._replace(parts=(part.name,)) for level in _kai_levels(place, facts))
        if isinstance(workload, TrainerJobSet) and opted_in_gang.KAI_REQUIRED not in workload.annotations:
            above = opted_in_gang.annotations_of_workload(workload.train_job)
            yield from (level._replace(inherited=True) for level in _kai_levels(above, facts))
    elif system in {"Koordinator", "Volcano"}:
        key = opted_in_gang.KOORDINATOR_TOPOLOGY if system == "Koordinator" else opted_in_gang.VOLCANO_TIER
        for place in opted_in_gang.every_place(workload):
            if (
                place.holder is not opted_in_gang.AnnotationPlace.JOBS
                and place.asks(key)
                and (domain := opted_in_gang.domains(place)[0]) is not None
            ):
                yield RequiredLevel(domain, place.path / key, _label_key(domain, facts))
                # A gang has one topology.
                return


def levels_of_own_gang(workload: OptedInWorkload) -> Iterator[RequiredLevel]:
    """Yields the levels that the workload's own controller writes into its groups of the Workload API."""
    for block in workload.scheduling_blocks():
        topology: Any = block.spec.get("schedulingConstraints")
        topology = topology.get("topology") if isinstance(topology, Mapping) else None
        for index, constraint in enumerate(topology if isinstance(topology, list) else ()):
            key = constraint.get("key") if isinstance(constraint, Mapping) else None
            if isinstance(key, str):
                path = block.path / "schedulingConstraints" / "topology" / Item(index) / "key"
                yield RequiredLevel(key, path, key, block.parts)


def _kai_levels(place: opted_in_gang.Annotations, facts: ClusterFacts) -> Iterator[RequiredLevel]:
    """Yields the level at one place. Without the name of a Topology KAI ignores it."""
    level, topology = (
        text(place.values.get(opted_in_gang.KAI_REQUIRED)),
        text(place.values.get(opted_in_gang.KAI_TOPOLOGY)),
    )
    if level is not None and topology is not None:
        levels = (facts.kai_topologies or {}).get(topology)
        aliases = levels.aliases if isinstance(levels, KaiLevels) else {}
        yield RequiredLevel(level, place.path / opted_in_gang.KAI_REQUIRED, aliases.get(level, level))


def _label_key(layer: str, facts: ClusterFacts) -> str | None:
    layers = (facts.network_topologies or {}).get(_NETWORK_TOPOLOGY, ())
    return next((entry.label_keys[0] for entry in layers if entry.name == layer and entry.label_keys), None)

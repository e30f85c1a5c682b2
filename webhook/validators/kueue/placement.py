"""Which pods Kueue places itself (its topology-aware scheduling), and what their gang requires of the scheduler.

Kueue places a pod set that asks for a topology, and every pod set of a ClusterQueue whose flavors all have a Topology.
It writes the domain, often the host, into each pod's nodeSelector before the scheduler sees the pod. Source:
kubernetes-sigs/kueue v0.19, pkg/scheduler/flavorassigner/tas_flavorassigner.go, pkg/controller/jobframework/tas.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.kueue import keys
from webhook.model.kueue.holding import Held, PodSet, Unit, held
from webhook.model.kueue.objects import ClusterQueue
from webhook.model.reading import text
from webhook.model.workloads.applied_pods import with_pods
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.model.workloads.podtemplate import PodTemplate
from webhook.model.workloads.required_level import RequiredLevel, levels_for, levels_of_own_gang, levels_of_set
from webhook.model.workloads.trainjob import MadeJobSet
from webhook.model.workloads.workload import OptedInWorkload
from webhook.validators.kueue.held_cliques import held_cliques, may_be_held
from webhook.validators.registry import Context

# In the order in which Kueue reads them. The first one counts.
_REQUESTS = (
    keys.REQUIRED_TOPOLOGY,
    keys.PREFERRED_TOPOLOGY,
    keys.UNCONSTRAINED_TOPOLOGY,
    keys.SLICE_REQUIRED_TOPOLOGY,
    keys.SLICE_CONSTRAINTS,
)


class Request(NamedTuple):
    """What the pods of a template ask of Kueue's topology: one of Kueue's keys and its value."""

    key: str
    value: str
    path: FieldPath


class Placeable(NamedTuple):
    """Pods that Kueue places as one, if it places them: the pods of a pod set, or of several in one group of pod sets.
    `alone` means that it places each pod by itself.
    """

    part: str
    template: PodTemplate
    request: Request | None
    unit: str
    alone: bool = False


@dataclass(frozen=True)
class Gangs:
    """The pods of a workload that Kueue holds, and the levels that its gangs require."""

    held: Held
    pods: tuple[Placeable, ...]
    levels: tuple[RequiredLevel, ...]
    # The JobSet of a TrainJob, which has other paths.
    made: MadeJobSet | None = None

    def place(self, level: RequiredLevel) -> tuple[FieldPath, str]:
        """Where the author finds a required level: the path in the judged object, and words to put before the reason
        if the path names only the runtime.
        """
        if self.made is None or level.inherited:
            return level.path, ""
        at = self.made.in_train_job(level.path)
        return at, "" if at != self.made.train_job.runtime_path else f"{self.made.where(level.path)}: "

    def within(self, level: RequiredLevel) -> Iterator[Placeable]:
        """The pods that a level is about."""
        if level.parts is None:
            return iter(self.pods)
        return (one for name in level.parts for one in self._by_part.get(name, ()))

    @cached_property
    def _by_part(self) -> Mapping[str, Sequence[Placeable]]:
        found: dict[str, list[Placeable]] = {}
        for one in self.pods:
            found.setdefault(one.part, []).append(one)
        return found


def request_of(template: PodTemplate) -> Request | None:
    """What the pods of a template ask of Kueue's topology."""
    for key in _REQUESTS:
        if (value := text(template.annotations.get(key))) is not None:
            return Request(key, value, template.annotations_path / key)
    return None


def gangs_of(workload: PodCliqueSet | OptedInWorkload, context: Context[Any]) -> Gangs | None:
    """The pods of a workload that Kueue holds; None if it holds none or never places pods, or if they are unknown."""
    if not context.kueue.topology_aware:
        return None
    return _of_cliques(workload, context) if isinstance(workload, PodCliqueSet) else _of_workload(workload, context)


def _of_cliques(workload: PodCliqueSet, context: Context[Any]) -> Gangs | None:
    found = list(held_cliques(workload, context))
    if not found:
        return None
    pods = tuple(
        _placeable(one.clique.name, pod_set, alone=one.held.unit is Unit.POD and one.clique.replicas > 1)
        for one in found
        for pod_set in one.held.pod_sets
    )
    return Gangs(found[0].held, pods, tuple(levels_of_set(workload, context.facts)))


def _of_workload(workload: OptedInWorkload, context: Context[Any]) -> Gangs | None:
    if not may_be_held(workload.labels, workload.namespace, context):
        return None
    whole = with_pods(workload, context.facts)
    if whole is None or (found := held(whole, context.facts, context.kueue)) is None:
        return None
    pods = tuple(_placeable(pod_set.name, pod_set) for pod_set in found.pod_sets if pod_set.count > 0)
    made = whole if isinstance(whole, MadeJobSet) else None
    return Gangs(found, pods, tuple(_levels(whole, context)), made)


def lacking(facts: ClusterFacts) -> str | None:
    """The part of the facts without which it is not known what a queue places."""
    for part in ("local_queues", "cluster_queues", "resource_flavors"):
        if getattr(facts, part) is None:
            return part
    return None


def cluster_queue(queue: str | None, namespace: str, facts: ClusterFacts) -> ClusterQueue | None:
    """The ClusterQueue of a LocalQueue; None if it is not known."""
    local = (facts.local_queues or {}).get((namespace, queue or ""))
    return None if local is None else (facts.cluster_queues or {}).get(local.cluster_queue or "")


def places_all(queue: str | None, namespace: str, facts: ClusterFacts) -> bool | None:
    """Whether Kueue places every pod set of a LocalQueue: all flavors of its ClusterQueue have a Topology. None if that
    is not known.
    """
    cluster = cluster_queue(queue, namespace, facts)
    if cluster is None or facts.resource_flavors is None:
        return None
    known = [facts.resource_flavors.get(name) for name in cluster.flavors]
    if any(flavor is not None and flavor.topology is None for flavor in known):
        return False
    return None if None in known or not known else True


def _placeable(part: str, pod_set: PodSet, *, alone: bool = False) -> Placeable:
    request = request_of(pod_set.template)
    group = text(pod_set.template.annotations.get(keys.PODSET_GROUP_NAME))
    # Kueue reads the name of a group only next to one of these two.
    grouped = group is not None and request is not None and request.key in _REQUESTS[:2]
    return Placeable(part, pod_set.template, request, f"group {group}" if grouped else f"pod set {part}", alone)


def _levels(workload: OptedInWorkload, context: Context[Any]) -> Iterator[RequiredLevel]:
    for system in sorted(context.reads_claims_of):
        yield from levels_for(system, workload, context.facts)
    if "the Workload API" in context.reads_claims_of:
        yield from levels_of_own_gang(workload)

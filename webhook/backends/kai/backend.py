"""The backend of `kai-scheduler`: the contract, what KAI honours, what it places together, and the Queues that limit a
gang.

KAI places the minimum of every leaf, each set of leaves and the whole group in the domain that it requires. A domain
is a path of label values from the broadest level of a Topology down, and a node must have the label of every level of
it. The groups of opted-in workloads are made by KAI's podgrouper, with minimums of their own (`podgrouper`). Where
podgrouper makes no group, or one that never starts, nothing is claimed.

A Queue limits GPUs, cpu and memory. What it does not state it does not give, and exactly -1 is no limit. The whole
minimum is held against `limit` in one sum. A gang that is never preempted is held against `quota`, too. GPUs count by
annotations: parts of a GPU by their part, MIG instances by their number of slices, and GPU memory, which is unknown
here, as nothing.

Source: kai-scheduler/KAI-Scheduler v0.16.8,
pkg/scheduler/plugins/{topology,proportion/{proportion.go,capacity_policy}},
pkg/scheduler/api/{podgroup_info,resource_info/gpu_resource_requirment.go} (`GetGpusQuota`), pkg/podgrouper
(defaultgrouper; plugins at v0.17.0).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from webhook.backends.base import Backend, GangMember, PodChanges
from webhook.backends.kai import gangs, keys, opted_in, pod_clique_sets, pod_groups, podgrouper
from webhook.backends.kai.gangs import levels_of
from webhook.backends.kai.keys import KaiSettings
from webhook.backends.queues import leaves, limits_of, path_of, place_of
from webhook.backends.topologies import NoTopology, UnknownTopology
from webhook.fit.ceilings import MOST_TRIED, Counted, allows
from webhook.fit.gang_shapes import GangShape
from webhook.fit.packing import (
    KAI,
    Ceiling,
    Ceilings,
    FitSettings,
    GroupNeed,
    Need,
    Packing,
    PackingRole,
    Partition,
    PodReading,
    PodsNeed,
    Roles,
    group_of,
    pack_together,
)
from webhook.fit.resource_requests import GPU_PARTS, GPUS
from webhook.fit.verdict import FitFamily, FitScope
from webhook.model.capabilities import SUPPORTED, Capability, CapabilityTable, depends
from webhook.model.claims import Mark
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, FieldPath
from webhook.model.findings import shown
from webhook.model.gang_objects import Frozen
from webhook.model.grove import ClusterTopologyBinding, PodGang
from webhook.model.keys import GroupKind, Record
from webhook.model.known_objects import KaiLevels, KaiQueue, SpecField
from webhook.model.pod_template import PodTemplate
from webhook.model.projections import Resource
from webhook.model.quantity import Version
from webhook.model.reading import Manifest, mapping, text
from webhook.model.topology_tree import TopologyDrift
from webhook.validators.gang_scheduler import Limit
from webhook.validators.registry import collect
from webhook.workloads.jobset import JobSet
from webhook.workloads.opted_in_gang import KAI_REQUIRED, KAI_TOPOLOGY, OptedInGang, has_foreign_gang
from webhook.workloads.opted_in_workload import OptedInWorkload, SchedulerGroups

_LEVEL = depends("a KAI Topology that has the domain among its levels")
CAPABILITIES: CapabilityTable = {
    Capability.GANG: SUPPORTED,
    Capability.MULTIPLE_POD_GROUPS: SUPPORTED,
    Capability.CLIQUE_MINIMUM: SUPPORTED,
    Capability.SCALE_GANG: SUPPORTED,
    Capability.MULTI_NODE_NVLINK: SUPPORTED,
    Capability.RESOURCE_CLAIMS: depends("shared GPU ResourceClaims that have the gang's queue as a label"),
    Capability.TOPOLOGY_WORKLOAD: _LEVEL,
    Capability.TOPOLOGY_SCALING_GROUP: _LEVEL,
    Capability.TOPOLOGY_CLIQUE: _LEVEL,
    Capability.TOPOLOGY_DIVERGENT: SUPPORTED,
    Capability.TOPOLOGY_PREFERRED: depends("a KAI Topology that has the level, not broader than the required one"),
    Capability.QUEUE: depends("one leaf Queue that exists, the same for all cliques"),
    Capability.PRIORITY_CLASS: depends("a PriorityClass that exists"),
}

# Jobs of a JobSet that each need a domain of their own are listed up to this number.
_MOST_LISTED = 64
_MOST_DIGITS = 9
_MOST_FAULTS = 3


def packing_of(shape: GangShape, roles: Roles, version: Version | None, facts: ClusterFacts) -> Packing:
    domains = _Domains(facts)
    if shape.opted_in is not None:
        packing = _grouped(shape, shape.opted_in, roles, version, domains)
    else:
        binding = shape.topology_name
        packing = pack_together(shape, roles, lambda key, at: domains.binding_partition(binding, key, at))
    if domains.unknown:
        unknown = "the level of the KAI Topology that the gang requires"
        packing = replace(packing, left_out=(*packing.left_out, unknown))
    return packing


class _Domains:
    """How nodes fall into the domains of Topologies. `unknown` says whether a level was asked for that is not known."""

    def __init__(self, facts: ClusterFacts) -> None:
        self._facts = facts
        self.unknown = False

    def binding_partition(self, binding: str | None, key: str, at: FieldPath | None) -> Partition | None:
        """Returns the domains of a level of the Topology for a ClusterTopologyBinding."""
        try:
            levels = () if binding is None else levels_of(binding, self._facts)
        except (NoTopology, UnknownTopology):
            levels = ()
        topology_binding = (self._facts.topology_bindings or {}).get(binding or "")
        names = {} if topology_binding is None else {level: domain for domain, level in topology_binding.keys.items()}
        return self._partition(levels, key, at, names)

    def annotated_partition(self, annotations: Mapping[str, Any]) -> Partition | None:
        """Returns the domains that annotations require, or None. KAI ignores a level without a Topology."""
        level, topology = text(annotations.get(KAI_REQUIRED)), text(annotations.get(KAI_TOPOLOGY))
        if not level or not topology:
            return None
        levels = (self._facts.kai_topologies or {}).get(topology, ())
        aliases = levels.aliases if isinstance(levels, KaiLevels) else {}
        names = {label: alias for alias, label in aliases.items()}
        return self._partition(levels, aliases.get(level, level), None, names)

    def _partition(
        self, levels: tuple[str, ...], key: str, at: FieldPath | None, names: Mapping[str, str]
    ) -> Partition | None:
        """Returns the domains of a level: nodes with the same values up to it, and with the label of every level.
        `names` are what people call the levels.
        """
        if key not in levels:
            self.unknown = True
            return None
        partition = None
        for place, level in enumerate(levels[: levels.index(key) + 1], start=1):
            name = names.get(level, level)
            partition = Partition(name, tuple(levels[:place]), at, required_keys=tuple(levels), broader=partition)
        return partition


def _grouped(shape: GangShape, gang: OptedInGang, roles: Roles, version: Version | None, domains: _Domains) -> Packing:
    workload = gang.workload
    within = domains.annotated_partition(podgrouper.annotations_of(workload))
    trees = version is None or version >= podgrouper.TREES
    grouping = podgrouper.grouping_of(workload, trees=trees)
    if grouping is not None and (faults := [*grouping.errors, *grouping.unreachable]):
        return Packing((), unknown=tuple(f"{fault.at}: {fault.why}" for fault in faults[:_MOST_FAULTS]))
    if isinstance(workload, JobSet):
        return _job_set_packing(shape, gang, workload, roles, version, domains)
    minimums = {} if grouping is None else grouping.minimums
    needs: list[Need] = []
    for member in shape.needed:
        part = next(iter(gang.parts.get(member.part, ())), None)
        count = member.minimum if part is None else minimums.get(part.place, member.minimum)
        if part is not None and member.minimum < part.needed:
            # Kueue may start the workload with fewer pods.
            count = min(count, member.minimum)
        if count > 0:
            # Podgrouper reads the level of a leaf from Ray's templates.
            annotations = member.template.annotations if podgrouper.reads_pods(workload) else {}
            level = domains.annotated_partition(annotations)
            needs.append(PodsNeed(roles.role_of(member), count, level))
    packing = _together(shape, needs, len(needs), within)
    return packing if grouping is None else replace(packing, left_out=(*packing.left_out, *grouping.unsure))


def _job_set_packing(
    shape: GangShape, gang: OptedInGang, workload: JobSet, roles: Roles, version: Version | None, domains: _Domains
) -> Packing:
    """Returns what the group of a JobSet places together: of its replicated Jobs all, or as many as an annotation says;
    of each of these all Jobs, with the pods of each.
    """
    needed, first = podgrouper.root_minimum(workload), podgrouper.first_parts(workload)
    if (version is None or version >= podgrouper.TREES) and needed is not None and needed > first:
        why = f"KAI's group needs {needed} of the replicated Jobs at once, and {first} have pods before another one ran"
        return Packing((), unknown=(why,))
    stated = _minimum(podgrouper.annotations_of(workload))
    left_out_members = sum(member.min_replicas > 0 for member in gang.members) - len(shape.needed)
    if version is not None and version < podgrouper.TREES:
        if left_out_members:
            # The pods count together, and any of them. So those that are left out may be enough.
            return Packing((), left_out=shape.left_out)
        if stated is None or stated <= 1 or len(workload.parts) != 1:
            needs: list[Need] = [PodsNeed(role, 1) for role in roles.values()]
            return _together(shape, needs, min(1, len(needs)), None)
        only = shape.needed[0]
        return _together(shape, [PodsNeed(roles.role_of(only), min(stated, only.minimum))], 1, None)
    whole = domains.annotated_partition(podgrouper.annotations_of(workload))
    of_jobs = {part.name: mapping(workload.job_metadata(index)) for index, part in enumerate(workload.parts)}
    needs, left_out = [], False
    for member in shape.needed:
        part = next(iter(gang.parts.get(member.part, ())), None)
        # Without its replicated Job nothing is known but that there are pods.
        each = 1 if part is None else max(part.each, 1)
        annotations = {} if part is None else mapping(of_jobs.get(part.name, {}).get("annotations"))
        pods = min(_minimum(annotations) or each, each)
        jobs = 1 if part is None else member.minimum // each
        within = domains.annotated_partition(annotations)
        if within is None or jobs > _MOST_LISTED:
            left_out = left_out or within is not None
            needs.append(PodsNeed(roles.role_of(member), jobs * pods))
        else:
            need = PodsNeed(roles.role_of(member), pods, within)
            needs.append(need if jobs == 1 else GroupNeed(member.name, (need,) * jobs, jobs))
    # Where some parts are enough, those that are left out may be among them.
    count = len(needs) if stated is None else max(min(stated - left_out_members, len(needs)), 0)
    packing = _together(shape, needs, count, whole)
    assumed = f"kai-scheduler is {podgrouper.TREES} or newer"
    packing = replace(packing, assumptions=() if version is not None else (assumed,))
    if left_out:
        packing = replace(packing, left_out=(*packing.left_out, "the domain of each Job is not judged"))
    return packing


def _together(shape: GangShape, needs: list[Need], count: int, within: Partition | None) -> Packing:
    if not needs:
        return Packing((), left_out=shape.left_out)
    group = replace(group_of(shape.name, needs, within), count=count)
    return Packing((group,), left_out=shape.left_out)


def _minimum(annotations: Mapping[str, Any]) -> int | None:
    """Returns the minimum that annotations state; one pod if that cannot be read."""
    stated = text(annotations.get(keys.ANNOTATION_MINIMUM))
    if stated is None:
        return None
    if not (stated.isascii() and stated.isdigit()) or len(stated) > _MOST_DIGITS:
        return 1
    return max(int(stated), 1)


_UNKNOWN_LIMITS = "the limits of the KAI Queue {} are unknown"
_MIG = re.compile(r"nvidia\.com/mig-(\d{1,2})g\.", re.ASCII)
_MILLI = 1000
# The name of a PriorityClass, on a workload or a pod.
_CLASS_LABEL, _RAY_CLASS = "priorityClassName", "ray.io/priority-class-name"
# Under these names a Queue states what it gives. GPUs are kept in thousandths.
_GPU, _PLAIN = "gpu", ("cpu", "memory")
# The amounts of a Queue, with None for no limit.
_Stated = Mapping[str, int | None] | None


def ceilings_of(
    shape: GangShape,
    roles: Mapping[str, PackingRole],
    facts: ClusterFacts,
    settings: KaiSettings,
    queue: str | None = None,
) -> Ceilings:
    """Returns the queues that limit a gang with these roles. `queue` is that of its PodGroup, where that is known."""
    key, queues = settings.queueLabelKey, facts.kai_queues
    name = queue or shape.record.queue(key) or settings.defaultQueue
    if name is None or queues is None:
        why = "the KAI Queue of the gang is unknown" if name is None else "the KAI Queues are unknown"
        return Ceilings(unknown=(why,))
    path = list(path_of(name, queues))
    limits: list[tuple[str, Callable[[KaiQueue], _Stated]]] = [("the KAI Queue", lambda kai_queue: kai_queue.limit)]
    if _is_never_preempted(shape, facts):
        limits.append(("the quota of the KAI Queue", lambda kai_queue: kai_queue.quota))
    whole = all(_gpus(role) % _MILLI == 0 for role in roles.values())
    at = place_of(shape, [("labels", key)] if shape.opted_in else [("labels", key), ("annotations", key)], LABELS / key)
    ceilings = [
        _ceiling(called, name, queue_name, amounts, at, whole=whole)
        for called, stated in limits
        for queue_name, limiting in path
        if (amounts := _amounts(stated(limiting), whole=whole)) is not None
    ]
    unknown = [_UNKNOWN_LIMITS.format(shown(queue_name)) for queue_name, limiting in path if limiting.limit is None]
    top = path[-1][1].parent if path else name
    if top and top not in queues:
        missing = f"the KAI Queue {shown(top)} above {shown(name)} is unknown"
        unknown.append(_UNKNOWN_LIMITS.format(shown(top)) if top == name else missing)
    if not all(allows(ceiling, shape, roles) for ceiling in ceilings):
        cure = _cure(name, shape, roles, queues, settings)
        ceilings = [ceiling._replace(cure=cure) for ceiling in ceilings]
    return Ceilings(tuple(ceilings), tuple(unknown))


def _ceiling(
    called: str, gang_queue: str, name: str, amounts: Mapping[str, int], at: FieldPath, *, whole: bool
) -> Ceiling:
    called = called if name == gang_queue else called.replace("KAI", "parent KAI")
    return Ceiling(called, name, amounts, FitFamily.QUEUE, FitScope.EVER, at=at, counted=_counted(whole=whole))


def _amounts(stated: _Stated, *, whole: bool) -> Mapping[str, int] | None:
    """Returns what a queue gives; None if that is unknown. What it does not state is 0."""
    if stated is None:
        return None
    amounts = {resource: amount for resource in _PLAIN if (amount := stated.get(resource, 0)) is not None}
    if (gpus := stated.get(_GPU, 0)) is not None:
        amounts |= {GPUS: gpus // _MILLI} if whole else {GPU_PARTS: gpus}
    return amounts


def _counted(*, whole: bool) -> Counted:
    """Returns what one pod counts, with GPUs as whole ones or in thousandths."""

    def counted(role: PackingRole) -> Mapping[str, int]:
        plain = {resource: role.pods.request.get(resource, 0) for resource in _PLAIN}
        gpus = _gpus(role)
        return {**plain, GPUS: gpus // _MILLI} if whole else {**plain, GPU_PARTS: gpus}

    return counted


def _gpus(role: PackingRole) -> int:
    gpus = role.pods.request.get(GPU_PARTS, 0)
    for resource, amount in role.pods.request.items():
        if profile := _MIG.match(resource):
            gpus += int(profile[1]) * amount * _MILLI
    return gpus


def _is_never_preempted(shape: GangShape, facts: ClusterFacts) -> bool:
    """Returns whether a gang is surely never preempted: it says so, or says nothing and has such a PriorityClass."""
    stated = text(shape.labels.get(keys.LABEL_PREEMPTIBILITY))
    if stated is not None:
        return stated == "non-preemptible"
    if shape.opted_in is not None:
        return _has_such_class(shape, shape.opted_in.workload, facts)
    priority_class = (facts.priority_classes or {}).get(shape.record.priority_class or "")
    return priority_class is not None and priority_class.value >= keys.NON_PREEMPTIBLE


def _has_such_class(shape: GangShape, workload: OptedInWorkload, facts: ClusterFacts) -> bool:
    """Returns whether podgrouper surely finds a class with which a gang is never preempted, whichever pod it reads. It
    takes the first name that is stated: in the label of the workload, in that of the pod, in the pod's spec. If there
    is no such class, it takes one of its configuration. Of Ray it takes the label of Ray, whatever it names.
    """
    above = [holder.labels for holder in podgrouper.holders_of(workload)]
    templates = [member.template for member in shape.members]
    stated = (*above, *(template.labels for template in templates))
    if any(keys.LABEL_PREEMPTIBILITY in labels for labels in stated) or not templates:
        return False
    priority_classes = facts.priority_classes or {}
    if workload.resource.api.group == podgrouper.RAY and _RAY_CLASS in workload.labels:
        priority_class = priority_classes.get(text(workload.labels[_RAY_CLASS]) or "")
        return priority_class is not None and priority_class.value >= keys.NON_PREEMPTIBLE
    return all(
        (value := _value_of(template, above, facts)) is not None and value >= keys.NON_PREEMPTIBLE
        for template in templates
    )


def _value_of(template: PodTemplate, above: Iterable[Mapping[str, Any]], facts: ClusterFacts) -> int | None:
    """Returns the value of the class that is named first, else of the cluster's default class, which the API server
    writes into pods; None if it is not known.
    """
    classes = facts.priority_classes or {}
    labels = next((labels for labels in (*above, template.labels) if _CLASS_LABEL in labels), None)
    name = text(template.spec.get("priorityClassName")) if labels is None else text(labels[_CLASS_LABEL]) or ""
    if name is not None:
        return classes[name].value if name in classes else None
    if not facts.is_whole("priority_classes"):
        return None
    return min((default.value for default in classes.values() if default.is_default), default=None)


def _cure(
    name: str, shape: GangShape, roles: Mapping[str, PackingRole], queues: Mapping[str, KaiQueue], settings: KaiSettings
) -> str:
    """Returns the advice to name another queue of the same node pool that allows the gang, if one is known."""
    pool = queues[name].labels.get(settings.nodePoolLabelKey)
    for other in leaves(queues)[:MOST_TRIED]:
        if other != name and queues[other].labels.get(settings.nodePoolLabelKey) == pool:
            ceilings = list(_every(other, queues))
            if all(ceiling is not None and allows(ceiling, shape, roles) for ceiling in ceilings):
                return f"name the Queue {shown(other)}, which allows it"
    return ""


def _every(name: str, queues: Mapping[str, KaiQueue]) -> Iterator[Ceiling | None]:
    """Yields the limits and quotas of a queue and of all above it; None for one that is unknown."""
    for queue_name, queue in path_of(name, queues):
        for stated in (queue.limit, queue.quota):
            amounts = _amounts(stated, whole=False)
            yield None if amounts is None else _ceiling("", name, queue_name, amounts, LABELS, whole=False)


# kai.scheduler/skip-podgrouper and minSubGroup exist since this version.
FIRST_VERSION = Version(0, 15)


class KaiBackend(Backend[KaiSettings]):
    """KAI 0.15 and newer."""

    name = keys.NAME
    settings_model = KaiSettings
    group_marks = (keys.GROUP_MARK,)
    rules = collect(pod_clique_sets, pod_groups, opted_in, podgrouper)
    required_apis = (keys.POD_GROUP,)
    required_fields = (SpecField(keys.POD_GROUP, "minSubGroup", "KAI 0.15"),)
    projections = keys.PROJECTIONS
    reads_claims_of = frozenset({"KAI"})
    # Its podgrouper makes the group of every pod of the scheduler that names no group itself. Without Rollcall, pods of
    # kinds that it does not know would start one by one.
    groups_opted_in = True
    grouped_kinds = keys.GROUPED_KINDS
    controllers = keys.CONTROLLERS
    shapes = keys.SHAPES
    topology_kind = keys.TOPOLOGIES.resource

    @classmethod
    def version_problem(cls, version: Version) -> str | None:
        if version < FIRST_VERSION:
            return (
                f"kai-scheduler before {FIRST_VERSION} lacks minSubGroup and kai.scheduler/skip-podgrouper, so "
                "its podgrouper would take the pods out of their gangs"
            )
        return None

    def init(self, facts: ClusterFacts) -> tuple[str, ...]:
        drifts = (f"{self.name}: {drift.message}" for drift in gangs.known_drifts(facts))
        return (*super().init(facts), *drifts)

    @property
    def configured_keys(self) -> frozenset[str]:
        return frozenset({self.settings.queueLabelKey, self.settings.nodePoolLabelKey})

    def makes_gangs_of(self, kind: GroupKind) -> bool:
        return not self.groups(kind)

    def own_minimums(self, workload: OptedInWorkload) -> Mapping[FieldPath, int]:
        grouping = podgrouper.grouping_of(workload) if self.groups(workload.resource.api.group_kind) else None
        return {} if grouping is None else grouping.minimums

    def scheduler_groups(self, workload: OptedInWorkload) -> SchedulerGroups | None:
        if not self.groups(workload.resource.api.group_kind):
            return None
        return podgrouper.pod_groups_of(workload, self.scheduler_version)

    @property
    def gang_heads(self) -> tuple[Resource, ...]:
        return (Resource(keys.POD_GROUP, "podgroups"),)

    def limits(self, workload: OptedInWorkload, facts: ClusterFacts) -> Iterator[Limit]:
        name = gangs.named_queue(workload, self.settings)
        if name is None and not has_foreign_gang(workload):
            name = self.settings.defaultQueue
        name = name or gangs.project_queue(workload, self.settings) or keys.DEFAULT_QUEUE
        return limits_of(name, facts.kai_queues, "the KAI Queue")

    def ceilings(self, shape: GangShape, roles: Mapping[str, PackingRole], facts: ClusterFacts) -> Ceilings:
        return ceilings_of(shape, roles, facts, self.settings)

    @property
    def capabilities(self) -> CapabilityTable:
        return CAPABILITIES

    @property
    def membership(self) -> tuple[tuple[Mark, ...], ...]:
        # If one of them is missing, podgrouper treats the pod as its own.
        return (
            (keys.GROUP_MARK, Mark("annotations", keys.ANNOTATION_SKIP, "true"), Mark("labels", keys.LABEL_SUBGROUP)),
        )

    def prepare_pod(self, member: GangMember) -> PodChanges:
        return gangs.prepare_pod(member, self.settings)

    def gang_objects(self, podgang: PodGang, record: Record, facts: ClusterFacts) -> list[Manifest]:
        return gangs.gang_objects(podgang, record, self.settings, facts)

    def pod_reading(self, settings: FitSettings) -> PodReading:
        return KAI.restrict(settings)

    def packing(self, shape: GangShape, facts: ClusterFacts, settings: FitSettings) -> Packing:
        return packing_of(shape, self.roles(shape, facts, settings), self.scheduler_version, facts)

    def adopt(self, desired: Manifest, live: Manifest | None) -> Manifest:
        if desired["kind"] == keys.TOPOLOGY.kind:
            return gangs.adopt_topology(desired, live)
        return gangs.adopt(desired, live, self.settings)

    def restore(self, desired: Manifest, present: Mapping[str, int]) -> Manifest:
        return gangs.restore(desired, present)

    def frozen(self, desired: Sequence[Manifest], live: Sequence[Manifest]) -> Frozen | None:
        return gangs.frozen(desired, live)

    def topology_objects(self, binding: ClusterTopologyBinding) -> list[Manifest]:
        return gangs.topology_objects(binding)

    def topology_must_be_remade(self, desired: Manifest, live: Manifest) -> bool:
        # In KAI's CRD the node label keys and their order are immutable.
        return gangs.level_keys(live) != gangs.level_keys(desired)

    def topology_drift(self, binding: ClusterTopologyBinding, live: Manifest | None) -> TopologyDrift | None:
        return gangs.topology_drift(binding, live)

"""The gangs of a workload as a tree: for a PodCliqueSet its PodGangs, scaling-group replicas and cliques; for another
workload its gangs and the pods of each part.

A set of ten thousand replicas has ten thousand trees that differ only in their names, so equal nodes are counted and
not listed. Names and members follow `translation`. Topology is shown as the set has it, so no facts are needed. The
groups of a LeaderWorkerSet are equal, so only the first are shown. If another program makes the gang, the parts are
directly below the workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from webhook.model.grove import GroveGeneration, PodGangNames
from webhook.model.place import groups_together
from webhook.model.pod_template import PodTemplate
from webhook.model.reading import Malformed, mapping, sequence, text
from webhook.workloads.jobset import JobSet
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import annotations_of_pods, annotations_of_workload, domains, gangs_of
from webhook.workloads.opted_in_workload import OptedInWorkload, Part, SchedulerGroup, SchedulerGroups
from webhook.workloads.pod_clique_set import Clique, PodCliqueSet, ScalingGroup, Topology

# More do not fit into a box.
_MOST = 3
# Kubernetes' own resources with a prefix.
_OWN = ("hugepages-", "kubernetes.io/", "attachable-volumes-")


def device_words(template: PodTemplate) -> Iterator[str]:
    """Yields the extended resources of a pod with their amounts, and its resource claims; only the first of many."""
    try:
        devices = [*_devices(template), *_claims(template)]
    except Malformed:
        # The rules report fields of the wrong type.
        return
    yield from devices[:_MOST]
    if len(devices) > _MOST:
        yield f"{len(devices) - _MOST:,} more devices"


def _devices(template: PodTemplate) -> Iterator[str]:
    for resource in sorted(template.resources):
        if "/" in resource and not resource.startswith(_OWN):
            amount = template.total_request(resource)
            if amount is not None and amount > 0:
                yield f"{float(amount):,.10g} {resource}"


def _claims(template: PodTemplate) -> Iterator[str]:
    for claim in sequence(template.spec.get("resourceClaims")):
        source = mapping(claim).get("resourceClaimTemplateName") or mapping(claim).get("resourceClaimName")
        yield f"claim {text(source) or text(mapping(claim).get('name'))}"


# Up to this many equal nodes are shown one by one; of more, only the first.
_ONE_BY_ONE = 2


class TreeLevel(StrEnum):
    """The kind of a node of the tree."""

    SET = "PodCliqueSet"
    GANG = "PodGang"
    GROUP = "scaling-group replica"
    CLIQUE = "PodClique"
    # Of workloads that are not Grove's.
    JOB = "Job"
    JOB_SET = "JobSet"
    LEADER_WORKER_SET = "LeaderWorkerSet"
    TRAIN_JOB = "TrainJob"
    # `Node.kind` says which.
    DECLARED = "declared workload"
    OWNED_GANG = "gang"
    SUBGROUP = "subgroup"
    MEMBER = "member"


_LEVELS = {
    "Job": TreeLevel.JOB,
    "JobSet": TreeLevel.JOB_SET,
    "LeaderWorkerSet": TreeLevel.LEADER_WORKER_SET,
    "TrainJob": TreeLevel.TRAIN_JOB,
}
# Kinds of a root.
WORKLOADS = frozenset({TreeLevel.SET, TreeLevel.DECLARED, *_LEVELS.values()})


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One node of the tree. `pods` is the number of all its pods, `minimum` the number with which its gang starts.

    `more` counts further equal nodes, `last` is the name of the last one. `waits_for` is the gang that must run before
    this one starts, or the part whose pods exist before those of this one. It starts with `needed` of the nodes below,
    or with all of them. `note` says what is special or not known about it.
    """

    level: TreeLevel
    name: str
    pods: int
    minimum: int
    required: str | None = None
    preferred: str | None = None
    waits_for: str | None = None
    more: int = 0
    last: str | None = None
    # The kind of a workload whose kind is declared.
    kind: str = ""
    below: tuple[TreeNode, ...] = ()
    # What each pod of a part has that not every node has.
    carries: tuple[str, ...] = ()
    needed: int | None = None
    note: str = ""

    @property
    def kind_name(self) -> str:
        return self.kind or str(self.level)

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"kind": self.kind_name, "name": self.name, "pods": self.pods, "minimum": self.minimum}
        topology = {"required": self.required, "preferred": self.preferred}
        if any(topology.values()):
            fields["topology"] = topology
        if self.waits_for is not None:
            fields["waitsFor"] = self.waits_for
        if self.needed is not None:
            fields["needed"] = self.needed
        if self.note:
            fields["note"] = self.note
        if self.more:
            fields |= {"more": self.more, "last": self.last}
        if self.carries:
            fields["carries"] = list(self.carries)
        if self.below:
            fields["below"] = [node.as_json() for node in self.below]
        return fields


def gang_tree(workload: PodCliqueSet, generation: GroveGeneration) -> TreeNode:
    names = PodGangNames(generation)
    first_replica = tuple(_gangs_of_replica(workload, f"{workload.name}-0", names))
    pods = sum(gang.pods * (1 + gang.more) for gang in first_replica)
    minimum = sum(gang.minimum for gang in first_replica if gang.waits_for is None)
    count = max(workload.replicas, 0)
    more = number_hidden(count)
    gangs: list[TreeNode] = []
    for index in shown_indexes(count):
        replica_gangs = list(_gangs_of_replica(workload, f"{workload.name}-{index}", names))
        last = names.first(f"{workload.name}-{count - 1}") if more else None
        gangs += [*(replace(first, more=more, last=last) for first in replica_gangs[:1]), *replica_gangs[1:]]
    name, domains_of_set = f"{workload.namespace}/{workload.name}", _domains(workload.topology)
    return TreeNode(TreeLevel.SET, name, count * pods, count * minimum, *domains_of_set, below=tuple(gangs))


def gang_names(tree: TreeNode) -> Iterator[str]:
    for gang in tree.below:
        yield gang.name
        if gang.last is not None:
            yield gang.last


def shown_indexes(count: int) -> range:
    return range(count if count <= _ONE_BY_ONE else 1)


def number_hidden(count: int) -> int:
    return 0 if count <= _ONE_BY_ONE else count - 1


def _gangs_of_replica(workload: PodCliqueSet, base: str, names: PodGangNames) -> Iterator[TreeNode]:
    """Yields the first gang of one replica of the set, then the gangs that its scaling groups add."""
    members = [_clique(member) for member in workload.cliques if member.group is None]
    groups = [(group, list(map(_clique, cliques))) for group, cliques in workload.groups_with_cliques()]
    for group, cliques in groups:
        first = group.first_replicas
        for index in shown_indexes(first):
            name, more = f"{group.name}-{index}", number_hidden(first)
            last = f"{group.name}-{first - 1}" if more else None
            members.append(_node(TreeLevel.GROUP, name, cliques, group.topology, more=more, last=last))
    if members or names.generation is GroveGeneration.LEGACY:
        yield _node(TreeLevel.GANG, names.first(base), members, workload.topology)
    for group, cliques in groups:
        extra = group.further_replicas
        for index in shown_indexes(extra):
            more = number_hidden(extra)
            gang = _further_gang(workload, group, cliques, index + group.min_available, base, names)
            end = names.further(base, group, group.replicas - 1) if more else None
            yield replace(gang, waits_for=names.first(base), more=more, last=end)


def _further_gang(
    workload: PodCliqueSet, group: ScalingGroup, cliques: list[TreeNode], index: int, base: str, names: PodGangNames
) -> TreeNode:
    name = names.further(base, group, index)
    if names.generation is GroveGeneration.LEGACY:
        return _node(TreeLevel.GANG, name, cliques, group.topology or workload.topology)
    if group.topology is not None:
        cliques = [_node(TreeLevel.GROUP, f"{group.name}-{index}", cliques, group.topology)]
    return _node(TreeLevel.GANG, name, cliques, workload.topology)


def _clique(member: Clique) -> TreeNode:
    domains, carries = _domains(member.topology), tuple(device_words(member.template))
    return TreeNode(TreeLevel.CLIQUE, member.name, member.replicas, member.min_available, *domains, carries=carries)


def _node(
    level: TreeLevel,
    name: str,
    below: list[TreeNode],
    topology: Topology | None,
    *,
    more: int = 0,
    last: str | None = None,
) -> TreeNode:
    pods = sum(node.pods * (1 + node.more) for node in below)
    minimum = sum(node.minimum * (1 + node.more) for node in below)
    return TreeNode(level, name, pods, minimum, *_domains(topology), more=more, last=last, below=tuple(below))


def _domains(topology: Topology | None) -> tuple[str | None, str | None]:
    return (None, None) if topology is None else (topology.required, topology.preferred)


_IN_NO_GANG = "in no gang"


def workload_tree(
    workload: OptedInWorkload,
    maker: OptedInWorkload,
    groups: SchedulerGroups | None = None,
    note: str = "",
    remark: str = "",
) -> TreeNode:
    """Returns the tree of `workload`, whose pods `maker` makes: the JobSet of a TrainJob, else the workload itself.
    `groups` are those that its scheduler makes itself. `note` says why it has no gangs, or why they are unknown: then
    its parts are directly below the workload. `remark` stands beside its gangs.
    """
    if groups is not None:
        gangs = tuple(replace(_subgroup(group), level=TreeLevel.OWNED_GANG) for group in groups.groups)
        note = note or groups.why
        covered = frozenset(part.place for group in groups.groups for part in _parts_in(group))
    else:
        gangs = () if note else tuple(_gangs(maker))
        # A gang of a part that needs none of its pods is left out.
        covered = frozenset(part.place for part in maker.parts if not maker.gang_per_part or part.needed > 0)
    if not gangs:
        gangs = tuple(_members(maker.parts))
        covered = frozenset(part.place for part in maker.parts)
    outside = (part for part in (*maker.parts, *maker.outside_parts) if part.place not in covered)
    below = (*gangs, *(replace(member, note="" if note else _IN_NO_GANG) for member in _members(outside)))
    pods = sum(node.pods * (1 + node.more) for node in below)
    minimum = sum(gang.minimum * (1 + gang.more) for gang in gangs if gang.waits_for is None)
    # A JobSet's annotations win over those of its TrainJob.
    maker_domains, above = domains(annotations_of_workload(maker)), domains(annotations_of_workload(workload))
    topology = maker_domains[0] or above[0], maker_domains[1] or above[1]
    level = TreeLevel.DECLARED if workload.crd else _LEVELS[workload.kind]
    kind = workload.kind if workload.crd else ""
    name = f"{workload.namespace}/{workload.name}"
    return TreeNode(level, name, pods, minimum, *topology, kind=kind, below=below, note=note or remark)


def _parts_in(group: SchedulerGroup) -> Iterator[Part]:
    if group.part is not None:
        yield group.part
    for below in group.below:
        yield from _parts_in(below)


def _subgroup(group: SchedulerGroup) -> TreeNode:
    part = group.part
    return TreeNode(
        TreeLevel.SUBGROUP if group.below else TreeLevel.MEMBER,
        group.name,
        group.pods,
        group.minimum,
        group.required,
        group.preferred,
        group.waits_for,
        group.more,
        group.last,
        below=tuple(map(_subgroup, group.below)),
        carries=() if part is None else tuple(device_words(part.template)),
        needed=group.needed,
    )


def _gangs(maker: OptedInWorkload) -> Iterator[TreeNode]:
    if isinstance(maker, LeaderWorkerSet):
        yield from _groups(maker)
        return
    if maker.together is not None:
        yield from _gangs_of_roles(maker)
        return
    every = (*maker.parts, *maker.outside_parts)
    # By name of the gang: its part, if each part has its own gang.
    alone = {f"{maker.name}-{part.name}": part for part in maker.parts} if maker.gang_per_part else {}
    for gang in gangs_of(maker):
        pods = sum(member.pods for member in gang.members)
        minimum = sum(member.min_replicas for member in gang.members)
        if gang.name in alone:
            after = _last(maker, alone[gang.name])
            yield TreeNode(TreeLevel.OWNED_GANG, gang.name, pods, minimum, waits_for=after)
        else:
            below = tuple(_members(maker.parts)) if isinstance(maker, JobSet) or len(every) > 1 else ()
            yield TreeNode(TreeLevel.OWNED_GANG, gang.name, pods, minimum, below=below)


def _last(maker: OptedInWorkload, part: Part) -> str | None:
    """Returns the gangs that the gang of a part waits for; in a sequence only the previous one."""
    names = [other.name for other in maker.parts]
    in_a_row = part.after == tuple(names[: names.index(part.name)])
    return ", ".join(f"{maker.name}-{name}" for name in (part.after[-1:] if in_a_row else part.after)) or None


def _groups(workload: LeaderWorkerSet) -> Iterator[TreeNode]:
    count, size = max(workload.replicas, 0), max(workload.size, 0)
    below = [_member(part.name, part.each, part) for part in workload.parts]
    for index in shown_indexes(count):
        more = number_hidden(count)
        last = f"{workload.name}-{count - 1}" if more else None
        name = f"{workload.name}-{index}"
        yield TreeNode(TreeLevel.OWNED_GANG, name, size, size, more=more, last=last, below=tuple(below))


def _gangs_of_roles(maker: OptedInWorkload) -> Iterator[TreeNode]:
    """Yields the gang of the first groups, then the further groups of each role, which are alike."""
    groups = {role.part.name: role.groups for role in maker.roles}
    for gang in gangs_of(maker):
        members = ((member, part) for member in gang.members for part in gang.parts[member.name])
        below = tuple(_member(member.name, member.pods, part) for member, part in members)
        pods = sum(node.pods for node in below)
        if gang.name == maker.name:
            yield TreeNode(TreeLevel.OWNED_GANG, gang.name, pods, pods, below=below)
            continue
        (part,) = gang.parts[gang.name]
        count = groups[part.name]
        more = count - groups_together(part.name, maker.together or {}) - 1
        last = f"{maker.name}-{part.name}-{count - 1}" if more else None
        yield TreeNode(TreeLevel.OWNED_GANG, gang.name, pods, pods, more=more, last=last)


def _members(parts: Iterable[Part]) -> Iterator[TreeNode]:
    for part in parts:
        if part.pods > 0:
            yield _member(part.name, part.pods, part, part.needed)


def _member(name: str, pods: int, part: Part, minimum: int | None = None) -> TreeNode:
    needed = pods if minimum is None else minimum
    after, carries = ", ".join(part.after) or None, tuple(device_words(part.template))
    return TreeNode(TreeLevel.MEMBER, name, pods, needed, *domains(annotations_of_pods(part)), after, carries=carries)

"""Draw the gangs of a workload that is not Grove's as a tree, without I/O: workload, gangs, and the pods of each part.

The groups of a LeaderWorkerSet are equal, so only the first are shown. If another program makes the gang, the parts are
directly below the workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from webhook.explain.carried import carried
from webhook.explain.gang_tree import Level, Node, left, shown
from webhook.model.workloads.gang import gangs_of
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.roles import groups_together
from webhook.model.workloads.scheduler_group import SchedulerGroup, SchedulerGroups
from webhook.model.workloads.topology_request import domains, of_pods, of_workload
from webhook.model.workloads.workload import OptedInWorkload, Part

_LEVELS = {
    "Job": Level.JOB,
    "JobSet": Level.JOB_SET,
    "LeaderWorkerSet": Level.LEADER_WORKER_SET,
    "TrainJob": Level.TRAIN_JOB,
}
_IN_NO_GANG = "in no gang"


def workload_tree(
    workload: OptedInWorkload,
    made: OptedInWorkload,
    groups: SchedulerGroups | None = None,
    note: str = "",
    remark: str = "",
) -> Node:
    """Return the tree of `workload`. `made` makes its pods: the JobSet of a TrainJob, else the workload itself.
    `groups` are those that its scheduler makes itself. `note` says why it has no gangs, or why they are not known: then
    its parts are directly below the workload. `remark` is said beside its gangs.
    """
    if groups is not None:
        gangs, note = tuple(map(_gang_of_scheduler, groups.groups)), note or groups.why
        covered = frozenset(part.place for group in groups.groups for part in _parts_in(group))
    else:
        gangs = () if note else tuple(_gangs(made))
        covered = frozenset(part.place for part in made.parts if _has_gang(made, part))
    if not gangs:
        gangs = tuple(_members(made.parts))
        covered = frozenset(part.place for part in made.parts)
    outside = (part for part in (*made.parts, *made.outside_parts) if part.place not in covered)
    below = (*gangs, *(replace(one, note="" if note else _IN_NO_GANG) for one in _members(outside)))
    pods = sum(node.pods * (1 + node.more) for node in below)
    minimum = sum(gang.minimum * (1 + gang.more) for gang in gangs if gang.waits_for is None)
    # A JobSet's annotations win over those of its TrainJob.
    own, above = domains(of_workload(made)), domains(of_workload(workload))
    wanted = own[0] or above[0], own[1] or above[1]
    level = Level.DECLARED if workload.crd else _LEVELS[workload.kind]
    kind = workload.kind if workload.crd else ""
    name = f"{workload.namespace}/{workload.name}"
    return Node(level, name, pods, minimum, *wanted, kind=kind, below=below, note=note or remark)


def _has_gang(made: OptedInWorkload, part: Part) -> bool:
    """Return whether Rollcall makes a gang of a part's pods. A gang of a part that needs none of its pods is left
    out.
    """
    return not made.gang_per_part or part.needed > 0


def _parts_in(group: SchedulerGroup) -> Iterator[Part]:
    if group.part is not None:
        yield group.part
    for below in group.below:
        yield from _parts_in(below)


def _gang_of_scheduler(group: SchedulerGroup) -> Node:
    """Return the node of a group that the scheduler makes itself."""
    return replace(_subgroup(group), level=Level.OWNED_GANG)


def _subgroup(group: SchedulerGroup) -> Node:
    part = group.part
    return Node(
        Level.SUBGROUP if group.below else Level.MEMBER,
        group.name,
        group.pods,
        group.minimum,
        group.required,
        group.preferred,
        group.waits_for,
        group.more,
        group.last,
        below=tuple(map(_subgroup, group.below)),
        carries=() if part is None else tuple(carried(part.template)),
        needed=group.needed,
    )


def _gangs(made: OptedInWorkload) -> Iterator[Node]:
    if isinstance(made, LeaderWorkerSet):
        yield from _groups(made)
        return
    if made.together is not None:
        yield from _of_roles(made)
        return
    every = (*made.parts, *made.outside_parts)
    # By name of the gang: its part, if each part has its own gang.
    alone = {f"{made.name}-{part.name}": part for part in made.parts} if made.gang_per_part else {}
    for gang in gangs_of(made):
        pods = sum(member.pods for member in gang.members)
        minimum = sum(member.min_replicas for member in gang.members)
        if gang.name in alone:
            after = _last(made, alone[gang.name])
            yield Node(Level.OWNED_GANG, gang.name, pods, minimum, waits_for=after)
        else:
            below = tuple(_members(made.parts)) if isinstance(made, JobSet) or len(every) > 1 else ()
            yield Node(Level.OWNED_GANG, gang.name, pods, minimum, below=below)


def _last(made: OptedInWorkload, part: Part) -> str | None:
    """Return the gangs that the gang of a part waits for. In a sequence only the previous one is named, because that
    one waits for the earlier ones.
    """
    names = [one.name for one in made.parts]
    in_a_row = part.after == tuple(names[: names.index(part.name)])
    return ", ".join(f"{made.name}-{name}" for name in (part.after[-1:] if in_a_row else part.after)) or None


def _groups(made: LeaderWorkerSet) -> Iterator[Node]:
    count, size = max(made.replicas, 0), max(made.size, 0)
    below = [_member(part.name, part.each, part) for part in made.parts]
    for index in shown(count):
        more = left(count)
        last = f"{made.name}-{count - 1}" if more else None
        name = f"{made.name}-{index}"
        yield Node(Level.OWNED_GANG, name, size, size, more=more, last=last, below=tuple(below))


def _of_roles(made: OptedInWorkload) -> Iterator[Node]:
    """Yield the gang of the first groups, then the further groups of each role, which are alike."""
    groups = {role.part.name: role.groups for role in made.roles}
    for gang in gangs_of(made):
        below = tuple(
            _member(member.name, member.pods, part) for member in gang.members for part in gang.parts[member.name]
        )
        pods = sum(node.pods for node in below)
        if gang.name == made.name:
            yield Node(Level.OWNED_GANG, gang.name, pods, pods, below=below)
            continue
        (part,) = gang.parts[gang.name]
        count = groups[part.name]
        more = count - groups_together(part.name, made.together or {}) - 1
        last = f"{made.name}-{part.name}-{count - 1}" if more else None
        yield Node(Level.OWNED_GANG, gang.name, pods, pods, more=more, last=last)


def _members(parts: Iterable[Part]) -> Iterator[Node]:
    for part in parts:
        if part.pods > 0:
            yield _member(part.name, part.pods, part, part.needed)


def _member(name: str, pods: int, part: Part, minimum: int | None = None) -> Node:
    needed = pods if minimum is None else minimum
    after = ", ".join(part.after) or None
    return Node(Level.MEMBER, name, pods, needed, *domains(of_pods(part)), after, carries=tuple(carried(part.template)))

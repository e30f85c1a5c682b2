"""Draw the gangs of a workload that is not Grove's as a tree, without I/O: workload, gangs, and the pods of each part.

The groups of a LeaderWorkerSet are equal, so only the first are shown. If another program makes the gang, the parts are
directly below the workload.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from webhook.explain.carried import carried
from webhook.explain.gang_tree import Level, Node, left, shown
from webhook.model.fields import FieldPath
from webhook.model.workloads.gang import gangs_of, no_gang
from webhook.model.workloads.jobset import JobSet
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.roles import groups_together
from webhook.model.workloads.topology_request import domains, of_pods, of_workload
from webhook.model.workloads.workload import OptedInWorkload, Part

NONE_STATED: Mapping[FieldPath, int] = MappingProxyType({})
_LEVELS = {
    "Job": Level.JOB,
    "JobSet": Level.JOB_SET,
    "LeaderWorkerSet": Level.LEADER_WORKER_SET,
    "TrainJob": Level.TRAIN_JOB,
}


def workload_tree(
    workload: OptedInWorkload, made: OptedInWorkload, minimums: Mapping[FieldPath, int] = NONE_STATED
) -> Node:
    """Return the tree of `workload`. `made` makes its pods: the JobSet of a TrainJob, else the workload itself.
    `minimums` are those of parts in a group that the scheduler makes, by the path of the pod template.
    """
    barred = no_gang(made)
    gangs = tuple(_gangs(made, minimums) if barred is None or barred.is_made else _members(made, minimums))
    pods = sum(gang.pods * (1 + gang.more) for gang in gangs)
    minimum = sum(gang.minimum * (1 + gang.more) for gang in gangs if gang.waits_for is None)
    # A JobSet's annotations win over those of its TrainJob.
    own, above = domains(of_workload(made)), domains(of_workload(workload))
    wanted = own[0] or above[0], own[1] or above[1]
    level = Level.DECLARED if workload.crd else _LEVELS[workload.kind]
    kind = workload.kind if workload.crd else ""
    name = f"{workload.namespace}/{workload.name}"
    return Node(level, name, pods, minimum, *wanted, kind=kind, below=gangs)


def _gangs(made: OptedInWorkload, minimums: Mapping[FieldPath, int]) -> Iterator[Node]:
    if isinstance(made, LeaderWorkerSet):
        yield from _groups(made)
        return
    if made.together is not None:
        yield from _of_roles(made)
        return
    # By name of the gang: its part, if each part has its own gang.
    alone = {f"{made.name}-{part.name}": part for part in made.parts} if made.gang_per_part else {}
    for gang in gangs_of(made):
        pods = sum(member.pods for member in gang.members)
        minimum = sum(
            minimums.get(part.place, member.min_replicas)
            for member in gang.members
            for part in gang.parts[member.name][:1]
        )
        if gang.name in alone:
            after = _last(made, alone[gang.name])
            yield Node(Level.OWNED_GANG, gang.name, pods, minimum, waits_for=after)
        else:
            below = tuple(_members(made, minimums)) if isinstance(made, JobSet) or len(made.parts) > 1 else ()
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


def _members(made: OptedInWorkload, minimums: Mapping[FieldPath, int]) -> Iterator[Node]:
    for part in made.parts:
        if part.pods > 0:
            yield _member(part.name or made.name, part.pods, part, minimums.get(part.place, part.needed))


def _member(name: str, pods: int, part: Part, minimum: int | None = None) -> Node:
    needed = pods if minimum is None else minimum
    return Node(Level.MEMBER, name, pods, needed, *domains(of_pods(part)), carries=tuple(carried(part.template)))

"""Draw the gangs that a PodCliqueSet will have as a tree, without I/O: set, PodGangs, scaling-group replicas, cliques.

A set of ten thousand replicas has ten thousand trees that differ only in their names, so equal nodes are counted and
not listed. Names and members follow `webhook.offline.pod_clique_set_gangs`. Topology is shown as the set has it, so no
facts are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from webhook.explain.carried import carried
from webhook.model.grove_generation import GroveGeneration, PodGangNames
from webhook.model.workloads.podcliqueset import Clique, PodCliqueSet, ScalingGroup, Topology

# Up to this many equal nodes are shown one by one; of more, only the first.
_ONE_BY_ONE = 2


class Level(StrEnum):
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


# Kinds of a root.
WORKLOADS = frozenset({Level.SET, Level.JOB, Level.JOB_SET, Level.LEADER_WORKER_SET, Level.TRAIN_JOB, Level.DECLARED})


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the tree. `pods` is the number of all its pods, `minimum` the number with which its gang starts.

    `more` counts further equal nodes, `last` is the name of the last one. `waits_for` is the gang that must run before
    this one starts, or the part whose pods exist before those of this one. It starts with `needed` of the nodes below,
    or with all of them. `note` says what is special or not known about it.
    """

    level: Level
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
    below: tuple[Node, ...] = ()
    # What each pod of a part has that not every node has.
    carries: tuple[str, ...] = ()
    needed: int | None = None
    note: str = ""

    @property
    def called(self) -> str:
        """What it is, in words."""
        return self.kind or str(self.level)

    def as_json(self) -> dict[str, Any]:
        """Return the node as plain JSON values."""
        found: dict[str, Any] = {"kind": self.called, "name": self.name, "pods": self.pods, "minimum": self.minimum}
        topology = {"required": self.required, "preferred": self.preferred}
        if any(topology.values()):
            found["topology"] = topology
        if self.waits_for is not None:
            found["waitsFor"] = self.waits_for
        if self.needed is not None:
            found["needed"] = self.needed
        if self.note:
            found["note"] = self.note
        if self.more:
            found |= {"more": self.more, "last": self.last}
        if self.carries:
            found["carries"] = list(self.carries)
        if self.below:
            found["below"] = [node.as_json() for node in self.below]
        return found


def gang_tree(workload: PodCliqueSet, generation: GroveGeneration) -> Node:
    """Return the tree of `workload` as Grove of that generation makes it."""
    names = PodGangNames(generation)
    one = tuple(_gangs_of_replica(workload, f"{workload.name}-0", names))
    pods = sum(gang.pods * (1 + gang.more) for gang in one)
    minimum = sum(gang.minimum for gang in one if gang.waits_for is None)
    count = max(workload.replicas, 0)
    gangs: list[Node] = []
    for index in shown(count):
        found = list(_gangs_of_replica(workload, f"{workload.name}-{index}", names))
        more = left(count)
        last = names.first(f"{workload.name}-{count - 1}") if more else None
        gangs += [*(replace(first, more=more, last=last) for first in found[:1]), *found[1:]]
    return Node(
        Level.SET,
        f"{workload.namespace}/{workload.name}",
        count * pods,
        count * minimum,
        *_domains(workload.topology),
        below=tuple(gangs),
    )


def gang_names(tree: Node) -> Iterator[str]:
    """Yield the names of PodGangs that the tree of a PodCliqueSet shows."""
    for gang in tree.below:
        yield gang.name
        if gang.last is not None:
            yield gang.last


def shown(count: int) -> range:
    """Return the indices of nodes that are shown: all of a few, the first of many."""
    return range(count if count <= _ONE_BY_ONE else 1)


def left(count: int) -> int:
    """Return how many hidden nodes each shown node stands for."""
    return 0 if count <= _ONE_BY_ONE else count - 1


def _gangs_of_replica(workload: PodCliqueSet, base: str, names: PodGangNames) -> Iterator[Node]:
    """Yield the first gang of one replica of the set, then the gangs that its scaling groups add."""
    members = [_clique(member) for member in workload.cliques if member.group is None]
    groups = [(one.group, [_clique(member) for member in one.cliques]) for one in workload.groups_with_cliques()]
    for group, cliques in groups:
        first = group.first_replicas
        for index in shown(first):
            more = left(first)
            name, last = f"{group.name}-{index}", f"{group.name}-{first - 1}"
            members.append(_node(Level.GROUP, name, cliques, group.topology, more=more, last=last if more else None))
    if members or names.generation is GroveGeneration.LEGACY:
        yield _node(Level.GANG, names.first(base), members, workload.topology)
    for group, cliques in groups:
        extra = group.further_replicas
        for index in shown(extra):
            more = left(extra)
            found = _further_gang(workload, group, cliques, index + group.min_available, base, names)
            end = names.further(base, group, group.replicas - 1) if more else None
            yield replace(found, waits_for=names.first(base), more=more, last=end)


def _further_gang(
    workload: PodCliqueSet, group: ScalingGroup, cliques: list[Node], index: int, base: str, names: PodGangNames
) -> Node:
    """Return the gang of one scaling-group replica above the minimum."""
    name = names.further(base, group, index)
    if names.generation is GroveGeneration.LEGACY:
        return _node(Level.GANG, name, cliques, group.topology or workload.topology)
    if group.topology is not None:
        cliques = [_node(Level.GROUP, f"{group.name}-{index}", cliques, group.topology)]
    return _node(Level.GANG, name, cliques, workload.topology)


def _clique(member: Clique) -> Node:
    domains, carries = _domains(member.topology), tuple(carried(member.template))
    return Node(Level.CLIQUE, member.name, member.replicas, member.min_available, *domains, carries=carries)


def _node(
    level: Level, name: str, below: list[Node], topology: Topology | None, *, more: int = 0, last: str | None = None
) -> Node:
    pods = sum(node.pods * (1 + node.more) for node in below)
    minimum = sum(node.minimum * (1 + node.more) for node in below)
    return Node(level, name, pods, minimum, *_domains(topology), more=more, last=last, below=tuple(below))


def _domains(topology: Topology | None) -> tuple[str | None, str | None]:
    return (None, None) if topology is None else (topology.required, topology.preferred)

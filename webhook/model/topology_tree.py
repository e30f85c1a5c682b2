"""The domains of a topology: the nodes that share the label values of a ClusterTopologyBinding's levels, as a tree;
and the difference between a scheduler's topology objects and Grove's binding.

A domain is identified by the values from the broadest level down to its own, so that equal values below two parents
are two domains. A level that no node is labelled for is left out, and so is a node that lacks the label of another
level; each is reported. The reconciler writes the topology objects that a backend returns, or reports the difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from webhook.model.grove import BindingLevel, ClusterTopologyBinding
from webhook.model.reading import Manifest, mapping, sequence, text

# The labels of each node, by its name.
NodeLabels = Mapping[str, Mapping[str, str]]
# Nodes of the control plane have no place in a topology, so they need no labels.
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
# How many names a message lists.
_LISTED = 3


class LevelFault(StrEnum):
    """What the labels of nodes may lack for the levels of a binding."""

    UNLABELLED = "unlabelled"
    TWO_PARENTS = "twoParents"
    EMPTY = "empty"
    ORDER = "order"


class LevelProblem(NamedTuple):
    """A fault of one level, as a sentence."""

    fault: LevelFault
    message: str


class Domain(NamedTuple):
    """The nodes with these values of a level and of the levels above it, sorted by name."""

    path: tuple[str, ...]
    nodes: tuple[str, ...]


class TopologyLevel(NamedTuple):
    """A level that a node has a label for, with its domains by value. `tier` is 1 for the binding's narrowest."""

    level: BindingLevel
    tier: int
    domains: tuple[Domain, ...]


class TopologyTree(NamedTuple):
    """The levels of a binding with their domains, broadest first, and what is wrong with the labels."""

    levels: tuple[TopologyLevel, ...]
    problems: tuple[LevelProblem, ...]


def tree_of(binding: ClusterTopologyBinding, nodes: NodeLabels) -> TopologyTree:
    """Returns the domains that these nodes form, and what is wrong with their labels."""
    used = [level for level in binding.levels if any(labels.get(level.key or "") for labels in nodes.values())]
    empty = [level for level in binding.levels if level not in used]
    complete: dict[str, tuple[str, ...]] = {}
    lacking: dict[str, list[str]] = {}
    for name in sorted(nodes):
        labels = nodes[name]
        missing = next((level.key or "" for level in used if not labels.get(level.key or "")), None)
        if missing is None:
            complete[name] = tuple(labels[level.key or ""] for level in used)
        elif _CONTROL_PLANE not in labels:
            lacking.setdefault(missing, []).append(name)
    problems = [*_empty(empty), *_unlabelled(lacking, used), *_misplaced(used, list(complete.values()))]
    levels = [] if not complete else [_level(binding, used, depth, complete) for depth in range(len(used))]
    return TopologyTree(tuple(levels), tuple(problems))


def _level(
    binding: ClusterTopologyBinding, used: Sequence[BindingLevel], depth: int, complete: Mapping[str, tuple[str, ...]]
) -> TopologyLevel:
    members: dict[tuple[str, ...], list[str]] = {}
    for name, values in complete.items():
        members.setdefault(values[: depth + 1], []).append(name)
    domains = tuple(Domain(path, tuple(members[path])) for path in sorted(members))
    return TopologyLevel(used[depth], len(binding.levels) - binding.levels.index(used[depth]), domains)


def _empty(levels: Sequence[BindingLevel]) -> Iterator[LevelProblem]:
    for level in levels:
        yield LevelProblem(LevelFault.EMPTY, f"no node has the label {level.key}, so the level {level.domain} is empty")


def _unlabelled(lacking: Mapping[str, Sequence[str]], levels: Sequence[BindingLevel]) -> Iterator[LevelProblem]:
    for level in levels:
        if names := lacking.get(level.key or ""):
            each = "node lacks" if len(names) == 1 else "nodes lack"
            yield LevelProblem(
                LevelFault.UNLABELLED,
                f"{len(names)} {each} the label {level.key} of the level {level.domain}: {_some(names)}",
            )


def _misplaced(levels: Sequence[BindingLevel], paths: Sequence[tuple[str, ...]]) -> Iterator[LevelProblem]:
    """Yields the values that are below two parents, level by level; or that the levels have another order."""
    for depth in range(1, len(levels)):
        above, level = levels[depth - 1], levels[depth]
        parents: dict[str, set[tuple[str, ...]]] = {}
        children: dict[str, set[str]] = {}
        for path in paths:
            parents.setdefault(path[depth], set()).add(path[:depth])
            children.setdefault(path[depth - 1], set()).add(path[depth])
        torn = sorted(value for value, places in parents.items() if len(places) > 1)
        if not torn:
            continue
        if all(len(below) == 1 for below in children.values()) and len(parents) < len(children):
            yield LevelProblem(
                LevelFault.ORDER,
                f"each {above.domain} is in one {level.domain}, and {level.domain} {torn[0]} has several: the binding "
                f"lists {above.domain} above {level.domain}, and the labels of the nodes say the opposite",
            )
            continue
        first = _some(sorted("/".join(path) for path in parents[torn[0]]))
        more = f", and {len(torn) - 1} more" if len(torn) > 1 else ""
        yield LevelProblem(
            LevelFault.TWO_PARENTS,
            f"{level.domain} {torn[0]} is in several {above.domain} domains ({first}){more}: Volcano gets a HyperNode "
            "for each part, and Koordinator puts all of them into one of these domains",
        )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def members_of(live: Manifest, kind: str) -> Iterator[str]:
    """Yields the members of that kind, "Node" or "HyperNode", that a HyperNode names exactly."""
    for entry in sequence(mapping(live.get("spec")).get("members")):
        member = mapping(entry)
        name = text(mapping(mapping(member.get("selector")).get("exactMatch")).get("name"))
        if text(member.get("type")) == kind and name:
            yield name


class DriftReason(StrEnum):
    """What is wrong with a topology object, in the terms of Grove's condition SchedulerTopologyDrift."""

    DRIFT = "Drift"
    NOT_FOUND = "TopologyNotFound"


class TopologyDrift(NamedTuple):
    """How the scheduler's topology object with that name differs from Grove's ClusterTopologyBinding."""

    name: str
    reason: DriftReason
    message: str


class NodeTopology(NamedTuple):
    """The objects of a topology that is made from nodes, in the order of writing: each can be used as soon as it and
    those before it are written. `left_out` are the names that objects of others stand in the way of.
    """

    objects: tuple[Manifest, ...]
    left_out: tuple[str, ...]

"""What is wrong with a scheduler's topology objects for one binding, as an event reason and a sentence (no I/O)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from webhook.backends.base import Backend
from webhook.gangs.hold_reasons import TopologyReason
from webhook.model.reading import Manifest
from webhook.model.topology_binding import ClusterTopologyBinding
from webhook.model.topology_objects import DriftReason, TopologyDrift
from webhook.model.topology_tree import LevelFault, NodeLabels, tree_of

_OF_DRIFT = {DriftReason.DRIFT: TopologyReason.DRIFT, DriftReason.NOT_FOUND: TopologyReason.NOT_FOUND}
_OF_LEVELS = {
    LevelFault.UNLABELLED: TopologyReason.UNLABELLED,
    LevelFault.TWO_PARENTS: TopologyReason.TWO_PARENTS,
    LevelFault.EMPTY: TopologyReason.EMPTY,
    LevelFault.ORDER: TopologyReason.ORDER,
}


class Problem(NamedTuple):
    """What is wrong with a scheduler's topology objects for one binding."""

    reason: TopologyReason
    note: str


class Done(NamedTuple):
    """The result for a scheduler's topology objects, and the seconds after which to check again."""

    problems: tuple[Problem, ...] = ()
    again: float | None = None


def of_drift(drift: TopologyDrift | None, why: str | None = None) -> tuple[Problem, ...]:
    """The problem of an object that differs; `why` is the reason why Rollcall does not write it."""
    if drift is None:
        return ()
    return (Problem(_OF_DRIFT[drift.reason], drift.message if why is None else f"{drift.message}; {why}"),)


def of_labels(binding: ClusterTopologyBinding, nodes: NodeLabels | None) -> Iterator[Problem]:
    """The problems of the nodes' labels; none if the nodes are not known."""
    if nodes is not None:
        for fault, message in tree_of(binding, nodes).problems:
            yield Problem(_OF_LEVELS[fault], message)


def of_second_binding(
    backend: Backend[Any], binding: ClusterTopologyBinding, feeding: Manifest | None
) -> tuple[Problem, ...]:
    """The problem of a binding that the configuration does not take the topology from: gangs cannot use its levels if
    they differ. `feeding` is the binding that it names.
    """
    named = backend.topology_binding
    said = f"{backend.name} has one topology, and the configuration takes it from ClusterTopologyBinding {named}"
    if feeding is None:
        return (Problem(TopologyReason.UNUSED, f"{said}, which is missing"),)
    own, other = ([level.key or "" for level in one.levels] for one in (binding, ClusterTopologyBinding(feeding)))
    if own == other:
        return ()
    levels = f"this one has the levels {', '.join(own)}, and {named} has {', '.join(other)}"
    return (Problem(TopologyReason.UNUSED, f"{said}; {levels}"),)

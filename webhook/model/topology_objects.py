"""What a scheduler's topology objects should be, and how they differ from Grove's ClusterTopologyBinding.

A backend returns these values; the reconciler writes the objects or reports the difference.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from webhook.model.reading import Manifest


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

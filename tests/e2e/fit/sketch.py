"""Sketch: the shape of a case that a family draws, and what a scheduler can be asked for in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.e2e.control_plane import Manifest
from tests.e2e.fit.placement import GroupDraft, NodeDraft


class Offers(NamedTuple):
    """What a scheduler can be asked for, through the objects that Rollcall writes. `merged`: members are counted as one
    sum, so none of several has pods above its minimum.
    """

    topology: bool = False
    nested: bool = False
    trees: bool = False
    quotas: bool = False
    merged: bool = False


@dataclass
class Sketch:
    """A cluster and a gang before their limit is known. `more` is added to the pod specs of a role, by name.
    `quota_key` says what limits it: "objects" of the namespace, or the scheduler's own "quota".
    """

    nodes: list[NodeDraft]
    top: GroupDraft
    more: dict[str, Manifest] = field(default_factory=dict)
    foreign: list[tuple[int, Manifest, dict[str, str]]] = field(default_factory=list)
    limited: str = ""
    simple: bool = False

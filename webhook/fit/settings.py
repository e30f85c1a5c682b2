"""FitSettings: what the operator states of the cluster that no object says. The section `fit` of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from webhook.model.node import Taint


class Growth(StrEnum):
    """Whether the cluster may get more or other nodes."""

    # It grows if an autoscaler is seen.
    AUTO = "auto"
    FIXED = "fixed"
    MAY_GROW = "mayGrow"


@dataclass(frozen=True, slots=True)
class NodeTemplate:
    """A node group that can grow: what each of its nodes has. `most` is the most nodes, None without a limit."""

    name: str
    allocatable: Mapping[str, str]
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    most: int | None = None


@dataclass(frozen=True, slots=True)
class FitSettings:
    """`ignored_resources` and `ignored_groups` are those that the scheduler's NodeResourcesFitArgs or its extenders
    leave out. `templates` make a growing cluster judged by its node groups.
    """

    nodes: Growth = Growth.AUTO
    templates: tuple[NodeTemplate, ...] = ()
    ignored_resources: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = frozenset()


NOTHING_STATED = FitSettings()

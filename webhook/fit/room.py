"""Room: the nodes of a cluster by class, for the roles of one gang.

Nodes are of one class if no role and no partition of the gang can tell them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

# Stands for the value of a label that each node of a class has alone, such as kubernetes.io/hostname: a class of n
# nodes has n values of it, each on one node. It is no valid label value, so no node has it.
OWN_VALUE = "*"


class NodeClass(NamedTuple):
    """Equal nodes. `capacity` is what each of them can give, in the units of `PodNeeds.request`; a resource that is
    missing there is 0. `labels` has the node label keys that the gang's roles, their apart and spread constraints and
    its partitions name; a value may be `OWN_VALUE`. `number` is None for a node group that grows without limit. `roles`
    are the roles that may use it. `nodes` are the names of some or all of its nodes, for the witness and for a
    placement. `devices`: by driver, the most devices that one node can have; "" for all drivers together.

    `future` nodes do not exist yet: a label that is missing there may be there later, with any value.
    """

    capacity: Mapping[str, int]
    labels: Mapping[str, str]
    number: int | None
    roles: frozenset[str]
    nodes: tuple[str, ...]
    devices: Mapping[str, int] = {}
    future: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """The nodes that a gang may use. `grows` says that other nodes may come whose shape is unknown: then nothing of
    the scope *on these nodes* is claimed. `unknown` says why the nodes prove nothing, if so (a partial list). `unsure`
    resources are those that no node has now, or not all of: a device plugin may not have started yet. They are not
    compared, and a gang that requests one is never said to fit. `too_large`: the nodes are unknown as they and the
    roles differ too much.

    `memo` is what `ground` has worked out of these nodes. Equal rooms that are one object share it.
    """

    classes: tuple[NodeClass, ...]
    grows: bool = False
    unknown: str | None = None
    unsure: frozenset[str] = frozenset()
    too_large: bool = False
    memo: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

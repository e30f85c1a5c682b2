"""The content of a picture, independent of its format: boxes with a title and details, some below others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from webhook.explain.gang_tree import WORKLOADS, Level, Node
from webhook.explain.satisfiability import Branch, Fault, Kind, Standing


class Shape(Enum):
    """The look of a box, by what it stands for: from the whole workload to the pods."""

    WHOLE = auto()
    GANG = auto()
    PART = auto()
    LEAF = auto()


@dataclass(frozen=True, slots=True)
class Box:
    """One box. `waits_for` is the name of a sibling that starts first; `cannot` marks what stops a tree.

    `more` counts further boxes like it that are not drawn, `last` is the name of the last one. They are `in_turn` if
    each waits for the one before it.
    """

    title: str
    details: tuple[str, ...]
    shape: Shape
    name: str
    waits_for: str | None = None
    cannot: bool = False
    below: tuple[Box, ...] = ()
    more: int = 0
    last: str | None = None
    in_turn: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        """What every format shows below the title."""
        return (*self.details, *self._order())

    def _order(self) -> Iterator[str]:
        if self.waits_for is not None:
            yield f"waits for {self.waits_for}"
        if self.more:
            yield f"and {self.more:,} more like it{' in turn' if self.in_turn else ''}, up to {self.last}"


_LEVELS = {
    **dict.fromkeys(WORKLOADS, Shape.WHOLE),
    Level.GANG: Shape.GANG,
    Level.GROUP: Shape.PART,
    Level.CLIQUE: Shape.LEAF,
    Level.OWNED_GANG: Shape.GANG,
    Level.SUBGROUP: Shape.PART,
    Level.MEMBER: Shape.LEAF,
}
# What is titled by its name alone.
_BY_NAME = frozenset({Level.CLIQUE, Level.MEMBER, Level.SUBGROUP})
_KINDS = {
    Kind.WORKLOAD: Shape.WHOLE,
    Kind.GANG_GROUP: Shape.WHOLE,
    Kind.COMPOSITE: Shape.GANG,
    Kind.COMPOSITE_TEMPLATE: Shape.GANG,
}
_FAULTS = {
    Fault.ABSENT: "missing",
    Fault.CYCLE: "its own ancestor",
    Fault.TOO_DEEP: "too deep",
    Fault.NO_NAMESPACE: "listed without a namespace",
    Fault.NOT_DESCRIBED: "its pods do not say how many it needs to start",
}

# Only the names of these are known, from the objects that refer to them.
_UNKNOWN = frozenset({Fault.ABSENT, Fault.NO_NAMESPACE, Fault.NOT_DESCRIBED})


# The gangs of a workload


def gangs_box(node: Node) -> Box:
    """Return the box of a workload, or of a part of it."""
    below = tuple(gangs_box(one) for one in node.below)
    return Box(
        _title(node),
        tuple(_details(node)),
        _LEVELS[node.level],
        node.name,
        node.waits_for,
        below=below,
        more=node.more,
        last=node.last,
    )


def _title(node: Node) -> str:
    if node.level is Level.GROUP:
        return f"replica {node.name}"
    return node.name if node.level in _BY_NAME else f"{node.called} {node.name}"


def _details(node: Node) -> Iterator[str]:
    yield _count(node.pods, "pod") if node.level not in WORKLOADS else f"{_count(node.pods, 'pod')} in all"
    if node.needed is not None:
        yield f"starts with {node.needed:,} of {_count(sum(1 + one.more for one in node.below), 'part')}"
    elif node.level not in WORKLOADS and node.minimum != node.pods:
        yield f"starts with {node.minimum:,}"
    if node.required is not None:
        yield f"requires one {node.required}"
    if node.preferred is not None:
        yield f"prefers one {node.preferred}"
    for carried in node.carries:
        yield carried if node.pods == 1 else f"{carried} each"
    if node.note:
        yield node.note


# Groups written by hand


def group_box(branch: Branch, *, top: bool = True) -> Box:
    """Return the box of a tree of groups, or of a part of it."""
    name = branch.full_name if top else branch.name
    title = f"{branch.kind} {name}"
    cannot = branch.standing is Standing.CANNOT
    below = tuple(group_box(one, top=False) for one in branch.below)
    return Box(title, tuple(_said(branch)), _KINDS.get(branch.kind, Shape.LEAF), name, cannot=cannot, below=below)


def _said(branch: Branch) -> Iterator[str]:
    if branch.fault is not None:
        yield _FAULTS[branch.fault]
    if branch.fault in _UNKNOWN:
        if branch.pods:
            yield f"has {_count(branch.pods, 'pod')}"
    elif branch.of_pods:
        yield "starts with any pod" if branch.minimum is None else f"starts with {_count(branch.minimum, 'pod')}"
        if branch.pods is not None:
            yield f"has {branch.pods:,}"
    else:
        yield _starts(branch)
    if branch.fault is None and branch.below and branch.standing is Standing.CANNOT:
        yield f"{sum(below.standing is Standing.CAN for below in branch.below):,} can start"
    if branch.topology is not None:
        yield f"requires one {branch.topology}"
    yield from branch.notes
    if branch.hidden:
        yield f"and {_count(branch.hidden, 'group')} further below"


def _starts(branch: Branch) -> str:
    count = len(branch.below)
    if branch.kind is Kind.GANG_GROUP:
        return f"starts with all of {_count(count, 'gang')}"
    if branch.kind is Kind.WORKLOAD:
        return _count(count, "group" if any(one.kind is Kind.ENTRY for one in branch.below) else "template")
    needed = "any" if branch.minimum is None else f"{branch.minimum:,}"
    return f"starts with {needed} of {_count(count, 'group')}" if not branch.hidden else f"starts with {needed}"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"

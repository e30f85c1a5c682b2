"""Whether a tree of groups can ever start, and if not, why and where.

A leaf is ready if it has as many pods as its minimum. A group of groups is ready if as many groups below it are ready.
Without a gang, one pod or group is enough. A tree with a missing parent, a cycle or too many levels never starts at
all. Free resources on nodes are not considered. Source: kubernetes 1.37, plugins/gangscheduling (isCPGTreeReady,
isPGReady), backend/cache (BuildHierarchySnapshotFromPod), plugins/helper/podgroup.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from webhook.model.pod_groups import MAX_DEPTH


class BranchKind(StrEnum):
    """The kind of a branch."""

    COMPOSITE = "CompositePodGroup"
    POD_GROUP = "PodGroup"
    WORKLOAD = "Workload"
    # In the first version, the entries of a Workload are the groups.
    ENTRY = "group"
    COMPOSITE_TEMPLATE = "composite template"
    TEMPLATE = "template"
    # Koordinator: gangs that start together, and one such gang.
    GANG_GROUP = "GangGroup"
    GANG = "gang"


class BranchFault(StrEnum):
    """What is wrong with a branch, independent of the rest of the tree."""

    ABSENT = "absent"
    # The branch is its own ancestor.
    CYCLE = "cycle"
    TOO_DEEP = "tooDeep"
    NO_NAMESPACE = "noNamespace"
    NOT_DESCRIBED = "notDescribed"


class Standing(StrEnum):
    """Whether a branch counts for its parent, or the whole tree can start."""

    CAN = "can"
    CANNOT = "cannot"
    UNKNOWN = "notTold"


class BlockReason(StrEnum):
    """Why a tree can never start: a fault, or a minimum above the actual number."""

    ABSENT = BranchFault.ABSENT.value
    CYCLE = BranchFault.CYCLE.value
    TOO_DEEP = BranchFault.TOO_DEEP.value
    NO_NAMESPACE = BranchFault.NO_NAMESPACE.value
    NOT_DESCRIBED = BranchFault.NOT_DESCRIBED.value
    TOO_FEW_PODS = "tooFewPods"
    TOO_FEW_GROUPS = "tooFewGroups"


@dataclass(frozen=True, slots=True)
class Branch:
    """One group of a tree. `minimum` is how many pods, or groups below, it starts with; None without a gang. `pods` is
    how many pods name it, None if no pods are known. `named_by` has the objects that name a missing branch, or the path
    of a cycle. `hidden` counts groups further below that are not drawn.
    """

    kind: BranchKind
    namespace: str
    name: str
    minimum: int | None = None
    pods: int | None = None
    topology: str | None = None
    fault: BranchFault | None = None
    named_by: str = ""
    notes: tuple[str, ...] = ()
    below: tuple[Branch, ...] = ()
    hidden: int = 0

    @property
    def full_name(self) -> str:
        return self.name if self.kind is BranchKind.GANG else f"{self.namespace}/{self.name}"

    @property
    def counts_pods(self) -> bool:
        return self.kind in _OF_PODS

    @property
    def needed(self) -> int:
        """How many pods, or groups below, it needs to be ready."""
        if self.kind in _WHOLE:
            return len(self.below)
        return 1 if self.minimum is None else self.minimum

    @property
    def standing(self) -> Standing:
        """Whether it counts for its parent, ignoring faults of other branches."""
        if self.fault is not None:
            return Standing.CANNOT
        if self.kind in _TEMPLATES:
            return Standing.UNKNOWN
        if self.counts_pods:
            if self.pods is None:
                return Standing.UNKNOWN if self.needed > 0 else Standing.CAN
            return Standing.CAN if self.pods >= self.needed else Standing.CANNOT
        standings = [branch.standing for branch in self.below]
        sure = standings.count(Standing.CAN)
        if sure >= self.needed:
            return Standing.CAN
        open_ = standings.count(Standing.UNKNOWN)
        return Standing.UNKNOWN if sure + open_ >= self.needed else Standing.CANNOT

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"kind": str(self.kind), "name": self.full_name}
        fields["standing"] = str(self.standing)
        if self.fault is not None:
            fields["fault"] = str(self.fault)
        if self.fault is not BranchFault.ABSENT:
            fields["minimum"] = self.minimum
        if self.counts_pods:
            fields["pods"] = self.pods
        if self.topology is not None:
            fields["topology"] = {"required": self.topology}
        if self.notes:
            fields["notes"] = list(self.notes)
        if self.hidden:
            fields["hidden"] = self.hidden
        if self.below:
            fields["below"] = [branch.as_json() for branch in self.below]
        return fields


_OF_PODS = frozenset({BranchKind.POD_GROUP, BranchKind.ENTRY, BranchKind.TEMPLATE, BranchKind.GANG})
_TEMPLATES = frozenset({BranchKind.COMPOSITE_TEMPLATE, BranchKind.TEMPLATE})
# These start together with everything below them.
_WHOLE = frozenset({BranchKind.WORKLOAD, BranchKind.GANG_GROUP})


@dataclass(frozen=True, slots=True)
class BlockedBranch:
    """Why a tree can never start: the branch, its level (1 for the root), and what it has instead of what it needs."""

    why: BlockReason
    branch: Branch
    level: int

    def as_json(self) -> dict[str, Any]:
        branch = self.branch
        return {
            "reason": str(self.why),
            "kind": str(branch.kind),
            "name": branch.full_name,
            "level": self.level,
            "message": str(self),
        }

    def __str__(self) -> str:
        branch = self.branch
        title = f"{branch.kind} {branch.name}"
        if self.why is BlockReason.TOO_FEW_PODS:
            return f"{title} needs {_counted(branch.needed, 'pod')} to start, and {_there(branch.pods or 0)} there"
        if self.why is BlockReason.TOO_FEW_GROUPS:
            needed = _counted(branch.needed, "group")
            return f"{title} needs {needed} to start, and {_there(len(branch.below))} below it"
        if self.why is BlockReason.ABSENT:
            return f"{title} is missing, and {branch.named_by}"
        if self.why is BlockReason.CYCLE:
            return f"{title} is its own ancestor: {branch.named_by}"
        if self.why is BlockReason.TOO_DEEP:
            return f"{title} is at level {self.level}, and a tree has at most {MAX_DEPTH}"
        if self.why is BlockReason.NO_NAMESPACE:
            return f"{title} is listed without a namespace, so it is never found: {branch.named_by}"
        return f"{title} has no PodGroup, and its pods do not say how many of them it needs to start"


@dataclass(frozen=True, slots=True)
class TreeVerdict:
    """Whether a tree can ever start. If not, the causes, the deepest one first."""

    standing: Standing
    causes: tuple[BlockedBranch, ...] = ()


def judge_tree(root: Branch) -> TreeVerdict:
    if root.fault is BranchFault.CYCLE:
        # A cycle has no root, so no minimum applies.
        return TreeVerdict(Standing.CANNOT, (BlockedBranch(BlockReason.CYCLE, root, 1),))
    causes = tuple(sorted((*_broken(root), *_unmet(root, 1)), key=lambda cause: -cause.level))
    return TreeVerdict(Standing.CANNOT if causes else root.standing, causes)


def _broken(root: Branch) -> Iterator[BlockedBranch]:
    """Yields the faults that stop the whole tree. Too many levels are reported once, for the first such branch."""
    deep = False
    for branch, level in walk(root):
        if branch.fault is BranchFault.TOO_DEEP:
            if deep:
                continue
            deep = True
        if branch.fault is not None:
            yield BlockedBranch(BlockReason(branch.fault.value), branch, level)


def _unmet(branch: Branch, level: int) -> Iterator[BlockedBranch]:
    """Yields the unmet minimums that keep a branch from being ready, down to the branches that have them."""
    if branch.standing is not Standing.CANNOT:
        return
    if branch.fault is None:
        if branch.counts_pods:
            yield BlockedBranch(BlockReason.TOO_FEW_PODS, branch, level)
        elif len(branch.below) < branch.needed:
            yield BlockedBranch(BlockReason.TOO_FEW_GROUPS, branch, level)
    for below in branch.below:
        yield from _unmet(below, level + 1)


def walk(branch: Branch, level: int = 1) -> Iterator[tuple[Branch, int]]:
    yield branch, level
    for below in branch.below:
        yield from walk(below, level + 1)


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _there(number: int) -> str:
    if number == 0:
        return "none is"
    return "one is" if number == 1 else f"{number:,} are"

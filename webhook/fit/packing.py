"""Packing: what one scheduler must place at one moment before it starts any pod of a gang.

A backend makes it of a `GangShape`. `Need` is a tree: pods of one role, all of several needs, or a number of them; each
may have to share one domain of a `Partition` of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from webhook.fit.pods import PodNeeds
from webhook.fit.verdict import Family, Scope, Witness
from webhook.model.fields import FieldPath


class Role(NamedTuple):
    """Pods that are equal for the scheduler. `at` is the field of their template."""

    name: str
    at: FieldPath
    pods: PodNeeds


class Partition(NamedTuple):
    """How nodes fall into domains: by the values of node label `keys`, from the broadest one down. A node without one
    of the keys is in no domain.

    `named` is what messages call a domain ("rack"). `own_domain`: a node without the keys is a domain of its own, as
    Koordinator has it. `members`: the nodes of each domain by name, for domains that are objects and not labels, as
    Volcano's HyperNodes; these may overlap. `filled`: a node with an empty value of a key is in no domain either.
    """

    named: str
    keys: tuple[str, ...] = ()
    at: FieldPath | None = None
    own_domain: bool = False
    # All of these must be there, too: KAI wants the label of every level of its Topology.
    wanted: tuple[str, ...] = ()
    members: Mapping[str, frozenset[str]] | None = None
    # The next broader partition that the gang may require instead, for the remedy.
    broader: Partition | None = None
    filled: bool = False

    def lacks(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels has no value of one of the keys."""
        return any(key not in labels or (self.filled and not labels[key]) for key in self.keys)


@dataclass(frozen=True, slots=True)
class PodsNeed:
    """So many pods of one role."""

    role: Role
    count: int
    within: Partition | None = None


@dataclass(frozen=True, slots=True)
class GroupNeed:
    """So many of these needs together: all of them where `count` is their number."""

    name: str
    needs: tuple[Need, ...]
    count: int
    within: Partition | None = None


Need: TypeAlias = PodsNeed | GroupNeed


class Ceiling(NamedTuple):
    """A limit on the sum of what a gang requests, whatever is used now: a quota, a queue or one above it.

    `amounts` has the limited resources only, in the units of `PodNeeds.request`. `counted` gives what one pod of a role
    counts against it, if that is not its request. `family` and `scope` are those of the finding. `cure` is what to do,
    other than a smaller gang.
    """

    called: str
    name: str
    amounts: Mapping[str, int]
    family: Family
    scope: Scope
    at: FieldPath | None = None
    counted: Callable[[Role], Mapping[str, int]] | None = None
    # The roles that it limits; None for all.
    roles: frozenset[str] | None = None
    cure: str = ""


class Ceilings(NamedTuple):
    """The limits on a gang from one source, and why a limit that may exist is not among them, in words. Each ceiling
    holds alone, so what is `unknown` takes nothing away from the others.
    """

    ceilings: tuple[Ceiling, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Packing:
    """What must be placed together. `sets` are independent of one another: each starts alone. A gang that needs one of
    its sets to start whole needs all of them.

    `unknown` says why nothing is claimed, if so: an unknown gate, plugin or object. `assumptions` are what a verdict
    on a template relies on. `witnesses` are proofs that need no node: a pod that a LimitRange refuses, a claim of too
    many devices. `unjudged` says which ceilings are left out because something about them is unknown; the others hold.
    `left_out` says what else the scheduler may want of the gang that the packing leaves out, such as a topology that
    may be switched off: *never* holds without it, *fits* is not said.
    """

    sets: tuple[Need, ...]
    ceilings: tuple[Ceiling, ...] = ()
    assumptions: tuple[str, ...] = ()
    unknown: tuple[str, ...] = field(default=())
    witnesses: tuple[Witness, ...] = ()
    unjudged: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

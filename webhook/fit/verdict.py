"""Verdict: whether a gang can ever start, and the proof if it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from webhook.model.fields import FieldPath


class Answer(StrEnum):
    """What is known of a gang on an empty cluster. `FITS` only with a placement that was constructed."""

    NEVER = "never"
    FITS = "fits"
    UNKNOWN = "unknown"


class Scope(StrEnum):
    """How far *never* reaches."""

    # No node cures it: a quota, a queue, the structure, a claim of too many devices.
    EVER = "ever"
    # Other or more nodes cure it.
    ON_THESE_NODES = "on these nodes"

    @property
    def label(self) -> str:
        """The scope as the label of a metric."""
        return "ever" if self is Scope.EVER else "theseNodes"


class Family(StrEnum):
    """What a gang does not fit into. It is the second part of the finding's rule id."""

    NODE = "node"
    TOTAL = "total"
    TOPOLOGY = "topology"
    APART = "apart"
    DEVICES = "devices"
    QUOTA = "quota"
    QUEUE = "queue"


class Shortfall(NamedTuple):
    """Of a resource, what is needed and what is there, in the units of `PodNeeds.request`. "pods" counts pods."""

    resource: str
    needed: int
    there: int


@dataclass(frozen=True, slots=True)
class Witness:
    """Why a gang never fits. `why` is one sentence without names of objects in other namespaces; `at` the field at
    fault, `found` its value. `remedy` is an imperative. `members` are the roles that it is about.

    `domain` is the domain that comes nearest, if a domain is required, and `shortfalls` what it lacks.
    `own_change` says whether only a change of the gang's own object cures it, as with a structure.
    """

    family: Family
    scope: Scope
    at: FieldPath
    found: Any
    why: str
    remedy: str
    condition: str
    members: tuple[str, ...] = ()
    domain: str | None = None
    shortfalls: tuple[Shortfall, ...] = ()
    own_change: bool = False
    # Whether the pods may use no node at all, whatever they request.
    closed: bool = False


class Placed(NamedTuple):
    """Pods of one role on one node. A node whose name is not known is called after its class."""

    role: str
    domain: str | None
    node: str
    pods: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one gang. `causes` says why it is unknown, in words. `steps` is the work that it took."""

    answer: Answer
    witness: Witness | None = None
    causes: tuple[str, ...] = ()
    placement: tuple[Placed, ...] = ()
    assumptions: tuple[str, ...] = ()
    steps: int = 0

    @property
    def scope(self) -> Scope | None:
        """How far *never* reaches."""
        return self.witness.scope if self.witness is not None else None

    def as_json(self) -> Mapping[str, Any]:
        """Return the verdict as plain JSON values, without *now*."""
        witness = self.witness
        return {
            "verdict": str(self.answer),
            "scope": None if witness is None else str(witness.scope),
            "witness": None
            if witness is None
            else {
                "family": str(witness.family),
                "condition": witness.condition,
                "at": str(witness.at),
                "why": witness.why,
                "remedy": witness.remedy,
                "members": list(witness.members),
                "domain": witness.domain,
                "short": [found._asdict() for found in witness.shortfalls],
            },
            "causes": list(self.causes),
            "assumptions": list(self.assumptions),
        }

"""The verdict whether a gang can ever start, with the proof if it cannot.

Also the budget of a judgement, and how texts write amounts. The budget counts steps, so the answer does not depend on
the machine. Amounts are written as Kubernetes does: cpu in cores or milli cores, memory with a binary suffix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from webhook.model.fields import FieldPath
from webhook.model.quantity import is_cpu


class FitAnswer(StrEnum):
    """What is known of a gang on an empty cluster. `FITS` only with a placement that was constructed."""

    NEVER = "never"
    FITS = "fits"
    UNKNOWN = "unknown"


class FitScope(StrEnum):
    """How far *never* reaches."""

    # No node cures it: a quota, a queue, the structure, a claim of too many devices.
    EVER = "ever"
    # Other or more nodes cure it.
    ON_THESE_NODES = "on these nodes"

    @property
    def label(self) -> str:
        return "ever" if self is FitScope.EVER else "theseNodes"


class FitFamily(StrEnum):
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
    fault, `found` its value. `remedy` is an imperative. `members` are the roles that it is about. `domain` is the
    domain that comes nearest, if a domain is required, and `shortfalls` what it lacks. `own_change` says whether only a
    change of the gang's own object cures it, as with a structure.
    """

    family: FitFamily
    scope: FitScope
    at: FieldPath
    value: Any
    why: str
    remedy: str
    condition: str
    members: tuple[str, ...] = ()
    domain: str | None = None
    shortfalls: tuple[Shortfall, ...] = ()
    own_change: bool = False
    # Whether the pods may use no node at all, whatever they request.
    closed: bool = False


class PlacedPods(NamedTuple):
    """Pods of one role on one node. A node whose name is not known is called after its class."""

    role: str
    domain: str | None
    node: str
    pods: int


@dataclass(frozen=True, slots=True)
class FitVerdict:
    """The answer for one gang. `causes` says why it is unknown, in words. `steps` is the work that it took."""

    answer: FitAnswer
    witness: Witness | None = None
    causes: tuple[str, ...] = ()
    placement: tuple[PlacedPods, ...] = ()
    assumptions: tuple[str, ...] = ()
    steps: int = 0

    @property
    def scope(self) -> FitScope | None:
        """How far *never* reaches."""
        return self.witness.scope if self.witness is not None else None

    def as_json(self) -> Mapping[str, Any]:
        """Returns the verdict as plain JSON values, without *now*."""
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
                "short": [shortfall._asdict() for shortfall in witness.shortfalls],
            },
            "causes": list(self.causes),
            "assumptions": list(self.assumptions),
        }


# What admission and the command line spend on one gang unless `--effort` allows more.
STEPS = 6_000


class OutOfStepsError(Exception):
    """Raised when the budget is used up. The answer is then *unknown*, never a guess."""


class StepBudget:
    """Steps that are left."""

    __slots__ = ("left", "steps")

    def __init__(self, steps: int = STEPS) -> None:
        self.steps = self.left = steps

    def spend(self, steps: int) -> None:
        """Uses steps. Raises `OutOfStepsError` if fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise OutOfStepsError

    def share(self, most: int) -> StepBudget:
        """Returns a budget for one attempt that may be given up: at most so many of these steps. `settle` ends it.
        `most` must not depend on how many steps there are: a larger budget then does the same work, and more.
        """
        return StepBudget(min(most, max(self.left, 0)))

    def settle(self, share: StepBudget) -> None:
        """Counts the steps of a share. Raises `OutOfStepsError` if it ran out because these did."""
        ended_early = share.left < 0
        self.spend(share.used)
        if ended_early and self.left <= 0:
            raise OutOfStepsError

    @property
    def used(self) -> int:
        return self.steps - max(self.left, 0)


_BINARY = (
    (1 << 60, "Ei"),
    (1 << 50, "Pi"),
    (1 << 40, "Ti"),
    (1 << 30, "Gi"),
    (1 << 20, "Mi"),
    (1 << 10, "Ki"),
    (1, ""),
)
_BYTES = ("memory", "ephemeral-storage", "hugepages-", "kubernetes.io/batch-memory", "kubernetes.io/mid-memory")
# More digits than this are not read.
_MOST_DIGITS = 10**6


def amount_text(resource: str, number: int) -> str:
    """Returns an amount without its resource: `1500m`, `64Gi`, `8`. Long numbers of bytes are cut to a tenth."""
    if is_cpu(resource):
        return str(number // 1000) if number % 1000 == 0 else f"{number}m"
    if number and resource.removeprefix("limits.").removeprefix("requests.").startswith(_BYTES):
        size, suffix = next(unit for unit in _BINARY if number % unit[0] == 0)
        if number // size < _MOST_DIGITS:
            return f"{number // size}{suffix}"
        size, suffix = next(unit for unit in _BINARY if number >= unit[0])
        tenths = number * 10 // size
        return f"{tenths // 10}.{tenths % 10}{suffix}"
    return str(number)


def resource_amount_text(resource: str, number: int) -> str:
    """Returns an amount with its resource: `8 nvidia.com/gpu`."""
    return f"{amount_text(resource, number)} {resource}"


def count_text(number: int, noun: str) -> str:
    """Returns a number with its noun: `1 pod`, `2 pods`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def sentence_list(words: Sequence[str]) -> str:
    """Returns words as they stand in a sentence: `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1] if words else "")))

"""Checks: how they are declared, and what comes of running them over a world."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import ModuleType
from typing import Any, NamedTuple

from webhook.doctor.world import World
from webhook.errors import FactsUnavailable
from webhook.model.reading import Malformed


class Level(StrEnum):
    """How bad it is: gangs are refused, held or torn; they may be one day; or it is worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Symptom(NamedTuple):
    """Something that is not as it should be: where, what was found, why it matters, and what to do. `level` where it is
    another than its check's.
    """

    where: str
    found: str
    why: str
    remedy: str
    level: Level | None = None


Symptoms = Iterator[Symptom]


@dataclass(frozen=True, slots=True)
class Check:
    """A declared check. It raises `FactsUnavailable` where a part of the world that it needs could not be read."""

    id: str
    look: Callable[[World], Symptoms]
    level: Level
    # A world that is well in this, and one that is not: the first tests of a check.
    well: Callable[[], World]
    ill: Callable[[], World]

    @property
    def documentation(self) -> str:
        """The docstring: what is looked at and why, and the source of that."""
        return self.look.__doc__ or ""


def check(
    id: str, *, well: Callable[[], World], ill: Callable[[], World], level: Level = Level.ERROR
) -> Callable[[Callable[[World], Symptoms]], Check]:
    """Declare a check of the form `(world) -> Iterator[Symptom]`."""

    def declared(look: Callable[[World], Symptoms]) -> Check:
        return Check(id, look, level, well, ill)

    return declared


def collect(*modules: ModuleType) -> tuple[Check, ...]:
    """The checks that these modules declare, in the order in which they stand there."""
    return tuple(found for module in modules for found in vars(module).values() if isinstance(found, Check))


def first_of(names: Sequence[str], many: int = 1) -> str:
    """The first few of some names, and how many more there are."""
    more = f" and {len(names) - many} more" if len(names) > many else ""
    return ", ".join(names[:many]) + more


class Found(NamedTuple):
    """A symptom, with the check that told it and how bad it is."""

    check: str
    level: Level
    symptom: Symptom

    def as_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        told = self.symptom
        return {
            "check": self.check,
            "level": self.level.value,
            "where": told.where,
            "found": told.found,
            "why": told.why,
            "remedy": told.remedy,
        }


class NotKnown(NamedTuple):
    """A check that could not be made, or not to its end, and why."""

    check: str
    why: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that was found, by the order of the checks."""

    checks: tuple[str, ...] = ()
    found: list[Found] = field(default_factory=list)
    not_known: list[NotKnown] = field(default_factory=list)

    def of(self, level: Level) -> list[Found]:
        """What was found of one level."""
        return [one for one in self.found if one.level is level]

    def ill(self, *, strict: bool) -> bool:
        """Whether something is wrong; with `strict` a warning is, too."""
        return bool(self.of(Level.ERROR)) or (strict and bool(self.of(Level.WARNING)))

    def as_json(self, *, strict: bool) -> dict[str, Any]:
        """The diagnosis as plain JSON values."""
        return {
            "well": not self.ill(strict=strict) and not self.not_known,
            "checks": list(self.checks),
            "findings": [one.as_json() for one in self.found],
            "notKnown": [{"check": one.check, "why": one.why} for one in self.not_known],
        }


def examine(world: World, checks: Iterable[Check]) -> Diagnosis:
    """Run the checks. What one has found before it lacked something is kept."""
    every = tuple(checks)
    diagnosis = Diagnosis(tuple(one.id for one in every))
    for one in every:
        try:
            for symptom in one.look(world):
                diagnosis.found.append(Found(one.id, symptom.level or one.level, symptom))
        except FactsUnavailable as error:
            diagnosis.not_known.append(NotKnown(one.id, str(error)))
        except Malformed as error:
            # The API server has checked what it stores; what it stores as a string is anybody's.
            diagnosis.not_known.append(NotKnown(one.id, f"an object is not understood: {error}"))
    return diagnosis

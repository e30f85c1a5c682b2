"""Checks: how they are declared, and how they are run on a snapshot of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import ModuleType
from typing import Any, NamedTuple

from webhook.doctor.snapshot import Snapshot
from webhook.errors import FactsUnavailable
from webhook.model.reading import Malformed


class Level(StrEnum):
    """The severity: gangs are refused, do not start, or start in part now; this may happen later; or it is just worth
    knowing.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Symptom(NamedTuple):
    """A problem: where it is, what was found, why it matters, and what to do. `level` is set if it differs from the
    check's level.
    """

    where: str
    found: str
    why: str
    remedy: str
    level: Level | None = None


Symptoms = Iterator[Symptom]


@dataclass(frozen=True, slots=True)
class Check:
    """A declared check. It raises `FactsUnavailable` if a part of the snapshot that it needs could not be read."""

    id: str
    look: Callable[[Snapshot], Symptoms]
    level: Level
    # One snapshot that passes this check and one that fails: the first tests of the check.
    passes: Callable[[], Snapshot]
    fails: Callable[[], Snapshot]

    @property
    def documentation(self) -> str:
        """The docstring: what is checked and why, with its source."""
        return self.look.__doc__ or ""


def check(
    id: str, *, passes: Callable[[], Snapshot], fails: Callable[[], Snapshot], level: Level = Level.ERROR
) -> Callable[[Callable[[Snapshot], Symptoms]], Check]:
    """Declare a check of the form `(snapshot) -> Iterator[Symptom]`."""

    def declared(look: Callable[[Snapshot], Symptoms]) -> Check:
        return Check(id, look, level, passes, fails)

    return declared


def collect(*modules: ModuleType) -> tuple[Check, ...]:
    """The checks that these modules declare, in the order of their declaration."""
    return tuple(found for module in modules for found in vars(module).values() if isinstance(found, Check))


def first_of(names: Sequence[str], many: int = 1) -> str:
    """The first few names, and the number of the others."""
    more = f" and {len(names) - many} more" if len(names) > many else ""
    return ", ".join(names[:many]) + more


class Found(NamedTuple):
    """A problem, with its check and its level."""

    check: str
    level: Level
    symptom: Symptom

    def as_json(self) -> dict[str, Any]:
        """The problem as plain JSON values."""
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
    """A check that could not run, or not completely, and why."""

    check: str
    why: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings, in the order of the checks."""

    checks: tuple[str, ...] = ()
    found: list[Found] = field(default_factory=list)
    not_known: list[NotKnown] = field(default_factory=list)

    def of(self, level: Level) -> list[Found]:
        """The findings of one level."""
        return [one for one in self.found if one.level is level]

    def fails(self, *, strict: bool) -> bool:
        """Whether there is an error; with `strict`, an error or a warning."""
        return bool(self.of(Level.ERROR)) or (strict and bool(self.of(Level.WARNING)))

    def as_json(self, *, strict: bool) -> dict[str, Any]:
        """The diagnosis as plain JSON values."""
        return {
            "well": not self.fails(strict=strict) and not self.not_known,
            "checks": list(self.checks),
            "findings": [one.as_json() for one in self.found],
            "notKnown": [{"check": one.check, "why": one.why} for one in self.not_known],
        }


def examine(snapshot: Snapshot, checks: Iterable[Check]) -> Diagnosis:
    """Run the checks. Findings made before a check stopped for missing data are kept."""
    every = tuple(checks)
    diagnosis = Diagnosis(tuple(one.id for one in every))
    for one in every:
        try:
            for symptom in one.look(snapshot):
                diagnosis.found.append(Found(one.id, symptom.level or one.level, symptom))
        except FactsUnavailable as error:
            diagnosis.not_known.append(NotKnown(one.id, str(error)))
        except Malformed as error:
            # The API server has validated what it stores, but a string field may contain anything.
            diagnosis.not_known.append(NotKnown(one.id, f"an object cannot be read: {error}"))
    return diagnosis

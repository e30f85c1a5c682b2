"""The findings in files, as the JSON that `rollcall check --output json` and `POST /check` share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from webhook.model.fields import FieldPath
from webhook.model.findings import Finding, Unjudged
from webhook.offline.judgement import Judgement


class Source(Protocol):
    """A document that knows the positions of its fields."""

    @property
    def source(self) -> str:
        """The file, as the user named it."""

    def position(self, path: FieldPath) -> tuple[int, int]:
        """Return line and column of a field."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a finding, in the file and in the object."""

    file: str
    line: int
    column: int
    judgement: Judgement

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def as_json(self) -> dict[str, Any]:
        """Return the place as part of an entry of the report."""
        found = self.judgement
        named = {"kind": found.kind, "namespace": found.namespace, "name": found.name}
        return {"file": self.file, "line": self.line, "column": self.column, "object": named}


@dataclass(slots=True)
class Report:
    """Everything that was found in some documents. `ignored` counts objects of kinds that have no rules."""

    findings: list[tuple[Finding, Place]] = field(default_factory=list)
    unjudged: list[tuple[Unjudged, Place]] = field(default_factory=list)
    notes: list[tuple[str, Place]] = field(default_factory=list)
    # Refused objects that other schedulers could run.
    movable: list[Place] = field(default_factory=list)
    judged: int = 0
    ignored: int = 0

    def add(self, document: Source, judgements: Iterable[Judgement]) -> None:
        """Add the findings of one document. A document without judgements counts as ignored."""
        before = self.judged
        for judgement in judgements:
            self.judged += 1
            verdict = judgement.verdict
            self.findings += [(found, _place(document, judgement, found.at)) for found in verdict.findings]
            self.unjudged += [(missing, _place(document, judgement, missing.at)) for missing in verdict.unjudged]
            if verdict.could_run:
                self.movable.append(_place(document, judgement, FieldPath()))
            self.notes += [(note, _place(document, judgement, FieldPath())) for note in verdict.notes]
        if self.judged == before:
            self.ignored += 1

    def clean(self, *, strict: bool) -> bool:
        """Return whether nothing is refused and, if `strict`, nothing was left unjudged."""
        refused = any(not place.judgement.verdict.allowed for _, place in self.findings)
        return not refused and not (strict and self.unjudged)

    def as_json(self, *, strict: bool) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {
            "clean": self.clean(strict=strict),
            "judged": self.judged,
            "ignored": self.ignored,
            "findings": [finding_as_json(found) | place.as_json() for found, place in self.findings],
            "notJudged": [unjudged_as_json(missing) | place.as_json() for missing, place in self.unjudged],
            "notes": [{"message": note} | place.as_json() for note, place in self.notes],
            "couldRun": [
                {"schedulers": list(place.judgement.verdict.could_run)} | place.as_json() for place in self.movable
            ],
        }


def _place(document: Source, judgement: Judgement, path: FieldPath) -> Place:
    line, column = document.position(FieldPath((*judgement.at.parts, *path.parts)))
    return Place(document.source, line, column, judgement)


def finding_as_json(found: Finding) -> dict[str, Any]:
    """Return a finding as plain JSON values."""
    return {
        "rule": found.rule,
        "action": str(found.action),
        "field": str(found.at),
        "found": found.found if isinstance(found.found, str | int | float | bool | None) else None,
        "why": found.why,
        "remedy": found.remedy,
        "message": str(found),
    }


def unjudged_as_json(missing: Unjudged) -> dict[str, Any]:
    """Return what could not be judged, as plain JSON values."""
    return {
        "rule": missing.rule,
        "field": str(missing.at),
        "needs": missing.needs,
        "remedy": missing.remedy,
    }

"""A report as test cases, for JUnit and TAP: one for each object without findings, and one for each finding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from webhook.model.findings import shown
from webhook.offline.levels import FailOn
from webhook.offline.report import Place, Report, ReportedFinding
from webhook.reports.summary import not_judged


class Outcome(Enum):
    """How a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Case:
    """One test case. `message` is one line, `details` are the rest."""

    file: str
    line: int
    name: str
    outcome: Outcome = Outcome.PASSED
    kind: str = ""
    message: str = ""
    details: tuple[str, ...] = ()


def cases(report: Report, fail_on: frozenset[FailOn]) -> Iterator[Case]:
    """Yield the cases of a report in the order of the files. Their names are unique in a file unless two findings have
    the same rule and field.
    """
    busy = {id(entry.place.judgement) for entry in report.findings}
    busy |= {id(place.judgement) for _, place in (*report.unjudged, *report.partial)}
    found = [Case(place.file, place.line, place.object) for place in report.judged if id(place.judgement) not in busy]
    found += [_finding(entry, fail_on) for entry in report.findings]
    for missing, place in report.unjudged:
        outcome = Outcome.FAILED if FailOn.UNJUDGED in fail_on else Outcome.SKIPPED
        name = _name(place, missing.rule)
        found.append(Case(place.file, place.line, name, outcome, missing.rule, f"not judged: {missing.lacking}"))
    for omission, place in report.left_out:
        outcome = Outcome.FAILED if FailOn.UNJUDGED in fail_on else Outcome.SKIPPED
        told = not_judged(place)
        name = f"{place.object}: {told}"
        found.append(Case(place.file, place.line, name, outcome, str(omission.reason), f"{told}: {omission}"))
    found += [
        Case(error.source, error.line, "can be read", Outcome.ERROR, "unreadable", error.why)
        for error in report.unreadable
    ]
    yield from sorted(found, key=lambda case: (case.file, case.line, case.name))


def _finding(entry: ReportedFinding, fail_on: frozenset[FailOn]) -> Case:
    finding, place = entry.finding, entry.place
    details = (
        f"{entry.level}: {finding.rule}",
        f"place: {place}",
        f"field: {finding.at}",
        f"found: {shown(finding.found)}",
        f"why: {finding.why}",
        f"do: {finding.remedy}",
    )
    message, outcome = f"{finding.why}; {finding.remedy}", Outcome.PASSED
    if entry.suppression is not None:
        message, outcome = entry.suppression.told, Outcome.SKIPPED
    elif entry.fails(fail_on):
        outcome = Outcome.FAILED
    return Case(place.file, place.line, _name(place, finding.rule), outcome, finding.rule, message, details)


def _name(place: Place, rule: str) -> str:
    at = str(place.path)
    return f"{place.object}: {rule}" + (f" at {at}" if at else "")

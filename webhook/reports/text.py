"""The report for a terminal: each finding with its object, field, value, reason and remedy.

Lines are data, so that the command line can colour and wrap them on a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from webhook.model.fields import ROOT
from webhook.model.findings import Omission, shown
from webhook.offline.judgement import kind_of
from webhook.offline.levels import Level
from webhook.offline.report import Place, Report, ReportedFinding
from webhook.offline.suppression import Origin
from webhook.reports.options import ReportOptions
from webhook.reports.summary import counted, last_line, not_judged, statistics


class Head(NamedTuple):
    """The line of one finding: its place, a word with a style, and the rest."""

    place: str
    word: str
    style: str
    rest: str

    def __str__(self) -> str:
        return f"{self.place}: {self.word}{self.rest}"


class Field(NamedTuple):
    """A named value below a finding."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"    {self.name:<7}{self.value}"


class Plain(NamedTuple):
    """A line without structure."""

    text: str

    def __str__(self) -> str:
        return self.text


Line = Head | Field | Plain

_STYLES = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.AUDIT: "cyan"}


def text_lines(report: Report, options: ReportOptions) -> Iterator[Line]:
    """Yield the lines of the report."""
    for entry in sorted(report.findings, key=lambda entry: entry.order):
        if entry.fails(options.fail_on) or not options.quiet:
            yield from _finding(entry)
    yield from _omissions(report)
    for missing, place in report.unjudged:
        yield Head(str(place), "not judged", "cyan", f" {missing.rule}: {missing.needs} unknown")
        yield Field("field", str(missing.at))
        if missing.remedy:
            yield Field("do", missing.remedy)
    if options.quiet:
        return
    yield from _notes(report)
    if options.list_ignored:
        for document in report.ignored:
            kind = kind_of(document.manifest)
            yield Head(f"{document.source}:{document.line}:1", "ignored", "dim", f": {kind.kind or 'no kind'}")
    if options.statistics:
        yield from (Plain(f"{number:>6}  {rule}") for rule, number in statistics(report))
    yield Plain(last_line(report))


def _finding(entry: ReportedFinding) -> Iterator[Line]:
    finding, place, accepted = entry.finding, entry.place, entry.suppression
    if accepted is None:
        yield Head(str(place), entry.level, _STYLES[entry.level], f" {finding.rule}")
    else:
        yield Head(str(place), accepted.origin.word, "dim", f" {finding.rule}")
    yield Field("object", place.object)
    yield Field("field", str(finding.at))
    yield Field("found", shown(finding.found))
    yield Field("why", finding.why)
    yield Field("do", finding.remedy)
    if accepted is not None and accepted.origin is not Origin.BASELINE:
        yield Field("reason", accepted.reason)


def _omissions(report: Report) -> Iterator[Line]:
    """Yield the objects that were not judged, those with the same reason together."""
    alike: dict[Omission, list[Place]] = {}
    for omission, place in report.left_out:
        alike.setdefault(replace(omission, at=ROOT), []).append(place)
    for omission, places in alike.items():
        yield from (Head(str(place), not_judged(place), "cyan", f": {place.object}") for place in places)
        yield Field("why", omission.why)
        yield Field("do", omission.remedy)


def _notes(report: Report) -> Iterator[Line]:
    for place in report.movable:
        said = place.judgement.verdict.alternatives
        yield Head(str(place), "note", "cyan", f": {place.object}: {said}")
    alike: dict[str, list[Place]] = {}
    for note, place in report.notes:
        alike.setdefault(note, []).append(place)
    for note, (place, *others) in alike.items():
        more = f" (and {counted(len(others), 'other')})" if others else ""
        yield Head(str(place), "note", "cyan", f": {note}{more}")

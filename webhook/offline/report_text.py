"""A report as text: for a terminal, one line a finding, workflow commands of GitHub Actions, a comment for a pull
request, JUnit XML, and the Test Anything Protocol, version 14.

The lines for a terminal are data, so that the command line can colour and wrap them. In Markdown, texts of manifests
cannot add markup, links or mentions.

Source for GitHub: actions/toolkit, packages/core/src/command.ts: a message has %, CR and LF escaped, a property also :
and ,. The elements of JUnit are those of the schema of Jenkins' xUnit plugin (junit-10.xsd). GitLab reads `classname`,
`name` and `file` of a case, and the text of its failure. A finding that does not fail the check is a case that passes,
with the finding as its output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from webhook.fit.verdict import count_text
from webhook.model.fields import ROOT
from webhook.model.findings import Omission, plain, shown
from webhook.offline.finding_details import FailOn, Level, Origin
from webhook.offline.judgement import kind_of
from webhook.offline.report import FindingPlace, Report, ReportedFinding
from webhook.offline.report_summary import ReportOptions, last_line, not_judged, rule_url, statistics


def concise(report: Report, options: ReportOptions) -> Iterator[str]:
    for entry in sorted(report.findings, key=lambda entry: entry.order):
        if options.quiet and not entry.fails(options.fail_on):
            continue
        accepted = "" if entry.suppression is None else f" ({entry.suppression.shown_reason})"
        message = f"{entry.finding.rule} {entry.place.object}: {entry.finding.explanation}"
        yield f"{entry.place}: {entry.level}: {message}{accepted}"
    for omission, place in report.left_out:
        yield f"{place}: {not_judged(place)}: {place.object}: {omission}"
    for missing, place in report.unjudged:
        yield f"{place}: not judged: {missing.rule} {place.object}: {missing.lacking}"
    if options.quiet:
        return
    if options.list_ignored:
        yield from (f"{document.source}:{document.line}:1: ignored" for document in report.ignored)
    if options.statistics:
        yield from (f"{number} {rule}" for rule, number in statistics(report))
    yield last_line(report)


_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.AUDIT: "notice"}


def github(report: Report, options: ReportOptions) -> Iterator[str]:
    """Yields a command for each finding, errors first: GitHub shows only the first ten of each step."""
    ordered = sorted(report.findings, key=lambda entry: (entry.suppression is not None, -entry.finding.action))
    for entry in ordered:
        accepted = entry.suppression
        command = "notice" if accepted is not None else _COMMANDS[entry.level]
        message = f"{entry.place.object}: {entry.finding.at}: {entry.finding.explanation}"
        if accepted is not None:
            message = f"{accepted.shown_reason}\n{message}"
        yield _command(command, entry.place, entry.finding.rule, message)
    for omission, place in report.left_out:
        words = not_judged(place)
        yield _command("notice", place, f"{words}: {omission.reason}", f"{place.object}: {words}: {omission}")
    for missing, place in report.unjudged:
        yield _command("notice", place, missing.rule, f"{place.object}: not judged: {missing.lacking}")
    for error in report.unreadable:
        at = f"file={_property(error.source)}" + (f",line={error.line},col={error.column}" if error.line else "")
        yield f"::error {at},title=unreadable::{_message(error.why)}"
    if not options.quiet:
        yield f"::notice title=rollcall::{_message(last_line(report))}"


def _command(command: str, place: FindingPlace, title: str, message: str) -> str:
    end_line, end_column = place.end
    at = f"file={_property(place.file)},line={place.line},endLine={end_line},col={place.column},endColumn={end_column}"
    return f"::{command} {at},title={_property(title)}::{_message(message)}"


def _message(text: str) -> str:
    # One message has several lines only where a report says so itself.
    lines = "\n".join(map(plain, text.split("\n")))
    return lines.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return plain(text).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")


_SIGNS = {Level.ERROR: "❌ error", Level.WARNING: "⚠️ warning", Level.AUDIT: "🔍 audit"}
# GitHub makes links of addresses without a scheme, too.
_WEB = re.compile(r"(www)\.", re.IGNORECASE)
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|~$])")
# GitHub refuses a comment of more than 65,536 characters.
_MAX_ROWS = 100


def markdown(report: Report, options: ReportOptions) -> Iterator[str]:
    failed = report.failed(options.fail_on) or report.unreadable
    yield f"### {'❌' if failed else '❔' if report.left_out or report.unjudged else '✅'} Rollcall"
    yield ""
    yield _escaped(last_line(report))
    rows = sorted(report.findings, key=lambda entry: (entry.suppression is not None, entry.order))
    if rows:
        yield from ("", "| | place | rule | why | do |", "|---|---|---|---|---|")
        yield from (_row(entry, options) for entry in rows[:_MAX_ROWS])
    if len(rows) > _MAX_ROWS:
        yield from ("", f"{len(rows) - _MAX_ROWS} more findings are not shown.")
    left_out = ((_code(str(place)), _code(place.object), omission) for omission, place in report.left_out)
    omitted = [f"* {place} {subject}: {_escaped(str(omission))}" for place, subject, omission in left_out]
    if omitted:
        yield from ("", "Not judged, or in part:" if report.partial else "Not judged:", "", *omitted[:_MAX_ROWS])
    missing = [
        f"* {_code(str(place))} {_code(unjudged.rule)}: {_escaped(unjudged.lacking)}"
        for unjudged, place in report.unjudged
    ]
    if missing:
        yield from ("", "Rules that did not judge, because these facts are unknown:", "", *missing[:_MAX_ROWS])
    if report.unreadable:
        yield from ("", "Not read:", "", *(f"* {_escaped(str(error))}" for error in report.unreadable[:_MAX_ROWS]))
    if options.statistics and (numbers := statistics(report)):
        yield from (
            "",
            "| rule | findings |",
            "|---|---|",
            *(f"| {_code(rule)} | {count} |" for rule, count in numbers),
        )


def _row(entry: ReportedFinding, options: ReportOptions) -> str:
    finding, accepted = entry.finding, entry.suppression
    sign = _SIGNS[entry.level] if accepted is None else _escaped(accepted.shown_reason)
    url = rule_url(finding.rule, options.documentation) if options.documentation else None
    rule = _code(finding.rule) if url is None else f"[{_code(finding.rule)}]({url})"
    why = f"{_code(shown(finding.value))}: {_escaped(finding.why)}"
    place = f"{_code(f'{entry.place.file}:{entry.place.line}')}<br>{_code(entry.place.object)}"
    return f"| {sign} | {place} | {rule} | {why} | {_escaped(finding.remedy)} |"


def _escaped(text: str) -> str:
    text = plain(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # A mention would notify someone, and an address would become a link.
    text = _MARKUP.sub(r"\\\1", text).replace("@", "@<!-- -->").replace("://", ":<!-- -->//")
    return _WEB.sub(r"\1<!-- -->.", text)


def _code(text: str) -> str:
    # A row ends a cell at a bar even within code.
    return f"`{plain(text).replace('`', chr(0x2019)).replace('|', chr(0x2223))}`"


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
    for entry in sorted(report.findings, key=lambda entry: entry.order):
        if entry.fails(options.fail_on) or not options.quiet:
            yield from _finding(entry)
    # The objects that were not judged, those with the same reason together.
    alike: dict[Omission, list[FindingPlace]] = {}
    for omission, place in report.left_out:
        alike.setdefault(replace(omission, at=ROOT), []).append(place)
    for omission, places in alike.items():
        yield from (Head(str(place), not_judged(place), "cyan", f": {place.object}") for place in places)
        yield from (Field("why", omission.why), Field("do", omission.remedy))
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
    yield Field("found", shown(finding.value))
    yield Field("why", finding.why)
    yield Field("do", finding.remedy)
    if accepted is not None and accepted.origin is not Origin.BASELINE:
        yield Field("reason", accepted.reason)


def _notes(report: Report) -> Iterator[Line]:
    for place in report.movable:
        yield Head(str(place), "note", "cyan", f": {place.object}: {place.judgement.verdict.alternatives}")
    alike: dict[str, list[FindingPlace]] = {}
    for note, place in report.notes:
        alike.setdefault(note, []).append(place)
    for note, (place, *others) in alike.items():
        more = f" (and {count_text(len(others), 'other')})" if others else ""
        yield Head(str(place), "note", "cyan", f": {note}{more}")


class CaseOutcome(Enum):
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
    outcome: CaseOutcome = CaseOutcome.PASSED
    kind: str = ""
    message: str = ""
    details: tuple[str, ...] = ()


def cases(report: Report, fail_on: frozenset[FailOn]) -> Iterator[Case]:
    """Yields the cases by file. Names are unique in a file unless two findings have the same rule and field."""
    busy = {id(entry.place.judgement) for entry in report.findings}
    busy |= {id(place.judgement) for _, place in (*report.unjudged, *report.partial)}
    passed = (place for place in report.judged if id(place.judgement) not in busy)
    unsorted = [Case(place.file, place.line, place.object) for place in passed]
    unsorted += [_cases_finding(entry, fail_on) for entry in report.findings]
    outcome = CaseOutcome.FAILED if FailOn.UNJUDGED in fail_on else CaseOutcome.SKIPPED
    for missing, place in report.unjudged:
        name = _name(place, missing.rule)
        unsorted.append(Case(place.file, place.line, name, outcome, missing.rule, f"not judged: {missing.lacking}"))
    for omission, place in report.left_out:
        words = not_judged(place)
        name, message = f"{place.object}: {words}", f"{words}: {omission}"
        unsorted.append(Case(place.file, place.line, name, outcome, str(omission.reason), message))
    unsorted += [
        Case(error.source, error.line, "can be read", CaseOutcome.ERROR, "unreadable", error.why)
        for error in report.unreadable
    ]
    yield from sorted(unsorted, key=lambda case: (case.file, case.line, case.name))


def _cases_finding(entry: ReportedFinding, fail_on: frozenset[FailOn]) -> Case:
    finding, place = entry.finding, entry.place
    details = (
        f"{entry.level}: {finding.rule}",
        f"place: {place}",
        f"field: {finding.at}",
        f"found: {shown(finding.value)}",
        f"why: {finding.why}",
        f"do: {finding.remedy}",
    )
    message, outcome = f"{finding.why}; {finding.remedy}", CaseOutcome.PASSED
    if entry.suppression is not None:
        message, outcome = entry.suppression.shown_reason, CaseOutcome.SKIPPED
    elif entry.fails(fail_on):
        outcome = CaseOutcome.FAILED
    return Case(place.file, place.line, _name(place, finding.rule), outcome, finding.rule, message, details)


def _name(place: FindingPlace, rule: str) -> str:
    at = str(place.path)
    return f"{place.object}: {rule}" + (f" at {at}" if at else "")


_ILLEGAL = re.compile("[\ud800-\udfff\ufffe\uffff]")
_ELEMENTS = {CaseOutcome.FAILED: "failure", CaseOutcome.ERROR: "error", CaseOutcome.SKIPPED: "skipped"}


def junit(report: Report, options: ReportOptions) -> str:
    root = Element("testsuites", {"name": "rollcall"})
    every = list(cases(report, options.fail_on))
    for file, group in groupby(every, key=lambda case: case.file):
        file_cases = list(group)
        suite = SubElement(root, "testsuite", {"name": _legal(file), **_numbers(file_cases)})
        for case in file_cases:
            place = {"file": _legal(file)} | ({"line": str(case.line)} if case.line else {})
            element = SubElement(suite, "testcase", {"classname": _legal(file), "name": _legal(case.name), **place})
            lines = "\n".join(map(_legal, case.details or (case.message,)))
            if case.outcome is not CaseOutcome.PASSED:
                attributes = {"type": case.kind, "message": _legal(case.message)}
                SubElement(element, _ELEMENTS[case.outcome], attributes).text = lines
            elif case.details:
                SubElement(element, "system-out").text = lines
    root.attrib |= {name: number for name, number in _numbers(every).items() if name != "skipped"}
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _numbers(counted_cases: Iterable[Case]) -> dict[str, str]:
    outcomes = [case.outcome for case in counted_cases]
    return {
        "tests": str(len(outcomes)),
        "failures": str(outcomes.count(CaseOutcome.FAILED)),
        "errors": str(outcomes.count(CaseOutcome.ERROR)),
        "skipped": str(outcomes.count(CaseOutcome.SKIPPED)),
    }


def _legal(text: str) -> str:
    """Returns `text` without the characters that XML cannot have, not even as references."""
    return _ILLEGAL.sub("\ufffd", plain(text))


def tap(report: Report, options: ReportOptions) -> Iterator[str]:
    points = list(cases(report, options.fail_on))
    yield "TAP version 14"
    yield f"1..{len(points)}"
    for number, case in enumerate(points, 1):
        word = "not ok" if case.outcome in {CaseOutcome.FAILED, CaseOutcome.ERROR} else "ok"
        skipped = f" # SKIP {_tap_escaped(case.message)}" if case.outcome is CaseOutcome.SKIPPED else ""
        yield f"{word} {number} - {_tap_escaped(f'{case.file}: {case.name}')}{skipped}"
        if (case.details or case.message) and not skipped:
            yield "  ---"
            if case.message:
                yield f"  message: {json.dumps(plain(case.message))}"
            if case.line:
                yield f"  at: {{file: {json.dumps(plain(case.file))}, line: {case.line}}}"
            if case.details:
                yield "  details:"
                yield from (f"    - {json.dumps(plain(line))}" for line in case.details)
            yield "  ..."


def _tap_escaped(text: str) -> str:
    return plain(text).replace("\\", "\\\\").replace("#", "\\#")

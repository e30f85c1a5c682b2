"""Workflow commands of GitHub Actions, which become annotations in a pull request.

Source: actions/toolkit, packages/core/src/command.ts: a message has %, CR and LF escaped, a property also : and ,.
"""

from __future__ import annotations

from collections.abc import Iterator

from webhook.model.plain_text import plain
from webhook.offline.levels import Level
from webhook.offline.report import Place, Report
from webhook.reports.options import ReportOptions
from webhook.reports.summary import last_line, not_judged

_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.AUDIT: "notice"}


def github(report: Report, options: ReportOptions) -> Iterator[str]:
    """Yield a command for each finding, errors first: GitHub shows only the first ten of each step."""
    ordered = sorted(report.findings, key=lambda entry: (entry.suppression is not None, -entry.finding.action))
    for entry in ordered:
        accepted = entry.suppression
        command = "notice" if accepted is not None else _COMMANDS[entry.level]
        told = f"{entry.place.object}: {entry.finding.at}: {entry.finding.explanation}"
        if accepted is not None:
            told = f"{accepted.told}\n{told}"
        yield _command(command, entry.place, entry.finding.rule, told)
    for omission, place in report.left_out:
        told = not_judged(place)
        yield _command("notice", place, f"{told}: {omission.reason}", f"{place.object}: {told}: {omission}")
    for missing, place in report.unjudged:
        yield _command("notice", place, missing.rule, f"{place.object}: not judged: {missing.lacking}")
    for error in report.unreadable:
        at = f"file={_property(error.source)}" + (f",line={error.line},col={error.column}" if error.line else "")
        yield f"::error {at},title=unreadable::{_message(error.why)}"
    if not options.quiet:
        yield f"::notice title=rollcall::{_message(last_line(report))}"


def _command(command: str, place: Place, title: str, told: str) -> str:
    end_line, end_column = place.end
    at = f"file={_property(place.file)},line={place.line},endLine={end_line},col={place.column},endColumn={end_column}"
    return f"::{command} {at},title={_property(title)}::{_message(told)}"


def _message(text: str) -> str:
    # One message has several lines only where a report says so itself.
    lines = "\n".join(map(plain, text.split("\n")))
    return lines.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return plain(text).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")

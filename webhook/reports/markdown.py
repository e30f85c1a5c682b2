"""A comment for a pull request: a table of the findings. Texts of manifests cannot add markup, links or mentions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from webhook.model.findings import shown
from webhook.model.plain_text import plain
from webhook.offline.levels import Level
from webhook.offline.report import Report, ReportedFinding
from webhook.reports.options import ReportOptions
from webhook.reports.rule_pages import rule_url
from webhook.reports.summary import last_line, statistics

_SIGNS = {Level.ERROR: "❌ error", Level.WARNING: "⚠️ warning", Level.AUDIT: "🔍 audit"}
# GitHub makes links of addresses without a scheme, too.
_WEB = re.compile(r"(www)\.", re.IGNORECASE)
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|~$])")
# GitHub refuses a comment of more than 65,536 characters.
_MAX_ROWS = 100


def markdown(report: Report, options: ReportOptions) -> Iterator[str]:
    """Yield the lines of the comment."""
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
    omitted = [
        f"* {_code(str(place))} {_code(place.object)}: {_escaped(str(omission))}" for omission, place in report.left_out
    ]
    if omitted:
        yield from ("", "Not judged, or in part:" if report.partial else "Not judged:", "", *omitted[:_MAX_ROWS])
    missing = [
        f"* {_code(str(place))} {_code(found.rule)}: {_escaped(found.lacking)}" for found, place in report.unjudged
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
    sign = _SIGNS[entry.level] if accepted is None else _escaped(accepted.told)
    url = rule_url(finding.rule, options.documentation) if options.documentation else None
    rule = _code(finding.rule) if url is None else f"[{_code(finding.rule)}]({url})"
    why = f"{_code(shown(finding.found))}: {_escaped(finding.why)}"
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

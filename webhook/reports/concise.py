"""One line for each finding, as compilers write it: editors and grep know the form."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.offline.report import Report
from webhook.reports.options import ReportOptions
from webhook.reports.summary import last_line, not_judged, statistics


def concise(report: Report, options: ReportOptions) -> Iterator[str]:
    """Yield the lines of the report."""
    for entry in sorted(report.findings, key=lambda entry: entry.order):
        if options.quiet and not entry.fails(options.fail_on):
            continue
        accepted = "" if entry.suppression is None else f" ({entry.suppression.told})"
        told = f"{entry.finding.rule} {entry.place.object}: {entry.finding.explanation}"
        yield f"{entry.place}: {entry.level}: {told}{accepted}"
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

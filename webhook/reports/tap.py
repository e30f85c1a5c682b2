"""The Test Anything Protocol, version 14: a test point for each judged object, with its findings as diagnostics."""

from __future__ import annotations

import json
from collections.abc import Iterator

from webhook.model.plain_text import plain
from webhook.offline.report import Report
from webhook.reports.cases import Case, Outcome, cases
from webhook.reports.options import ReportOptions


def tap(report: Report, options: ReportOptions) -> Iterator[str]:
    """Yield the lines of the report."""
    found = list(cases(report, options.fail_on))
    yield "TAP version 14"
    yield f"1..{len(found)}"
    for number, case in enumerate(found, 1):
        yield from _point(number, case)


def _point(number: int, case: Case) -> Iterator[str]:
    word = "not ok" if case.outcome in {Outcome.FAILED, Outcome.ERROR} else "ok"
    skipped = f" # SKIP {_escaped(case.message)}" if case.outcome is Outcome.SKIPPED else ""
    yield f"{word} {number} - {_escaped(f'{case.file}: {case.name}')}{skipped}"
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


def _escaped(text: str) -> str:
    return plain(text).replace("\\", "\\\\").replace("#", "\\#")

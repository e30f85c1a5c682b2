"""The report as plain JSON values. `webhook.reports.schema` describes it; `POST /check` answers the same."""

from __future__ import annotations

from typing import Any

from webhook.errors import InputError
from webhook.offline.fix import Fix, TextEdit
from webhook.offline.judgement import kind_of
from webhook.offline.report import (
    Place,
    Report,
    ReportedFinding,
    Source,
    finding_as_json,
    omission_as_json,
    unjudged_as_json,
)
from webhook.offline.suppression import Suppression
from webhook.reports.options import ReportOptions
from webhook.reports.rule_pages import rule_url
from webhook.reports.summary import reasons, schedulers, statistics, totals

# Raised if a field is removed or changes its meaning. New fields do not raise it.
REPORT_VERSION = 1


def report_as_json(report: Report, options: ReportOptions) -> dict[str, Any]:
    """Return the report as plain JSON values."""
    found = totals(report)
    return {
        "reportVersion": REPORT_VERSION,
        "tool": {"name": "rollcall", "version": options.version},
        "passed": not (report.failed(options.fail_on) or report.unreadable),
        "clean": report.clean,
        "failOn": sorted(options.fail_on),
        "judged": found.judged,
        "judgedByGroup": report.grouped,
        "ignored": found.ignored,
        "counts": {
            "error": found.errors,
            "warning": found.warnings,
            "audit": found.audits,
            "notJudged": found.unjudged,
            "objectsNotJudged": found.omitted,
            "objectsJudgedInPart": len(report.partial),
            "suppressed": found.suppressed,
            "fixable": found.fixable,
            "unreadable": found.unreadable,
        },
        "reasons": reasons(report),
        "rules": dict(statistics(report)),
        "schedulers": [
            {"scheduler": one.scheduler, "chosenBy": one.chosen_by or None, "objects": one.objects}
            for one in schedulers(report)
        ],
        "findings": [_finding(entry, options) for entry in report.findings],
        "notJudged": [
            unjudged_as_json(missing) | {"ruleUrl": rule_url(missing.rule, options.documentation)} | _place(place)
            for missing, place in report.unjudged
        ],
        "objectsNotJudged": [omission_as_json(omission) | _place(place) for omission, place in report.omitted],
        "objectsJudgedInPart": [omission_as_json(omission) | _place(place) for omission, place in report.partial],
        "notes": [{"message": note} | _place(place) for note, place in report.notes],
        "couldRun": [
            {"schedulers": list(place.judgement.verdict.could_run)} | _place(place) for place in report.movable
        ],
        "unreadable": [_unreadable(error) for error in report.unreadable],
    } | ({"ignoredDocuments": [_ignored(one) for one in report.ignored]} if options.list_ignored else {})


def _finding(entry: ReportedFinding, options: ReportOptions) -> dict[str, Any]:
    return (
        finding_as_json(entry.finding)
        | {
            "level": str(entry.level),
            "ruleUrl": rule_url(entry.finding.rule, options.documentation),
            "fails": entry.fails(options.fail_on),
            "suppression": None if entry.suppression is None else _suppression(entry.suppression),
            "fix": None if entry.fix is None else _fix(entry.fix),
        }
        | _place(entry.place)
    )


def _place(place: Place) -> dict[str, Any]:
    found = place.judgement
    named = {
        "kind": found.kind,
        "namespace": found.namespace,
        "name": found.name,
        "scheduler": found.verdict.scheduler,
        "chosenBy": found.verdict.chosen_by or None,
    }
    end_line, end_column = place.end
    return {
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "endLine": end_line,
        "endColumn": end_column,
        "object": named,
    }


def _suppression(found: Suppression) -> dict[str, Any]:
    return {"kind": str(found.origin), "reason": found.reason}


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "scheduler": fix.scheduler,
        "changes": [change.as_json() for change in fix.changes],
        "patch": [change.as_patch() for change in fix.changes],
        "edits": [_edit(edit) for edit in fix.edits],
    }


def _edit(edit: TextEdit) -> dict[str, Any]:
    return {
        "line": edit.line,
        "column": edit.column,
        "endLine": edit.end_line,
        "endColumn": edit.end_column,
        "text": edit.inserted,
    }


def _unreadable(error: InputError) -> dict[str, Any]:
    return {"file": error.source, "line": error.line, "column": error.column, "message": error.why}


def _ignored(document: Source) -> dict[str, Any]:
    return {"file": document.source, "line": document.line, "kind": kind_of(document.manifest).kind or None}

"""A report as JSON values: Rollcall's own form, which `POST /check` answers too, and SARIF 2.1.0 (OASIS), which GitHub
code scanning and most editors read.

In SARIF a rule that could not be judged is a result of kind `open`. Objects that no rule judged, what cannot be read,
and notes are notifications of the invocation. Columns count code points.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from webhook.model.findings import Action, plain
from webhook.offline import report_summary
from webhook.offline.finding_details import Level, Origin
from webhook.offline.judgement import kind_of
from webhook.offline.positions import Fix
from webhook.offline.report import (
    FindingPlace,
    Report,
    ReportedFinding,
    finding_as_json,
    key_of,
    omission_as_json,
    unjudged_as_json,
)

# Raised if a field is removed or changes its meaning. New fields do not raise it.
REPORT_VERSION = 1


def report_as_json(report: Report, options: report_summary.ReportOptions) -> dict[str, Any]:
    numbers = report_summary.totals(report)
    as_json = {
        "reportVersion": REPORT_VERSION,
        "tool": {"name": "rollcall", "version": options.version},
        "passed": not (report.failed(options.fail_on) or report.unreadable),
        "clean": report.clean,
        "failOn": sorted(options.fail_on),
        "judged": numbers.judged,
        "judgedByGroup": report.grouped,
        "ignored": numbers.ignored,
        "counts": {
            "error": numbers.errors,
            "warning": numbers.warnings,
            "audit": numbers.audits,
            "notJudged": numbers.unjudged,
            "objectsNotJudged": numbers.omitted,
            "objectsJudgedInPart": len(report.partial),
            "suppressed": numbers.suppressed,
            "fixable": numbers.fixable,
            "unreadable": numbers.unreadable,
        },
        "reasons": report_summary.reasons(report),
        "rules": dict(report_summary.statistics(report)),
        "schedulers": [
            {"scheduler": count.scheduler, "chosenBy": count.chosen_by or None, "objects": count.objects}
            for count in report_summary.schedulers(report)
        ],
        "findings": [_finding(entry, options) for entry in report.findings],
        "notJudged": [
            unjudged_as_json(missing)
            | {"ruleUrl": report_summary.rule_url(missing.rule, options.documentation)}
            | _place(place)
            for missing, place in report.unjudged
        ],
        "objectsNotJudged": [omission_as_json(omission) | _place(place) for omission, place in report.omitted],
        "objectsJudgedInPart": [omission_as_json(omission) | _place(place) for omission, place in report.partial],
        "notes": [{"message": note} | _place(place) for note, place in report.notes],
        "couldRun": [
            {"schedulers": list(place.judgement.verdict.could_run)} | _place(place) for place in report.movable
        ],
        "unreadable": [
            {"file": error.source, "line": error.line, "column": error.column, "message": error.why}
            for error in report.unreadable
        ],
    }
    if options.list_ignored:
        as_json["ignoredDocuments"] = [
            {"file": document.source, "line": document.line, "kind": kind_of(document.manifest).kind or None}
            for document in report.ignored
        ]
    return as_json


def _finding(entry: ReportedFinding, options: report_summary.ReportOptions) -> dict[str, Any]:
    return (
        finding_as_json(entry.finding)
        | {
            "level": str(entry.level),
            "ruleUrl": report_summary.rule_url(entry.finding.rule, options.documentation),
            "fails": entry.fails(options.fail_on),
            "suppression": None
            if entry.suppression is None
            else {"kind": str(entry.suppression.origin), "reason": entry.suppression.reason},
            "fix": None if entry.fix is None else _fix(entry.fix),
        }
        | _place(entry.place)
    )


def _place(place: FindingPlace) -> dict[str, Any]:
    judgement = place.judgement
    end_line, end_column = place.end
    return {
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "endLine": end_line,
        "endColumn": end_column,
        "object": {
            "kind": judgement.kind,
            "namespace": judgement.namespace,
            "name": judgement.name,
            "scheduler": judgement.verdict.scheduler,
            "chosenBy": judgement.verdict.chosen_by or None,
        },
    }


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "scheduler": fix.scheduler,
        "changes": [change.as_json() for change in fix.changes],
        "patch": [change.as_patch() for change in fix.changes],
        "edits": [
            {
                "line": edit.line,
                "column": edit.column,
                "endLine": edit.end_line,
                "endColumn": edit.end_column,
                "text": edit.inserted,
            }
            for edit in fix.edits
        ],
    }


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Level.ERROR: "error", Level.WARNING: "warning", Level.AUDIT: "note"}
_DEFAULTS = {Action.DENY: "error", Action.WARN: "warning", Action.AUDIT: "note", Action.OFF: "none"}
# Written in an address as they are (RFC 3986, section 2.3, and the slash).
_UNRESERVED = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/")


def sarif(report: Report, options: report_summary.ReportOptions) -> dict[str, Any]:
    ids = dict.fromkeys(entry.finding.rule for entry in report.findings)
    ids |= dict.fromkeys(missing.rule for missing, _ in report.unjudged)
    index = {rule: number for number, rule in enumerate(ids)}
    results = [_result(entry, index) for entry in sorted(report.findings, key=lambda entry: entry.order)]
    for missing, place in report.unjudged:
        message = f"{place.object}: not judged: {missing.lacking}"
        results.append(_base(missing.rule, index, message, place) | {"kind": "open", "level": "none"})
    version = {"version": options.version, "semanticVersion": options.version}
    about = {"informationUri": options.documentation} if options.documentation else {}
    driver = {"name": "rollcall", **version, **about, "rules": [_rule(rule_id, options) for rule_id in ids]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(report)],
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule_id: str, options: report_summary.ReportOptions) -> dict[str, Any]:
    if rule_id not in report_summary.rules_by_id():
        return {"id": rule_id}
    rule, page = report_summary.rules_by_id()[rule_id]
    texts = report_summary.paragraphs(rule.documentation)
    # An address must be absolute here.
    url = report_summary.rule_url(rule_id, options.documentation) if options.documentation else None
    return {
        "id": rule_id,
        "shortDescription": {"text": report_summary.summary(rule)},
        "fullDescription": {"text": texts[0]},
        "help": {"text": "\n\n".join(texts), "markdown": "\n\n".join(texts)},
        "defaultConfiguration": {"level": _DEFAULTS[rule.default]},
        "properties": {"tags": [page], "failsClosed": rule.fails_closed},
    } | ({} if url is None else {"helpUri": url})


def _result(entry: ReportedFinding, index: dict[str, int]) -> dict[str, Any]:
    finding, place, accepted = entry.finding, entry.place, entry.suppression
    message = f"{place.object}: {finding.at}: {finding.explanation}"
    key = "\0".join(key_of(place.judgement, finding))
    # A list also where nothing is suppressed, as the standard demands of a tool that knows suppressions.
    suppressions = []
    if accepted is not None:
        # In the words of SARIF: in the file, or elsewhere.
        origin = Origin.IN_SOURCE if accepted.origin is Origin.IN_SOURCE else Origin.BASELINE
        suppressions = [{"kind": str(origin), "status": "accepted", "justification": plain(accepted.reason)}]
    result = _base(finding.rule, index, message, place) | {
        "level": _LEVELS[entry.level],
        "partialFingerprints": {"rollcall/v1": sha256(key.encode(errors="replace")).hexdigest()},
        "suppressions": suppressions,
    }
    return result | ({"fixes": [_sarif_fix(entry.fix)]} if entry.fix is not None and entry.fix.edits else {})


def _base(rule: str, index: dict[str, int], message: str, place: FindingPlace) -> dict[str, Any]:
    verdict = place.judgement.verdict
    return {
        "ruleId": rule,
        "ruleIndex": index[rule],
        "message": {"text": _text(message)},
        "locations": [_location(place)],
        "properties": {"scheduler": verdict.scheduler, "chosenBy": verdict.chosen_by or None},
    }


def _text(written: str) -> str:
    """Returns a message without links: `[text](address)` is one, and names come from manifests (section 3.11.6)."""
    return plain(written).replace("](", "] (")


def _location(place: FindingPlace) -> dict[str, Any]:
    region = _region(place.line, place.column, *place.end)
    full_name = plain(f"{place.object} {place.path}".rstrip())
    return {
        "physicalLocation": {"artifactLocation": {"uri": _uri(place.file)}, "region": region},
        "logicalLocations": [{"name": plain(place.judgement.name), "fullyQualifiedName": full_name, "kind": "object"}],
    }


def _region(line: int, column: int, end_line: int, end_column: int) -> dict[str, int]:
    return {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}


def _sarif_fix(fix: Fix) -> dict[str, Any]:
    changes = ", ".join(f"{change.op} {change.path}" for change in fix.changes)
    replacements = [
        {"deletedRegion": _region(edit.line, edit.column, edit.end_line, edit.end_column)}
        | ({"insertedContent": {"text": edit.inserted}} if edit.inserted else {})
        for edit in fix.edits
    ]
    return {
        "description": {"text": plain(f"the smallest edit after which {fix.scheduler} refuses nothing: {changes}")},
        "artifactChanges": [{"artifactLocation": {"uri": _uri(fix.file)}, "replacements": replacements}],
    }


def _invocation(report: Report) -> dict[str, Any]:
    notifications: list[dict[str, Any]] = []
    for error in report.unreadable:
        region = {"region": {"startLine": error.line, "startColumn": error.column}} if error.line else {}
        place = {"physicalLocation": {"artifactLocation": {"uri": _uri(error.source)}} | region}
        notifications.append({"level": "error", "message": {"text": _text(error.why)}, "locations": [place]})
    notifications += [
        {
            "level": "warning",
            "descriptor": {"id": str(omission.reason)},
            "message": {"text": _text(f"{place.object}: {report_summary.not_judged(place)}: {omission}")},
            "locations": [_location(place)],
        }
        for omission, place in report.left_out
    ]
    notifications += [
        {"level": "note", "message": {"text": _text(note)}, "locations": [_location(place)]}
        for note, place in report.notes
    ]
    return {"executionSuccessful": not report.unreadable, "toolExecutionNotifications": notifications}


def _uri(file: str) -> str:
    written = "".join(
        chr(octet) if octet in _UNRESERVED else f"%{octet:02X}" for octet in file.encode(errors="replace")
    )
    return f"file://{written}" if written.startswith("/") else written.removeprefix("./")

"""An audit as plain JSON values, as SARIF, and as the Report of a namespace. No I/O and no clock.

An object of a cluster has no file: its place in SARIF is NAMESPACE/KIND/NAME. A result that a stored Report has
already keeps its timestamp, so an unchanged namespace has an unchanged Report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from webhook import __version__, documentation
from webhook.errors import InputError
from webhook.model.admission_request import Verdict
from webhook.model.fields import ROOT, FieldPath
from webhook.model.findings import Action, Finding, Unjudged, plain
from webhook.model.gang_objects import MANAGED_BY_ROLLCALL, REPORT_NAME, REPORTS
from webhook.model.grove import LABEL_MANAGED_BY
from webhook.model.reading import Malformed, Manifest, mapping, sequence, text
from webhook.offline.finding_details import Directive, FailOn, Level
from webhook.offline.judgement import Judgement
from webhook.offline.report import Report, finding_as_json, unjudged_as_json
from webhook.offline.report_json import sarif
from webhook.offline.report_summary import ReportOptions, rule_url, rules_by_id
from webhook.operations.audit import NOT_JUDGED, Audit, KeptFinding, StoredKey, Tally

# Raised if a field is removed or changes its meaning. New fields do not raise it.
AUDIT_VERSION = 1
# The words of a report for the actions of findings.
LEVELS = {"deny": str(Level.ERROR), "warn": str(Level.WARNING), "audit": str(Level.AUDIT), NOT_JUDGED: NOT_JUDGED}


def fails(audit: Audit, on: frozenset[FailOn]) -> bool:
    """Returns whether an audit fails: something would be refused, or something else that `on` names. Of a comparison
    only what is new counts.
    """
    tally = audit.decisive
    actions = {"deny": True, "warn": FailOn.WARNING in on, NOT_JUDGED: FailOn.UNJUDGED in on}
    return any(counts and tally.total(action) for action, counts in actions.items())


def audit_as_json(audit: Audit, fail_on: frozenset[FailOn], compared_with: str = "") -> dict[str, Any]:
    """Returns an audit as plain JSON values. `compared_with` says in words what the second judgement was."""
    document: dict[str, Any] = {
        "auditVersion": AUDIT_VERSION,
        "tool": {"name": "rollcall", "version": __version__},
        "passed": audit.complete and not fails(audit, fail_on),
        "complete": audit.complete,
        "failOn": sorted(fail_on),
        "read": dict(sorted(audit.read.items())),
        **_tally(audit.today),
        "unlisted": [{"kind": kind, "why": why} for kind, why in sorted(audit.unlisted.items())],
        "unreadFacts": [{"kind": kind, "why": why} for kind, why in sorted(audit.unread.items())],
        "faults": {"objects": audit.faults, "examples": [_object(key) for key in audit.faulty]},
    }
    if audit.new is not None and audit.gone is not None:
        document["comparison"] = {
            "with": compared_with,
            "newlyRefused": audit.newly_refused,
            "newlyAllowed": audit.newly_allowed,
            "new": _tally(audit.new),
            "gone": _tally(audit.gone),
        }
    return document


def _tally(tally: Tally) -> dict[str, Any]:
    return {
        "judged": tally.judged.total(),
        "refused": tally.refused,
        "counts": {level: tally.total(action) for action, level in LEVELS.items()},
        "groups": [
            {
                "level": LEVELS[group.action],
                "rule": group.rule,
                "namespace": group.namespace,
                "findings": count.findings,
                "objects": count.objects,
                "example": count.example,
                "field": count.at,
            }
            for group, count in tally.ordered()
        ],
        "findings": [_kept(kept, kept.finding) for kept in tally.kept if isinstance(kept.finding, Finding)],
        "notJudged": [_kept(kept, kept.finding) for kept in tally.kept if isinstance(kept.finding, Unjudged)],
        "leftOut": tally.left_out,
    }


def _kept(kept: KeptFinding, finding: Finding | Unjudged) -> dict[str, Any]:
    details = unjudged_as_json(finding) if isinstance(finding, Unjudged) else finding_as_json(finding)
    return details | {
        "level": LEVELS[kept.group.action],
        "ruleUrl": rule_url(finding.rule, documentation()),
        "object": {**_object(kept.object), "scheduler": kept.scheduler, "chosenBy": kept.chosen_by or None},
    }


def _object(key: StoredKey) -> dict[str, str]:
    api_version, kind, namespace, name, uid = key
    return {"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name, "uid": uid}


@dataclass(frozen=True, slots=True)
class _StoredSource:
    """A stored object as the source of findings: it has no file, and the API server keeps no comments."""

    source: str
    manifest: Manifest = field(default_factory=dict, compare=False)
    line: int = 1
    comments: Sequence[Directive] = ()

    def position(self, _path: FieldPath) -> tuple[int, int]:
        return 1, 1

    def end(self, _path: FieldPath) -> tuple[int, int]:
        return 1, 1


def audit_as_sarif(audit: Audit) -> dict[str, Any]:
    """Returns the kept findings as a SARIF log. A comparison has two runs, which `baselineState` tells apart."""
    if audit.new is None or audit.gone is None:
        return _log(audit.today, audit)
    new, gone = _log(audit.new, audit, "new"), _log(audit.gone, audit, "absent")
    return {**new, "runs": [*new["runs"], *gone["runs"]]}


def _log(tally: Tally, audit: Audit, state: str = "") -> dict[str, Any]:
    report = Report()
    for kept in tally.kept:
        key = kept.object
        report.add(_StoredSource(f"{key.namespace or '-'}/{key.kind}/{key.name}"), [_judgement(kept)])
    report.unreadable = [InputError(kind, f"could not be listed: {why}") for kind, why in audit.unlisted.items()]
    if tally.left_out:
        report.unreadable.append(InputError("", f"{tally.left_out} more findings are only counted; see -o table"))
    log = sarif(report, ReportOptions())
    for result in log["runs"][0]["results"] if state else ():
        result["baselineState"] = state
    return log


def _judgement(kept: KeptFinding) -> Judgement:
    key, finding = kept.object, kept.finding
    if isinstance(finding, Finding):
        verdict = Verdict(finding.action is not Action.DENY, kept.scheduler, (finding,), chosen_by=kept.chosen_by)
    else:
        verdict = Verdict(True, kept.scheduler, unjudged=(finding,), chosen_by=kept.chosen_by)
    return Judgement(key.kind, key.namespace, key.name, ROOT, verdict)


# The results of a report: with 3 KB each, they stay far below the 1.5 MiB of a stored object.
MOST_RESULTS = 100
# All results that are kept for reports; namespaces beyond it have only their summary.
MOST_IN_ALL = 10_000
_WORDS = {"deny": ("fail", "high"), "warn": ("warn", "medium"), "audit": ("warn", "info"), NOT_JUDGED: ("skip", "info")}
_ORDER = ("deny", "warn", "audit", NOT_JUDGED)

# What identifies a result in a report.
_Identity = tuple[str, ...]


def tally_for_reports() -> Tally:
    """Returns an empty tally that keeps what reports show."""
    return Tally(most=MOST_IN_ALL, most_of_namespace=MOST_RESULTS)


def reports(tally: Tally) -> Iterator[tuple[str, list[KeptFinding]]]:
    """Yields each namespace with findings, and those that its report lists, the strictest first."""
    kept: dict[str, list[KeptFinding]] = {namespace: [] for namespace in tally.namespaces if namespace}
    for kept_finding in tally.kept:
        if kept_finding.object.namespace in kept:
            kept[kept_finding.object.namespace].append(kept_finding)
    for namespace, every in kept.items():
        every.sort(key=_order)
        yield namespace, every[:MOST_RESULTS]


def report_of(
    namespace: str, kept: Iterable[KeptFinding], tally: Tally, stored: Manifest | None, now: datetime
) -> Manifest:
    api = REPORTS.api
    try:
        before = [dict(mapping(result)) for result in sequence(mapping(stored).get("results"))]
        # Since when each result is known.
        begun = {_identity(result): result["timestamp"] for result in before if "timestamp" in result}
    except Malformed:
        begun = {}
    seconds = {"seconds": int(now.timestamp()), "nanos": 0}
    results = []
    for kept_finding in kept:
        result = _result(kept_finding)
        result["timestamp"] = begun.get(_identity(result), seconds)
        results.append(result)
    return {
        "apiVersion": f"{api.group}/{api.version}",
        "kind": api.kind,
        "metadata": {
            "name": REPORT_NAME,
            "namespace": namespace,
            "labels": {LABEL_MANAGED_BY: MANAGED_BY_ROLLCALL, "app.kubernetes.io/part-of": "rollcall"},
        },
        "source": "rollcall",
        "configuration": {"limits": {"maxResults": MOST_RESULTS}},
        "scope": {"apiVersion": "v1", "kind": "Namespace", "name": namespace},
        "summary": _summary(namespace, tally),
        "results": results,
    }


def _summary(namespace: str, tally: Tally) -> Manifest:
    """Returns the numbers of all findings, also of those that are not listed."""
    numbers = {"pass": tally.passed[namespace], "fail": 0, "warn": 0, "error": 0, "skip": 0}
    for action, count in tally.counts_by_namespace.get(namespace, {}).items():
        numbers[_WORDS[action][0]] += count
    return numbers


def _result(kept: KeptFinding) -> dict[str, Any]:
    finding = kept.finding
    result, severity = _WORDS[kept.group.action]
    message = finding.explanation if isinstance(finding, Finding) else f"not judged: {finding.lacking}"
    pages = rules_by_id()
    return {
        "source": "rollcall",
        "policy": finding.rule,
        **({"category": pages[finding.rule][1]} if finding.rule in pages else {}),
        "result": result,
        "severity": severity,
        "scored": True,
        "message": plain(message),
        "resources": [_object(kept.object)],
        "properties": {"field": plain(str(finding.at)), "scheduler": kept.scheduler or ""},
    }


def _order(kept: KeptFinding) -> tuple[object, ...]:
    key = kept.object
    return _ORDER.index(kept.group.action), kept.finding.rule, key.kind, key.name, str(kept.finding.at)


def _identity(result: Manifest) -> _Identity:
    """Returns what identifies a result: rule, result, object and field. Raises `Malformed`."""
    resources = sequence(result.get("resources"))
    uid = text(mapping(resources[0]).get("uid")) if resources else None
    field = text(mapping(result.get("properties")).get("field"))
    return (str(result.get("policy")), str(result.get("result")), uid or "", field or "")

"""The Report of a namespace, made of an audit. No I/O and no clock.

A result that a stored report has already keeps its timestamp, so an unchanged namespace has an unchanged report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from webhook.audit.tally import NOT_JUDGED, Kept, Tally
from webhook.model.findings import Finding
from webhook.model.gang_object import MANAGED_BY_ROLLCALL
from webhook.model.grove import LABEL_MANAGED_BY
from webhook.model.open_reports import REPORT_NAME, REPORTS
from webhook.model.plain_text import plain
from webhook.model.reading import Malformed, Manifest, mapping, sequence, text
from webhook.reports.rule_pages import rules_by_id

# The results of a report: with 3 KB each, they stay far below the 1.5 MiB of a stored object.
MOST_RESULTS = 100
# All results that are kept for reports; namespaces beyond it have only their summary.
MOST_IN_ALL = 10_000
_WORDS = {"deny": ("fail", "high"), "warn": ("warn", "medium"), "audit": ("warn", "info"), NOT_JUDGED: ("skip", "info")}
_ORDER = ("deny", "warn", "audit", NOT_JUDGED)

# What identifies a result in a report.
_Identity = tuple[str, ...]


def tally_for_reports() -> Tally:
    """Return an empty tally that keeps what reports show."""
    return Tally(most=MOST_IN_ALL, most_of_namespace=MOST_RESULTS)


def reports(found: Tally) -> Iterator[tuple[str, list[Kept]]]:
    """Yield each namespace with findings, and those that its report lists, the strictest first."""
    kept: dict[str, list[Kept]] = {namespace: [] for namespace in found.namespaces if namespace}
    for one in found.kept:
        if one.object.namespace in kept:
            kept[one.object.namespace].append(one)
    for namespace, every in kept.items():
        every.sort(key=_order)
        yield namespace, every[:MOST_RESULTS]


def report_of(namespace: str, kept: Iterable[Kept], found: Tally, stored: Manifest | None, now: datetime) -> Manifest:
    """Return the report of a namespace. `stored` is the one that it has."""
    api, begun = REPORTS.api, _timestamps(stored)
    seconds = {"seconds": int(now.timestamp()), "nanos": 0}
    results = []
    for one in kept:
        result = _result(one)
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
        "summary": _summary(namespace, found),
        "results": results,
    }


def _summary(namespace: str, found: Tally) -> Manifest:
    """Return the numbers of all findings, also of those that are not listed."""
    numbers = {"pass": found.passed[namespace], "fail": 0, "warn": 0, "error": 0, "skip": 0}
    for group, count in found.of_namespace(namespace):
        numbers[_WORDS[group.action][0]] += count.findings
    return numbers


def _result(one: Kept) -> dict[str, Any]:
    found, key = one.finding, one.object
    result, severity = _WORDS[one.group.action]
    said = found.explanation if isinstance(found, Finding) else f"not judged: {found.lacking}"
    pages = rules_by_id()
    return {
        "source": "rollcall",
        "policy": found.rule,
        **({"category": pages[found.rule][1]} if found.rule in pages else {}),
        "result": result,
        "severity": severity,
        "scored": True,
        "message": plain(said),
        "resources": [
            {
                "apiVersion": key.api_version,
                "kind": key.kind,
                "namespace": key.namespace,
                "name": key.name,
                "uid": key.uid,
            }
        ],
        "properties": {"field": plain(str(found.at)), "scheduler": one.scheduler or ""},
    }


def _order(one: Kept) -> tuple[object, ...]:
    key = one.object
    return _ORDER.index(one.group.action), one.finding.rule, key.kind, key.name, str(one.finding.at)


def _timestamps(stored: Manifest | None) -> Mapping[_Identity, Any]:
    """Return since when each result of a stored report is known."""
    try:
        results = [dict(mapping(one)) for one in sequence(mapping(stored).get("results"))]
        return {_identity(one): one["timestamp"] for one in results if "timestamp" in one}
    except Malformed:
        return {}


def _identity(result: Manifest) -> _Identity:
    """Return what identifies a result: rule, result, object and field. Raises `Malformed`."""
    resources = sequence(result.get("resources"))
    uid = text(mapping(resources[0]).get("uid")) if resources else None
    field = text(mapping(result.get("properties")).get("field"))
    return (str(result.get("policy")), str(result.get("result")), uid or "", field or "")

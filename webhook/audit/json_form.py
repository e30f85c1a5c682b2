"""An audit as plain JSON values. No I/O."""

from __future__ import annotations

from typing import Any

from webhook import __version__, documentation
from webhook.audit.results import Audit
from webhook.audit.stored import StoredKey
from webhook.audit.tally import NOT_JUDGED, Kept, Tally
from webhook.model.findings import Finding, Unjudged
from webhook.offline.levels import FailOn, Level
from webhook.offline.report import finding_as_json, unjudged_as_json
from webhook.reports.rule_pages import rule_url

# Raised if a field is removed or changes its meaning. New fields do not raise it.
AUDIT_VERSION = 1
# The words of a report for the actions of findings.
LEVELS = {"deny": str(Level.ERROR), "warn": str(Level.WARNING), "audit": str(Level.AUDIT), NOT_JUDGED: NOT_JUDGED}


def fails(audit: Audit, on: frozenset[FailOn]) -> bool:
    """Return whether an audit fails: something would be refused, or something else that `on` names. Of a comparison
    only what is new counts.
    """
    found = audit.decisive
    actions = {"deny": True, "warn": FailOn.WARNING in on, NOT_JUDGED: FailOn.UNJUDGED in on}
    return any(counts and found.total(action) for action, counts in actions.items())


def audit_as_json(audit: Audit, fail_on: frozenset[FailOn], compared_with: str = "") -> dict[str, Any]:
    """Return an audit as plain JSON values. `compared_with` says in words what the second judgement was."""
    found: dict[str, Any] = {
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
        found["comparison"] = {
            "with": compared_with,
            "newlyRefused": audit.newly_refused,
            "newlyAllowed": audit.newly_allowed,
            "new": _tally(audit.new),
            "gone": _tally(audit.gone),
        }
    return found


def _tally(found: Tally) -> dict[str, Any]:
    return {
        "judged": found.judged.total(),
        "refused": found.refused,
        "counts": {level: found.total(action) for action, level in LEVELS.items()},
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
            for group, count in found.ordered()
        ],
        "findings": [_kept(one, one.finding) for one in found.kept if isinstance(one.finding, Finding)],
        "notJudged": [_kept(one, one.finding) for one in found.kept if isinstance(one.finding, Unjudged)],
        "leftOut": found.left_out,
    }


def _kept(one: Kept, found: Finding | Unjudged) -> dict[str, Any]:
    told = unjudged_as_json(found) if isinstance(found, Unjudged) else finding_as_json(found)
    return told | {
        "level": LEVELS[one.group.action],
        "ruleUrl": rule_url(found.rule, documentation()),
        "object": {**_object(one.object), "scheduler": one.scheduler, "chosenBy": one.chosen_by or None},
    }


def _object(key: StoredKey) -> dict[str, str]:
    api_version, kind, namespace, name, uid = key
    return {"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name, "uid": uid}

"""An audit as SARIF. An object of a cluster has no file: its place is NAMESPACE/KIND/NAME. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webhook.audit.results import Audit
from webhook.audit.stored import StoredKey
from webhook.audit.tally import Kept, Tally
from webhook.errors import InputError
from webhook.model.admission_request import Verdict
from webhook.model.fields import ROOT, FieldPath
from webhook.model.findings import Action, Finding
from webhook.model.reading import Manifest
from webhook.offline.judgement import Judgement
from webhook.offline.report import Report
from webhook.offline.suppression import Directive
from webhook.reports.options import ReportOptions
from webhook.reports.sarif import sarif


@dataclass(frozen=True, slots=True)
class _Stored:
    """A stored object as the source of findings."""

    key: StoredKey

    @property
    def source(self) -> str:
        """Where it is."""
        return f"{self.key.namespace or '-'}/{self.key.kind}/{self.key.name}"

    @property
    def manifest(self) -> Manifest:
        """Nothing: the object is not kept."""
        return {}

    @property
    def line(self) -> int:
        """The line on which it begins."""
        return 1

    @property
    def comments(self) -> Sequence[Directive]:
        """None: the API server keeps no comments."""
        return ()

    def position(self, _path: FieldPath) -> tuple[int, int]:
        """Line and column of a field."""
        return 1, 1

    def end(self, _path: FieldPath) -> tuple[int, int]:
        """Line and column behind a field."""
        return 1, 1


def audit_as_sarif(audit: Audit) -> dict[str, Any]:
    """Return the kept findings as a SARIF log. A comparison has two runs: what is new, and what is gone, as
    `baselineState` says.
    """
    if audit.new is None or audit.gone is None:
        return _log(audit.today, audit)
    found, gone = _log(audit.new, audit, "new"), _log(audit.gone, audit, "absent")
    return {**found, "runs": [*found["runs"], *gone["runs"]]}


def _log(tally: Tally, audit: Audit, state: str = "") -> dict[str, Any]:
    report = Report()
    for one in tally.kept:
        report.add(_Stored(one.object), [_judgement(one)])
    report.unreadable = [InputError(kind, f"could not be listed: {why}") for kind, why in audit.unlisted.items()]
    if tally.left_out:
        report.unreadable.append(InputError("", f"{tally.left_out} more findings are only counted; see -o table"))
    log = sarif(report, ReportOptions())
    for result in log["runs"][0]["results"] if state else ():
        result["baselineState"] = state
    return log


def _judgement(one: Kept) -> Judgement:
    key, found = one.object, one.finding
    if isinstance(found, Finding):
        verdict = Verdict(found.action is not Action.DENY, one.scheduler, (found,), chosen_by=one.chosen_by)
    else:
        verdict = Verdict(True, one.scheduler, unjudged=(found,), chosen_by=one.chosen_by)
    return Judgement(key.kind, key.namespace, key.name, ROOT, verdict)

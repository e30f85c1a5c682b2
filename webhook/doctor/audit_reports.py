"""The check of the reports that the reconciler writes of what is stored."""

from __future__ import annotations

from webhook.doctor.checking import Level, Symptom, Symptoms, check
from webhook.doctor.examples import configured, installed
from webhook.doctor.parts import OWN_REPORTS
from webhook.doctor.snapshot import Snapshot
from webhook.model.open_reports import REPORT_SELECTOR, REPORTS

_SERVED = frozenset({REPORTS.api})
_REMOVE = f"kubectl delete {REPORTS.qualified} -A -l {REPORT_SELECTOR}"


@check(
    "audit/reports",
    level=Level.WARNING,
    passes=lambda: installed(apis=_SERVED, settings=configured(audit={"openReports": True})),
    fails=lambda: installed(settings=configured(audit={"openReports": True})),
)
def reports(snapshot: Snapshot) -> Symptoms:
    """The cluster serves the Reports that the reconciler is to write, and has none of an audit that was turned off:
    nothing updates these.

    Source: openreports/reports-api, apis/openreports.io/v1alpha1; webhook/reconciler/audit_reports.py.
    """
    wanted = snapshot.settings.auditing.open_reports
    if REPORTS.api not in snapshot.served():
        if wanted:
            yield Symptom(
                "the configuration, audit.openReports",
                f"the cluster does not serve {REPORTS.qualified}",
                "the reconciler audits nothing, because it cannot write the reports",
                "install the CustomResourceDefinitions of OpenReports, or remove audit.openReports",
            )
        return
    if not wanted and (left := len(snapshot.all(OWN_REPORTS))):
        yield Symptom(
            f"{left} {REPORTS.qualified}",
            "Rollcall wrote them, and the configuration has no audit.openReports any more",
            "they tell of objects as they were, and are never updated",
            f"delete them: {_REMOVE}",
        )

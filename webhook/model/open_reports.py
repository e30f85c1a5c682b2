"""Report of OpenReports: results of a policy engine about the objects of one namespace, which dashboards read.

Source: openreports/reports-api, apis/openreports.io/v1alpha1 (`Report`, `ReportResult`, `StatusSummary`).
"""

from __future__ import annotations

from webhook.model.gang_object import MANAGED_BY_ROLLCALL
from webhook.model.grove import LABEL_MANAGED_BY
from webhook.model.keys import Api
from webhook.model.projections import Resource, labels_of
from webhook.model.reading import Malformed, Manifest

REPORTS = Resource(Api("openreports.io", "v1alpha1", "Report"), "reports")
# Of the one report of a namespace. A report of that name without Rollcall's label is another program's.
REPORT_NAME = "rollcall"
REPORT_SELECTOR = f"{LABEL_MANAGED_BY}={MANAGED_BY_ROLLCALL}"


def is_own_report(raw: Manifest) -> bool:
    """Whether Rollcall wrote a report."""
    try:
        return labels_of(raw).get(LABEL_MANAGED_BY) == MANAGED_BY_ROLLCALL
    except Malformed:
        return False

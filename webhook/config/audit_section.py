"""The section `audit`: whether the reconciler audits what is stored, and writes the results as reports."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from webhook.config.reconciler_settings import Auditing
from webhook.config.sections import Section


class AuditSection(Section):
    """With `openReports` the reconciler judges everything that is stored every `everyMinutes`, by the rules of today,
    and keeps a Report of openreports.io in each namespace with findings.
    """

    openReports: bool = False
    # More often would mean that it always reads the cluster.
    everyMinutes: Annotated[int, Field(ge=5, le=10_080)] = 60


def audit_settings(section: AuditSection) -> Auditing:
    """Return what the section says."""
    return Auditing(section.openReports, timedelta(minutes=section.everyMinutes))

"""All checks of `rollcall doctor`, in the order in which they run."""

from __future__ import annotations

from webhook.operations import (
    api_checks,
    certificate_checks,
    gang_checks,
    grove_checks,
    installation_checks,
    kueue_checks,
    neighbour_checks,
    scheduler_checks,
    scope_checks,
    webhook_checks,
)
from webhook.operations.diagnosis import Check, collect

EVERY_CHECK: tuple[Check, ...] = collect(
    webhook_checks,
    certificate_checks,
    neighbour_checks,
    kueue_checks,
    installation_checks,
    api_checks,
    scheduler_checks,
    grove_checks,
    scope_checks,
    gang_checks,
)

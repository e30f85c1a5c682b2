"""Metrics of the reconciler's audits. Only the leader audits, so all other replicas show 0."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge

from webhook.audit.tally import NOT_JUDGED

ACTIONS = ("deny", "warn", "audit", NOT_JUDGED)


class AuditMetrics:
    """The metrics in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.finished = Gauge(
            "rollcall_audit_finished_timestamp_seconds",
            "When the last audit of stored objects ended, in seconds since 1970; 0 before the first.",
            registry=registry,
        )
        self.seconds = Gauge(
            "rollcall_audit_seconds", "Seconds that the last audit of stored objects took.", registry=registry
        )
        self.failing = Gauge(
            "rollcall_audit_failing",
            "1 while the last audit did not finish, or no report can be written. Then the last reports stay.",
            registry=registry,
        )
        self.unwritten = Gauge(
            "rollcall_audit_unwritten_reports",
            "Namespaces whose report the last audit that finished could not write or delete. Their last reports stay.",
            registry=registry,
        )
        self.findings = Gauge(
            "rollcall_audit_findings",
            "Findings of the last audit of stored objects, by action: deny means that the object would be refused now.",
            ["action"],
            registry=registry,
        )
        self.clear()

    def clear(self) -> None:
        """Show what a replica shows that does not lead."""
        for gauge in (self.finished, self.seconds, self.failing, self.unwritten):
            gauge.set(0)
        for action in ACTIONS:
            self.findings.labels(action).set(0)

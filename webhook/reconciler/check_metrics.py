"""Metrics of the AdmissionChecks of Kueue. A check that waits holds quota, so every replica counts those that wait."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from webhook.admission.admission_check import Outcome


class CheckMetrics:
    """The metrics in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.pending = Gauge(
            "rollcall_admission_checks_pending",
            "Workloads of Kueue that have quota and wait for Rollcall's answer.",
            registry=registry,
        )
        self.oldest = Gauge(
            "rollcall_admission_check_oldest_seconds",
            "Seconds for which the Workload that waits longest for Rollcall's answer has held quota; 0 if none waits.",
            registry=registry,
        )
        self.answered = Counter(
            "rollcall_admission_checks_answered",
            "Workloads of Kueue whose admission check was answered, by what was decided.",
            ["outcome"],
            registry=registry,
        )
        for outcome in Outcome:
            self.answered.labels(outcome.value)

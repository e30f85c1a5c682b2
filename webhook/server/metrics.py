"""Prometheus metrics. Every label has few values, and every series is there from the start, so that a rate is never
unknown for want of a first event.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from webhook import __version__
from webhook.cluster.facts import LiveFacts
from webhook.model.admission_request import Verdict
from webhook.model.findings import Action
from webhook.server.cluster_metrics import ClusterCollector
from webhook.server.life_metrics import LifeMetrics
from webhook.validators import CHOICE_RULES, SHAPE_RULES

ENDPOINTS = ("validate", "mutate")
# What becomes of a call. The first three are verdicts, the others answers without one.
OUTCOMES = ("allowed", "denied", "patched", "invalid", "too_large", "failed", "overloaded", "timeout", "gone")
# Decisions take well under a millisecond; the API server's patience ends at ten seconds.
_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 10)


class Metrics:
    """The metrics of one server, in a registry of its own."""

    def __init__(self, rules: Iterable[str]) -> None:
        self.registry = CollectorRegistry()
        calls = Counter(
            "rollcall_admission_requests", "Calls of the webhook, by what became of them.", ("endpoint", "outcome"),
            registry=self.registry,
        )  # fmt: skip
        duration = Histogram(
            "rollcall_admission_duration_seconds", "From the body's arrival to the answer.", ("endpoint",),
            buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        findings = Counter(
            "rollcall_findings", "Findings of rules, by the action that they took.", ("rule", "action"),
            registry=self.registry,
        )  # fmt: skip
        unjudged = Counter(
            "rollcall_unjudged", "Rules that applied and lacked the facts to judge.", ("rule",), registry=self.registry
        )
        self.in_flight = Gauge("rollcall_requests_in_flight", "Calls being answered now.", registry=self.registry)
        self.life = LifeMetrics(self.registry)
        Gauge("rollcall_build_info", "The version, as a label.", ("version",), registry=self.registry).labels(
            __version__
        ).set(1)
        every_rule = {*rules, *(rule.id for rule in (*SHAPE_RULES, *CHOICE_RULES))}
        # Looking a child up by its labels takes a lock and a tuple; each is looked up once, here.
        self.calls = {(endpoint, word): calls.labels(endpoint, word) for endpoint in ENDPOINTS for word in OUTCOMES}
        self.duration = {endpoint: duration.labels(endpoint) for endpoint in ENDPOINTS}
        actions = (Action.AUDIT, Action.WARN, Action.DENY)
        self._findings = {
            (rule, action): findings.labels(rule, str(action)) for rule in every_rule for action in actions
        }
        self._unjudged = {rule: unjudged.labels(rule) for rule in every_rule}

    def watch(self, cluster: LiveFacts) -> None:
        """Expose what is known of a cluster, too."""
        self.registry.register(ClusterCollector(cluster))

    def count(self, verdict: Verdict) -> None:
        """Count what the rules said."""
        for finding in verdict.findings:
            self._findings[finding.rule, finding.action].inc()
        for missing in verdict.unjudged:
            self._unjudged[missing.rule].inc()

    def expose(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)

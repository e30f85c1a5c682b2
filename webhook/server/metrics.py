"""Prometheus metrics. Every label has few values, and every series exists from the start, so that a rate is known
before the first event.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import Counter, Gauge, Histogram

from webhook.cluster.facts import LiveFacts
from webhook.cluster.metrics import CacheCollector
from webhook.config.settings import Shadow
from webhook.model.admission_request import DECISIONS, Verdict
from webhook.model.exceptions import RuleException
from webhook.model.findings import Action
from webhook.server.lane_metrics import lane_metrics
from webhook.server.life_metrics import LifeMetrics
from webhook.server.network_metrics import ConnectionMetrics, IntakeMetrics
from webhook.server.shadow_metrics import ShadowMetrics
from webhook.telemetry.metrics import Exposition
from webhook.validators import CHOICE_RULES, SHAPE_RULES

ENDPOINTS = ("validate", "mutate")
# Outcomes of a call. The first three are verdicts, the others are answers without a verdict.
OUTCOMES = ("allowed", "denied", "patched", "invalid", "too_large", "failed", "overloaded", "timeout", "gone")
# The backend label if the scheduler is not enabled, and if the verdict has no scheduler.
OTHER, NONE = "other", "none"
# Decisions take well under a millisecond; the API server waits ten seconds by default.
_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 10)
# One label is some 80 bytes, the patch of a pod some hundreds; a workload with many parts gets more. There are few
# buckets, because each patch is compared with each of them.
_PATCH_BUCKETS = (128, 256, 512, 1024, 4096, 65536)


class Metrics(Exposition):
    """The metrics of one server, in its own registry."""

    def __init__(
        self,
        rules: Iterable[str],
        schedulers: Iterable[str] = (),
        kinds: Iterable[tuple[str, str]] = (),
        exceptions: Iterable[RuleException] = (),
        shadows: Sequence[Shadow] = (),
    ) -> None:
        """`rules` are the ids that findings may have, `schedulers` the enabled schedulers, `kinds` the groups and kinds
        of opted-in workloads, and `exceptions` those of the configuration.
        """
        super().__init__()
        calls = Counter(
            "rollcall_admission_requests", "Calls of the webhook, by outcome.", ("endpoint", "outcome"),
            registry=self.registry,
        )  # fmt: skip
        duration = Histogram(
            "rollcall_admission_duration_seconds", "Seconds from the arrival of the body to the answer.", ("endpoint",),
            buckets=_BUCKETS, registry=self.registry,
        )  # fmt: skip
        decisions = Counter(
            "rollcall_admission_decisions", "Verdicts, by the scheduler for which the object was judged.",
            ("endpoint", "decision", "backend"), registry=self.registry,
        )  # fmt: skip
        opted_out = Counter(
            "rollcall_opted_out_workloads", "New workloads that say that they are no gang, by their label.",
            ("kind",), registry=self.registry,
        )  # fmt: skip
        self._opted_out = {kind: opted_out.labels(kind) for _, kind in kinds}
        self.patch_bytes = Histogram(
            "rollcall_patch_bytes", "The size of a patch, as JSON.", buckets=_PATCH_BUCKETS, registry=self.registry
        )
        findings = Counter(
            "rollcall_findings", "Findings of rules, by the action taken.", ("rule", "action"),
            registry=self.registry,
        )  # fmt: skip
        unjudged = Counter(
            "rollcall_unjudged", "Rules that applied but lacked the facts to judge.", ("rule",), registry=self.registry
        )
        used = Counter(
            "rollcall_exceptions_used", "Objects that an exception kept from being refused or warned of, by its name.",
            ("exception",), registry=self.registry,
        )  # fmt: skip
        ends = Gauge(
            "rollcall_exception_expires_timestamp_seconds",
            "When an exception of the configuration ends, or has ended, in seconds since 1970.", ("exception",),
            registry=self.registry,
        )  # fmt: skip
        self._exceptions = {one.name: used.labels(one.name) for one in exceptions}
        for one in exceptions:
            ends.labels(one.name).set(one.until.timestamp())
        self.in_flight = Gauge("rollcall_requests_in_flight", "Calls being answered now.", registry=self.registry)
        self.life = LifeMetrics(self.registry)
        self.connections = ConnectionMetrics(self.registry)
        self.intake = IntakeMetrics(self.registry)
        self.lanes = lane_metrics(self.registry)
        self.shadows = ShadowMetrics(self.registry, shadows)
        every_rule = {*rules, *(rule.id for rule in (*SHAPE_RULES, *CHOICE_RULES))}
        # Looking up a child by its labels takes a lock and a tuple, so each is looked up once, here.
        self.calls = {(endpoint, word): calls.labels(endpoint, word) for endpoint in ENDPOINTS for word in OUTCOMES}
        self.duration = {endpoint: duration.labels(endpoint) for endpoint in ENDPOINTS}
        backends = (NONE, OTHER, *schedulers)
        self._decisions = {
            (endpoint, decision, backend): decisions.labels(endpoint, decision, backend)
            for endpoint in ENDPOINTS
            for decision in DECISIONS
            for backend in backends
        }
        actions = (Action.AUDIT, Action.WARN, Action.DENY)
        self._findings = {
            (rule, action): findings.labels(rule, str(action)) for rule in every_rule for action in actions
        }
        self._unjudged = {rule: unjudged.labels(rule) for rule in every_rule}

    def watch(self, cluster: LiveFacts) -> None:
        """Add the metrics of the caches of a cluster."""
        self.registry.register(CacheCollector(cluster))

    def decided(self, endpoint: str, decision: str, scheduler: str | None) -> None:
        """Count a verdict by its scheduler."""
        found = self._decisions.get((endpoint, decision, scheduler or NONE))
        # A record may have any name, so unknown schedulers share one label.
        (found or self._decisions[endpoint, decision, OTHER]).inc()

    def opted_out(self, kind: str) -> None:
        """Count a new workload that is no gang."""
        self._opted_out[kind].inc()

    def count(self, verdict: Verdict) -> None:
        """Count the findings and the unjudged rules of a verdict."""
        for finding in verdict.findings:
            self._findings[finding.rule, finding.action].inc()
        for missing in verdict.unjudged:
            self._unjudged[missing.rule].inc()
        for name in {finding.excepted.name for finding in verdict.findings if finding.excepted is not None}:
            self._exceptions[name].inc()

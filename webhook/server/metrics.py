"""Prometheus metrics of the server: its admissions, lanes, connections, bodies, certificates and shadows.

Every label has few values, and every series exists from the start, so that a rate is known before the first event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from webhook.admission.decision import ShadowAnswer, ShadowOutcome
from webhook.cluster.cluster_facts import LiveFacts
from webhook.cluster.process_metrics import CacheCollector, Exposition
from webhook.config.settings import Shadow
from webhook.model.admission_request import DECISIONS, Verdict
from webhook.model.findings import Action, RuleException
from webhook.validators import CHOICE_RULES, SHAPE_RULES

# Large reviews, and manifests that are judged without a cluster.
REVIEWS, MANIFESTS = "reviews", "manifests"
# One piece of work takes from some milliseconds to a few seconds; the longest deadline is 30 s.
_BUCKETS = (0.001, 0.01, 0.05, 0.25, 1, 5, 10, 30)


class Dropped(StrEnum):
    """Why a request got no answer from its lane."""

    # Too many requests were waiting.
    FULL = "full"
    # Its deadline passed.
    LATE = "late"
    # Its client hung up.
    GONE = "gone"


class LaneMetrics:
    """The metrics of one lane."""

    def __init__(self, waiting: Gauge, waited: Histogram, dropped: Mapping[Dropped, Counter]) -> None:
        self.waiting = waiting
        self.waited = waited
        self.dropped = dropped


def lane_metrics(registry: CollectorRegistry) -> dict[str, LaneMetrics]:
    """Returns the metrics of every lane by name, in the registry of the server's other metrics."""
    waiting = Gauge(
        "rollcall_lane_waiting", "Requests that wait for the single thread of their lane.", ("lane",), registry=registry
    )
    waited = Histogram(
        "rollcall_lane_wait_seconds", "Seconds that a request waited for the thread of its lane.", ("lane",),
        buckets=_BUCKETS, registry=registry,
    )  # fmt: skip
    dropped = Counter(
        "rollcall_lane_dropped", "Requests that got no answer from their lane, by reason.", ("lane", "reason"),
        registry=registry,
    )  # fmt: skip
    return {
        lane: LaneMetrics(
            waiting.labels(lane), waited.labels(lane), {reason: dropped.labels(lane, reason) for reason in Dropped}
        )
        for lane in (REVIEWS, MANIFESTS)
    }


SERVING, NEXT, CLIENT_AUTHORITIES = "serving", "next", "client-ca"


class LifeMetrics:
    """The metrics of one server, in the registry of its other metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        expiry = Gauge(
            "rollcall_certificate_expiry_timestamp_seconds",
            "When a certificate expires: the one that is served, and the next one. 0: there is none.",
            ("certificate",), registry=registry,
        )  # fmt: skip
        reloads = Counter(
            "rollcall_certificate_reloads",
            "Times that certificate files had new content, by whether it was valid; the first load counts too.",
            ("certificate", "outcome"), registry=registry,
        )  # fmt: skip
        refused = Gauge(
            "rollcall_certificate_refused", "1 while the files have content that cannot be served.",
            ("certificate",), registry=registry,
        )  # fmt: skip
        self.ready = Gauge(
            "rollcall_ready", "1 while the server is ready; if it is not, /readyz says why.", registry=registry
        )
        self.draining = Gauge("rollcall_draining", "1 while the server is shutting down.", registry=registry)
        self.connections = Gauge("rollcall_connections", "Connections to the serving port.", registry=registry)
        self.recycled = Counter(
            "rollcall_connections_recycled", "Connections that were closed because of their age.", registry=registry
        )
        names = (SERVING, NEXT, CLIENT_AUTHORITIES)
        self.expiry = {name: expiry.labels(name) for name in (SERVING, NEXT)}
        self.reloads = {(name, word): reloads.labels(name, word) for name in names for word in ("loaded", "refused")}
        self.refused = {name: refused.labels(name) for name in names}


class Ended(StrEnum):
    """Why the process ended a connection before its client did."""

    # It was idle for longer than an API server keeps an idle connection.
    IDLE = "idle"
    # No data had arrived on it, and more than half of the allowed connections were in use.
    UNUSED = "unused"
    # There were as many connections as allowed.
    REPLACED = "replaced"
    # The TLS handshake was not complete in time.
    HANDSHAKE = "handshake"
    # The head of a request came too slowly, or was too large.
    HEAD = "head"
    # Too many requests were sent ahead of their answers.
    PIPELINED = "pipelined"
    # Its client did not read its answer.
    UNREAD = "unread"


class ConnectionMetrics:
    """The connection metrics of one process, in the registry of its other metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        closed = Counter(
            "rollcall_connections_closed", "Connections to any port that the process closed, by reason.", ("reason",),
            registry=registry,
        )  # fmt: skip
        self.closed = {reason: closed.labels(reason) for reason in Ended}


class IntakeMetrics:
    """The intake metrics of one server, in the registry of its other metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.intake_bytes = Gauge(
            "rollcall_intake_bytes", "Bytes of bodies, and of the data decoded from them, that are held now.",
            registry=registry,
        )  # fmt: skip
        self.intake_limit = Gauge(
            "rollcall_intake_limit_bytes", "The most bytes of bodies and decoded data that may be held: a "
            "part of the memory limit.",
            registry=registry,
        )  # fmt: skip
        self.uploads_ended = Counter(
            "rollcall_uploads_ended",
            "Uploads that were closed because other requests needed the memory.",
            registry=registry,
        )
        self.uploads_refused = Counter(
            "rollcall_uploads_refused", "Uploads that were refused because there was no memory.", registry=registry
        )


_REAL = ("allowed", "denied")


class ShadowMetrics:
    """The metrics of all shadows of a server, in the registry of its other metrics."""

    def __init__(self, registry: CollectorRegistry, shadows: Sequence[Shadow]) -> None:
        reviews = Counter(
            "rollcall_shadow_reviews",
            "Reviews of workloads, by what was answered and what a shadow would have answered.",
            ("shadow", "decision", "would"), registry=registry,
        )  # fmt: skip
        denials = Counter(
            "rollcall_shadow_denials", "Allowed reviews of workloads that a rule of a shadow would have denied.",
            ("shadow", "rule"), registry=registry,
        )  # fmt: skip
        unjudged = Counter(
            "rollcall_shadow_unjudged", "Reviews of workloads for which a rule of a shadow lacked the facts to judge.",
            ("shadow", "rule"), registry=registry,
        )  # fmt: skip
        seconds = Counter(
            "rollcall_shadow_seconds", "Seconds of a processor that a shadow has used.", ("shadow",), registry=registry
        )
        self._reviews = {
            (shadow.name, real, would): reviews.labels(shadow.name, real, would)
            for shadow in shadows
            for real in _REAL
            for would in ShadowOutcome
        }
        ids = [(shadow.name, rule) for shadow in shadows for rule in _rules_of(shadow)]
        self._denials = {both: denials.labels(*both) for both in ids}
        self._unjudged = {both: unjudged.labels(*both) for both in ids}
        self._seconds = {shadow.name: seconds.labels(shadow.name) for shadow in shadows}

    def count(self, shadow: str, answer: ShadowAnswer, *, allowed: bool, seconds: float) -> None:
        """Counts what a shadow said of a review that was `allowed` or not, and the processor time that it took."""
        self._reviews[shadow, "allowed" if allowed else "denied", answer.would].inc()
        self._seconds[shadow].inc(seconds)
        for rule in answer.rules if allowed and answer.would is ShadowOutcome.DENIED else ():
            self._denials[shadow, rule].inc()
        for rule in answer.unjudged:
            self._unjudged[shadow, rule].inc()


def _rules_of(shadow: Shadow) -> set[str]:
    rules = (rule for profile in shadow.settings.profiles.values() for rule in profile.every_rule)
    return {rule.id for rule in (*rules, *SHAPE_RULES, *CHOICE_RULES)}


ENDPOINTS = ("validate", "mutate")
# Outcomes of a call. The first three are verdicts, the others are answers without a verdict.
OUTCOMES = ("allowed", "denied", "patched", "invalid", "too_large", "failed", "overloaded", "timeout", "gone")
# The backend label if the scheduler is not enabled, and if the verdict has no scheduler.
OTHER, NONE = "other", "none"
# Decisions take well under a millisecond; the API server waits ten seconds by default.
_DURATION_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 10)
# One label is some 80 bytes, the patch of a pod some hundreds; a workload with many parts gets more. There are few
# buckets, because each patch is compared with each of them.
_PATCH_BUCKETS = (128, 256, 512, 1024, 4096, 65536)


class ServerMetrics(Exposition):
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
            buckets=_DURATION_BUCKETS, registry=self.registry,
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
        self._add_rules(rules)
        self._add_exceptions(exceptions)
        self.in_flight = Gauge("rollcall_requests_in_flight", "Calls being answered now.", registry=self.registry)
        self.life = LifeMetrics(self.registry)
        self.connections = ConnectionMetrics(self.registry)
        self.intake = IntakeMetrics(self.registry)
        self.lanes = lane_metrics(self.registry)
        self.shadows = ShadowMetrics(self.registry, shadows)
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

    def _add_rules(self, rules: Iterable[str]) -> None:
        findings = Counter(
            "rollcall_findings", "Findings of rules, by the action taken.", ("rule", "action"),
            registry=self.registry,
        )  # fmt: skip
        unjudged = Counter(
            "rollcall_unjudged", "Rules that applied but lacked the facts to judge.", ("rule",), registry=self.registry
        )
        every_rule = {*rules, *(rule.id for rule in (*SHAPE_RULES, *CHOICE_RULES))}
        actions = (Action.AUDIT, Action.WARN, Action.DENY)
        self._findings = {
            (rule, action): findings.labels(rule, str(action)) for rule in every_rule for action in actions
        }
        self._unjudged = {rule: unjudged.labels(rule) for rule in every_rule}

    def _add_exceptions(self, exceptions: Iterable[RuleException]) -> None:
        used = Counter(
            "rollcall_exceptions_used", "Objects that an exception kept from being refused or warned of, by its name.",
            ("exception",), registry=self.registry,
        )  # fmt: skip
        ends = Gauge(
            "rollcall_exception_expires_timestamp_seconds",
            "When an exception of the configuration ends, or has ended, in seconds since 1970.", ("exception",),
            registry=self.registry,
        )  # fmt: skip
        self._exceptions = {exception.name: used.labels(exception.name) for exception in exceptions}
        for exception in exceptions:
            ends.labels(exception.name).set(exception.until.timestamp())

    def watch(self, cluster: LiveFacts) -> None:
        """Adds the metrics of the caches of a cluster."""
        self.registry.register(CacheCollector(cluster))

    def count_verdict(self, endpoint: str, decision: str, scheduler: str | None) -> None:
        counter = self._decisions.get((endpoint, decision, scheduler or NONE))
        # A record may have any name, so unknown schedulers share one label.
        (counter or self._decisions[endpoint, decision, OTHER]).inc()

    def count_opted_out(self, kind: str) -> None:
        """Counts a new workload that is no gang."""
        self._opted_out[kind].inc()

    def count(self, verdict: Verdict) -> None:
        """Counts the findings and the unjudged rules of a verdict."""
        for finding in verdict.findings:
            self._findings[finding.rule, finding.action].inc()
        for missing in verdict.unjudged:
            self._unjudged[missing.rule].inc()
        for name in {finding.excepted.name for finding in verdict.findings if finding.excepted is not None}:
            self._exceptions[name].inc()

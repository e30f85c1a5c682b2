"""What the reconciler counts. Labels have few values: kinds, and words of ours."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from webhook.errors import FactsUnavailable, RequestFailed
from webhook.reconciler.plan import Aside

_SERVER_ERROR = 500

# Why a PodGang is to be worked on again: the words for HTTP statuses, and for what has none.
_RETRIES = {409: "conflict", 429: "throttled", 0: "unanswered"}
RETRIES = (*_RETRIES.values(), "refused", "failed", "unknown", "fault")
# How working on one PodGang ends.
OUTCOMES = ("inStep", "written", "inexpressible", "conflict", "waiting", "refused", "failed", "gone", "fault")


class Metrics:
    """A registry of its own, so that a process may have more than one reconciler, as tests do."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.writes = Counter(
            "rollcall_writes", "Writes to the cluster, by kind.", ["kind", "action"], registry=self.registry
        )
        self.outcomes = Counter(
            "rollcall_reconciled", "PodGangs worked on, by how that ended.", ["outcome"], registry=self.registry
        )
        self.asides = Counter(
            "rollcall_left_alone", "PodGangs of which nothing is wanted.", ["why"], registry=self.registry
        )
        self.seconds = Histogram("rollcall_reconcile_seconds", "Seconds that one PodGang took.", registry=self.registry)
        self.queue = Gauge("rollcall_queue_depth", "PodGangs that wait to be worked on.", registry=self.registry)
        self.failing = Gauge(
            "rollcall_queue_failing", "PodGangs that failed when last worked on.", registry=self.registry
        )
        self.retries = Counter(
            "rollcall_retries", "Times that a PodGang was put back, to be tried again.", ["why"], registry=self.registry
        )
        self.interrupted = Gauge(
            "rollcall_watches_interrupted", "Kinds that are not followed now.", registry=self.registry
        )
        self.leads = Gauge("rollcall_leads", "1 while this process is the one that writes.", registry=self.registry)
        self.lease_lost = Counter(
            "rollcall_lease_lost", "Times that the lease was lost without being given up.", registry=self.registry
        )
        self.events = Counter("rollcall_events", "Events written, by reason.", ["reason"], registry=self.registry)
        for outcome in OUTCOMES:
            self.outcomes.labels(outcome)
        for why in RETRIES:
            self.retries.labels(why)
        for aside in Aside:
            self.asides.labels(aside.value)

    def retry(self, error: Exception) -> None:
        """Count that what raised it is to be tried again."""
        if isinstance(error, RequestFailed):
            why = _RETRIES.get(error.code) or ("refused" if error.code < _SERVER_ERROR else "failed")
        else:
            why = "unknown" if isinstance(error, FactsUnavailable) else "fault"
        self.retries.labels(why).inc()

    def expose(self) -> bytes:
        """All of it in the text format."""
        return generate_latest(self.registry)

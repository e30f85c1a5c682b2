"""Metrics of remedies."""

from __future__ import annotations

from enum import StrEnum
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge

from webhook.gangs.remedies import RemedyCause


class Outcome(StrEnum):
    """What came of a remedy; a metric's label."""

    HELPED = "helped"
    # The scheduler tries the gang again, and says what it lacks.
    EXPLAINED = "explained"
    NOT_HELPED = "notHelped"
    # The API server refused it, or did not answer.
    FAILED = "failed"


class RemedyMetrics:
    """The metrics in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.done = Counter(
            "rollcall_remedies",
            "Remedies for gangs, by cause and by what came of them.",
            ["cause", "outcome"],
            registry=registry,
        )
        self.waiting = Gauge(
            "rollcall_remedies_waiting",
            "Gangs whose remedy is due and waits, because there were enough in this minute; at most 50 are counted.",
            registry=registry,
        )
        for cause, outcome in product(RemedyCause, Outcome):
            self.done.labels(cause.value, outcome.value)

"""Metrics of the lanes: how many requests wait for a thread, for how long, and which were not answered."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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
    """Return the metrics of every lane by name, in the registry of the server's other metrics."""
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

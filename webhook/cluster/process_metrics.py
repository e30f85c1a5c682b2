"""Metrics that every process has: its own registry, the build, the process, the lag of the event loop, and the caches
of the cluster.

Of each cache: how many objects are known, the age of that knowledge, and whether its watch works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook import __version__
from webhook.cluster.cluster_facts import LiveFacts
from webhook.cluster.watch import Watch
from webhook.model.keys import Api

# Prometheus' text format, as its own client library names it.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# How often the lag of the event loop is measured: often enough to detect a stall of a second, at almost no cost.
LOOK_SECONDS = 0.25
# From a lag without effect to a whole second of the API server's timeout.
_LAGS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)

# Otherwise each counter and histogram would have a second series with its creation time, which doubles the number of
# series.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Exposition:
    """The registry of one process. Other modules add their metrics to `registry`; `run` measures the event loop."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        Gauge("rollcall_build_info", "The version, as a label.", ("version",), registry=self.registry).labels(
            __version__
        ).set(1)
        ProcessCollector(registry=self.registry)
        self._lag = Histogram(
            "rollcall_event_loop_lag_seconds",
            "How late the event loop ran work that was due, in seconds; measured four times a second.",
            buckets=_LAGS,
            registry=self.registry,
        )

    async def run(self) -> None:
        """Measures the lag of the event loop until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + LOOK_SECONDS
            await asyncio.sleep(LOOK_SECONDS)
            self._lag.observe(max(clock() - due, 0.0))

    def expose(self) -> bytes:
        """Returns the metrics in Prometheus' text format."""
        return generate_latest(self.registry)


# Two schedulers may each have a Queue, so a kind has its group as a label. Of its versions the served one counts.
_LABELS = ("group", "kind")


class CacheCollector(Collector):
    """Reads the caches when metrics are scraped: watches do no extra work."""

    def __init__(
        self, cluster: LiveFacts, kinds: Iterable[Api] = (), watches: Callable[[], Iterable[Watch]] | None = None
    ) -> None:
        """`watches` returns all watches if there are others than those of `cluster`; `kinds` are kinds watched in
        addition.
        """
        self._cluster = cluster
        self._watches = cluster.watches.values if watches is None else watches
        apis = (projection.resource.api for projection in cluster.projections)
        self._kinds = dict.fromkeys((api.group, api.kind) for api in (*apis, *kinds))

    def collect(self) -> Iterator[Metric]:
        """Yields the metric families, with a sample for each kind, even if the cluster does not serve it."""
        objects = GaugeMetricFamily("rollcall_cache_objects", "Known objects, by kind.", labels=_LABELS)
        lists = CounterMetricFamily(
            "rollcall_cache_lists", "Times that all objects of a kind were listed.", labels=_LABELS
        )
        left_out = GaugeMetricFamily(
            "rollcall_cache_left_out",
            "Objects that are not kept, by kind: their needed part is too large, or cannot be read.",
            labels=_LABELS,
        )
        failing = GaugeMetricFamily(
            "rollcall_cache_failing",
            "1 while a kind cannot be watched, so that its known objects become out of date.",
            labels=_LABELS,
        )
        age = GaugeMetricFamily(
            "rollcall_cache_age_seconds",
            "Seconds since the API server last sent anything about a kind: a list, an event, or about once a "
            "minute a bookmark; 0 for a kind that is not served.",
            labels=_LABELS,
        )
        failing.add_metric(("", "discovery"), 0 if self._cluster.trouble is None else 1)
        followed = self._followed()
        for kind in self._kinds:
            watches = followed.get(kind, ())
            objects.add_metric(kind, max((len(watch.index.entries) for watch in watches), default=0))
            left_out.add_metric(kind, max((len(watch.index.left_out) for watch in watches), default=0))
            lists.add_metric(kind, sum(watch.lists for watch in watches))
            failing.add_metric(kind, int(any(watch.trouble is not None for watch in watches)))
            age.add_metric(kind, max((watch.silence() for watch in watches), default=0))
        lookups = CounterMetricFamily(
            "rollcall_lookups", "Facts that were not in a cache and were read live, by outcome.", labels=("outcome",)
        )
        for outcome, count in self._cluster.lookup.outcomes.items():
            lookups.add_metric((outcome,), count)
        yield from (objects, left_out, lists, failing, age, lookups)

    def _followed(self) -> Mapping[tuple[str, str], list[Watch]]:
        """Returns the watches of each kind. A reconciler may watch a kind twice: for decisions and for its
        own writes.
        """
        watches: dict[tuple[str, str], list[Watch]] = {}
        for watch in self._watches():
            api = watch.index.projection.resource.api
            watches.setdefault((api.group, api.kind), []).append(watch)
        return watches

"""Metrics of the caches: how many objects are known, and whether they are still followed."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook.cluster.facts import LiveFacts
from webhook.cluster.watch import Watch


class ClusterCollector(Collector):
    """Read off the caches when they are asked for: watching costs nothing more."""

    def __init__(self, cluster: LiveFacts) -> None:
        self._cluster = cluster

    def collect(self) -> Iterator[Metric]:
        """The families, with a sample for each kind, also for one that the cluster does not serve."""
        # Two schedulers may each have a Queue.
        labels = ["group", "kind"]
        objects = GaugeMetricFamily("rollcall_cache_objects", "Objects known of each kind.", labels=labels)
        lists = CounterMetricFamily("rollcall_cache_lists", "Times that a whole kind was listed.", labels=labels)
        failing = GaugeMetricFamily(
            "rollcall_cache_failing", "1 while a kind cannot be followed, and what is known grows old.", labels=labels
        )
        failing.add_metric(["", "discovery"], 0 if self._cluster.trouble is None else 1)
        # Of a kind that may come in several versions, the one that is served.
        followed = {projection.resource.api: watch for projection, watch in self._cluster.watches.items()}
        kinds: dict[tuple[str, str], Watch | None] = {}
        for projection in self._cluster.projections:
            api = projection.resource.api
            kinds[api.group, api.kind] = followed.get(api) or kinds.get((api.group, api.kind))
        for kind, watch in kinds.items():
            objects.add_metric(list(kind), 0 if watch is None else len(watch.index.entries))
            lists.add_metric(list(kind), 0 if watch is None else watch.lists)
            failing.add_metric(list(kind), 0 if watch is None or watch.trouble is None else 1)
        lookups = CounterMetricFamily(
            "rollcall_lookups", "Facts that no cache had and that were read live, by outcome.", labels=["outcome"]
        )
        for outcome, count in self._cluster.lookup.outcomes.items():
            lookups.add_metric([outcome], count)
        yield from (objects, lists, failing, lookups)

"""Series of metrics: which exist, and that no test adds new ones. A rate over a series that begins with its first event
misses that event, and a label with arbitrary values has no bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from webhook.reconciler import metrics as of_reconciler
from webhook.server import metrics as of_server

Series = tuple[str, tuple[tuple[str, str], ...]]


def series(registry: CollectorRegistry) -> dict[str, set[Series]]:
    """Name and labels of every sample, by metric."""
    return {
        metric.name: {(sample.name, tuple(sorted(sample.labels.items()))) for sample in metric.samples}
        for metric in registry.collect()
    }


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    """The value of one series; None if there is none. Tests ask hundreds of times, so nothing else is collected."""
    metric = registry._names_to_collectors.get(name)
    if not (isinstance(metric, MetricWrapperBase) and labels.keys() == set(metric._labelnames)):
        return registry.get_sample_value(name, labels)
    child = metric._metrics.get(tuple(labels[label] for label in metric._labelnames)) if labels else metric
    for sample in () if child is None else child._child_samples():
        if metric._name + sample.name == name and not sample.labels:
            return float(sample.value)
    return None


def _children(registry: CollectorRegistry) -> dict[Any, set[Sequence[str]]]:
    """The labels of each metric that has some."""
    metrics = (one for one in registry._collector_to_names if isinstance(one, MetricWrapperBase))
    return {metric: set(metric._metrics) for metric in metrics if metric._labelnames}


@pytest.fixture(autouse=True)
def no_series_appears(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test does: what a process exposes afterwards is what it did before the first event."""
    registries: list[tuple[CollectorRegistry, dict[Any, set[Sequence[str]]]]] = []
    for owner in (of_server.ServerMetrics, of_reconciler.ReconcilerMetrics):

        def remembered(self: Any, *arguments: Any, begin: Any = owner.__init__, **named: Any) -> None:
            begin(self, *arguments, **named)
            registries.append((self.registry, _children(self.registry)))

        monkeypatch.setattr(owner, "__init__", remembered)
    yield
    for registry, before in registries:
        after = _children(registry)
        # Those of a cluster that is followed are registered later; test_metrics.py is about them.
        added = {metric: after[metric] - labels for metric, labels in before.items()}
        assert {metric._name: labels for metric, labels in added.items() if labels} == {}

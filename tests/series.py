"""Series of metrics: which exist, and that no test adds new ones. A rate over a series that begins with its first event
misses that event, and a label with arbitrary values has no bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from webhook.reconciler import metrics as of_reconciler
from webhook.server import metrics as of_server

Series = tuple[str, tuple[tuple[str, str], ...]]


def series(registry: CollectorRegistry) -> dict[str, set[Series]]:
    """Name and labels of every sample, by metric."""
    return {
        metric.name: {(sample.name, tuple(sorted(sample.labels.items()))) for sample in metric.samples}
        for metric in registry.collect()
    }


@pytest.fixture(autouse=True)
def no_series_appears(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test does: what a process exposes afterwards is what it did before the first event."""
    made: list[tuple[CollectorRegistry, dict[str, set[Series]]]] = []
    for owner in (of_server.Metrics, of_reconciler.Metrics):

        def remembered(self: Any, *arguments: Any, begin: Any = owner.__init__, **named: Any) -> None:
            begin(self, *arguments, **named)
            made.append((self.registry, series(self.registry)))

        monkeypatch.setattr(owner, "__init__", remembered)
    yield
    for registry, before in made:
        after = series(registry)
        # Those of a cluster that is followed are registered later; test_metrics.py is about them.
        assert {name: after[name] - known for name, known in before.items() if after[name] - known} == {}

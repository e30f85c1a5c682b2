"""What the metrics of every process have in common: a registry of its own, the build, the process itself, and how late
its event loop runs. Labels have few values, and every series is there before the first event.
"""

from __future__ import annotations

import asyncio

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from webhook import __version__

# Prometheus' text format, as its own client library names it.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# How often the event loop is looked at: often enough to catch a stall of a second, and nothing to pay for.
LOOK_SECONDS = 0.25
# From what nobody notices to what is a second of the API server's patience.
_LAGS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)

# Each counter and histogram would else have a second series that says when it was made, as many again as there are.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Exposition:
    """The registry of one process. Others add their metrics to `registry`; `run` watches the event loop."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        Gauge("rollcall_build_info", "The version, as a label.", ("version",), registry=self.registry).labels(
            __version__
        ).set(1)
        ProcessCollector(registry=self.registry)
        self._lag = Histogram(
            "rollcall_event_loop_lag_seconds",
            "How late the event loop came round to what was due, looked at four times a second.",
            buckets=_LAGS,
            registry=self.registry,
        )

    async def run(self) -> None:
        """Look how late the event loop is, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + LOOK_SECONDS
            await asyncio.sleep(LOOK_SECONDS)
            self._lag.observe(max(clock() - due, 0.0))

    def expose(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)

"""Metrics that every process has: its own registry, the build, the process, and the lag of the event loop.

Labels have few values, and every series exists before the first event.
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
        """Measure the lag of the event loop until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + LOOK_SECONDS
            await asyncio.sleep(LOOK_SECONDS)
            self._lag.observe(max(clock() - due, 0.0))

    def expose(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self.registry)

"""The process of a reconciler: it runs until a signal ends it, with a port for health and metrics."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import uvloop

from webhook import __version__
from webhook.reconciler.run import Reconciler
from webhook.reconciler.workers import ended
from webhook.telemetry.logs import configure, log

# After the drain of the workers, time for a running answer about health or metrics.
FINISH_SECONDS = 1


class Port(Protocol):
    """The port that serves health and metrics."""

    def open(self) -> None:
        """Start to answer."""

    async def close(self, seconds: int) -> None:
        """Finish running answers, in at most this many seconds."""


def run(reconciler: Reconciler, port: Port, beside: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run with health and metrics at `port` until SIGTERM or SIGINT, and with a task `beside`, which has no end."""
    configure()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(reconciler, port, beside))


async def _serve(reconciler: Reconciler, port: Port, beside: Callable[[], Coroutine[Any, Any, None]]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    port.open()
    log.info("reconciling", version=__version__)
    work = asyncio.create_task(reconciler.run())
    stopped, other = asyncio.create_task(stop.wait()), asyncio.create_task(beside())
    await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
    log.info("stopping")
    await ended([work, stopped, other])
    await port.close(FINISH_SECONDS)
    if work.done() and not work.cancelled() and (error := work.exception()) is not None:
        raise error

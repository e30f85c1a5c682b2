"""The process of a reconciler: it runs until a signal ends it, and serves /healthz, /readyz and /metrics over plain
HTTP.

Apart from `manager`, because only the process that lasts needs a web server and an event loop of its own kind.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from email.utils import format_datetime
from typing import Any, Protocol

import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from webhook import __version__
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.logs import configure, log
from webhook.cluster.process_metrics import CONTENT_TYPE
from webhook.reconciler.manager import Reconciler
from webhook.reconciler.metrics import ReconcilerMetrics
from webhook.reconciler.work_queue import ended


def create_app(
    unready: Callable[[], Iterator[str]], metrics: ReconcilerMetrics, *, clock: Clock = MACHINE_CLOCK
) -> Starlette:
    """Returns the application; `unready` returns messages about why the process is not ready."""

    async def healthz(_: Request) -> Response:
        # Certificates are dated by this process's clock. `rollcall doctor` compares the date with other clocks.
        return PlainTextResponse("ok\n", headers={"date": format_datetime(clock.now(), usegmt=True)})

    async def readyz(_: Request) -> Response:
        reasons = list(unready())
        return PlainTextResponse("\n".join(reasons or ["ready"]) + "\n", 503 if reasons else 200)

    async def exposed(_: Request) -> Response:
        return Response(metrics.expose(), media_type=CONTENT_TYPE)

    routes = [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", exposed)]
    return Starlette(routes=routes)


# After the drain of the workers, time for a running answer about health or metrics.
FINISH_SECONDS = 1


class ServedPort(Protocol):
    """The port that serves health and metrics."""

    def open(self) -> None:
        """Starts to answer."""

    async def close(self, seconds: int) -> None:
        """Finishes running answers, in at most this many seconds."""


def run(reconciler: Reconciler, port: ServedPort, beside: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs with health and metrics at `port` until SIGTERM or SIGINT, and with a task `beside`, which has no end."""
    configure()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(reconciler, port, beside))


async def _serve(reconciler: Reconciler, port: ServedPort, beside: Callable[[], Coroutine[Any, Any, None]]) -> None:
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

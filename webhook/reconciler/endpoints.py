"""/healthz, /readyz and /metrics of the reconciler, over plain HTTP. It serves nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from email.utils import format_datetime

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.reconciler.metrics import Metrics
from webhook.telemetry.metrics import CONTENT_TYPE


def create_app(unready: Callable[[], Iterator[str]], metrics: Metrics, *, clock: Clock = MACHINE_CLOCK) -> Starlette:
    """The application; `unready` returns messages about why the process is not ready."""

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

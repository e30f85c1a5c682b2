"""/healthz, /readyz and /metrics: on the serving port, and in plain HTTP on the health port, for clients without a
client certificate that do not check the server's certificate.
"""

from __future__ import annotations

from email.utils import format_datetime

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from webhook.server.state import ServerState
from webhook.telemetry.metrics import CONTENT_TYPE


def alive(state: ServerState) -> Response:
    """Answer that the process is alive, with the time: certificates begin and end by this clock, so an operator may
    need to compare it with others. No other answer has the time, because the API server does not need it.
    """
    return PlainTextResponse("ok\n", headers={"date": format_datetime(state.clock.now(), usegmt=True)})


def readiness(state: ServerState) -> Response:
    """Return whether it should get traffic: 503 with the reasons, or 200; and other problems that need attention."""
    reasons = list(state.unready())
    lines = [*(reasons or ["ready"]), *state.details()]
    return PlainTextResponse("\n".join(lines) + "\n", 503 if reasons else 200)


def exposed(state: ServerState) -> Response:
    """Return the metrics."""
    return Response(state.metrics.expose(), media_type=CONTENT_TYPE)


def create_health_app(state: ServerState) -> Starlette:
    """Return the application of the health port."""

    async def healthz(_: Request) -> Response:
        return alive(state)

    async def readyz(_: Request) -> Response:
        return readiness(state)

    async def metrics(_: Request) -> Response:
        return exposed(state)

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)])

"""/healthz, /readyz and /metrics: on the serving port, and in plain HTTP on the health port, for those who have no
client certificate and would not check ours.
"""

from __future__ import annotations

from email.utils import formatdate

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from webhook.server.state import ServerState
from webhook.telemetry.metrics import CONTENT_TYPE


def alive() -> Response:
    """That the process answers, and when: by its clock certificates begin and end, and whoever looks for what is wrong
    holds it against others. No other answer says the time, which the API server does not ask for.
    """
    return PlainTextResponse("ok\n", headers={"date": formatdate(usegmt=True)})


def readiness(state: ServerState) -> Response:
    """Whether it should get traffic: 503 and why not, or 200; and what should be seen to all the same."""
    reasons = list(state.unready())
    lines = [*(reasons or ["ready"]), *state.details()]
    return PlainTextResponse("\n".join(lines) + "\n", 503 if reasons else 200)


def exposed(state: ServerState) -> Response:
    """The metrics."""
    return Response(state.metrics.expose(), media_type=CONTENT_TYPE)


def create_health_app(state: ServerState) -> Starlette:
    """The application of the health port."""

    async def healthz(_: Request) -> Response:
        return alive()

    async def readyz(_: Request) -> Response:
        return readiness(state)

    async def metrics(_: Request) -> Response:
        return exposed(state)

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)])

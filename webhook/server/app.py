"""The application: which code answers which path.

/validate and /mutate bypass the framework, because its routing and middleware would cost more than the decision. The
OpenAPI document still describes them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from webhook import __version__, admission
from webhook.server.admission_endpoint import AdmissionEndpoint
from webhook.server.api_page import api_page
from webhook.server.check_endpoint import ManifestEndpoint
from webhook.server.life import alive, exposed, readiness
from webhook.server.openapi import ADMISSION_PATHS, CAPABILITIES, CHECK, EXPLAIN
from webhook.server.state import ServerState


def create_app(state: ServerState) -> ASGIApp:
    """Return the ASGI application of one server."""
    validate = AdmissionEndpoint("validate", admission.validate, state)
    mutate = AdmissionEndpoint("mutate", admission.mutate, state)
    admission_paths = {"/validate": validate, "/mutate": mutate}
    rest = _rest(state)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = admission_paths.get(scope["path"]) if scope["type"] == "http" else None
        await (rest if endpoint is None else endpoint)(scope, receive, send)

    return application


def _rest(state: ServerState) -> FastAPI:
    app = FastAPI(
        title="Rollcall",
        version=__version__,
        description="Gang-scheduling admission for Kubernetes: a gang starts as a whole, or not at all.",
        docs_url=None,
        redoc_url=None,
    )
    manifests = ManifestEndpoint(state)

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        return manifests.page(request)

    @app.get("/docs", include_in_schema=False)
    async def documentation(request: Request) -> Response:
        return described().answer(request)

    @app.post("/check", tags=["manifests"], summary="Judge plain manifests", openapi_extra=CHECK)
    async def check_manifests(request: Request) -> Response:
        return await manifests.check(request)

    @app.get("/capabilities", tags=["manifests"], summary="What each scheduler honours", openapi_extra=CAPABILITIES)
    async def capabilities(request: Request) -> Response:
        return manifests.capabilities(request)

    @app.post(
        "/capabilities", tags=["manifests"], summary="Which scheduler could run a workload", openapi_extra=EXPLAIN
    )
    async def explain(request: Request) -> Response:
        return await manifests.explain(request)

    @app.get("/healthz", tags=["life"], summary="Whether the process is alive", response_class=PlainTextResponse)
    async def healthz() -> Response:
        return alive(state)

    @app.get(
        "/readyz",
        tags=["life"],
        summary="Whether the process should receive requests",
        response_class=PlainTextResponse,
    )
    async def readyz() -> Response:
        return readiness(state)

    @app.get("/metrics", tags=["life"], summary="Prometheus metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return exposed(state)

    @app.exception_handler(HTTPException)
    async def one_line(_: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        detail = error.detail if isinstance(error, HTTPException) else "internal error"
        return PlainTextResponse(f"{detail}\n", status, getattr(error, "headers", None))

    framework_openapi = app.openapi

    def openapi() -> dict[str, Any]:
        document = framework_openapi()
        document["paths"] = {**ADMISSION_PATHS, **document["paths"]}
        return document

    app.openapi = openapi  # type: ignore[method-assign]
    described = cache(lambda: api_page(openapi()))
    return app

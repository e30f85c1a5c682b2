"""The applications of the ports: which code answers which path.

On the serving port, /validate and /mutate bypass the framework, because its routing and middleware would cost more
than the decision. The OpenAPI document still describes them, and /docs shows it as plain HTML, without a script.
/healthz, /readyz and /metrics are also on the health port, in plain HTTP, for clients without a client certificate
that do not check the server's certificate.

Before a certificate of another CA is served, the API server must be seen to trust that CA. So the next pair is served
on its own port, and a webhook that nothing depends on calls POST /next there. The warning in its answer proves that
the API server accepted exactly that certificate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from email.utils import format_datetime
from functools import cache
from html import escape
from typing import Any

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from webhook import __version__, admission
from webhook.cluster.process_metrics import CONTENT_TYPE
from webhook.errors import DeadlineExceeded, Overloaded, ReviewError, TooLarge
from webhook.installation.names import NEXT_PATH, NEXT_WARNING
from webhook.model.admission_request import Verdict
from webhook.server.admission_endpoint import AdmissionEndpoint
from webhook.server.admission_review import budget, read_review, write_review
from webhook.server.check_endpoint import ManifestEndpoint, WebPage
from webhook.server.connections import SHOWN
from webhook.server.intake import JSON, ClientGone, Intake, answer, carrier_of, plain, read_body
from webhook.server.state import ServerState

_REVIEW_REQUEST = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "7b0a3c6e-2f0e-4a0d-9d8e-3a5f0c1b2d4e",
        "kind": {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"},
        "name": "demo",
        "namespace": "default",
        "operation": "CREATE",
        "object": {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": "demo", "namespace": "default"},
            "spec": {
                "replicas": 1,
                "template": {
                    "cliques": [
                        {
                            "name": "worker",
                            "spec": {
                                "replicas": 2,
                                "podSpec": {"containers": [{"name": "main", "image": "registry.example.com/main:1.0"}]},
                            },
                        }
                    ]
                },
            },
        },
        "oldObject": None,
    },
}
_REVIEW_RESPONSE = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "response": {"uid": "7b0a3c6e-2f0e-4a0d-9d8e-3a5f0c1b2d4e", "allowed": True},
}
_TIMEOUT = {
    "name": "timeout",
    "in": "query",
    "description": "How long the caller waits, as a Go duration.",
    "schema": {"type": "string", "default": "10s"},
}
_ANSWERS = {
    "200": {
        "description": "The verdict, in the request's apiVersion and with its uid.",
        "content": {"application/json": {"example": _REVIEW_RESPONSE}},
    },
    "400": {"description": "The body is not an AdmissionReview that can be answered; one line says why."},
    "413": {"description": "The body is over 7 MiB, or has too many values."},
    "500": {"description": "An error in the server; never a verdict."},
    "503": {"description": "Too many calls at once."},
    "504": {"description": "The body or the answer was not complete before the caller's timeout."},
}


def _admission(summary: str) -> dict[str, Any]:
    return {
        "post": {
            "tags": ["admission"],
            "summary": summary,
            "parameters": [_TIMEOUT],
            "requestBody": {"required": True, "content": {"application/json": {"example": _REVIEW_REQUEST}}},
            "responses": _ANSWERS,
        }
    }


ADMISSION_PATHS = {
    "/validate": _admission("Judge an object before it is stored"),
    "/mutate": _admission("Prepare an object before it is stored"),
}

_SCHEDULER = {
    "name": "scheduler",
    "in": "query",
    "description": "Judge as if this scheduler were chosen, whatever the manifests say.",
    "schema": {"type": "string"},
}
_CONFIGURATION = {
    "name": "configuration",
    "in": "query",
    "description": "Judge with the server's configuration, or with every installed scheduler and its defaults.",
    "schema": {"type": "string", "enum": ["server", "built-in"], "default": "server"},
}
_MANIFESTS = {
    "required": True,
    "content": {"application/yaml": {"schema": {"type": "string"}}, "application/json": {"schema": {}}},
}
_UNANSWERED = {
    "400": {"description": "The manifests cannot be read, or the scheduler does not exist."},
    "403": {"description": "It is disabled, as by default in a cluster; serving.check enables it."},
    "413": {"description": "The body is over 1 MiB."},
    "503": {"description": "Too many checks at once."},
    "504": {"description": "The body or the answer was not complete in time."},
}

CHECK: dict[str, Any] = {
    "parameters": [
        _SCHEDULER,
        _CONFIGURATION,
        {
            "name": "strict",
            "in": "query",
            "description": "Fail if a rule could not be judged.",
            "schema": {"type": "boolean", "default": False},
        },
        {
            "name": "fixes",
            "in": "query",
            "description": "Also search the smallest edit of each refused PodCliqueSet, for the first 50.",
            "schema": {"type": "boolean", "default": False},
        },
    ],
    "requestBody": _MANIFESTS,
    "responses": {
        "200": {"description": "Nothing is refused."},
        "422": {"description": "Something is refused."},
        **_UNANSWERED,
    },
}

CAPABILITIES: dict[str, Any] = {
    "parameters": [_CONFIGURATION],
    "responses": {"200": {"description": "For each enabled scheduler, every capability: yes, no, depends, unstated."}},
}

EXPLAIN: dict[str, Any] = {
    "parameters": [
        _SCHEDULER,
        _CONFIGURATION,
        {
            "name": "pictures",
            "in": "query",
            "description": "Also draw the gangs of each workload, as SVG, Mermaid and text.",
            "schema": {"type": "boolean", "default": False},
        },
    ],
    "requestBody": _MANIFESTS,
    "responses": {
        "200": {"description": "For each workload, the verdict of every enabled scheduler, and what would help."},
        **_UNANSWERED,
    },
}

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { overflow: auto; padding: 0.6rem; border: 1px solid light-dark(#c9d1d9, #3a444f); border-radius: 4px; }
table { border-collapse: collapse; margin: 0.4rem 0; }
th, td { text-align: left; vertical-align: top; padding: 0.2rem 0.8rem 0.2rem 0; }
section { border-top: 1px solid light-dark(#c9d1d9, #3a444f); }
"""


def api_page(document: dict[str, Any]) -> WebPage:
    """Returns the page of an OpenAPI document."""
    title, version = escape(document["info"]["title"]), escape(document["info"]["version"])
    html = (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}: API</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>\n'
        f"<h1>{title} {version}</h1>\n<p>{escape(document['info']['description'])}</p>\n"
        '<p>The same for programs: <a href="openapi.json">openapi.json</a>.</p>\n<main>\n'
        f"{''.join(_operations(document))}</main>\n</body>\n</html>\n"
    )
    return WebPage(html, [_STYLE])


def _operations(document: dict[str, Any]) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"<section>\n<h2><code>{method.upper()} {escape(path)}</code></h2>\n"
            yield f"<p>{escape(operation['summary'])}.</p>\n"
            yield from _table("Query parameters", map(_parameter, operation.get("parameters", ())))
            yield from _body(operation.get("requestBody", {}).get("content", {}))
            responses = operation["responses"].items()
            yield from _table("Answers", ((status, response["description"]) for status, response in responses))
            yield "</section>\n"


def _parameter(parameter: dict[str, Any]) -> tuple[str, str]:
    schema = parameter["schema"]
    values = f" One of {', '.join(schema['enum'])}." if "enum" in schema else ""
    default = f" By default {schema['default']}." if "default" in schema else ""
    return parameter["name"], parameter["description"] + values + default


def _table(title: str, rows: Iterator[tuple[str, str]]) -> Iterator[str]:
    if lines := [
        f'<tr><th scope="row"><code>{escape(name)}</code></th><td>{escape(description)}</td></tr>'
        for name, description in rows
    ]:
        yield f"<h3>{title}</h3>\n<table>{''.join(lines)}</table>\n"


def _body(content: dict[str, Any]) -> Iterator[str]:
    for media_type, described in content.items():
        yield f"<h3>Body: <code>{escape(media_type)}</code></h3>\n"
        if "example" in described:
            yield f"<pre>{escape(json.dumps(described['example'], indent=2))}</pre>\n"


def alive(state: ServerState) -> Response:
    """Answers that the process is alive, with the time: certificates begin and end by this clock, so an operator may
    need to compare it with others. No other answer has the time, because the API server does not need it.
    """
    return PlainTextResponse("ok\n", headers={"date": format_datetime(state.clock.now(), usegmt=True)})


def readiness(state: ServerState) -> Response:
    """Returns whether it should get traffic: 503 with the reasons, or 200; and other problems that need attention."""
    reasons = list(state.unready())
    lines = [*(reasons or ["ready"]), *state.details()]
    return PlainTextResponse("\n".join(lines) + "\n", 503 if reasons else 200)


def exposed(state: ServerState) -> Response:
    """Returns the metrics."""
    return Response(state.metrics.expose(), media_type=CONTENT_TYPE)


def create_health_app(state: ServerState) -> Starlette:
    """Returns the application of the health port."""

    def route(path: str, respond: Callable[[ServerState], Response]) -> Route:
        async def endpoint(_: Request) -> Response:
            return respond(state)

        return Route(path, endpoint)

    return Starlette(routes=[route("/healthz", alive), route("/readyz", readiness), route("/metrics", exposed)])


# Each request must make its own handshake, so that the answer names the certificate that is served now.
_LAST = (b"connection", b"close")
# The request is about a ConfigMap without data, created as a dry run by the reconciler: some 2 KB with the envelope. A
# larger body would be decoded on the event loop, outside of the budget for reviews.
MAX_BODY_BYTES = 64 * 1024


def create_next_app(intake: Intake) -> ASGIApp:
    """Returns the application of the next port."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != f"/{NEXT_PATH}":
            await plain(send, 404, f"only /{NEXT_PATH} is answered here", _LAST)
            return
        if scope["method"] != "POST":
            await plain(send, 405, "only POST is answered here", (b"allow", b"POST"), _LAST)
            return
        try:
            with intake.upload(carrier_of(scope)) as upload:
                body = await read_body(scope, receive, upload, budget(scope["query_string"]), MAX_BODY_BYTES)
                await answer(send, 200, _answered(body, scope["state"][SHOWN]), JSON, _LAST)
        except ClientGone:
            return
        except ReviewError as error:
            await plain(send, 400, str(error), _LAST)
        except TooLarge as error:
            await plain(send, 413, str(error))
        except Overloaded as error:
            await plain(send, 503, str(error), _LAST)
        except DeadlineExceeded as error:
            await plain(send, 504, str(error))

    return application


def _answered(body: bytes, shown: str) -> bytes:
    api_version, request = read_review(body)
    return write_review(api_version, request, Verdict(notes=(f"{NEXT_WARNING}{shown}",)))


def create_app(state: ServerState) -> ASGIApp:
    """Returns the ASGI application of one server."""
    validate = AdmissionEndpoint("validate", admission.validate, state)
    mutate = AdmissionEndpoint("mutate", admission.mutate, state)
    admission_paths = {"/validate": validate, "/mutate": mutate}
    rest = _framework_app(state)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = admission_paths.get(scope["path"]) if scope["type"] == "http" else None
        await (rest if endpoint is None else endpoint)(scope, receive, send)

    return application


def _framework_app(state: ServerState) -> FastAPI:
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

    described = cache(lambda: api_page(app.openapi()))
    _describe_admission(app)
    return app


def _describe_admission(app: FastAPI) -> None:
    """Adds the paths that bypass the framework to its OpenAPI document."""
    framework_openapi = app.openapi

    def openapi() -> dict[str, Any]:
        document = framework_openapi()
        document["paths"] = {**ADMISSION_PATHS, **document["paths"]}
        return document

    app.openapi = openapi  # type: ignore[method-assign]

"""POST /check: plain manifests in, findings out, for `curl --data-binary @file.yaml` in CI."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from webhook.checking import judge
from webhook.config import force_scheduler
from webhook.errors import ConfigurationError, InputError, TooLarge
from webhook.model.facts import ClusterFacts
from webhook.reporting import Report
from webhook.server.answers import ClientGone, read_body
from webhook.server.state import ServerState
from webhook.sources.manifests import read_text

# Each call holds a body of at most 7 MiB, and waits for those before it: reading YAML takes Python's whole attention
# for a while, and two threads at it would leave admission half of what one leaves.
MAX_CHECKS = 8
# A pipeline's upload is done in less; a call that never ends must not keep its place.
BODY_SECONDS = 30
SOURCE = "body"


class CheckEndpoint:
    """The endpoint, with the number of calls that it holds. One of them is judged at a time."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._held = 0
        self._turn = asyncio.Lock()

    async def __call__(self, request: Request) -> Response:
        """Status 200 when nothing is refused, 422 when something is, 400 when it cannot be read."""
        if self._held >= MAX_CHECKS:
            return _error(503, f"more than {MAX_CHECKS} checks at once", {"Retry-After": "1"})
        self._held += 1
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await read_body(request.scope, request.receive)
            scheduler = request.query_params.get("scheduler")
            strict = request.query_params.get("strict", "false") not in {"false", "0", ""}
            async with self._turn:
                # A copy: caches may change while the thread reads.
                report = await asyncio.to_thread(self._report, body, scheduler, self._state.facts.snapshot())
        except TooLarge as error:
            return _error(413, str(error), {"Connection": "close"})
        except (InputError, ConfigurationError) as error:
            return _error(400, str(error))
        except TimeoutError:
            return _error(504, f"the body did not arrive within {BODY_SECONDS} s", {"Connection": "close"})
        except ClientGone:
            return Response(status_code=400)
        finally:
            self._held -= 1
        return _json(200 if report.clean(strict=strict) else 422, report.as_json(strict=strict))

    def _report(self, body: bytes, scheduler: str | None, facts: ClusterFacts) -> Report:
        settings = self._state.settings
        if scheduler is not None:
            settings = force_scheduler(settings, scheduler)
        # A manifest has no owner to read, also where the server has a cluster.
        settings = replace(settings, standalone=True)
        report = Report()
        for document in read_text(body, SOURCE):
            report.add(document, judge(document.manifest, facts, settings))
        return report


def _json(status: int, content: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status, headers, "application/json")


def _error(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return _json(status, {"error": why}, headers)

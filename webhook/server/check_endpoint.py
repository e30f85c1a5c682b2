"""POST /check and POST /capabilities: plain manifests in, findings or an explanation out, for
`curl --data-binary @file.yaml` in CI.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from webhook.checking import judge
from webhook.config import force_scheduler
from webhook.errors import ConfigurationError, InputError, TooLarge
from webhook.explaining import explain_document
from webhook.model.facts import ClusterFacts
from webhook.reporting import Report
from webhook.server.answers import CONTROL, ClientGone, read_body
from webhook.server.state import ServerState
from webhook.settings import Settings
from webhook.sources.facts import one_world
from webhook.sources.manifests import Document, read_text

# Each call holds a body of at most 7 MiB, and waits for those before it: reading YAML takes Python's whole attention
# for a while, and two threads at it would leave admission half of what one leaves.
MAX_CHECKS = 8
# A pipeline's upload is done in less; a call that never ends must not keep its place.
BODY_SECONDS = 30
# Each is judged by every scheduler, and again for each edit that is tried.
MAX_EXPLAINED = 50
SOURCE = "body"

# Status and JSON of the answer about some documents.
Work = Callable[[list[Document], ClusterFacts, Settings], tuple[int, dict[str, Any]]]


class ManifestEndpoint:
    """What is asked with manifests, with the number of calls that it holds. One of them is answered at a time."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._held = 0
        self._turn = asyncio.Lock()

    async def check(self, request: Request) -> Response:
        """Status 200 when nothing is refused, 422 when something is, 400 when it cannot be read."""
        strict = request.query_params.get("strict", "false") not in {"false", "0", ""}

        def judged(documents: list[Document], facts: ClusterFacts, settings: Settings) -> tuple[int, dict[str, Any]]:
            report = Report()
            known = one_world(facts, documents)
            for document in documents:
                report.add(document, judge(document.manifest, known, settings))
            return 200 if report.clean(strict=strict) else 422, report.as_json(strict=strict)

        return await self._answer(request, judged)

    async def explain(self, request: Request) -> Response:
        """Status 200 with an explanation of each workload, whatever it says; 400 when it cannot be read."""
        return await self._answer(request, _explained)

    async def _answer(self, request: Request, work: Work) -> Response:
        if self._held >= MAX_CHECKS:
            return _error(503, f"more than {MAX_CHECKS} checks at once", {"Retry-After": "1"})
        self._held += 1
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await read_body(request.scope, request.receive)
            scheduler = request.query_params.get("scheduler")
            async with self._turn:
                # A copy: caches may change while the thread reads.
                facts = self._state.facts.snapshot()
                status, content = await asyncio.to_thread(self._work, work, body, scheduler, facts)
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
        return _json(status, content)

    def _work(self, work: Work, body: bytes, scheduler: str | None, facts: ClusterFacts) -> tuple[int, dict[str, Any]]:
        settings = self._state.settings
        if scheduler is not None:
            settings = force_scheduler(settings, scheduler)
        # A manifest has no owner to read, also where the server has a cluster.
        return work(read_text(body, SOURCE), facts, replace(settings, standalone=True))


def _explained(documents: list[Document], facts: ClusterFacts, settings: Settings) -> tuple[int, dict[str, Any]]:
    workloads: list[dict[str, Any]] = []
    facts = one_world(facts, documents)
    for document in documents:
        for found in explain_document(document.manifest, facts, settings):
            if len(workloads) == MAX_EXPLAINED:
                raise InputError(SOURCE, f"has more than {MAX_EXPLAINED} workloads; rollcall explain takes any number")
            line, column = document.position(found.at)
            place = {"file": document.source, "line": line, "column": column}
            workloads.append(found.explanation.as_json() | place)
    return 200, {"workloads": workloads, "assumed": []}


def _json(status: int, content: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status, headers, "application/json")


def _error(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return _json(status, {"error": why.translate(CONTROL)}, headers)

"""POST /check and POST /capabilities: plain manifests in, findings or an explanation out. The page at / asks both.

For `curl --data-binary @file.yaml` in CI. In a cluster both are off unless the configuration turns them on, because
every client that can connect may use them. They then use no facts of the cluster: otherwise the answers would tell an
unknown client which objects exist.

Each page for a browser is one answer that needs no other address. The Content-Security-Policy forbids everything that
a page does not have, such as other scripts. A manifest that a page shows can do nothing but be shown.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from webhook.config.defaults import force_scheduler
from webhook.config.file import choosing_settings
from webhook.config.settings import Settings
from webhook.errors import ConfigurationError, DeadlineExceeded, InputError, Overloaded, TooLarge
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.findings import escaped, plain
from webhook.model.grove import generation_of
from webhook.offline.explanation import Explanation, capability_tables, explain_document
from webhook.offline.fact_files import add_field_names
from webhook.offline.finding_details import FailOn
from webhook.offline.fit_report import fit_sentence
from webhook.offline.fixed_files import add_fixes
from webhook.offline.group_forest import trees_in
from webhook.offline.judgement import judge
from webhook.offline.manifests import NO_MANIFEST, Document, read_text
from webhook.offline.pictures import fit_picture, gang_picture, group_picture, pictures_as_json
from webhook.offline.positions import SERVER
from webhook.offline.report import Report
from webhook.offline.report_json import report_as_json
from webhook.offline.report_summary import ONLY_ERRORS, ReportOptions
from webhook.offline.worlds import Worlds
from webhook.server.intake import ClientGone, Upload, caller_of, carrier_of, read_body
from webhook.server.lane import Turn
from webhook.server.metrics import MANIFESTS, Dropped
from webhook.server.state import ServerState

_FOLDER = Path(__file__).parent / "page"
# Later scripts use the functions of earlier ones.
_SCRIPTS = ("libraries.js", "text.js", "editor.js", "share.js", "ask.js", "picture.js", "report.js", "main.js")


class WebPage:
    """One page: its text, compressed too, and the headers that it is sent with."""

    def __init__(
        self, html: str, styles: Iterable[str] = (), scripts: Iterable[str] = (), *, asks: bool = False
    ) -> None:
        """`styles` and `scripts` are those that `html` contains. A page that `asks` may call the server it is from."""
        self._body = html.encode()
        self._compressed = gzip.compress(self._body, mtime=0)
        self._headers = {
            "Content-Security-Policy": "; ".join(_policy(styles, scripts, asks=asks)),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
            "ETag": f'"{sha256(self._body).hexdigest()[:32]}"',
        }

    def answer(self, request: Request) -> Response:
        """Returns the page, or 304 if the browser has it."""
        if request.headers.get("if-none-match") == self._headers["ETag"]:
            return Response(status_code=304, headers=self._headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers = self._headers | {"Content-Encoding": "gzip"}
            return Response(self._compressed, headers=headers, media_type="text/html")
        return Response(self._body, headers=self._headers, media_type="text/html")


@cache
def check_page() -> WebPage:
    """Returns the page at /."""
    style = _read("page.css")
    # A module has names of its own, and is strict.
    script = "\n".join(map(_read, _SCRIPTS))
    html = _read("page.html")
    html = html.replace("<!-- style -->", f"<style>{style}</style>")
    html = html.replace("<!-- script -->", f'<script type="module">{script}</script>')
    return WebPage(html, [style], [script], asks=True)


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _policy(styles: Iterable[str], scripts: Iterable[str], *, asks: bool) -> Iterable[str]:
    yield "default-src 'none'"
    for kind, texts in (("style", styles), ("script", scripts)):
        if hashes := " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in texts):
            yield f"{kind}-src {hashes}"
    if asks:
        yield "connect-src 'self'"
        # The editor underlines with images of its own style sheet. An image runs no script.
        yield "img-src data:"
    yield from ("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'")


# Enough for the manifests of a release. rollcall check reads more.
MAX_MANIFEST_BYTES = 1024 * 1024
# Each call holds its whole body and waits for the calls before it. Reading YAML keeps other threads from running, and
# with two such threads admission would be half as fast as with one.
MAX_CHECKS = 8
# The upload of a CI pipeline takes less.
BODY_SECONDS = 30
# How long a caller waits for its answer. The worst megabyte takes some seconds, and may wait for others.
WORK_SECONDS = 30
# Every scheduler judges each workload, and again for each edit that is tried.
MAX_EXPLAINED = 50
# The most memory for each value of a YAML body, with its position.
_VALUE_BYTES = 450
SOURCE = "body"
# The values of the parameter `configuration`.
_SERVER, _BUILT_IN = "server", "built-in"

# Returns status and JSON of the answer for some documents.
Work = Callable[[list[Document], ClusterFacts, Settings], tuple[int, dict[str, Any]]]


class ManifestEndpoint:
    """The manifest endpoints, and the number of calls whose bodies are held. One call is answered at a time."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._clock = state.clock
        self._held = 0
        # Facts of the state, and their copy.
        self._copied: tuple[ClusterFacts, ClusterFacts] | None = None

    async def check(self, request: Request) -> Response:
        """Answers 200 if nothing is refused, 422 if something is, 400 if the body cannot be read."""
        strict, fixes = _flag(request, "strict"), _flag(request, "fixes")
        options = ReportOptions(ONLY_ERRORS | {FailOn.UNJUDGED} if strict else ONLY_ERRORS)

        def judged(documents: list[Document], facts: ClusterFacts, settings: Settings) -> tuple[int, dict[str, Any]]:
            report = Report()
            worlds = Worlds(add_field_names(facts), documents, settings.kinds)
            report.add_remarks(worlds.remarks)
            for document in documents:
                report.add(document, judge(document.manifest, worlds.facts_for(document), settings, self._clock.now()))
            if fixes:
                add_fixes(report, worlds.facts_for, settings, MAX_EXPLAINED)
            return 422 if report.failed(options.fail_on) else 200, report_as_json(report, options)

        return await self._answer(request, judged)

    async def explain(self, request: Request) -> Response:
        """Answers 200 with an explanation of each workload, or 400 if the body cannot be read."""
        drawn = _flag(request, "pictures")

        def explained(documents: list[Document], facts: ClusterFacts, settings: Settings) -> tuple[int, dict[str, Any]]:
            return 200, _explained(documents, facts, settings, self._clock.now(), drawn=drawn)

        return await self._answer(request, explained)

    def capabilities(self, request: Request) -> Response:
        """Answers 200 with what each enabled scheduler supports."""
        try:
            return JSONResponse(capability_tables(self._settings(request)))
        except InputError as error:
            return _error(400, str(error))

    def page(self, request: Request) -> Response:
        """Answers with the page that asks these endpoints, unless they are off."""
        return check_page().answer(request) if self._answers else _disabled("GET /")

    @property
    def _answers(self) -> bool:
        setting = self._state.settings.serving.check
        return self._state.cluster is None if setting is None else setting

    async def _answer(self, request: Request, work: Work) -> Response:
        if not self._answers:
            return _disabled(f"POST {request.url.path}")
        try:
            status, content = await self._received_answer(request, work)
        except TooLarge as error:
            return _error(413, str(error), {"Connection": "close"})
        except (InputError, ConfigurationError) as error:
            return _error(400, str(error))
        except Overloaded as error:
            return _error(503, str(error), {"Retry-After": "1"})
        except DeadlineExceeded as error:
            return _error(504, str(error), {"Connection": "close"})
        except ClientGone:
            return Response(status_code=400)
        return Response(content, status, media_type="application/json")

    async def _received_answer(self, request: Request, work: Work) -> tuple[int, bytes]:
        """Returns status and body of the answer, unless too many calls wait already. Uploads are not counted: stalled
        uploads would block all other calls.
        """
        with self._state.intake.upload(carrier_of(request.scope)) as receiving:
            body = await read_body(request.scope, request.receive, receiving, BODY_SECONDS, MAX_MANIFEST_BYTES)
            if self._held >= MAX_CHECKS:
                self._state.metrics.lanes[MANIFESTS].dropped[Dropped.FULL].inc()
                raise Overloaded(f"more than {MAX_CHECKS} checks at once")
            upload = receiving.moved()
        self._held += 1
        try:
            return await self._lane_answer(request, work, body, upload)
        finally:
            self._held -= 1

    async def _lane_answer(self, request: Request, work: Work, body: bytes, upload: Upload) -> tuple[int, bytes]:
        scheduler, settings = request.query_params.get("scheduler"), self._settings(request)
        deadline = self._clock.monotonic() + WORK_SECONDS

        async def judge_body(turn: Turn) -> tuple[int, bytes]:
            decoded = min(len(body), SERVER.values) * _VALUE_BYTES
            await upload.decode(self._state.share_of_intake(decoded), deadline - self._clock.monotonic())
            return await turn.run(self._work, work, body, scheduler, settings, turn)

        return await self._state.manifests.run(
            judge_body,
            size=len(body),
            caller=caller_of(request.scope),
            deadline=deadline,
            receive=request.receive,
            done=upload.close,
        )

    def _settings(self, request: Request) -> Settings:
        """Returns the settings that a request asks for. Raises `InputError`."""
        configuration = request.query_params.get("configuration", _SERVER)
        if configuration == _SERVER:
            return self._state.settings
        if configuration == _BUILT_IN:
            return choosing_settings()
        raise InputError("configuration", f"must be {_SERVER} or {_BUILT_IN}")

    def _facts_copy(self) -> ClusterFacts:
        """Returns a copy of the facts for the thread of these calls. Without a cluster the facts never change, but
        nodes keep what the event loop has worked out of them, and two threads must not change that at once.
        """
        facts = self._state.facts
        if self._copied is None or self._copied[0] is not facts:
            self._copied = facts, facts.snapshot()()
        return self._copied[1]

    def _work(
        self, work: Work, body: bytes, scheduler: str | None, settings: Settings, turn: Turn
    ) -> tuple[int, bytes]:
        if scheduler is not None:
            settings = force_scheduler(settings, scheduler, "the scheduler parameter", "request")
        facts = self._facts_copy() if self._state.cluster is None else NO_FACTS
        documents = read_text(body, SOURCE, SERVER, turn.proceed)
        if not documents:
            raise InputError(SOURCE, NO_MANIFEST)
        # The generation of Grove decides the names of PodGangs and tells nothing about objects.
        grove = generation_of(self._state.facts, settings.grove)
        # A manifest has no workload that could be read, even if the server has a cluster.
        request_settings = replace(settings, standalone=True, grove=grove, proceed=turn.proceed)
        status, content = work(documents, facts, request_settings)
        return status, escaped(orjson.dumps(content).decode()).encode()


def _explained(
    documents: list[Document], facts: ClusterFacts, settings: Settings, now: datetime, *, drawn: bool
) -> dict[str, Any]:
    workloads: list[dict[str, Any]] = []
    worlds = Worlds(add_field_names(facts), documents, settings.kinds)
    for document in documents:
        for at, explanation in explain_document(document.manifest, worlds.facts_for(document), settings, now):
            if len(workloads) == MAX_EXPLAINED:
                raise InputError(SOURCE, f"has more than {MAX_EXPLAINED} workloads; rollcall explain takes any number")
            line, column = document.position(at)
            place = {"file": document.source, "line": line, "column": column}
            tree = explanation.tree
            pictures = {"pictures": pictures_as_json(gang_picture(tree))} if drawn and tree is not None else {}
            fits = _fits(explanation, drawn=drawn)
            workloads.append(explanation.as_json() | place | pictures | fits)
    assumed = [str(remark) for remark in worlds.remarks]
    return {"workloads": workloads, **_trees(documents, drawn=drawn), "assumed": assumed}


def _fits(explanation: Explanation, *, drawn: bool) -> dict[str, Any]:
    """Returns whether the gangs fit under the chosen scheduler, with a picture of each, where nodes are known."""
    chosen = next((view for view in explanation.views if view.scheduler == explanation.choice.scheduler), None)
    if chosen is None or not chosen.fits:
        return {}
    pictures = [{"pictures": pictures_as_json(fit_picture(entry))} if drawn else {} for entry in chosen.fits]
    witnesses = (entry.verdict.witness for entry in chosen.fits)
    remedies = (None if witness is None else witness.remedy for witness in witnesses)
    texts = ({"says": fit_sentence(entry), "remedy": do} for entry, do in zip(chosen.fits, remedies, strict=True))
    return {
        "fits": [
            entry.as_json() | text | drawing for entry, text, drawing in zip(chosen.fits, texts, pictures, strict=True)
        ]
    }


def _trees(documents: list[Document], *, drawn: bool) -> dict[str, Any]:
    """Returns the first trees of groups written by hand. One object that cannot be read leaves all trees unknown."""
    try:
        trees = trees_in(documents)[:MAX_EXPLAINED]
    except InputError as error:
        return {"trees": [], "treesNotRead": str(error)}
    pictures = [{"pictures": pictures_as_json(group_picture(group_tree.tree))} if drawn else {} for group_tree in trees]
    return {"trees": [group_tree.as_json() | drawing for group_tree, drawing in zip(trees, pictures, strict=True)]}


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "false") not in {"false", "0", ""}


def _disabled(what: str) -> Response:
    why = f'{what} is disabled; serving.check: "on" in the configuration enables it\n'
    return PlainTextResponse(why, 403, {"Connection": "close"})


def _error(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps({"error": plain(why)}), status, headers, "application/json")

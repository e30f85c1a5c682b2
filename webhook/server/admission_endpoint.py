"""POST /validate and /mutate: AdmissionReview in, AdmissionReview out.

Plain ASGI, below the framework: the body is read by hand, and once it is there nothing is looked up, copied or awaited
unless the caches lack what the decision needs. Our own faults are HTTP 500 and never a verdict, so that the webhook's
failurePolicy keeps its meaning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from time import perf_counter

from starlette.types import Receive, Scope, Send

from webhook import tracing
from webhook.cluster.facts import LiveFacts
from webhook.errors import DeadlineExceeded, FactsUnavailable, Overloaded, ReviewError, TooLarge
from webhook.logs import decided, log, outline
from webhook.model.admission_request import Request, Verdict
from webhook.model.facts import ClusterFacts, Needed
from webhook.required_facts import in_doubt, required_facts
from webhook.server.answers import JSON, ClientGone, answer, plain, read_body
from webhook.server.review import read_review, write_review, written_patch
from webhook.server.state import ServerState
from webhook.server.timeouts import budget
from webhook.settings import Settings

Decision = Callable[[Request, ClusterFacts, Settings], Verdict]

# What is read may name the next that is missing: a group, the one above it, and so on to the root of a tree.
MAX_READ = 8


class AdmissionEndpoint:
    """One of the two endpoints, as an ASGI application."""

    def __init__(self, name: str, decide: Decision, state: ServerState) -> None:
        self._name = name
        self._decide = decide
        self._state = state
        self._max_in_flight = state.settings.serving.max_in_flight
        metrics = state.metrics
        self._calls = {word: child for (endpoint, word), child in metrics.calls.items() if endpoint == name}
        self._duration = metrics.duration[name]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        if scope["method"] != "POST":
            await plain(send, 405, "only POST is answered here", (b"allow", b"POST"))
            return
        self._state.in_flight += 1
        self._state.metrics.in_flight.inc()
        try:
            if tracing.on():
                status, body, outcome = await self._traced(scope, receive)
            else:
                status, body, outcome = await self._answer(scope, receive)
        except ClientGone:
            self._calls["gone"].inc()
            return
        finally:
            self._state.in_flight -= 1
            self._state.metrics.in_flight.dec()
        self._calls[outcome].inc()
        if status == HTTPStatus.OK:
            await answer(send, status, body, JSON)
        else:
            await plain(send, status, body.decode())

    async def _traced(self, scope: Scope, receive: Receive) -> tuple[int, bytes, str]:
        """The answer, as a span of the trace that the API server may have begun."""
        about = {"rollcall.endpoint": self._name}
        with tracing.span(f"admission {self._name}", tracing.Side.SERVER, about, scope["headers"]):
            status, body, outcome = await self._answer(scope, receive)
            tracing.note({"rollcall.outcome": outcome, "http.response.status_code": status})
            if status != HTTPStatus.OK:
                tracing.fail(outcome)
        return status, body, outcome

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, bytes, str]:
        """Status, body and the outcome that the metrics count."""
        try:
            # A call that is answered late is worth nothing; saying no at once lets the caller try another replica.
            if self._state.in_flight > self._max_in_flight:
                raise Overloaded(f"more than {self._max_in_flight} calls at once")
            seconds = budget(scope["query_string"])
            deadline = perf_counter() + seconds
            try:
                async with asyncio.timeout(seconds):
                    body = await read_body(scope, receive)
            except TimeoutError:
                raise DeadlineExceeded(f"the body did not arrive within {seconds:g} s") from None
            return await self._verdict(body, deadline)
        except ReviewError as error:
            return 400, str(error).encode(), "invalid"
        except TooLarge as error:
            return 413, str(error).encode(), "too_large"
        except Overloaded as error:
            return 503, str(error).encode(), "overloaded"
        except DeadlineExceeded as error:
            return 504, str(error).encode(), "timeout"
        except FactsUnavailable as error:
            log.warning("not decided", endpoint=self._name, why=outline(error))
            return 500, str(error).encode(), "failed"
        except ClientGone:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is our fault and no verdict
            log.exception("failed", endpoint=self._name)
            return 500, f"internal error: {type(error).__name__}; the log says more".encode(), "failed"

    async def _without_doubt(
        self, verdict: Verdict, request: Request, facts: ClusterFacts, cluster: LiveFacts, deadline: float
    ) -> Verdict:
        """The verdict after what it rests on was read live; what is read may be found wrong for want of more."""
        read: set[Needed] = set()
        while len(read) < MAX_READ and (doubts := set(in_doubt(verdict)) - read):
            read |= doubts
            try:
                facts = await cluster.learn(sorted(doubts, key=str), facts, deadline - perf_counter())
            except FactsUnavailable as error:
                if not verdict.allowed:
                    raise
                # A warning that may be out of date is no reason to stop anybody.
                log.warning("not read before a warning", endpoint=self._name, why=outline(error))
                break
            verdict = self._decide(request, facts, self._state.settings)
        return verdict

    async def _verdict(self, body: bytes, deadline: float) -> tuple[int, bytes, str]:
        begun = perf_counter()
        api_version, request = read_review(body)
        if tracing.on():
            tracing.note(_asked(request))
        facts, cluster = self._state.facts, self._state.cluster
        if cluster is not None:
            doubted = cluster.doubted()
            if "pod_gangs" in doubted:
                # Whether a gang lives is asked before its record may change; what was known is no answer any more.
                facts = replace(facts, pod_gangs=None)
            if needed := required_facts(request, facts, doubted):
                facts = await cluster.learn(needed, facts, deadline - perf_counter())
        verdict = self._decide(request, facts, self._state.settings)
        if cluster is not None:
            verdict = await self._without_doubt(verdict, request, facts, cluster, deadline)
        patch = written_patch(verdict)
        written = write_review(api_version, request, verdict, patch)
        metrics = self._state.metrics
        decision = verdict.decision
        metrics.decided(self._name, decision, verdict.scheduler)
        if verdict.findings or verdict.unjudged:
            metrics.count(verdict)
        if patch:
            metrics.patch_bytes.observe(len(patch))
        if patch or not verdict.allowed:
            decided(self._name, request, verdict)
        if tracing.on():
            tracing.note(_noted(verdict))
        self._duration.observe(perf_counter() - begun)
        return 200, written, decision


def _asked(request: Request) -> dict[str, tracing.Attribute]:
    """What a trace tells of a request: nothing of its object."""
    return {
        "rollcall.uid": request.uid,
        "rollcall.operation": request.operation,
        "rollcall.kind": request.kind.kind,
        "k8s.namespace.name": request.namespace,
    }


def _noted(verdict: Verdict) -> dict[str, tracing.Attribute]:
    """What a trace tells of a verdict: the rules that found anything, and not what they found."""
    return {
        "rollcall.decision": verdict.decision,
        "rollcall.backend": verdict.scheduler or "",
        "rollcall.rules": sorted({finding.rule for finding in verdict.findings}),
    }

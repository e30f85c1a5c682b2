"""POST /validate and /mutate: AdmissionReview in, AdmissionReview out.

Plain ASGI, below the framework: the body is read here. After that nothing is looked up, copied or awaited, unless the
caches lack facts for the decision. A large review is judged in a thread, so that other calls do not wait for it.
Faults of the server are HTTP 500 and never a verdict, so that the webhook's failurePolicy keeps its meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from http import HTTPStatus

import orjson
from starlette.types import Receive, Scope, Send

from webhook.cluster import spans
from webhook.cluster.logs import log, log_verdict, outline
from webhook.errors import DeadlineExceeded, FactsUnavailable, Overloaded, ReviewError, TooLarge, TooManyReads
from webhook.model.admission_request import Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.findings import cut
from webhook.model.workload_record import OPTED_OUT
from webhook.server import intake
from webhook.server.admission_review import MAX_WARNING_BYTES, Decision, Deliberation, Question, budget
from webhook.server.lane import Turn
from webhook.server.large_review import LargeReview, memory_of
from webhook.server.shadows import ENDPOINT, Moment
from webhook.server.state import ServerState

# A review up to this size, with up to this many commas, is judged on the event loop in at most ten milliseconds.
# Reviews of pods and of most workloads are that small. Rules take time for each item of a list or map, which may have
# only two bytes. The largest recorded review of a pod has 12 KB and 405 commas.
SMALL_BYTES = 32 * 1024
SMALL_COMMAS = 500

Answer = tuple[int, bytes, str]


class AdmissionEndpoint:
    """One of the two endpoints, as an ASGI application."""

    def __init__(self, name: str, decide: Decision, state: ServerState) -> None:
        self._name = name
        self._decide = decide
        self._state = state
        self._clock = state.clock
        self._max_in_flight = state.settings.serving.max_in_flight
        metrics = state.metrics
        self._calls = {word: child for (endpoint, word), child in metrics.calls.items() if endpoint == name}
        self._duration = metrics.duration[name]
        self._shadows = state.shadows if name == ENDPOINT else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one call."""
        if scope["method"] != "POST":
            await intake.plain(send, 405, "only POST is answered here", (b"allow", b"POST"))
            return
        self._state.in_flight += 1
        try:
            if spans.is_tracing():
                status, body, outcome = await self._traced(scope, receive)
            else:
                status, body, outcome = await self._answer(scope, receive)
        except intake.ClientGone:
            self._calls["gone"].inc()
            return
        finally:
            self._state.in_flight -= 1
        self._calls[outcome].inc()
        if status == HTTPStatus.OK:
            await intake.answer(send, status, body, intake.JSON)
        else:
            await intake.plain(send, status, body.decode())

    async def _traced(self, scope: Scope, receive: Receive) -> Answer:
        about = {"rollcall.endpoint": self._name}
        with spans.span(f"admission {self._name}", spans.Side.SERVER, about, scope["headers"]):
            status, body, outcome = await self._answer(scope, receive)
            spans.note({"rollcall.outcome": outcome, "http.response.status_code": status})
            if status != HTTPStatus.OK:
                spans.fail(outcome)
        return status, body, outcome

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        """Returns status, body and the outcome for the metrics."""
        try:
            seconds = budget(scope["query_string"])
            deadline = self._clock.monotonic() + seconds
            carrier = intake.carrier_of(scope)
            body = await intake.small_body(scope, receive, carrier, SMALL_BYTES)
            if body is not None and _is_small(body):
                answer = await self._verdict(body, deadline, carrier)
            else:
                answer = await self._charged_answer(body, deadline, scope, receive, seconds)
            carrier.carried_review()
            return answer
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
        except intake.ClientGone:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is our fault and no verdict
            log.exception("failed", endpoint=self._name)
            return 500, f"internal error: {type(error).__name__}; see the server's log".encode(), "failed"

    async def _charged_answer(
        self, body: bytes | None, deadline: float, scope: Scope, receive: Receive, seconds: float
    ) -> Answer:
        """Answers a review that arrives in parts or is large: its bytes are charged to the intake. Its body is read
        here, unless it is given.
        """
        with self._state.intake.upload(intake.carrier_of(scope)) as upload:
            if body is None:
                body = await intake.read_body(scope, receive, upload, seconds)
            else:
                upload.receive(len(body))
            if not _is_small(body):
                return await self._lane_answer(body, deadline, scope, receive, upload.moved())
        return await self._verdict(body, deadline, intake.carrier_of(scope))

    async def _lane_answer(
        self, body: bytes, deadline: float, scope: Scope, receive: Receive, upload: intake.Upload
    ) -> Answer:
        async def work(turn: Turn) -> Answer:
            await upload.decode(self._state.share_of_intake(memory_of(len(body))), deadline - self._clock.monotonic())
            return await self._large_verdict(body, deadline, turn)

        return await self._state.reviews.run(
            work, size=len(body), caller=intake.caller_of(scope), deadline=deadline, receive=receive, done=upload.close
        )

    async def _verdict(self, body: bytes, deadline: float, carrier: intake.Carrier) -> Answer:
        """Judges a small review. It is judged at once, so its body is charged to the intake only if it must wait for
        live reads.
        """
        begun = self._clock.monotonic()
        if begun >= deadline:
            raise DeadlineExceeded("the time limit was reached before the review was judged")
        facts = self._state.facts
        deliberation = self._deliberation(lambda: facts, begun, deadline)
        try:
            question = deliberation.begin(body, orjson.loads)
            if question is not None:
                with self._state.intake.upload(carrier) as upload:
                    upload.receive(len(body))
                    while question is not None:
                        question = deliberation.advance(await self._read(question, deadline))
        finally:
            _trace_request(deliberation.request)
        return self._answered(deliberation, begun)

    async def _large_verdict(self, body: bytes, deadline: float, turn: Turn) -> Answer:
        """Judges a large review step by step in the thread. Live reads are done here, on the event loop."""
        begun = self._clock.monotonic()
        deliberation = self._deliberation(self._state.facts.snapshot(), begun, deadline, turn)
        review = LargeReview(deliberation, turn)
        try:
            question = await turn.run(review.begin, body)
            while question is not None:
                question = await turn.run(deliberation.advance, await self._read(question, deadline))
        finally:
            _trace_request(deliberation.request)
        return self._answered(deliberation, begun)

    def _deliberation(
        self, facts: Callable[[], ClusterFacts], begun: float, deadline: float, turn: Turn | None = None
    ) -> Deliberation:
        settings, cluster = self._state.settings, self._state.cluster
        if turn is not None:
            settings = replace(settings, proceed=turn.proceed)
        doubted = None if cluster is None else cluster.doubted()
        shadows = None
        if self._shadows is not None:
            moment = Moment(begun, deadline, doubted or ())
            if turn is not None:
                lane = self._state.reviews
                moment = moment._replace(proceed=turn.proceed, is_awaited=lambda: lane.is_awaited, used=turn.used)
            shadows = partial(self._shadows.annotations, moment=moment)
        return Deliberation(self._name, self._decide, settings, facts, doubted, now=self._clock.now(), shadows=shadows)

    async def _read(self, question: Question, deadline: float) -> ClusterFacts | FactsUnavailable:
        """Returns the facts with the answer to `question`, or the error. The decision says what the error means."""
        state, cluster = self._state, self._state.cluster
        if cluster is None:
            return FactsUnavailable("there is no cluster to read from")
        # A late answer is useless. Refusing at once lets the caller try another replica.
        if state.reading >= self._max_in_flight:
            return TooManyReads(f"more than {self._max_in_flight} calls wait for the API server at once")
        state.reading += 1
        try:
            return await cluster.learn(question.needed, question.facts, deadline - self._clock.monotonic())
        except FactsUnavailable as error:
            return error
        finally:
            state.reading -= 1

    def _answered(self, deliberation: Deliberation, begun: float) -> Answer:
        """Counts, logs and traces the verdict, and returns the answer."""
        verdict, patch, metrics = deliberation.verdict, deliberation.patch, self._state.metrics
        decision = verdict.decision
        metrics.count_verdict(self._name, decision, verdict.scheduler)
        if verdict.findings or verdict.unjudged:
            metrics.count(verdict)
        if deliberation.request is not None and _opts_out(self._name, deliberation.request, verdict):
            metrics.count_opted_out(deliberation.request.kind.kind)
        if patch:
            metrics.patch_bytes.observe(len(patch))
        if deliberation.request is not None and (patch or not verdict.allowed):
            log_verdict(self._name, deliberation.request, verdict)
        if spans.is_tracing():
            # The ids of the rules, not their findings.
            rules = sorted({finding.rule for finding in verdict.findings})
            backend = cut(verdict.scheduler or "", MAX_WARNING_BYTES)
            spans.note({"rollcall.decision": decision, "rollcall.backend": backend, "rollcall.rules": rules})
        self._duration.observe(self._clock.monotonic() - begun)
        return 200, deliberation.written, decision


def _opts_out(endpoint: str, request: Request, verdict: Verdict) -> bool:
    """Returns whether it is the final verdict on a new workload that is no gang."""
    created = endpoint == "validate" and request.operation == "CREATE"
    return created and verdict.allowed and verdict.scheduler == OPTED_OUT


def _is_small(body: bytes) -> bool:
    return len(body) <= SMALL_BYTES and body.count(b",") <= SMALL_COMMAS


def _trace_request(request: Request | None) -> None:
    """Notes a request in the trace, and nothing of its object."""
    if spans.is_tracing() and request is not None:
        spans.note(
            {
                "rollcall.uid": request.uid,
                "rollcall.operation": request.operation,
                "rollcall.kind": request.kind.kind,
                "k8s.namespace.name": request.namespace,
            }
        )

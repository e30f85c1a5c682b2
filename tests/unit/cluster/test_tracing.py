"""Traces as a collector receives them: their content, their parents, and the cost of an unreachable collector."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

import httpx
import pytest
import structlog
from structlog.testing import capture_logs

from tests.played import PlayedClock
from tests.unit.cluster.receiver import Receiver, Span
from tests.unit.cluster.scripted import client
from tests.unit.cluster.world import World
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.running_reconciler import names, running
from tests.unit.reconciler.running_reconciler import world as gangs
from tests.unit.server.conftest import Call, body, refused, review
from tests.unit.worlds import gang_pod, koordinator
from tests.waiting import until
from webhook.cluster import logs, spans
from webhook.cluster import span_export as export
from webhook.cluster.cluster_facts import LiveFacts
from webhook.cluster.spans import started
from webhook.config.settings import Tracing
from webhook.errors import ConfigurationError
from webhook.model.facts import NO_FACTS
from webhook.model.projections import POD_CLIQUE_SETS
from webhook.server.state import ServerState

SETS = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
LABELLED = {
    "metadata": {"name": "demo", "namespace": "default", "labels": {"rollcall.dev/scheduler": "koord-scheduler"}}
}
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def traced(receiver: Receiver, ratio: float = 1.0, service: str = "rollcall") -> Any:
    return started(Tracing(receiver.endpoint, ratio), service)


def ask(state: ServerState, asked: Any, path: str = "/validate", traceparent: str | None = None) -> Call:
    headers = [] if traceparent is None else [("traceparent", traceparent)]
    return Call(body(asked), path=path, query="timeout=5s", headers=headers).answered_by(state)


def by_name(spans: list[Span]) -> dict[str, Span]:
    return {span.name: span for span in spans}


def test_the_span_of_a_call_has_its_verdict_and_rules(state: ServerState, receiver: Receiver) -> None:
    with traced(receiver):
        ask(state, refused(namespace="team-a"))
    (span,) = receiver.spans
    assert (span.service, span.name, span.parent, span.status) == ("rollcall", "admission validate", "", 0)
    assert span.kind == 2, "a server's"
    assert span.attributes == {
        "rollcall.endpoint": "validate",
        "rollcall.uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "rollcall.operation": "CREATE",
        "rollcall.kind": "PodCliqueSet",
        "k8s.namespace.name": "team-a",
        "rollcall.decision": "denied",
        "rollcall.backend": "koord-scheduler",
        "rollcall.rules": ["koordinator/mnnvl"],
        "rollcall.outcome": "denied",
        "http.response.status_code": 200,
    }


def test_the_trace_of_the_api_server_is_continued(state: ServerState, receiver: Receiver) -> None:
    with traced(receiver, ratio=0.0):
        ask(state, review(), traceparent=f"00-{TRACE}-{CALLER}-01")
    (span,) = receiver.spans
    assert (span.trace, span.parent) == (TRACE, CALLER)


def test_a_trace_that_the_api_server_does_not_sample_is_not_sampled(state: ServerState, receiver: Receiver) -> None:
    with traced(receiver):
        ask(state, review(), traceparent=f"00-{TRACE}-{CALLER}-00")
        ask(state, review(), path="/mutate")
    assert [span.name for span in receiver.spans] == ["admission mutate"]


def test_own_traces_are_sampled_by_the_configured_ratio(state: ServerState, receiver: Receiver) -> None:
    with traced(receiver, ratio=0.0):
        ask(state, review())
    assert receiver.spans == []


@pytest.mark.parametrize("header", ["", "00-0-0-01", f"ff-{TRACE}-{CALLER}-01", "\xff\n", f"00-{'0' * 32}-{CALLER}-01"])
def test_an_invalid_trace_header_starts_a_new_trace(state: ServerState, receiver: Receiver, header: str) -> None:
    with traced(receiver):
        assert ask(state, review(), traceparent=header).status == 200
    assert [span.parent for span in receiver.spans] == [""]


def test_a_live_read_is_a_child_span_of_its_call(receiver: Receiver) -> None:
    world = World(POD_CLIQUE_SETS.resource)
    world.put(SETS, LABELLED)
    state = ServerState(koordinator(standalone=False), NO_FACTS, None)
    state.cluster = LiveFacts(client(world), (), lambda _: None)
    with traced(receiver):
        assert ask(state, review(gang_pod()), "/mutate").status == 200
    spans = by_name(receiver.spans)
    call, read = spans["admission mutate"], spans["look up"]
    assert (read.parent, read.trace, read.kind) == (call.id, call.trace, 3)
    assert read.attributes == {"rollcall.facts": ["pod_clique_sets"]}
    assert call.attributes["rollcall.decision"] == "patched"


def test_the_span_of_a_failed_call_is_marked_without_the_error_text(receiver: Receiver) -> None:
    world = World()
    world.failing = OSError("no route to MARKER")
    state = ServerState(koordinator(standalone=False), NO_FACTS, None)
    state.cluster = LiveFacts(client(world), (), lambda _: None)
    with traced(receiver):
        assert ask(state, review(gang_pod()), "/mutate").status == 500
    spans = by_name(receiver.spans)
    assert (spans["look up"].status, spans["look up"].said) == (2, "FactsUnavailable")
    assert (spans["admission mutate"].status, spans["admission mutate"].said) == (2, "failed")
    assert b"MARKER" not in b"".join(receiver.raw)


async def test_the_writes_of_a_gang_are_child_spans_and_propagate_the_trace(receiver: Receiver) -> None:
    told: list[str | None] = []

    with traced(receiver, service="rollcall-reconciler"):
        cluster = gangs()

        def answering(request: httpx.Request) -> httpx.Response | None:
            told.append(request.headers.get("traceparent"))
            return None

        cluster.answering = answering
        async with running(cluster) as found:
            await until(lambda: names(cluster) == ["demo-0-a", "demo-0-b"])
            await until(lambda: found.idle)
    gang = next(span for span in receiver.spans if span.attributes.get("rollcall.outcome") == "written")
    assert (gang.service, gang.name, gang.kind) == ("rollcall-reconciler", "reconcile", 1)
    about = {"rollcall.kind": "PodGang", "rollcall.namespace": "team-a", "rollcall.name": "demo-0"}
    assert gang.attributes == {**about, "rollcall.outcome": "written"}
    writes = [span for span in receiver.spans if span.parent == gang.id]
    assert [(span.name, span.attributes["rollcall.kind"]) for span in writes] == [("write", "PodGroup")] * 2
    # The last of the four is flags: that it is kept, and maybe that it was drawn by chance.
    assert [str(header)[:-2] for header in told] == [f"00-{gang.trace}-{span.id}-" for span in writes]


async def test_the_span_of_a_gang_that_could_not_be_written_is_marked(receiver: Receiver) -> None:
    with traced(receiver):
        cluster: WritableWorld = gangs("demo-0-a")
        cluster.answering = lambda _: httpx.Response(500, json={"message": "no MARKER"})
        async with running(cluster):
            await until(lambda: len(cluster.writes) > 2)
    failed = [span for span in receiver.spans if span.status == 2]
    # On a slow machine a look before the facts have come is marked as well.
    told = {(span.name, span.said) for span in failed} - {("reconcile", "FactsUnavailable")}
    assert told == {("reconcile", "RequestFailed"), ("write", "RequestFailed")}
    assert b"MARKER" not in b"".join(receiver.raw)


async def test_requests_without_a_trace_send_no_trace_header(receiver: Receiver) -> None:
    with traced(receiver):
        cluster: WritableWorld = gangs("demo-0-a")
        seen: list[Any] = []
        answer = cluster.handle_async_request

        async def noted(request: httpx.Request) -> httpx.Response:
            seen.append((request.url.params.get("watch"), request.headers.get("traceparent")))
            return await answer(request)

        cluster.handle_async_request = noted  # type: ignore[method-assign]
        async with running(cluster) as found:
            await until(lambda: names(cluster) == ["demo-0-a"] and found.idle)
        watches = [header for watch, header in seen if watch]
    assert watches
    assert set(watches) == {None}


def test_the_log_line_of_a_denial_has_the_trace_id(
    state: ServerState, receiver: Receiver, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    before = structlog.get_config()
    logs.configure()
    structlog.configure(cache_logger_on_first_use=False)
    try:
        with traced(receiver):
            ask(state, refused())
        ask(state, refused())
    finally:
        structlog.configure(**before)
    lines = [json.loads(line) for line in capfdbinary.readouterr().err.splitlines()]
    first, second = (line for line in lines if line["event"] == "denied")
    assert first["trace_id"] == receiver.spans[0].trace
    assert "trace_id" not in second


@pytest.mark.usefixtures("impatient")
def test_a_collector_that_does_not_answer_is_not_waited_for(state: ServerState, receiver: Receiver) -> None:
    receiver.answers.clear()
    with traced(receiver):
        # More than fit in a batch, each while the first is being sent.
        for _ in range(20):
            assert ask(state, review()).status == 200
    assert receiver.spans == []


@pytest.mark.usefixtures("impatient")
def test_an_unreachable_collector_is_no_fault_of_a_call(state: ServerState) -> None:
    # No process listens there: port 9 is the discard service.
    with started(Tracing("http://127.0.0.1:9", 1.0), "rollcall"):
        assert ask(state, review()).status == 200


def test_an_unavailable_collector_is_logged_once_a_minute() -> None:
    clock = PlayedClock()
    warnings = export._Warnings(clock=clock)
    record = logging.LogRecord("opentelemetry", logging.WARNING, __file__, 1, "Failed to export %d", (1,), None)
    with capture_logs() as lines:
        for _ in range(100):
            warnings.emit(record)
        assert [line["why"] for line in lines] == ["Failed to export 1"]
        clock.move(export.WARNING_SECONDS)
        for _ in range(100):
            warnings.emit(record)
    assert len(lines) == 2


def test_remaining_spans_are_sent_at_the_end(
    state: ServerState, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "DELAY_SECONDS", 3600)
    with traced(receiver):
        for _ in range(3):
            ask(state, review())
        assert receiver.spans == []
    assert len(receiver.spans) == 3


def test_a_refusing_collector_is_reported_once(state: ServerState, receiver: Receiver) -> None:
    receiver.answer = 403
    with capture_logs() as lines, traced(receiver):
        for _ in range(20):
            ask(state, review())
    (line,) = (line for line in lines if line["event"] == "traces not sent")
    assert "Failed to export" in line["why"]


def test_an_endpoint_without_a_path_gets_the_otlp_path() -> None:
    assert export.address("http://collector:4318") == "http://collector:4318/v1/traces"
    assert export.address("http://collector:4318/") == "http://collector:4318/v1/traces"
    assert export.address("https://host/otlp/v1/traces") == "https://host/otlp/v1/traces"


def test_without_an_endpoint_the_opentelemetry_sdk_is_not_imported() -> None:
    told = "import sys; print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    used = (
        "from webhook.config.settings import Tracing; from webhook.cluster import spans; "
        "import webhook.server.serving; import webhook.reconciler.manager; from webhook.cluster.spans import started\n"
        "with started(Tracing(), 'x'):\n with spans.span('x'): spans.note({'a': 1}); spans.fail('x')\n"
    )
    made = subprocess.run([sys.executable, "-c", f"{used}{told}"], capture_output=True, text=True, check=True)
    assert made.stdout == "[]\n"
    assert not spans.is_tracing()
    assert spans.outgoing() == {}


def test_an_endpoint_without_opentelemetry_is_an_error_that_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "webhook.cluster.span_export", None)
    with (
        pytest.raises(ConfigurationError, match=r"rollcall\[tracing\]"),
        started(Tracing("http://127.0.0.1:9"), "rollcall"),
    ):
        raise AssertionError("it started")

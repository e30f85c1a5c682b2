"""A collector of traces: OTLP over HTTP on a free port, which keeps the spans that it receives."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Span(NamedTuple):
    """One span as it arrived."""

    service: str
    name: str
    kind: int
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    # 0 unset, 1 well, 2 an error.
    status: int
    said: str


class Receiver:
    """The received data, complete (`raw`) and by span; `answer` is the status of every answer, which is given while
    `answers` is set.
    """

    def __init__(self) -> None:
        self.answer = 200
        self.answers = threading.Event()
        self.answers.set()
        self.raw: list[bytes] = []
        self.spans: list[Span] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["content-length"]))
                receiver.answers.wait()
                if self.path == "/v1/traces" and receiver.answer == 200:
                    receiver.take(content)
                self.send_response(receiver.answer)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def take(self, content: bytes) -> None:
        """Keep an export."""
        self.raw.append(content)
        request = ExportTraceServiceRequest.FromString(content)
        for of_resource in request.resource_spans:
            told = {one.key: _value(one.value) for one in of_resource.resource.attributes}
            for scope in of_resource.scope_spans:
                self.spans += [_span(str(told["service.name"]), one) for one in scope.spans]


def _span(service: str, one: Any) -> Span:
    attributes = {attribute.key: _value(attribute.value) for attribute in one.attributes}
    return Span(
        service,
        one.name,
        one.kind,
        one.trace_id.hex(),
        one.span_id.hex(),
        one.parent_span_id.hex(),
        attributes,
        one.status.code,
        one.status.message,
    )


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A collector that listens."""
    receiver = Receiver()
    # It looks so often whether it shall stop, in seconds.
    thread = threading.Thread(target=receiver.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.answers.set()
        receiver.server.shutdown()
        receiver.server.server_close()
        thread.join()

"""Traces by OpenTelemetry, sent as OTLP over HTTP by a separate thread."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from requests import Session
from requests.adapters import HTTPAdapter
from structlog.contextvars import bound_contextvars

from webhook import __version__
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.logs import log
from webhook.cluster.sockets import verifying
from webhook.cluster.spans import Attribute, Headers, Side
from webhook.config.settings import Tracing

# Spans that wait to be sent: a few megabytes. More are dropped.
QUEUE = 4096
BATCH = 512
# How long spans wait, to be sent in a batch.
DELAY_SECONDS = 2.0
# The time for one batch, with retries and pauses.
EXPORT_SECONDS = 5.0
# How often an unavailable collector is logged.
WARNING_SECONDS = 60.0
# The path for OTLP traces if the endpoint has no path.
PATH = "/v1/traces"

_KINDS = {Side.SERVER: SpanKind.SERVER, Side.CLIENT: SpanKind.CLIENT, Side.INTERNAL: SpanKind.INTERNAL}
# The headers of W3C Trace Context.
_TRACE_HEADERS = (b"traceparent", b"tracestate")


class OpenTelemetry:
    """The `Tracer` of one process."""

    def __init__(self, settings: Tracing, service: str, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._quiet = _Warnings(clock=clock)
        self._quiet.listen()
        resource = Resource.create(
            {
                "service.name": service,
                "service.version": __version__,
                "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
            }
        )
        # The caller decides whether its trace is sampled; of our own traces a share is sampled.
        sampler = ParentBased(TraceIdRatioBased(settings.sample_ratio))
        # OpenTelemetry's own shutdown at exit waits for half a minute.
        self._provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(
                exporter_to(settings.endpoint),
                max_queue_size=QUEUE,
                max_export_batch_size=BATCH,
                schedule_delay_millis=DELAY_SECONDS * 1000,
            )
        )
        self._tracer = self._provider.get_tracer("rollcall", __version__)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(
        self, name: str, side: Side, attributes: Mapping[str, Attribute], headers: Headers | None
    ) -> Iterator[None]:
        """Makes a span of the time in the context."""
        above = None
        if headers is not None:
            # An invalid header starts a new trace.
            carrier = {key.decode(): value.decode("latin-1") for key, value in headers if key in _TRACE_HEADERS}
            above = self._propagator.extract(carrier)
        with self._tracer.start_as_current_span(
            name, above, _KINDS[side], attributes, record_exception=False, set_status_on_exception=False
        ) as current:
            # Only a trace that is recorded has its id in log lines.
            ids = {"trace_id": f"{current.get_span_context().trace_id:032x}"} if current.is_recording() else {}
            with bound_contextvars(**ids):
                try:
                    yield
                except Exception as error:
                    # The text of the exception may quote an object.
                    current.set_status(Status(StatusCode.ERROR, type(error).__name__))
                    raise

    def note(self, attributes: Mapping[str, Attribute]) -> None:
        """Adds attributes to the current span."""
        trace.get_current_span().set_attributes(attributes)

    def fail(self, why: str) -> None:
        """Marks the current span as failed."""
        trace.get_current_span().set_status(Status(StatusCode.ERROR, why))

    def outgoing(self) -> Mapping[str, str]:
        """Returns the headers that pass the current span to another process."""
        headers: dict[str, str] = {}
        self._propagator.inject(headers)
        return headers

    def stop(self, seconds: float) -> None:
        """Sends the remaining spans, for at most `seconds`."""
        # The sending thread may be in the middle of its retries. It is not waited for longer than this.
        ending = threading.Thread(target=self._provider.shutdown, name="last traces", daemon=True)
        ending.start()
        ending.join(seconds)
        self._quiet.end()


def exporter_to(endpoint: str) -> OTLPSpanExporter:
    """Returns the exporter to that collector."""
    return OTLPSpanExporter(endpoint=address(endpoint), timeout=EXPORT_SECONDS, session=collector_session())


def address(endpoint: str) -> str:
    """Returns the URL for traces: the endpoint, with OTLP's path if it has none."""
    return endpoint if urlsplit(endpoint).path.strip("/") else endpoint.rstrip("/") + PATH


class _Warnings(logging.Handler):
    """Logs messages of OpenTelemetry at a limited rate: there are many while a collector is unavailable."""

    def __init__(self, *, clock: Clock = MACHINE_CLOCK) -> None:
        super().__init__(logging.WARNING)
        self._clock = clock
        self._logger = logging.getLogger("opentelemetry")
        self._propagated = self._logger.propagate
        self._next = 0.0

    def listen(self) -> None:
        """Begins to handle its messages."""
        self._logger.addHandler(self)
        self._logger.propagate = False

    def end(self) -> None:
        """Restores its logger."""
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagated

    def emit(self, record: logging.LogRecord) -> None:
        """Logs the message, unless one was logged recently."""
        now = self._clock.monotonic()
        if now >= self._next:
            self._next = now + WARNING_SECONDS
            log.warning("traces not sent", why=record.getMessage()[:200])


def collector_session() -> Session:
    """Returns a session for the exporter that uses our TLS context."""
    session = _Session()
    session.mount("https://", _Adapter())
    return session


class _Session(Session):
    """Follows no redirect: the headers of the environment may be credentials, and are for the collector only."""

    def get_redirect_target(self, resp: Any) -> None:
        """Returns no target, so that the redirect is the answer, which is no success."""


class _Adapter(HTTPAdapter):
    """urllib3's own context is strict since Python 3.13."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Creates the connections to a collector."""
        super().init_poolmanager(*args, **kwargs, ssl_context=verifying())

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """Creates the connections to a collector through a proxy."""
        return super().proxy_manager_for(*args, **kwargs, ssl_context=verifying())

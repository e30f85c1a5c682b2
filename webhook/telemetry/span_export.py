"""Traces by OpenTelemetry, sent as OTLP over HTTP by a thread of their own. What cannot be sent is dropped: neither an
admission nor a gang ever waits for a collector.

Sources: OpenTelemetry specification, "Tracing SDK" and "OTLP Exporter Configuration"; W3C Trace Context.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from structlog.contextvars import bound_contextvars

from webhook import __version__
from webhook.config.settings import Tracing
from webhook.telemetry.logs import log
from webhook.telemetry.span_session import collector_session
from webhook.telemetry.spans import Attribute, Headers, Side

# Spans that wait to be sent: a few megabytes. What comes beyond is dropped.
QUEUE = 4096
BATCH = 512
# How long spans wait for others to be sent with.
DELAY_SECONDS = 2.0
# What one batch may take, tries and pauses included.
EXPORT_SECONDS = 5.0
# A collector that is away is no news more often.
WARNING_SECONDS = 60.0
# Where OTLP's traces go at an address that names no path.
PATH = "/v1/traces"

_KINDS = {Side.SERVER: SpanKind.SERVER, Side.CLIENT: SpanKind.CLIENT, Side.INTERNAL: SpanKind.INTERNAL}
# The headers of W3C Trace Context.
_TRACE_HEADERS = (b"traceparent", b"tracestate")


class OpenTelemetry:
    """The `Tracer` of one process."""

    def __init__(self, settings: Tracing, service: str) -> None:
        self._quiet = _Warnings()
        self._quiet.listen()
        resource = Resource.create(
            {
                "service.name": service,
                "service.version": __version__,
                "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
            }
        )
        # Whoever calls us has decided whether its trace is kept; of the others a part is.
        sampler = ParentBased(TraceIdRatioBased(settings.sample_ratio))
        # Its own way of ending waits for half a minute.
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
        """The time in it is a span."""
        above = None
        if headers is not None:
            # A header that is none starts a trace of our own.
            told = {key.decode(): value.decode("latin-1") for key, value in headers if key in _TRACE_HEADERS}
            above = self._propagator.extract(told)
        made = self._tracer.start_as_current_span(
            name, above, _KINDS[side], attributes, record_exception=False, set_status_on_exception=False
        )
        with made as current:
            # A line that names a trace has one that is kept.
            known = {"trace_id": f"{current.get_span_context().trace_id:032x}"} if current.is_recording() else {}
            with bound_contextvars(**known):
                try:
                    yield
                except Exception as error:
                    # Its words may quote an object.
                    current.set_status(Status(StatusCode.ERROR, type(error).__name__))
                    raise

    def note(self, attributes: Mapping[str, Attribute]) -> None:
        """Add to the current span."""
        trace.get_current_span().set_attributes(attributes)

    def fail(self, why: str) -> None:
        """Mark the current span as failed."""
        trace.get_current_span().set_status(Status(StatusCode.ERROR, why))

    def outgoing(self) -> Mapping[str, str]:
        """The headers that tell another process of the current span."""
        headers: dict[str, str] = {}
        self._propagator.inject(headers)
        return headers

    def stop(self, seconds: float) -> None:
        """Send what is left, as far as that goes in so many seconds."""
        # The thread that sends may be in the middle of its tries, and is not waited for any longer.
        ending = threading.Thread(target=self._provider.shutdown, name="last traces", daemon=True)
        ending.start()
        ending.join(seconds)
        self._quiet.end()


def exporter_to(endpoint: str) -> OTLPSpanExporter:
    """What sends traces to that collector."""
    return OTLPSpanExporter(endpoint=address(endpoint), timeout=EXPORT_SECONDS, session=collector_session())


def address(endpoint: str) -> str:
    """Where traces are posted: the endpoint as it is, or OTLP's path there where it names none."""
    return endpoint if urlsplit(endpoint).path.strip("/") else endpoint.rstrip("/") + PATH


class _Warnings(logging.Handler):
    """What OpenTelemetry says of itself, which is a great deal while a collector is away, as a line now and then."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._logger = logging.getLogger("opentelemetry")
        self._propagated = self._logger.propagate
        self._next = 0.0

    def listen(self) -> None:
        """Take what it says from now on."""
        self._logger.addHandler(self)
        self._logger.propagate = False

    def end(self) -> None:
        """Leave it as it was."""
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagated

    def emit(self, record: logging.LogRecord) -> None:
        """Tell it, unless something was told a moment ago."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + WARNING_SECONDS
            log.warning("traces not sent", why=record.getMessage()[:200])

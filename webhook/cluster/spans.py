"""Traces: what an admission or a gang waited for, sent to a collector if one is configured.

Without a configured endpoint a span does nothing, and OpenTelemetry is not even imported: only `started` imports
`span_export`.

A span has the endpoint, kind, namespace, scheduler and rules. It never has content of an object's spec, labels or
annotations, nor the text of an error, which may quote them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from typing import Protocol

from webhook.config.settings import Tracing
from webhook.errors import ConfigurationError, Problem

# An available collector takes a batch in milliseconds. A process that stops waits this long at most.
STOP_SECONDS = 3.0

Attribute = str | int | Sequence[str]
Headers = Iterable[tuple[bytes, bytes]]


class Side(Enum):
    """Which side of a call a span is: the called side, the calling side, or neither."""

    SERVER = "server"
    CLIENT = "client"
    INTERNAL = "internal"


class Tracer(Protocol):
    """Makes spans, while traces are enabled."""

    def span(
        self, name: str, side: Side, attributes: Mapping[str, Attribute], headers: Headers | None
    ) -> AbstractContextManager[None]:
        """Makes a span of the time in the context, as a child of the current one or of the one in `headers`."""

    def note(self, attributes: Mapping[str, Attribute]) -> None:
        """Adds attributes to the current span."""

    def fail(self, why: str) -> None:
        """Marks the current span as failed."""

    def outgoing(self) -> Mapping[str, str]:
        """Returns the headers that pass the current span to another process."""

    def stop(self, seconds: float) -> None:
        """Sends the remaining spans, for at most `seconds`."""


_NOTHING: AbstractContextManager[None] = nullcontext()
_NO_HEADERS: Mapping[str, str] = {}
# A global: a wait for an answer is deep inside the code that needs the answer.
_tracer: Tracer | None = None


def is_tracing() -> bool:
    """Returns whether traces are enabled, for callers that would have to collect attributes."""
    return _tracer is not None


def span(
    name: str,
    side: Side = Side.INTERNAL,
    attributes: Mapping[str, Attribute] | None = None,
    headers: Headers | None = None,
) -> AbstractContextManager[None]:
    """Makes a span of the time in the context, as a child of the current one or of the one in `headers` (W3C Trace
    Context).
    """
    return _NOTHING if _tracer is None else _tracer.span(name, side, attributes or {}, headers)


def note(attributes: Mapping[str, Attribute]) -> None:
    """Adds attributes to the current span."""
    if _tracer is not None:
        _tracer.note(attributes)


def fail(why: str) -> None:
    """Marks the current span as failed, with a reason that Rollcall chose."""
    if _tracer is not None:
        _tracer.fail(why)


def outgoing() -> Mapping[str, str]:
    """Returns the headers that pass the current span to another process; none without a span."""
    return _NO_HEADERS if _tracer is None else _tracer.outgoing()


@contextmanager
def use_tracer(tracer: Tracer) -> Iterator[None]:
    """Makes spans with `tracer` in the context. Afterwards sends its remaining spans."""
    global _tracer  # noqa: PLW0603 - one for the process
    before, _tracer = _tracer, tracer
    try:
        yield
    finally:
        _tracer = before
        tracer.stop(STOP_SECONDS)


@contextmanager
def started(settings: Tracing, service: str) -> Iterator[None]:
    """Sends traces in the context if an endpoint is configured. Raises `ConfigurationError` if OpenTelemetry is then
    not installed.
    """
    if not settings.endpoint:
        yield
        return
    try:
        # Imported here, because it costs start-up time and memory.
        from webhook.cluster.span_export import OpenTelemetry  # noqa: PLC0415
    except ImportError:
        why = "needs OpenTelemetry; pip install 'rollcall[tracing]'"
        raise ConfigurationError("configuration", [Problem("tracing.endpoint", settings.endpoint, why)]) from None
    with use_tracer(OpenTelemetry(settings, service)):
        yield

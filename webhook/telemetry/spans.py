"""Traces: what an admission or a gang waited for. Where no endpoint is configured a span is nothing, and OpenTelemetry
is not even imported: only `span_collector` imports it.

A span says which endpoint, kind, namespace, scheduler and rules; never anything that an object's spec, labels or
annotations hold, nor the words of an error, which may quote them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from typing import Protocol

# A collector that is there takes a batch in milliseconds; a process that stops waits no longer for one that is not.
STOP_SECONDS = 3.0

Attribute = str | int | Sequence[str]
Headers = Iterable[tuple[bytes, bytes]]


class Side(Enum):
    """Which side of a call a span is: one that is answered here, one that is made, or none."""

    SERVER = "server"
    CLIENT = "client"
    INTERNAL = "internal"


class Tracer(Protocol):
    """Who makes spans, while traces are wanted."""

    def span(
        self, name: str, side: Side, attributes: Mapping[str, Attribute], headers: Headers | None
    ) -> AbstractContextManager[None]:
        """The time in it is a span, below the one that is current, or the one that `headers` name."""

    def note(self, attributes: Mapping[str, Attribute]) -> None:
        """Add to the current span."""

    def fail(self, why: str) -> None:
        """Mark the current span as failed."""

    def outgoing(self) -> Mapping[str, str]:
        """The headers that tell another process of the current span."""

    def stop(self, seconds: float) -> None:
        """Send what is left, as far as that goes in so many seconds."""


_NOTHING: AbstractContextManager[None] = nullcontext()
_NO_HEADERS: Mapping[str, str] = {}
# One for the process: what waits for an answer is deep inside what asks for it.
_tracer: Tracer | None = None


def on() -> bool:
    """Whether anybody wants traces: for whoever would have to put together what to note."""
    return _tracer is not None


def span(
    name: str,
    side: Side = Side.INTERNAL,
    attributes: Mapping[str, Attribute] | None = None,
    headers: Headers | None = None,
) -> AbstractContextManager[None]:
    """The time in it is a span, below the one that is current, or the one that `headers` name (W3C Trace Context)."""
    return _NOTHING if _tracer is None else _tracer.span(name, side, attributes or {}, headers)


def note(attributes: Mapping[str, Attribute]) -> None:
    """Add to the current span."""
    if _tracer is not None:
        _tracer.note(attributes)


def fail(why: str) -> None:
    """Mark the current span as failed, for a reason in a word of ours."""
    if _tracer is not None:
        _tracer.fail(why)


def outgoing() -> Mapping[str, str]:
    """The headers that tell another process of the current span; none where there is none."""
    return _NO_HEADERS if _tracer is None else _tracer.outgoing()


@contextmanager
def made_by(tracer: Tracer) -> Iterator[None]:
    """`tracer` makes the spans while in it; afterwards what it still holds is sent."""
    global _tracer  # noqa: PLW0603 - one for the process
    before, _tracer = _tracer, tracer
    try:
        yield
    finally:
        _tracer = before
        tracer.stop(STOP_SECONDS)

"""Traces for a collector, where one is configured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from webhook.config.settings import Tracing
from webhook.errors import ConfigurationError, Problem
from webhook.telemetry import spans


@contextmanager
def started(settings: Tracing, service: str) -> Iterator[None]:
    """Traces are sent while in it, where an endpoint is configured. Raises `ConfigurationError` where one is, and
    OpenTelemetry is not installed.
    """
    if not settings.endpoint:
        yield
        return
    try:
        # Here and not above: it costs start-up time and memory.
        from webhook.telemetry.span_export import OpenTelemetry  # noqa: PLC0415
    except ImportError:
        why = "needs OpenTelemetry; pip install 'rollcall[tracing]'"
        raise ConfigurationError("configuration", [Problem("tracing.endpoint", settings.endpoint, why)]) from None
    with spans.made_by(OpenTelemetry(settings, service)):
        yield

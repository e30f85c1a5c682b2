"""Send traces to a collector, if one is configured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from webhook.config.settings import Tracing
from webhook.errors import ConfigurationError, Problem
from webhook.telemetry import spans


@contextmanager
def started(settings: Tracing, service: str) -> Iterator[None]:
    """Send traces in the context if an endpoint is configured. Raises `ConfigurationError` if OpenTelemetry is then not
    installed.
    """
    if not settings.endpoint:
        yield
        return
    try:
        # Imported here, because it costs start-up time and memory.
        from webhook.telemetry.span_export import OpenTelemetry  # noqa: PLC0415
    except ImportError:
        why = "needs OpenTelemetry; pip install 'rollcall[tracing]'"
        raise ConfigurationError("configuration", [Problem("tracing.endpoint", settings.endpoint, why)]) from None
    with spans.made_by(OpenTelemetry(settings, service)):
        yield

"""Settings for all tests: generated tests have no deadline and, in CI, fixed examples; logs have one format."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

# A slow machine is not a fault of the code, and a change must not fail in CI for an unrelated random example; new
# examples are what runs elsewhere are for.
settings.register_profile("rollcall", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("ci" if os.environ.get("CI") else "rollcall")

# As on a terminal. What structlog does by default draws a traceback with all its variables, which takes it seconds.
plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
structlog.configure(processors=[structlog.processors.add_log_level, plain])


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The only event loop that the service runs on."""
    return "asyncio"


@pytest.fixture
def untraced() -> Iterator[None]:
    """Measure no coverage in this thread: for tests that run a few lines a million times. Other tests cover these."""
    tracer = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(tracer)

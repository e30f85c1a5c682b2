"""Settings for all tests: generated tests have no deadline and, in CI, fixed examples; logs have one format."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

# A slow machine is not a fault of the code. The inner loop has few examples, and the same each time. `scripts/test
# --all` has many, and new ones unless it runs in CI: there a change must not fail for an unrelated example. It chooses
# with `--hypothesis-profile`.
settings.register_profile("rollcall", deadline=None, derandomize=True, max_examples=5)
settings.register_profile("exhaustive", deadline=None, derandomize=bool(os.environ.get("CI")), max_examples=50)
settings.load_profile("rollcall")

# As on a terminal. What structlog does by default draws a traceback with all its variables, which takes it seconds.
plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
structlog.configure(processors=[structlog.processors.add_log_level, plain])


# For the tests of `tools/`. As the last place it hides no module of the wheel that `scripts/test --all` has installed.
sys.path.append(str(Path(__file__).parents[1]))


def pytest_collection_finish() -> None:
    """Keeps the collected tests out of garbage collections, which would visit all of them again and again."""
    gc.collect()
    gc.freeze()


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

"""Time is played: a pause costs nothing, and a deadline passes only when nothing else is left to do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.played import PlayedLoop


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The event loop of these tests."""
    return "asyncio", {"loop_factory": PlayedLoop}

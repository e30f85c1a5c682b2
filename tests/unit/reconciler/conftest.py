"""Played time for every test of the reconciler, and the API of its certificates."""

from __future__ import annotations

from typing import Any

import pytest

from tests.played import PlayedLoop
from tests.series import no_series_appears
from tests.unit.reconciler.certificate_api import CertificateApi

__all__ = ["no_series_appears"]


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """An event loop whose time passes when nothing is left to do."""
    return "asyncio", {"loop_factory": PlayedLoop}


@pytest.fixture
def api() -> CertificateApi:
    """An API without certificates."""
    return CertificateApi()

"""Short delays for every test of the reconciler, and the API of its certificates."""

from __future__ import annotations

import pytest

from tests.series import no_series_appears
from tests.unit.reconciler.certificate_api import CertificateApi
from webhook.cluster import facts as following
from webhook.reconciler import escape_deletion, gangs, health_watch, topologies
from webhook.reconciler import queue as queues

__all__ = ["no_series_appears"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "DISCOVERY_SECONDS", 0.05)
    monkeypatch.setattr(queues, "BACKOFF_SECONDS", (0.01, 0.1))
    monkeypatch.setattr(gangs, "LOOK_AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(topologies, "LOOK_AGAIN_SECONDS", 0.05)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Health is looked at often, and soon counts as settled."""
    monkeypatch.setattr(health_watch, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(health_watch, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(escape_deletion, "SETTLE_SECONDS", 0.05)


@pytest.fixture
def api() -> CertificateApi:
    """An API without certificates."""
    return CertificateApi()

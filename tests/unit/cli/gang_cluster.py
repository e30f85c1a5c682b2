"""The simulated cluster of the tests of commands about gangs, with one gang, and their configuration."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.unit.cli.conftest import CONFIG, answer_for_the_cluster
from tests.unit.reconciler.cluster import WritableWorld
from tests.unit.reconciler.grove import grove_pod
from tests.unit.reconciler.running_reconciler import put_gang, workload
from webhook.cluster import logs

GATE = "rollcall.dev/gang-sync"


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Logs as a command configures them, but for this test alone: a logger that is once cached stays as it is."""
    before = structlog.get_config()
    monkeypatch.setattr(
        logs, "configure", lambda: structlog.configure(logger_factory=structlog.PrintLoggerFactory(io.StringIO()))
    )
    yield
    structlog.configure(**before)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> WritableWorld:
    """A cluster in the place of the network."""
    found = WritableWorld()
    found.put("/apis/grove.io/v1alpha1/podcliquesets", workload())
    put_gang(found, "demo-0-a")
    answer_for_the_cluster(found, monkeypatch)
    return found


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "rollcall.yaml"
    file.write_text(CONFIG)
    return str(file)


def pod(name: str, *gates: str, **spec: Any) -> dict[str, Any]:
    return grove_pod(name, schedulingGates=[{"name": gate} for gate in gates], **spec)

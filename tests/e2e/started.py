"""What most cluster tests begin with: a scheduler, a registered server, and a reconciler that leads."""

from __future__ import annotations

import pytest

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.fixture_types import Leader, Reconcilers, Rollcall, Running, Scheduler, Started
from tests.e2e.reconciler_process import ReconcilerProcess, forget_lease


@pytest.fixture
def leader(plane: ControlPlane, reconciler: Reconcilers) -> Leader:
    """Start a reconciler that leads at once: `leader(config)`."""

    def start(config: Manifest) -> ReconcilerProcess:
        forget_lease(plane)
        found = reconciler(config)
        found.until_leading()
        return found

    return start


@pytest.fixture
def started(plane: ControlPlane, scheduler: Scheduler, rollcall: Rollcall, leader: Leader) -> Started:
    """Start a scheduler and all of Rollcall: `started("koordinator", config)`."""

    def start(name: str, config: Manifest) -> Running:
        scheduler(plane, name)
        return Running(rollcall(plane, config), leader(config))

    return start

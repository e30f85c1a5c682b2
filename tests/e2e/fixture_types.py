"""The types of the fixtures that start something: a test asks for as many as it needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.e2e.control_plane import ControlPlane
from tests.e2e.grove_next_operator import NextPlayed
from tests.e2e.grove_operator import Played
from tests.e2e.neighbours.running import Neighbour
from tests.e2e.programs import Program
from tests.e2e.reconciler_process import ReconcilerProcess
from tests.e2e.rollcall_server import RollcallServer
from webhook.model.reading import Manifest


class Running(NamedTuple):
    """Rollcall, as it runs for a test."""

    server: RollcallServer
    reconciler: ReconcilerProcess


Controllers = Callable[..., dict[str, Neighbour]]
Grove = Callable[[Manifest], Played]
Leader = Callable[[Manifest], ReconcilerProcess]
Nodes = Callable[..., list[str]]
PlayNext = Callable[[Manifest], NextPlayed]
Reconcilers = Callable[..., ReconcilerProcess]
Rollcall = Callable[..., RollcallServer]
Scheduler = Callable[[ControlPlane, str], Program]
Started = Callable[[str, Manifest], Running]

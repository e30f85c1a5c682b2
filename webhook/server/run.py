"""The serving process: from bound sockets to the last answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from webhook import __version__
from webhook.server.app import create_app
from webhook.server.connections import Connections
from webhook.server.descriptors import HEALTH_CONNECTIONS, NEXT_CONNECTIONS, raise_limit, serving_connections
from webhook.server.drain import Signals, drain
from webhook.server.life import create_health_app
from webhook.server.listener import Listener
from webhook.server.memory import give_back_memory, make_collections_rare, return_large_blocks
from webhook.server.next_port import create_next_app
from webhook.server.self_probe import SelfProbe
from webhook.server.state import ServerState
from webhook.server.tls import PairFiles, Tls, next_tls, serving_tls
from webhook.telemetry.logs import configure, log
from webhook.telemetry.span_collector import started

# Kubernetes takes a minute to update a Secret in a pod, so one more second does not matter.
LOOK_SECONDS = 1.0
# How long a thread that judges manifests keeps the GIL when admission needs it. With Python's default of 5 ms every
# step of every admission call waits that long: 190 calls a second were left of 7,300 while /check was busy.
_SWITCH_SECONDS = 0.0001

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """Where to serve what: host and port (0 for any free port), and certificate files."""

    place: Place
    files: PairFiles
    # Clients must have a certificate of this CA, and one of these names if there are any.
    client_ca: Path | None = None
    client_names: tuple[str, ...] = ()
    # Where the next certificate is served.
    next_place: Place | None = None
    next_files: PairFiles | None = None
    # Where health and metrics are served in plain HTTP.
    health_place: Place | None = None
    drain_seconds: float = 0
    # The CA file that a person may trust; written in the first log line.
    ca: Path | None = None


def run(state: ServerState, plan: Plan) -> None:
    """Serve until SIGTERM or SIGINT, then finish calls in flight. Updates the facts from the state's cluster, if it has
    one.

    Raises `InputError` if an address cannot be listened on.
    """
    configure()
    for reason in state.degraded():
        log.warning("degraded", reason=reason)
    server = _Server(state, plan)
    make_collections_rare()
    return_large_blocks()
    sys.setswitchinterval(_SWITCH_SECONDS)
    with (
        started(state.settings.tracing, "rollcall"),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(server.serve())


class _Server:
    """The ports of one process, and its background tasks."""

    def __init__(self, state: ServerState, plan: Plan) -> None:
        self._state = state
        self._plan = plan
        life, serving = state.metrics.life, state.settings.serving
        self._tls = serving_tls(plan.files, life, plan.client_ca, clock=state.clock)
        self._next_tls: Tls | None = None
        counted = state.metrics.connections
        connections = Connections(
            serving_connections(serving.max_connections, raise_limit(serving.max_connections)),
            counted,
            seconds=serving.connection_seconds,
            client_names=plan.client_names,
            metrics=life,
            clock=state.clock,
        )
        self._serving = Listener(plan.place, create_app(state), connections, self._tls.listening)
        self._next = self._health = None
        if plan.next_place is not None and plan.next_files is not None:
            self._next_tls = next_tls(plan.next_files, life, clock=state.clock)
            self._next = Listener(
                plan.next_place,
                create_next_app(state.intake),
                Connections(NEXT_CONNECTIONS, counted, clock=state.clock),
                self._next_tls.listening,
            )
        if plan.health_place is not None:
            health = Connections(HEALTH_CONNECTIONS, counted, clock=state.clock)
            self._health = Listener(plan.health_place, create_health_app(state), health, None)
        self._every = [self._tls] if self._next_tls is None else [self._tls, self._next_tls]
        self._look()
        self._tell()

    async def serve(self) -> None:
        """Serve from the first connection to the last."""
        signals, state = Signals(), self._state
        probe = SelfProbe(state, self._serving.address, client_ca=self._plan.client_ca is not None)
        ports = [self._serving] if self._next is None else [self._serving, self._next]
        for port in (*ports, *([] if self._health is None else [self._health])):
            port.open()
        await probe.look()
        self._say()
        beside: list[Coroutine[Any, Any, None]] = [self._watch(), probe.run(), state.metrics.run(), give_back_memory()]
        if state.cluster is not None:
            beside.append(state.cluster.run())
        tasks = [asyncio.create_task(work) for work in beside]
        told = asyncio.create_task(signals.told.wait())
        # None of these tasks ends except by a bug. Then a new process is better than this one.
        await asyncio.wait([told, *tasks], return_when=asyncio.FIRST_COMPLETED)
        ended = [task for task in tasks if task.done()]
        await drain(state, signals, ports, self._health, self._plan.drain_seconds)
        for task in (told, *tasks):
            task.cancel()
        for task in (told, *tasks):
            if task not in ended:
                with suppress(asyncio.CancelledError):
                    await task
        for task in ended:
            task.result()

    def _say(self) -> None:
        """Write the first log line, when all ports listen."""
        plan = self._plan
        more = {"next": self._next, "health": self._health}
        log.info(
            "serving",
            url=self._serving.url,
            ca=None if plan.ca is None else str(plan.ca),
            version=__version__,
            **{name: port.url for name, port in more.items() if port is not None},
        )

    async def _watch(self) -> None:
        """Reload the certificate files when they change."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            # A disk that does not respond must not block the event loop.
            try:
                await asyncio.to_thread(self._look)
            except Exception:  # noqa: BLE001 - a fault of ours here must not end a server that serves
                # The old certificate stays in use, and the files are read again later.
                log.exception("certificates not checked")
            self._tell()

    def _look(self) -> None:
        """Read the files once."""
        for tls in self._every:
            tls.look()

    def _tell(self) -> None:
        """Copy the result of the last read to the state."""
        state, every = self._state, self._every
        state.certificate = self._tls.pair.value
        state.refused = {kept.name: kept.refused for tls in every for kept in tls.kept if kept.refused is not None}
        authorities = self._tls.authorities
        lacking = authorities is not None and authorities.value is None
        state.unguarded = lacking

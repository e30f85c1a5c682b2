"""The serving process: from bound sockets to the last answer.

The self-probe checks that our own TLS port answers with the certificate that it should serve: a server that listens
may still have an unusable certificate, or a port that another process has. After a success, several tries in a row
must fail before the server is unready: a busy machine, or a busy probe, must not take a server out of service.

After a signal, the server continues to answer until clients send nothing more. /readyz and Kubernetes tell load
balancers that this replica stops. Until they have noticed, and the connections have been used up, refusing a request
would lose a call. A second signal ends the waiting.
"""

from __future__ import annotations

import asyncio
import signal
import ssl
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from webhook import __version__
from webhook.cluster.logs import configure, log
from webhook.cluster.sockets import looking
from webhook.cluster.spans import started
from webhook.server.connections import Connections
from webhook.server.listener import FINISH_SECONDS, Listener
from webhook.server.memory import (
    HEALTH_CONNECTIONS,
    NEXT_CONNECTIONS,
    give_back_memory,
    make_collections_rare,
    raise_limit,
    return_large_blocks,
    serving_connections,
)
from webhook.server.routes import create_app, create_health_app, create_next_app
from webhook.server.state import ServerState
from webhook.server.tls import PairFiles, Tls, next_tls, serving_tls


class Signals:
    """SIGTERM and SIGINT from now on: the first asks for the stop, each further one asks to hurry."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.hurried = asyncio.Event()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self._tell)

    def _tell(self) -> None:
        (self.hurried if self.stop.is_set() else self.stop).set()


async def drain(
    state: ServerState, signals: Signals, serving: Sequence[Listener], health: Listener | None, seconds: float
) -> None:
    """Answers for `seconds` more, and closes each connection after its next answer. Then closes the ports, the health
    port last.
    """
    log.info("stopping", drainSeconds=seconds)
    state.stopping = True
    state.metrics.life.draining.set(1)
    listeners = (*serving, *([] if health is None else [health]))
    for listener in listeners:
        listener.connections.end()
    if seconds:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await signals.hurried.wait()
                # A second signal during the delay ends only the delay. The next one ends the closing too.
                signals.hurried.clear()
    hurrying = asyncio.create_task(_hurry(signals, listeners))
    begun = state.clock.monotonic()
    try:
        await asyncio.gather(*(listener.close() for listener in serving))
        if health is not None:
            # Closing both together may take no longer than closing one.
            await health.close(max(1, FINISH_SECONDS - round(state.clock.monotonic() - begun)))
    finally:
        hurrying.cancel()


async def _hurry(signals: Signals, listeners: Sequence[Listener]) -> None:
    await signals.hurried.wait()
    for listener in listeners:
        listener.hurry()


# A try costs a handshake, a millisecond or two.
EVERY_SECONDS = 10.0
# Until the probe succeeds, the replica gets no traffic.
UNSEEN_SECONDS = 0.5
# A handshake takes milliseconds; on a busy machine, a second or two.
TRY_SECONDS = 5.0
# Half a minute without an answer is not an accident.
TRIES = 3

NOT_YET = "own port: has not answered yet"


class SelfProbe:
    """Probes the port at `address` and sets `state.unseen`."""

    def __init__(self, state: ServerState, address: tuple[str, int], *, client_ca: bool) -> None:
        """With `client_ca` the port requires a client certificate, which the probe lacks: then only the handshake is
        checked.
        """
        self._state = state
        self._host, self._port = address
        self._handshake_alone = client_ca
        self._failed = 0
        self._reported: str | None = None
        state.unseen = NOT_YET
        # The served certificate is compared with the loaded one. Whether other clients trust it is not checked here.
        self._context = looking()
        # With TLS 1.3 the client sees the server's certificate and completes the handshake before its own certificate
        # is missed.
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3

    async def run(self) -> None:
        """Probes the port again and again."""
        while True:
            await asyncio.sleep(EVERY_SECONDS if self._state.unseen is None else UNSEEN_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Tries once, if a certificate is loaded and, where clients need certificates, a client CA."""
        if self._state.certificate is None or self._state.unguarded:
            self._state.unseen = NOT_YET
            return
        why = await self._try()
        if why is None:
            self._failed = 0
            self._reported = self._state.unseen = None
            return
        self._failed += 1
        # The same reason is not logged twice a second. It is logged once more when the port counts as failed.
        if why != self._reported or self._failed == TRIES:
            log.warning("own port", why=why, tries=self._failed)
        self._reported = why
        if self._state.unseen is not None or self._failed >= TRIES:
            self._state.unseen = f"own port: {why}"

    async def _try(self) -> str | None:
        before = self._state.certificate
        try:
            async with asyncio.timeout(TRY_SECONDS):
                shown, status = await self._ask()
        except TimeoutError:
            return f"no answer within {TRY_SECONDS:g} s"
        except OSError as error:
            return f"no answer: {str(error) or type(error).__name__}"
        # The certificate may have been reloaded during the probe.
        if shown not in {pair.leaf for pair in (before, self._state.certificate) if pair is not None}:
            return "the port presents a certificate other than the loaded one"
        if not status.startswith(b"HTTP/1.1 200 ") and not self._handshake_alone:
            return f"the answer is {status[:40]!r}"
        return None

    async def _ask(self) -> tuple[bytes | None, bytes]:
        reader, writer = await asyncio.open_connection(
            self._host, self._port, ssl=self._context, server_hostname="localhost"
        )
        try:
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            if self._handshake_alone:
                return shown, b""
            writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            return shown, await reader.readline()
        finally:
            writer.transport.abort()


# Kubernetes takes a minute to update a Secret in a pod, so one more second does not matter.
LOOK_SECONDS = 1.0
# How long a thread that judges manifests keeps the GIL when admission needs it. With Python's default of 5 ms every
# step of every admission call waits that long: 190 calls a second were left of 7,300 while /check was busy.
_SWITCH_SECONDS = 0.0001

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ServingPlan:
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


def run(state: ServerState, plan: ServingPlan) -> None:
    """Serves until SIGTERM or SIGINT, then finishes calls in flight. Updates the facts from the state's cluster, if it
    has one.

    Raises `InputError` if an address cannot be listened on.
    """
    configure()
    for reason in state.degraded():
        log.warning("degraded", reason=reason)
    server = _Server(state, plan)
    make_collections_rare()
    return_large_blocks()
    sys.setswitchinterval(_SWITCH_SECONDS)
    with started(state.settings.tracing, "rollcall"), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve())


class _Server:
    """The ports of one process, and its background tasks."""

    def __init__(self, state: ServerState, plan: ServingPlan) -> None:
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
        """Serves from the first connection to the last."""
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
        stopping = asyncio.create_task(signals.stop.wait())
        # None of these tasks ends except by a bug. Then a new process is better than this one.
        await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        ended = [task for task in tasks if task.done()]
        await drain(state, signals, ports, self._health, self._plan.drain_seconds)
        for task in (stopping, *tasks):
            task.cancel()
        for task in (stopping, *tasks):
            if task not in ended:
                with suppress(asyncio.CancelledError):
                    await task
        for task in ended:
            task.result()

    def _say(self) -> None:
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
        for tls in self._every:
            tls.look()

    def _tell(self) -> None:
        state, every = self._state, self._every
        state.certificate = self._tls.pair.value
        state.refused = {kept.name: kept.refused for tls in every for kept in tls.kept if kept.refused is not None}
        authorities = self._tls.authorities
        lacking = authorities is not None and authorities.value is None
        state.unguarded = lacking

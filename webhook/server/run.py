"""Serving: uvicorn over TLS, from a bound socket to the last answer."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import ssl
import sys
from contextlib import suppress
from pathlib import Path

import uvicorn

from webhook import __version__, tracing
from webhook.certificates import Pair, server_context
from webhook.cluster.facts import LiveFacts
from webhook.errors import InputError
from webhook.logs import configure, log
from webhook.server.app import create_app
from webhook.server.metrics import Metrics
from webhook.server.state import ServerState

# The API server keeps a connection to a webhook for 90 s of silence; closing first would lose a request that it has
# just sent.
KEEP_ALIVE_SECONDS = 120
# Answers take milliseconds. After this a connection that never ends must not hold up the stop.
DRAIN_SECONDS = 10
# TLS says goodbye and waits for the other side to do the same. A client that only looks at its connection when it has
# something to send never does; one that does needs no more than a round trip.
FAREWELL_SECONDS = 0.5
_BACKLOG = 2048
# Containers made and not freed before a collection. Requests free theirs at once, so this is reached by what is kept.
_GC_THRESHOLD = 50_000
# How long a thread that judges manifests keeps the interpreter when admission wants it. At Python's own 5 ms every step
# of every admission call waits that long: 190 calls a second were left of 7,300 while /check was busy.
_SWITCH_SECONDS = 0.0001


def run(state: ServerState, host: str, port: int, ca: Path | None) -> None:
    """Serve until SIGTERM or SIGINT, following the state's cluster where it has one; answers in flight are finished.
    `ca` is named to whoever reads the first line.

    Raises `InputError` where the address cannot be listened on.
    """
    configure()
    if state.certificate is None:
        raise ValueError("a server needs a certificate")
    for reason in state.degraded():
        log.warning("degraded", reason=reason)
    listener = _listen(host, port)
    _tame_the_garbage_collector()
    sys.setswitchinterval(_SWITCH_SECONDS)
    server = _Server(_config(state, state.certificate), listener, ca, state.cluster, state.metrics)
    with tracing.started(state.settings.tracing, "rollcall"):
        server.run(sockets=[listener])


def _tame_the_garbage_collector() -> None:
    """What is loaded stays for the life of the process, and a request leaves no cycles behind; but each one makes some
    hundred containers, so at Python's own threshold every request or two would pay for a collection.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise InputError("", f"cannot listen on {host} port {port}: {why}") from None


def _config(state: ServerState, pair: Pair) -> uvicorn.Config:
    def context(_: uvicorn.Config, __: object) -> ssl.SSLContext:
        return server_context(pair)

    return uvicorn.Config(
        create_app(state),
        ssl_context_factory=context,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        lifespan="off",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        log_config=None,
        ws="none",
    )


class _Server(uvicorn.Server):
    """uvicorn, saying where it listens once it does, and not waiting for clients that do not hang up."""

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        ca: Path | None,
        cluster: LiveFacts | None,
        metrics: Metrics,
    ) -> None:
        super().__init__(config)
        self._metrics = metrics
        self._looking: asyncio.Task[None] | None = None
        self._cluster = cluster
        self._following: asyncio.Task[None] | None = None
        self._listener = listener
        self._ca = ca
        self._leaving: set[object] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._looking = asyncio.create_task(self._metrics.run())
        if self._cluster is not None:
            self._following = asyncio.create_task(self._cluster.run())
        await super().startup(sockets)
        host, port = self._listener.getsockname()[:2]
        # The certificate is for the name, and it is what a person would type.
        local = host in {"127.0.0.1", "::1", "0.0.0.0", "::"}  # noqa: S104 - compared, not bound
        shown = "localhost" if local else f"[{host}]" if ":" in host else host
        log.info(
            "serving",
            url=f"https://{shown}:{port}",
            ca=None if self._ca is None else str(self._ca),
            version=__version__,
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info("stopping")
        self._hang_up()
        await super().shutdown(sockets)
        for task in (self._looking, self._following):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    def _hang_up(self) -> None:
        """Cut the connections that have been closing since the last call: all that was to be said to them is sent."""
        closing = {
            found
            for found in self.server_state.connections
            if found.transport.is_closing() and not found.transport.get_write_buffer_size()
        }
        for connection in closing:
            if connection in self._leaving:
                connection.transport.abort()
        self._leaving = set(closing)
        asyncio.get_running_loop().call_later(FAREWELL_SECONDS, self._hang_up)

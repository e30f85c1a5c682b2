"""The end of a server: told by a signal, it goes on answering until nobody sends it anything any more.

Whoever balances learns from /readyz, and from Kubernetes, that this replica goes; until it has, and its connections are
used up, turning anybody away would lose a call. A second signal ends the waiting.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

from webhook.server.listener import FINISH_SECONDS, Listener
from webhook.server.state import ServerState
from webhook.telemetry.logs import log


class Signals:
    """SIGTERM and SIGINT, from now on: the first asks for the end, each further one for haste."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.hurried = asyncio.Event()
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self._tell)

    def _tell(self) -> None:
        (self.hurried if self.told.is_set() else self.told).set()


async def drain(
    state: ServerState, signals: Signals, serving: Sequence[Listener], health: Listener | None, seconds: float
) -> None:
    """Answer for `seconds` more and say with each answer that it is the connection's last; then close the ports, the
    health port after all the others.
    """
    log.info("stopping", drainSeconds=seconds)
    state.stopping = True
    state.metrics.life.draining.set(1)
    listeners = (*serving, *([] if health is None else [health]))
    for listener in listeners:
        listener.connections.end()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await signals.hurried.wait()
    # Who was in haste during the delay may be so again.
    signals.hurried.clear()
    hurrying = asyncio.create_task(_hurry(signals, listeners))
    begun = monotonic()
    try:
        await asyncio.gather(*(listener.close() for listener in serving))
        if health is not None:
            # Both together may take no longer than one.
            await health.close(max(1, FINISH_SECONDS - round(monotonic() - begun)))
    finally:
        hurrying.cancel()


async def _hurry(signals: Signals, listeners: Sequence[Listener]) -> None:
    await signals.hurried.wait()
    for listener in listeners:
        listener.hurry()

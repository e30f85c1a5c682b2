"""The end of a server: after a signal, it continues to answer until clients send nothing more.

/readyz and Kubernetes tell load balancers that this replica stops. Until they have noticed, and the connections have
been used up, refusing a request would lose a call. A second signal ends the waiting.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress

from webhook.server.listener import FINISH_SECONDS, Listener
from webhook.server.state import ServerState
from webhook.telemetry.logs import log


class Signals:
    """SIGTERM and SIGINT from now on: the first asks for the stop, each further one asks to hurry."""

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
    """Answer for `seconds` more, and close each connection after its next answer. Then close the ports, the health port
    last.
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

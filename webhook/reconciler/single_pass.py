"""One pass of a reconciler over a cluster: it ends when nothing is left to do. `rollcall reconcile --once` is one."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import islice

from webhook.errors import FactsUnavailable
from webhook.model.projections import POD_GANGS
from webhook.reconciler import run
from webhook.reconciler.run import Reconciler

# How many unread kinds a message lists: usually all have the same cause.
SAID_AT_MOST = 3


async def reconcile_once(reconciler: Reconciler) -> None:
    """Run the reconciler until nothing is left to do. Raises `FactsUnavailable` if something cannot be done."""
    # Kueue asks at any time, so there is no end to wait for. Gangs do not depend on audits.
    reconciler.admission_checks = reconciler.audits = None
    running, begun = asyncio.create_task(reconciler.run()), reconciler.clock.monotonic()
    try:
        while not running.done():
            await asyncio.sleep(0.05)
            if reconciler.idle and reconciler.leads():
                # Give the watches time to deliver the last write.
                await asyncio.sleep(0.2)
                if reconciler.idle:
                    break
            seconds = reconciler.clock.monotonic() - begun
            if seconds >= run.READ_SECONDS and (why := _unreadable(reconciler)):
                raise FactsUnavailable(f"nothing is ready after {run.READ_SECONDS:g} s: {why}")
            if _hopeless(reconciler, seconds):
                said = f"{reconciler.queue.stuck} gangs or topologies could not be reconciled"
                raise FactsUnavailable(f"{said}, the last because {reconciler.workers.why}")
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def _unreadable(reconciler: Reconciler) -> str:
    """Return what keeps the gangs from being read; empty if nothing does. A slow list does not count."""
    if reconciler.following.in_trouble:
        return "; ".join(islice(reconciler.unready(), SAID_AT_MOST))
    if reconciler.following.serves_gangs or any(reconciler.unready()):
        return ""
    return f"the cluster does not serve {POD_GANGS.resource.api}; is Grove installed?"


def _hopeless(reconciler: Reconciler, seconds: float) -> bool:
    """Return whether all queued keys are stuck, and not because something is still being read."""
    queue = reconciler.queue
    if not queue.stuck or queue.stuck != len(queue) or reconciler.workers.busy:
        return False
    # Some gangs depend on kinds that others can be written without.
    return seconds >= run.READ_SECONDS or not (any(reconciler.unready()) or any(reconciler.following.unseen()))

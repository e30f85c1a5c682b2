"""Workers: each takes one key at a time from a queue and reconciles it, and queues it again if that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Generic

from webhook.errors import FactsUnavailable, NotLeading, RequestFailed
from webhook.reconciler.queue import KeyQueue
from webhook.reconciler.turns import K
from webhook.telemetry import spans
from webhook.telemetry.logs import log, outline

# Time for a running write to finish after the process is told to stop.
DRAIN_SECONDS = 5.0


class Workers(Generic[K]):
    """Workers of one queue. `reconcile` returns the seconds after which to check again, None for not before a change.
    `said` names a key in the log. `failed` is called with each error, and `done` after each key.
    """

    def __init__(
        self,
        queue: KeyQueue[K],
        reconcile: Callable[[K], Awaitable[float | None]],
        *,
        said: Callable[[K], dict[str, str]],
        failed: Callable[[Exception], None],
        done: Callable[[], None] = lambda: None,
    ) -> None:
        self._queue = queue
        self._reconcile = reconcile
        self._said = said
        self._failed = failed
        self._done = done
        # How many work on a key now.
        self.busy = 0
        # Why the last unfinished key failed.
        self.why = ""

    async def run(self) -> None:
        """One worker; until cancelled."""
        while True:
            key = await self._queue.take()
            self.busy += 1
            try:
                await self._work_on(key)
            finally:
                self.busy -= 1
                self._queue.done(key)
                self._done()

    async def _work_on(self, key: K) -> None:
        try:
            about = {f"rollcall.{what}": value for what, value in self._said(key).items()}
            with spans.span("reconcile", spans.Side.INTERNAL, about):
                # A shutdown does not interrupt a write: half of a gang's objects could start half of the gang.
                again = await _unbroken(self._reconcile(key))
        except NotLeading:
            # A new leader checks everything.
            self._queue.succeeded(key)
        except (RequestFailed, FactsUnavailable) as error:
            wait = getattr(error, "wait", None) or 0.0
            # The API server asked for a pause, so it applies to all keys.
            self._queue.hold(wait)
            seconds = self._queue.failed(key, wait)
            self.why = str(error)
            self._failed(error)
            log.info("not reconciled", **self._said(key), why=outline(error), againIn=round(seconds, 1))
        except Exception as error:  # noqa: BLE001 - a fault of ours with one gang must not stop the others
            seconds = self._queue.failed(key)
            self.why = f"of an internal error, {type(error).__name__}; see the log"
            self._failed(error)
            log.exception("not reconciled", **self._said(key), againIn=round(seconds, 1))
        else:
            if again is None:
                self._queue.succeeded(key)
            else:
                self._queue.put_off(key, again)
                self.why = "it waits for another system"


async def _unbroken(work: Awaitable[Any]) -> Any:
    """The result of `work`, which runs to its end even if the caller is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(Exception):
            async with asyncio.timeout(DRAIN_SECONDS):
                await task
        raise


async def ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    every = list(tasks)
    for task in every:
        task.cancel()
    await asyncio.gather(*every, return_exceptions=True)

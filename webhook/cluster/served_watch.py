"""A watch that runs while the cluster serves its kind: the CRD may be installed and removed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster.client import Client
from webhook.cluster.watch import Index, Watch
from webhook.model.keys import ObjectKey
from webhook.model.projections import Projection
from webhook.telemetry.logs import log

# The pause after a fault.
RESTART_SECONDS = 1.0


class ServedWatch:
    """The objects of one kind that `selector` selects. `changed` is called with the key of each object that changes."""

    def __init__(
        self,
        client: Client,
        projection: Projection,
        changed: Callable[[ObjectKey], None],
        selector: Mapping[str, str] | None = None,
        filled: Callable[[], None] = lambda: None,
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        # None while the cluster does not serve the kind.
        self.watch: Watch | None = None
        self.resource = projection.resource
        self._client = client
        self._clock = clock
        self._projection = projection
        self._changed = changed
        self._selector = selector
        self._say_filled = filled
        self._task: asyncio.Task[None] | None = None

    @property
    def entries(self) -> Mapping[ObjectKey, Any]:
        """The known value of each object."""
        return {} if self.watch is None else self.watch.index.entries

    @property
    def filled(self) -> bool:
        """Return whether all objects were read once, or the kind is not served."""
        return self.watch is None or self.watch.filled

    def follow(self, *, served: bool) -> None:
        """Start the watch if the kind is served, stop it if not."""
        if served and self._task is None:
            self.watch = Watch(
                self._client, self._projection, self._filled, self._changed, self._selector, clock=self._clock
            )
            self._task = asyncio.create_task(self._run(self.watch))
        elif not served and self._task is not None:
            self._task.cancel()
            self.watch = self._task = None

    async def _run(self, watch: Watch) -> None:
        """Follow until cancelled. A fault of ours with one object must not end the watch: the next list goes on with
        the other objects.
        """
        while True:
            try:
                await watch.run()
            except Exception:  # noqa: BLE001
                log.exception("watch failed", kind=self.resource.api.kind)
                watch.trouble = "an internal error"
                await asyncio.sleep(RESTART_SECONDS)

    async def close(self) -> None:
        """Stop the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _filled(self, _: Index) -> None:
        self._say_filled()

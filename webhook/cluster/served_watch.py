"""A kind of object that is followed while the cluster serves it: its CRD may come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from webhook.cluster.client import Client
from webhook.cluster.watch import Index, Watch
from webhook.model.keys import ObjectKey
from webhook.model.projections import Projection


class ServedWatch:
    """The objects of one kind, those that `selector` selects. `changed` gets the key of each object that changes."""

    def __init__(
        self,
        client: Client,
        projection: Projection,
        changed: Callable[[ObjectKey], None],
        selector: Mapping[str, str] | None = None,
        filled: Callable[[], None] = lambda: None,
    ) -> None:
        # None while the cluster does not serve them.
        self.watch: Watch | None = None
        self.resource = projection.resource
        self._client = client
        self._projection = projection
        self._changed = changed
        self._selector = selector
        self._say_filled = filled
        self._task: asyncio.Task[None] | None = None

    @property
    def entries(self) -> Mapping[ObjectKey, Any]:
        """What is known of each object."""
        return {} if self.watch is None else self.watch.index.entries

    @property
    def filled(self) -> bool:
        """Whether all of them were read once, or the cluster serves none."""
        return self.watch is None or self.watch.filled

    def follow(self, *, served: bool) -> None:
        """Follow them while they are served."""
        if served and self._task is None:
            self.watch = Watch(self._client, self._projection, self._filled, self._changed, self._selector)
            self._task = asyncio.create_task(self.watch.run())
        elif not served and self._task is not None:
            self._task.cancel()
            self.watch = self._task = None

    async def close(self) -> None:
        """Stop following them."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _filled(self, _: Index) -> None:
        self._say_filled()

"""Workloads as they are stored, which rules need whole, kept as small as that can be: as text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from webhook.cluster.client import Client
from webhook.cluster.watch import Index, Watch
from webhook.model.facts import ObjectKey
from webhook.model.owners.workload import TERMINAL
from webhook.model.projections import Projection, Resource, key_of
from webhook.model.reading import Manifest, mapping, sequence
from webhook.reconciler.stores import METADATA

# kubectl's copy of the whole manifest.
_COPY = "kubectl.kubernetes.io/last-applied-configuration"


class StoredWorkloads:
    """The workloads of one kind, those that `selector` names. `changed` is told the key of each that changes."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        changed: Callable[[ObjectKey], None],
        selector: Mapping[str, str] | None = None,
    ) -> None:
        # None while the cluster does not serve them.
        self.watch: Watch | None = None
        self.resource = resource
        self._client = client
        self._changed = changed
        self._selector = selector
        self._task: asyncio.Task[None] | None = None

    def get(self, key: ObjectKey) -> Manifest | None:
        """One of them; None where there is none."""
        found = None if self.watch is None else self.watch.index.entries.get(key)
        read: Manifest | None = None if found is None else orjson.loads(found)
        return read

    def keys(self) -> list[ObjectKey]:
        """All that are known."""
        return [] if self.watch is None else list(self.watch.index.entries)

    def follow(self, *, served: bool) -> None:
        """Follow them while they are served."""
        if served and self._task is None:
            projection = Projection("", self.resource, self._as_text)
            self.watch = Watch(self._client, projection, _filled, self._changed, self._selector)
            self._task = asyncio.create_task(self.watch.run())
        elif not served and self._task is not None:
            self._task.cancel()
            self.watch = self._task = None

    async def close(self) -> None:
        """Follow them no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _as_text(self, raw: Manifest) -> tuple[ObjectKey, bytes]:
        api, metadata = self.resource.api, mapping(raw.get("metadata"))
        kept: dict[str, Any] = {field: metadata[field] for field in METADATA if field in metadata}
        if (annotations := mapping(metadata.get("annotations"))).get(_COPY) is not None:
            kept["annotations"] = {key: value for key, value in annotations.items() if key != _COPY}
        found = {
            "apiVersion": f"{api.group}/{api.version}",
            "kind": api.kind,
            "metadata": kept,
            "spec": raw.get("spec"),
        }
        # Of a status only that it is the last one: whatever else it says decides nothing, and changes all the time.
        if ended := [one for one in map(mapping, _conditions(raw)) if one.get("type") in TERMINAL]:
            found["status"] = {"conditions": [{"type": one["type"], "status": one.get("status")} for one in ended]}
        return key_of(raw), orjson.dumps(found)


def _conditions(raw: Manifest) -> Any:
    return sequence(mapping(raw.get("status")).get("conditions"))


def _filled(_: Index) -> None:
    """What is known of them is asked for when a gang is judged."""

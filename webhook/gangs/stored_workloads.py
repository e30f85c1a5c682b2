"""Whole workloads, because rules read all of their spec. They are stored packed to save memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster.client import Client
from webhook.cluster.served_watch import ServedWatch
from webhook.gangs.stores import METADATA
from webhook.model import grove
from webhook.model.bounds import STORED_BYTES, Packed, weight
from webhook.model.fair_memory import FairMemory
from webhook.model.keys import ObjectKey
from webhook.model.projections import Projection, Resource, key_of
from webhook.model.reading import Manifest, mapping, sequence
from webhook.model.workloads.workload import TERMINAL

# The JSON of the workloads that are kept unpacked, which is that of four of the largest that an API server stores, and
# how many they may be. Of both a namespace has its share.
LATEST_BYTES, LATEST = 6 * 1024 * 1024, 32
V = TypeVar("V")
# kubectl's copy of the whole manifest.
_COPY = "kubectl.kubernetes.io/last-applied-configuration"
_CONDITIONS = TERMINAL | {grove.MIGRATING}


class StoredWorkloads(ServedWatch):
    """The workloads of one kind that match `selector`. `changed` gets the key of each that changes; `filled` is called
    when all were read once.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        changed: Callable[[ObjectKey], None],
        selector: Mapping[str, str] | None = None,
        filled: Callable[[], None] = lambda: None,
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        projection = Projection("", resource, self._packed, most=STORED_BYTES, own_key=True)
        super().__init__(client, projection, changed, selector, filled, clock=clock)
        self._latest: FairMemory[ObjectKey, tuple[Packed, Any]] = FairMemory(LATEST_BYTES)
        # Workloads that the watch does not select any more, and that are still judged.
        self._unrecorded: dict[ObjectKey, Packed] = {}

    def get(self, key: ObjectKey) -> Manifest | None:
        """One workload; None if it does not exist."""
        kept = self._kept(key)
        return None if kept is None else Packed.manifest(kept)

    def latest(self, key: ObjectKey, make: Callable[[Manifest], V]) -> V | None:
        """What `make` makes of one workload; None if it does not exist. Of the workloads that were asked for last it is
        made once: one may have thousands of gangs, which are judged one after the other.
        """
        kept = self._kept(key)
        if kept is None:
            return None
        if (remembered := self._latest.get(key)) is not None and remembered[0] is kept:
            return remembered[1]  # type: ignore[no-any-return]
        made = make(Packed.manifest(kept))
        self._latest.put(key[0], key, (kept, made), max(kept.size(), LATEST_BYTES // LATEST))
        return made

    def put_unrecorded(self, raw: Manifest) -> bool:
        """Keep a workload that the watch does not select. Return whether that changed anything. Raises `Malformed`."""
        key, packed = self._packed(raw)
        if packed == self._unrecorded.get(key) or weight(packed, STORED_BYTES) > STORED_BYTES:
            return False
        self._unrecorded[key] = packed
        return True

    def drop_unrecorded(self, key: ObjectKey) -> None:
        """Forget a workload that the watch does not select."""
        self._unrecorded.pop(key, None)

    def _kept(self, key: ObjectKey) -> Packed | None:
        kept: Packed | None = self.entries.get(key)
        return self._unrecorded.get(key) if kept is None else kept

    def _packed(self, raw: Manifest) -> tuple[ObjectKey, Packed]:
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
        # Only these conditions of the status are kept, and that there is one: a workload without it was not processed
        # yet. The rest does not affect decisions and changes all the time.
        if mapping(raw.get("status")):
            told = [one for one in map(mapping, _conditions(raw)) if one.get("type") in _CONDITIONS]
            found["status"] = {"conditions": [{"type": one["type"], "status": one.get("status")} for one in told]}
        return key_of(raw), Packed.of(found)


def _conditions(raw: Manifest) -> Any:
    return sequence(mapping(raw.get("status")).get("conditions"))

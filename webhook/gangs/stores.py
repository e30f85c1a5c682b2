"""The PodGangs and the gang objects of a cluster, as they are: a watch for each kind, and who owns what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from webhook.cluster.client import Client
from webhook.cluster.watch import Index, Watch
from webhook.errors import FactsUnavailable
from webhook.gangs.differences import is_ours
from webhook.gangs.grouping import Grouping
from webhook.model.bounds import (
    POD_GANG_BYTES,
    STORED_BYTES,
    Packed,
    fits,
    labels_kept,
    stored,
    unpacked,
    weight,
)
from webhook.model.keys import Api, ObjectKey
from webhook.model.projections import POD_GANGS, Projection, Resource, key_of
from webhook.model.reading import Manifest, mapping, sequence
from webhook.model.record import OWN_LABELS
from webhook.model.workloads.podgang import controller_in

# What of an object decides anything. Status is not among it, nor are the versions that it moves.
METADATA = (
    "name",
    "namespace",
    "uid",
    "labels",
    "annotations",
    "ownerReferences",
    "creationTimestamp",
    "deletionTimestamp",
)


# Whom an object concerns, None for nobody: something hashable.
Whose = Callable[[Manifest], Any]
Changed = Callable[[ObjectKey, set[Any]], None]


class Store:
    """The objects of one kind. `changed` is told the key of each that changes, in what decides anything, and whom that
    concerns: what `whose` says of it, and said before.
    """

    def __init__(self, client: Client, resource: Resource, changed: Changed, whose: Whose) -> None:
        self.resource = resource
        # By the uid of the controller, and whom they concern: one workload may have thousands of gangs.
        self._of: Grouping[ObjectKey, tuple[str, Any]] = Grouping()
        self._concerned: dict[ObjectKey, Any] = {}
        self._changed = changed
        self._whose = whose
        # Of a PodGang whose members are not known no gang can be made: it is kept whole, or not at all.
        self._most = POD_GANG_BYTES if resource == POD_GANGS.resource else STORED_BYTES
        projection = Projection("", resource, self._read, most=self._most)
        self._watch = Watch(client, projection, self._filled, self._noticed)
        self._first = asyncio.Event()

    @property
    def objects(self) -> Mapping[ObjectKey, Manifest]:
        """By namespace and name."""
        return _Unpacked(self._watch.index.entries)

    @property
    def filled(self) -> bool:
        """Whether all of them were read once: before that, one that is missing may be there."""
        return self._watch.filled

    @property
    def watch(self) -> Watch:
        """What keeps them in step."""
        return self._watch

    def owned_by(self, uid: str, whose: Any) -> list[Manifest]:
        """The objects that are ours, controlled by that uid and concern `whose`, but for those on their way out."""
        found = (self.objects[key] for key in sorted(self._of.members((uid, whose))))
        return [live for live in found if is_ours(live, uid) and live["metadata"].get("deletionTimestamp") is None]

    def concerned(self) -> set[Any]:
        """Whom any of its objects concerns."""
        return set(self._concerned.values())

    async def run(self) -> None:
        """Follow, until cancelled."""
        await self._watch.run()

    def put(self, raw: Manifest) -> None:
        """Take an answer to a write, which the watch will bring as well, and mostly later."""
        self._watch.put(raw)

    def _read(self, raw: Manifest) -> tuple[ObjectKey, Manifest | Packed]:
        metadata = mapping(raw.get("metadata"))
        api = self.resource.api
        found = {
            "apiVersion": f"{api.group}/{api.version}",
            "kind": api.kind,
            "metadata": {field: metadata[field] for field in METADATA if field in metadata},
            "spec": raw.get("spec"),
        }
        kept = stored(found)
        whole = self.resource == POD_GANGS.resource or weight(kept, self._most) <= self._most
        return key_of(raw), kept if whole else stored(_outlined(found))

    def _filled(self, _: Index) -> None:
        self._first.set()

    def _noticed(self, key: ObjectKey) -> None:
        concerned = set()
        if (before := self._concerned.pop(key, None)) is not None:
            concerned.add(before)
        found = self.objects.get(key)
        controller = None if found is None else controller_in(found["metadata"])
        whose = None if found is None else self._whose(found)
        if whose is not None:
            self._concerned[key] = whose
            concerned.add(whose)
        self._of.move(key, None if controller is None else (controller.uid or "", whose))
        self._changed(key, concerned)


class _Unpacked(Mapping[ObjectKey, Manifest]):
    """Objects as they were read, of which large ones are kept packed."""

    def __init__(self, kept: Mapping[ObjectKey, Manifest | Packed]) -> None:
        self._kept = kept

    def __getitem__(self, key: ObjectKey) -> Manifest:
        return unpacked(self._kept[key])

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)


def _outlined(found: Manifest) -> Manifest:
    """Of an object that is larger than is kept: whose it is, so that it stays in the way of nothing but its own name,
    and the short texts of its spec, by one of which it may name the group above it.
    """
    metadata, spec = found["metadata"], mapping(found["spec"])
    labels, _ = labels_kept(mapping(metadata.get("labels")), first=OWN_LABELS)
    owners = [owner for owner in sequence(metadata.get("ownerReferences")) if mapping(owner).get("controller") is True]
    kept = {field: value for field, value in metadata.items() if field not in {"annotations", "labels"}}
    texts = {field: value for field, value in spec.items() if isinstance(value, str) and fits((field, value))}
    return {**found, "metadata": {**kept, "labels": labels, "ownerReferences": owners}, "spec": texts}


class Stores:
    """A store for each of the kinds that are wanted and served."""

    def __init__(self, client: Client, changed: Callable[[Api, ObjectKey, set[Any]], None], whose: Whose) -> None:
        self.by_kind: dict[Api, Store] = {}
        self._client = client
        self._changed = changed
        self._whose = whose
        self._tasks: dict[Api, asyncio.Task[None]] = {}

    def follow(self, resources: Iterable[Resource]) -> None:
        """Follow these kinds, and no others."""
        wanted = {resource.api: resource for resource in resources}
        for api in self._tasks.keys() - wanted.keys():
            self._tasks.pop(api).cancel()
            del self.by_kind[api]
        for api, resource in wanted.items():
            if api not in self._tasks:
                store = self.by_kind[api] = Store(self._client, resource, self._of(api), self._whose)
                self._tasks[api] = asyncio.create_task(store.run())

    def of(self, manifest: Manifest) -> Store:
        """The store for the kind of an object. Raises `FactsUnavailable` where it is not served, or not read yet."""
        group, _, version = str(manifest["apiVersion"]).rpartition("/")
        api = Api(group, version, str(manifest["kind"]))
        store = self.by_kind.get(api)
        if store is None:
            raise FactsUnavailable(f"the cluster does not serve {api}")
        if not store.filled:
            raise FactsUnavailable(f"the {api.kind} objects are not read yet")
        return store

    def watches(self) -> Iterator[Watch]:
        """What keeps them in step."""
        return (store.watch for store in self.by_kind.values())

    def owned_by(self, uid: str, whose: Any) -> list[Manifest]:
        """The objects of every kind that `Store.owned_by` finds."""
        return [live for store in self.by_kind.values() for live in store.owned_by(uid, whose)]

    def unready(self) -> Iterator[str]:
        """What was not read yet."""
        for api, store in self.by_kind.items():
            if not store.filled:
                why = f": {store.watch.trouble}" if store.watch.trouble else ""
                yield f"cluster: the {api} objects are not read yet{why}"

    async def close(self) -> None:
        """Follow nothing any more."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _of(self, api: Api) -> Changed:
        return lambda key, owners: self._changed(api, key, owners)

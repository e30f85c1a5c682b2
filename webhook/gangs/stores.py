"""The stores of PodGangs, gang objects and whole workloads of a cluster: one watch per kind, and the owner of each
object.

Workloads are kept whole, because rules read all of their spec, and packed to save memory.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.watch import ServedWatch, Watch, unread, version_number
from webhook.errors import FactsUnavailable
from webhook.gangs.key import Grouping
from webhook.gangs.object_plan import MemberGangs, owner_of_ours
from webhook.model import bounds, grove
from webhook.model.gang_objects import (
    STARTED,
    LivingGang,
    is_restored,
    living_gang,
    not_placed,
    raised_at,
    says_started,
)
from webhook.model.grove import LABEL_PART_OF
from webhook.model.keys import Api, ObjectKey
from webhook.model.known_objects import PodGangFacts, PodGangIndex
from webhook.model.projections import POD_GANGS, Projection, Resource, key_of
from webhook.model.reading import Malformed, Manifest, mapping, sequence, text
from webhook.model.workload_record import ROLLCALL_LABELS
from webhook.workloads.opted_in_workload import TERMINAL

# The metadata that affects decisions. Status and resourceVersion do not.
METADATA = (
    "name",
    "namespace",
    "uid",
    "labels",
    "annotations",
    "ownerReferences",
    "creationTimestamp",
    "deletionTimestamp",
    "finalizers",
)


# Returns the gang or group (hashable) that an object concerns, or None.
Whose = Callable[[Manifest], Any]
Changed = Callable[[ObjectKey, set[Any]], None]
V = TypeVar("V")
# The objects of a gang, which come together, have one owner.
_shared = bounds.latest_equal(1024)


class Store:
    """The objects of one kind.

    `changed` gets the key of each object with a relevant change, and what it concerns: the results of `whose` before
    and after. `filled` is called when all objects were read once.
    """

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        client: Client,
        resource: Resource,
        changed: Changed,
        whose: Whose,
        part_of: Whose | None = None,
        filled: Callable[[], None] = lambda: None,
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`part_of` is as `whose`, and returns what an object is a part of where that may be something else."""
        self.resource = resource
        # Objects by what they concern: one workload may have thousands of gangs.
        self._concerned: Grouping[ObjectKey, Any] = Grouping()
        # Those that are a part of something else, by that.
        self._elsewhere: Grouping[ObjectKey, Any] = Grouping()
        # Those of them that were lost and restored. Asked for each event of a pod, so no object is unpacked then.
        self._restored: Grouping[ObjectKey, Any] = Grouping()
        # Those that say that pods of their gang were on nodes. No gang has to change for that.
        self._started: set[ObjectKey] = set()
        # Why groups were not placed, by a condition of their own.
        self._not_placed: dict[ObjectKey, Manifest] = {}
        # Those with a minimum that this process raised: the status then.
        self._at_raise: dict[ObjectKey, _Status] = {}
        # The latest status of each object whose minimum was ever raised: the watch may be ahead of the answer to a
        # write.
        self._latest: dict[ObjectKey, _Status] = {}
        # Those whose status has changed since this process raised them.
        self._seen: set[ObjectKey] = set()
        # The controller of each object that Rollcall manages, by uid. Anyone may write objects that name a gang, so
        # no others are unpacked for it.
        self._owners: dict[ObjectKey, str] = {}
        # The PodGangs by their PodCliqueSet.
        self._of_set: Grouping[ObjectKey, ObjectKey] = Grouping()
        # The gangs that the objects say they are for, by their members.
        self.gangs = MemberGangs(resource.api)
        self._changed = changed
        self._whose = whose
        self._part_of = part_of or whose
        # A PodGang without all its members is useless, so a PodGang is kept whole or not at all.
        self._most = bounds.POD_GANG_BYTES if resource == POD_GANGS.resource else bounds.STORED_BYTES
        projection = Projection("", resource, self._read, most=self._most, keyed_by_object=True)
        self.watch = Watch(client, projection, lambda _: filled(), self._noticed, clock=clock)

    @property
    def objects(self) -> Mapping[ObjectKey, Manifest]:
        """The objects by namespace and name."""
        return _Unpacked(self.watch.index.entries)

    @property
    def filled(self) -> bool:
        """Whether all objects were read once. Before that, a missing object may exist."""
        return self.watch.filled

    def owned_by(self, owners: Container[str], whole: Any) -> list[Manifest]:
        """Returns our objects in `whole` that one of these uids controls, without those being deleted."""
        here = (key for key in self._concerned.members(whole) if self._elsewhere.group(key) is None)
        every = (*here, *self._elsewhere.members(whole))
        return self._living(key for key in every if self._owners.get(key) in owners)

    def concerning(self, whose: Any) -> list[Manifest]:
        """Returns our objects that concern `whose` and that anything controls, without those being deleted."""
        return self._living(key for key in self._concerned.members(whose) if key in self._owners)

    def owners(self, whose: Any) -> set[str]:
        """Returns the uids of what controls our objects that concern `whose`."""
        return {owner for key in self._concerned.members(whose) if (owner := self._owners.get(key)) is not None}

    def concerns(self, whose: Any) -> bool:
        """Returns whether any object concerns `whose`, among them those being deleted."""
        return bool(self._concerned.members(whose))

    def gangs_of_set(self, key: ObjectKey) -> Collection[ObjectKey]:
        """Returns the PodGangs of a PodCliqueSet, among them some that cannot be read."""
        return self._of_set.members(key)

    def has_restored(self, whose: Any) -> bool:
        """Returns whether an object that concerns `whose` was lost and restored."""
        return bool(self._restored.members(whose))

    def whose(self, key: ObjectKey) -> Any:
        """Returns what an object concerns now; None if it does not exist or concerns nothing."""
        return self._concerned.group(key)

    def concerned(self) -> list[Any]:
        """Returns everything that the objects of this store concern."""
        return list(self._concerned.groups())

    def _living(self, keys: Iterable[ObjectKey]) -> list[Manifest]:
        objects = ((key, self.objects[key]) for key in sorted(keys))
        return [
            self._add_status(key, live) for key, live in objects if live["metadata"].get("deletionTimestamp") is None
        ]

    def _add_status(self, key: ObjectKey, live: Manifest) -> Manifest:
        if key in self._started:
            return {**live, "status": STARTED}
        condition = self._not_placed.get(key)
        return live if condition is None else {**live, "status": {"conditions": [condition]}}

    async def run(self) -> None:
        """Follows the kind until cancelled."""
        await self.watch.run()

    def put(self, raw: Manifest, *, raised: bool = False) -> None:
        """Stores the answer to a write before the watch delivers it. `raised`: the write raised a minimum."""
        if raised:
            key, status = key_of(raw), _status(raw)
            self._seen.discard(key)
            _replace(self._at_raise, key, status)
            self._compare(key)
        self.watch.put(raw)

    def has_new_status(self, key: ObjectKey) -> bool:
        """Returns whether the status of an object has changed since this process raised its minimum. Never where the
        versions of objects are no numbers: a list may return an object as it was before the raise.
        """
        return key in self._seen

    def _compare(self, key: ObjectKey) -> None:
        """Compares the latest status of an object with that at the raise. Its gang is reconciled when they differ."""
        before, latest = self._at_raise.get(key), self._latest.get(key)
        if key in self._seen or before is None or latest is None:
            return
        if latest.version > before.version and latest.digest != before.digest:
            self._seen.add(key)
            whose = self._concerned.group(key)
            self._changed(key, set() if whose is None else {whose})

    def _read(self, raw: Manifest) -> tuple[ObjectKey, bounds.Packed]:
        metadata = mapping(raw.get("metadata"))
        api = self.resource.api
        manifest = {
            "apiVersion": f"{api.group}/{api.version}",
            "kind": api.kind,
            "metadata": {field: metadata[field] for field in METADATA if field in metadata},
            "spec": raw.get("spec"),
        }
        key = key_of(raw)
        _replace(self._latest, key, _status(raw) if _read_or_none(raised_at, raw) is not None else None)
        self._compare(key)
        kept = bounds.Packed.pack(manifest)
        if _read_or_none(says_started, raw):
            self._started.add(key)
        else:
            self._started.discard(key)
        if (condition := _read_or_none(not_placed, raw)) is not None:
            self._not_placed[key] = condition
        else:
            self._not_placed.pop(key, None)
        whole = self.resource == POD_GANGS.resource or bounds.weight(kept, self._most) <= self._most
        return key, kept if whole else bounds.Packed.pack(_outlined(manifest))

    def _noticed(self, key: ObjectKey) -> None:
        before, live = self._concerned.group(key), self.objects.get(key)
        whose = None if live is None else self._whose(live)
        self._concerned.move(key, whose)
        self._restored.move(key, whose if is_restored(live) else None)
        owner = None if live is None else owner_of_ours(live)
        if owner is None:
            self._owners.pop(key, None)
        else:
            self._owners[key] = _shared(owner)
        part = None if live is None else self._part_of(live)
        self._elsewhere.move(key, None if part == whose else part)
        if self.resource == POD_GANGS.resource:
            self._of_set.move(key, None if live is None else _set_of(key[0], live))
        self.gangs.put(key, None if live is None else living_gang(live))
        if live is None:
            self._started.discard(key)
            self._not_placed.pop(key, None)
            self._at_raise.pop(key, None)
            self._latest.pop(key, None)
            self._seen.discard(key)
        self._changed(key, {concern for concern in (before, whose) if concern is not None})


class _Unpacked(Mapping[ObjectKey, Manifest]):
    """Objects by key, which are stored packed: each access makes another copy."""

    def __init__(self, kept: Mapping[ObjectKey, bounds.Packed]) -> None:
        self._kept = kept

    def __getitem__(self, key: ObjectKey) -> Manifest:
        return self._kept[key].manifest()

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)


def _set_of(namespace: str, podgang: Manifest) -> ObjectKey | None:
    """Returns the namespace and name of the PodCliqueSet of a PodGang, None if it names none that can be read."""
    try:
        workload = text(mapping(podgang["metadata"].get("labels")).get(LABEL_PART_OF))
    except Malformed:
        return None
    return None if workload is None else (namespace, workload)


class _Status(NamedTuple):
    """The status of an object in one of its versions."""

    version: int
    digest: bytes


def _status(raw: Manifest) -> _Status | None:
    """Returns the status of an object; None if its version is no number."""
    version = version_number(raw)
    if version is None:
        return None
    stored = json.dumps(raw.get("status"), sort_keys=True)
    return _Status(version, sha256(stored.encode("utf-8", "surrogatepass")).digest())


def _replace(statuses: dict[ObjectKey, _Status], key: ObjectKey, status: _Status | None) -> None:
    if status is None:
        statuses.pop(key, None)
    else:
        statuses[key] = status


def _read_or_none(read: Callable[[Manifest], V], raw: Manifest) -> V | None:
    """Returns what `read` finds; None if that is malformed: schedulers write the status, each its own."""
    try:
        return read(raw)
    except Malformed:
        return None


def _outlined(manifest: Manifest) -> Manifest:
    """Returns what is kept of an object that is too large: its owner and labels, and the short strings of its spec.

    So it blocks only its own name. One of the strings may name the group above it.
    """
    metadata, spec = manifest["metadata"], mapping(manifest["spec"])
    labels, _ = bounds.labels_kept(mapping(metadata.get("labels")), first=ROLLCALL_LABELS)
    owners = [owner for owner in sequence(metadata.get("ownerReferences")) if mapping(owner).get("controller") is True]
    kept = {field: value for field, value in metadata.items() if field not in {"annotations", "labels"}}
    texts = {field: value for field, value in spec.items() if isinstance(value, str) and bounds.fits((field, value))}
    return {**manifest, "metadata": {**kept, "labels": labels, "ownerReferences": owners}, "spec": texts}


class Stores:
    """One store for each kind that is wanted and served."""

    def __init__(
        self,
        client: Client,
        changed: Callable[[Api, ObjectKey, set[Any]], None],
        whose: Whose,
        part_of: Whose | None = None,
        filled: Callable[[], None] = lambda: None,
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`filled` is called each time all objects of a kind were read once. The other arguments as for `Store`."""
        self.by_kind: dict[Api, Store] = {}
        self._client = client
        self._changed = changed
        self._whose = whose
        self._part_of = part_of
        self._filled = filled
        self._clock = clock
        self._tasks: dict[Api, asyncio.Task[None]] = {}

    def follow(self, resources: Iterable[Resource]) -> None:
        """Follows exactly these kinds."""
        by_api = {resource.api: resource for resource in resources}
        for api in self._tasks.keys() - by_api.keys():
            self._tasks.pop(api).cancel()
            del self.by_kind[api]
        for api, resource in by_api.items():
            if api not in self._tasks:
                store = self.by_kind[api] = Store(
                    self._client,
                    resource,
                    partial(self._changed, api),
                    self._whose,
                    self._part_of,
                    self._filled,
                    clock=self._clock,
                )
                self._tasks[api] = asyncio.create_task(store.run())

    def store_for(self, manifest: Manifest) -> Store:
        """Returns the store for an object's kind. Raises `FactsUnavailable` if it is not served, or not read yet."""
        group, _, version = str(manifest["apiVersion"]).rpartition("/")
        api = Api(group, version, str(manifest["kind"]))
        store = self.by_kind.get(api)
        if store is None:
            raise FactsUnavailable(f"the cluster does not serve {api}")
        if not store.filled:
            raise FactsUnavailable(f"the {api.kind} objects are not read yet")
        return store

    def watches(self) -> Iterator[Watch]:
        return (store.watch for store in self.by_kind.values())

    def owned_by(self, owners: Container[str], whole: Any) -> list[Manifest]:
        """Returns the results of `Store.owned_by` for every kind."""
        return [live for store in self.by_kind.values() for live in store.owned_by(owners, whole)]

    def owners(self, whose: Any) -> set[str]:
        """Returns the results of `Store.owners` for every kind."""
        return {owner for store in self.by_kind.values() for owner in store.owners(whose)}

    def has_any(self, whose: Any) -> bool:
        """Returns whether a gang object concerns `whose`."""
        return any(store.concerns(whose) for api, store in self.by_kind.items() if api != POD_GANGS.resource.api)

    def holding(self, namespace: str, members: Iterable[str]) -> list[LivingGang]:
        """Returns the gangs with one of these members, once for each object, as `MemberGangs.having`."""
        names = list(members)
        return [gang for store in self.by_kind.values() for gang in store.gangs.having(namespace, names)]

    def unready(self) -> Iterator[str]:
        """Messages about the kinds that are not read yet."""
        return unread((api, store.watch) for api, store in self.by_kind.items())

    async def close(self) -> None:
        """Stops all watches."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class StoredPodGangs(Mapping[ObjectKey, PodGangFacts], PodGangIndex):
    """The PodGangs of a store as rules know them. Each is read when it is asked for, because no rule asks for many."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getitem__(self, key: ObjectKey) -> PodGangFacts:
        try:
            entry = POD_GANGS.read(self.store.objects[key])
        except Malformed:
            entry = None
        if entry is None:
            raise KeyError(key)
        facts: PodGangFacts = entry[1]
        return facts

    def __iter__(self) -> Iterator[ObjectKey]:
        return (key for key in self.store.objects if key in self)

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[call-overload]

    def __len__(self) -> int:
        """How many are stored, with those that cannot be read: rules ask whether there are any."""
        return len(self.store.objects)

    def gangs_of_set(self, key: ObjectKey) -> Iterator[ObjectKey]:
        """Returns the keys of the PodGangs of a PodCliqueSet, each read when the iterator reaches it."""
        return (podgang for podgang in self.store.gangs_of_set(key) if podgang in self)


# The JSON of the workloads that are kept unpacked, which is that of four of the largest that an API server stores, and
# how many they may be. Of both a namespace has its share.
LATEST_BYTES, LATEST = 6 * 1024 * 1024, 32
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
        projection = Projection("", resource, self._packed, most=bounds.STORED_BYTES, keyed_by_object=True)
        super().__init__(client, projection, changed, selector, filled, clock=clock)
        self._latest: bounds.FairMemory[ObjectKey, tuple[bounds.Packed, Any]] = bounds.FairMemory(LATEST_BYTES)
        # Workloads that the watch does not select any more, and that are still judged.
        self._unrecorded: dict[ObjectKey, bounds.Packed] = {}

    def get(self, key: ObjectKey) -> Manifest | None:
        """Returns one workload; None if it does not exist."""
        kept = self._kept(key)
        return None if kept is None else bounds.Packed.manifest(kept)

    def latest(self, key: ObjectKey, make: Callable[[Manifest], V]) -> V | None:
        """Returns what `make` makes of one workload; None if it does not exist. Of the workloads that were asked for
        last it is made once: one may have thousands of gangs, which are judged one after the other.
        """
        kept = self._kept(key)
        if kept is None:
            return None
        if (remembered := self._latest.get(key)) is not None and remembered[0] is kept:
            return remembered[1]  # type: ignore[no-any-return]
        view = make(bounds.Packed.manifest(kept))
        self._latest.put(key[0], key, (kept, view), max(kept.size(), LATEST_BYTES // LATEST))
        return view

    def put_unrecorded(self, raw: Manifest) -> bool:
        """Keeps a workload that the watch does not select. Returns whether anything changed. Raises `Malformed`."""
        key, packed = self._packed(raw)
        if packed == self._unrecorded.get(key) or bounds.weight(packed, bounds.STORED_BYTES) > bounds.STORED_BYTES:
            return False
        self._unrecorded[key] = packed
        return True

    def drop_unrecorded(self, key: ObjectKey) -> None:
        """Forgets a workload that the watch does not select."""
        self._unrecorded.pop(key, None)

    def _kept(self, key: ObjectKey) -> bounds.Packed | None:
        kept: bounds.Packed | None = self.entries.get(key)
        return self._unrecorded.get(key) if kept is None else kept

    def _packed(self, raw: Manifest) -> tuple[ObjectKey, bounds.Packed]:
        api, metadata = self.resource.api, mapping(raw.get("metadata"))
        kept: dict[str, Any] = {field: metadata[field] for field in METADATA if field in metadata}
        if (annotations := mapping(metadata.get("annotations"))).get(_COPY) is not None:
            kept["annotations"] = {key: value for key, value in annotations.items() if key != _COPY}
        version = f"{api.group}/{api.version}"
        manifest = {"apiVersion": version, "kind": api.kind, "metadata": kept, "spec": raw.get("spec")}
        # Only these conditions of the status are kept, and that there is one: a workload without it was not processed
        # yet. The rest does not affect decisions and changes all the time.
        if mapping(raw.get("status")):
            conditions = [
                {"type": condition["type"], "status": condition.get("status")}
                for condition in map(mapping, sequence(mapping(raw.get("status")).get("conditions")))
                if condition.get("type") in _CONDITIONS
            ]
            manifest["status"] = {"conditions": conditions}
        return key_of(raw), bounds.Packed.pack(manifest)

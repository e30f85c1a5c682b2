"""The watch that keeps the objects of one kind up to date: it lists them once, then watches from there. A
`ServedWatch` runs while the cluster serves its kind: the CRD may be installed and removed.

Kubernetes requires three things of a watch client (API concepts, "Efficient detection of changes"). Keep the version
of every event and bookmark. Continue from that version when a watch ends. List again when the server no longer has
that version (410). In addition, everything is listed again once an hour, which repairs undetected errors.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import aclosing, suppress
from typing import Any, Protocol, TypeVar

from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock, LoopTurn, doubled, spread
from webhook.cluster.logs import MAX_WORDS, log, outline
from webhook.cluster.requests import read_event
from webhook.errors import Gone, RequestFailed
from webhook.model.bounds import weight
from webhook.model.keys import ObjectKey
from webhook.model.projections import Projection, key_of
from webhook.model.reading import Malformed, Manifest, mapping, text

# How long the server may keep a watch open. Random, so that the watches of many replicas do not end together.
WATCH_SECONDS = (300, 600)
RELIST_SECONDS = 3600
# The first and the longest wait after a failure: doubled each time, and partly random.
BACKOFF_SECONDS = (0.1, 5.0)
# After this many refusals of a watch in a row, everything is listed again.
PATIENCE = 3
# Events are handled between two admissions, and a tenant may change an object of 1.5 MiB a hundred times a second.
# After an event that took longer than `LONG_EVENT_SECONDS` of CPU, the kind pauses, so that its events take at most
# this share of the time. The API server waits that long.
LONG_EVENT_SECONDS = 0.005
EVENTS_SHARE = 0.2
_TOO_LARGE = "its needed part is larger than the limit for one object"

# A watch that ends earlier than this without an event counts as a failure: otherwise it would be retried forever
# without a pause.
SHORT_SECONDS = 1.0

T = TypeVar("T")


def backoff(failures: int, chance: float) -> float:
    """Returns the seconds to wait after `failures` in a row. `chance` is between 0 and 1."""
    return spread(doubled(BACKOFF_SECONDS, failures), chance)


def rest_after(seconds: float) -> float:
    """Returns the seconds to wait after an event that took `seconds`."""
    return 0.0 if seconds < LONG_EVENT_SECONDS else seconds * (1 / EVENTS_SHARE - 1)


class Replaced(Protocol):
    """Gets what was known of an object that changes or goes, before the index says so."""

    def __call__(self, before: Any, after: Any | None, *, watched: bool) -> None:
        """`after` is None if the object is gone. `watched`: an event said so; else only a later list did."""


class Index:
    """The projections of one kind's objects. Decisions read `entries`, which is updated object by object."""

    def __init__(
        self,
        projection: Projection,
        changed: Callable[[Any], None] | None = None,
        entries: dict[Any, Any] | None = None,
        replaced: Replaced | None = None,
    ) -> None:
        """`changed` is called with the key of each entry that is added, removed or changed. `entries` are those of a
        part that other kinds fill too. `replaced` is called first.
        """
        self.projection = projection
        self._replaced = replaced
        self._changed = changed
        self.entries: dict[Any, Any] = projection.entries() if entries is None else entries
        # Every known object, with its key and value.
        self._objects: MutableMapping[ObjectKey, tuple[Any, Any]] = (
            _OwnKeys(self.entries) if projection.keyed_by_object else {}
        )
        # Two objects may have the same key, as ElasticQuotas of two namespaces. For each key the objects that have it,
        # the latest last.
        self._sources: dict[Any, dict[ObjectKey, None]] = {}
        # Objects that exist but are not kept.
        self.left_out: set[ObjectKey] = set()
        self._warnings = 0

    def put(self, raw: Manifest) -> None:
        """Adds or updates an object."""
        source = key_of(raw)
        before = self._objects.get(source)
        try:
            read = self.projection.read(raw)
            if read is not None and read == before and (read[0] == source or not self.projection.resource.namespaced):
                # Most events are status updates that change nothing that is kept, such as heartbeats of nodes.
                return
            why = None if weight(read, self.projection.most) <= self.projection.most else _TOO_LARGE
        except Exception as error:  # noqa: BLE001 - one object must not keep all others from being known
            # The object was stored under an older schema, or the code has a bug. It counts as missing.
            read, why = None, outline(error)
            self._warn("object cannot be read", source, why, exc_info=not isinstance(error, Malformed))
        else:
            if why is not None:
                self._warn("object not kept", source, why)
        if read is None or why is not None:
            self._forget(source)
            if why is not None:
                self.left_out.add(source)
            return
        self.left_out.discard(source)
        if before is not None and before[0] != read[0]:
            self._forget(source)
        if before is not None and self._replaced is not None:
            self._replaced(before[1], read[1], watched=True)
        key, value = read
        if key == source:
            # One key instead of two equal ones.
            key = source if before is None else before[0]
        self._objects[source] = key, value
        self.entries[key] = value
        if key != source and self.projection.resource.namespaced:
            holders = self._sources.setdefault(key, {})
            holders.pop(source, None)
            holders[source] = None
        if self._changed is not None and before != (key, value):
            self._changed(key)

    def drop(self, raw: Manifest) -> None:
        """Removes an object."""
        self._gone(key_of(raw), watched=True)

    def besides(self, sources: set[ObjectKey]) -> set[ObjectKey]:
        """Returns every object except `sources`."""
        return (self._objects.keys() | self.left_out) - sources

    def remove(self, source: ObjectKey) -> None:
        """Removes an object that a list lacks."""
        self._gone(source, watched=False)

    def clear(self) -> None:
        """Removes every object."""
        for source in self.besides(set()):
            self.remove(source)

    def _gone(self, source: ObjectKey, *, watched: bool) -> None:
        before = self._objects.get(source)
        if before is not None and self._replaced is not None:
            self._replaced(before[1], None, watched=watched)
        self._forget(source)

    def _forget(self, source: ObjectKey) -> None:
        self.left_out.discard(source)
        entry = self._objects.pop(source, None)
        if entry is None:
            return
        key, value = entry
        holders = self._sources.get(key, {})
        holders.pop(source, None)
        if not holders:
            self._sources.pop(key, None)
            del self.entries[key]
        elif len(holders) == 1 or self.entries[key] is value:
            # The entries themselves decide which of the other objects counts, as each is put again.
            del self.entries[key]
            for holder in holders:
                self.entries[key] = self._objects[holder][1]
        if self._changed is not None:
            self._changed(key)

    def _warn(self, event: str, source: ObjectKey, why: str, *, exc_info: bool = False) -> None:
        """Logs the 1st, 2nd, 4th, 8th warning and so on: a tenant may store thousands of objects and change each as
        often.
        """
        self._warnings += 1
        if self._warnings.bit_count() == 1:
            name = "/".join(source)[:MAX_WORDS]
            kind, count = self.projection.resource.api.kind, self._warnings
            log.warning(event, kind=kind, name=name, why=why[:MAX_WORDS], count=count, exc_info=exc_info)


class _OwnKeys(MutableMapping[ObjectKey, tuple[ObjectKey, Any]]):
    """The objects of a projection whose keys are their own: its entries say everything, and nothing is kept twice."""

    def __init__(self, entries: Mapping[Any, Any]) -> None:
        self._entries = entries

    def __getitem__(self, source: ObjectKey) -> tuple[ObjectKey, Any]:
        return source, self._entries[source]

    def __setitem__(self, source: ObjectKey, entry: tuple[ObjectKey, Any]) -> None:
        """Nothing: `Index` writes the entry."""

    def __delitem__(self, source: ObjectKey) -> None:
        """Nothing: `Index` removes the entry."""

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class Watch:
    """The task that keeps an `Index` up to date. It ends only when it is cancelled."""

    def __init__(  # noqa: PLR0913 - what it watches, and whom it tells
        self,
        client: Client,
        projection: Projection,
        filled: Callable[[Index], None],
        changed: Callable[[Any], None] | None = None,
        selector: Mapping[str, str] | None = None,
        namespace: str | None = None,
        *,
        entries: dict[Any, Any] | None = None,
        replaced: Replaced | None = None,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`filled` is called once, after the first complete list; `changed` with the key of each entry that changes.
        `selector` (labelSelector, fieldSelector) and `namespace` limit which objects are watched. `entries` and
        `replaced` as for `Index`.
        """
        self._selector = selector
        self._namespace = namespace
        self.index = Index(projection, changed, entries, replaced)
        self.filled = False
        self._say_filled = filled
        # The last failure, until the next success.
        self.trouble: str | None = None
        self.lists = 0
        self._clock = clock
        # When the server last sent a list, an event or a bookmark.
        self.heard = clock.monotonic()
        self._client = client
        self._resource = projection.resource
        # The version to continue from; None requests a list. And the version of the list that is being read.
        self._version: str | None = None
        self._listing: str | None = None
        # The versions of answers to writes that the watch has not delivered yet.
        self._answered: dict[ObjectKey, int] = {}
        self._failures = 0
        self._listed = 0.0

    def put(self, raw: Manifest) -> None:
        """Stores the answer to a write before the watch delivers it. Ignores the answer if the watch or the list that
        is being read has passed its version: the object may have changed or be gone since, and no event would report
        that again.
        """
        version, current = version_number(raw), _number(self._listing or self._version)
        if version is not None and current is not None:
            if version <= current:
                return
            self._answered[key_of(raw)] = version
        self.index.put(raw)

    def silence(self) -> float:
        """Returns the seconds since the server last sent a list, an event or a bookmark."""
        return self._clock.monotonic() - self.heard

    async def run(self) -> None:
        """Lists and watches until cancelled."""
        while True:
            try:
                if self._version is None or self._clock.monotonic() - self._listed > RELIST_SECONDS:
                    self._version = await self._list()
                await self._watch(self._version)
            except RequestFailed as error:
                await self._pause(error)

    async def _list(self) -> str:
        """Reads all objects page by page, and removes those that no longer exist."""
        seen: set[ObjectKey] = set()
        version: str | None = None
        pages = self._client.pages(self._resource, namespace=self._namespace, selector=self._selector)
        try:
            async with aclosing(pages):
                async for page in pages:
                    version = self._listing = page.version
                    await self._do_each(self.index.put, page.items)
                    seen.update(map(key_of, page.items))
                    # Free the parsed page before the next one arrives.
                    del page
            if version is None:
                raise RequestFailed("the list has no resourceVersion")
            await self._do_each(self.index.remove, self.index.besides(seen))
        finally:
            self._listing = None
        # The list may be older than these answers.
        self._answered.clear()
        self.lists += 1
        self._listed = self.heard = self._clock.monotonic()
        if not self.filled:
            self.filled = True
            self._say_filled(self.index)
        return version

    async def _do_each(self, work: Callable[[T], None], items: Iterable[T]) -> None:
        """Does `work` on each item, and lets other tasks of the process run in between."""
        turn = LoopTurn(self._clock)
        for item in items:
            work(item)
            await turn.pause()

    async def _watch(self, version: str) -> None:
        """Applies the changes after `version` until the server ends the watch or stays silent."""
        seconds = random.randint(*WATCH_SECONDS)  # noqa: S311 - spreading load is no secret
        begun, opened, has_event = self._clock.monotonic(), False, False
        with suppress(TimeoutError):
            async with aclosing(
                self._client.lines(requests.watch(self._resource, version, seconds, self._selector, self._namespace))
            ) as lines:
                async for line in lines:
                    opened = True
                    if line:
                        used = self._clock.processor()
                        self._apply(line)
                        has_event, self._failures = True, 0
                        if rest := rest_after(self._clock.processor() - used):
                            await asyncio.sleep(rest)
                    elif self.trouble is not None:
                        # The watch works again. `_failures` is reset only after an event.
                        self.trouble = None
                        log.info("watch resumed", kind=self._resource.api.kind)
        if not opened:
            raise RequestFailed("the watch got no answer")
        if not has_event and self._clock.monotonic() - begun < SHORT_SECONDS:
            raise RequestFailed("the watch ended at once")
        self._failures = 0

    def _apply(self, line: bytes) -> None:
        kind, raw = read_event(line)
        self.heard = self._clock.monotonic()
        version = _version_of(raw)
        if kind in {"ADDED", "MODIFIED", "DELETED"} and not self._is_known(raw, version):
            (self.index.drop if kind == "DELETED" else self.index.put)(raw)
        self._version = version or self._version

    def _is_known(self, raw: Manifest, version: str | None) -> bool:
        """Returns whether the answer to a write of ours has already said what an event says, or something newer."""
        if not self._answered:
            return False
        source, number = key_of(raw), _number(version)
        answered = self._answered.get(source)
        if answered is None:
            return False
        if number is None or number >= answered:
            del self._answered[source]
        return number is not None and number <= answered

    async def _pause(self, error: RequestFailed) -> None:
        self.trouble = str(error)
        self._failures += 1
        # The version is too old, or from the future, as after a restore of etcd: only a new list helps.
        if isinstance(error, Gone) or (error.code and self._failures % PATIENCE == 0):
            self._version = None
        if self._failures.bit_count() == 1:
            # At 1, 2, 4, 8 and so on: an outage of an hour writes a dozen lines.
            log.info("watch interrupted", kind=self._resource.api.kind, why=self.trouble, failures=self._failures)
        pause = backoff(self._failures, random.random())  # noqa: S311 - as above
        await asyncio.sleep(max(pause, error.wait or 0.0))


def unread(watches: Iterable[tuple[object, Watch | None]]) -> Iterator[str]:
    """Yields a message about each of these watches, given with its kind, that has not read all objects yet."""
    for kind, watch in watches:
        if watch is not None and not watch.filled:
            yield f"cluster: the {kind} objects are not read yet{f': {watch.trouble}' if watch.trouble else ''}"


def version_number(raw: Manifest) -> int | None:
    """Returns the resource version of an object as `_number` reads it. Raises `Malformed`."""
    return _number(_version_of(raw))


def _version_of(raw: Manifest) -> str | None:
    return text(mapping(raw.get("metadata")).get("resourceVersion"))


def _number(version: str | None) -> int | None:
    """Returns the number of a resource version: they increase with each change (Kubernetes API concepts, "Resource
    versions"). None if it is no number.
    """
    return int(version) if version is not None and version.isascii() and version.isdecimal() else None


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
        """Whether all objects were read once, or the kind is not served."""
        return self.watch is None or self.watch.filled

    def follow(self, *, served: bool) -> None:
        """Starts the watch if the kind is served, stops it if not."""
        if served and self._task is None:
            self.watch = Watch(
                self._client, self._projection, self._filled, self._changed, self._selector, clock=self._clock
            )
            self._task = asyncio.create_task(self._run(self.watch))
        elif not served and self._task is not None:
            self._task.cancel()
            self.watch = self._task = None

    async def _run(self, watch: Watch) -> None:
        """Follows until cancelled. A fault of ours with one object must not end the watch: the next list goes on with
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
        """Stops the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _filled(self, _: Index) -> None:
        self._say_filled()

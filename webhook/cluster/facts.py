"""The live ClusterFacts of a server: the served kinds, and a watch for each kind that the enabled schedulers need.

A kind that the cluster does not serve is unknown, and the server does not wait for it. When it appears, it is watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster.client import Client
from webhook.cluster.discovery import Discovery
from webhook.cluster.lookup import Lookup
from webhook.cluster.schemas import Schemas
from webhook.cluster.watch import Index, Watch, backoff, unread
from webhook.config.followed import followed_projections
from webhook.config.settings import Settings
from webhook.errors import RequestFailed
from webhook.model.facts import NOTHING_KNOWN, ClusterFacts
from webhook.model.general import GENERAL
from webhook.model.keys import Api, Needed
from webhook.model.projections import Projection, Resource
from webhook.telemetry.logs import log

# Why the served kinds are unknown at the start, which is no failure.
NOT_ASKED = "not asked yet"
# A "not modified" answer costs almost nothing.
DISCOVERY_SECONDS = 10.0
# The pause before a watch that failed by a bug is restarted.
FAULT_SECONDS = 5.0


def live_facts(
    settings: Settings,
    client: Client,
    changed: Callable[[ClusterFacts], None],
    touched: Callable[[Projection, Any], None] | None = None,
    *,
    objects: bool = True,
    clock: Clock = MACHINE_CLOCK,
) -> LiveFacts:
    """Return the facts that the enabled schedulers need. With `objects`, for admission, also gang objects that other
    programs write; without, for the reconciler, which makes gangs. The other arguments are those of `LiveFacts`.
    """
    judging = settings.with_shadows if objects else (settings,)
    profiles = [profile for one in judging for profile in one.profiles.values()]
    schemas = [wanted.api for profile in profiles for wanted in profile.backend.required_fields]
    projections = followed_projections(settings, objects=objects)
    return LiveFacts(client, projections, changed, schemas, touched, general=(), clock=clock)


class LiveFacts:
    """Facts that are updated from a cluster. `run` updates them; decisions read `facts`.

    The mappings in them change between two decisions and never during one: both run on one event loop.
    """

    def __init__(  # noqa: PLR0913 - what it reads, and whom it tells
        self,
        client: Client,
        projections: Iterable[Projection],
        changed: Callable[[ClusterFacts], None],
        schemas_of: Iterable[Api] = (),
        touched: Callable[[Projection, Any], None] | None = None,
        general: Iterable[Projection] = GENERAL,
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`changed` is called with the facts whenever a part is replaced, `touched` for every entry of a part that
        changes.
        """
        self.facts = NOTHING_KNOWN
        self.projections = (*general, *projections)
        self._client = client
        self._clock = clock
        self._changed = changed
        self._touched = touched
        self._discovery = Discovery(client)
        self._schemas = Schemas(client, schemas_of)
        self._unread_schemas: str | None = None
        # Why the served kinds are unknown or outdated.
        self.trouble: str | None = NOT_ASKED
        # The last answer of discovery, and the kinds that were served at the start and are not read yet. A kind that
        # appears later does not delay readiness.
        self._served: frozenset[Api] = frozenset()
        self._awaited: set[Projection] = set()
        self.lookup = Lookup(client, self.projections, self._discovery, self._schemas)
        self.watches: dict[Projection, Watch] = {}
        self._tasks: dict[Projection, asyncio.Task[None]] = {}
        # The entries of the parts that several projections fill, and the kinds of these that are not read now.
        self._shared: dict[str, dict[Any, Any]] = {}
        self._unread: set[Api] = set()

    async def run(self) -> None:
        """Watch the cluster until cancelled."""
        try:
            await self._follow_discovery()
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._client.close()

    def set_part(self, part: str, entries: Mapping[Any, Any] | None) -> None:
        """Set a part of the facts that another reader of the same cluster has read; None if it is not known."""
        if getattr(self.facts, part) is not entries:
            self._set(**{part: entries})

    async def learn(self, needed: Iterable[Needed], facts: ClusterFacts, seconds: float) -> ClusterFacts:
        """Return `facts` with the `needed` facts, read live. Raises `FactsUnavailable`."""
        return facts.learned(await self.lookup.find(needed, seconds))

    @property
    def resources(self) -> Mapping[Api, Resource]:
        """The resource of each kind that the cluster serves."""
        return self._discovery.resources

    def doubted(self) -> frozenset[str]:
        """Return the parts whose watch fails now: they may be out of date."""
        return frozenset(projection.part for projection, watch in self.watches.items() if watch.trouble is not None)

    def unready(self) -> Iterator[str]:
        """Yield what is not known yet, and why. Yields nothing when every kind that was served at the start
        is known.
        """
        if self.facts.apis is None:
            yield f"cluster: the served kinds are not known: {self.trouble}"
        yield from unread(self.awaited())

    def awaited(self) -> Iterator[tuple[str, Watch]]:
        """Yield the watches of kinds that were served at the start and are not known yet, each with its kind."""
        for projection, watch in self.watches.items():
            if projection in self._awaited:
                yield projection.resource.api.kind, watch

    async def _follow_discovery(self) -> None:
        failures = 0
        while True:
            try:
                self._take(await self._discovery.ask())
                await self._read_schemas()
            except RequestFailed as error:
                failures += 1
                self.trouble = str(error)
                if failures == 1:
                    log.warning("discovery failed", why=self.trouble)
                await asyncio.sleep(max(backoff(failures, 1.0), error.wait or 0.0))
            except Exception:  # noqa: BLE001 - a server that follows nothing any more must not go unnoticed
                self.trouble = "an internal error; see the log"
                log.exception("discovery failed")
                await asyncio.sleep(FAULT_SECONDS)
            else:
                failures, self.trouble = 0, None
                await asyncio.sleep(DISCOVERY_SECONDS)

    def _take(self, answer: frozenset[Api]) -> None:
        """Watch the served kinds, and drop those that are no longer served.

        An API server that has just started answers before it has read its CRDs. So a kind is gone only if two answers
        in a row lack it. API servers of two releases answer by turns during an upgrade. So a kind that is followed
        moves to another version only if two answers in a row have that.
        """
        either, both = answer | self._served, answer & self._served
        self._served = answer
        served = either - self._unconfirmed(either, both)
        gone: dict[str, None] = {}
        first = self.facts.apis is None
        followed = set(_served_once(self.projections, served))
        for projection in self.projections:
            api = projection.resource.api
            if projection in followed:
                if projection not in self._tasks:
                    self._tasks[projection] = asyncio.create_task(self._follow(projection, self._watch(projection)))
                    if first and projection.awaited:
                        self._awaited.add(projection)
            elif projection in self._tasks:
                self._awaited.discard(projection)
                self._tasks.pop(projection).cancel()
                self._drop(self.watches.pop(projection))
                self._unread.discard(api)
                if not projection.shared:
                    gone[projection.part] = None
        if gone or served != self.facts.apis:
            self._set(apis=served, **gone)

    def _unconfirmed(self, either: frozenset[Api], both: frozenset[Api]) -> frozenset[Api]:
        """Return the versions that only one of two answers has, of kinds that are followed in another version."""
        followed = {projection.resource.api for projection in self._tasks} & either
        kinds = {api.group_kind for api in followed}
        confirmed = both | followed | (self.facts.apis or frozenset())
        return frozenset(api for api in either - confirmed if api.group_kind in kinds)

    async def _read_schemas(self) -> None:
        """Read the fields of the served kinds. If that fails, the known fields are kept, and readiness does
        not wait.
        """
        try:
            answer = await self._schemas.ask()
        except RequestFailed as error:
            if str(error) != self._unread_schemas:
                self._unread_schemas = str(error)
                log.warning("schemas not read", why=self._unread_schemas)
            return
        self._unread_schemas = None
        if answer != self.facts.spec_fields:
            self._set(spec_fields=answer)

    def _watch(self, projection: Projection) -> Watch:
        touched = None if self._touched is None else partial(self._touched, projection)
        entries = None
        if projection.shared:
            entries = self._shared.setdefault(projection.part, projection.entries())
            self._unread.add(projection.resource.api)
        watch = self.watches[projection] = Watch(
            self._client,
            projection,
            partial(self._filled, projection),
            touched,
            projection.selector,
            entries=entries,
            clock=self._clock,
        )
        return watch

    def _drop(self, watch: Watch) -> None:
        """Take what a watch has read out of a part that others fill too."""
        if watch.index.projection.shared:
            self._unread.add(watch.index.projection.resource.api)
            watch.index.clear()

    async def _follow(self, projection: Projection, watch: Watch) -> None:
        while True:
            try:
                await watch.run()
            except Exception:  # noqa: BLE001 - whatever it is, the other kinds go on
                # This is a bug, so it is logged as an error. The kind is unknown from now on, rather than out of date.
                log.exception("watch failed", kind=projection.resource.api.kind)
                watch.trouble = "an internal error; see the log"
                self._drop(watch)
                self._set(**({} if projection.shared else {projection.part: None}))
                await asyncio.sleep(FAULT_SECONDS)
                watch = self._watch(projection)

    def _filled(self, projection: Projection, index: Index) -> None:
        self._awaited.discard(projection)
        if projection.shared:
            self._unread.discard(projection.resource.api)
        self._set(**{projection.part: index.entries})

    def _set(self, **parts: Any) -> None:
        self.facts = replace(self.facts, unread_gang_kinds=frozenset(self._unread), **parts)
        self._changed(self.facts)


def _served_once(projections: Iterable[Projection], served: frozenset[Api]) -> Iterator[Projection]:
    """Yield the projections whose kind is served. A kind that is served in several versions has the same objects in
    each of them, so it is read only in the first version of those that fill one part.
    """
    taken: dict[tuple[object, ...], Api] = {}
    for projection in projections:
        api = projection.resource.api
        kind = (projection.part, api.group_kind, projection.label_selector, projection.field_selector)
        # The core group is in no list of groups, but always exists.
        if (api in served or not api.group) and taken.setdefault(kind, api) == api:
            yield projection

"""The live ClusterFacts of a server: the served kinds and their fields, a watch for each kind that the enabled
schedulers need, and live reads of single facts that the caches lack.

A kind that the cluster does not serve is unknown, and the server does not wait for it. When it appears, it is watched.
The fields of served kinds tell an old CRD from a new one with the same version.

Source: aggregated discovery (KEP-3352), apidiscovery.k8s.io/v2, in every Kubernetes version that Rollcall supports;
OpenAPI v3 by group and version (KEP-2896), which every authenticated user may read (system:discovery).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from webhook.cluster import requests, spans
from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.logs import log, outline
from webhook.cluster.watch import Index, Watch, backoff, unread
from webhook.config.settings import Settings, followed_projections
from webhook.errors import FactsUnavailable, NotFound, NotModified, RequestFailed
from webhook.model import grove
from webhook.model.facts import NO_FACTS, ClusterFacts
from webhook.model.gang_objects import PART as GANG_OBJECTS
from webhook.model.keys import SHAPED_WORKLOADS, Api, Needed, ObjectKey
from webhook.model.known_kinds import PODS, kinds_of
from webhook.model.projections import Projection, Resource, labels_of, spec_fields
from webhook.model.reading import Malformed, mapping, sequence
from webhook.mutators.prepare_pod import stamped_scheduler
from webhook.workloads.known_workloads import GENERAL


class Discovery:
    """The kinds that were served at the last request."""

    def __init__(self, client: Client) -> None:
        self.apis: frozenset[Api] | None = None
        # The resource of each kind.
        self.resources: dict[Api, Resource] = {}
        self._client = client
        self._etag: str | None = None

    async def ask(self) -> frozenset[Api]:
        """Returns the kinds that are served now. Raises `RequestFailed`."""
        try:
            answer = await self._client.get(requests.discovery(self._etag))
        except NotModified:
            if self.apis is None:
                raise
            return self.apis
        try:
            self.resources = _kinds(answer.content)
        except Malformed as error:
            raise RequestFailed(f"the answer is not a discovery document: {error}") from None
        self._etag = answer.etag
        self.apis = frozenset(self.resources)
        return self.apis


def _kinds(document: Any) -> dict[Api, Resource]:
    items = mapping(document).get("items")
    if not isinstance(items, list):
        # An APIGroupList from a server or a proxy that does not know the requested format. It has no kinds.
        raise RequestFailed(f"the answer is not a discovery document: it is {document.get('kind')}, without items")
    return {resource.api: resource for group in map(mapping, items) for resource in kinds_of(dict(group))}


_KIND = "x-kubernetes-group-version-kind"


class Schemas:
    """The fields of `spec` of some kinds."""

    def __init__(self, client: Client, apis: Iterable[Api]) -> None:
        self._client = client
        self._apis = tuple(dict.fromkeys(apis))
        # By group and version: the ETag of the last answer. An unchanged answer is not sent again.
        self._etags: dict[tuple[str, str], str | None] = {}
        self.fields: dict[Api, frozenset[str]] = {}

    async def ask(self) -> Mapping[Api, frozenset[str]]:
        """Returns the known fields by kind, without kinds that are not served or have no schema. Raises
        `RequestFailed`; the known fields of unread kinds are kept.
        """
        for place in dict.fromkeys((api.group, api.version) for api in self._apis):
            kinds = [api for api in self._apis if (api.group, api.version) == place]
            try:
                answer = await self._client.get(requests.schemas(*place, etag=self._etags.get(place)))
            except NotModified:
                continue
            except NotFound:
                # Not served, or no longer served.
                read: dict[Api, frozenset[str]] = {}
                self._etags.pop(place, None)
            else:
                try:
                    read = _fields(answer.content, kinds)
                except Malformed as error:
                    raise RequestFailed(f"the schemas of {'/'.join(place)} cannot be read: {error}") from None
                self._etags[place] = answer.etag
            # Set together with the ETag, without an await in between: after a "not modified" answer the fields must be
            # here.
            self.fields = {api: fields for api, fields in self.fields.items() if api not in kinds} | read
        return self.fields


def _fields(document: Any, kinds: Container[Api]) -> dict[Api, frozenset[str]]:
    read = ((api, spec_fields(schema)) for api, schema in kinds_in(document, kinds))
    return {api: fields for api, fields in read if fields is not None}


def kinds_in(document: Any, kinds: Container[Api]) -> Iterator[tuple[Api, Mapping[str, Any]]]:
    """Yields those of `kinds` that an OpenAPI document describes, with their schemas. Raises `Malformed`."""
    schemas = mapping(mapping(mapping(document).get("components")).get("schemas"))
    for schema in schemas.values():
        for entry in sequence(mapping(schema).get(_KIND)):
            kind = mapping(entry)
            api = Api(str(kind.get("group")), str(kind.get("version")), str(kind.get("kind")))
            if api in kinds:
                yield api, mapping(schema)


# A pod's owner must be read within this time. Otherwise the creation of the pod fails, and its controller tries again.
LOOKUP_SECONDS = 2.0
# Objects in one page when a whole kind is read: only a few round trips fit into that time.
WHOLE_PAGE = 500
# Valid names of objects (RFC 1123 subdomain). No cluster has another name, and it must not become part of a path.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
# Parts that are read because they own the object or contain it, not because a field of the object names them.
_ABOVE = frozenset(
    {
        "namespaces",
        "pod_clique_sets",
        "pod_gangs",
        "bound_gangs",
        "jobs",
        "job_sets",
        "leader_worker_sets",
        "train_jobs",
        SHAPED_WORKLOADS,
    }
)
# Valid values of labels.
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class Lookup:
    """Live reads, shared by all calls that need the same fact while it is being read."""

    def __init__(
        self, client: Client, projections: Iterable[Projection], discovery: Discovery, schemas: Schemas
    ) -> None:
        self._client = client
        # One part may be read from any of several versions of a kind.
        self._projections: dict[str, list[Projection]] = {}
        for projection in projections:
            self._projections.setdefault(projection.part, []).append(projection)
        self._discovery = discovery
        self._schemas = schemas
        self._under_way: dict[Needed, asyncio.Task[Any]] = {}
        # The outcomes of lookups, for the metrics.
        self.outcomes = {"found": 0, "absent": 0, "failed": 0}

    async def find(self, needed: Iterable[Needed], seconds: float) -> Mapping[Needed, Any]:
        """Returns what the cluster has, None for an object that does not exist. Raises `FactsUnavailable`, after
        `seconds` at the latest.
        """
        needs = tuple(needed)
        about = {"rollcall.facts": sorted({need.part for need in needs})}
        # The span also covers a read that another call began.
        with spans.span("look up", spans.Side.CLIENT, about):
            tasks = {need: self._task(need) for need in needs}
            await asyncio.wait(tasks.values(), timeout=min(seconds, LOOKUP_SECONDS))
            return {need: self._result(need, task) for need, task in tasks.items()}

    def _task(self, needed: Needed) -> asyncio.Task[Any]:
        task = self._under_way.get(needed)
        if task is None:
            task = self._under_way[needed] = asyncio.create_task(self._limited_read(needed))
            task.add_done_callback(lambda done: self._ended(needed, done))
        return task

    def _ended(self, needed: Needed, task: asyncio.Task[Any]) -> None:
        del self._under_way[needed]
        if not task.cancelled():
            # Read the exception, so that asyncio does not log it as never retrieved.
            task.exception()

    async def _limited_read(self, needed: Needed) -> Any:
        # No call waits longer, and later calls must not join a read that hangs.
        async with asyncio.timeout(LOOKUP_SECONDS):
            return await self._read(needed)

    def _result(self, needed: Needed, task: asyncio.Task[Any]) -> Any:
        why = outlined = "no answer in time"
        if task.done():
            error = task.exception()
            if error is None:
                value = task.result()
                self.outcomes["absent" if value is None else "found"] += 1
                return value
            if not isinstance(error, TimeoutError):
                why, outlined = str(error), outline(error)
        self.outcomes["failed"] += 1
        # The names of quotas, queues and topologies come from fields of the object and are not logged. The name of its
        # owner is not a secret.
        logged = needed if needed.part in _ABOVE else needed._replace(key="")
        raise FactsUnavailable(f"the {needed} could not be read: {why}", f"the {logged} could not be read: {outlined}")

    async def _read(self, needed: Needed) -> Any:
        if needed.part == "apis":
            return await self._discovery.ask()
        if needed.part == "spec_fields":
            return await self._schemas.ask()
        try:
            if needed.part == "bound_gangs":
                return await self._bound(*(needed.key or ())[-3:])
            projection = self._served(self._candidates(needed))
            return await (self._whole(projection) if needed.key is None else self._object(projection, needed.key))
        except NotFound:
            return None
        except Malformed as error:
            raise RequestFailed(f"it cannot be read: {error}") from None

    def _candidates(self, needed: Needed) -> list[Projection]:
        """Returns the projections that may have a fact: of gang objects and workloads of declared kinds, that of the
        kind.
        """
        projections = self._projections[needed.part]
        if needed.part == GANG_OBJECTS and needed.key is not None:
            return [projection for projection in projections if projection.resource.api == needed.key[0]]
        if needed.part != SHAPED_WORKLOADS or needed.key is None:
            return projections
        return [projection for projection in projections if projection.resource.qualified == needed.key[0]]

    def _served(self, projections: list[Projection]) -> Projection:
        return next(
            (projection for projection in projections if projection.resource.api in self._discovery.resources),
            projections[0],
        )

    async def _object(self, projection: Projection, key: tuple[str, ...] | str) -> Any:
        namespace, name = (None, key) if isinstance(key, str) else key[-2:]
        if not _NAME.fullmatch(name) or (namespace is not None and not _NAME.fullmatch(namespace)):
            return None
        resource = projection.resource
        if resource.namespaced and namespace is None:
            entries = projection.entries()
            for raw in sequence(
                (await self._client.get(requests.objects_by_name(resource, name))).content.get("items")
            ):
                if (read := projection.read(raw)) is not None:
                    entries[read[0]] = read[1]
            return entries.get(name)
        value = projection.read((await self._client.get(requests.read(resource, name, namespace))).content)
        return None if value is None else value[1]

    async def _whole(self, projection: Projection) -> dict[Any, Any]:
        """Returns all objects of a kind. An object that is not understood counts as missing, as in a watch."""
        entries: dict[Any, Any] = {}
        async for raw in self._client.items(projection.resource, limit=WHOLE_PAGE, selector=projection.selector):
            with suppress(Malformed):
                if (read := projection.read(raw)) is not None:
                    entries[read[0]] = read[1]
        return entries

    async def _bound(self, namespace: str, name: str, scheduler: str) -> frozenset[ObjectKey]:
        """Returns the PodGang of one pod of the set that is on a node and was not prepared for that scheduler; empty if
        there is no such pod.
        """
        if not _NAME.fullmatch(namespace) or not _LABEL_VALUE.fullmatch(name):
            return frozenset()
        selector = f"{grove.LABEL_MANAGED_BY}={grove.MANAGED_BY_GROVE},{grove.LABEL_PART_OF}={name}"
        bound = {"labelSelector": selector, "fieldSelector": requests.BOUND}
        pods = self._client.items(PODS, namespace=namespace, selector=bound, accept=requests.METADATA_ONLY)
        async with aclosing(pods):
            async for raw in pods:
                if stamped_scheduler(mapping(mapping(mapping(raw).get("metadata")).get("annotations"))) != scheduler:
                    return frozenset({(namespace, str(labels_of(raw).get(grove.LABEL_PODGANG)))})
        return frozenset()


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
    """Returns the facts that the enabled schedulers need. With `objects`, for admission, also gang objects that other
    programs write; without, for the reconciler, which makes gangs. The other arguments are those of `LiveFacts`.
    """
    judging = settings.all_settings if objects else (settings,)
    profiles = [profile for settings in judging for profile in settings.profiles.values()]
    schemas = [required_field.api for profile in profiles for required_field in profile.backend.required_fields]
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
        self.facts = NO_FACTS
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
        """Watches the cluster until cancelled."""
        try:
            await self._follow_discovery()
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._client.close()

    def set_part(self, part: str, entries: Mapping[Any, Any] | None) -> None:
        """Sets a part of the facts that another reader of the same cluster has read; None if it is not known."""
        if getattr(self.facts, part) is not entries:
            self._set(**{part: entries})

    async def learn(self, needed: Iterable[Needed], facts: ClusterFacts, seconds: float) -> ClusterFacts:
        """Returns `facts` with the `needed` facts, read live. Raises `FactsUnavailable`."""
        return facts.learned(await self.lookup.find(needed, seconds))

    @property
    def resources(self) -> Mapping[Api, Resource]:
        """The resource of each kind that the cluster serves."""
        return self._discovery.resources

    def doubted(self) -> frozenset[str]:
        """Returns the parts whose watch fails now: they may be out of date."""
        return frozenset(projection.part for projection, watch in self.watches.items() if watch.trouble is not None)

    def unready(self) -> Iterator[str]:
        """Yields what is not known yet, and why. Yields nothing when every kind that was served at the start
        is known.
        """
        if self.facts.apis is None:
            yield f"cluster: the served kinds are not known: {self.trouble}"
        yield from unread(self.awaited())

    def awaited(self) -> Iterator[tuple[str, Watch]]:
        """Yields the watches of kinds that were served at the start and are not known yet, each with its kind."""
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
        """Watches the served kinds, and drops those that are no longer served.

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
        """Returns the versions that only one of two answers has, of kinds that are followed in another version."""
        followed = {projection.resource.api for projection in self._tasks} & either
        kinds = {api.group_kind for api in followed}
        confirmed = both | followed | (self.facts.apis or frozenset())
        return frozenset(api for api in either - confirmed if api.group_kind in kinds)

    async def _read_schemas(self) -> None:
        """Reads the fields of the served kinds. If that fails, the known fields are kept, and readiness does
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
        """Takes what a watch has read out of a part that others fill too."""
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
    """Yields the projections whose kind is served. A kind that is served in several versions has the same objects in
    each of them, so it is read only in the first version of those that fill one part.
    """
    taken: dict[tuple[object, ...], Api] = {}
    for projection in projections:
        api = projection.resource.api
        kind = (projection.part, api.group_kind, projection.label_selector, projection.field_selector)
        # The core group is in no list of groups, but always exists.
        if (api in served or not api.group) and taken.setdefault(kind, api) == api:
            yield projection

"""Reading one fact that the caches lack, live and at most once at a time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.cluster.discovery import Discovery
from webhook.cluster.schemas import Schemas
from webhook.errors import FactsUnavailable, NotFound, RequestFailed
from webhook.model import grove
from webhook.model.keys import Needed, ObjectKey
from webhook.model.projections import Projection, labels_of
from webhook.model.reading import Malformed, Manifest, sequence
from webhook.telemetry import spans
from webhook.telemetry.logs import outline

# The owner of a pod is read within this, or the pod's creation is tried again by whoever creates it.
LOOKUP_SECONDS = 2.0
# Objects in one page where a kind is read as a whole: few round trips fit into that time.
WHOLE_PAGE = 500
# What an object may be called (RFC 1123 subdomain). Anything else is in no cluster, and must not become a path.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
# The parts of which one is read for whose it is, and not because an object names it.
_OWNERS = frozenset(
    {
        "namespaces",
        "pod_clique_sets",
        "pod_gangs",
        "bound_gangs",
        "jobs",
        "job_sets",
        "leader_worker_sets",
        "train_jobs",
    }
)
# What a label's value may be.
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class Lookup:
    """Live reads, shared by all who ask for the same thing while it is being read."""

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
        # By how they ended, for the metrics.
        self.outcomes = {"found": 0, "absent": 0, "failed": 0}

    async def find(self, needed: Iterable[Needed], seconds: float) -> Mapping[Needed, Any]:
        """What the cluster says, None where there is no such object. Raises `FactsUnavailable`, at the latest after so
        many seconds.
        """
        wanted = tuple(needed)
        about = {"rollcall.facts": sorted({one.part for one in wanted})}
        # Also of whoever waits for a read that another began.
        with spans.span("look up", spans.Side.CLIENT, about):
            tasks = {one: self._task(one) for one in wanted}
            await asyncio.wait(tasks.values(), timeout=min(seconds, LOOKUP_SECONDS))
            return {one: self._result(one, task) for one, task in tasks.items()}

    def _task(self, wanted: Needed) -> asyncio.Task[Any]:
        task = self._under_way.get(wanted)
        if task is None:
            task = self._under_way[wanted] = asyncio.create_task(self._within(wanted))
            task.add_done_callback(lambda done: self._ended(wanted, done))
        return task

    def _ended(self, wanted: Needed, task: asyncio.Task[Any]) -> None:
        del self._under_way[wanted]
        if not task.cancelled():
            # Looked at, lest Python complains of an error that nobody waited for to the end.
            task.exception()

    async def _within(self, wanted: Needed) -> Any:
        # Nobody waits longer, and a read that hangs must not be joined by those who come later.
        async with asyncio.timeout(LOOKUP_SECONDS):
            return await self._read(wanted)

    def _result(self, wanted: Needed, task: asyncio.Task[Any]) -> Any:
        why = outlined = "no answer in time"
        if task.done():
            error = task.exception()
            if error is None:
                found = task.result()
                self.outcomes["absent" if found is None else "found"] += 1
                return found
            if not isinstance(error, TimeoutError):
                why, outlined = str(error), outline(error)
        self.outcomes["failed"] += 1
        # An object's fields name quotas, queues and topologies; its owner's name is no secret.
        named = wanted if wanted.part in _OWNERS else wanted._replace(key="")
        raise FactsUnavailable(f"the {wanted} could not be read: {why}", f"the {named} could not be read: {outlined}")

    async def _read(self, wanted: Needed) -> Any:
        if wanted.part == "apis":
            return await self._discovery.ask()
        if wanted.part == "spec_fields":
            return await self._schemas.ask()
        try:
            if wanted.part == "bound_gangs":
                return await self._bound(*(wanted.key or ()))
            projection = self._served(self._projections[wanted.part])
            return await (self._whole(projection) if wanted.key is None else self._object(projection, wanted.key))
        except NotFound:
            return None
        except Malformed as error:
            raise RequestFailed(f"it is not understood: {error}") from None

    def _served(self, projections: list[Projection]) -> Projection:
        return next((one for one in projections if one.resource.api in self._discovery.resources), projections[0])

    async def _object(self, projection: Projection, key: ObjectKey | str) -> Any:
        namespace, name = (None, key) if isinstance(key, str) else key
        if not _NAME.fullmatch(name) or (namespace is not None and not _NAME.fullmatch(namespace)):
            return None
        resource = projection.resource
        if resource.namespaced and namespace is None:
            entries = projection.entries()
            for raw in sequence((await self._client.get(requests.named(resource, name))).content.get("items")):
                if (read := projection.read(raw)) is not None:
                    entries[read[0]] = read[1]
            return entries.get(name)
        return _value(projection, (await self._client.get(requests.read(resource, name, namespace))).content)

    async def _whole(self, projection: Projection) -> dict[Any, Any]:
        """All objects of a kind. One that is not understood is as good as not there, as it is to a watch."""
        found: dict[Any, Any] = {}
        async for raw in self._client.items(projection.resource, limit=WHOLE_PAGE, selector=projection.selector):
            with suppress(Malformed):
                if (read := projection.read(raw)) is not None:
                    found[read[0]] = read[1]
        return found

    async def _bound(self, namespace: str, name: str) -> frozenset[ObjectKey]:
        """The PodGang of one pod of the set that is on a node; nothing where there is no such pod."""
        if not _NAME.fullmatch(namespace) or not _LABEL_VALUE.fullmatch(name):
            return frozenset()
        selector = f"{grove.LABEL_MANAGED_BY}={grove.MANAGED_BY_GROVE},{grove.LABEL_PART_OF}={name}"
        found = sequence((await self._client.get(requests.bound_pods(namespace, selector))).content.get("items"))
        return frozenset((namespace, str(labels_of(raw).get(grove.LABEL_PODGANG))) for raw in found)


def _value(projection: Projection, raw: Manifest) -> Any:
    """What is known of one object; None for one that nobody asks about."""
    read = projection.read(raw)
    return None if read is None else read[1]

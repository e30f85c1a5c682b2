"""Read single facts that the caches lack, live, with at most one read of each fact at a time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from contextlib import aclosing, suppress
from typing import Any

from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.cluster.discovery import Discovery
from webhook.cluster.schemas import Schemas
from webhook.errors import FactsUnavailable, NotFound, RequestFailed
from webhook.model import grove
from webhook.model.keys import SHAPED_WORKLOADS, Needed, ObjectKey
from webhook.model.kubernetes_kinds import PODS
from webhook.model.living_gang import PART as GANG_OBJECTS
from webhook.model.projections import Projection, labels_of
from webhook.model.reading import Malformed, Manifest, mapping, sequence
from webhook.mutators.prepare_pod import stamped_scheduler
from webhook.telemetry import spans
from webhook.telemetry.logs import outline

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
        """Return what the cluster has, None for an object that does not exist. Raises `FactsUnavailable`, after
        `seconds` at the latest.
        """
        wanted = tuple(needed)
        about = {"rollcall.facts": sorted({one.part for one in wanted})}
        # The span also covers a read that another call began.
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
            # Read the exception, so that asyncio does not log it as never retrieved.
            task.exception()

    async def _within(self, wanted: Needed) -> Any:
        # No call waits longer, and later calls must not join a read that hangs.
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
        # The names of quotas, queues and topologies come from fields of the object and are not logged. The name of its
        # owner is not a secret.
        named = wanted if wanted.part in _ABOVE else wanted._replace(key="")
        raise FactsUnavailable(f"the {wanted} could not be read: {why}", f"the {named} could not be read: {outlined}")

    async def _read(self, wanted: Needed) -> Any:
        if wanted.part == "apis":
            return await self._discovery.ask()
        if wanted.part == "spec_fields":
            return await self._schemas.ask()
        try:
            if wanted.part == "bound_gangs":
                return await self._bound(*(wanted.key or ())[-3:])
            projection = self._served(self._candidates(wanted))
            return await (self._whole(projection) if wanted.key is None else self._object(projection, wanted.key))
        except NotFound:
            return None
        except Malformed as error:
            raise RequestFailed(f"it cannot be read: {error}") from None

    def _candidates(self, wanted: Needed) -> list[Projection]:
        """The projections that may have a fact: of gang objects and workloads of declared kinds, that of the kind."""
        found = self._projections[wanted.part]
        if wanted.part == GANG_OBJECTS and wanted.key is not None:
            return [one for one in found if one.resource.api == wanted.key[0]]
        if wanted.part != SHAPED_WORKLOADS or wanted.key is None:
            return found
        return [one for one in found if one.resource.qualified == wanted.key[0]]

    def _served(self, projections: list[Projection]) -> Projection:
        return next((one for one in projections if one.resource.api in self._discovery.resources), projections[0])

    async def _object(self, projection: Projection, key: tuple[str, ...] | str) -> Any:
        namespace, name = (None, key) if isinstance(key, str) else key[-2:]
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
        """Return all objects of a kind. An object that is not understood counts as missing, as in a watch."""
        found: dict[Any, Any] = {}
        async for raw in self._client.items(projection.resource, limit=WHOLE_PAGE, selector=projection.selector):
            with suppress(Malformed):
                if (read := projection.read(raw)) is not None:
                    found[read[0]] = read[1]
        return found

    async def _bound(self, namespace: str, name: str, scheduler: str) -> frozenset[ObjectKey]:
        """Return the PodGang of one pod of the set that is on a node and was not prepared for that scheduler; empty if
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


def _value(projection: Projection, raw: Manifest) -> Any:
    """Return the value of one object; None if the projection ignores it."""
    read = projection.read(raw)
    return None if read is None else read[1]

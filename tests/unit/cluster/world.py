"""A small simulated API: served kinds, objects, and watches.

It knows no more of Kubernetes than `LiveFacts` asks for. Whether Kubernetes behaves so is for the cluster tests.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any

import httpx

from webhook.cluster.requests import DISCOVERY
from webhook.model.projections import Resource


class World(httpx.AsyncBaseTransport):
    """Objects by collection path. `failing` is what every request gets while it is set, `refused` what those for one
    collection do.
    """

    def __init__(self, *served: Resource) -> None:
        self.served = list(served)
        self.objects: dict[str, list[dict[str, Any]]] = {}
        self.failing: Exception | httpx.Response | None = None
        self.refused: dict[str, httpx.Response] = {}
        self.asked: list[str] = []
        # The field selectors of lists and watches, by collection: only some fields of pods narrow anything here.
        self.selectors: dict[str, set[str]] = {}
        # Every event so far, by collection: a list is of a version, which is how many there were.
        self._told: dict[str, list[dict[str, Any]]] = {}
        self._watchers: dict[str, list[asyncio.Event]] = {}

    def put(self, collection: str, raw: dict[str, Any]) -> None:
        """Add an object, and notify all watches."""
        self.objects.setdefault(collection, []).append(raw)
        self.tell(collection, "ADDED", raw)

    def tell(self, collection: str, event: str, raw: dict[str, Any]) -> None:
        """Notify all watches of the present state."""
        self._told.setdefault(collection, []).append({"type": event, "object": deepcopy(raw)})
        for told in self._watchers.get(collection, []):
            told.set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a list, a watch, a discovery or a read."""
        path = request.url.path
        self.asked.append(path)
        if isinstance(self.failing, Exception):
            raise self.failing
        if self.failing is not None:
            return httpx.Response(self.failing.status_code, content=self.failing.content)
        if path in self.refused:
            return httpx.Response(self.refused[path].status_code, content=self.refused[path].content)
        self.selectors.setdefault(path, set()).add(request.url.params.get("fieldSelector", ""))
        if request.headers["accept"] == DISCOVERY:
            return httpx.Response(200, json={"items": [_discovered(resource) for resource in self.served]})
        if request.url.params.get("watch"):
            wanted = request.url.params.get("labelSelector", "")
            return httpx.Response(200, content=self._watch(path, int(request.url.params["resourceVersion"]), wanted))
        served = {_collection(resource) for resource in self.served} | _CORE
        if path in served:
            version = str(len(self._told.get(path, [])))
            labels, fields = (request.url.params.get(f"{part}Selector", "") for part in ("label", "field"))
            found = [raw for raw in self.objects.get(path, []) if selected(raw, labels) and chosen(raw, fields)]
            return httpx.Response(200, json=paged(found, request, version))
        for raw in self.objects.get(path.rpartition("/")[0], []):
            if raw["metadata"]["name"] == path.rpartition("/")[2]:
                return httpx.Response(200, json=raw)
        return httpx.Response(404, json={"message": f"{path} not found"})

    async def _watch(self, path: str, version: int, wanted: str) -> AsyncIterator[bytes]:
        more = asyncio.Event()
        self._watchers.setdefault(path, []).append(more)
        told = self._told.setdefault(path, [])
        while True:
            # More may be told while the reader of the watch has one.
            while version < len(told):
                event = told[version]
                version += 1
                if selected(event["object"], wanted):
                    yield json.dumps(event).encode() + b"\n"
            more.clear()
            await more.wait()


# One part of a labelSelector: as far as those are that Rollcall asks with.
# The collections that every API server has, of those that are read.
_CORE = {f"/api/v1/{kind}" for kind in ("configmaps", "limitranges", "namespaces", "nodes", "pods", "resourcequotas")}
_PART = re.compile(r"(!)?([^,= ]+)(?:=([^,]*)| notin \(([^)]*)\))?(?:,|$)")


def selected(raw: dict[str, Any], selector: str) -> bool:
    """Whether a labelSelector means an object."""
    labels = raw["metadata"].get("labels") or {}
    for absent, key, value, others in _PART.findall(selector):
        if (key in labels) == bool(absent) and not others:
            return False
        if (value and labels[key] != value) or (others and labels.get(key) in others.split(",")):
            return False
    return True


# One part of a fieldSelector: as far as those are about what only pods have.
_FIELD = re.compile(r"(spec\.schedulerName|status\.phase)(!=|=)([^,]*)")


def chosen(raw: dict[str, Any], selector: str) -> bool:
    """Whether the fieldSelector of a list of pods means one."""
    for path, sign, value in _FIELD.findall(selector):
        part, field = path.split(".")
        if (raw.get(part, {}).get(field, "") == value) != (sign == "="):
            return False
    return True


def paged(found: list[dict[str, Any]], request: httpx.Request, version: str) -> dict[str, Any]:
    """The page of a list that a request asks for."""
    start = int(request.url.params.get("continue", "0"))
    end = start + int(request.url.params.get("limit", len(found)))
    more = {"continue": str(end)} if end < len(found) else {}
    return {"metadata": {"resourceVersion": version, **more}, "items": found[start:end]}


def _collection(resource: Resource) -> str:
    return f"/apis/{resource.api.group}/{resource.api.version}/{resource.plural}"


def _discovered(resource: Resource) -> dict[str, Any]:
    kinds = [{"resource": resource.plural, "responseKind": {"kind": resource.api.kind}}]
    versions = [{"version": resource.api.version, "resources": kinds}]
    return {"metadata": {"name": resource.api.group}, "versions": versions}

"""A cluster by dictionary that can be written to: enough of server-side apply for one manager, and watches that tell.

It knows no more of Kubernetes than the reconciler asks for. Whether Kubernetes behaves so is for the cluster tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx

from tests.api.world import World
from webhook.backends.koordinator.facts import ELASTIC_QUOTAS, NETWORK_TOPOLOGIES
from webhook.backends.koordinator.keys import POD_GROUP
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS, PRIORITY_CLASSES, TOPOLOGY_BINDINGS, Resource

POD_GROUPS = Resource(POD_GROUP, "podgroups")
SERVED = tuple(
    projection.resource
    for projection in (
        POD_CLIQUE_SETS,
        POD_GANGS,
        PRIORITY_CLASSES,
        TOPOLOGY_BINDINGS,
        ELASTIC_QUOTAS,
        NETWORK_TOPOLOGIES,
    )
)

Answer = Callable[[httpx.Request], httpx.Response | None]


class WritableWorld(World):
    """`answering` may answer a write in its place, as an API server in trouble does. `writes` are those that came."""

    def __init__(self, *served: Resource) -> None:
        super().__init__(*(served or (*SERVED, POD_GROUPS)))
        self.writes: list[tuple[str, str]] = []
        self.events: list[dict[str, Any]] = []
        self.answering: Answer = lambda _: None
        self._uids = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return self._pods(request) or await super().handle_async_request(request)
        path = request.url.path
        body = json.loads(request.content)
        if path.endswith("/events"):
            self.events.append(body)
            return httpx.Response(201, json=body)
        self.writes.append((request.method, path))
        if (answer := self.answering(request)) is not None:
            return answer
        if request.url.params.get("dryRun"):
            return httpx.Response(200, json=body)
        space, name = path.split("/")[-3], path.rpartition("/")[2]
        collection = _everywhere(path.rpartition("/")[0], space)
        if request.method == "DELETE":
            self.remove(collection, space, name)
            return httpx.Response(200, json={"kind": "Status"})
        return httpx.Response(200, json=self.apply(collection, body))

    def _pods(self, request: httpx.Request) -> httpx.Response | None:
        """The pods of a namespace that bear a label, all or those on nodes."""
        head, _, space = request.url.path.removesuffix("/pods").rpartition("/")
        if head != "/api/v1/namespaces":
            return None
        label, _, value = request.url.params["labelSelector"].partition("=")
        bound = request.url.params.get("fieldSelector") == "spec.nodeName!="
        self.asked.append(request.url.path)
        found = [
            pod
            for pod in self.objects.get("/api/v1/pods", [])
            if pod["metadata"]["namespace"] == space
            and pod["metadata"]["labels"].get(label) == value
            and (pod["spec"].get("nodeName") or not bound)
        ]
        return httpx.Response(200, json={"items": found})

    def apply(self, collection: str, body: dict[str, Any]) -> dict[str, Any]:
        """Merge `body` into the object of its name, and tell whoever watches."""
        metadata = body["metadata"]
        known = self.get(collection, metadata["namespace"], metadata["name"])
        if known is None:
            self._uids += 1
            known = {"metadata": {"uid": f"u{self._uids}"}}
            _merge(known, body)
            self.put(collection, known)
            return known
        _merge(known, body)
        self.tell(collection, "MODIFIED", known)
        return known

    def remove(self, collection: str, namespace: str, name: str) -> None:
        """Delete an object, and tell whoever watches."""
        known = self.get(collection, namespace, name)
        if known is not None:
            self.objects[collection].remove(known)
            self.tell(collection, "DELETED", known)

    def get(self, collection: str, namespace: str, name: str) -> dict[str, Any] | None:
        """The object of that name."""
        for raw in self.objects.get(collection, []):
            metadata = raw["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, name):
                return raw
        return None


def _everywhere(path: str, namespace: str) -> str:
    return path.replace(f"/namespaces/{namespace}", "")


def _merge(known: dict[str, Any], body: dict[str, Any]) -> None:
    for key, value in body.items():
        if isinstance(value, dict) and isinstance(known.get(key), dict):
            _merge(known[key], value)
        else:
            known[key] = value

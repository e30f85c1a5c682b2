"""A simulated writable cluster: enough of server-side apply for one manager, and watches.

It knows no more of Kubernetes than the reconciler asks for. Whether Kubernetes behaves so is for the cluster tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx

from tests.unit.cluster.world import World, chosen, paged, selected
from webhook.backends.koordinator.gangs import ELASTIC_QUOTAS, NETWORK_TOPOLOGIES
from webhook.backends.koordinator.keys import POD_GROUP
from webhook.model.place import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUES
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS, PRIORITY_CLASSES, TOPOLOGY_BINDINGS, Resource

PODS = "/api/v1/pods"
POD_GROUPS = Resource(POD_GROUP, "podgroups")
SERVED = (
    POD_CLIQUES,
    POD_CLIQUE_SCALING_GROUPS,
    *(
        projection.resource
        for projection in (
            POD_CLIQUE_SETS,
            POD_GANGS,
            PRIORITY_CLASSES,
            TOPOLOGY_BINDINGS,
            ELASTIC_QUOTAS,
            NETWORK_TOPOLOGIES,
        )
    ),
)

Answer = Callable[[httpx.Request], httpx.Response | None]


class WritableWorld(World):
    """`answering` may answer a write in its place, as an API server in trouble does. `writes` are those that came."""

    def __init__(self, *served: Resource) -> None:
        super().__init__(*(served or (*SERVED, POD_GROUPS)))
        self.writes: list[tuple[str, str]] = []
        self.events: list[dict[str, Any]] = []
        # Events that were there already, and changes of a series.
        self.told_twice = self.continued = 0
        self.answering: Answer = lambda _: None
        self._uids = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            usual = self.failing is None and request.url.path not in self.refused
            if usual and (found := self._within(request)) is not None:
                return httpx.Response(200, json=found)
            return await super().handle_async_request(request)
        path = request.url.path
        body = json.loads(request.content)
        if path.endswith("/events") or "/events/" in path:
            return self._tell_event(path.rpartition("/")[2], body)
        self.writes.append((request.method, path))
        if (answer := self.answering(request)) is not None:
            return answer
        if request.url.params.get("dryRun"):
            return httpx.Response(200, json=body)
        collection, space, name = _addressed(path)
        if request.method == "DELETE":
            self.remove(collection, space, name)
            return httpx.Response(200, json={"kind": "Status"})
        return httpx.Response(200, json=self.apply(collection, body))

    def _tell_event(self, name: str, body: Any) -> httpx.Response:
        """Create an event, or change the series of one: the API server lets nothing else of it change."""
        if name == "events":
            if body["metadata"]["name"] in {event["metadata"]["name"] for event in self.events}:
                self.told_twice += 1
                return httpx.Response(409, json={"message": "already exists"})
            self.events.append(body)
            return httpx.Response(201, json=body)
        found = next((event for event in self.events if event["metadata"]["name"] == name), None)
        if found is None:
            return httpx.Response(404, json={"message": "not found"})
        assert [(one["op"], one["path"]) for one in body] == [("add", "/series")]
        found["series"] = body[0]["value"]
        self.continued += 1
        return httpx.Response(200, json=found)

    def _within(self, request: httpx.Request) -> dict[str, Any] | None:
        """The object of a namespace by name, or those of a kind that the selectors match."""
        before, _, within = request.url.path.partition("/namespaces/")
        namespace, _, asked = within.partition("/")
        plural, _, name = asked.partition("/")
        if name:
            return self.get(f"{before}/{plural}", namespace, name)
        if not plural:
            return None
        self.asked.append(request.url.path)
        wanted = request.url.params.get("labelSelector", "")
        fields = request.url.params.get("fieldSelector", "")
        bound, named = fields == "spec.nodeName!=", fields.removeprefix("metadata.name=")
        found = [
            one
            for one in self.objects.get(f"{before}/{plural}", [])
            if one["metadata"]["namespace"] == namespace
            and selected(one, wanted)
            and chosen(one, fields)
            and (not bound or one["spec"].get("nodeName"))
            and (named == fields or one["metadata"]["name"] == named)
        ]
        return paged(found, request, "0")

    def apply(self, collection: str, body: dict[str, Any]) -> dict[str, Any]:
        """Merge `body` into the object of its name, and notify all watches."""
        metadata = body["metadata"]
        known = self.get(collection, metadata.get("namespace"), metadata["name"])
        if known is None:
            self._uids += 1
            known = {"metadata": {"uid": f"u{self._uids}"}}
            _merge(known, body)
            self.put(collection, known)
            return known
        _merge(known, body)
        self.tell(collection, "MODIFIED", known)
        return known

    def remove(self, collection: str, namespace: str | None, name: str) -> None:
        """Delete an object, and notify all watches."""
        known = self.get(collection, namespace, name)
        if known is not None:
            self.objects[collection].remove(known)
            self.tell(collection, "DELETED", known)

    def get(self, collection: str, namespace: str | None, name: str) -> dict[str, Any] | None:
        """The object of that name."""
        for raw in self.objects.get(collection, []):
            metadata = raw["metadata"]
            if (metadata.get("namespace"), metadata["name"]) == (namespace, name):
                return raw
        return None


def _addressed(path: str) -> tuple[str, str | None, str]:
    """The collection of all namespaces, the namespace where there is one, and the name."""
    within, _, name = path.rpartition("/")
    start, _, rest = within.partition("/namespaces/")
    namespace, _, plural = rest.partition("/")
    return (f"{start}/{plural}", namespace, name) if rest else (within, None, name)


def _merge(known: dict[str, Any], body: dict[str, Any]) -> None:
    for key, value in body.items():
        if isinstance(value, dict) and isinstance(known.get(key), dict):
            _merge(known[key], value)
        else:
            known[key] = value

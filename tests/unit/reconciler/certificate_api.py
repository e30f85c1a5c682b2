"""The part of an API server that certificates need, simulated: versions and conflicts, apply of a list by name, managed
fields, and its own clock. Whether Kubernetes behaves in this way is for the cluster tests.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from datetime import datetime
from email.utils import format_datetime
from typing import Any

import httpx

from tests.unit.certificates.certificate_world import NAMESPACE, NOW, configuration
from tests.unit.cluster.scripted import failure
from webhook.certificates.x509 import fingerprint, issued_by, read_certificates

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
CONFIGURATIONS = {
    "m-rollcall": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/m-rollcall",
    "v-rollcall": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/v-rollcall",
}


class CertificateApi(httpx.AsyncBaseTransport):
    """Objects by path. `writes` are those that came; `proving` says whether it trusts the next certificate at once,
    `deaf` by which hooks (the values of their label) it does not, and `showing` which other certificate it is shown.
    `looks` counts the reads of endpoints; `meanwhile` is called before a write of that name, once.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {
            f"/api/v1/namespaces/{NAMESPACE}": {"metadata": {"name": NAMESPACE, "uid": "of the namespace"}}
        }
        self.now: datetime = NOW
        self.writes: list[str] = []
        self.reads: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.probes: list[dict[str, Any]] = []
        self.slices: list[dict[str, Any]] = []
        self.proving = True
        self.deaf: set[str] = set()
        self.showing = ""
        self.looks = 0
        self.meanwhile: dict[str, Callable[[], None]] = {}
        self.refusing: dict[str, tuple[int, str]] = {}
        self._version = 1
        self._changed = asyncio.Condition()
        for name in CONFIGURATIONS:
            self.register(name)

    def register(self, name: str, bundle: bytes = b"") -> None:
        """As a user applies a configuration."""
        self._version += 1
        managers = [{"manager": "kubectl", "operation": "Apply"}]
        found = configuration(name, bundle, managedFields=managers)
        found["metadata"].update(uid=f"{name} {self._version}", resourceVersion=str(self._version))
        # As the API server answers a read: what kind it is need not be said.
        self.objects[CONFIGURATIONS[name]] = found

    def data(self, name: str) -> dict[str, bytes]:
        """The content of a Secret."""
        return {key: b64decode(value) for key, value in self.objects[f"{SECRETS}/{name}"]["data"].items()}

    def bundles(self) -> set[bytes]:
        """What the caBundles are."""
        return {
            b64decode(hook["clientConfig"].get("caBundle", ""))
            for path in CONFIGURATIONS.values()
            if path in self.objects
            for hook in self.objects[path]["webhooks"]
        }

    async def changed(self) -> None:
        """Notify all watches of a foreign change."""
        self._version += 1
        async with self._changed:
            self._changed.notify_all()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer, with the time that it is here."""
        path = request.url.path
        if request.method != "GET" and (happens := self.meanwhile.pop(path.rpartition("/")[2], None)) is not None:
            happens()
        if request.method != "GET" and not path.endswith(("/events", "/configmaps")):
            self.writes.append(f"{request.method} {path.rpartition('/')[2]}")
        if path.rpartition("/")[2] in self.refusing and request.method != "GET":
            code, why = self.refusing[path.rpartition("/")[2]]
            answer = httpx.Response(code, json=failure(code, why))
        else:
            answer = self._get(request, path) if request.method == "GET" else await self._change(request, path)
        answer.headers["date"] = format_datetime(self.now, usegmt=True)
        return answer

    def _get(self, request: httpx.Request, path: str) -> httpx.Response:
        if request.url.params.get("watch"):
            return httpx.Response(200, content=self._events())
        if path.endswith("/endpointslices"):
            self.looks += 1
            # One a page, as there are many.
            at = int(request.url.params.get("continue") or 0)
            following = {"continue": str(at + 1)} if at + 1 < len(self.slices) else {}
            return httpx.Response(200, json={"metadata": following, "items": self.slices[at : at + 1]})
        if "limit" in request.url.params:
            return httpx.Response(200, json={"metadata": {"resourceVersion": str(self._version)}, "items": []})
        self.reads.append(path)
        found = self.objects.get(path)
        return httpx.Response(404, json=failure(404, "not found")) if found is None else httpx.Response(200, json=found)

    async def _events(self) -> AsyncIterator[bytes]:
        """One that says nothing but that there was a change."""
        while True:
            async with self._changed:
                await self._changed.wait()
            raw = {"metadata": {"name": "changed", "resourceVersion": str(self._version)}}
            yield json.dumps({"type": "MODIFIED", "object": raw}).encode() + b"\n"

    async def _change(self, request: httpx.Request, path: str) -> httpx.Response:
        body = json.loads(request.content)
        if path.endswith("/events"):
            self.events.append(body)
            return httpx.Response(201, json=body)
        if path.endswith("/configmaps"):
            return self._probed(body)
        if request.method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                return httpx.Response(409, json=failure(409, "already exists"))
            stored = deepcopy(body)
            stored["metadata"]["uid"] = body["metadata"]["name"]
        else:
            live = self.objects.get(path)
            wrong = _mistaken(request, body, live)
            if wrong is not None:
                return wrong
            assert live is not None
            stored = deepcopy(live)
            if isinstance(body, list):
                stored["metadata"]["managedFields"] = body[-1]["value"]
            elif request.method == "PUT":
                stored = deepcopy(body)
            else:
                self._apply(stored, body, request.url.params["fieldManager"])
        self._version += 1
        stored["metadata"]["resourceVersion"] = str(self._version)
        self.objects[path] = stored
        return httpx.Response(200, json=stored)

    def _apply(self, stored: dict[str, Any], body: dict[str, Any], manager: str) -> None:
        metadata = stored["metadata"]
        metadata.setdefault("managedFields", []).append({"manager": manager, "operation": "Apply"})
        metadata.setdefault("annotations", {}).update(body["metadata"].get("annotations", {}))
        metadata["ownerReferences"] = body["metadata"].get("ownerReferences", [])
        for hook in stored.get("webhooks", []):
            for wanted in body["webhooks"]:
                if wanted["name"] == hook["name"]:
                    hook["clientConfig"].update(wanted["clientConfig"])

    def _probed(self, body: dict[str, Any]) -> httpx.Response:
        """As the hook for the next certificate answers."""
        self.probes.append(body)
        shown = self.data("rollcall-tls").get("next.crt")
        warnings = []
        if self.showing:
            warnings = [("warning", f'299 - "rollcall: next certificate {self.showing}"')]
        elif self.proving and shown is not None and not self.deaf & set(body["metadata"]["labels"].values()):
            (leaf,) = read_certificates(shown)
            if any(issued_by(leaf, one) for bundle in self.bundles() for one in read_certificates(bundle)):
                warnings = [("warning", f'299 - "rollcall: next certificate {fingerprint(leaf)}"')]
        return httpx.Response(201, json=body, headers=warnings)


def _mistaken(request: httpx.Request, body: Any, live: dict[str, Any] | None) -> httpx.Response | None:
    """How a change is answered that is about another object than there is."""
    if live is None:
        # An apply creates a missing object, unless it names a uid.
        applied = request.method == "PATCH" and isinstance(body, dict)
        assert not applied or "uid" in body["metadata"], "an object would be recreated"
        return httpx.Response(409 if applied else 404, json=failure(409 if applied else 404, "not found"))
    said = (
        {operation["path"].rpartition("/")[2]: operation["value"] for operation in body[:-1]}
        if isinstance(body, list)
        else body["metadata"]
    )
    for key in ("uid", "resourceVersion"):
        if said.get(key, live["metadata"].get(key)) != live["metadata"].get(key):
            return httpx.Response(409, json=failure(409, "the object has been modified"))
    return None

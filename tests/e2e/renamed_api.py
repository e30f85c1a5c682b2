"""A network on which the Workload API of Kubernetes 1.37 has the names of a later release, in discovery, paths and
objects. Behind it are the real API server and the real kube-scheduler.

Under the names of 1.38 `minGroupCount` is mutable as well: what the API server of 1.37 refuses is written into its
store, so its scheduler sees the change as it would see that of an API server of 1.38.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from tests.e2e.control_plane import ControlPlane
from tests.e2e.network import Network, Send, refusal

GROUP = "scheduling.k8s.io"
# What 1.37 serves, by the plural of each kind.
SERVED = {"workloads": "v1beta1", "podgroups": "v1beta1", "compositepodgroups": "v1alpha3"}
# What 1.38.0-beta.0 serves with --runtime-config=scheduling.k8s.io/v1beta1=true, and what no release serves.
OF_1_38 = dict.fromkeys(SERVED, "v1beta1")
UNKNOWN = dict.fromkeys(SERVED, "v2")
_DISCOVERY = "APIGroupDiscoveryList"


class RenamedApi(Network):
    """The network of a reconciler that sees `names` instead: a version for each plural."""

    def __init__(self, plane: ControlPlane, names: Mapping[str, str]) -> None:
        super().__init__(plane)
        self._plane = plane
        self._names = names
        self.meddle = self._renamed

    async def _renamed(self, request: httpx.Request, send: Send) -> httpx.Response:
        if _DISCOVERY in request.headers.get("accept", ""):
            return _answer(await send(_plain(request)), self._discovery)
        version, plural = _asked(request.url.path)
        if plural not in SERVED:
            return await send(request)
        if version != self._names[plural]:
            return refusal(404, "the server could not find the requested resource")
        now, later = (f"{GROUP}/{names[plural]}".encode() for names in (SERVED, self._names))
        url = request.url.copy_with(raw_path=request.url.raw_path.replace(later, now, 1))
        headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
        content = request.content.replace(later, now)
        if request.method == "PATCH" and plural == "compositepodgroups" and self._names == OF_1_38:
            content = self._with_count(url.path, content, dry="dryRun" in url.params)
        sent = httpx.Request(request.method, url, headers=headers, content=content)
        sent.extensions = request.extensions
        answer = await send(_plain(sent))
        if request.url.params.get("watch") == "true":
            return httpx.Response(answer.status_code, headers=answer.headers, stream=_Lines(answer.stream, now, later))
        return _answer(answer, lambda content: content.replace(now, later))

    def _with_count(self, path: str, content: bytes, *, dry: bool) -> bytes:
        """The patch of a composite as the API server of 1.37 accepts it; if not `dry`, its store has the new
        minGroupCount then.
        """
        answer, patch = self._plane.http.get(path), json.loads(content)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return content
        stored, policy = answer.json(), patch["spec"]["schedulingPolicy"]
        if stored["spec"]["schedulingPolicy"] == policy:
            return content
        if dry:
            patch["spec"]["schedulingPolicy"] = stored["spec"]["schedulingPolicy"]
            return json.dumps(patch).encode()
        stored["spec"]["schedulingPolicy"] = policy
        del stored["metadata"]["resourceVersion"]
        namespace, _, name = path.split("/namespaces/", 1)[1].split("/")
        key, value = f"/registry/compositepodgroups/{namespace}/{name}", json.dumps(stored)
        with httpx.Client(base_url=self._plane.store_url, trust_env=False) as store:
            body = {"key": _in_base64(key), "value": _in_base64(value), "prev_kv": True}
            before = store.post("/v3/kv/put", json=body).raise_for_status().json()
        assert "prev_kv" in before, f"{key} is not where the API server stores it"
        return content

    def _discovery(self, content: bytes) -> bytes:
        found = json.loads(content)
        for group in found["items"]:
            if group["metadata"]["name"] == GROUP:
                group["versions"] = self._versions(group["versions"])
        return json.dumps(found).encode()

    def _versions(self, versions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        renamed: dict[str, list[dict[str, Any]]] = {}
        for version in versions:
            for resource in version["resources"]:
                plural = resource["resource"]
                if plural not in SERVED:
                    renamed.setdefault(version["version"], []).append(resource)
                elif version["version"] == SERVED[plural]:
                    name = self._names[plural]
                    kind = {**resource["responseKind"], "version": name}
                    renamed.setdefault(name, []).append({**resource, "responseKind": kind})
        return [{"version": name, "resources": found} for name, found in renamed.items()]


class _Lines(httpx.AsyncByteStream):
    """A watch with names replaced: each line is an event."""

    def __init__(self, stream: Any, old: bytes, new: bytes) -> None:
        self._stream = stream
        self._old = old
        self._new = new

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = b""
        async for chunk in self._stream:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line.replace(self._old, self._new) + b"\n"

    async def aclose(self) -> None:
        await self._stream.aclose()


def _in_base64(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def _asked(path: str) -> tuple[str, str]:
    """The version and the plural of a path of that group; empty for any other path."""
    parts = path.strip("/").split("/")
    if parts[:2] != ["apis", GROUP] or len(parts) < 4:
        return "", ""
    rest = parts[3:]
    return parts[2], rest[2] if rest[0] == "namespaces" and len(rest) > 2 else rest[0]


def _plain(request: httpx.Request) -> httpx.Request:
    """A request whose answer is not compressed."""
    request.headers["accept-encoding"] = "identity"
    return request


def _answer(answer: httpx.Response, change: Any) -> httpx.Response:
    """An answer with its body changed as it is read."""
    headers = {name: value for name, value in answer.headers.items() if name.lower() != "content-length"}
    return httpx.Response(answer.status_code, headers=headers, stream=_Whole(answer.stream, change))


class _Whole(httpx.AsyncByteStream):
    def __init__(self, stream: Any, change: Any) -> None:
        self._stream = stream
        self._change = change

    async def __aiter__(self) -> AsyncIterator[bytes]:
        content = b"".join([chunk async for chunk in self._stream])
        if content:
            yield self._change(content)

    async def aclose(self) -> None:
        await self._stream.aclose()

"""Requests to the Kubernetes API, as data: building a request is separate from sending it.

Source of paths and parameters: Kubernetes API concepts (kubernetes.io/docs/reference/using-api/api-concepts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from webhook.model.projections import Resource
from webhook.model.reading import Manifest

JSON = "application/json"
# JSON is YAML, and every API server since 1.22 accepts it under this name.
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
# Metadata only, of any kind: fields that are not read need not be sent.
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# A fieldSelector: pods that are on a node.
BOUND = "spec.nodeName!="
# A fieldSelector: pods that have not ended.
LIVING = "status.phase!=Succeeded,status.phase!=Failed"
# Every group, version and kind in one answer.
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

# Objects in one page of a list. The process keeps the memory of parsed pages: with 5,000 PodGangs and 1,000
# PodCliqueSets a server held 146 MB after pages of 500, and 106 MB after pages of this size.
PAGE = 100


class Request(NamedTuple):
    """A GET. With `etag` the answer is empty if the content still has that ETag."""

    path: str
    params: Mapping[str, str] = {}
    accept: str = JSON
    etag: str | None = None


class Write(NamedTuple):
    """A request that changes something."""

    method: str
    path: str
    body: Any
    params: Mapping[str, str] = {}
    content_type: str = JSON


def apply(
    resource: Resource, manifest: Manifest, manager: str, *, subresource: str = "", dry_run: bool = False
) -> Write:
    """Return a server-side apply: `manager` takes over the fields of `manifest`; other fields do not change.

    The API server would read the manifest a second time to warn of unknown fields (Kubernetes API concepts, "Field
    validation"), and a program reads no warnings.
    """
    metadata = manifest["metadata"]
    path = _path(resource, metadata.get("namespace"), metadata["name"], subresource)
    params = {"fieldManager": manager, "force": "true", "fieldValidation": "Ignore"}
    params |= {"dryRun": "All"} if dry_run else {}
    return Write("PATCH", path, manifest, params, APPLY)


def json_patch(
    resource: Resource,
    namespace: str | None,
    name: str,
    operations: Sequence[Manifest],
    *,
    subresource: str = "",
    dry_run: bool = False,
) -> Write:
    """Return a JSON Patch (RFC 6902): all operations apply, or none."""
    params = {"fieldManager": "rollcall"} | ({"dryRun": "All"} if dry_run else {})
    return Write("PATCH", _path(resource, namespace, name, subresource), list(operations), params, JSON_PATCH)


def create(resource: Resource, manifest: Manifest, *, dry_run: bool = False) -> Write:
    """Return the creation of an object."""
    params = {"dryRun": "All"} if dry_run else {}
    return Write("POST", _collection(resource, manifest["metadata"].get("namespace")), manifest, params)


def replace(resource: Resource, manifest: Manifest) -> Write:
    """Return the replacement of an object, refused if it has changed since it was read. Use it only for objects that no
    other program writes.
    """
    metadata = manifest["metadata"]
    path = f"{_collection(resource, metadata.get('namespace'))}/{quote(metadata['name'], safe='')}"
    return Write("PUT", path, manifest)


def delete(
    resource: Resource,
    namespace: str | None,
    name: str,
    uid: str,
    *,
    version: str | None = None,
    dry_run: bool = False,
) -> Write:
    """Return the deletion of an object, refused if its uid differs or, with `version`, if it has changed since."""
    preconditions = {"uid": uid} | ({} if version is None else {"resourceVersion": version})
    options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
    params = {"dryRun": "All"} if dry_run else {}
    return Write("DELETE", f"{_collection(resource, namespace)}/{quote(name, safe='')}", options, params)


def read(resource: Resource, name: str, namespace: str | None = None) -> Request:
    """Return the request for one object."""
    return Request(f"{_collection(resource, namespace)}/{quote(name, safe='')}")


def page(
    resource: Resource,
    *,
    namespace: str | None = None,
    limit: int = PAGE,
    token: str | None = None,
    selector: Mapping[str, str] | None = None,
    accept: str = JSON,
) -> Request:
    """Return the request for one page of a kind, in a namespace or in all. `selector` has labelSelector and
    fieldSelector.
    """
    params = {"limit": str(limit), **(selector or {})}
    if token is not None:
        params["continue"] = token
    return Request(_collection(resource, namespace), params, accept)


def named(resource: Resource, name: str) -> Request:
    """Return the request for the objects of that name in all namespaces."""
    return page(resource, selector={"fieldSelector": f"metadata.name={name}"})


def watch(
    resource: Resource,
    version: str,
    seconds: int,
    selector: Mapping[str, str] | None = None,
    namespace: str | None = None,
) -> Request:
    """Return the request for every change after `version`, for at most `seconds`, with bookmarks: events that have only
    a version.
    """
    params = {
        **(selector or {}),
        "watch": "true",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(seconds),
    }
    return Request(_collection(resource, namespace), params)


def discovery(etag: str | None = None) -> Request:
    """Return the request for every kind that the cluster serves, except those of the core group."""
    return Request("/apis", accept=DISCOVERY, etag=etag)


def schemas(group: str, version: str, etag: str | None = None) -> Request:
    """Return the request for the schemas of a group's kinds in one version."""
    return Request(f"/openapi/v3/apis/{quote(group, safe='')}/{quote(version, safe='')}", etag=etag)


def _path(resource: Resource, namespace: str | None, name: str, subresource: str) -> str:
    path = f"{_collection(resource, namespace)}/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def _collection(resource: Resource, namespace: str | None = None) -> str:
    api = resource.api
    start = f"/apis/{api.group}/{api.version}" if api.group else f"/api/{api.version}"
    within = f"/namespaces/{quote(namespace, safe='')}" if resource.namespaced and namespace is not None else ""
    return f"{start}{within}/{resource.plural}"

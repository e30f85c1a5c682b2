"""Requests to the Kubernetes API as data, and the reading of its answers: their size, status, JSON and warnings.
Failures become errors of Rollcall.

Building a request is separate from sending it, and neither depends on the library that carries it (`Transport`).

A user can nest the `managedFields` of an object as deep as he likes, and the API server stores that (seen with 1.37).
One such pod must not keep a list of all pods from being read, so JSON that is too deep for the parser is made shallow
first.

Source of paths and parameters: Kubernetes API concepts (kubernetes.io/docs/reference/using-api/api-concepts).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlsplit

import orjson

from webhook.errors import AnswerTooLarge, Gone, NotFound, NotModified, RequestFailed
from webhook.model.findings import printable
from webhook.model.projections import Resource
from webhook.model.reading import Malformed, Manifest, mapping, sequence, text


class Sending(NamedTuple):
    """One request. `target` is its path and query, `seconds` the longest silence of the server, `connect_seconds` the
    time for a new connection.

    `allowed` is called just before the body is sent, and may raise: without the body the API server does nothing.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    content: bytes | None
    seconds: float
    connect_seconds: float
    allowed: Callable[[], None] | None = None


class Reply(Protocol):
    """An answer whose body is still to be read."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    def header(self, name: str) -> str | None:
        """Returns the first header of that name."""

    def headers(self, name: str) -> list[str]:
        """Returns all headers of that name."""

    def chunks(self) -> AsyncIterator[bytes]:
        """Returns the body, as it arrives. Raises `httpx.TransportError`."""

    async def aclose(self) -> None:
        """Frees the connection, for the next request if the whole body was read."""


class Transport(Protocol):
    """Connections to one cluster."""

    async def send(self, sending: Sending) -> Reply:
        """Sends a request. Raises `httpx.TransportError`, and what `Sending.allowed` raises."""

    async def aclose(self) -> None:
        """Closes every connection."""


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


class ApiRequest(NamedTuple):
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
    """Returns a server-side apply: `manager` takes over the fields of `manifest`; other fields do not change.

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
    """Returns a JSON Patch (RFC 6902): all operations apply, or none."""
    params = {"fieldManager": "rollcall"} | ({"dryRun": "All"} if dry_run else {})
    return Write("PATCH", _path(resource, namespace, name, subresource), list(operations), params, JSON_PATCH)


def create(resource: Resource, manifest: Manifest, *, dry_run: bool = False) -> Write:
    """Returns the creation of an object."""
    params = {"dryRun": "All"} if dry_run else {}
    return Write("POST", _collection(resource, manifest["metadata"].get("namespace")), manifest, params)


def replace(resource: Resource, manifest: Manifest) -> Write:
    """Returns the replacement of an object, refused if it has changed since it was read. Use it only for objects that
    no other program writes.
    """
    metadata = manifest["metadata"]
    path = f"{_collection(resource, metadata.get('namespace'))}/{quote(metadata['name'], safe='')}"
    return Write("PUT", path, manifest)


def delete(
    resource: Resource, namespace: str | None, name: str, uid: str, *, version: str | None = None, dry_run: bool = False
) -> Write:
    """Returns the deletion of an object, refused if its uid differs or, with `version`, if it has changed since."""
    preconditions = {"uid": uid} | ({} if version is None else {"resourceVersion": version})
    options: Manifest = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
    params = {"dryRun": "All"} if dry_run else {}
    return Write("DELETE", f"{_collection(resource, namespace)}/{quote(name, safe='')}", options, params)


def read(resource: Resource, name: str, namespace: str | None = None) -> ApiRequest:
    """Returns the request for one object."""
    return ApiRequest(f"{_collection(resource, namespace)}/{quote(name, safe='')}")


def page(
    resource: Resource,
    *,
    namespace: str | None = None,
    limit: int = PAGE,
    token: str | None = None,
    selector: Mapping[str, str] | None = None,
    accept: str = JSON,
) -> ApiRequest:
    """Returns the request for one page of a kind, in a namespace or in all. `selector` has labelSelector and
    fieldSelector.
    """
    params = {"limit": str(limit), **(selector or {})}
    if token is not None:
        params["continue"] = token
    return ApiRequest(_collection(resource, namespace), params, accept)


def objects_by_name(resource: Resource, name: str) -> ApiRequest:
    """Returns the request for the objects of that name in all namespaces."""
    return page(resource, selector={"fieldSelector": f"metadata.name={name}"})


def watch(
    resource: Resource,
    version: str,
    seconds: int,
    selector: Mapping[str, str] | None = None,
    namespace: str | None = None,
) -> ApiRequest:
    """Returns the request for every change after `version`, for at most `seconds`, with bookmarks: events that have
    only a version.
    """
    params = {
        **(selector or {}),
        "watch": "true",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(seconds),
    }
    return ApiRequest(_collection(resource, namespace), params)


def discovery(etag: str | None = None) -> ApiRequest:
    """Returns the request for every kind that the cluster serves, except those of the core group."""
    return ApiRequest("/apis", accept=DISCOVERY, etag=etag)


def schemas(group: str, version: str, etag: str | None = None) -> ApiRequest:
    """Returns the request for the schemas of a group's kinds in one version."""
    return ApiRequest(f"/openapi/v3/apis/{quote(group, safe='')}/{quote(version, safe='')}", etag=etag)


def _path(resource: Resource, namespace: str | None, name: str, subresource: str) -> str:
    path = f"{_collection(resource, namespace)}/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def _collection(resource: Resource, namespace: str | None = None) -> str:
    api = resource.api
    start = f"/apis/{api.group}/{api.version}" if api.group else f"/api/{api.version}"
    within = f"/namespaces/{quote(namespace, safe='')}" if resource.namespaced and namespace is not None else ""
    return f"{start}{within}/{resource.plural}"


# The parser refuses more than 1024 levels. Nothing that Rollcall reads comes near: a CompositePodGroup or a pod has
# some twenty.
MOST_LEVELS = 500
# A string without an end takes the rest, so that the search never begins again within it.
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_OPENS = b"[{"


def shallow(content: bytes | bytearray) -> bytes:
    """Returns JSON with null for everything below `MOST_LEVELS` levels. Text that is not JSON does not become JSON."""
    kept: list[bytes] = []
    level = begin = 0
    for token in _STRING_OR_BRACKET.finditer(content):
        sign = content[token.start()]
        if sign == ord('"'):
            continue
        if sign in _OPENS:
            level += 1
            if level == MOST_LEVELS + 1:
                kept.append(bytes(content[begin : token.start()]))
        else:
            if level == MOST_LEVELS + 1:
                kept.append(b"null")
                begin = token.end()
            level -= 1
    if level <= MOST_LEVELS:
        kept.append(bytes(content[begin:]))
    return b"".join(kept)


# An overloaded API server asks to wait about a second. A server that asks for an hour is not the API server.
MAX_WAIT_SECONDS = 60.0
# A code, the agent that warns, and a quoted text.
_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"', re.ASCII)
# A name has at most 253 characters.
_MOST_OF_A_SERVER = 300
_ESCAPED = re.compile(r"\\(.)")


async def received(reply: Reply, most: int) -> bytearray:
    """Returns the body of an answer. Raises `AnswerTooLarge` as soon as it is longer than `most` bytes."""
    content = bytearray()
    async for chunk in reply.chunks():
        content += chunk
        if len(content) > most:
            raise AnswerTooLarge(too_large(most))
    return content


def too_large(most: int) -> str:
    """Returns why an answer of more than `most` bytes is not read."""
    return f"the answer has more than {most} bytes, the most that are read at once"


def warnings_in(reply: Reply) -> tuple[str, ...]:
    """Returns the texts of the Warning headers (RFC 7234, 5.5). An API server writes one text in a line."""
    texts = (warning for line in reply.headers("warning") for warning in _WARNING.findall(line))
    return tuple(_ESCAPED.sub(r"\1", quoted) for quoted in texts)


def read_event(line: bytes) -> tuple[str, dict[str, Any]]:
    """Returns a watch event's type and object. Raises `Gone` for an expired version, `RequestFailed` for any other
    error.
    """
    event = parsed(line)
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
        raise RequestFailed("a watch event is not an object")
    kind, content = str(event.get("type")), event["object"]
    if kind == "ERROR":
        code = content.get("code")
        check_status(code if isinstance(code, int) else HTTPStatus.INTERNAL_SERVER_ERROR, orjson.dumps(content))
    return kind, content


def parsed(content: bytes | bytearray) -> Any:
    """Returns an answer's JSON. Raises `RequestFailed`."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        pass
    try:
        return orjson.loads(shallow(content))
    except orjson.JSONDecodeError:
        raise RequestFailed("the answer is not JSON") from None


def check_redirect(code: int, location: str | None) -> None:
    """Returns unless the answer is a redirect. Otherwise raises `RequestFailed`: no API server redirects, and the
    credentials are for no other server. Only the server of the location is named, because the rest may be a secret.
    """
    if not HTTPStatus.MULTIPLE_CHOICES <= code < HTTPStatus.BAD_REQUEST or code == HTTPStatus.NOT_MODIFIED:
        return
    where = "" if (server := _server_of(location)) is None else f" to {server}"
    raise RequestFailed(f"HTTP {code}: a redirect{where}, which is not followed; name the API server itself", code)


def _server_of(location: str | None) -> str | None:
    """Returns scheme, host and port of a URL; None if it has none."""
    try:
        parts = urlsplit(location or "")
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return None
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return printable(f"{parts.scheme or 'https'}://{host}{port}"[:_MOST_OF_A_SERVER]) if host else None


def check_status(code: int, content: bytes | bytearray, retry_after: str | None = None) -> None:
    """Returns if the status is a success. Otherwise raises the `RequestFailed` that says what the answer says."""
    if code < HTTPStatus.MULTIPLE_CHOICES:
        return
    if code == HTTPStatus.NOT_MODIFIED:
        raise NotModified("not modified", code)
    status: Any = {}
    try:
        status = orjson.loads(content)
        message = str(status["message"])
    except (orjson.JSONDecodeError, TypeError, KeyError):
        message = content.decode(errors="replace").strip()[:200]
    why, fields = f"HTTP {code}: {message}" if message else f"HTTP {code}", _fields(status)
    if code == HTTPStatus.NOT_FOUND:
        raise NotFound(why, code, fields, _object_name(status))
    if code == HTTPStatus.GONE:
        raise Gone(why, code, fields=fields, token=_token(status))
    # `isdigit` alone also takes digits that `float` refuses, such as "\u00b2".
    numeric = retry_after is not None and retry_after.isascii() and retry_after.isdigit()
    wait = min(float(retry_after), MAX_WAIT_SECONDS) if retry_after is not None and numeric else None
    raise RequestFailed(why, code, wait, fields)


def _fields(status: Any) -> str:
    """Returns the reason, the kind and the fields of a Status. Its messages may quote values and are left out."""
    try:
        details = mapping(mapping(status).get("details"))
        causes = (mapping(cause).get("field") for cause in sequence(details.get("causes")))
        words = (mapping(status).get("reason"), details.get("group"), details.get("kind"), *causes)
    except Malformed:
        return ""
    return " ".join(dict.fromkeys(word for word in words if isinstance(word, str) and word))


def _object_name(status: Any) -> str:
    """Returns the name of the missing object; empty for an answer about a path that is not served, which is no Status.

    Source: k8s.io/apimachinery, pkg/api/errors (NewNotFound), v0.35.4.
    """
    try:
        return text(mapping(mapping(status).get("details")).get("name")) or ""
    except Malformed:
        return ""


def _token(status: Any) -> str | None:
    """Returns the token with which a list whose version has expired goes on (API concepts, "Retrieving large results
    sets in chunks").
    """
    try:
        return text(mapping(mapping(status).get("metadata")).get("continue")) or None
    except Malformed:
        return None

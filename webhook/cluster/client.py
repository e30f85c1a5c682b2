"""Sending requests to the Kubernetes API, and saying in our own errors what went wrong."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import httpx
import orjson

from webhook import tracing
from webhook.cluster.access import Access
from webhook.cluster.requests import JSON, PAGE, Request, Write, page
from webhook.errors import Gone, NotFound, NotModified, RequestFailed
from webhook.model.projections import Resource
from webhook.model.reading import Malformed, mapping, sequence, text

# An answer that is not a watch: a list's page, or one object.
ANSWER_SECONDS = 15.0
CONNECT_SECONDS = 5.0
# A kubeconfig may name a program that asks somebody for credentials.
CREDENTIALS_SECONDS = 15.0
# A watch that is silent for so long is asked anew, from where it was: bookmarks come about once a minute, and a
# connection that nobody closed, such as to a machine that is gone, says nothing for ever.
SILENCE_SECONDS = 150.0
# An API server that has too much to do asks for a second. Whoever asks for an hour is not the API server.
MAX_WAIT_SECONDS = 60.0
# A code, who warns, and a quoted text.
_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class Answer(NamedTuple):
    """A parsed answer, the tag by which it is known, when it was given, as a Date header says it, and what it warns
    of.
    """

    content: Any
    etag: str | None
    date: str | None = None
    warnings: tuple[str, ...] = ()


class Client:
    """One cluster's API. Close it when done."""

    def __init__(self, access: Access, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._access = access
        self._http = httpx.AsyncClient(
            base_url=access.url,
            verify=access.tls,
            proxy=access.proxy,
            transport=transport,
            # The environment's proxies are not the cluster's.
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=8),
        )

    async def get(self, request: Request) -> Answer:
        """The answer to a request. Raises `RequestFailed`, more exactly `NotFound`, `Gone` or `NotModified`."""
        headers = {} if request.etag is None else {"if-none-match": request.etag}
        return await self._answer("GET", request.path, request.params, {"accept": request.accept, **headers})

    async def items(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        selector: Mapping[str, str] | None = None,
        limit: int = PAGE,
    ) -> AsyncGenerator[Any, None]:
        """The objects of a kind, page after page. Raises `RequestFailed`."""
        token: str | None = None
        while True:
            answer = await self.get(page(resource, namespace=namespace, limit=limit, token=token, selector=selector))
            try:
                found = mapping(answer.content)
                items, token = sequence(found.get("items")), text(mapping(found.get("metadata")).get("continue"))
            except Malformed as error:
                raise RequestFailed(f"the list is none: {error}") from None
            for raw in items:
                yield raw
            if token is None:
                return

    async def write(self, write: Write, allowed: Callable[[], None] | None = None) -> Any:
        """The object as it is after a change. Raises `RequestFailed`, more exactly `NotFound`.

        `allowed` is called at the last moment, and may raise: then the API server never has the whole request.
        """
        return (await self.told(write, allowed)).content

    async def told(self, write: Write, allowed: Callable[[], None] | None = None) -> Answer:
        """The whole answer to a change. As `write`."""
        headers = {"accept": JSON, "content-type": write.content_type}
        content = orjson.dumps(write.body)
        return await self._answer(write.method, write.path, write.params, headers, content, allowed)

    async def _answer(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        asking: Mapping[str, str],
        content: bytes | None = None,
        allowed: Callable[[], None] | None = None,
    ) -> Answer:
        built = await self._built(method, path, params, asking, content, ANSWER_SECONDS)
        if allowed is not None:
            # A connection may have to be made first, and a process may be frozen at any time.
            allowed()
            built.extensions = {**built.extensions, "trace": _before_the_body(allowed)}
        try:
            response = await self._http.send(built)
        except httpx.HTTPError as error:
            raise RequestFailed(self._said(error)) from None
        _check(response.status_code, response.content, response.headers.get("retry-after"))
        headers = response.headers
        return Answer(_parse(response.content), headers.get("etag"), headers.get("date"), _warnings(headers))

    def _said(self, error: httpx.HTTPError) -> str:
        """Where nobody was reached, also where: a kubeconfig may have led elsewhere than its user believes."""
        unreached = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        return f"{_told(error)} ({self._access.url})" if unreached else _told(error)

    async def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        """The lines of a watch until the server ends it, and first an empty one: the server has taken the request.

        Raises as `get` does, and `TimeoutError` after a silence.
        """
        headers = {"accept": request.accept}
        built = await self._built("GET", request.path, request.params, headers, None, SILENCE_SECONDS)
        try:
            response = await self._http.send(built, stream=True)
            try:
                if response.status_code != HTTPStatus.OK:
                    _check(response.status_code, await response.aread(), response.headers.get("retry-after"))
                rest = b""
                yield rest
                async for chunk in response.aiter_bytes():
                    *whole, rest = (rest + chunk).split(b"\n")
                    for line in whole:
                        yield line
            finally:
                await response.aclose()
        except httpx.ReadTimeout:
            raise TimeoutError from None
        except httpx.HTTPError as error:
            raise RequestFailed(self._said(error)) from None

    async def close(self) -> None:
        """Close every connection."""
        await self._http.aclose()

    async def _built(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        headers: Mapping[str, str],
        content: bytes | None,
        seconds: float,
    ) -> httpx.Request:
        try:
            # May read a file or run a program.
            async with asyncio.timeout(CREDENTIALS_SECONDS):
                authorization = await asyncio.to_thread(self._access.authorization)
        except OSError as error:
            raise RequestFailed(f"no credentials: {_told(error)}") from None
        except Exception as error:  # noqa: BLE001 - a plugin of a kubeconfig may fail in any way it likes
            # It quotes what the program printed, and that may be a token; what we say is in logs and in /readyz.
            raise RequestFailed(f"no credentials: {type(error).__name__}; kubectl says more") from None
        # What is compressed must be inflated, between two admissions; the network is near.
        headers = {**headers, "accept-encoding": "identity", **tracing.outgoing()}
        if authorization is not None:
            authorization = authorization.strip()
            if not (authorization.isascii() and authorization.isprintable()):
                # The HTTP library would say so too, and quote it, and what we say ends up in logs and in /readyz.
                raise RequestFailed("no credentials: what was found has characters that no header may have")
            headers["authorization"] = authorization
        extensions = {} if self._access.server_name is None else {"sni_hostname": self._access.server_name}
        return self._http.build_request(
            method,
            path,
            params=dict(params),
            headers=headers,
            content=content,
            extensions=extensions,
            timeout=httpx.Timeout(seconds, connect=CONNECT_SECONDS),
        )


def _warnings(headers: httpx.Headers) -> tuple[str, ...]:
    """The texts of the Warning headers (RFC 7234, 5.5), which an API server writes one in a line."""
    said = (found for line in headers.get_list("warning") for found in _WARNING.findall(line))
    return tuple(_ESCAPED.sub(r"\1", quoted) for quoted in said)


def _before_the_body(allowed: Callable[[], None]) -> Callable[[str, Any], Awaitable[None]]:
    """Calls `allowed` when the body is about to be sent: without it the API server does nothing."""

    async def trace(event: str, _: Any) -> None:
        if event.endswith("send_request_body.started"):
            allowed()

    return trace


def read_event(line: bytes) -> tuple[str, dict[str, Any]]:
    """A watch event's type and object. Raises `Gone` for an expired version, `RequestFailed` for any other error."""
    event = _parse(line)
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
        raise RequestFailed("a watch event is no object")
    kind, found = str(event.get("type")), event["object"]
    if kind == "ERROR":
        code = found.get("code")
        _check(code if isinstance(code, int) else HTTPStatus.INTERNAL_SERVER_ERROR, orjson.dumps(found))
    return kind, found


def _parse(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        raise RequestFailed("the answer is no JSON") from None


def _check(code: int, content: bytes, retry_after: str | None = None) -> None:
    if code < HTTPStatus.MULTIPLE_CHOICES:
        return
    if code == HTTPStatus.NOT_MODIFIED:
        raise NotModified("not modified", code)
    status: Any = {}
    try:
        status = orjson.loads(content)
        said = str(status["message"])
    except (orjson.JSONDecodeError, TypeError, KeyError):
        said = content.decode(errors="replace").strip()[:200]
    why, fields = f"HTTP {code}: {said}" if said else f"HTTP {code}", _fields(status)
    if code == HTTPStatus.NOT_FOUND:
        raise NotFound(why, code, fields=fields)
    if code == HTTPStatus.GONE:
        raise Gone(why, code, fields=fields)
    wait = min(float(retry_after), MAX_WAIT_SECONDS) if retry_after is not None and retry_after.isdigit() else None
    raise RequestFailed(why, code, wait, fields)


def _fields(status: Any) -> str:
    """What a Status is about: its reason, the kind and the fields. Its messages may quote values."""
    try:
        details = mapping(mapping(status).get("details"))
        causes = (mapping(cause).get("field") for cause in sequence(details.get("causes")))
        told = (mapping(status).get("reason"), details.get("group"), details.get("kind"), *causes)
    except Malformed:
        return ""
    return " ".join(dict.fromkeys(word for word in told if isinstance(word, str) and word))


def _told(error: BaseException) -> str:
    said = str(error).strip()
    return f"{type(error).__name__}: {said}" if said else type(error).__name__

"""Send requests to the Kubernetes API, and raise Rollcall's own errors for failures."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import httpx
import orjson

from webhook.cluster.access import Access
from webhook.cluster.deep_json import shallow
from webhook.cluster.requests import JSON, PAGE, Request, Write, page
from webhook.errors import AnswerTooLarge, Gone, NotFound, NotModified, RequestFailed
from webhook.model.projections import Resource
from webhook.model.reading import Malformed, mapping, sequence, text
from webhook.telemetry import spans

# The time for an answer that is not a watch: a page of a list, or one object.
ANSWER_SECONDS = 15.0
CONNECT_SECONDS = 5.0
# A kubeconfig may name a program that asks a person for credentials.
CREDENTIALS_SECONDS = 15.0
# A burst of requests reads the credentials once. A token that was replaced stays valid for longer.
CREDENTIALS_KEPT_SECONDS = 1.0
# A watch that is silent for this long is restarted from its last version. Bookmarks arrive about once a minute, and a
# broken connection, such as to a machine that is gone, stays silent forever.
SILENCE_SECONDS = 150.0
# An overloaded API server asks to wait about a second. A server that asks for an hour is not the API server.
MAX_WAIT_SECONDS = 60.0
# The limit of one answer, or of one line of a watch. An object has at most 3 MiB; the lists of all kinds and their
# schemas are longer.
MAX_ANSWER_BYTES = 32 * 1024 * 1024
# The limit of one page with more than one object. As Python objects JSON may take 24 times its bytes.
MAX_PAGE_BYTES = 2 * 1024 * 1024
# A page that was too large is requested again with this many times fewer objects.
_FEWER = 8
# How many pages are received at once: a process watches some twenty kinds.
_PAGES_AT_ONCE = 4
# How many requests, except watches, have a connection at once; the others wait. The reconciler has 32 gates, 8 gangs, 4
# pages, events and its lease in progress, which must not wait for slow gates. Together with the watches they fit into
# the descriptors that the server reserves (`server/descriptors.py`). httpx's own queue is not used, because it checks
# all waiting requests whenever one ends.
REQUESTS_AT_ONCE = 48
# A code, the agent that warns, and a quoted text.
_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class Answer(NamedTuple):
    """A parsed answer, its ETag, its time from the Date header, its warnings, and its size in bytes."""

    content: Any
    etag: str | None
    date: str | None = None
    warnings: tuple[str, ...] = ()
    size: int = 0


class Page(NamedTuple):
    """Some objects of a list, and the version of the whole list."""

    items: Sequence[Any]
    version: str | None


class Client:
    """The API of one cluster. Close it when done."""

    def __init__(
        self,
        access: Access,
        transport: httpx.AsyncBaseTransport | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        *,
        pooled: bool = False,
    ) -> None:
        """`pooled` is for thousands of requests. `transport` replaces the network in tests."""
        self._direct: httpx.AsyncBaseTransport | None = None
        if pooled and transport is None and access.proxy is None:
            # It takes 10 MB, which most processes do not need.
            from webhook.cluster.transport import PooledTransport  # noqa: PLC0415

            self._direct = transport = PooledTransport(access)
        self._access = access
        self._url = httpx.URL(access.url)
        # A kubeconfig may name a server below a path.
        self._path = self._url.path.rstrip("/")
        # The last credentials, and until when they are used.
        self._credentials: tuple[str | None, float] = (None, 0.0)
        self._connect_seconds = connect_seconds
        self._http = httpx.AsyncClient(
            verify=access.tls,
            proxy=_proxy(access),
            transport=transport,
            # `Access` decides which proxies of the environment are for this cluster.
            trust_env=False,
            # `_asking` limits the connections. A watch keeps its connection, so it must never wait for a free one.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=8),
        )
        self._asking = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._receiving = asyncio.Semaphore(_PAGES_AT_ONCE)

    async def get(self, request: Request) -> Answer:
        """Return the answer to a request. Raises `RequestFailed`, or one of `NotFound`, `Gone`, `AnswerTooLarge` and
        `NotModified`.
        """
        return await self._get(request, MAX_ANSWER_BYTES)

    async def _get(self, request: Request, most: int) -> Answer:
        headers = {} if request.etag is None else {"if-none-match": request.etag}
        built = await self._built("GET", request.path, request.params, {"accept": request.accept, **headers})
        return await self._sent(built, most)

    async def items(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        selector: Mapping[str, str] | None = None,
        limit: int = PAGE,
        accept: str = JSON,
    ) -> AsyncGenerator[Any, None]:
        """Yield the objects of a kind; `accept` may ask for metadata only. Raises `RequestFailed`."""
        async for found in self.pages(resource, namespace=namespace, selector=selector, limit=limit, accept=accept):
            for raw in found.items:
                yield raw

    async def pages(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        selector: Mapping[str, str] | None = None,
        limit: int = PAGE,
        accept: str = JSON,
        again: Callable[[RequestFailed], Awaitable[bool]] | None = None,
    ) -> AsyncGenerator[Page, None]:
        """Yield the objects of a kind, page by page. A caller that keeps no page has one in memory at a time: at most
        `MAX_PAGE_BYTES`, or a single object. Raises `RequestFailed`.

        `again` is asked whether a page that failed is requested once more. If the version of the list has expired
        meanwhile (410), the rest is then read as it is now, by the token that comes with that answer.
        """
        token: str | None = None
        count = limit
        while True:
            wanted = page(resource, namespace=namespace, limit=count, token=token, selector=selector, accept=accept)
            try:
                async with self._receiving:
                    answer = await self._get(wanted, MAX_PAGE_BYTES if count > 1 else MAX_ANSWER_BYTES)
            except AnswerTooLarge:
                if count == 1:
                    raise
                count = max(1, count // _FEWER)
                continue
            except RequestFailed as error:
                if again is None or not await again(error):
                    raise
                if isinstance(error, Gone):
                    token = error.token
                continue
            if answer.size < MAX_PAGE_BYTES // 4:
                count = min(limit, count * 2)
            try:
                found = mapping(answer.content)
                metadata = mapping(found.get("metadata"))
                version, token = text(metadata.get("resourceVersion")), text(metadata.get("continue"))
                read = Page(sequence(found.get("items")), version)
            except Malformed as error:
                raise RequestFailed(f"the answer is not a list: {error}") from None
            del answer, found
            yield read
            del read
            if token is None:
                return

    async def write(self, write: Write, allowed: Callable[[], None] | None = None) -> Any:
        """Return the object after a change. Raises `RequestFailed` or `NotFound`.

        `allowed` is called at the last moment and may raise: then the API server never gets the whole request.
        """
        return (await self.told(write, allowed)).content

    async def told(self, write: Write, allowed: Callable[[], None] | None = None) -> Answer:
        """Return the whole answer to a change. See `write`."""
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
        built = await self._built(method, path, params, asking, content)
        if allowed is not None:
            # A new connection may be needed first, and the process may be suspended at any time.
            allowed()
            guards = {"trace": _before_the_body(allowed), "before_body": allowed}
            built.extensions = {**built.extensions, **guards}
        return await self._sent(built, MAX_ANSWER_BYTES)

    async def _sent(self, built: httpx.Request, most: int) -> Answer:
        """Return the answer to a request, of at most `most` bytes."""
        await self._turn()
        try:
            response = await self._send(built)
            try:
                content = await _received(response, most)
            finally:
                await response.aclose()
        except httpx.HTTPError as error:
            raise RequestFailed(self._said(error)) from None
        finally:
            self._asking.release()
        headers = response.headers
        _check(response.status_code, content, headers.get("retry-after"))
        return Answer(_parse(content), headers.get("etag"), headers.get("date"), _warnings(headers), len(content))

    async def _send(self, built: httpx.Request) -> httpx.Response:
        """Return the answer to a request, its body unread. Raises `httpx.HTTPError`."""
        if self._direct is not None:
            # httpx would look for redirects, cookies and logins.
            return await self._direct.handle_async_request(built)
        return await self._http.send(built, stream=True)

    async def _turn(self) -> None:
        """Wait until fewer than `REQUESTS_AT_ONCE` requests have a connection, and count one more."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._asking.acquire()
        except TimeoutError:
            why = f"{REQUESTS_AT_ONCE} other requests were not answered within {ANSWER_SECONDS:g} s"
            raise RequestFailed(f"not sent: {why}") from None

    def _said(self, error: httpx.HTTPError) -> str:
        """Return the text of an error. If the connection failed, add the URL and the proxy: a kubeconfig or a proxy may
        point to an unexpected server.
        """
        if not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
            return _told(error)
        proxy = None if self._access.proxy is None else httpx.URL(self._access.proxy)
        # Without the user name and the password in the URL.
        through = "" if proxy is None else f" through the proxy {proxy.scheme}://{proxy.netloc.decode('ascii')}"
        return f"{_told(error)} ({self._access.url}{through})"

    async def lines(self, request: Request) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch until the server ends it. The first line is empty: the server has accepted the
        request.

        Raises the same errors as `get`, and `TimeoutError` after `SILENCE_SECONDS`.
        """
        headers = {"accept": request.accept}
        built = await self._built("GET", request.path, request.params, headers, seconds=SILENCE_SECONDS)
        try:
            response = await self._send(built)
            try:
                if response.status_code != HTTPStatus.OK:
                    content = await _received(response, MAX_ANSWER_BYTES)
                    _check(response.status_code, content, response.headers.get("retry-after"))
                rest = b""
                yield rest
                async for chunk in response.aiter_bytes():
                    *whole, rest = (rest + chunk).split(b"\n")
                    if len(rest) > MAX_ANSWER_BYTES:
                        raise AnswerTooLarge(_too_large(MAX_ANSWER_BYTES))
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
        content: bytes | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> httpx.Request:
        # Decompression would delay admissions, and the network is near.
        headers = {**headers, "accept-encoding": "identity", **spans.outgoing()}
        if (authorization := await self._authorization()) is not None:
            headers["authorization"] = authorization
        extensions = {} if self._access.server_name is None else {"sni_hostname": self._access.server_name}
        query = f"?{urlencode(params, quote_via=quote)}" if params else ""
        return self._http.build_request(
            method,
            # httpx would parse a text three times, which takes as long as the rest of a request.
            self._url.copy_with(raw_path=f"{self._path}{path}{query}".encode()),
            headers=headers,
            content=content,
            extensions=extensions,
            timeout=httpx.Timeout(seconds, connect=self._connect_seconds),
        )

    async def _authorization(self) -> str | None:
        """Return the value of the header; it is read again after `CREDENTIALS_KEPT_SECONDS`. Raises `RequestFailed`."""
        known, until = self._credentials
        if time.monotonic() < until:
            return known
        try:
            # This may read a file or run a program.
            async with asyncio.timeout(CREDENTIALS_SECONDS):
                authorization = await asyncio.to_thread(self._access.authorization)
        except OSError as error:
            raise RequestFailed(f"no credentials: {_told(error)}") from None
        except Exception as error:  # noqa: BLE001 - a plugin of a kubeconfig may fail in any way it likes
            # The error quotes the output of the program, which may be a token, and our text is written to logs and
            # /readyz.
            raise RequestFailed(f"no credentials: {type(error).__name__}; run kubectl to see why") from None
        if authorization is not None:
            authorization = authorization.strip()
            if not (authorization.isascii() and authorization.isprintable()):
                # The HTTP library would raise too, but quote the value, and our text is written to logs and /readyz.
                raise RequestFailed("no credentials: they have characters that a header must not have")
        self._credentials = authorization, time.monotonic() + CREDENTIALS_KEPT_SECONDS
        return authorization


async def _received(response: httpx.Response, most: int) -> bytearray:
    """Return the body of an answer. Raises `AnswerTooLarge` as soon as it is longer than `most` bytes."""
    content = bytearray()
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > most:
            raise AnswerTooLarge(_too_large(most))
    return content


def _too_large(most: int) -> str:
    return f"the answer has more than {most} bytes, the most that are read at once"


def _proxy(access: Access) -> httpx.Proxy | None:
    if access.proxy is None:
        return None
    # The certificate of an https proxy is verified like the one of the API server, as in Go.
    return httpx.Proxy(access.proxy, ssl_context=access.tls if access.proxy.startswith("https://") else None)


def _warnings(headers: httpx.Headers) -> tuple[str, ...]:
    """Return the texts of the Warning headers (RFC 7234, 5.5). An API server writes one text in a line."""
    said = (found for line in headers.get_list("warning") for found in _WARNING.findall(line))
    return tuple(_ESCAPED.sub(r"\1", quoted) for quoted in said)


def _before_the_body(allowed: Callable[[], None]) -> Callable[[str, Any], Awaitable[None]]:
    """Return a trace function that calls `allowed` just before the body is sent. Without the body the API server does
    nothing.
    """

    async def trace(event: str, _: Any) -> None:
        if event.endswith("send_request_body.started"):
            allowed()

    return trace


def read_event(line: bytes) -> tuple[str, dict[str, Any]]:
    """Return a watch event's type and object. Raises `Gone` for an expired version, `RequestFailed` for any other
    error.
    """
    event = _parse(line)
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
        raise RequestFailed("a watch event is not an object")
    kind, found = str(event.get("type")), event["object"]
    if kind == "ERROR":
        code = found.get("code")
        _check(code if isinstance(code, int) else HTTPStatus.INTERNAL_SERVER_ERROR, orjson.dumps(found))
    return kind, found


def _parse(content: bytes | bytearray) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        pass
    try:
        return orjson.loads(shallow(content))
    except orjson.JSONDecodeError:
        raise RequestFailed("the answer is not JSON") from None


def _check(code: int, content: bytes | bytearray, retry_after: str | None = None) -> None:
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
        raise Gone(why, code, fields=fields, token=_token(status))
    # `isdigit` alone also takes digits that `float` refuses, such as "\u00b2".
    numeric = retry_after is not None and retry_after.isascii() and retry_after.isdigit()
    wait = min(float(retry_after), MAX_WAIT_SECONDS) if retry_after is not None and numeric else None
    raise RequestFailed(why, code, wait, fields)


def _fields(status: Any) -> str:
    """Return the reason, the kind and the fields of a Status. Its messages may quote values and are left out."""
    try:
        details = mapping(mapping(status).get("details"))
        causes = (mapping(cause).get("field") for cause in sequence(details.get("causes")))
        told = (mapping(status).get("reason"), details.get("group"), details.get("kind"), *causes)
    except Malformed:
        return ""
    return " ".join(dict.fromkeys(word for word in told if isinstance(word, str) and word))


def _token(status: Any) -> str | None:
    """Return the token with which a list whose version has expired goes on (API concepts, "Retrieving large results
    sets in chunks").
    """
    try:
        return text(mapping(mapping(status).get("metadata")).get("continue")) or None
    except Malformed:
        return None


def _told(error: BaseException) -> str:
    said = str(error).strip()
    return f"{type(error).__name__}: {said}" if said else type(error).__name__

"""The client of the Kubernetes API: sends requests, and raises Rollcall's own errors for failures.

`HttpxTransport` supports proxies, needs little memory, and is for processes that send few requests. `PooledTransport`
is for thousands of requests; it is imported only where one is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import httpx
import orjson

from webhook.cluster import requests, spans
from webhook.cluster.access import Access
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.errors import AnswerTooLarge, FactsUnavailable, Gone, RequestFailed
from webhook.model.projections import Resource
from webhook.model.reading import Malformed, mapping, sequence, text


class HttpxTransport:
    """Connections to one cluster, of which eight are kept for the next requests."""

    def __init__(self, access: Access, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """`transport` replaces the network in tests."""
        self._server_name = access.server_name
        self._url = httpx.URL(access.url)
        self._http = httpx.AsyncClient(
            verify=access.tls,
            proxy=_proxy(access),
            transport=transport,
            # `Access` decides which proxies of the environment are for this cluster.
            trust_env=False,
            # `Client` limits the requests at once. A watch keeps its connection, so it must never wait for a free one.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=8),
        )

    async def send(self, sending: requests.Sending) -> HttpxReply:
        """Sends a request. Raises `httpx.TransportError`, and what `Sending.allowed` raises."""
        extensions: dict[str, Any] = {} if self._server_name is None else {"sni_hostname": self._server_name}
        if sending.allowed is not None:
            extensions["trace"] = _body_trace(sending.allowed)
        built = self._http.build_request(
            sending.method,
            # httpx would parse a text three times, which takes as long as the rest of a request.
            self._url.copy_with(raw_path=sending.target.encode()),
            headers=sending.headers,
            content=sending.content,
            extensions=extensions,
            timeout=httpx.Timeout(sending.seconds, connect=sending.connect_seconds),
        )
        return HttpxReply(await self._http.send(built, stream=True))

    async def aclose(self) -> None:
        """Closes every connection."""
        await self._http.aclose()


class HttpxReply:
    """An answer, as `Reply`."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status_code

    def header(self, name: str) -> str | None:
        """Returns the first header of that name."""
        return next(iter(self.headers(name)), None)

    def headers(self, name: str) -> list[str]:
        return self._response.headers.get_list(name)

    def chunks(self) -> AsyncIterator[bytes]:
        """Returns the body, as it arrives. Raises `httpx.TransportError`."""
        return self._response.aiter_bytes()

    async def aclose(self) -> None:
        """Frees the connection."""
        await self._response.aclose()


def _proxy(access: Access) -> httpx.Proxy | None:
    if access.proxy is None:
        return None
    # The certificate of an https proxy is verified like the one of the API server, as in Go.
    return httpx.Proxy(access.proxy, ssl_context=access.tls if access.proxy.startswith("https://") else None)


def _body_trace(allowed: Callable[[], None]) -> Callable[[str, Any], Awaitable[None]]:
    """Returns a trace function that calls `allowed` just before the body is sent."""

    async def trace(event: str, _: Any) -> None:
        if event.endswith("send_request_body.started"):
            allowed()

    return trace


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


class ApiAnswer(NamedTuple):
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
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`pooled` is for thousands of requests. `transport` replaces the network in tests."""
        self._transport: requests.Transport
        if pooled and transport is None and access.proxy is None:
            # It takes 10 MB, which most processes do not need.
            from webhook.cluster.pooled_transport import PooledTransport  # noqa: PLC0415

            self._transport = PooledTransport(access)
        else:
            self._transport = HttpxTransport(access, transport)
        self._access = access
        self._clock = clock
        # A kubeconfig may name a server below a path.
        self._path = httpx.URL(access.url).path.rstrip("/")
        # The last credentials, and until when they are used.
        self._credentials: tuple[str | None, float] = (None, 0.0)
        self._connect_seconds = connect_seconds
        self._asking = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._receiving = asyncio.Semaphore(_PAGES_AT_ONCE)

    async def get(self, request: requests.ApiRequest) -> ApiAnswer:
        """Returns the answer to a request. Raises `RequestFailed`, or one of `NotFound`, `Gone`, `AnswerTooLarge` and
        `NotModified`.
        """
        return await self._get(request, MAX_ANSWER_BYTES)

    async def _get(self, request: requests.ApiRequest, most: int) -> ApiAnswer:
        headers = {"accept": request.accept}
        if request.etag is not None:
            headers["if-none-match"] = request.etag
        sending = await self._sending("GET", request.path, request.params, headers, seconds=ANSWER_SECONDS)
        return await self._sent(sending, most)

    async def items(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        selector: Mapping[str, str] | None = None,
        limit: int = requests.PAGE,
        accept: str = requests.JSON,
    ) -> AsyncGenerator[Any, None]:
        """Yields the objects of a kind; `accept` may ask for metadata only. Raises `RequestFailed`."""
        pages = self.pages(resource, namespace=namespace, selector=selector, limit=limit, accept=accept)
        async for batch in pages:
            for raw in batch.items:
                yield raw

    async def pages(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        selector: Mapping[str, str] | None = None,
        limit: int = requests.PAGE,
        accept: str = requests.JSON,
        again: Callable[[RequestFailed], Awaitable[bool]] | None = None,
    ) -> AsyncGenerator[Page, None]:
        """Yields the objects of a kind, page by page. A caller that keeps no page has one in memory at a time: at most
        `MAX_PAGE_BYTES`, or a single object. Raises `RequestFailed`.

        `again` is asked whether a page that failed is requested once more. If the version of the list has expired
        meanwhile (410), the rest is then read as it is now, by the token that comes with that answer.
        """
        token: str | None = None
        count = limit
        while True:
            request = requests.page(
                resource, namespace=namespace, limit=count, token=token, selector=selector, accept=accept
            )
            try:
                async with self._receiving:
                    answer = await self._get(request, MAX_PAGE_BYTES if count > 1 else MAX_ANSWER_BYTES)
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
                content = mapping(answer.content)
                metadata = mapping(content.get("metadata"))
                version, token = text(metadata.get("resourceVersion")), text(metadata.get("continue"))
                read = Page(sequence(content.get("items")), version)
            except Malformed as error:
                raise RequestFailed(f"the answer is not a list: {error}") from None
            del answer, content
            yield read
            del read
            if token is None:
                return

    async def write(self, write: requests.Write, allowed: Callable[[], None] | None = None) -> Any:
        """Returns the object after a change. Raises `RequestFailed` or `NotFound`.

        `allowed` is called at the last moment and may raise: then the API server never gets the whole request.
        """
        return (await self.write_answer(write, allowed)).content

    async def write_answer(self, write: requests.Write, allowed: Callable[[], None] | None = None) -> ApiAnswer:
        """Returns the whole answer to a change. See `write`."""
        headers = {"accept": requests.JSON, "content-type": write.content_type}
        content = orjson.dumps(write.body)
        sending = await self._sending(write.method, write.path, write.params, headers, content, seconds=ANSWER_SECONDS)
        if allowed is not None:
            # A new connection may be needed first, and the process may be suspended at any time.
            allowed()
            sending = sending._replace(allowed=allowed)
        return await self._sent(sending, MAX_ANSWER_BYTES)

    async def _sent(self, sending: requests.Sending, most: int) -> ApiAnswer:
        await self._turn()
        try:
            reply = await self._transport.send(sending)
            try:
                content = await requests.received(reply, most)
            finally:
                await reply.aclose()
        except httpx.HTTPError as error:
            raise RequestFailed(self._failure_text(error)) from None
        finally:
            self._asking.release()
        _check(reply, content, sending)
        return ApiAnswer(
            requests.parsed(content),
            reply.header("etag"),
            reply.header("date"),
            requests.warnings_in(reply),
            len(content),
        )

    async def _turn(self) -> None:
        """Waits until fewer than `REQUESTS_AT_ONCE` requests have a connection, and counts one more."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._asking.acquire()
        except TimeoutError:
            why = f"{REQUESTS_AT_ONCE} other requests were not answered within {ANSWER_SECONDS:g} s"
            raise RequestFailed(f"not sent: {why}") from None

    def _failure_text(self, error: httpx.HTTPError) -> str:
        """Returns the text of an error. If the connection failed, adds the URL and the proxy: a kubeconfig or a proxy
        may point to an unexpected server.
        """
        if not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
            return _error_text(error)
        proxy = None if self._access.proxy is None else httpx.URL(self._access.proxy)
        # Without the user name and the password in the URL.
        through = "" if proxy is None else f" through the proxy {proxy.scheme}://{proxy.netloc.decode('ascii')}"
        return f"{_error_text(error)} ({self._access.url}{through})"

    async def lines(self, request: requests.ApiRequest) -> AsyncGenerator[bytes, None]:
        """Yields the lines of a watch until the server ends it. The first line is empty: the server has accepted the
        request.

        Raises the same errors as `get`, and `TimeoutError` after `SILENCE_SECONDS`.
        """
        headers = {"accept": request.accept}
        sending = await self._sending("GET", request.path, request.params, headers, seconds=SILENCE_SECONDS)
        try:
            reply = await self._transport.send(sending)
            try:
                if reply.status != HTTPStatus.OK:
                    content = await requests.received(reply, MAX_ANSWER_BYTES)
                    _check(reply, content, sending)
                rest = b""
                yield rest
                async for chunk in reply.chunks():
                    *whole, rest = (rest + chunk).split(b"\n")
                    if len(rest) > MAX_ANSWER_BYTES:
                        raise AnswerTooLarge(requests.too_large(MAX_ANSWER_BYTES))
                    for line in whole:
                        yield line
            finally:
                await reply.aclose()
        except httpx.ReadTimeout:
            raise TimeoutError from None
        except httpx.HTTPError as error:
            raise RequestFailed(self._failure_text(error)) from None

    async def close(self) -> None:
        """Closes every connection."""
        await self._transport.aclose()

    async def _sending(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        headers: Mapping[str, str],
        content: bytes | None = None,
        *,
        seconds: float,
    ) -> requests.Sending:
        # Decompression would delay admissions, and the network is near.
        headers = {**headers, "accept-encoding": "identity", **spans.outgoing()}
        if (authorization := await self._authorization()) is not None:
            headers["authorization"] = authorization
        query = f"?{urlencode(params, quote_via=quote)}" if params else ""
        return requests.Sending(method, f"{self._path}{path}{query}", headers, content, seconds, self._connect_seconds)

    async def _authorization(self) -> str | None:
        """Returns the value of the header; it is read again after `CREDENTIALS_KEPT_SECONDS`. Raises
        `RequestFailed`.
        """
        header, until = self._credentials
        if self._clock.monotonic() < until:
            return header
        try:
            # This may read a file or run a program.
            async with asyncio.timeout(CREDENTIALS_SECONDS):
                authorization = await asyncio.to_thread(self._access.authorization)
        except OSError as error:
            raise RequestFailed(f"no credentials: {_error_text(error)}") from None
        except Exception as error:  # noqa: BLE001 - a plugin of a kubeconfig may fail in any way it likes
            # The error quotes the output of the program, which may be a token, and our text is written to logs and
            # /readyz.
            raise RequestFailed(f"no credentials: {type(error).__name__}; run kubectl to see why") from None
        if authorization is not None:
            authorization = authorization.strip()
            if not (authorization.isascii() and authorization.isprintable()):
                # The HTTP library would raise too, but quote the value, and our text is written to logs and /readyz.
                raise RequestFailed("no credentials: they have characters that a header must not have")
        self._credentials = authorization, self._clock.monotonic() + CREDENTIALS_KEPT_SECONDS
        return authorization


def _check(reply: requests.Reply, content: bytearray, sent: requests.Sending) -> None:
    """Returns if the answer to `sent` is a success. Otherwise raises the `RequestFailed` that says what it says,
    without our credentials: a proxy may quote what it refuses, and our text is written to logs and /readyz.
    """
    if reply.status >= HTTPStatus.MULTIPLE_CHOICES:
        for secret in sent.headers.get("authorization", "").split():
            # A scheme, such as Bearer, and the credentials.
            if len(secret) > len("Negotiate"):
                content = content.replace(secret.encode(), b"***")
    requests.check_redirect(reply.status, reply.header("location"))
    requests.check_status(reply.status, content, reply.header("retry-after"))


def _error_text(error: BaseException) -> str:
    message = str(error).strip()
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


# Enough for another continent, and a person has an answer within two seconds. For name, connection and TLS each.
REACH_SECONDS = 1.0


async def reach(access: Access, transport: httpx.AsyncBaseTransport | None = None) -> None:
    """Returns if the API server answers and accepts the credentials. Raises `FactsUnavailable`."""
    client = Client(access, transport, connect_seconds=REACH_SECONDS)
    try:
        await client.get(requests.ApiRequest("/version"))
    except RequestFailed as error:
        if error.code == HTTPStatus.UNAUTHORIZED:
            raise FactsUnavailable(f"the cluster {access.url} does not accept the credentials: {error}") from None
        # Any other code is an answer: it may be forbidden to read the version. A redirect is one of another server.
        if error.code < HTTPStatus.BAD_REQUEST:
            # A failed connection names it.
            server = "" if access.url in str(error) else f" {access.url}"
            raise FactsUnavailable(
                f"cannot connect to the cluster{server}: {error}; is it the right context?"
            ) from None
    finally:
        await client.close()

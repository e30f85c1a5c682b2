"""The client for thousands of requests, against a server on a real socket: it answers and fails like the other one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import pytest

from tests.unit.cluster.scripted import NO_TLS
from tests.waiting import LIMIT_SECONDS
from webhook.backends.koordinator.gangs import ELASTIC_QUOTAS
from webhook.cluster import client as asking
from webhook.cluster import requests
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.errors import NotFound, RequestFailed

READ = requests.read(ELASTIC_QUOTAS.resource, "quota", "team-a")
WATCH = requests.watch(ELASTIC_QUOTAS.resource, "5", 60)
WRITE = requests.create(ELASTIC_QUOTAS.resource, {"metadata": {"namespace": "team-a", "name": "quota"}})
Ask = Callable[["Server"], AbstractAsyncContextManager[Client]]
EVENT = b'{"type":"BOOKMARK","object":{}}\n'


def answer(code: int, body: bytes, *headers: str) -> bytes:
    lines = (f"HTTP/1.1 {code} Said", f"content-length: {len(body)}", *headers)
    return "\r\n".join((*lines, "", "")).encode() + body


class Server:
    """Answers each request with the next of `answers`; after the last it hangs up. An answer of None is never given."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.connections = 0
        self.requests: list[bytes] = []
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                body = await reader.readexactly(int(length[0].partition(b":")[2])) if length else b""
                self.requests.append(head + body)
                said = self.answers.pop(0)
                if said is None:
                    await reader.read()
                    return
                writer.write(said)
        except (EOFError, OSError):
            pass
        finally:
            self.ended.set()
            writer.close()


@asynccontextmanager
async def asked(server: Server, *, pooled: bool) -> AsyncIterator[Client]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    access = Access(f"http://127.0.0.1:{port}", NO_TLS, lambda: "Bearer t")
    found = Client(access, connect_seconds=LIMIT_SECONDS, pooled=pooled)
    try:
        yield found
    finally:
        await found.close()
        listening.close()


@pytest.fixture(params=[True, False], ids=["pooled", "alone"])
def pooled(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def ask(pooled: bool) -> Ask:
    return lambda server: asked(server, pooled=pooled)


async def test_a_connection_is_kept_for_the_next_request(ask: Ask) -> None:
    server = Server(answer(200, b'{"a":1}', 'etag: "7"'), answer(201, b'{"a":2}'), answer(404, b'{"message":"none"}'))
    async with ask(server) as client:
        found = await client.get(READ)
        assert (found.content, found.etag) == ({"a": 1}, '"7"')
        assert await client.write(WRITE) == {"a": 2}
        with pytest.raises(NotFound, match="none"):
            await client.get(READ)
        assert server.connections == 1
    first, second, _ = server.requests
    assert first.startswith(b"GET /apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/team-a/elasticquotas/quota HTTP/1.1")
    assert b"\r\nauthorization: bearer t\r\n" in first.lower()
    assert b"\r\naccept-encoding: identity\r\n" in first.lower()
    assert second.endswith(b'{"metadata":{"namespace":"team-a","name":"quota"}}')


@pytest.mark.parametrize("code", [300, 301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "where"),
    [
        ("https://login.example.com/?next=secret", " to https://login.example.com,"),
        ("http://10.0.0.9:8080/version", " to http://10.0.0.9:8080,"),
        ("//[::1]:6443/", " to https://[::1]:6443,"),
        ("file:///etc/passwd", "a redirect,"),
        ("/login?token=secret", "a redirect,"),
        ("http://[", "a redirect,"),
        (None, "a redirect,"),
    ],
)
async def test_a_redirect_is_not_followed_and_says_where_it_leads(
    ask: Ask, code: int, location: str | None, where: str
) -> None:
    headers = () if location is None else (f"location: {location}",)
    server = Server(*[answer(code, b"", *headers)] * 3)
    async with ask(server) as client:
        for asked_for in (client.get(READ), client.write(WRITE), anext(client.lines(WATCH))):
            with pytest.raises(RequestFailed, match=f"HTTP {code}: ") as raised:
                await asked_for
            assert where in str(raised.value)
            assert "secret" not in str(raised.value)
    assert len(server.requests) == 3


async def test_a_query_arrives_as_it_was_asked(ask: Ask) -> None:
    server = Server(answer(200, b'{"items":[],"metadata":{"resourceVersion":"5"}}'))
    async with ask(server) as client:
        selector = {"labelSelector": "a in (b, c),d=e+f"}
        assert [one async for one in client.items(ELASTIC_QUOTAS.resource, selector=selector)] == []
    assert b"labelSelector=a%20in%20%28b%2C%20c%29%2Cd%3De%2Bf" in server.requests[0]


async def test_a_server_that_hangs_up_is_a_failure(ask: Ask) -> None:
    cut = answer(200, b'{"a":1}').replace(b"content-length: 7", b"content-length: 70")
    server = Server(cut)
    async with ask(server) as client:
        with pytest.raises(RequestFailed):
            await client.get(READ)


async def test_an_answer_that_is_broken_in_its_middle_is_a_failure(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ANSWER_SECONDS", 0.3)
    server = Server(b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{"a":\r\n<html>\r\n', None)
    async with ask(server) as client:
        with pytest.raises(RequestFailed):
            await client.get(READ)


async def test_a_port_without_a_server_is_named(pooled: bool) -> None:
    client = Client(Access("http://127.0.0.1:1", NO_TLS, lambda: None), pooled=pooled)
    with pytest.raises(RequestFailed, match=r"^ConnectError: .*\(http://127\.0\.0\.1:1\)"):
        await client.get(READ)
    await client.close()


async def test_a_silent_server_is_given_up(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ANSWER_SECONDS", 0.2)

    server = Server(None)
    async with ask(server) as client:
        with pytest.raises(RequestFailed, match="ReadTimeout"):
            await client.write(WRITE)


async def test_a_silent_watch_ends_and_one_that_is_left_frees_its_connection(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "SILENCE_SECONDS", 0.3)

    server = Server(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n20\r\n" + EVENT + b"\r\n", None)
    async with ask(server) as client:
        with pytest.raises(TimeoutError):
            async for _ in client.lines(WATCH):
                pass
        await server.ended.wait()
        server.answers = [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n20\r\n" + EVENT + b"\r\n", None]
        server.ended.clear()
        async with aclosing(client.lines(WATCH)) as lines:
            assert [await anext(lines), await anext(lines)] == [b"", EVENT.strip()]
        await server.ended.wait()

"""Readiness probes the server's own port. A failure of the probe itself makes no server unready."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.e2e.programs import free_port
from tests.unit.server.certificate_issuer import Authority
from webhook.certificates.files import Pair, load_pair, server_context
from webhook.server import serving
from webhook.server.serving import NOT_YET, TRIES, SelfProbe
from webhook.server.state import ServerState

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def healthy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    assert (await reader.readline()).startswith(b"GET /healthz ")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    await writer.drain()
    writer.transport.abort()


async def failing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n")
    await writer.drain()
    writer.transport.abort()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.transport.abort()


@asynccontextmanager
async def port(context: ssl.SSLContext, answer: Answer = healthy) -> AsyncIterator[tuple[str, int]]:
    """A TLS port that answers so."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return load_pair(*Authority(tmp_path).issue("tls"))


@pytest.fixture
def state(state: ServerState, pair: Pair) -> ServerState:
    """The state of a server that has loaded `pair`."""
    return replace(state, certificate=pair)


def own_port(state: ServerState) -> list[str]:
    """What keeps it from being ready that has to do with its port."""
    return [reason for reason in state.unready() if reason.startswith("own port")]


async def test_a_port_is_not_ready_before_its_first_successful_probe(state: ServerState, pair: Pair) -> None:
    async with port(server_context(pair)) as address:
        probe = SelfProbe(state, address, client_ca=False)
        assert own_port(state) == [NOT_YET]
        await probe.look()
        assert own_port(state) == []


async def test_a_port_with_another_certificate_is_not_ours(state: ServerState, tmp_path: Path) -> None:
    other = load_pair(*Authority(tmp_path).issue("other"))
    async with port(server_context(other)) as address:
        await SelfProbe(state, address, client_ca=False).look()
    (why,) = own_port(state)
    assert "certificate other than" in why


async def test_a_port_that_does_not_answer_fails_the_probe(
    state: ServerState, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "TRY_SECONDS", 0.2)

    async def seen(answer: Answer) -> list[str]:
        async with port(server_context(pair), answer) as address:
            await SelfProbe(state, address, client_ca=False).look()
        return own_port(state)

    assert await seen(failing) == ["own port: the answer is b'HTTP/1.1 500 Internal Server Error\\r\\n'"]
    assert await seen(silent) == ["own port: no answer within 0.2 s"]
    await SelfProbe(state, ("127.0.0.1", free_port()), client_ca=False).look()
    (why,) = own_port(state)
    assert why.startswith("own port: no answer: ")


async def test_a_probe_failure_is_logged_when_it_begins_and_when_it_counts(state: ServerState) -> None:
    """And not twice a second for as long as it lasts."""
    with capture_logs() as lines:
        probe = SelfProbe(state, ("127.0.0.1", free_port()), client_ca=False)
        for _ in range(3 * TRIES):
            await probe.look()
    assert [(line["event"], line["tries"]) for line in lines] == [("own port", 1), ("own port", TRIES)]
    assert all(line["why"].removeprefix("no answer: ") for line in lines)


async def test_a_port_without_its_client_authorities_is_not_probed(state: ServerState) -> None:
    state.unguarded, state.refused = True, {"client-ca": "callers.crt: no such file"}
    with capture_logs() as lines:
        await SelfProbe(state, ("127.0.0.1", free_port()), client_ca=True).look()
    assert (own_port(state), lines) == ([NOT_YET], [])


async def test_a_port_stays_ready_until_several_probes_have_failed(state: ServerState, pair: Pair) -> None:
    async with port(server_context(pair)) as address:
        probe = SelfProbe(state, address, client_ca=False)
        await probe.look()
    for _ in range(TRIES - 1):
        await probe.look()
        assert own_port(state) == []
    await probe.look()
    assert len(own_port(state)) == 1
    # One answer makes up for all of them.
    listening = socket.create_server(address)
    server = await asyncio.start_server(healthy, sock=listening, ssl=server_context(pair))
    async with server:
        await probe.look()
        assert own_port(state) == []


async def test_a_certificate_that_changes_between_two_probes_is_not_a_failure(
    state: ServerState, pair: Pair, tmp_path: Path
) -> None:
    following = load_pair(*Authority(tmp_path).issue("following"))

    async def exchanged(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state.certificate = following
        await healthy(reader, writer)

    async with port(server_context(pair), exchanged) as address:
        await SelfProbe(state, address, client_ca=False).look()
    assert own_port(state) == []


async def test_with_required_client_certificates_the_probe_checks_the_handshake(
    state: ServerState, pair: Pair, tmp_path: Path
) -> None:
    context = server_context(pair)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(Authority(tmp_path / "callers").file)

    async def story(client_ca: bool) -> list[str]:
        async with port(context) as address:
            await SelfProbe(state, address, client_ca=client_ca).look()
        return own_port(state)

    assert await story(client_ca=True) == []
    assert len(await story(client_ca=False)) == 1


async def test_without_a_certificate_there_is_nothing_to_probe(state: ServerState) -> None:
    state.certificate = None
    probe = SelfProbe(state, ("127.0.0.1", 1), client_ca=False)
    await probe.look()
    assert own_port(state) == [NOT_YET]

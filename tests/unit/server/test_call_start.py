"""A call begins when its small body has arrived, or a moment after its head, over a real connection."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn
from prometheus_client import CollectorRegistry
from starlette.types import Message, Receive, Scope, Send
from uvicorn.server import ServerState

from webhook.server import connection
from webhook.server.answers import answer
from webhook.server.connections import Connections
from webhook.server.network_metrics import ConnectionMetrics

_HEAD = b"POST /validate HTTP/1.1\r\nhost: rollcall\r\ncontent-length: 10\r\n\r\n"


class _Listening:
    """An application that keeps the first message of each call, and then answers."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[Message] = asyncio.Queue()

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        self.calls.put_nowait(await receive())
        await answer(send, 200, b"{}", b"application/json")


async def _first_message(*parts: bytes) -> Message:
    """The first message of the call, if the parts arrive one after the other: a part is sent when the server has read
    the first one.
    """
    app = _Listening()
    connections = Connections(1, ConnectionMetrics(CollectorRegistry()))
    config = uvicorn.Config(app, http=connections.protocol, lifespan="off", log_config=None)  # type: ignore[arg-type]
    config.load()
    made: list[connection.Connection] = []

    def protocol() -> connection.Connection:
        made.append(connections.protocol(config, ServerState(), app_state={}))
        return made[0]

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        async with asyncio.timeout(30):
            for part in parts:
                writer.write(part)
                while not made or made[0].unused:
                    await asyncio.sleep(0)
            found = await app.calls.get()
            assert (await reader.readuntil(b"{}")).startswith(b"HTTP/1.1 200 OK")
    finally:
        writer.close()
        server.close()
    return found


def test_a_small_body_in_two_parts_is_received_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    # The machine may be slow; the call must not begin because of that.
    monkeypatch.setattr(connection, "BODY_SECONDS", 60.0)
    found = asyncio.run(_first_message(_HEAD + b"01234", b"56789"))
    assert found == {"type": "http.request", "body": b"0123456789", "more_body": False}


def test_a_call_whose_body_stalls_begins_without_the_rest() -> None:
    found = asyncio.run(_first_message(_HEAD + b"01234"))
    assert found == {"type": "http.request", "body": b"01234", "more_body": True}

"""The head and the body of an answer are sent together, over a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from webhook.server.connections import AnswerWriter

Act = Callable[[AnswerWriter], None]


def received(*turns: Act) -> list[bytes]:
    """What a client receives when the acts are done, each in a turn of the event loop of its own: a part for each."""

    async def run() -> list[bytes]:
        found: list[bytes] = []
        writers: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        server = await asyncio.start_server(lambda _, writer: writers.put_nowait(writer), "127.0.0.1", 0)
        reader, client = await asyncio.open_connection(*server.sockets[0].getsockname())
        # Since Python 3.13 a writer that is freed closes its connection.
        writer = await writers.get()
        transport = cast("asyncio.Transport", writer.transport)
        answers = AnswerWriter(transport, asyncio.get_running_loop())
        for turn in turns:
            turn(answers)
            found.append(await reader.read(100))
        client.close()
        writer.close()
        server.close()
        return found

    return asyncio.run(run())


def two(writer: AnswerWriter) -> None:
    writer.write(b"head ")
    writer.write(b"body")


def one(writer: AnswerWriter) -> None:
    writer.write(b"100")


def closing(writer: AnswerWriter) -> None:
    writer.write(b"last")
    writer.close()
    assert writer.is_closing()


def test_two_writes_in_one_loop_iteration_are_sent_as_one() -> None:
    assert received(two) == [b"head body"]


def test_a_single_write_is_sent_at_the_end_of_its_loop_iteration() -> None:
    assert received(one, two) == [b"100", b"head body"]


def test_buffered_writes_are_sent_before_the_connection_closes() -> None:
    assert received(closing) == [b"last"]

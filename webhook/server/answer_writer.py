"""Write the head and the body of an answer in one piece.

uvicorn writes the head when the application begins its answer, and the body when the answer ends. Each write is its own
TLS record: the second one takes a tenth of the time of an ordinary review.
"""

from __future__ import annotations

import asyncio


class AnswerWriter:
    """The transport of a connection, as uvicorn uses it to answer. The first of two writes in one turn of the event
    loop is held until the second, or until the turn ends.
    """

    __slots__ = ("_held", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held = b""

    def write(self, data: bytes) -> None:
        """Write `data` together with held data; hold it if there is none."""
        if self._held:
            data, self._held = self._held + data, b""
            self._transport.write(data)
        elif data:
            self._held = data
            self._loop.call_soon(self._flush)

    def is_closing(self) -> bool:
        """Return whether the connection is closing."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Write held data and close the connection."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)

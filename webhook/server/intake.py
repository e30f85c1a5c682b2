"""The intake: one budget for all bytes that are being received and decoded; and the reading of a body and sending of
an answer in plain ASGI.

Every call has an `Upload`, its account, except a small review that has arrived as a whole and is judged at once. The
bytes that a call receives and the memory for decoding them are charged to its account. All of it is paid back when the
call has been answered:

with intake.upload(carrier) as upload:         body = await read_body(scope, receive, upload, seconds)         await
upload.decode(estimated_bytes, seconds)         ...  # decode, decide, answer; where a thread does it, leave the block
when the thread has ended

All of this must run on the event loop.

If a charge does not fit, the slowest uploads are ended to make room, starting with connections that never carried a
valid review (`Carrier`): without a client certificate there is no other way to recognise the API server. Only recent
bytes count: a stalled upload is slower than any that continues, even if it sent much before. An upload of an API
server is complete before it counts as old, or continues. So valid reviews are answered while unknown clients fill the
budget. Addresses are not used: behind kube-proxy all callers may have the same address.

A part of the budget is reserved for small bodies, because complete large bodies are not ended and could use all of it.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from http import HTTPStatus
from typing import Protocol, Self, cast

from starlette.types import Receive, Scope, Send

from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.errors import DeadlineExceeded, Overloaded, ReviewError, TooLarge
from webhook.model.findings import plain as plain_text
from webhook.server.metrics import IntakeMetrics

# The key of the carrier in the scope's state.
CARRIER = "carrier"


class Carrier(Protocol):
    """What applications and the intake need of a connection."""

    @property
    def reviewed(self) -> bool:
        """Whether it has carried a valid AdmissionReview."""

    def carried_review(self) -> None:
        """Notes that it has just carried one."""

    def holds_body(self, scope: Scope) -> bool:
        """Returns whether the whole body of the request with that scope has arrived."""


class _Stranger:
    """The carrier of a call without a `Connection`, as in tests."""

    reviewed = False

    def carried_review(self) -> None:
        """Does nothing."""

    def holds_body(self, _: Scope) -> bool:
        """Returns False: it is unknown."""
        return False


_STRANGER = _Stranger()


def carrier_of(scope: Scope) -> Carrier:
    """Returns the carrier of a call."""
    return cast("Carrier", scope.get("state", {}).get(CARRIER, _STRANGER))


# An upload younger than this is not ended. A nearby API server sends 3 MB in a tenth of a second. With a larger value,
# stalled uploads would hold the budget longer.
YOUNG_SECONDS = 0.5
# Bytes that arrived this long ago count half. With a round trip of 200 ms, about 48 KiB arrive every 200 ms and at
# least a quarter of them counts. Of 7 MB that stall, less counts after a second.
HALF_SECONDS = 0.1
# A body up to this size may use the memory reserved for small bodies. Bodies of pods and of most workloads are smaller.
SMALL_BYTES = 64 * 1024
# Why an upload was ended.
SLOWER = "the memory for requests is full, and this body arrived more slowly than others"


class Intake:
    """The budget of one process: `limit` bytes. `used` bytes are charged now. `kept` bytes are reserved for small
    bodies.
    """

    def __init__(self, limit: int, metrics: IntakeMetrics, kept: int = 0, *, clock: Clock = MACHINE_CLOCK) -> None:
        self.limit = limit
        self.clock = clock
        self.kept = kept
        self.used = 0
        # The charged bytes in bodies that are small so far.
        self.small = 0
        self.metrics = metrics
        metrics.intake_limit.set(limit)
        metrics.intake_bytes.set_function(lambda: self.used)
        self._arriving: set[Upload] = set()
        self._decoding = 0
        self._queue: deque[Upload] = deque()
        self._freed = asyncio.Event()

    def upload(self, carrier: Carrier) -> Upload:
        """Returns the account of one call, to be used as a context manager."""
        return Upload(self, carrier)

    def make_room(self, size: int, upload: Upload, *, small: bool) -> bool:
        """Returns whether `size` more bytes fit. Ends just enough of the slowest other uploads to make them fit; ends
        none if that is not enough.
        """
        if self._fits(size, small=small):
            return True
        now = self.clock.monotonic()
        old = [
            other
            for other in self._arriving
            if other is not upload and other.size and now - other.begun > YOUNG_SECONDS
        ]
        old.sort(key=lambda other: (other.carrier.reviewed, other.lately(now)))
        missing = size
        for count, slowest in enumerate(old, start=1):
            missing -= slowest.size
            if self._fits(missing, small=small):
                for ended in old[:count]:
                    self.metrics.uploads_ended.inc()
                    ended.end()
                return True
        return False

    def _fits(self, size: int, *, small: bool) -> bool:
        if small:
            # The second condition matters if one decoding took more than the whole budget.
            return self.used + size <= self.limit or self.small + size <= self.kept
        return self.used + size <= self.limit - self.kept

    def arriving(self, upload: Upload) -> None:
        """Allows ending `upload` to make room, from now on."""
        self._arriving.add(upload)

    def arrived(self, upload: Upload) -> None:
        """Stops ending `upload` to make room: it is complete or has failed."""
        self._arriving.discard(upload)

    def charge(self, size: int) -> None:
        """Adds `size` bytes to the charged bytes."""
        self.used += size

    def pay_back(self, size: int) -> None:
        """Subtracts `size` bytes from the charged bytes, and wakes the uploads that wait for room."""
        self.used -= size
        self._freed.set()

    async def begin_decoding(self, size: int, upload: Upload, seconds: float) -> None:
        """Waits for room for `size` bytes. Raises `Overloaded` if there is none within `seconds`."""
        if self._queue or not self._may_decode(size, upload):
            await self._turn(size, upload, seconds)
        self._decoding += 1

    def end_decoding(self, number: int) -> None:
        """Subtracts `number` from the decodings that are in progress."""
        self._decoding -= number

    def _may_decode(self, size: int, upload: Upload) -> bool:
        # One decoding is always allowed: waiting uploads hold their bodies, so there might never be room.
        return self.make_room(size, upload, small=False) or self._decoding == 0

    async def _turn(self, size: int, upload: Upload, seconds: float) -> None:
        self._queue.append(upload)
        try:
            async with asyncio.timeout(seconds):
                while self._queue[0] is not upload or not self._may_decode(size, upload):
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            self.metrics.uploads_refused.inc()
            raise Overloaded(f"no memory to decode the body was free within {seconds:.1f} s") from None
        finally:
            self._queue.remove(upload)
            # Wake the next upload in the queue.
            self._freed.set()


class Upload:
    """The account of one call."""

    __slots__ = (
        "_decoded",
        "_decoding",
        "_intake",
        "_lately",
        "_timeout",
        "_weighed",
        "begun",
        "carrier",
        "ended",
        "size",
    )

    def __init__(self, intake: Intake, carrier: Carrier) -> None:
        self.carrier = carrier
        # When the wait for the body began, and how many bytes have arrived.
        self.begun = 0.0
        self.size = 0
        # Whether it was ended to make room.
        self.ended = False
        self._intake = intake
        self._timeout: asyncio.Timeout | None = None
        # The weighted recent bytes, and when they were computed.
        self._lately = 0.0
        self._weighed = 0.0
        self._decoded = 0
        self._decoding = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Pays back everything that was charged."""
        intake = self._intake
        intake.arrived(self)
        intake.small -= self._small
        intake.pay_back(self._decoded + self.size)
        if self._decoding:
            intake.end_decoding(self._decoding)
        self.size = self._decoded = self._decoding = 0

    def arriving(self, timeout: asyncio.Timeout) -> None:
        """Begins to wait for the body, within `timeout`. Ending the upload makes `timeout` expire."""
        self._timeout = timeout
        self.begun = self._weighed = self._intake.clock.monotonic()
        self._intake.arriving(self)

    def arrived(self) -> None:
        """Stops waiting for more of the body."""
        self._timeout = None
        self._intake.arrived(self)

    def lately(self, now: float) -> float:
        """Returns the weighted number of recent bytes: older bytes count less."""
        return self._lately * math.exp2((self._weighed - now) / HALF_SECONDS)

    def receive(self, size: int) -> None:
        """Charges received bytes. Raises `Overloaded` if there is no room for them."""
        intake = self._intake
        if self.ended:
            raise Overloaded(SLOWER)
        small = self.size + size <= SMALL_BYTES
        if not intake.make_room(size, self, small=small):
            intake.metrics.uploads_refused.inc()
            raise Overloaded("the memory for requests is full")
        intake.small += size if small else -self._small
        self.size += size
        intake.charge(size)
        if self._timeout is not None:
            now = intake.clock.monotonic()
            self._lately, self._weighed = self.lately(now) + size, now

    async def decode(self, size: int, seconds: float) -> None:
        """Charges `size` bytes, the caller's estimate for decoding, and waits at most `seconds` for room.

        Raises `Overloaded` if there is none. One decoding of any size is always allowed, so that waiting uploads do not
        block each other. The caller must therefore limit its estimate.
        """
        await self._intake.begin_decoding(size, self, seconds)
        self._decoding += 1
        self._decoded += size
        self._intake.charge(size)

    def moved(self) -> Upload:
        """Moves all charges to a new account, for a thread that ends after the call."""
        account = Upload(self._intake, self.carrier)
        account.size, account._decoded, account._decoding = self.size, self._decoded, self._decoding
        self.size = self._decoded = self._decoding = 0
        return account

    def end(self) -> None:
        """Makes room for others: pays back the received bytes and stops waiting for the rest."""
        self.ended = True
        self._intake.arrived(self)
        self._intake.small -= self._small
        self._intake.pay_back(self.size)
        self.size = 0
        if self._timeout is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time())

    @property
    def _small(self) -> int:
        """The bytes that count as small: all of them or none."""
        return self.size if self.size <= SMALL_BYTES else 0


# An AdmissionReview has the old and the new object. Both at etcd's limit of 1.5 MiB, with JSON growth and the envelope,
# are smaller than this.
MAX_BODY_BYTES = 7 * 1024 * 1024

_MAX_DIGITS = 19

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"

Header = tuple[bytes, bytes]


class ClientGone(Exception):
    """The caller hung up before its answer was ready, so no answer is sent."""


async def small_body(scope: Scope, receive: Receive, carrier: Carrier, most: int) -> bytes | None:
    """Returns the body if all of it has arrived and it has at most `most` bytes. Otherwise None, and nothing is
    read. Raises `ReviewError` and `ClientGone`.
    """
    if not carrier.holds_body(scope):
        return None
    length = _content_length(scope)
    if length is None or length > most:
        return None
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    body: bytes = message["body"]
    return body


async def read_body(
    scope: Scope, receive: Receive, upload: Upload, seconds: float, most: int = MAX_BODY_BYTES
) -> bytes:
    """Returns the whole body, at most `most` bytes, charged to `upload` as it arrives.

    Raises `TooLarge` as soon as the limit is exceeded, `ReviewError`, `DeadlineExceeded` after `seconds`, `Overloaded`
    if there is no memory for it, and `ClientGone`.
    """
    _check_size(_content_length(scope) or 0, most)
    if upload.carrier.holds_body(scope):
        # The body is already here. Most bodies arrive with their heads, and a timer costs as much as reading them.
        return await _received(receive, upload, most)
    try:
        async with asyncio.timeout(seconds) as timeout:
            upload.arriving(timeout)
            return await _received(receive, upload, most)
    except TimeoutError:
        if upload.ended:
            raise Overloaded(SLOWER) from None
        raise DeadlineExceeded(f"the body did not arrive within {seconds:g} s") from None
    finally:
        upload.arrived()


async def _received(receive: Receive, upload: Upload, most: int) -> bytes:
    parts = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part: bytes = message.get("body", b"")
        _check_size(len(parts) + len(part), most)
        upload.receive(len(part))
        more = message.get("more_body", False)
        if not more and not parts:
            # Most bodies arrive in one part, which needs no copy.
            return part
        parts += part
        if not more:
            return bytes(parts)


def _content_length(scope: Scope) -> int | None:
    """Returns the content-length, or None if there is none. It may have thousands of zeros in front. The parser refuses
    a second one. Raises `ReviewError`.
    """
    for name, value in scope["headers"]:
        if name == b"content-length":
            if not value.isdigit():
                raise ReviewError("content-length is not a number")
            # Python refuses to read thousands of digits. Those that are kept are more than any limit.
            return int(value.lstrip(b"0")[:_MAX_DIGITS] or b"0")
    return None


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise TooLarge(most)


def caller_of(scope: Scope) -> str:
    """Returns the address of the caller; behind a proxy this is the address of the proxy."""
    client = scope.get("client")
    return "" if client is None else str(client[0])


async def answer(send: Send, status: int, body: bytes, content_type: bytes, *headers: Header) -> None:
    """Sends an answer in one piece."""
    length = str(len(body)).encode()
    all_headers = [(b"content-type", content_type), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})


async def plain(send: Send, status: int, text: str, *headers: Header) -> None:
    """Sends one line of text."""
    extra = list(headers)
    if status in {HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.GATEWAY_TIMEOUT}:
        # The rest of the body is not read, so the connection cannot be used again.
        extra.append((b"connection", b"close"))
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        extra.append((b"retry-after", b"1"))
    await answer(send, status, f"{plain_text(text)}\n".encode("utf-8", "replace"), TEXT, *extra)

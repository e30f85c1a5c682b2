"""The intake: one budget for all bytes that are being received and decoded.

Every call has an `Upload`, its account. It is charged for what it receives as that arrives, and for what decoding makes
of it, and pays everything back when the call has been answered:

    with intake.upload(carrier) as upload:
        body = await read_body(scope, receive, upload, seconds)
        await upload.decode(estimated_bytes, seconds)
        ...  # decode, decide, answer; where a thread does it, leave the block when the thread has ended

All of this is for the event loop alone.

Where a charge does not fit, the slowest uploads are ended to make room: first those over connections that never carried
a valid review. What counts is what came lately: a stalled upload is slower than any that goes on, whatever it sent
before. An API server's is complete before it counts as old, or it goes on, so that a valid review is answered while
strangers fill the budget. Addresses are not looked at: behind kube-proxy all callers may have the same.

A part of the budget is kept for small bodies: large ones that are complete are not ended, and would leave them no room.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import Self

from webhook.errors import Overloaded
from webhook.server.carriers import Carrier
from webhook.server.network_metrics import IntakeMetrics

# An upload is not ended before it is this old: an API server sends 3 MB in a tenth of the time where it is near.
# Were it longer, uploads that stall would hold the budget longer.
YOUNG_SECONDS = 0.5
# Bytes that came so long ago count half. Over a round trip of 200 ms some 48 KiB come every 200 ms, of which at least a
# quarter counts; of 7 MB that stall less does after a second.
HALF_SECONDS = 0.1
# A body of no more than this may use what is kept for small ones: that of a pod or of most workloads is one.
SMALL_BYTES = 64 * 1024
# Why an upload was ended.
SLOWER = "the memory for requests is full, and this body came more slowly than others"


class Intake:
    """The budget of one process: `limit` bytes, of which `used` are charged now. `kept` are for small bodies alone."""

    def __init__(self, limit: int, metrics: IntakeMetrics, kept: int = 0) -> None:
        self.limit = limit
        self.kept = kept
        self.used = 0
        # Of these in bodies that are small so far.
        self.small = 0
        self.metrics = metrics
        metrics.intake_limit.set(limit)
        metrics.intake_bytes.set_function(lambda: self.used)
        self._arriving: set[Upload] = set()
        self._decoding = 0
        self._queue: deque[Upload] = deque()
        self._freed = asyncio.Event()

    def upload(self, carrier: Carrier) -> Upload:
        """The account of one call, to be used as a context manager."""
        return Upload(self, carrier)

    def make_room(self, size: int, upload: Upload, *, small: bool) -> bool:
        """Where `size` bytes more do not fit, end so many of the slowest others that they do, and none where that does
        not help; whether they fit.
        """
        if self._fits(size, small=small):
            return True
        now = asyncio.get_running_loop().time()
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
            # Also where one decoding took more than there was.
            return self.used + size <= self.limit or self.small + size <= self.kept
        return self.used + size <= self.limit - self.kept

    def arriving(self, upload: Upload) -> None:
        """From now on `upload` may be ended to make room."""
        self._arriving.add(upload)

    def arrived(self, upload: Upload) -> None:
        """From now on `upload` is not ended: it is complete, or has failed."""
        self._arriving.discard(upload)

    def charge(self, size: int) -> None:
        """Count these bytes."""
        self.used += size

    def pay_back(self, size: int) -> None:
        """Count these bytes no more, and let those look who wait for room."""
        self.used -= size
        self._freed.set()

    async def begin_decoding(self, size: int, upload: Upload, seconds: float) -> None:
        """Wait for room for `size` bytes. Raises `Overloaded` where there is none for so long."""
        if self._queue or not self._may_decode(size, upload):
            await self._turn(size, upload, seconds)
        self._decoding += 1

    def end_decoding(self, number: int) -> None:
        """Forget so many that began."""
        self._decoding -= number

    def _may_decode(self, size: int, upload: Upload) -> bool:
        # One always may: those that wait hold their bodies, so there might never be room.
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
            # The next in the queue may look.
            self._freed.set()


class Upload:
    """The account of one call."""

    __slots__ = (
        "_clock",
        "_decoded",
        "_decoding",
        "_intake",
        "_lately",
        "_weighed",
        "begun",
        "carrier",
        "ended",
        "size",
    )

    def __init__(self, intake: Intake, carrier: Carrier) -> None:
        self.carrier = carrier
        # Since when its body is waited for, and how much of it has come.
        self.begun = 0.0
        self.size = 0
        # Whether it was ended to make room.
        self.ended = False
        self._intake = intake
        self._clock: asyncio.Timeout | None = None
        # How much came lately, as it was when that was weighed.
        self._lately = 0.0
        self._weighed = 0.0
        self._decoded = 0
        self._decoding = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Pay everything back."""
        intake = self._intake
        intake.arrived(self)
        intake.small -= self._small
        intake.pay_back(self._decoded + self.size)
        if self._decoding:
            intake.end_decoding(self._decoding)
        self.size = self._decoded = self._decoding = 0

    def arriving(self, clock: asyncio.Timeout) -> None:
        """The body is waited for, within `clock`: whoever ends the upload lets it run out."""
        self._clock = clock
        self.begun = self._weighed = asyncio.get_running_loop().time()
        self._intake.arriving(self)

    def arrived(self) -> None:
        """Nothing more is waited for."""
        self._clock = None
        self._intake.arrived(self)

    def lately(self, now: float) -> float:
        """How many bytes came lately: the longer ago, the less they count."""
        return self._lately * math.exp2((self._weighed - now) / HALF_SECONDS)

    def receive(self, size: int) -> None:
        """Charge bytes that have come. Raises `Overloaded` where there is no room for them."""
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
        if self._clock is not None:
            now = asyncio.get_running_loop().time()
            self._lately, self._weighed = self.lately(now) + size, now

    async def decode(self, size: int, seconds: float) -> None:
        """Charge what decoding will take, `size` bytes as the caller estimates it, and wait at most `seconds` for room.

        Raises `Overloaded` where there is none. One decoding is let through at any time, however large, so that those
        who wait for room do not wait for each other: an estimate must be bounded by its caller.
        """
        await self._intake.begin_decoding(size, self, seconds)
        self._decoding += 1
        self._decoded += size
        self._intake.charge(size)

    def moved(self) -> Upload:
        """A new account that takes over what this one was charged: for a thread that ends after the call."""
        account = Upload(self._intake, self.carrier)
        account.size, account._decoded, account._decoding = self.size, self._decoded, self._decoding
        self.size = self._decoded = self._decoding = 0
        return account

    def end(self) -> None:
        """Make room for others: pay back what has come, and stop waiting for the rest."""
        self.ended = True
        self._intake.arrived(self)
        self._give_up_body()
        if self._clock is not None:
            self._clock.reschedule(asyncio.get_running_loop().time())

    @property
    def _small(self) -> int:
        """Of its bytes, what counts as small: all or none."""
        return self.size if self.size <= SMALL_BYTES else 0

    def _give_up_body(self) -> None:
        self._intake.small -= self._small
        self._intake.pay_back(self.size)
        self.size = 0

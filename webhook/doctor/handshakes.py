"""Reads what Rollcall's endpoints present in a TLS handshake, as the API server would see it, and their time.

The only request it sends is /healthz.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64decode
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.doctor.snapshot import ClockOffset, Presented
from webhook.errors import CertificateError
from webhook.network.client_tls import looking, trusting

# A near endpoint answers long before this. Pods often cannot be reached from the user's machine.
SECONDS = 3.0


class Endpoint(NamedTuple):
    """The address of a server, and the host name by which the API server calls it."""

    address: str
    port: int
    host: str

    def __str__(self) -> str:
        return f"https://{f'[{self.address}]' if ':' in self.address else self.address}:{self.port}"


class Seen(NamedTuple):
    """What one endpoint presented, and how far its clock is ahead if it sent a time."""

    presented: Presented
    clock: ClockOffset | None = None


async def look_at(endpoints: Iterable[Endpoint], bundles: Iterable[str], *, clock: Clock = MACHINE_CLOCK) -> list[Seen]:
    """What each endpoint presents, verified against each caBundle (base64)."""
    every = tuple(bundles)
    return list(await asyncio.gather(*(asyncio.to_thread(_look, endpoint, every, clock) for endpoint in endpoints)))


def _look(endpoint: Endpoint, bundles: tuple[str, ...], clock: Clock) -> Seen:
    where = str(endpoint)
    try:
        with _connected(endpoint, looking()) as shown:
            certificate, offset = shown.getpeercert(binary_form=True), _clock_offset(shown, where, clock)
        refused = {bundle: why for bundle in bundles if (why := _refused(endpoint, bundle)) is not None}
    except OSError as error:
        return Seen(Presented(where, endpoint.host, trouble=_told(error)))
    return Seen(Presented(where, endpoint.host, certificate, refused=refused), offset)


def _connected(endpoint: Endpoint, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection((endpoint.address, endpoint.port), timeout=SECONDS)
    try:
        return context.wrap_socket(plain, server_hostname=endpoint.host)
    except BaseException:
        plain.close()
        raise


def _refused(endpoint: Endpoint, bundle: str) -> str | None:
    """Why a client with that caBundle would not trust the endpoint, or None; another check reports an invalid caBundle.

    Raises `OSError` if it could not be reached: that says nothing about its certificate.
    """
    try:
        context = trusting(b64decode(bundle))
    except (ValueError, CertificateError):
        return None
    try:
        with _connected(endpoint, context):
            return None
    except ssl.SSLCertVerificationError as error:
        return error.verify_message


def _clock_offset(shown: ssl.SSLSocket, where: str, clock: Clock) -> ClockOffset | None:
    """How far the clock of the server behind a connection is ahead, by the Date of its response."""
    with suppress(OSError, ValueError, StopIteration):
        before = clock.now()
        shown.sendall(b"GET /healthz HTTP/1.1\r\nHost: rollcall\r\nConnection: close\r\n\r\n")
        head = b""
        while b"\r\n\r\n" not in head and (more := shown.recv(4096)):
            head += more
        lines = head.decode("latin-1").split("\r\n")
        date = next(line.partition(":")[2].strip() for line in lines if line.lower().startswith("date:"))
        return clock_offset(where, date, before, clock.now())
    return None


def clock_offset(whose: str, date: str, before: datetime, after: datetime) -> ClockOffset:
    """How far a clock is ahead, by the Date of a response that was requested at `before` and arrived at `after`.

    Raises `ValueError`.
    """
    # The header has whole seconds, so half a second is added on average.
    ahead = (parsedate_to_datetime(date) - before).total_seconds() + 0.5 - (after - before).total_seconds() / 2
    return ClockOffset(whose, ahead)


def _told(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__

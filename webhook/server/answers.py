"""Read the body of a request and send an answer, in plain ASGI."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from starlette.types import Receive, Scope, Send

from webhook.errors import DeadlineExceeded, Overloaded, ReviewError, TooLarge
from webhook.model.plain_text import plain as plain_text
from webhook.server.carriers import Carrier
from webhook.server.intake import SLOWER, Upload

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
    """Return the body if all of it has arrived and it has at most `most` bytes. Otherwise return None, and nothing is
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
    """Return the whole body, at most `most` bytes, charged to `upload` as it arrives.

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
    """Return the content-length, or None if there is none. It may have thousands of zeros in front. The parser refuses
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
    """Return the address of the caller; behind a proxy this is the address of the proxy."""
    client = scope.get("client")
    return "" if client is None else str(client[0])


async def answer(send: Send, status: int, body: bytes, content_type: bytes, *headers: Header) -> None:
    """Send an answer in one piece."""
    length = str(len(body)).encode()
    own = [(b"content-type", content_type), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": own})
    await send({"type": "http.response.body", "body": body})


async def plain(send: Send, status: int, text: str, *headers: Header) -> None:
    """Send one line of text."""
    extra = list(headers)
    if status in {HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.GATEWAY_TIMEOUT}:
        # The rest of the body is not read, so the connection cannot be used again.
        extra.append((b"connection", b"close"))
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        extra.append((b"retry-after", b"1"))
    await answer(send, status, f"{plain_text(text)}\n".encode("utf-8", "replace"), TEXT, *extra)

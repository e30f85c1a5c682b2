"""Reading a request's body and sending an answer, in plain ASGI."""

from __future__ import annotations

from http import HTTPStatus

from starlette.types import Receive, Scope, Send

from webhook.errors import ReviewError, TooLarge

# An AdmissionReview carries old and new object; etcd's 1.5 MiB limit on each, JSON growth and the envelope stay under
# this.
MAX_BODY_BYTES = 7 * 1024 * 1024

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"

# A terminal obeys them, and some end a line; names and values that an answer quotes may bear them.
CONTROL = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), "\ufffd")

Header = tuple[bytes, bytes]


class ClientGone(Exception):
    """The caller hung up before its body was whole: there is nobody to answer."""


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """The whole body. Raises `TooLarge` as soon as it must be, `ReviewError`, and `ClientGone`."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            if not value.isdigit():
                raise ReviewError("content-length is no number")
            if int(value) > MAX_BODY_BYTES:
                raise TooLarge(MAX_BODY_BYTES)
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        body: bytes = message.get("body", b"")
        _check_size(len(body))
        return body
    parts = bytearray()
    while True:
        if message["type"] == "http.disconnect":
            raise ClientGone
        parts += message.get("body", b"")
        _check_size(len(parts))
        if not message.get("more_body", False):
            return bytes(parts)
        message = await receive()


def _check_size(size: int) -> None:
    if size > MAX_BODY_BYTES:
        raise TooLarge(MAX_BODY_BYTES)


async def answer(send: Send, status: int, body: bytes, content_type: bytes, *headers: Header) -> None:
    """Send an answer whole."""
    length = str(len(body)).encode()
    own = [(b"content-type", content_type), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": own})
    await send({"type": "http.response.body", "body": body})


async def plain(send: Send, status: int, text: str, *headers: Header) -> None:
    """Send one line of text."""
    extra = list(headers)
    if status in {HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.GATEWAY_TIMEOUT}:
        # What is left of the body is not read, so nothing else can come over this connection.
        extra.append((b"connection", b"close"))
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        extra.append((b"retry-after", b"1"))
    await answer(send, status, f"{text.translate(CONTROL)}\n".encode("utf-8", "replace"), TEXT, *extra)

"""Read the answers of the Kubernetes API: their size, status, JSON and warnings. Failures become errors of Rollcall."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import orjson

from webhook.cluster.deep_json import shallow
from webhook.cluster.transport import Reply
from webhook.errors import AnswerTooLarge, Gone, NotFound, NotModified, RequestFailed
from webhook.model.plain_text import printable
from webhook.model.reading import Malformed, mapping, sequence, text

# An overloaded API server asks to wait about a second. A server that asks for an hour is not the API server.
MAX_WAIT_SECONDS = 60.0
# A code, the agent that warns, and a quoted text.
_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"', re.ASCII)
# A name has at most 253 characters.
_MOST_OF_A_SERVER = 300
_ESCAPED = re.compile(r"\\(.)")


async def received(reply: Reply, most: int) -> bytearray:
    """Return the body of an answer. Raises `AnswerTooLarge` as soon as it is longer than `most` bytes."""
    content = bytearray()
    async for chunk in reply.chunks():
        content += chunk
        if len(content) > most:
            raise AnswerTooLarge(too_large(most))
    return content


def too_large(most: int) -> str:
    """Return why an answer of more than `most` bytes is not read."""
    return f"the answer has more than {most} bytes, the most that are read at once"


def warnings_in(reply: Reply) -> tuple[str, ...]:
    """Return the texts of the Warning headers (RFC 7234, 5.5). An API server writes one text in a line."""
    said = (found for line in reply.headers("warning") for found in _WARNING.findall(line))
    return tuple(_ESCAPED.sub(r"\1", quoted) for quoted in said)


def read_event(line: bytes) -> tuple[str, dict[str, Any]]:
    """Return a watch event's type and object. Raises `Gone` for an expired version, `RequestFailed` for any other
    error.
    """
    event = parsed(line)
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
        raise RequestFailed("a watch event is not an object")
    kind, found = str(event.get("type")), event["object"]
    if kind == "ERROR":
        code = found.get("code")
        check_status(code if isinstance(code, int) else HTTPStatus.INTERNAL_SERVER_ERROR, orjson.dumps(found))
    return kind, found


def parsed(content: bytes | bytearray) -> Any:
    """Return an answer's JSON. Raises `RequestFailed`."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        pass
    try:
        return orjson.loads(shallow(content))
    except orjson.JSONDecodeError:
        raise RequestFailed("the answer is not JSON") from None


def check_redirect(code: int, location: str | None) -> None:
    """Return unless the answer is a redirect. Otherwise raises `RequestFailed`: no API server redirects, and the
    credentials are for no other server. Only the server of the location is named, because the rest may be a secret.
    """
    if not HTTPStatus.MULTIPLE_CHOICES <= code < HTTPStatus.BAD_REQUEST or code == HTTPStatus.NOT_MODIFIED:
        return
    where = "" if (server := _server_of(location)) is None else f" to {server}"
    raise RequestFailed(f"HTTP {code}: a redirect{where}, which is not followed; name the API server itself", code)


def _server_of(location: str | None) -> str | None:
    """Return scheme, host and port of a URL; None if it has none."""
    try:
        parts = urlsplit(location or "")
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return None
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return printable(f"{parts.scheme or 'https'}://{host}{port}"[:_MOST_OF_A_SERVER]) if host else None


def check_status(code: int, content: bytes | bytearray, retry_after: str | None = None) -> None:
    """Return if the status is a success. Otherwise raises the `RequestFailed` that says what the answer says."""
    if code < HTTPStatus.MULTIPLE_CHOICES:
        return
    if code == HTTPStatus.NOT_MODIFIED:
        raise NotModified("not modified", code)
    status: Any = {}
    try:
        status = orjson.loads(content)
        said = str(status["message"])
    except (orjson.JSONDecodeError, TypeError, KeyError):
        said = content.decode(errors="replace").strip()[:200]
    why, fields = f"HTTP {code}: {said}" if said else f"HTTP {code}", _fields(status)
    if code == HTTPStatus.NOT_FOUND:
        raise NotFound(why, code, fields, _object_name(status))
    if code == HTTPStatus.GONE:
        raise Gone(why, code, fields=fields, token=_token(status))
    # `isdigit` alone also takes digits that `float` refuses, such as "\u00b2".
    numeric = retry_after is not None and retry_after.isascii() and retry_after.isdigit()
    wait = min(float(retry_after), MAX_WAIT_SECONDS) if retry_after is not None and numeric else None
    raise RequestFailed(why, code, wait, fields)


def _fields(status: Any) -> str:
    """Return the reason, the kind and the fields of a Status. Its messages may quote values and are left out."""
    try:
        details = mapping(mapping(status).get("details"))
        causes = (mapping(cause).get("field") for cause in sequence(details.get("causes")))
        told = (mapping(status).get("reason"), details.get("group"), details.get("kind"), *causes)
    except Malformed:
        return ""
    return " ".join(dict.fromkeys(word for word in told if isinstance(word, str) and word))


def _object_name(status: Any) -> str:
    """Return the name of the missing object; empty for an answer about a path that is not served, which is no Status.

    Source: k8s.io/apimachinery, pkg/api/errors (NewNotFound), v0.35.4.
    """
    try:
        return text(mapping(mapping(status).get("details")).get("name")) or ""
    except Malformed:
        return ""


def _token(status: Any) -> str | None:
    """Return the token with which a list whose version has expired goes on (API concepts, "Retrieving large results
    sets in chunks").
    """
    try:
        return text(mapping(mapping(status).get("metadata")).get("continue")) or None
    except Malformed:
        return None

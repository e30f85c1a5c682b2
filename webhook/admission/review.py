"""AdmissionReview: the envelope of a request from an API server, parsed by hand.

Source: k8s.io/api/admission/v1 `AdmissionReview`; v1beta1 has the same fields.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from webhook.errors import ReviewError
from webhook.model.admission_request import OPERATIONS, Kind, Request
from webhook.model.findings import shown
from webhook.model.reading import Manifest
from webhook.model.users import MAX_USER_CHARACTERS

GROUP = "admission.k8s.io"
API_VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
KIND = "AdmissionReview"
# A Kubernetes uid has 36 characters, and a name at most 253. All of these are sent back, logged and traced.
MAX_TEXT_CHARACTERS = 1000


def request_from(review: object, now: datetime | None = None) -> Request:
    """The request of a parsed AdmissionReview that was received at `now`. Raises `ReviewError`, with a one-line reason,
    if it cannot be answered.
    """
    if not isinstance(review, dict):
        raise ReviewError("the body is not a JSON object")
    if review.get("kind") != KIND:
        raise ReviewError(f"kind is {shown(review.get('kind'))}, not {KIND}")
    if review.get("apiVersion") not in API_VERSIONS:
        raise ReviewError(f"apiVersion is {shown(review.get('apiVersion'))}, not one of {', '.join(API_VERSIONS)}")
    request = review.get("request")
    if not isinstance(request, dict):
        raise ReviewError("request is missing")
    operation = _word(request, "operation")
    if operation not in OPERATIONS:
        raise ReviewError(f"request.operation is {shown(operation)}, not one of {', '.join(OPERATIONS)}")
    kind = request.get("kind")
    if not isinstance(kind, dict):
        raise ReviewError("request.kind is missing")
    old = _object(request, "oldObject", needed=operation == "UPDATE")
    return Request(
        uid=_word(request, "uid"),
        operation=operation,
        kind=Kind(
            _text(kind, "group", "request.kind"),
            _text(kind, "version", "request.kind"),
            _word(kind, "kind", "request.kind"),
        ),
        namespace=_text(request, "namespace"),
        name=_text(request, "name"),
        object=_object(request, "object", needed=operation in {"CREATE", "UPDATE"}),
        # An API server sends none at CREATE: only a forged review has one.
        old=None if operation == "CREATE" else old,
        subresource=_text(request, "subResource"),
        resource=_resource(request),
        user=_user(request),
        at=now,
    )


def _text(holder: dict[str, Any], key: str, path: str = "request", most: int | None = MAX_TEXT_CHARACTERS) -> str:
    value = holder.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ReviewError(f"{path}.{key} is {shown(value)}, not a string")
    if most is not None and len(value) > most:
        raise ReviewError(f"{path}.{key} has {len(value)} characters, more than {most}")
    return value


def _word(holder: dict[str, Any], key: str, path: str = "request") -> str:
    value = _text(holder, key, path)
    if not value:
        raise ReviewError(f"{path}.{key} is missing")
    return value


def _resource(request: dict[str, Any]) -> str:
    """The plural of the kind. It says only what a Scale is of, so a review without it can be answered."""
    found = request.get("resource")
    plural = found.get("resource") if isinstance(found, dict) else None
    return plural if isinstance(plural, str) and len(plural) <= MAX_TEXT_CHARACTERS else ""


def _user(request: dict[str, Any]) -> str:
    """The name of the requesting user; empty if the review has none."""
    found = request.get("userInfo")
    if found is None:
        return ""
    if not isinstance(found, dict):
        raise ReviewError(f"request.userInfo is {shown(found)}, not an object")
    return _text(found, "username", "request.userInfo", most=None)[:MAX_USER_CHARACTERS]


def _object(request: dict[str, Any], key: str, *, needed: bool) -> Manifest | None:
    value = request.get(key)
    if value is None:
        if needed:
            raise ReviewError(f"request.{key} is missing")
        return None
    if not isinstance(value, dict):
        raise ReviewError(f"request.{key} is {shown(value)}, not an object")
    return value

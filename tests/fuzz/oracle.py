"""What every answer must fulfil, computed only from the body and the contract, and never from the code under test.

The contract is that of k8s.io/api/admission/v1, of JSON Patch (RFC 6902) as another library applies it, and of
Rollcall's own documentation: 200 for whatever is an AdmissionReview, 400 with one line for what is none, never 500.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from typing import Any, NamedTuple

import jsonpatch
import jsonpointer
import orjson

from tests.fuzz.inputs import MUTATE, REVIEWED, Input

MAX_BODY = 7 * 1024 * 1024
# What Python's recursion, orjson and the API server's own decoder agree on is far above what objects have.
DEEP = 500
# Of names, kinds and uids that are sent back: docs/explanation/security.md.
LONGEST_TEXT = 1000
_TEXT = ("namespace", "name", "subResource")
_RESPONSE_KEYS = {"uid", "allowed", "patch", "patchType", "status", "warnings", "auditAnnotations"}
_ANNOTATION = re.compile(r"[A-Za-z]+")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


class Answer(NamedTuple):
    """What came back for an input."""

    status: int
    content_type: str
    body: bytes


class Complaint(AssertionError):
    """An answer that the contract does not allow. `kind` is the same for answers that are wrong in the same way."""

    def __init__(self, kind: str, detail: object = "") -> None:
        self.kind = kind
        super().__init__(f"{kind}: {str(detail)[:2000]}")


def need(condition: object, kind: str, detail: object = "") -> None:
    """Complain unless `condition` holds."""
    if not condition:
        raise Complaint(kind, detail)


def judge(asked: Input, answer: Answer) -> Any:
    """The review as the patch in the answer leaves it, None where there is no patch. Raises `Complaint`."""
    need(answer.status < 500 or (answer.status == 504 and "timeout" in asked.query), f"status {answer.status}", answer)
    if asked.path in REVIEWED:
        return _judge_review(asked, answer)
    _judge_check(asked, answer)
    return None


# AdmissionReviews


def _judge_review(asked: Input, answer: Answer) -> Any:
    if len(asked.body) > MAX_BODY:
        need(answer.status == 413, "too large and not 413", answer)
    if answer.status != 200:
        need(answer.status in {400, 413, 504}, f"status {answer.status}", answer)
        _judge_line(answer)
    review = _review(asked.body)
    if answer.status == 400:
        need(review is None or "timeout" in asked.query, "a review is refused as none", answer)
        return None
    if answer.status != 200:
        return None
    need(review is not None or _unsure(asked.body), "no review is answered as one", answer)
    return _judge_response(asked, orjson.loads(asked.body), answer)


def _judge_line(answer: Answer) -> None:
    text = answer.body.decode()
    need(answer.content_type.startswith("text/plain"), "an error that is no text", answer)
    need(text.endswith("\n") and text.count("\n") == 1, "an error that is not one line", answer)
    need(not _CONTROL.search(text[:-1]), "an error with control characters", answer)
    need(len(answer.body) <= 1024, "an error that is too long", answer)


def _judge_response(asked: Input, review: Any, answer: Answer) -> Any:
    need(answer.content_type == "application/json", "an answer that is no JSON", answer)
    told = orjson.loads(answer.body)
    request, response = review["request"], told.get("response")
    need(set(told) == {"apiVersion", "kind", "response"}, "the envelope", told)
    need(told["apiVersion"] == review["apiVersion"] and told["kind"] == "AdmissionReview", "the version", told)
    need(isinstance(response, dict) and set(response) <= _RESPONSE_KEYS, "the response", told)
    need(response["uid"] == request["uid"], "the uid", told)
    need(isinstance(response["allowed"], bool), "allowed", told)
    need(response["allowed"] is ("status" not in response), "a status of what is allowed, or none", told)
    need(response["allowed"] or asked.path != MUTATE, "mutation refuses", told)
    if "status" in response:
        _judge_status(response["status"])
    warnings = response.get("warnings", [])
    need(isinstance(warnings, list) and len(warnings) <= 16, "warnings", told)
    for warning in warnings:
        need(isinstance(warning, str) and 0 < len(warning.encode()) <= 256, "a warning that is too long", warning)
        need(not _CONTROL.search(warning), "a warning with control characters", warning)
    for key, value in response.get("auditAnnotations", {}).items():
        need(_ANNOTATION.fullmatch(key) and isinstance(value, str), "an audit annotation", told)
    need(("patch" in response) == ("patchType" in response), "a patch without its type", told)
    need("patch" not in response or asked.path == MUTATE, "validation patches", told)
    return _patched(review, response) if "patch" in response else None


def _judge_status(status: Any) -> None:
    need(status["status"] == "Failure", "a status", status)
    reason = {422: "Invalid", 403: "Forbidden"}.get(status["code"])
    need(reason is not None and reason == status["reason"], "a code and its reason", status)
    message = status["message"]
    need(isinstance(message, str) and 0 < len(message.encode()) <= 1024, "a message that is too long", message)
    need(not _CONTROL.search(message.replace("\n", "")), "a message with control characters", message)
    causes = status["details"]["causes"]
    need(causes, "a refusal without a cause", status)
    need(len(causes) <= 51, "too many causes", len(causes))
    for cause in causes:
        need({"reason", "field", "message"} == set(cause), "a cause", cause)
        need(all(isinstance(value, str) for value in cause.values()), "a cause", cause)
        need(not _CONTROL.search("".join(cause.values())), "a cause with control characters", cause)
        need(len(cause["message"].encode()) <= 2048, "a cause that is too long", cause)
        need(len(cause["field"].encode()) <= 2048, "a field that is too long", cause)


def _patched(review: Any, response: Any) -> Any:
    need(response["patchType"] == "JSONPatch", "the type of a patch", response)
    try:
        patch = orjson.loads(base64.b64decode(response["patch"], validate=True))
    except (binascii.Error, ValueError) as error:
        raise Complaint("a patch that cannot be read", error) from None
    need(isinstance(patch, list) and patch, "an empty patch", patch)
    need({operation["op"] for operation in patch} <= {"add", "replace"}, "an operation", patch)
    try:
        # In place, because a copy would go as deep into Python's stack as the object is nested.
        for operation in patch:
            before = orjson.dumps(_at(review["request"]["object"], operation["path"]))
            review["request"]["object"] = jsonpatch.apply_patch(review["request"]["object"], [operation], in_place=True)
            after = orjson.dumps(_at(review["request"]["object"], operation["path"]))
            need(before != after, "an operation that changes nothing", patch)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
        raise Complaint("a patch that does not apply", (error, patch)) from None
    return review


def _at(found: Any, path: str) -> Any:
    """The value at a path, and the number of its neighbours."""
    pointer = jsonpointer.JsonPointer(path)
    holder, key = pointer.to_last(found)
    return len(holder), None if key == "-" else holder.get(key) if isinstance(holder, dict) else holder[key]


# What is a review


def _review(body: bytes) -> Any:
    """The review in a body, None where it is none that can be answered or where that can be argued about."""
    if _unsure(body):
        return None
    review = orjson.loads(body)
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        return None
    if review.get("apiVersion") not in ("admission.k8s.io/v1", "admission.k8s.io/v1beta1"):
        return None
    request = review.get("request")
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str) or not request["uid"]:
        return None
    kind, operation = request.get("kind"), request.get("operation")
    if operation not in ("CREATE", "UPDATE", "DELETE", "CONNECT") or not isinstance(kind, dict):
        return None
    words = [kind.get("group"), kind.get("version"), kind.get("kind"), *(request.get(key) for key in _TEXT)]
    texts = all(word is None or _is_text(word) for word in (*words, request["uid"]))
    if not kind.get("kind") or not texts or not _has_user(request.get("userInfo")):
        return None
    needed = {"CREATE": ("object",), "UPDATE": ("object", "oldObject")}.get(operation, ())
    given = [request.get(key) for key in ("object", "oldObject")]
    if any(request.get(key) is None for key in needed) or any(type(one) not in {dict, type(None)} for one in given):
        return None
    return review


def _has_user(info: Any) -> bool:
    return info is None or (isinstance(info, dict) and isinstance(info.get("username"), str | None))


def _is_text(word: Any) -> bool:
    return isinstance(word, str) and len(word) <= LONGEST_TEXT


def _unsure(body: bytes) -> bool:
    """Whether it is no JSON, or such that parsers differ over it and either answer is right: half of a surrogate pair,
    a number that is out of range, a byte order mark, hundreds of levels.
    """
    if body.count(b"[") + body.count(b"{") <= DEEP:
        try:
            orjson.loads(body)
        except orjson.JSONDecodeError:
            pass
        else:
            return False
    try:
        text = body.decode()
        value = json.loads(text, parse_constant=_no_number, parse_int=_double, parse_float=_double)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return True
    return text.startswith("\ufeff") or _depth(text) > DEEP


def _depth(text: str) -> int:
    deepest = depth = 0
    for character in _STRING.sub("", text):
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _double(word: str) -> float:
    """A number as one of 64 bits. Raises `ValueError` for one that is out of their range."""
    value = float(word)
    if math.isinf(value):
        raise ValueError(f"{word[:40]} is out of range")
    return value


# Manifests


def _judge_check(asked: Input, answer: Answer) -> None:
    need(answer.status in {200, 400, 413, 422, 504}, f"status {answer.status}", answer)
    need(answer.content_type == "application/json", "an answer that is no JSON", answer)
    told = orjson.loads(answer.body)
    if answer.status in {400, 413, 504}:
        need(set(told) == {"error"}, "an error", told)
        why = told["error"]
        need(isinstance(why, str) and why and not _CONTROL.search(why), "an error with control characters", told)
        need(len(why.encode()) <= 1024, "an error that is too long", told)
    else:
        need(isinstance(told, dict) and "error" not in told, "a report", told)
        need(answer.status == 200 or asked.path == "/check", "an explanation that refuses", told)

"""Read and write AdmissionReviews: bytes to request, verdict to bytes.

Source of the response's form: k8s.io/api/admission/v1 `AdmissionResponse`. When the reason is Invalid, kubectl prints
`status.details.causes` and not `status.message` (kubectl, pkg/cmd/util/helpers.go). So each cause has all the
information.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

import orjson

from webhook.admission.review import KIND, request_from
from webhook.errors import ReviewError
from webhook.model.admission_request import Request, Verdict
from webhook.model.exceptions import RuleException
from webhook.model.findings import Action, Finding
from webhook.model.plain_text import cut, plain
from webhook.model.reading import EMPTY

# The API server keeps the message in audit events and prints it. A whole spec would hide what matters.
MAX_MESSAGE_BYTES = 1024
# kubectl prints the causes instead of the message. A text with names of the maximum length fits.
MAX_CAUSE_BYTES = 2048
# kubectl prints all causes, a line or two each. A set may have a thousand cliques with the same fault: so many causes
# are enough to see it, and the API server must not copy megabytes into events and to clients.
MAX_CAUSES = 50
# What is said of exceptions in the audit log.
MAX_EXCEPTIONS_BYTES = 1024
# The API server cuts a warning after 256 characters, and drops the rest after 4 KiB in total.
MAX_WARNING_BYTES = 256
MAX_WARNINGS = 15

INVALID, FORBIDDEN = 422, 403

# JSON to plain values.
Decode = Callable[[bytes], object]


def read_review(body: bytes, decode: Decode = orjson.loads, now: datetime | None = None) -> tuple[str, Request]:
    """Return the review's apiVersion and its request, received at `now`. Raises `ReviewError`."""
    try:
        review = decode(body)
    except orjson.JSONDecodeError as error:
        raise ReviewError(f"the body is not JSON: {error}") from None
    return request_version(review), request_from(review, now)


def request_version(review: object) -> str:
    """Return the apiVersion for the answer: the one of the request."""
    return str(review.get("apiVersion")) if isinstance(review, dict) else ""


def written_patch(verdict: Verdict) -> bytes:
    """Return the patch as JSON, or nothing if there is none."""
    return orjson.dumps(verdict.patch) if verdict.patch else b""


def write_review(
    api_version: str, request: Request, verdict: Verdict, patch: bytes = b"", notes: Mapping[str, str] = EMPTY
) -> bytes:
    """Return the answer to `request`, with `patch` as returned by `written_patch`. `notes` are further audit
    annotations of an answer that has some.
    """
    response: dict[str, Any] = {"uid": request.uid, "allowed": verdict.allowed}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(patch).decode()
    if not verdict.allowed:
        response["status"] = _status(request, verdict)
    if verdict.findings or verdict.notes or verdict.unjudged or verdict.scheduler is not None:
        if warnings := _warnings(verdict):
            response["warnings"] = warnings
        response["auditAnnotations"] = _audit(verdict) | dict(notes)
    return orjson.dumps({"apiVersion": api_version, "kind": KIND, "response": response})


def _status(request: Request, verdict: Verdict) -> dict[str, Any]:
    denials = verdict.denials
    forbidden = all(finding.forbidden for finding in denials)
    return {
        "status": "Failure",
        "code": FORBIDDEN if forbidden else INVALID,
        "reason": "Forbidden" if forbidden else "Invalid",
        "message": message_of(verdict),
        "details": {
            "name": request.name,
            "group": request.kind.group,
            "kind": request.kind.kind,
            "causes": _causes(denials),
        },
    }


def _causes(denials: Sequence[Finding]) -> list[dict[str, str]]:
    """Return the causes in the order of the message. Those beyond the limit are counted, at the place of
    the first one.
    """
    told, rest = denials[:MAX_CAUSES], denials[MAX_CAUSES:]
    causes = [_cause(finding, f"{finding.rule}: {finding.explanation}") for finding in told]
    if rest:
        counted = Counter(map(attrgetter("rule"), rest))
        rules = ", ".join(f"{rule} ({count})" for rule, count in counted.items())
        causes.append(_cause(rest[0], f"(+{len(rest)} more, this place the first of them: {rules})"))
    return causes


def _cause(finding: Finding, message: str) -> dict[str, str]:
    return {
        "reason": "FieldValueForbidden" if finding.forbidden else "FieldValueInvalid",
        "field": cut(plain(str(finding.at)), MAX_CAUSE_BYTES),
        "message": cut(plain(message), MAX_CAUSE_BYTES),
    }


def message_of(verdict: Verdict) -> str:
    """Return as many findings as fit, one a line, then how many are left out and which other scheduler could run it."""
    lines: list[str] = []
    left = MAX_MESSAGE_BYTES
    denials, last = verdict.denials, []
    if verdict.alternatives is not None:
        last = [cut(plain(verdict.alternatives), MAX_WARNING_BYTES)]
        left -= len(last[0].encode()) + 1
    for index, finding in enumerate(denials):
        line = plain(str(finding))
        more = len(denials) - index
        # The first finding is always included, even if cut; a later one only as a whole. Room for "(+N more)" is
        # reserved.
        reserve = 0 if more == 1 else len(f"\n(+{more - 1} more)")
        if index == 0:
            line = cut(line, left - reserve)
        elif len(line.encode()) + 1 > left - reserve:
            lines.append(f"(+{more} more)")
            break
        lines.append(line)
        left -= len(line.encode()) + 1
    return "\n".join([*lines, *last])


def _warnings(verdict: Verdict) -> list[str]:
    # Only the warnings that are sent are formatted.
    advice: list[Finding | str] = [*verdict.warnings, *verdict.notes]
    if verdict.alternatives is not None:
        # It goes first, so that it is not cut off: kubectl prints warnings and causes, but not the message of a
        # refusal.
        advice.insert(0, verdict.alternatives)
    told = [cut(plain(str(one)), MAX_WARNING_BYTES) for one in advice[:MAX_WARNINGS]]
    if len(advice) > MAX_WARNINGS:
        told.append(f"(+{len(advice) - MAX_WARNINGS} more warnings)")
    return told


def _audit(verdict: Verdict) -> dict[str, str]:
    annotations = {"decision": verdict.decision}
    if verdict.scheduler is not None:
        annotations["backend"] = cut(verdict.scheduler, MAX_WARNING_BYTES)
    if verdict.findings:
        annotations["rules"] = ",".join(sorted({found.rule for found in verdict.findings if found.action > Action.OFF}))
    if used := _exceptions_used(verdict):
        annotations["exceptions"] = cut(plain("; ".join(used)), MAX_EXCEPTIONS_BYTES)
    if verdict.could_run:
        annotations["couldRun"] = ",".join(verdict.could_run)
    if verdict.unjudged:
        annotations["unjudged"] = ",".join(sorted({missing.rule for missing in verdict.unjudged}))
    return annotations


def _exceptions_used(verdict: Verdict) -> list[str]:
    """Return each exception that covers a finding: its name, the rules that it covers, and its terms."""
    rules: dict[RuleException, set[str]] = {}
    for finding in verdict.findings:
        if finding.excepted is not None:
            rules.setdefault(finding.excepted, set()).add(finding.rule)
    return [f"{used.name} ({', '.join(sorted(covered))}) {used.terms}" for used, covered in rules.items()]

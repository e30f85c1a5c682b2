"""AdmissionReviews: from the bytes of a review to the bytes of its answer, by a decision that pauses for facts that
must be read live.

The deliberation reads no clock and awaits nothing. The event loop runs a small review; a thread runs a large one, and
the event loop reads the facts that it asks for. `?timeout=` says how long the API server waits for the answer, as a Go
duration.

Source of the response's form: k8s.io/api/admission/v1 `AdmissionResponse`. When the reason is Invalid, kubectl prints
`status.details.causes` and not `status.message` (kubectl, pkg/cmd/util/helpers.go). So each cause has all the
information.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import orjson

from webhook.admission.decision import KIND, doubtful_facts, request_from, required_facts
from webhook.cluster.logs import log, outline
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable, ReviewError
from webhook.model.admission_request import ALLOWED, Request, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.findings import Action, Finding, RuleException, cut, plain
from webhook.model.keys import Needed
from webhook.model.reading import EMPTY

# How long the API server waits if the webhook configuration has no timeout.
DEFAULT_SECONDS = 10.0
# The longest timeout that a webhook configuration may have.
MAX_SECONDS = 30.0
# The answer must arrive before the API server's timeout, not at the same time.
MARGIN_SECONDS = 0.2
# The API server writes `timeout=10s`, perhaps after `dryRun=true`. Parsing a query takes time on the event loop, and
# quadratic time for digits without a unit.
MAX_QUERY_BYTES = 256
MAX_CHARACTERS = 40

_DURATION = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h)", re.ASCII)
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@lru_cache(maxsize=64)
def budget(query: bytes) -> float:
    """Returns the seconds within which an answer must be given. Raises `ReviewError` for a `timeout` that is not a
    duration, and for a query or a `timeout` that is too long.

    The API server always sends the same few values, so they are cached.
    """
    if len(query) > MAX_QUERY_BYTES:
        raise ReviewError(f"the query of the URL has {len(query)} bytes, more than {MAX_QUERY_BYTES}")
    values = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("timeout")
    if not values:
        return DEFAULT_SECONDS - MARGIN_SECONDS
    written = values[-1]
    if len(written) > MAX_CHARACTERS:
        raise ReviewError(f"timeout is {written[:MAX_CHARACTERS]!r} and more, longer than {MAX_CHARACTERS} characters")
    parts = _DURATION.findall(written)
    if not parts or "".join(parts) != written:
        raise ReviewError(f"timeout is {written[:40]!r}, not a duration such as 10s")
    seconds = min(sum(_seconds(part) for part in parts), MAX_SECONDS)
    if seconds <= 0:
        raise ReviewError(f"timeout is {written[:40]!r}, must be greater than 0")
    # A very short timeout keeps half of its time.
    return max(seconds - MARGIN_SECONDS, seconds / 2)


def _seconds(part: str) -> float:
    unit = part.lstrip("0123456789.")
    return float(part[: len(part) - len(unit)]) * _UNITS[unit]


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
    """Returns the review's apiVersion and its request, received at `now`. Raises `ReviewError`."""
    try:
        review = decode(body)
    except orjson.JSONDecodeError as error:
        raise ReviewError(f"the body is not JSON: {error}") from None
    return request_version(review), request_from(review, now)


def request_version(review: object) -> str:
    """Returns the apiVersion for the answer: the one of the request."""
    return str(review.get("apiVersion")) if isinstance(review, dict) else ""


def written_patch(verdict: Verdict) -> bytes:
    """Returns the patch as JSON, or nothing if there is none."""
    return orjson.dumps(verdict.patch) if verdict.patch else b""


def write_review(
    api_version: str, request: Request, verdict: Verdict, patch: bytes = b"", notes: Mapping[str, str] = EMPTY
) -> bytes:
    """Returns the answer to `request`, with `patch` as returned by `written_patch`. `notes` are further audit
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
    """Returns the causes in the order of the message. Those beyond the limit are counted, at the place of
    the first one.
    """
    shown, rest = denials[:MAX_CAUSES], denials[MAX_CAUSES:]
    causes = [_cause(finding, f"{finding.rule}: {finding.explanation}") for finding in shown]
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
    """Returns as many findings as fit, one a line, then how many are left out and which other scheduler could run
    it.
    """
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
    lines = [cut(plain(str(warning)), MAX_WARNING_BYTES) for warning in advice[:MAX_WARNINGS]]
    if len(advice) > MAX_WARNINGS:
        lines.append(f"(+{len(advice) - MAX_WARNINGS} more warnings)")
    return lines


def _audit(verdict: Verdict) -> dict[str, str]:
    annotations = {"decision": verdict.decision}
    if verdict.scheduler is not None:
        annotations["backend"] = cut(verdict.scheduler, MAX_WARNING_BYTES)
    if verdict.findings:
        annotations["rules"] = ",".join(
            sorted({finding.rule for finding in verdict.findings if finding.action > Action.OFF})
        )
    if used := _exceptions_used(verdict):
        annotations["exceptions"] = cut(plain("; ".join(used)), MAX_EXCEPTIONS_BYTES)
    if verdict.could_run:
        annotations["couldRun"] = ",".join(verdict.could_run)
    if verdict.unjudged:
        annotations["unjudged"] = ",".join(sorted({missing.rule for missing in verdict.unjudged}))
    return annotations


def _exceptions_used(verdict: Verdict) -> list[str]:
    """Returns each exception that covers a finding: its name, the rules that it covers, and its terms."""
    rules: dict[RuleException, set[str]] = {}
    for finding in verdict.findings:
        if finding.excepted is not None:
            rules.setdefault(finding.excepted, set()).add(finding.rule)
    return [f"{used.name} ({', '.join(sorted(covered))}) {used.terms}" for used, covered in rules.items()]


Decision = Callable[[Request, ClusterFacts, Settings], Verdict]
# What shadows say of a request and its verdict, as audit annotations.
Shadowing = Callable[[Request, Verdict, ClusterFacts], Mapping[str, str]]

# A fact that was read may name the next missing one: a group, its parent, and so on to the root of a tree.
MAX_READ = 8


class Question(NamedTuple):
    """The facts to read live, and the known facts. The answer is both together."""

    needed: list[Needed]
    facts: ClusterFacts


class Deliberation:
    """One review. Call `advance` until it asks nothing more; then `written` is the answer."""

    __slots__ = (
        "_decide",
        "_doubted",
        "_endpoint",
        "_facts",
        "_now",
        "_settings",
        "_shadows",
        "_steps",
        "patch",
        "request",
        "verdict",
        "written",
    )

    def __init__(  # noqa: PLR0913 - what it decides by, and when
        self,
        endpoint: str,
        decide: Decision,
        settings: Settings,
        facts: Callable[[], ClusterFacts],
        doubted: Container[str] | None,
        *,
        now: datetime | None = None,
        shadows: Shadowing | None = None,
    ) -> None:
        """`doubted` are the parts of the facts that may be out of date; None if nothing can be read live. `now` is when
        the review was received. `shadows` is called once, with the final verdict.
        """
        self.request: Request | None = None
        self.verdict = ALLOWED
        self.patch = self.written = b""
        self._endpoint = endpoint
        self._decide = decide
        self._settings = settings
        self._facts = facts
        self._doubted = doubted
        self._now = now
        self._shadows = shadows
        self._steps: Generator[Question, ClusterFacts, None] | None = None

    def begin(self, body: bytes, decode: Decode) -> Question | None:
        """Reads the review and decides. Raises `ReviewError`, `TooManyValues`, and the errors of `advance`."""
        api_version, self.request = read_review(body, decode, self._now)
        if self._doubted is None:
            # Nothing can be read live.
            facts = self._facts()
            self._conclude(api_version, self.request, self._decide(self.request, facts, self._settings), facts)
            return None
        self._steps = self._deliberate(api_version, self.request, self._doubted)
        return self.advance(None)

    def advance(self, answer: ClusterFacts | FactsUnavailable | None) -> Question | None:
        """Continues with the answer to the last question. Returns the next question, or None at the end. Raises
        `FactsUnavailable`.
        """
        steps = self._steps
        if steps is None:
            return None
        try:
            if isinstance(answer, FactsUnavailable):
                return steps.throw(answer)
            return next(steps) if answer is None else steps.send(answer)
        except StopIteration:
            return None

    def forget(self) -> None:
        """Frees the review, even if it was not decided."""
        self.request = self._steps = None

    def _deliberate(
        self, api_version: str, request: Request, doubted: Container[str]
    ) -> Generator[Question, ClusterFacts, None]:
        facts = self._facts()
        if "pod_gangs" in doubted:
            # A record may change only if its gang does not exist, so the outdated list of gangs is not used.
            facts = replace(facts, pod_gangs=None)
        if needed := required_facts(request, facts, doubted, self._settings.kinds):
            facts = yield Question(list(needed), facts)
        verdict = self._decide(request, facts, self._settings)
        verdict, facts = yield from self._confirmed_verdict(verdict, request, facts)
        self._conclude(api_version, request, verdict, facts)

    def _conclude(self, api_version: str, request: Request, verdict: Verdict, facts: ClusterFacts) -> None:
        self.verdict = verdict
        self.patch = written_patch(verdict)
        notes = {} if self._shadows is None else self._shadows(request, verdict, facts)
        self.written = write_review(api_version, request, verdict, self.patch, notes)

    def _confirmed_verdict(
        self, verdict: Verdict, request: Request, facts: ClusterFacts
    ) -> Generator[Question, ClusterFacts, tuple[Verdict, ClusterFacts]]:
        """Returns the verdict after its facts were read live, and the facts. The facts that were read may show that
        more are needed.
        """
        read: set[Needed] = set()
        while len(read) < MAX_READ and (doubts := set(doubtful_facts(verdict)) - read):
            read |= doubts
            try:
                facts = yield Question(sorted(doubts, key=str), facts)
            except FactsUnavailable as error:
                if not verdict.allowed:
                    raise
                # A warning that may be out of date must not block the request.
                log.warning("not read before a warning", endpoint=self._endpoint, why=outline(error))
                break
            verdict = self._decide(request, facts, self._settings)
        return verdict, facts

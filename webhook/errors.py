"""The errors that Rollcall raises on purpose; any other exception that escapes is a bug.

    RollcallError
    ├── ConfigurationError     the configuration file is wrong: all its problems at once        CLI exit 2
    ├── InputError             a file or a body that cannot be read: where, and why             CLI exit 2, HTTP 400
    │   ├── ReviewError        the body is not an AdmissionReview that can be answered          HTTP 400
    │   └── TooLarge           the body is over the limit                                       HTTP 413
    │       └── TooManyValues  the body has too many values, whatever its size                  HTTP 413
    ├── CertificateError       a certificate that cannot be loaded or written                   CLI exit 2
    ├── AccessError            cannot connect to a cluster: kubeconfig missing or wrong         CLI exit 2
    ├── RequestFailed          the Kubernetes API did not do what was requested                 (tried again)
    │   ├── NotFound           there is no such object or kind
    │   ├── Gone               the version to watch from is too old: list again
    │   ├── AnswerTooLarge     the answer is larger than the limit
    │   └── NotModified        the content has not changed since the last request
    ├── NotLeading             another process holds the lease, and writes                      (tried again)
    ├── FactsUnavailable       a decision needs facts that are unavailable                      CLI exit 3, HTTP 500
    │   └── TooManyReads       too many calls are reading facts already                         HTTP 503
    ├── Inexpressible          a gang that its scheduler cannot express as a whole              CLI exit 1
    └── Unavailable            the server will not answer this request
        ├── Overloaded         too many requests at once                                        HTTP 503
        ├── DeadlineExceeded   the caller's timeout has passed                                  HTTP 504
        └── Stopped            the caller no longer waits for the answer                        (not sent)

A finding about a workload is not an error but data (`webhook.model.findings`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webhook.model.findings import Finding, Unjudged


class RollcallError(Exception):
    """The base class of all errors of Rollcall."""

    @property
    def outline(self) -> str:
        """The text for a log. An error whose text may quote the content of an object has a shorter outline."""
        return str(self)


def _place(source: str, line: int, column: int) -> str:
    return f"{source}:{line}:{column}" if line else source


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a configuration file: its place, the value, why it is wrong, and the allowed values."""

    path: str
    value: Any
    why: str
    allowed: tuple[str, ...] = ()
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        allowed = f" (allowed: {', '.join(self.allowed)})" if self.allowed else ""
        value = "" if self.value is None else f"{json.dumps(self.value, default=str, ensure_ascii=False)[:80]}: "
        return f"{self.path or 'the document'}: {value}{self.why}{allowed}"


class ConfigurationError(RollcallError):
    """The configuration cannot be used. Has every problem, so that one run shows them all."""

    def __init__(self, source: str, problems: list[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(
            "\n".join(f"{_place(source, problem.line, problem.column)}: {problem}" for problem in problems)
        )


class InputError(RollcallError):
    """An input cannot be read. `line` and `column` count from 1; 0 means the whole input."""

    def __init__(self, source: str, why: str, line: int = 0, column: int = 0) -> None:
        self.source = source
        self.why = why
        self.line = line
        self.column = column
        place = _place(source, line, column)
        super().__init__(f"{place}: {why}" if place else why)


class ReviewError(InputError):
    """The body is not an AdmissionReview that can be answered. The text is the one line of the HTTP 400."""

    def __init__(self, why: str) -> None:
        super().__init__("", why)


class TooLarge(InputError):
    """The body is over the limit of `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__("", f"the body is over the limit of {limit} bytes")


class TooManyValues(TooLarge):
    """The body has more than `most` brackets and strings: decoded it would take too much memory."""

    def __init__(self, most: int) -> None:
        InputError.__init__(self, "", f"the body has more than {most} brackets and strings; send a smaller object")


class TooManyParts(TooLarge):
    """The list at `path` of a workload has `number` entries, more than the `most` that are judged."""

    def __init__(self, path: str, number: int, most: int) -> None:
        InputError.__init__(self, "", f"{path} has {number} entries, and at most {most} are judged; split the object")


class CertificateError(RollcallError):
    """A certificate or key cannot be loaded, or cannot be written to the requested place."""


class AccessError(RollcallError):
    """Cannot connect to a cluster: its address or our credentials cannot be found or read."""


# The HTTP statuses of a JSON Patch that does not apply.
_OUTDATED = frozenset({404, 422})


class RequestFailed(RollcallError):
    """The Kubernetes API did not do what was requested. `code` is the HTTP status, 0 without an answer. `wait` is the
    number of seconds that the API server asks to wait, if any. `fields` are the rejected fields, without the API
    server's messages, which may quote values.
    """

    def __init__(self, why: str, code: int = 0, wait: float | None = None, fields: str = "") -> None:
        self.code = code
        self.wait = wait
        self._fields = fields
        super().__init__(why)

    @property
    def outline(self) -> str:
        """The status, and the rejected fields."""
        if not self.code:
            return str(self)
        return f"HTTP {self.code}: {self._fields}" if self._fields else f"HTTP {self.code}"

    @property
    def is_outdated_patch(self) -> bool:
        """Whether a JSON Patch did not apply: its object is gone, or has changed so that one of its tests fails."""
        return self.code in _OUTDATED


class NotFound(RequestFailed):
    """There is no such object, or the cluster does not serve the kind. `object_name` is the name of the missing object,
    empty where the kind, or its version, is not served.
    """

    def __init__(self, why: str, code: int = 0, fields: str = "", object_name: str = "") -> None:
        self.object_name = object_name
        super().__init__(why, code, fields=fields)


class Gone(RequestFailed):
    """The API server no longer has the version to watch or list from (HTTP 410). `token` continues a list from its next
    object, as the cluster is now.
    """

    def __init__(
        self, why: str, code: int = 0, wait: float | None = None, fields: str = "", token: str | None = None
    ) -> None:
        self.token = token
        super().__init__(why, code, wait, fields)


class AnswerTooLarge(RequestFailed):
    """An answer, or a line of a watch, is larger than the limit."""


class NotModified(RequestFailed):
    """The requested content has not changed (HTTP 304)."""


class NotLeading(RollcallError):
    """Another process is the leader now."""


class FactsUnavailable(RollcallError):
    """A decision needs facts of the cluster that are unavailable; guessing would start half a gang."""

    def __init__(self, why: str, outline: str | None = None) -> None:
        """`outline` is for the log, if `why` has a name from a field of an object."""
        self._outline = outline
        super().__init__(why)

    @property
    def outline(self) -> str:
        """Which facts are unavailable, without the name of the object."""
        return str(self) if self._outline is None else self._outline


class Inexpressible(RollcallError):
    """A gang that its scheduler cannot express: nothing is translated, not even a part (`findings` say why). `unjudged`
    is filled instead if the translation lacks facts.
    """

    def __init__(self, findings: tuple[Finding, ...], unjudged: tuple[Unjudged, ...] = ()) -> None:
        self.findings = findings
        self.unjudged = unjudged
        super().__init__("\n".join(str(finding) for finding in (*findings, *unjudged)))

    @property
    def outline(self) -> str:
        """The ids of the rules."""
        rules = {finding.rule for finding in self.findings} | {missing.rule for missing in self.unjudged}
        return ", ".join(sorted(rules))


class Unavailable(RollcallError):
    """The server will not answer this request; the caller's failurePolicy decides."""


class Overloaded(Unavailable):
    """There are more requests at once than the server accepts."""


class TooManyReads(FactsUnavailable, Overloaded):
    """Facts are not read, because too many calls already wait for the API server."""


class DeadlineExceeded(Unavailable):
    """The caller's `?timeout=` would expire before an answer."""


class Stopped(Unavailable):
    """The caller no longer waits for the answer, so work on it ends."""

"""The errors that Rollcall raises on purpose; anything else that escapes is a fault of ours.

    RollcallError
    ├── ConfigurationError     the configuration file is wrong: all its problems at once        CLI exit 2
    ├── InputError             a file or a body that cannot be read: where, and why             CLI exit 2, HTTP 400
    │   ├── ReviewError        the body is no AdmissionReview that can be answered              HTTP 400
    │   └── TooLarge           the body is over the limit                                       HTTP 413
    │       └── TooManyValues  the body has too many values, whatever its size                  HTTP 413
    ├── CertificateError       a certificate that cannot be loaded or written                   CLI exit 2
    ├── AccessError            no way to a cluster: no kubeconfig, or one that is wrong         CLI exit 2
    ├── RequestFailed          the Kubernetes API did not do what was asked                     (tried again)
    │   ├── NotFound           there is no such object, or no such kind
    │   ├── Gone               the version to watch from is too old: list again
    │   ├── AnswerTooLarge     the answer has more bytes than are read at once
    │   └── NotModified        nothing changed since it was last asked
    ├── NotLeading             another process holds the lease, and writes                      (tried again)
    ├── FactsUnavailable       a decision needs facts that could not be had                     CLI exit 3, HTTP 500
    │   └── TooManyReads       the facts are not read, because too many calls read already      HTTP 503
    ├── Inexpressible          a gang that its scheduler cannot express, as a whole             CLI exit 1
    └── Unavailable            the server will not answer this request
        ├── Overloaded         too many requests at once                                        HTTP 503
        ├── DeadlineExceeded   the caller's time is up                                          HTTP 504
        └── Stopped            nobody waits for the answer any more                             (not sent)

A finding about a workload is no error: it is data (`webhook.model.findings`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from webhook.model.findings import Finding, Unjudged


class RollcallError(Exception):
    """The root of the tree."""

    @property
    def outline(self) -> str:
        """What a log may say of it. Those that may quote what an object holds say less than their whole text."""
        return str(self)


def _place(source: str, line: int, column: int) -> str:
    return f"{source}:{line}:{column}" if line else source


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a configuration file: where, what was found, why it is wrong, and what would be right."""

    path: str
    found: Any
    why: str
    allowed: tuple[str, ...] = ()
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        allowed = f" (allowed: {', '.join(self.allowed)})" if self.allowed else ""
        found = "" if self.found is None else f"{json.dumps(self.found, default=str, ensure_ascii=False)[:80]}: "
        return f"{self.path or 'the document'}: {found}{self.why}{allowed}"


class ConfigurationError(RollcallError):
    """The configuration cannot be used. Carries every problem, so that one run shows them all."""

    def __init__(self, source: str, problems: list[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{_place(source, found.line, found.column)}: {found}" for found in problems))


class InputError(RollcallError):
    """Something that was given cannot be read. `line` and `column` count from 1; 0 means the whole."""

    def __init__(self, source: str, why: str, line: int = 0, column: int = 0) -> None:
        self.source = source
        self.why = why
        self.line = line
        self.column = column
        place = _place(source, line, column)
        super().__init__(f"{place}: {why}" if place else why)


class ReviewError(InputError):
    """The body is no AdmissionReview that can be answered; its text is the one line of the HTTP 400."""

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


class CertificateError(RollcallError):
    """A certificate or key cannot be loaded, or cannot be written where it was asked for."""


class AccessError(RollcallError):
    """There is no way to a cluster: its address or our credentials cannot be found or read."""


class RequestFailed(RollcallError):
    """The Kubernetes API did not do what was asked. `code` is the HTTP status, 0 where there was no answer; `wait` is
    how many seconds it asks to be left alone for, where it does; `fields` are what it finds fault with, and not what it
    says of them, which may quote what was written.
    """

    def __init__(self, why: str, code: int = 0, wait: float | None = None, fields: str = "") -> None:
        self.code = code
        self.wait = wait
        self._fields = fields
        super().__init__(why)

    @property
    def outline(self) -> str:
        """The status, and what it is about."""
        if not self.code:
            return str(self)
        return f"HTTP {self.code}: {self._fields}" if self._fields else f"HTTP {self.code}"


class NotFound(RequestFailed):
    """There is no such object, or the cluster serves no such kind."""


class Gone(RequestFailed):
    """The version from which to watch is no longer kept (HTTP 410)."""


class AnswerTooLarge(RequestFailed):
    """An answer, or a line of a watch, has more bytes than are read at once."""


class NotModified(RequestFailed):
    """What was asked for is as it was (HTTP 304)."""


class NotLeading(RollcallError):
    """Another process writes now."""


class FactsUnavailable(RollcallError):
    """A decision needs facts of the cluster that could not be had; guessing would start half a gang."""

    def __init__(self, why: str, outline: str | None = None) -> None:
        """`outline` is for the log, where `why` names what an object asks for."""
        self._outline = outline
        super().__init__(why)

    @property
    def outline(self) -> str:
        """Which facts, and not of what name."""
        return str(self) if self._outline is None else self._outline


class Inexpressible(RollcallError):
    """A gang that its scheduler cannot express. Nothing is translated, never a part (`findings` say why).

    `unjudged` is filled instead when facts are missing that the translation needs.
    """

    def __init__(self, findings: tuple[Finding, ...], unjudged: tuple[Unjudged, ...] = ()) -> None:
        self.findings = findings
        self.unjudged = unjudged
        super().__init__("\n".join(str(finding) for finding in (*findings, *unjudged)))

    @property
    def outline(self) -> str:
        """The rules."""
        rules = {found.rule for found in self.findings} | {missing.rule for missing in self.unjudged}
        return ", ".join(sorted(rules))


class Unavailable(RollcallError):
    """The server will not answer this request; the caller's failurePolicy decides."""


class Overloaded(Unavailable):
    """More requests at once than the server takes on."""


class TooManyReads(FactsUnavailable, Overloaded):
    """Facts are not read, because as many calls as may wait for the API server already."""


class DeadlineExceeded(Unavailable):
    """The caller's `?timeout=` would pass before an answer."""


class Stopped(Unavailable):
    """Nobody waits for the answer any more, so work on it ends."""

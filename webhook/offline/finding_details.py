"""The level and the suppression of a finding in a file.

The command line declares its options with the levels, so this module imports nothing of what judges.

A suppression is a finding that an author accepts, with a reason: `# rollcall:ignore RULE: reason` in a comment, or the
annotation `rollcall.dev/ignore: "RULE: reason"`. A suppressed finding stays in every report, and no longer fails
`rollcall check`. The webhook does not read suppressions: an author must not be able to switch off its rules. A rule
that fails closed cannot be suppressed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple


class FailOn(StrEnum):
    """What fails a check."""

    ERROR = "error"
    WARNING = "warning"
    UNJUDGED = "unjudged"


class Level(StrEnum):
    """The weight of a finding, in the words of a report."""

    ERROR = "error"
    WARNING = "warning"
    AUDIT = "audit"


ANNOTATION = "rollcall.dev/ignore"
COMMENT = "rollcall:ignore"

# Rules, a colon, and the reason. An id has a slash and no spaces.
_WRITTEN = re.compile(r"\s*([\w./*-]+(?:\s*,\s*[\w./*-]+)*)\s*(?::\s*(.*?)\s*)?\Z")


class Origin(StrEnum):
    """Where a suppression is written: the first two in the words of SARIF."""

    IN_SOURCE = "inSource"
    BASELINE = "external"
    # In the configuration, by which the webhook judges too.
    EXCEPTION = "exception"

    @property
    def word(self) -> str:
        return _WORDS[self]


_WORDS = {Origin.IN_SOURCE: "suppressed", Origin.BASELINE: "baseline", Origin.EXCEPTION: "excepted"}


class Suppression(NamedTuple):
    """The reason why a finding is accepted, and where it is written."""

    reason: str
    origin: Origin = Origin.IN_SOURCE

    @property
    def shown_reason(self) -> str:
        """The reason, with the word for what it does."""
        # The reason of an exception begins with the word.
        return self.reason if self.origin is Origin.EXCEPTION else f"suppressed: {self.reason}"


class Directive(NamedTuple):
    """A suppression as written: the rules, the reason (empty if it has none), and the line of the file that it is
    about. An annotation is about its whole object, and has line 0.
    """

    rules: tuple[str, ...]
    reason: str
    line: int = 0


def parse_directive(written: str, line: int = 0) -> Directive | None:
    """Returns what a comment or a line of the annotation says behind its key; None if it says nothing. What is not
    RULE: REASON is taken as the name of a rule, which does not exist.
    """
    match = _WRITTEN.match(written)
    if match is None:
        return Directive((written.strip(),), "", line) if written.strip() else None
    return Directive(tuple(rule.strip() for rule in match[1].split(",")), match[2] or "", line)


def annotation_directives(value: object) -> Iterator[Directive]:
    if isinstance(value, str):
        yield from filter(None, map(parse_directive, value.splitlines()))

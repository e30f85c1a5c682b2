"""Request and Verdict: the input and the output of a decision. Neither depends on HTTP or JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from webhook.model.findings import Action, Finding, Omission, Unjudged
from webhook.model.reading import Manifest

OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
# The possible values of `Verdict.decision`.
DECISIONS = ("allowed", "denied", "patched")


class Kind(NamedTuple):
    """A group, version and kind; the core group is the empty string."""

    group: str
    version: str
    kind: str


# Not frozen, as `Context`: each call makes one, and a frozen one takes three times as long.
@dataclass(slots=True)
class Request:
    """One object to be admitted to the cluster. `object` is None on DELETE, `old` is None on CREATE. `user` is empty
    without a user, as for a manifest in a file. `at` is when the request was received, in UTC; without it no exception
    applies.
    """

    uid: str
    operation: str
    kind: Kind
    namespace: str
    name: str
    object: Manifest | None
    old: Manifest | None = None
    subresource: str = ""
    # The plural of the kind; empty if it is not known.
    resource: str = ""
    user: str = ""
    at: datetime | None = None


# A JSON Patch operation (RFC 6902).
Operation = dict[str, Any]


# Nothing changes one. It is not frozen, because that would make each decision slower.
@dataclass(slots=True)
class Verdict:
    """The decision. `findings` holds every finding with its action, the denying ones first."""

    allowed: bool = True
    scheduler: str | None = None
    findings: tuple[Finding, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    patch: tuple[Operation, ...] = ()
    # Advice that comes from no rule: why a pod was left unchanged.
    notes: tuple[str, ...] = ()
    # What chose the scheduler of a workload, in words.
    chosen_by: str = ""
    # The other enabled schedulers that would run a refused workload as it is written.
    could_run: tuple[str, ...] = ()
    # Why the object was not judged, or only by the rules that hold whoever makes its gang. In files only.
    omission: Omission | None = None

    @property
    def alternatives(self) -> str | None:
        """A sentence that names the other schedulers that could run the refused workload."""
        if not self.could_run:
            return None
        *others, last = self.could_run
        return f"{', '.join(others)} or {last} could run it as written" if others else f"{last} could run it as written"

    @property
    def denials(self) -> tuple[Finding, ...]:
        """The findings that refuse the object."""
        return tuple(finding for finding in self.findings if finding.action is Action.DENY)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that are shown to the user as warnings."""
        return tuple(finding for finding in self.findings if finding.action is Action.WARN)

    @property
    def decision(self) -> str:
        """One word for logs, metrics and audit annotations."""
        if not self.allowed:
            return "denied"
        return "patched" if self.patch else "allowed"


ALLOWED = Verdict()

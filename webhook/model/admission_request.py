"""Request and Verdict: what the decision is asked, and what it answers. Neither knows of HTTP or JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from webhook.model.findings import Action, Finding, Unjudged
from webhook.model.reading import Manifest

OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
# What `Verdict.decision` may be.
DECISIONS = ("allowed", "denied", "patched")


class Kind(NamedTuple):
    """A group, version and kind; the core group is the empty one."""

    group: str
    version: str
    kind: str


@dataclass(frozen=True, slots=True)
class Request:
    """One object on its way into the cluster. `object` is None on DELETE, `old` on CREATE; `user` is empty where nobody
    asks, as for a manifest in a file.
    """

    uid: str
    operation: str
    kind: Kind
    namespace: str
    name: str
    object: Manifest | None
    old: Manifest | None = None
    subresource: str = ""
    user: str = ""


# A JSON Patch operation (RFC 6902).
Operation = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided. `findings` holds every finding with the action it takes, the denying ones first."""

    allowed: bool = True
    scheduler: str | None = None
    findings: tuple[Finding, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    patch: tuple[Operation, ...] = ()
    # Advice that is no rule's: why a pod was left as it is.
    notes: tuple[str, ...] = ()
    # The other schedulers enabled here that would run a refused workload as it is written.
    could_run: tuple[str, ...] = ()

    @property
    def alternatives(self) -> str | None:
        """Which other schedulers could run the refused workload, as a sentence."""
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
        """The findings that the user is told of."""
        return tuple(finding for finding in self.findings if finding.action is Action.WARN)

    @property
    def decision(self) -> str:
        """One word for logs, metrics and audit annotations."""
        if not self.allowed:
            return "denied"
        return "patched" if self.patch else "allowed"


ALLOWED = Verdict()

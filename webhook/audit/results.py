"""The results of an audit. No I/O."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from webhook.audit.stored import StoredKey
from webhook.audit.tally import Tally


@dataclass(slots=True)
class Audit:
    """The results of one audit. `new` and `gone` are only there if two judgements were compared: what the second one
    finds in addition, and what it no longer finds.
    """

    today: Tally
    new: Tally | None = None
    gone: Tally | None = None
    # Objects that only the second judgement refuses, and that only the first one refuses.
    newly_refused: int = 0
    newly_allowed: int = 0
    read: Counter[str] = field(default_factory=Counter)
    # The kinds that could not be listed, or not to the end, with the reason.
    unlisted: dict[str, str] = field(default_factory=dict)
    # The kinds of facts that could not be read: rules that need them are not judged.
    unread: dict[str, str] = field(default_factory=dict)
    # Objects whose judgement failed by a fault of Rollcall.
    faults: int = 0
    faulty: list[StoredKey] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every object was judged."""
        return not (self.unlisted or self.faults)

    @property
    def decisive(self) -> Tally:
        """The findings that an exit code is about: those that are new, else all."""
        return self.today if self.new is None else self.new

"""Finding: one rule's verdict at one field. Unjudged: a rule that lacked the facts for a verdict. Omission: an object
that no rule judged.

A rule yields `Finding(at=..., found=..., why=..., remedy=...)`; the caller that runs the rule adds its id and the
configured action. The texts are lower-case sentences without a full stop: "why" says what goes wrong, "remedy" says
what to do about it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

from webhook.model.bounds import name_text
from webhook.model.exceptions import RuleException
from webhook.model.fields import FieldPath
from webhook.model.keys import Needed
from webhook.model.plain_text import plain

# A longer found value is cut: a message must never contain a whole spec.
MAX_FOUND_CHARACTERS = 80
# Reason and remedy may quote names from the object, and an annotation's value may have 256 KiB. Three names of the
# greatest length fit.
MAX_SAID_CHARACTERS = 900


class Action(IntEnum):
    """The action of a finding, weakest first, so that `min` applies a ceiling."""

    OFF = 0
    AUDIT = 1
    WARN = 2
    DENY = 3

    def __str__(self) -> str:
        return self.name.lower()

    @classmethod
    def parse(cls, word: str) -> Action | None:
        """The action with that name, as configuration files and labels write it, or None."""
        return _ACTIONS.get(word)


_ACTIONS = {str(action): action for action in Action}


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault at one field. `forbidden` marks a change that is not allowed (HTTP 403 rather than 422)."""

    at: FieldPath
    found: Any
    why: str
    remedy: str
    forbidden: bool = False
    rule: str = ""
    action: Action = Action.DENY
    fails_closed: bool = False
    # The fact whose absence or state is the reason. A snapshot may lag, so the fact is read live before this finding
    # refuses.
    absent: Needed | None = None
    # Whether the missing object may exist and have faults itself. It is then read live even before a mere warning.
    hides_more: bool = False
    # The strongest action, no matter what action the rule has: set if an object of another namespace is the cause.
    at_most: Action = Action.DENY
    # The weakest action, no matter what action the rule has: set if a namespace asks for more.
    at_least: Action = Action.OFF
    # A warning is given only at creation: it is about the chosen scheduler, which an update does not change.
    once: bool = False
    # Rollcall does not write what this is about, so the gang starts without it.
    left_out: bool = False
    # Values that would be valid at that place, best first, if the rule knows any.
    instead: tuple[Any, ...] = ()
    # The exception that covers it: it does not refuse.
    excepted: RuleException | None = None

    def __post_init__(self) -> None:
        # The value only has to distinguish two faults, so a long annotation value is shortened.
        if isinstance(self.found, str):
            object.__setattr__(self, "found", name_text(self.found) or "")
        if len(self.why) > MAX_SAID_CHARACTERS:
            object.__setattr__(self, "why", _cut(self.why, MAX_SAID_CHARACTERS))
        if len(self.remedy) > MAX_SAID_CHARACTERS:
            object.__setattr__(self, "remedy", _cut(self.remedy, MAX_SAID_CHARACTERS))

    def __str__(self) -> str:
        terms = "" if self.excepted is None else f"{self.excepted.terms}; "
        return f"{self.rule} at {str(self.at) or 'the object'}: {terms}{self.explanation}"

    @property
    def explanation(self) -> str:
        """The message without rule and place: found value, why, what to do."""
        return f"{shown(self.found)}: {self.why}; {self.remedy}"

    @property
    def identity(self) -> tuple[str, str, str]:
        """Rule, place and value. If they are equal in two versions of an object, the fault is the same. List items
        without names are distinguished by their content. If an identity occurs several times, the fault is there that
        many times.
        """
        return (self.rule, self.at.anchor, name_text(json.dumps(self.found, sort_keys=True, default=str)) or "")


@dataclass(frozen=True, slots=True)
class Unjudged:
    """The result of a rule that applies but lacks the facts that it needs (`needs`, in words). `remedy` says how to
    supply them. `part` is their part of `ClusterFacts`; "" for what no cluster can tell.
    """

    at: FieldPath
    needs: str
    rule: str = ""
    remedy: str = ""
    part: str = ""

    def __str__(self) -> str:
        return f"{self.rule} at {self.at}: not judged: {self.lacking}"

    @property
    def lacking(self) -> str:
        """What is missing and how to supply it."""
        return f"{self.needs} unknown" + (f"; {self.remedy}" if self.remedy else "")


class Reason(StrEnum):
    """Why no rule judged an object."""

    NOT_OPTED_IN = "not-opted-in"
    UNKNOWN_KIND = "unknown-kind"
    # A gang object, or a gang, of a scheduler that has no profile here.
    NO_PROFILE = "no-profile"
    NOT_RENDERED = "not-rendered"
    # A pod of a gang whose workload is not there.
    POD_LEFT = "pod-left"
    # What a program wrote that failed.
    NO_MANIFEST = "no-manifest"
    # Its pods name a group that is not judged here.
    GROUP_MISSING = "group-missing"
    # Its pods are judged with the group that they name, or nothing asks for one, or it is no object, or no rule is
    # about its kind.
    GANG_ELSEWHERE = "gang-elsewhere"
    NO_GANG = "no-gang"
    NO_OBJECT = "no-object"
    NO_RULES = "no-rules"

    @property
    def is_ordinary(self) -> bool:
        """Whether such objects stand beside gangs everywhere, so that they matter only if nothing else was judged."""
        return self.is_ignored or self is Reason.GANG_ELSEWHERE

    @property
    def is_ignored(self) -> bool:
        """Whether nothing about gangs is in such objects."""
        return self in {Reason.NO_GANG, Reason.NO_OBJECT, Reason.NO_RULES}


@dataclass(frozen=True, slots=True)
class Omission:
    """Why no rule judged an object, the field that shows it, and the edit that changes it."""

    at: FieldPath
    reason: Reason
    why: str
    remedy: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "why", _cut(self.why, MAX_SAID_CHARACTERS))
        object.__setattr__(self, "remedy", _cut(self.remedy, MAX_SAID_CHARACTERS))

    def __str__(self) -> str:
        return f"{self.why}; {self.remedy}"


def shown(value: object) -> str:
    """`value` as a message shows it: JSON, cut, and never the contents of a map or list."""
    if isinstance(value, dict):
        return f"an object of {len(value)} fields"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)} items"
    if isinstance(value, str):
        value = _cut(value, MAX_FOUND_CHARACTERS)
    return plain(json.dumps(value, ensure_ascii=False))


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."

"""Finding: one rule's verdict at one field. Unjudged: a rule that lacked the facts for a verdict. Omission: an object
that no rule judged.

Exceptions are kept here too: for some time, rules do not refuse certain workloads of named namespaces. Text for people
has no control characters. Names, labels and values come from tenants: a control character can move the cursor, and a
bidirectional control can make a denied name look like an allowed one (Unicode Technical Report 36).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

from webhook.model.bounds import name_text
from webhook.model.fields import FieldPath
from webhook.model.keys import Needed
from webhook.model.reading import EMPTY

# C0 and C1 controls, soft hyphen, Arabic letter mark, zero-width characters and direction marks, line and paragraph
# separators, bidirectional embeddings, overrides and isolates, invisible operators, the byte order mark and the
# interlinear marks.
_INVISIBLE = (
    *range(0x20),
    *range(0x7F, 0xA0),
    0xAD,
    0x61C,
    *range(0x200B, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    0xFEFF,
    *range(0xFFF9, 0xFFFC),
)
_REPLACED = dict.fromkeys(_INVISIBLE, "\ufffd")
# json.dumps escapes the C0 controls in strings. Those left in its output are its own line ends.
_ESCAPED = {point: f"\\u{point:04x}" for point in _INVISIBLE if point >= 0x7F}  # noqa: PLR2004 - the first above ASCII


def plain(text: str) -> str:
    """Returns `text` with each such control character replaced by U+FFFD."""
    return text.translate(_REPLACED)


def escaped(json_text: str) -> str:
    """Returns JSON with the same characters written as escapes, which does not change its meaning."""
    return json_text.translate(_ESCAPED)


def printable(text: str) -> str:
    """Returns `text` with each character that is not printable written as an escape of Python."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def cut(text: str, limit: int) -> str:
    """Returns `text` in at most `limit` bytes of UTF-8, ending with "..." if it was cut."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return text
    return encoded[: limit - 3].decode("utf-8", "ignore") + "..."


# An end is announced this long before.
ANNOUNCED = timedelta(days=7)


class Excepted(NamedTuple):
    """An object as exceptions select it. `names` are its kind and name, for a pod also those of its workload."""

    names: tuple[tuple[str, str], ...]
    labels: Mapping[str, object] = EMPTY


@dataclass(frozen=True, slots=True)
class WorkloadSelector:
    """Which workloads an exception covers: those that have one of the kinds, one of the names, and all labels. What is
    empty selects every workload.
    """

    kinds: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    labels: tuple[tuple[str, str], ...] = ()

    def takes(self, excepted: Excepted) -> bool:
        """Returns whether it selects an object."""
        name_matches = not (self.kinds or self.names) or any(
            (not self.kinds or kind in self.kinds) and (not self.names or name in self.names)
            for kind, name in excepted.names
        )
        return name_matches and all(excepted.labels.get(key) == value for key, value in self.labels)

    def __str__(self) -> str:
        parts = [*sorted(self.kinds), *sorted(self.names), *(f"{key}={value}" for key, value in self.labels)]
        return " ".join(parts) or "every workload"


@dataclass(frozen=True, slots=True)
class RuleException:
    """One exception. It ends at `until`, in UTC: at that moment it no longer applies."""

    name: str
    rules: frozenset[str]
    namespaces: frozenset[str]
    reason: str
    granted_by: str
    until: datetime
    workloads: WorkloadSelector = WorkloadSelector()

    def has_ended(self, now: datetime) -> bool:
        """Returns whether it no longer applies."""
        return now >= self.until

    def ends_soon(self, now: datetime) -> bool:
        """Returns whether it still applies, and its end is to be announced."""
        return not self.has_ended(now) and self.until - now <= ANNOUNCED

    @property
    def ends(self) -> str:
        """The end as text, in UTC."""
        return self.until.strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def terms(self) -> str:
        """Who granted it, until when, and why."""
        return f"excepted by {self.granted_by} until {self.ends}: {self.reason}"

    def time_left(self, now: datetime) -> str:
        """Returns how long it still applies, or since when it does not, in words."""
        if self.has_ended(now):
            return f"ended {_long(now - self.until)} ago"
        return f"ends in {_long(self.until - now)}"

    def as_json(self) -> dict[str, str]:
        """Returns it as plain JSON values, as a report quotes it."""
        return {"name": self.name, "grantedBy": self.granted_by, "until": self.ends, "reason": self.reason}


def _long(span: timedelta) -> str:
    if span.days:
        return f"{span.days} day{'s' if span.days > 1 else ''}"
    hours, minutes = divmod(span.seconds // 60, 60)
    return f"{hours} h" if hours else f"{minutes} min"


class Exceptions:
    """All exceptions of a configuration, in its order."""

    __slots__ = ("_by_namespace", "every")

    def __init__(self, every: Iterable[RuleException] = ()) -> None:
        self.every = tuple(every)
        by_namespace: dict[str, list[RuleException]] = {}
        for exception in self.every:
            for namespace in exception.namespaces:
                by_namespace.setdefault(namespace, []).append(exception)
        self._by_namespace = {namespace: tuple(exceptions) for namespace, exceptions in by_namespace.items()}

    def active_in(self, namespace: str, now: datetime | None) -> tuple[RuleException, ...]:
        """Returns the exceptions that apply in a namespace at that time; none without a time."""
        exceptions = self._by_namespace.get(namespace, ())
        return () if now is None else tuple(exception for exception in exceptions if not exception.has_ended(now))

    def may_except_pods(self, namespace: str, workload: str, now: datetime) -> bool:
        """Returns whether an exception may cover the pods of a workload, whatever its rules. Only the name of the
        workload decides: its labels are not known, and another workload may have made it. An empty name is unknown.
        """
        granted = [exception.workloads.names for exception in self.active_in(namespace, now)]
        return any(not (workload and names) or workload in names for names in granted)


NO_EXCEPTIONS = Exceptions()


# A longer found value is cut: a message must never contain a whole spec.
MAX_VALUE_CHARACTERS = 80
# Reason and remedy may quote names from the object, and an annotation's value may have 256 KiB. Three names of the
# greatest length fit.
MAX_MESSAGE_CHARACTERS = 900


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
        """Returns the action with that name, as configuration files and labels write it, or None."""
        return _ACTIONS.get(word)


_ACTIONS = {str(action): action for action in Action}


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault at one field. `forbidden` marks a change that is not allowed (HTTP 403 rather than 422)."""

    at: FieldPath
    value: Any
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
        if isinstance(self.value, str):
            object.__setattr__(self, "value", name_text(self.value) or "")
        if len(self.why) > MAX_MESSAGE_CHARACTERS:
            object.__setattr__(self, "why", _cut(self.why, MAX_MESSAGE_CHARACTERS))
        if len(self.remedy) > MAX_MESSAGE_CHARACTERS:
            object.__setattr__(self, "remedy", _cut(self.remedy, MAX_MESSAGE_CHARACTERS))

    def __str__(self) -> str:
        terms = "" if self.excepted is None else f"{self.excepted.terms}; "
        return f"{self.rule} at {str(self.at) or 'the object'}: {terms}{self.explanation}"

    @property
    def explanation(self) -> str:
        """The message without rule and place: found value, why, what to do."""
        return f"{shown(self.value)}: {self.why}; {self.remedy}"

    @property
    def identity(self) -> tuple[str, str, str]:
        """Rule, place and value. If they are equal in two versions of an object, the fault is the same. List items
        without names are distinguished by their content. If an identity occurs several times, the fault is there that
        many times.
        """
        return (self.rule, self.at.anchor, name_text(json.dumps(self.value, sort_keys=True, default=str)) or "")


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


class OmissionReason(StrEnum):
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
        return self.is_ignored or self is OmissionReason.GANG_ELSEWHERE

    @property
    def is_ignored(self) -> bool:
        """Whether nothing about gangs is in such objects."""
        return self in {OmissionReason.NO_GANG, OmissionReason.NO_OBJECT, OmissionReason.NO_RULES}


@dataclass(frozen=True, slots=True)
class Omission:
    """Why no rule judged an object, the field that shows it, and the edit that changes it."""

    at: FieldPath
    reason: OmissionReason
    why: str
    remedy: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "why", _cut(self.why, MAX_MESSAGE_CHARACTERS))
        object.__setattr__(self, "remedy", _cut(self.remedy, MAX_MESSAGE_CHARACTERS))

    def __str__(self) -> str:
        return f"{self.why}; {self.remedy}"


def shown(value: object) -> str:
    """Returns `value` as a message shows it: JSON, cut, and never the contents of a map or list."""
    if isinstance(value, dict):
        return f"an object of {len(value)} fields"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)} items"
    if isinstance(value, str):
        value = _cut(value, MAX_VALUE_CHARACTERS)
    return plain(json.dumps(value, ensure_ascii=False))


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."

"""Exceptions: for some time, rules do not refuse certain workloads of named namespaces.

The configuration grants them. An exception names its namespaces, because a tenant can give any workload of his own
namespace a name or a label. The time is passed in, so an exception ends without a restart. No I/O, and no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from webhook.model.reading import EMPTY

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

    def takes(self, found: Excepted) -> bool:
        """Return whether it selects an object."""
        named = not (self.kinds or self.names) or any(self._takes_name(*one) for one in found.names)
        return named and all(found.labels.get(key) == value for key, value in self.labels)

    def _takes_name(self, kind: str, name: str) -> bool:
        return (not self.kinds or kind in self.kinds) and (not self.names or name in self.names)

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
        """Return whether it no longer applies."""
        return now >= self.until

    def ends_soon(self, now: datetime) -> bool:
        """Return whether it still applies, and its end is to be announced."""
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
        """Return how long it still applies, or since when it does not, in words."""
        if self.has_ended(now):
            return f"ended {_long(now - self.until)} ago"
        return f"ends in {_long(self.until - now)}"

    def as_json(self) -> dict[str, str]:
        """Return it as plain JSON values, as a report quotes it."""
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
        for one in self.every:
            for namespace in one.namespaces:
                by_namespace.setdefault(namespace, []).append(one)
        self._by_namespace = {namespace: tuple(found) for namespace, found in by_namespace.items()}

    def in_force(self, namespace: str, now: datetime | None) -> tuple[RuleException, ...]:
        """Return the exceptions that apply in a namespace at that time; none without a time."""
        found = self._by_namespace.get(namespace, ())
        return () if now is None else tuple(one for one in found if not one.has_ended(now))

    def may_except_pods(self, namespace: str, workload: str, now: datetime) -> bool:
        """Return whether an exception may cover the pods of a workload, whatever its rules. Only the name of the
        workload decides: its labels are not known, and another workload may have made it. An empty name is unknown.
        """
        granted = self.in_force(namespace, now)
        return any(not (workload and one.workloads.names) or workload in one.workloads.names for one in granted)


NO_EXCEPTIONS = Exceptions()

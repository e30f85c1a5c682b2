"""What was found in the stored objects: counted completely, by rule and namespace, and kept up to a limit. No I/O.

A tenant can store any number of objects, each with any number of faults. So findings of one namespace never use up what
is kept for the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from webhook.audit.stored import StoredKey
from webhook.model.admission_request import Verdict
from webhook.model.findings import Action, Finding, Unjudged, shown
from webhook.offline.report import Selection

# Findings that refuse an object are kept up to this number, and as many others, with at most 3 KB each. The rest is
# only counted.
MOST_KEPT = 5_000
# Of these, what one namespace may have.
MOST_OF_NAMESPACE = 500
# The word for a rule that could not be judged, beside the actions of findings.
NOT_JUDGED = "notJudged"
EVERY_RULE = Selection()


class Group(NamedTuple):
    """What is counted together. `action` is a finding's, or `NOT_JUDGED`."""

    action: str
    rule: str
    namespace: str


class Kept(NamedTuple):
    """A finding or what could not be judged, with its object."""

    object: StoredKey
    finding: Finding | Unjudged
    scheduler: str | None
    chosen_by: str

    @property
    def group(self) -> Group:
        """What it is counted with."""
        return Group(action_of(self.finding), self.finding.rule, self.object.namespace)


@dataclass(slots=True)
class Count:
    """How often something was found, in how many objects, and the first of these with the field."""

    findings: int = 0
    objects: int = 0
    example: str = ""
    at: str = ""


def action_of(found: Finding | Unjudged) -> str:
    """Return the action of a finding as a word, or `NOT_JUDGED`."""
    return NOT_JUDGED if isinstance(found, Unjudged) else str(found.action)


def results_in(verdict: Verdict, selection: Selection = EVERY_RULE) -> Iterator[Finding | Unjudged]:
    """Yield the findings of a verdict, then what could not be judged."""
    for finding in verdict.findings:
        if selection.takes(finding.rule, fails_closed=finding.fails_closed):
            yield finding
    for missing in verdict.unjudged:
        if selection.takes(missing.rule):
            yield missing


@dataclass(slots=True)
class Tally:
    """The findings in some objects. `most` that refuse are kept, and `most` others; of each namespace
    `most_of_namespace`.
    """

    most: int = MOST_KEPT
    most_of_namespace: int = MOST_OF_NAMESPACE
    kept: list[Kept] = field(default_factory=list)
    groups: dict[Group, Count] = field(default_factory=dict)
    # Judged objects by kind; by namespace those without a finding; the objects that would be refused.
    judged: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    # Kept findings by whether they refuse, in all and by namespace.
    _kept: Counter[tuple[bool, str]] = field(default_factory=Counter)
    _of_namespace: dict[str, list[tuple[Group, Count]]] = field(default_factory=dict)

    def add(self, key: StoredKey, verdict: Verdict, results: Iterable[Finding | Unjudged]) -> None:
        """Count one object with these results of its verdict."""
        self.judged[key.kind] += 1
        self.refused += not verdict.allowed
        seen: set[Group] = set()
        for found in results:
            one = Kept(key, found, verdict.scheduler, verdict.chosen_by)
            group = one.group
            count = self.groups.setdefault(group, Count())
            if not count.findings:
                self._of_namespace.setdefault(group.namespace, []).append((group, count))
                count.example, count.at = f"{key.kind}/{key.name}", str(found.at)
            count.findings += 1
            count.objects += group not in seen
            seen.add(group)
            if self._keeps(group):
                self.kept.append(one._replace(finding=_slim(found)))
        if not seen:
            self.passed[key.namespace] += 1

    def _keeps(self, group: Group) -> bool:
        refuses = group.action == str(Action.DENY)
        in_all, in_namespace = (refuses, ""), (refuses, group.namespace)
        if self._kept[in_all] >= self.most or self._kept[in_namespace] >= self.most_of_namespace:
            return False
        self._kept[in_all] += 1
        self._kept[in_namespace] += 1
        return True

    def total(self, action: str) -> int:
        """Return how many findings have an action."""
        return sum(count.findings for group, count in self.groups.items() if group.action == action)

    @property
    def left_out(self) -> int:
        """How many findings were counted and not kept."""
        return sum(count.findings for count in self.groups.values()) - len(self.kept)

    @property
    def namespaces(self) -> list[str]:
        """The namespaces with any finding."""
        return sorted(self._of_namespace)

    def of_namespace(self, namespace: str) -> Sequence[tuple[Group, Count]]:
        """Return the groups of one namespace."""
        return self._of_namespace.get(namespace, ())

    def ordered(self) -> list[tuple[Group, Count]]:
        """Return the groups: the strictest action first, then by rule and namespace."""
        return sorted(self.groups.items(), key=lambda one: (_WEIGHT[one[0].action], one[0].rule, one[0].namespace))


_WEIGHT = {str(action): -action for action in Action} | {NOT_JUDGED: 1}


def _slim(found: Finding | Unjudged) -> Finding | Unjudged:
    """Return a finding without references into its object, so that the object can be freed."""
    if isinstance(found, Unjudged):
        return found
    value = shown(found.found) if isinstance(found.found, dict | list | tuple) else found.found
    return replace(found, found=value, absent=None, instead=())

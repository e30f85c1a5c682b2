"""What a translation cannot express, with the same wording for every backend. Two exceptions report that a topology is
unknown or missing; rules and translations turn them into findings.
"""

from __future__ import annotations

from typing import Any

from webhook.errors import Inexpressible
from webhook.model.fields import FieldPath
from webhook.model.findings import Finding, Unjudged
from webhook.model.keys import Needed
from webhook.model.workloads.podgang import PodGang


class UnknownTopology(Exception):
    """A fact that is needed to find a level, tier or layer is unknown: `needs` names it, `part` is its part of the
    facts.
    """

    def __init__(self, needs: str, part: str) -> None:
        super().__init__(needs)
        self.needs = needs
        self.part = part


class NoTopology(Exception):
    """The topology, level or tier does not exist, or the scheduler would ignore it: `why` is the reason. `absent` is
    set if the reason is that an object is missing.
    """

    def __init__(self, why: str, absent: Needed | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.absent = absent


_OF_GANG = "change its workload, or choose another scheduler; until then nothing is written for this gang"


def inexpressible(rule: str, path: FieldPath, found: Any, why: str, *, remedy: str = _OF_GANG) -> Inexpressible:
    """The error for an object (usually a PodGang) that has at `path` a value that `rule` refuses at admission. The
    object bypassed the webhook, or predates the rule.
    """
    return Inexpressible((Finding(path, found, why, remedy, rule=rule, fails_closed=True),))


def unknown(rule: str, path: FieldPath, needs: str, part: str) -> Inexpressible:
    """The error for a PodGang whose translation needs an unknown fact, of that part of the facts."""
    return Inexpressible((), (Unjudged(path, needs, rule, part=part),))


def refuse_twins(podgang: PodGang, rule: str) -> None:
    """Raises `Inexpressible` if two members, or two groups of members, of a PodGang have the same name: the pods of one
    would count for the other.
    """
    for named in (podgang.members, podgang.group_configs):
        seen = set()
        for one in named:
            if one.name in seen:
                why = "two parts of the PodGang have that name, so the pods of one would count for the other"
                raise inexpressible(rule, one.path / "name", one.name, why)
            seen.add(one.name)


def refuse_spare_pods(podgang: PodGang, rule: str, why: str) -> None:
    """Raises `Inexpressible` if one of several members has pods above its minimum: only their sum is counted."""
    if len(podgang.members) < 2:  # noqa: PLR2004 - one is counted as it is
        return
    for member in podgang.members:
        if member.pods > member.min_replicas > 0:
            raise inexpressible(rule, member.path / "minReplicas", member.min_replicas, why)

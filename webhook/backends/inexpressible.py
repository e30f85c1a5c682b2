"""Errors of a translation: one finding, with the same wording for every backend."""

from __future__ import annotations

from typing import Any

from webhook.errors import Inexpressible
from webhook.model.fields import FieldPath
from webhook.model.findings import Finding, Unjudged
from webhook.model.workloads.podgang import PodGang

_OF_GANG = "nothing is written for this gang; change its workload, or choose another scheduler"


def inexpressible(rule: str, path: FieldPath, found: Any, why: str, *, remedy: str = _OF_GANG) -> Inexpressible:
    """The error for an object (usually a PodGang) that has at `path` a value that `rule` refuses at admission. The
    object bypassed the webhook, or predates the rule.
    """
    return Inexpressible((Finding(path, found, why, remedy, rule=rule, fails_closed=True),))


def unknown(rule: str, path: FieldPath, needs: str) -> Inexpressible:
    """The error for a PodGang whose translation needs an unknown fact."""
    return Inexpressible((), (Unjudged(path, needs, rule),))


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

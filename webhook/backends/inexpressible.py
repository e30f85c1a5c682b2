"""How a translation says no: one finding, worded alike for every backend."""

from __future__ import annotations

from typing import Any

from webhook.errors import Inexpressible
from webhook.model.fields import FieldPath
from webhook.model.findings import Finding, Unjudged
from webhook.model.workloads.podgang import PodGang

_OF_GANG = "nothing is written for this gang; change its workload, or choose another scheduler"


def inexpressible(rule: str, path: FieldPath, found: Any, why: str, *, remedy: str = _OF_GANG) -> Inexpressible:
    """The error for an object, mostly a PodGang, that has at `path` what `rule` refuses at admission: it came past, or
    is older.
    """
    return Inexpressible((Finding(path, found, why, remedy, rule=rule, fails_closed=True),))


def unknown(rule: str, path: FieldPath, needs: str) -> Inexpressible:
    """The error for a PodGang whose translation needs a fact that is not known."""
    return Inexpressible((), (Unjudged(path, needs, rule),))


def refuse_twins(podgang: PodGang, rule: str) -> None:
    """Raises `Inexpressible` for a PodGang of which two members, or two groups of members, have one name: the pods of
    one would count for the other.
    """
    for named in (podgang.members, podgang.group_configs):
        seen = set()
        for one in named:
            if one.name in seen:
                why = "two parts of the PodGang have that name, so the pods of one would count for the other"
                raise inexpressible(rule, one.path / "name", one.name, why)
            seen.add(one.name)

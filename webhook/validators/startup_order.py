"""Rules about the order in which the cliques of a PodCliqueSet start. They repeat what Grove's own webhook refuses,
because a file on the command line has no such check.

Source of all: ai-dynamo/grove, operator/internal/webhook/admission/pcs/validation (2026-08).
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from heapq import nsmallest
from typing import Any

from webhook.model.fields import SPEC, FieldPath, Item
from webhook.model.findings import Action, Finding, shown
from webhook.model.reading import Manifest, sequence, text
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.registry import Context, Example, Results, rule
from webhook.workloads.pod_clique_set import Clique, PodCliqueSet

_TYPE = SPEC / "template" / "cliqueStartupType"
_EXPLICIT = "CliqueStartupTypeExplicit"
_TYPES = ("CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", _EXPLICIT)
_MOST_NAMES = 4


def _clique_after(name: str, *others: str) -> Manifest:
    member = clique(name)
    member["spec"]["startsAfter"] = list(others)
    return member


def _explicit(*cliques: Manifest) -> Manifest:
    return pod_clique_set(*cliques, cliqueStartupType=_EXPLICIT)


@rule(
    "grove/startup-type",
    looks_at=("cliqueStartupType",),
    passes=Example(pod_clique_set(cliqueStartupType="CliqueStartupTypeInOrder")),
    fails=Example(pod_clique_set(cliqueStartupType="InOrder")),
)
def startup_type(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """Grove knows three types of startup order. A set with another value is never created.

    Source: the CRD of grove.io/v1alpha1 (enum of `cliqueStartupType`); Grove's own validation.
    """
    stated = text(workload.template.get("cliqueStartupType"))
    if stated is not None and stated not in _TYPES:
        why = "Grove has no such startup type and refuses the set"
        likely = tuple(candidate for candidate in _TYPES if candidate.lower().endswith(stated.lower()))
        yield Finding(_TYPE, stated, why, f"set one of {', '.join(_TYPES)}", instead=likely)


@rule(
    "grove/starts-after",
    looks_at=("startsAfter",),
    passes=Example(_explicit(clique("leader"), _clique_after("worker", "leader"))),
    fails=Example(_explicit(clique("leader"), _clique_after("worker", "nosuch"))),
)
def starts_after(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """Grove refuses a clique that starts after itself, after a clique that does not exist, or twice after the same
    clique.

    Source: Grove's own validation of `startsAfter`, which it reads only with CliqueStartupTypeExplicit.
    """
    if not _is_explicit(workload):
        return
    names = {member.name for member in workload.cliques}
    # One more, because a clique is not offered to itself.
    least = nsmallest(_MOST_NAMES + 1, names)
    for member in workload.cliques:
        others = ", ".join([name for name in least if name != member.name][:_MOST_NAMES])
        remedy = f"name other cliques: {others}" if others else "remove the name: the set has no other clique"
        seen: set[str] = set()
        for index, name in enumerate(_awaited(member)):
            why = _why_wrong(name, member, names, seen)
            if why is not None:
                at = _place(member) / Item(index, name or None)
                yield Finding(at=at, value=name, why=why, remedy=remedy)
            seen.add(name)


def _why_wrong(name: str, member: Clique, names: set[str], seen: set[str]) -> str | None:
    if name == member.name:
        return "a clique cannot start after itself, and Grove refuses the set"
    if name in seen:
        return "the clique is named twice, and Grove refuses the set"
    return None if name in names else "no clique of the set has that name, and Grove refuses the set"


@rule(
    "grove/starts-after-cycle",
    looks_at=("startsAfter",),
    passes=Example(_explicit(clique("a"), _clique_after("b", "a"), _clique_after("c", "a", "b"))),
    fails=Example(_explicit(_clique_after("a", "b"), _clique_after("b", "a"))),
)
def starts_after_cycle(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """Cliques that start after one another in a cycle never start.

    Source: Grove's own validation of `startsAfter` (`cliques`: dependency cycle).
    """
    if not _is_explicit(workload):
        return
    members = {member.name: member for member in workload.cliques}
    order: TopologicalSorter[str] = TopologicalSorter()
    for name, member in members.items():
        order.add(name, *(other for other in _awaited(member) if other in members and other != name))
    try:
        order.prepare()
    except CycleError as error:
        # Grove's order: each name starts after the next.
        around: list[str] = error.args[1][::-1]
        first = members[min(around)]
        shown_names = " after ".join(around[:_MOST_NAMES]) + (" after ..." if len(around) > _MOST_NAMES else "")
        why = (
            f"these cliques would start after one another in a cycle ({shown(shown_names)}), and Grove refuses the set"
        )
        yield Finding(_place(first), first.name, why, "remove one of these names from startsAfter")


@rule(
    "grove/starts-after-unread",
    looks_at=("startsAfter",),
    default=Action.WARN,
    passes=Example(_explicit(clique("leader"), _clique_after("worker", "leader"))),
    fails=Example(pod_clique_set(clique("leader"), _clique_after("worker", "leader"))),
)
def starts_after_unread(workload: PodCliqueSet, _: Context[Any]) -> Results:
    """Grove reads `startsAfter` only with CliqueStartupTypeExplicit. Without it the cliques start in any order, or in
    the order of the list.

    Source: Grove's own validation and operator/internal/controller (startup dependencies of a PodClique).
    """
    if _is_explicit(workload):
        return
    for member in workload.cliques:
        if others := _awaited(member):
            why = "Grove ignores startsAfter in a set of another startup type"
            yield Finding(_place(member), others[0], why, f"set {_TYPE} to {_EXPLICIT}, or remove startsAfter")


def _is_explicit(workload: PodCliqueSet) -> bool:
    return text(workload.template.get("cliqueStartupType")) == _EXPLICIT


def _awaited(member: Clique) -> list[str]:
    return [text(name) or "" for name in sequence(member.spec.get("startsAfter"))]


def _place(member: Clique) -> FieldPath:
    return member.path / "spec" / "startsAfter"

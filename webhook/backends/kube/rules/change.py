"""What cannot be changed in an existing gang of the Workload API, by generation, as seen from its API server."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from webhook.backends.kube.generation import CARRIES_CLASS, Generation, generation, is_of_1_38, workload_apis
from webhook.backends.kube.pods import is_merged
from webhook.backends.kube.rules.examples import FLAT, ON
from webhook.backends.kube.settings import RuleContext
from webhook.model.fields import SPEC
from webhook.model.findings import Finding
from webhook.model.known_objects import PodGangFacts
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.membership import has_gangs
from webhook.validators.registry import Change, Example, Results, Subject, rule

_CLIQUES = SPEC / "template" / "cliques"
_LIVING = replace(FLAT, pod_gangs={("default", "demo-0"): PodGangFacts("demo")})
_FROZEN_MINIMUMS = frozenset({Generation.V1ALPHA1, Generation.V1ALPHA2})


@rule(
    "kube/frozen-shape",
    subject=Subject.CHANGE,
    fails_closed=True,
    passes=Example(pod_clique_set(), old=pod_clique_set(), config=ON, facts=_LIVING),
    fails=Example(
        pod_clique_set(clique("worker", replicas=4, minimum=4)),
        old=pod_clique_set(clique("worker", replicas=2, minimum=2)),
        config=ON,
        facts=_LIVING,
    ),
)
def frozen_shape(change: Change, context: RuleContext) -> Results:
    """The API server does not allow a change of the groups of a gang. Up to 1.36 their minimums are immutable as well,
    and from 1.37 on their topology and class. To apply such a change, the objects of an existing gang would have to be
    deleted under its pods. A merged gang is one group, and only the sum of its minimums is immutable. From 1.38 on the
    number of groups that a gang waits for is mutable, so groups can be added and removed, but not moved to another
    gang: a scaling group that stays keeps its cliques and its replicas in the base gang.

    Source: k8s.io/api scheduling (immutability by generation), seen with v1.35.4, v1.36.3 and v1.37.0; v1.38.0-beta.0
    (minGroupCount); Grove's GREP-531 rejects these updates.
    """
    settings = context.settings
    spoken = generation(settings, workload_apis(context.settings, context.facts)) if settings.gangScheduling else None
    if spoken is None or has_gangs(change.new, context.facts) is False:
        return
    # A tree of 1.38 grows in place, as long as one of its groups stays.
    grows = (
        spoken is Generation.TREE
        and is_of_1_38(workload_apis(context.settings, context.facts)) is True
        and _has_common_group(change)
    )
    for what, before, now in _shape(change, spoken, merged=is_merged(settings, spoken), grows=grows):
        if before != now:
            yield Finding(
                at=_CLIQUES,
                found=now,
                why=f"the Workload API does not allow a change of {what} in an existing gang",
                remedy="delete and recreate the PodCliqueSet",
                forbidden=True,
            )


Compared = list[tuple[str, object, object]]


def _has_common_group(change: Change) -> bool:
    """Whether a clique of the set before has the same PodGroups afterwards."""
    old, new = ({(member.name, member.group and member.group.name) for member in each.cliques} for each in change)
    return bool(old & new)


def _shape(change: Change, spoken: Generation, *, merged: bool, grows: bool) -> Compared:
    """What is compared of the gangs. The groups themselves may differ if they are `merged`, or if the gang `grows`."""
    old, new = change
    stay = {member.name for member in old.cliques} & {member.name for member in new.cliques}
    groups = {group.name for group in old.scaling_groups} & {group.name for group in new.scaling_groups}

    def least(workload: PodCliqueSet) -> dict[str, int]:
        return {member.name: member.min_available for member in workload.cliques if member.name in stay}

    found: Compared = []
    if not merged and not grows:
        found.append(("the cliques", _names(old), _names(new)))
    if not merged:
        # A gang that grows may get and lose scaling groups. In one that stays, a PodGroup may have to move between the
        # base gang and a scaled one, and what a PodGroup is below is immutable.
        before, now = _base(old), _base(new)
        compared = groups if grows else before.keys() | now.keys()
        found.append(("the scaling groups in the base gang", _only(compared, before), _only(compared, now)))
    if spoken is Generation.TREE:
        # In earlier generations a gang with topology has no objects, so nothing is frozen.
        found.append(("the required topology", _topologies(old, stay, groups), _topologies(new, stay, groups)))
    if spoken in CARRIES_CLASS:
        found.append(("the priority class", old.priority_class, new.priority_class))
    if spoken in _FROZEN_MINIMUMS:
        found += _sums(old, new) if merged else [("the minimums", least(old), least(new))]
    return found


def _names(workload: PodCliqueSet) -> list[str]:
    return sorted(member.name for member in workload.cliques)


def _topologies(workload: PodCliqueSet, cliques: Container[str], groups: Container[str]) -> dict[str, str]:
    """The required domains, by the level of the tree that states them, of these cliques and scaling groups."""
    levels = {"the set": workload.topology}
    levels |= {f"group {group.name}": group.topology for group in workload.scaling_groups if group.name in groups}
    levels |= {f"clique {member.name}": member.topology for member in workload.cliques if member.name in cliques}
    return {level: found.required for level, found in levels.items() if found is not None and found.required}


_Base = dict[str, tuple[int, tuple[str, ...]]]


def _only(groups: Container[str], base: _Base) -> _Base:
    return {group: value for group, value in base.items() if group in groups}


def _base(workload: PodCliqueSet) -> _Base:
    """By scaling group: the number of replicas in the base gang, and the cliques of each. Every other replica is its
    own gang that can be added and removed.
    """
    return {
        group.name: (min(group.min_available, group.replicas), tuple(sorted(group.clique_names)))
        for group in workload.scaling_groups
    }


def _sums(old: PodCliqueSet, new: PodCliqueSet) -> Compared:
    before, now = _sums_of(old), _sums_of(new)
    return [(f"the sum of the minimums{name}", before[name], now[name]) for name in before if name in now]


def _sums_of(workload: PodCliqueSet) -> dict[str, int]:
    """The sum of the minimums in the base gang, and in one scaled gang of each scaling group that has scaled gangs."""
    total, scaled = 0, dict[str, int]()
    for member in workload.cliques:
        group = member.group
        total += member.min_available * (1 if group is None else min(group.min_available, group.replicas))
        if group is not None and group.replicas > group.min_available:
            place = f" in scaling group {group.name}"
            scaled[place] = scaled.get(place, 0) + member.min_available
    return {"": total, **scaled}

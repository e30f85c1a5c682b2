"""The members of an existing gang of koord-scheduler cannot be changed."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.backends.koordinator.settings import RuleContext
from webhook.model.facts import ClusterFacts
from webhook.model.fields import SPEC
from webhook.model.findings import Finding
from webhook.model.known_objects import PodGangFacts
from webhook.model.workloads.podcliqueset import PodCliqueSet
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.membership import has_gangs
from webhook.validators.registry import Change, Example, Results, Subject, rule

_LIVING = ClusterFacts(pod_gangs={("default", "demo-0"): PodGangFacts("demo")})


@rule(
    "koordinator/frozen-members",
    subject=Subject.CHANGE,
    passes=Example(
        pod_clique_set(clique("worker", replicas=4)), old=pod_clique_set(clique("worker", replicas=2)), facts=_LIVING
    ),
    fails=Example(
        pod_clique_set(clique("leader"), clique("worker")), old=pod_clique_set(clique("worker")), facts=_LIVING
    ),
)
def frozen_members(change: Change, context: RuleContext) -> Results:
    """koord-scheduler reads the list of PodGroups in a GangGroup once and ignores later edits. It does not wait for a
    member that is added to an existing gang, and waits for ever for a member that is removed.

    Source: koordinator-sh/koordinator, pkg/scheduler/plugins/coscheduling/core/gang_cache.go (v1.4.0 to v1.8.0).
    """
    others = list(_moved(change.old, change.new))
    if not others or (living := has_gangs(change.new, context.facts)) is False:
        return
    yield Finding(
        at=SPEC / "template" / ("cliques" if any("/" not in name for name in others) else "podCliqueScalingGroups"),
        found=min(others),
        why="it would be added to or removed from an existing gang, "
        "and Koordinator ignores a change of a gang's members"
        + ("" if living else " (whether the set has any PodGang is unknown)"),
        remedy="delete and recreate the PodCliqueSet",
        forbidden=True,
    )


def _moved(old: PodCliqueSet, new: PodCliqueSet) -> Iterator[str]:
    """The members that join or leave the base gang: cliques, and for a clique of a scaling group its first such replica
    in the order of names.
    """
    yield from _alone(old) ^ _alone(new)
    before, now = _replicas(old), _replicas(new)
    for group, name in before.keys() | now.keys():
        fewer, more = sorted((before.get((group, name), 0), now.get((group, name), 0)))
        if fewer < more:
            # Sorted as text, the first number in the range is a power of ten or the smallest number.
            first = min(map(str, (fewer, *(number for number in _TENS if fewer < number < more))))
            yield f"{group}-{first}/{name}"


_TENS = tuple(10**digits for digits in range(1, 10))


def _alone(workload: PodCliqueSet) -> set[str]:
    return {member.name for member in workload.cliques if member.group is None}


def _replicas(workload: PodCliqueSet) -> dict[tuple[str, str], int]:
    """By scaling group and clique: the number of replicas that a gang starts with."""
    found: dict[tuple[str, str], int] = {}
    for group in workload.scaling_groups:
        for name in group.clique_names:
            found[group.name, name] = max(found.get((group.name, name), 0), group.min_available)
    return found

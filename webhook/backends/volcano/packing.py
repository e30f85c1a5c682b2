"""What Volcano places together: the minimum of every member, the gang in one HyperNode of an allowed tier, and each
member in one of its own tier inside it.

Pods without any request are counted without a node. A topology counts only if the configuration says that the plugin
network-topology-aware is on and all HyperNodes are known; else Volcano may ignore it. Volcano wants all pending pods of
a gang in one HyperNode, but only the minimum has to exist when it looks, so only that is packed.

Source: volcano-sh/volcano v1.15.1, pkg/scheduler/api/job_info.go, pkg/scheduler/plugins/network-topology-aware.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from webhook.backends.inexpressible import NoTopology, UnknownTopology
from webhook.backends.volcano.carried_topology import carried_topology
from webhook.backends.volcano.hyper_node_members import nodes_of_tier
from webhook.backends.volcano.settings import VolcanoSettings
from webhook.backends.volcano.topology import has_effect, indexed, tier_of
from webhook.errors import Inexpressible
from webhook.fit.packing import Need, Packing, Partition, PodsNeed
from webhook.fit.requests import is_best_effort
from webhook.fit.roles import Roles, group_of
from webhook.fit.shape import GangShape, MemberShape
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath
from webhook.model.reading import Manifest
from webhook.model.workloads.volcano_job import is_volcano_job

_BEST_EFFORT = "where pods that request nothing may be, as Volcano starts the gang without them"


class _Tiers(NamedTuple):
    """The tiers that a gang and its members require, by member, and whether more is required that is not known."""

    whole: int | None = None
    parts: Mapping[str, int] = MappingProxyType({})
    unknown: bool = False


def packing_of(shape: GangShape, roles: Roles, settings: VolcanoSettings, facts: ClusterFacts) -> Packing:
    """Return what Volcano places together of a gang."""
    tiers = _carried(shape, settings, facts) if shape.opted_in is not None else _tiers(shape, settings, facts)
    partitions = {
        tier: _partition(tier, shape.required_at, facts)
        for tier in {tiers.whole, *tiers.parts.values()}
        if tier is not None
    }
    unknown = tiers.unknown or None in partitions.values()
    members = [member for member in shape.needed if not _is_best_effort(roles, member)]
    free = (_BEST_EFFORT,) if len(members) < len(tuple(shape.needed)) else ()
    needs: list[Need] = []
    counted: dict[str, int] = {}
    for name, alike in _by_part(members).items():
        within = partitions.get(tiers.parts[name]) if name in tiers.parts else None
        if within is None:
            for member in alike:
                counted[member.called] = counted.get(member.called, 0) + member.minimum
        elif len(alike) == 1:
            needs.append(PodsNeed(roles.of(alike[0]), alike[0].minimum, within))
        else:
            needs.append(group_of(name, [PodsNeed(roles.of(one), one.minimum) for one in alike], within))
    needs[:0] = [PodsNeed(roles[name], count) for name, count in counted.items()]
    if not needs:
        return Packing((), left_out=(*shape.left_out, *free))
    whole = None if tiers.whole is None else partitions[tiers.whole]
    sets = (group_of(shape.name, needs, whole),)
    found = Packing(sets, unjudged=free, left_out=shape.left_out)
    return (
        replace(found, left_out=(*shape.left_out, "the HyperNodes that the gang requires are not known"))
        if unknown
        else found
    )


def _by_part(members: list[MemberShape]) -> dict[str, list[MemberShape]]:
    found: dict[str, list[MemberShape]] = {}
    for member in members:
        found.setdefault(member.part or member.name, []).append(member)
    return found


def _is_best_effort(roles: Roles, member: MemberShape) -> bool:
    """Return whether a member's pods surely request nothing."""
    needs = roles.of(member).pods
    return is_best_effort(needs.request, needs.unjudged)


def _tiers(shape: GangShape, settings: VolcanoSettings, facts: ClusterFacts) -> _Tiers:
    """Return the tiers of a PodGang. One that Volcano cannot express is not required: its gang is not written."""
    whole: int | None = None
    parts: dict[str, int] = {}
    unknown = False
    asked: list[tuple[str, tuple[str, ...] | None]] = [] if shape.required is None else [(shape.required, None)]
    asked += [(subset.required, subset.members) for subset in shape.subsets]
    asked += [(member.required, (member.name,)) for member in shape.members if member.required is not None]
    for key, members in asked:
        tier = _tier(key, shape, settings, facts) if members is None or len(members) == 1 else None
        if tier is None:
            unknown = True
        elif members is None:
            whole = tier
        else:
            parts[members[0]] = min(tier, parts.get(members[0], tier))
    return _Tiers(whole, {_part(shape, name): tier for name, tier in parts.items()}, unknown)


def _part(shape: GangShape, name: str) -> str:
    return next((member.part or name for member in shape.members if member.name == name), name)


def _tier(key: str, shape: GangShape, settings: VolcanoSettings, facts: ClusterFacts) -> int | None:
    if settings.topology == "off":
        return None
    try:
        return tier_of(key, shape.topology_name, facts)
    except (NoTopology, UnknownTopology):
        return None


def _carried(shape: GangShape, settings: VolcanoSettings, facts: ClusterFacts) -> _Tiers:
    """Return the tiers of an opted-in workload."""
    if shape.opted_in is None:
        return _Tiers()
    if is_volcano_job(shape.opted_in.workload):
        # Volcano reads the topology of its own Job from its spec.
        return _Tiers(unknown=bool(shape.opted_in.workload.spec.get("networkTopology")))
    try:
        whole, parts = carried_topology(shape.opted_in, settings, facts)
    except Inexpressible:
        return _Tiers(unknown=True)
    hard = {name: tier for name, asked in parts.items() if (tier := _hard(asked)) is not None}
    return _Tiers(None if whole is None else _hard(whole), hard)


def _hard(topology: Manifest) -> int | None:
    tier: int | None = topology.get("highestTierAllowed") if topology.get("mode") == "hard" else None
    return tier


def _partition(tier: int, at: FieldPath | None, facts: ClusterFacts) -> Partition | None:
    """Return the HyperNodes that a tier allows; None if they are not known, or if Volcano ignores the tier."""
    known, nodes = facts.hyper_nodes, facts.nodes
    if known is None or nodes is None or {"hyper_nodes", "nodes"} & (facts.partial or frozenset()):
        return None
    if not has_effect(tier, known):
        return None
    members = nodes_of_tier(tier, known, nodes)
    return None if members is None else Partition(_called(tier, facts), at=at, members=members)


def _called(tier: int, facts: ClusterFacts) -> str:
    """Return what people call a tier: the name that its HyperNodes give it, if it is one."""
    hyper_nodes = indexed(facts.hyper_nodes or {})
    names = {hyper_nodes[name].tier_name for name in hyper_nodes.having(tier)} - {None}
    return f"{names.pop()}" if len(names) == 1 else f"HyperNode of tier {tier}"

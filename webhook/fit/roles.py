"""From a GangShape to roles and needs: what the packings of several schedulers have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from webhook.fit.apart import mutual
from webhook.fit.devices import with_devices
from webhook.fit.packing import GroupNeed, Need, Packing, Partition, PodsNeed, Role
from webhook.fit.pods import PodNeeds
from webhook.fit.reading import PodReading, needs_of
from webhook.fit.shape import GangShape, MemberShape
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath

# The partition for the node label key of a required domain, and the field that requires it; None restricts nothing.
DomainOf: TypeAlias = Callable[[str, FieldPath | None], Partition | None]


class Roles(dict[str, Role]):
    """The roles of a gang by name."""

    def of(self, member: MemberShape) -> Role:
        """Return the role of a member."""
        return self[member.called]


def roles_of(shape: GangShape, reading: PodReading, claimed: ClusterFacts | None = None) -> Roles:
    """Return the roles of the members that the gang needs, as one scheduler reads their pods. `claimed`: the facts
    about devices, for a scheduler that surely allocates them to claims. Raises `Malformed`.
    """
    needed: dict[str, MemberShape] = {}
    for member in shape.needed:
        needed.setdefault(member.called, member)
    templates = {name: member.template for name, member in needed.items()}
    written = _written(shape)
    found: dict[str, PodNeeds] = {}
    for name, member in needed.items():
        pods = needs_of(
            member.template, reading, templates, stored=shape.stored, namespace=shape.namespace, written=written
        )
        found[name] = pods if claimed is None else with_devices(pods, member, shape, claimed)
    if not reading.both_ways:
        found = mutual(found)
    return Roles({name: Role(name, needed[name].at, pods) for name, pods in found.items()})


def _written(shape: GangShape) -> Mapping[str, Mapping[str, str]]:
    """Return the labels that controllers write into all pods of each role."""
    found: dict[str, Mapping[str, str]] = {}
    for member in shape.members:
        role = member.called
        before = found.get(role, member.written)
        if before != member.written:
            before = {key: value for key, value in before.items() if member.written.get(key) == value}
        found[role] = before
    return found


def pods_one_by_one(shape: GangShape, roles: Roles) -> Packing:
    """Return the packing of a scheduler that starts each pod alone."""
    return Packing(tuple(PodsNeed(role, 1) for role in roles.values()), left_out=shape.left_out)


def members_apart(shape: GangShape, roles: Roles) -> Packing:
    """Return the packing of a scheduler for which each member is a gang of its own."""
    return Packing(
        tuple(PodsNeed(roles.of(member), member.minimum) for member in shape.needed), left_out=shape.left_out
    )


def in_no_domain(_: str, __: FieldPath | None) -> Partition | None:
    """Require no domain."""
    return None


def all_together(shape: GangShape, roles: Roles, domain_of: DomainOf = in_no_domain) -> Packing:
    """Return the packing of a scheduler that places the minimum of every member at one moment: the gang in its domain,
    each subset in one inside that, and each member in one inside these.
    """
    by_name = {member.name: member for member in shape.needed}
    inside: set[str] = set()
    needs: list[Need] = []
    for subset in shape.subsets:
        members = [by_name[name] for name in subset.members if name in by_name]
        inside.update(member.name for member in members)
        within = domain_of(subset.required, subset.required_at)
        if members:
            needs.append(group_of(subset.name, needs_in(members, roles, domain_of), within))
    direct = [member for member in shape.needed if member.name not in inside]
    whole = None if shape.required is None else domain_of(shape.required, shape.required_at)
    needs[:0] = needs_in(direct, roles, domain_of)
    return Packing((group_of(shape.name, needs, whole),) if needs else (), left_out=shape.left_out)


def group_of(name: str, needs: Sequence[Need], within: Partition | None) -> GroupNeed:
    """Return the need for all of these together."""
    return GroupNeed(name, tuple(needs), len(needs), within)


def needs_in(members: Sequence[MemberShape], roles: Roles, domain_of: DomainOf) -> list[Need]:
    """Return what members need. Those of one role without a domain of their own are counted together."""
    counted: dict[str, int] = {}
    apart: list[Need] = []
    for member in members:
        within = None if member.required is None else domain_of(member.required, member.required_at)
        if within is None:
            counted[member.called] = counted.get(member.called, 0) + member.minimum
        else:
            apart.append(PodsNeed(roles.of(member), member.minimum, within))
    return [*(PodsNeed(roles[name], count) for name, count in counted.items()), *apart]

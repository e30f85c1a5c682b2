"""C0: a ceiling is lower than what the gang requests at least. No node cures it.

Of a group that needs some of its children the cheapest count, for each resource by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from webhook.fit.amounts import amount_of, counted
from webhook.fit.packing import Ceiling, Need, Packing, PodsNeed, Role
from webhook.fit.parts import need_at, roles_of
from webhook.fit.placement import Spot
from webhook.fit.room import Room
from webhook.fit.verdict import Scope, Shortfall, Witness

# What one pod of a role counts.
Weight = Callable[[Role], int]


def over_a_ceiling(packing: Packing, room: Room | None) -> Witness | None:
    """Return the proof that a set of the packing is above a ceiling, or None."""
    nodes_are_fixed = room is not None and not room.grows and room.unknown is None
    for ceiling in packing.ceilings:
        if ceiling.scope is Scope.ON_THESE_NODES and not nodes_are_fixed:
            continue
        for resource, limit in ceiling.amounts.items():
            weight = _weight(ceiling, resource)
            for need in packing.sets:
                needed = _least(need, weight, {})
                # A limit below 0 does not hold back what requests none of it.
                if needed > max(limit, 0):
                    return _witness(ceiling, resource, needed, limit, need, weight)
    return None


def within_ceilings(spots: Iterable[Spot], need: Need, packing: Packing) -> bool:
    """Return whether a placement is within all ceilings."""
    pods: list[tuple[Role, int]] = []
    for spot in spots:
        leaf = need_at(need, spot.path)
        if isinstance(leaf, PodsNeed):
            pods.append((leaf.role, spot.number * spot.pods))
    return all(
        sum(_weight(ceiling, resource)(role) * count for role, count in pods) <= limit
        for ceiling in packing.ceilings
        for resource, limit in ceiling.amounts.items()
    )


def _weight(ceiling: Ceiling, resource: str) -> Weight:
    def weight(role: Role) -> int:
        if ceiling.roles is not None and role.name not in ceiling.roles:
            return 0
        counts = role.pods.request if ceiling.counted is None else ceiling.counted(role)
        return max(counts.get(resource, 0), 0)

    known: dict[str, int] = {}

    def remembered(role: Role) -> int:
        if (found := known.get(role.name)) is None:
            found = known[role.name] = weight(role)
        return found

    return remembered


def _least(need: Need, weight: Weight, known: dict[int, int]) -> int:
    """The smallest sum of a need. Equal children are mostly the same object, and summed once."""
    if isinstance(need, PodsNeed):
        return weight(need.role) * max(need.count, 0)
    values = []
    for child in need.needs:
        if (value := known.get(id(child))) is None:
            value = known[id(child)] = _least(child, weight, known)
        values.append(value)
    return sum(sorted(values)[: max(need.count, 0)])


def least_of_each(need: Need, known: dict[int, dict[str, int]]) -> dict[str, int]:
    """The smallest number of pods of each role by its name. Equal children are counted once, as in `_least`."""
    if isinstance(need, PodsNeed):
        return {need.role.name: max(need.count, 0)}
    values: dict[str, list[int]] = {}
    for child in need.needs:
        if (found := known.get(id(child))) is None:
            found = known[id(child)] = least_of_each(child, known)
        for name, pods in found.items():
            values.setdefault(name, []).append(pods)
    spare = len(need.needs) - max(need.count, 0)
    found = {}
    for name, pods_of in values.items():
        # The children that have none of the role, and then those that have the fewest.
        left_out = max(spare, 0) if len(pods_of) > spare else len(pods_of)
        found[name] = sum(sorted(pods_of)[: len(pods_of) - left_out])
    return found


def _witness(ceiling: Ceiling, resource: str, needed: int, limit: int, need: Need, weight: Weight) -> Witness:
    roles = [role for role in roles_of([need]) if weight(role)]
    called = f"{ceiling.called} {ceiling.name}".strip()
    return Witness(
        family=ceiling.family,
        scope=ceiling.scope,
        at=ceiling.at or roles[0].at,
        found=amount_of(resource, needed),
        why=f"the gang requests at least {amount_of(resource, needed)}; {called} allows {amount_of(resource, limit)}",
        remedy=", or ".join(filter(None, (_smaller(roles, resource, needed - limit, need, weight), ceiling.cure)))
        or f"raise {called}, or request less",
        condition="C0",
        members=tuple(role.name for role in roles),
        shortfalls=(Shortfall(resource, needed, limit),),
    )


def _smaller(roles: Sequence[Role], resource: str, over: int, need: Need, weight: Weight) -> str:
    """How many pods of the role that counts most would be within the ceiling, the others left as they are."""
    counts = least_of_each(need, {})
    role = max(roles, key=lambda one: counts[one.name] * weight(one))
    fewer = counts[role.name] - -(-over // weight(role))
    if fewer > 0:
        return f"lower the minimum of {role.name} to {counted(fewer, 'pod')}"
    return f"lower the {resource} that the gang requests by {amount_of(resource, over)}"

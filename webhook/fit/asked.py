"""Asked: by which labels, names, resources and devices the roles and domains of a packed gang tell nodes apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.fit.eligibility import Eligibility
from webhook.fit.packing import GroupNeed, Need, Packing, Partition, Role


class Same:
    """A value that is equal only to itself. It stays alive as long as the key that it is a part of."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class Asked(NamedTuple):
    """`read` are the label keys of the roles' eligibility. `shown` are those of partitions, anti-affinity and spread:
    their values are part of a class. `members` are the partitions whose domains name their nodes.
    """

    roles: tuple[tuple[str, Eligibility], ...]
    resources: tuple[str, ...]
    read: tuple[str, ...]
    shown: tuple[str, ...]
    members: tuple[Same, ...]
    with_devices: bool
    # Whether the domains of all nodes count, also of those that no role may use: a spread constraint counts them.
    every_domain: bool

    @property
    def compared(self) -> frozenset[str]:
        """The label keys whose values are compared as numbers."""
        return frozenset(
            one.key
            for _, eligibility in self.roles
            for term in eligibility.terms or ()
            for one in term
            if one.operator in {"Gt", "Lt"}
        )

    @property
    def named_nodes(self) -> frozenset[str]:
        """The names of nodes that a role reads."""
        found: set[str] = set()
        for _, eligibility in self.roles:
            if eligibility.node_name is not None:
                found.add(eligibility.node_name)
            for term in eligibility.terms or ():
                found.update(value for one in term if one.field for value in one.values)
        return frozenset(found)

    def named_values(self, key: str) -> frozenset[str]:
        """The values of a label that a role names."""
        found: set[str] = set()
        for _, eligibility in self.roles:
            found.update(value for named, value in eligibility.selector if named == key)
            for term in eligibility.terms or ():
                found.update(value for one in term if one.key == key and not one.field for value in one.values)
        return frozenset(found)


def asked_by(packing: Packing) -> Asked:
    """Return what all sets of a packing ask of nodes."""
    roles: dict[tuple[str, Eligibility], Role] = {}
    partitions: dict[int, Partition] = {}
    for need in _needs(packing.sets):
        if need.within is not None:
            partitions[id(need.within)] = need.within
        if not isinstance(need, GroupNeed):
            roles[need.role.name, need.role.pods.eligibility] = need.role
    shown: set[str] = set()
    for partition in partitions.values():
        shown.update(partition.keys, partition.wanted)
    resources: dict[str, None] = {}
    for role in roles.values():
        shown.update(one.key for one in role.pods.apart)
        shown.update(one.key for one in role.pods.spread)
        resources |= dict.fromkeys(role.pods.request)
    read = {key for _, eligibility in roles for key in eligibility.keys}
    objects: dict[int, Mapping[str, frozenset[str]]] = {
        id(one.members): one.members for one in partitions.values() if one.members is not None
    }
    return Asked(
        tuple(roles),
        tuple(sorted(resources)),
        tuple(sorted(read)),
        tuple(sorted(shown)),
        tuple(map(Same, objects.values())),
        any(role.pods.devices or role.pods.shared_devices for role in roles.values()),
        any(role.pods.spread for role in roles.values()),
    )


def _needs(sets: tuple[Need, ...]) -> Iterator[Need]:
    """Yield every need of a packing. Equal parts of it that are one object are read once."""
    waiting, seen = list(sets), set[int]()
    while waiting:
        need = waiting.pop()
        if id(need) not in seen:
            seen.add(id(need))
            yield need
            if isinstance(need, GroupNeed):
                waiting.extend(need.needs)

"""Domains: how the nodes of an area fall into the domains of a partition. Domains of equal nodes are one entry.

A class whose domain is not known is counted in every domain: too much room, never too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from webhook.fit.ground import Area, Ground
from webhook.fit.membership import NO_DOMAIN, domains_by_node, membership_of
from webhook.fit.packing import Partition
from webhook.fit.room import OWN_VALUE


class Domain(NamedTuple):
    """Domains that have equal nodes. `areas` and `names` are those of all of them, and `number` is how many there are.
    Nodes of one class that are a domain each have one area, that of any of them.
    """

    areas: tuple[Area, ...]
    names: tuple[str, ...]
    number: int

    @property
    def area(self) -> Area:
        """The area of the first one."""
        return self.areas[0]


# An area keeps its domains in so many partitions. Partitions by members are new ones whenever these change.
_KEPT = 8


def domains_in(area: Area, partition: Partition, ground: Ground, deeper: Sequence[Partition] = ()) -> Sequence[Domain]:
    """Return the domains of an area, the smallest first. Two are equal only if their own domains in the `deeper`
    partitions are, too.
    """
    key = (partition_key(partition), *map(partition_key, deeper))
    known = area.inner.get(key)
    if known is None:
        # The partitions are kept with their domains, as the key has the identity of their members.
        found = _domains_in(area, partition, ground, deeper)
        if len(area.inner) >= _KEPT:
            area.inner.clear()
        found.sort(key=lambda one: (sum(ground.floors_in(one.area)), one.area.nodes))
        known = area.inner[key] = (found, partition, tuple(deeper))
    domains: Sequence[Domain] = known[0]
    return domains


def outside(area: Area, partition: Partition, ground: Ground) -> tuple[int, ...]:
    """Return the classes of an area that are in no domain."""
    of_nodes = domains_by_node(partition)
    return tuple(
        index for index in area.classes if membership_of(ground.room.classes[index], partition, of_nodes) == NO_DOMAIN
    )


def partition_key(partition: Partition) -> tuple[Any, ...]:
    """Return what makes two partitions equal. That of members is their identity: they are long."""
    return (
        partition.keys,
        partition.wanted,
        partition.own_domain,
        id(partition.members),
        partition.named,
        partition.filled,
    )


def _domains_in(area: Area, partition: Partition, ground: Ground, deeper: Sequence[Partition]) -> list[Domain]:
    if area.single:
        return [Domain((area,), (_first_name(area, ground),), 1)]
    classes: dict[str, list[int]] = {}
    each: list[int] = []
    every: list[int] = []
    of_nodes = domains_by_node(partition)
    # A partition by one label is the common one, and large.
    by_label = partition.members is None and len(partition.keys) == 1 and not partition.wanted
    label = partition.keys[0] if by_label else None
    room_classes = ground.room.classes
    for index in area.classes:
        value = OWN_VALUE if label is None else room_classes[index].labels.get(label, OWN_VALUE)
        if value != OWN_VALUE and (value or not partition.filled):
            classes.setdefault(value, []).append(index)
            continue
        of_class = membership_of(room_classes[index], partition, of_nodes)
        if of_class.each:
            each.append(index)
        elif of_class.every:
            every.append(index)
        for name in of_class.names:
            classes.setdefault(name, []).append(index)
    areas = [(name, ground.area([*inside, *every])) for name, inside in classes.items()]
    if every:
        areas.append(("", ground.area(every)))
    found = _merged(areas, ground, deeper)
    for index in each:
        names = ground.room.classes[index].nodes or (f"node {index}",)
        found.append(Domain((ground.area([index], single=True),), names, ground.number(index)))
    return found


def _merged(areas: Iterable[tuple[str, Area]], ground: Ground, deeper: Sequence[Partition]) -> list[Domain]:
    equal: dict[Any, list[tuple[str, Area]]] = {}
    for name, area in areas:
        equal.setdefault(_composition(area, ground, deeper), []).append((name, area))
    return [
        Domain(tuple(area for _, area in group), tuple(name for name, _ in group), len(group))
        for group in equal.values()
    ]


def _composition(area: Area, ground: Ground, deeper: Sequence[Partition]) -> Any:
    inner = tuple(
        tuple(
            sorted((_composition(one.area, ground, rest), one.number) for one in domains_in(area, below, ground, rest))
        )
        for below, rest in ((below, [one for one in deeper if one is not below]) for below in deeper)
    )
    return (area.counts, area.single, inner)


def _first_name(area: Area, ground: Ground) -> str:
    names = ground.room.classes[area.classes[0]].nodes
    ordinal = area.ordinal or 0
    return names[ordinal] if ordinal < len(names) else f"node {ordinal}"

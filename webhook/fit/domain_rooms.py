"""The domains that a gang may be placed in, and what each of them has: the rows of a table, and the boxes of a picture.

Where no domain is required, all nodes that the gang may use are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from webhook.fit.membership import domains_by_node, membership_of
from webhook.fit.packing import GroupNeed, Need, Packing, Partition
from webhook.fit.parts import roles_of
from webhook.fit.room import NodeClass, Room

ALL_NODES = "all nodes"
# In a table: devices first, because a gang seldom lacks anything else.
_LAST = {"cpu": 1, "memory": 2, "ephemeral-storage": 3, "pods": 5}


@dataclass(frozen=True, slots=True)
class DomainRoom:
    """A domain: its nodes that some role of the gang may use, and what they have together. `free` is what is left of
    it now, if known. `partition` is what messages call such a domain ("rack"), empty for all nodes.
    """

    partition: str
    name: str
    nodes: int
    total: Mapping[str, int]
    free: Mapping[str, int] | None = None

    @property
    def called(self) -> str:
        """What messages call it: "rack r7"."""
        return f"{self.partition} {self.name}" if self.partition else self.name


def partitions_of(packing: Packing) -> tuple[Partition, ...]:
    """Return the partitions that a gang requires domains of, the outer ones first."""
    found: list[Partition] = []
    for need in needs_in(packing):
        if need.within is not None and need.within not in found:
            found.append(need.within)
    return tuple(found)


def needs_in(packing: Packing) -> Iterator[Need]:
    """Yield every need of a packing, the outer ones first."""
    level: list[Need] = list(packing.sets)
    while level:
        yield from level
        level = [one for need in level if isinstance(need, GroupNeed) for one in need.needs]


def in_order(resources: Iterable[str]) -> list[str]:
    """Return resources in the order of a table: devices, cpu, memory, then the others, the pod slots last. What only a
    scheduler counts, such as parts of GPUs, has no column.
    """
    named = (one for one in resources if " " not in one)
    return sorted(named, key=lambda one: (_LAST.get(one, 0 if "/" in one else 4), one))


def requested(packing: Packing) -> frozenset[str]:
    """Return the resources that a pod of the gang requests, and the pod slots."""
    return frozenset(
        resource for role in roles_of(packing.sets) for resource, asked in role.pods.request.items() if asked
    )


def domain_rooms_of(packing: Packing, room: Room, free: Room | None = None) -> tuple[DomainRoom, ...]:
    """Return the domains of the outermost partition that the gang requires, by name; or all nodes as one."""
    partition = next(iter(partitions_of(packing)), None)
    resources = requested(packing)
    total, nodes = _sums(room.classes, partition, resources)
    left = {} if free is None else _sums(free.classes, partition, resources)[0]
    nothing = dict.fromkeys(resources, 0)
    named = "" if partition is None else partition.named
    return tuple(
        DomainRoom(named, name, nodes[name], total[name], None if free is None else left.get(name, nothing))
        for name in sorted(total)
    )


def _sums(
    classes: Iterable[NodeClass], partition: Partition | None, resources: frozenset[str]
) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Return what each domain has together, and how many nodes it has. Nodes that do not exist
    yet count nowhere.
    """
    of_nodes = {} if partition is None else domains_by_node(partition)
    amounts: dict[str, dict[str, int]] = {}
    nodes: dict[str, int] = {}
    for found in classes:
        if not found.roles or found.number is None or found.future:
            continue
        for name, number in numbers_in(found, partition, of_nodes).items():
            sums = amounts.setdefault(name, dict.fromkeys(resources, 0))
            nodes[name] = nodes.get(name, 0) + number
            for resource in resources:
                sums[resource] += number * found.capacity.get(resource, 0)
    return amounts, nodes


def numbers_in(found: NodeClass, partition: Partition | None, of_nodes: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return how many nodes of a class are in each domain; empty for nodes that are in none. `of_nodes` is
    `domains_by_node` of the partition.
    """
    number = found.number or 0
    if partition is None:
        return {ALL_NODES: number}
    in_it = membership_of(found, partition, of_nodes)
    return dict.fromkeys(found.nodes, 1) if in_it.each else dict.fromkeys(in_it.names, number)

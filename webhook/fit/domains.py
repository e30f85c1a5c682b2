"""The domains of an area, and the need of a gang as a tree of integers over them.

Domains of equal nodes are one entry. A class whose domain is not known is counted in every domain: too much room,
never too little. Equal children of a need are one part with several places in the tree. `domain_rooms_of` lists the
domains that a gang may be placed in with what each of them has; where no domain is required, all nodes that the gang
may use are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from webhook.fit.ground import Area, Ground
from webhook.fit.packing import (
    OWN_VALUE,
    GroupNeed,
    Need,
    NodeClass,
    Packing,
    PackingRole,
    Partition,
    PodsNeed,
    Room,
    all_needs,
)


class DomainMembership(NamedTuple):
    """Which domains the nodes of a class are in. `each`: each node is a domain of its own. `every`: it is not known, so
    it may be any.
    """

    names: tuple[str, ...] = ()
    each: bool = False
    every: bool = False


NO_DOMAIN = DomainMembership()
_EACH = DomainMembership(each=True)
_EVERY = DomainMembership(every=True)


def domains_by_node(partition: Partition) -> Mapping[str, Sequence[str]]:
    """Returns the domains of each node by its name; empty for a partition by labels."""
    domains: dict[str, list[str]] = {}
    for name, nodes in (partition.members or {}).items():
        for node in nodes:
            domains.setdefault(node, []).append(name)
    return domains


def membership_of(node: NodeClass, partition: Partition, of_nodes: Mapping[str, Sequence[str]]) -> DomainMembership:
    """Returns the domains of a class. A future node may get labels and memberships. `of_nodes`: `domains_by_node`."""
    if partition.members is not None:
        if not node.nodes or node.future:
            return _EVERY
        # All nodes of a class are members of the same domains; one name is enough, and more do no harm.
        return DomainMembership(
            tuple(dict.fromkeys(name for member in node.nodes for name in of_nodes.get(member, ())))
        )
    missing = [key for key in (*partition.keys, *partition.required_keys) if key not in node.labels]
    if missing and node.future:
        return _EVERY
    if partition.lacks(node.labels):
        return _EACH if partition.own_domain else NO_DOMAIN
    if missing:
        return NO_DOMAIN
    values = [node.labels[key] for key in partition.keys]
    # Values that are joined by dots are the names of KAI's domains: a.b and c is the domain of a and b.c.
    return _EACH if OWN_VALUE in values else DomainMembership((".".join(values),))


class EqualDomains(NamedTuple):
    """Domains that have equal nodes. `areas` and `names` are those of all of them, and `number` is how many there are.
    Nodes of one class that are a domain each have one area, that of any of them.
    """

    areas: tuple[Area, ...]
    names: tuple[str, ...]
    number: int

    @property
    def area(self) -> Area:
        return self.areas[0]


# An area keeps its domains in so many partitions. Partitions by members are new ones whenever these change.
_KEPT = 8


def domains_in(
    area: Area, partition: Partition, ground: Ground, deeper: Sequence[Partition] = ()
) -> Sequence[EqualDomains]:
    """Returns the domains of an area, the smallest first. Those equal also in the `deeper` ones are one entry."""
    key = (partition_key(partition), *map(partition_key, deeper))
    kept = area.inner.get(key)
    if kept is None:
        # The partitions are kept with their domains, as the key has the identity of their members.
        fresh = _domains_in(area, partition, ground, deeper)
        if len(area.inner) >= _KEPT:
            area.inner.clear()
        fresh.sort(key=lambda domain: (sum(ground.floors_in(domain.area)), domain.area.nodes))
        kept = area.inner[key] = (fresh, partition, tuple(deeper))
    domains: Sequence[EqualDomains] = kept[0]
    return domains


def partition_key(partition: Partition) -> tuple[Any, ...]:
    """Returns what makes two partitions equal. That of members is their identity: they are long."""
    return (
        partition.keys,
        partition.required_keys,
        partition.own_domain,
        id(partition.members),
        partition.noun,
        partition.filled,
    )


def _domains_in(area: Area, partition: Partition, ground: Ground, deeper: Sequence[Partition]) -> list[EqualDomains]:
    if area.single:
        names, ordinal = ground.room.classes[area.classes[0]].nodes, area.ordinal or 0
        name = names[ordinal] if ordinal < len(names) else f"node {ordinal}"
        return [EqualDomains((area,), (name,), 1)]
    classes: dict[str, list[int]] = {}
    each: list[int] = []
    every: list[int] = []
    of_nodes = domains_by_node(partition)
    # A partition by one label is the common one, and large.
    by_label = partition.members is None and len(partition.keys) == 1 and not partition.required_keys
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
    areas = [(name, ground.area([*indexes, *every])) for name, indexes in classes.items()]
    if every:
        areas.append(("", ground.area(every)))
    equal: dict[Any, list[tuple[str, Area]]] = {}
    for name, inside in areas:
        equal.setdefault(_composition(inside, ground, deeper), []).append((name, inside))
    domains = [
        EqualDomains(tuple(inside for _, inside in group), tuple(name for name, _ in group), len(group))
        for group in equal.values()
    ]
    for index in each:
        names = ground.room.classes[index].nodes or (f"node {index}",)
        domains.append(EqualDomains((ground.area([index], single=True),), names, ground.number(index)))
    return domains


def _composition(area: Area, ground: Ground, deeper: Sequence[Partition]) -> Any:
    inner = tuple(
        tuple(
            sorted(
                (_composition(domain.area, ground, rest), domain.number)
                for domain in domains_in(area, below, ground, rest)
            )
        )
        for below, rest in ((below, [partition for partition in deeper if partition is not below]) for below in deeper)
    )
    return (area.counts, area.single, inner)


# Where a need stands in a tree: the index of the child at each level.
Path = tuple[int, ...]


class NeedPart:
    """Pods of one kind (`kind` and `count`), or `count` of the children. `vector` is the number of pods of each kind,
    or None if there is a choice of children. `name` is that of the role or of the group.
    """

    __slots__ = ("children", "content", "count", "key", "kind", "name", "need", "sums", "vector", "within")

    def __init__(self, need: Need, kind: int, children: tuple[EqualChildren, ...], count: int, ground: Ground) -> None:
        self.need = need
        self.name = need.role.name if isinstance(need, PodsNeed) else need.name
        self.kind = kind
        self.children = children
        self.count = count
        self.within = need.within
        self.content: PartContent | None = None
        within = None if need.within is None else partition_key(need.within)
        self.key: Any = (kind, count, within, tuple((child.part.key, len(child.indexes)) for child in children))
        self.vector = self._vector(ground)
        # By resource, what the pods of the vector request.
        self.sums: tuple[int, ...] = ()
        if self.vector is not None:
            pods_of = [(ground.requests[kind], pods) for kind, pods in enumerate(self.vector) if pods]
            self.sums = tuple(sum(pods * request[k] for request, pods in pods_of) for k in range(len(ground.resources)))

    @property
    def chooses(self) -> bool:
        """Whether fewer than all children are needed."""
        return self.kind < 0 and self.count < sum(len(child.indexes) for child in self.children)

    def _vector(self, ground: Ground) -> tuple[int, ...] | None:
        vector = [0] * ground.kinds
        if self.kind >= 0:
            vector[self.kind] = self.count
            return tuple(vector)
        if self.chooses:
            return None
        for child in self.children:
            if child.part.vector is None:
                return None
            for kind, pods in enumerate(child.part.vector):
                vector[kind] += pods * len(child.indexes)
        return tuple(vector)


class EqualChildren(NamedTuple):
    """A part and the indexes at which its parent has it."""

    part: NeedPart
    indexes: tuple[int, ...]


def part_of(need: Need, ground: Ground) -> NeedPart:
    if isinstance(need, PodsNeed):
        return NeedPart(need, ground.kind_of[need.role.name], (), max(need.count, 0), ground)
    equal: dict[Any, list[int]] = {}
    for index, child in enumerate(need.needs):
        equal.setdefault(_key(child, ground), []).append(index)
    children = tuple(EqualChildren(part_of(need.needs[some[0]], ground), tuple(some)) for some in equal.values())
    return NeedPart(need, -1, children, max(need.count, 0), ground)


def _key(need: Need, ground: Ground) -> Any:
    """Returns what makes two needs equal, so that a part is made once for all of them."""
    within = None if need.within is None else partition_key(need.within)
    if isinstance(need, PodsNeed):
        return ground.kind_of[need.role.name], need.count, within
    return need.count, within, tuple([_key(child, ground) for child in need.needs])


def least_weight(part: NeedPart, weights: Sequence[int]) -> int:
    """Returns the smallest weight of pods that the part needs, where a pod of each kind has a weight."""
    if part.vector is not None:
        return sum(pods * weight for pods, weight in zip(part.vector, weights, strict=True) if pods)
    values = sorted((least_weight(child.part, weights), len(child.indexes)) for child in part.children)
    total, left = 0, part.count
    for value, number in values:
        total += value * min(number, left)
        left -= min(number, left)
    return total


def drop_children(part: NeedPart, dead: frozenset[int], ground: Ground) -> NeedPart | None:
    """Returns the part without its direct children at `dead` positions. None if too few are left."""
    children = tuple(child for index, child in enumerate(part.children) if index not in dead)
    if sum(len(child.indexes) for child in children) < part.count:
        return None
    return NeedPart(part.need, -1, children, part.count, ground)


def partitions_below(part: NeedPart) -> list[Partition]:
    partitions: dict[Any, Partition] = {}
    for descendant in _descendants(part):
        if descendant.within is not None:
            partitions.setdefault(partition_key(descendant.within), descendant.within)
    return list(partitions.values())


def _descendants(part: NeedPart) -> Iterator[NeedPart]:
    for child in part.children:
        yield child.part
        yield from _descendants(child.part)


def roles_of(needs: Sequence[Need]) -> tuple[PackingRole, ...]:
    """Returns the roles that needs name, each once, in their order."""
    roles: dict[str, PackingRole] = {}
    for need in needs:
        if isinstance(need, PodsNeed):
            roles.setdefault(need.role.name, need.role)
        else:
            # Equal children are mostly the same object.
            for role in roles_of(tuple({id(child): child for child in need.needs}.values())):
                roles.setdefault(role.name, role)
    return tuple(roles.values())


def need_at(need: Need, path: Path) -> Need:
    for index in path:
        assert isinstance(need, GroupNeed)  # noqa: S101 - a path has no step below a leaf
        need = need.needs[index]
    return need


class DomainItem(NamedTuple):
    """Equal parts that each need one domain, and their places."""

    part: NeedPart
    paths: tuple[Path, ...]


class PartContent(NamedTuple):
    """What a part needs in one area: pods anywhere there, `items` that each need a domain, and `choices` among
    children. `free` are the places of the pods that may be anywhere.
    """

    free: tuple[tuple[Path, int, int], ...]
    items: tuple[DomainItem, ...]
    choices: tuple[tuple[Path, NeedPart], ...]


def content_of(part: NeedPart, path: Path = ()) -> PartContent:
    """Returns what a part needs once its own domain is chosen."""
    content = part.content
    if content is None:
        free: list[tuple[Path, int, int]] = []
        items: dict[Any, tuple[NeedPart, list[Path]]] = {}
        choices: list[tuple[Path, NeedPart]] = []
        _flatten(part, (), free, items, choices)
        domain_items = tuple(DomainItem(child, tuple(paths)) for child, paths in items.values())
        content = part.content = PartContent(tuple(free), domain_items, tuple(choices))
    if not path:
        return content
    return PartContent(
        tuple([((*path, *place), kind, count) for place, kind, count in content.free]),
        tuple([DomainItem(item.part, tuple([(*path, *place) for place in item.paths])) for item in content.items]),
        tuple([((*path, *place), choice) for place, choice in content.choices]),
    )


def _flatten(
    part: NeedPart,
    path: Path,
    free: list[tuple[Path, int, int]],
    items: dict[Any, tuple[NeedPart, list[Path]]],
    choices: list[tuple[Path, NeedPart]],
) -> None:
    if part.kind >= 0:
        free.append((path, part.kind, part.count))
    elif part.chooses:
        choices.append((path, part))
    else:
        for child in part.children:
            for index in child.indexes:
                if child.part.within is not None:
                    items.setdefault(child.part.key, (child.part, []))[1].append((*path, index))
                else:
                    _flatten(child.part, (*path, index), free, items, choices)


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
        return f"{self.partition} {self.name}" if self.partition else self.name


def partitions_of(packing: Packing) -> tuple[Partition, ...]:
    """Returns the partitions that a gang requires domains of, the outer ones first."""
    partitions: list[Partition] = []
    for need in all_needs(packing.sets):
        if need.within is not None and need.within not in partitions:
            partitions.append(need.within)
    return tuple(partitions)


def sort_for_table(resources: Iterable[str]) -> list[str]:
    """Returns the resources with a column in a table, in order: devices, cpu, memory, others, pod slots."""
    columns = (resource for resource in resources if " " not in resource)
    return sorted(columns, key=lambda resource: (_LAST.get(resource, 0 if "/" in resource else 4), resource))


def requested_resources(packing: Packing) -> frozenset[str]:
    return frozenset(
        resource for role in roles_of(packing.sets) for resource, amount in role.pods.request.items() if amount
    )


def domain_rooms_of(packing: Packing, room: Room, free: Room | None = None) -> tuple[DomainRoom, ...]:
    """Returns the domains of the outermost partition that the gang requires, by name; or all nodes as one."""
    partition = next(iter(partitions_of(packing)), None)
    resources = requested_resources(packing)
    total, nodes = _sums(room.classes, partition, resources)
    left = {} if free is None else _sums(free.classes, partition, resources)[0]
    nothing = dict.fromkeys(resources, 0)
    called = "" if partition is None else partition.noun
    return tuple(
        DomainRoom(called, name, nodes[name], total[name], None if free is None else left.get(name, nothing))
        for name in sorted(total)
    )


def _sums(
    classes: Iterable[NodeClass], partition: Partition | None, resources: frozenset[str]
) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Returns what each domain has together, and its number of nodes. Future nodes count nowhere."""
    of_nodes = {} if partition is None else domains_by_node(partition)
    amounts: dict[str, dict[str, int]] = {}
    nodes: dict[str, int] = {}
    for node in classes:
        if not node.roles or node.number is None or node.future:
            continue
        for name, number in numbers_in(node, partition, of_nodes).items():
            sums = amounts.setdefault(name, dict.fromkeys(resources, 0))
            nodes[name] = nodes.get(name, 0) + number
            for resource in resources:
                sums[resource] += number * node.capacity.get(resource, 0)
    return amounts, nodes


def numbers_in(node: NodeClass, partition: Partition | None, of_nodes: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Returns how many nodes of a class are in each domain. `of_nodes` is `domains_by_node` of the partition."""
    number = node.number or 0
    if partition is None:
        return {ALL_NODES: number}
    in_it = membership_of(node, partition, of_nodes)
    return dict.fromkeys(node.nodes, 1) if in_it.each else dict.fromkeys(in_it.names, number)

"""Whether a gang can be placed, by trying: every choice of children and domains, and every filling of every node.

It shares no code with what it checks, and is only for small cases: some dozen pods on about a dozen nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from webhook.fit.packing import OWN_VALUE, Need, Packing, PackingRole, Partition, PodsNeed, Room

# Pods of a role that may be on some nodes, with their number.
_Group = tuple[tuple[str, frozenset[int]], int]
_Demand = frozenset[_Group]
# By label value and role, how many pods there are.
_Used = tuple[tuple[tuple[str, str, str], int], ...]


class Node(NamedTuple):
    """A node of its own."""

    capacity: Mapping[str, int]
    labels: Mapping[str, str]
    roles: frozenset[str]
    devices: Mapping[str, int]


class TooMuchError(Exception):
    """Raised when a case is too large to try everything."""


def feasible(packing: Packing, room: Room, most: int = 60_000) -> bool:
    """Whether all sets of a packing can be placed, each alone. Raises `TooMuchError`."""
    nodes = _nodes(room)
    return all(_Trial(need, nodes, packing, most).succeeds() for need in packing.sets)


def _nodes(room: Room) -> list[Node]:
    nodes = []
    for index, one in enumerate(room.classes):
        assert one.number is not None
        for ordinal in range(one.number):
            labels = {key: f"{index}-{ordinal}" if value == OWN_VALUE else value for key, value in one.labels.items()}
            nodes.append(Node(one.capacity, labels, one.roles, one.devices))
    return nodes


class _Trial:
    def __init__(self, need: Need, nodes: Sequence[Node], packing: Packing, most: int) -> None:
        self.need = need
        self.nodes = nodes
        self.ceilings = packing.ceilings
        self.roles: dict[str, PackingRole] = {}
        self._collect(need)
        self.left = most
        self.fillings: dict[tuple[int, int, tuple[int, ...], tuple[int, ...]], list[dict[int, int]]] = {}
        self.most_alone: dict[tuple[int, int, str, int], int] = {}
        pods = [role.pods for role in self.roles.values()]
        self.keys = {rule.key for one in pods for rule in one.apart} | {rule.key for one in pods for rule in one.spread}
        # The last node that has each value of a label: after it, who is there is forgotten.
        self.last = {(key, one.labels[key]): at for at, one in enumerate(nodes) for key in self.keys & set(one.labels)}

    def succeeds(self) -> bool:
        return any(
            self._within_ceilings(demand) and self._packs(demand)
            for demand in self._demands(self.need, frozenset(range(len(self.nodes))))
        )

    def _collect(self, need: Need) -> None:
        if isinstance(need, PodsNeed):
            self.roles[need.role.name] = need.role
        else:
            for child in need.needs:
                self._collect(child)

    def _demands(self, need: Need, nodes: frozenset[int]) -> set[_Demand]:
        areas = [nodes] if need.within is None else self._domains(need.within, nodes)
        found: set[_Demand] = set()
        for area in areas:
            if isinstance(need, PodsNeed):
                found.add(frozenset({((need.role.name, area), need.count)}))
                continue
            of_children = [self._demands(child, area) for child in need.needs]
            for chosen in combinations(range(len(need.needs)), need.count):
                partial: set[_Demand] = {frozenset()}
                for index in chosen:
                    partial = {_added(one, other) for one in partial for other in of_children[index]}
                    if len(partial) > 1_000:
                        raise TooMuchError
                found |= partial
        return found

    def _domains(self, partition: Partition, nodes: frozenset[int]) -> list[frozenset[int]]:
        if partition.members is not None:
            raise TooMuchError
        domains: dict[str, set[int]] = {}
        alone = []
        for node in nodes:
            labels = self.nodes[node].labels
            if any(key not in labels for key in (*partition.keys, *partition.required_keys)):
                if partition.own_domain:
                    alone.append(frozenset({node}))
            else:
                domains.setdefault(".".join(labels[key] for key in partition.keys), set()).add(node)
        return [*map(frozenset, domains.values()), *alone]

    def _within_ceilings(self, demand: _Demand) -> bool:
        for ceiling in self.ceilings:
            for resource, limit in ceiling.amounts.items():
                used = 0
                for (name, _), count in demand:
                    if ceiling.roles is None or name in ceiling.roles:
                        used += count * self.roles[name].pods.request.get(resource, 0)
                if used > limit:
                    return False
        return True

    def _packs(self, demand: _Demand) -> bool:
        self.left -= 100
        groups = sorted(demand, key=str)
        self.fillings.clear()
        self.most_alone.clear()
        states: set[tuple[tuple[int, ...], _Used]] = {(tuple(count for _, count in groups), ())}
        for index, node in enumerate(self.nodes):
            following: set[tuple[tuple[int, ...], _Used]] = set()
            usable = [place for place, ((name, area), _) in enumerate(groups) if index in area and name in node.roles]
            for remaining, used in states:
                for taken in self._known_fillings(node, usable, groups, remaining):
                    self.left -= 1
                    if self.left < 0:
                        raise TooMuchError
                    left = tuple(remaining[place] - taken.get(place, 0) for place in range(len(groups)))
                    if (now := self._used(node, taken, groups, used)) is not None:
                        if not any(left):
                            return True
                        following.add((left, tuple(one for one in now if self.last[one[0][0], one[0][1]] > index)))
            states = _undominated(following)
        return False

    def _known_fillings(
        self, node: Node, usable: Sequence[int], groups: Sequence[_Group], remaining: Sequence[int]
    ) -> list[dict[int, int]]:
        """The fillings of a node: all, or where no rule reaches beyond a node those that take no further pod."""
        alone = [self._alone(node, place, groups) for place in usable]
        left = tuple(min(remaining[place], most) for place, most in zip(usable, alone, strict=True))
        key = (id(node.capacity), id(node.devices), tuple(usable), left)
        if key not in self.fillings:
            limited = list(remaining)
            for place, most in zip(usable, left, strict=True):
                limited[place] = most
            found = list(self._fillings(node, usable, groups, limited))
            if not self.keys:
                totals = {tuple(one.items()) for one in found}
                found = [
                    one
                    for one in found
                    if not any(tuple({**one, place: one[place] + 1}.items()) in totals for place in usable)
                ]
            self.fillings[key] = found
        return self.fillings[key]

    def _alone(self, node: Node, place: int, groups: Sequence[_Group]) -> int:
        (name, _), count = groups[place]
        key = (id(node.capacity), id(node.devices), name, count)
        if key not in self.most_alone:
            pods = 0
            while pods < count and self._node_takes(node, {name: 0}, {place: pods + 1}, groups):
                pods += 1
            self.most_alone[key] = pods
        return self.most_alone[key]

    def _fillings(
        self, node: Node, usable: Sequence[int], groups: Sequence[_Group], remaining: Sequence[int]
    ) -> Iterator[dict[int, int]]:
        """Every number of pods of each group that the node can have."""

        def filled(position: int, taken: dict[int, int]) -> Iterator[dict[int, int]]:
            if position == len(usable):
                yield dict(taken)
                return
            place = usable[position]
            for pods in range(remaining[place] + 1):
                taken[place] = pods
                if not self._node_takes(node, {groups[one][0][0]: 0 for one in taken}, taken, groups):
                    break
                yield from filled(position + 1, taken)
            taken.pop(place, None)

        yield from filled(0, {})

    def _node_takes(self, node: Node, pods: dict[str, int], taken: Mapping[int, int], groups: Sequence[_Group]) -> bool:
        for place, count in taken.items():
            pods[groups[place][0][0]] += count
        amounts: dict[str, int] = {}
        devices: dict[str, int] = {}
        ports: list[tuple[int, str, str]] = []
        for name, count in pods.items():
            needs = self.roles[name].pods
            for resource, amount in needs.request.items():
                amounts[resource] = amounts.get(resource, 0) + amount * count
            for need in needs.devices:
                devices[""] = devices.get("", 0) + need.number * count
                if need.driver:
                    devices[need.driver] = devices.get(need.driver, 0) + need.number * count
            ports += [(port.number, port.protocol, port.address) for port in needs.ports] * count
        return (
            all(node.capacity.get(resource, 0) >= amount for resource, amount in amounts.items() if amount)
            and all(node.devices.get(driver, 0) >= number for driver, number in devices.items())
            and not any(
                one[:2] == other[:2] and (one[2] == other[2] or "" in (one[2], other[2]))
                for one, other in combinations(ports, 2)
            )
        )

    def _used(self, node: Node, taken: Mapping[int, int], groups: Sequence[_Group], used: _Used) -> _Used | None:
        """The pods in each label value once the node has some more, or None if that breaks a rule."""
        if not self.keys:
            return used
        now = dict(used)
        for place, count in taken.items():
            name = groups[place][0][0]
            for key in self.keys if count else ():
                if key in node.labels:
                    cell = (key, node.labels[key], name)
                    now[cell] = now.get(cell, 0) + count
                elif any(rule.key == key for rule in self.roles[name].pods.spread):
                    return None
        for (key, value, name), count in now.items():
            needs = self.roles[name].pods
            if any(rule.key == key and count > rule.most for rule in needs.spread):
                return None
            for rule in needs.apart:
                if rule.key == key:
                    others = sum(now.get((key, value, other), 0) for other in rule.roles)
                    if others - (1 if name in rule.roles else 0) > 0:
                        return None
        return tuple(sorted(now.items()))


def _added(one: _Demand, other: _Demand) -> _Demand:
    counts = dict(one)
    for group, count in other:
        counts[group] = counts.get(group, 0) + count
    return frozenset(counts.items())


def _undominated(states: set[tuple[tuple[int, ...], _Used]]) -> set[tuple[tuple[int, ...], _Used]]:
    """The states that no other one is at least as good as: fewer pods left, with equal pods in the label values."""
    kept: dict[_Used, list[tuple[int, ...]]] = {}
    for left, used in sorted(states, key=lambda state: sum(state[0])):
        better = kept.setdefault(used, [])
        if not any(all(a <= b for a, b in zip(one, left, strict=True)) for one in better):
            better.append(left)
    return {(left, used) for used, some in kept.items() for left in some}

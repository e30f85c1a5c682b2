"""A placement of pods on nodes, and whether it holds. `holds` shares no code with what constructs placements.

A gang *fits* only with a placement that `holds` has checked, one pod rule after the other, on the room as it was
given. A placement may rely on tolerations that something adds at admission, and a refusal may be due to taints that
keep pods off every node: both are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from webhook.fit.domains import Path, need_at, roles_of
from webhook.fit.gang_shapes import GangShape
from webhook.fit.packing import OWN_VALUE, GroupNeed, Need, NodeClass, Packing, PackingRole, Partition, PodsNeed, Room
from webhook.fit.pod_needs import EVERYTHING, Eligibility, is_transient
from webhook.fit.verdict import FitVerdict, PlacedPods
from webhook.model.facts import ClusterFacts
from webhook.model.nodes import Taint
from webhook.model.pod_template import PodTemplate
from webhook.model.reading import text


class Spot(NamedTuple):
    """Pods of the need at `path`: the nodes `start` to `start + number - 1` of a class have `pods` of them each."""

    path: Path
    node_class: int
    start: int
    number: int
    pods: int


def holds(spots: Sequence[Spot], need: Need, room: Room) -> bool:
    """Returns whether the pods of a need are placed, and all rules between pods and nodes are kept."""
    counts: dict[Path, int] = {}
    for spot in spots:
        counts[spot.path] = counts.get(spot.path, 0) + spot.number * spot.pods
    return _exist(spots, room) and _complete(need, (), counts) and _kept(spots, need, room)


def placement_of(spots: Iterable[Spot], need: Need, room: Room) -> tuple[PlacedPods, ...]:
    """Returns the placement by node, with the domain that the pods of a need share."""
    spots = tuple(spots)
    placement: list[PlacedPods] = []
    roles = {path: (_role(need, path).name, _domain_path(need, path)) for path in {spot.path for spot in spots}}
    together: dict[Path, list[Spot]] = {}
    for spot in spots:
        if (above := roles[spot.path][1]) is not None:
            together.setdefault(above, []).append(spot)
    domains: dict[Path, str | None] = {}
    for above, below in together.items():
        within = need_at(need, above).within
        domains[above] = None if within is None else min(_shared_domains(within, below, room), default=None)
    for spot in spots:
        role, above = roles[spot.path]
        domain = None if above is None else domains[above]
        node = room.classes[spot.node_class]
        for ordinal in range(spot.start, spot.start + spot.number):
            placement.append(PlacedPods(role, domain, _node_name(node, spot.node_class, ordinal), spot.pods))
    return tuple(placement)


def _exist(spots: Iterable[Spot], room: Room) -> bool:
    for spot in spots:
        if not 0 <= spot.node_class < len(room.classes) or spot.start < 0 or spot.number < 1 or spot.pods < 1:
            return False
        number = room.classes[spot.node_class].number
        if number is not None and spot.start + spot.number > number:
            return False
    return True


def _complete(need: Need, path: Path, counts: Mapping[Path, int]) -> bool:
    """Returns whether enough pods are placed: of each child, or of as many children as are needed."""
    if isinstance(need, PodsNeed):
        return counts.get(path, 0) >= need.count
    complete = sum(_complete(child, (*path, index), counts) for index, child in enumerate(need.needs))
    return complete >= min(need.count, len(need.needs))


def _kept(spots: Sequence[Spot], need: Need, room: Room) -> bool:
    roles = {path: _role(need, path) for path in {spot.path for spot in spots}}
    if any(roles[spot.path].name not in room.classes[spot.node_class].roles for spot in spots):
        return False
    nodes = list(_nodes(spots, roles))
    # Nodes of equal capacity with equal pods are checked once.
    different = {}
    for index, _, pods in nodes:
        node = room.classes[index]
        key = (id(node.capacity), id(node.devices), tuple([(role.name, count) for role, count in pods]))
        different[key] = (node, pods)
    return (
        all(_node_holds(node, pods, room) for node, pods in different.values())
        and _labels_hold(nodes, room)
        and _domains_hold(need, 0, spots, room)
    )


# A class, how many of its nodes, and the pods by role that each of them has.
_Nodes = tuple[int, int, Sequence[tuple[PackingRole, int]]]


def _nodes(spots: Sequence[Spot], roles: Mapping[Path, PackingRole]) -> Iterator[_Nodes]:
    """Yields the nodes that have pods, equal neighbours together."""
    for index, there in _spots_by_class(spots).items():
        edges = sorted({edge for spot in there for edge in (spot.start, spot.start + spot.number)})
        starting: dict[int, list[Spot]] = {}
        for spot in there:
            starting.setdefault(spot.start, []).append(spot)
        open_spots: list[Spot] = []
        for first, after in pairwise(edges):
            open_spots = [spot for spot in open_spots if spot.start + spot.number > first] + starting.get(first, [])
            pods: dict[str, tuple[PackingRole, int]] = {}
            for spot in open_spots:
                role = roles[spot.path]
                pods[role.name] = (role, pods.get(role.name, (role, 0))[1] + spot.pods)
            if pods:
                yield index, after - first, tuple(pods.values())


def _node_holds(node: NodeClass, pods: Sequence[tuple[PackingRole, int]], room: Room) -> bool:
    used: dict[str, int] = {}
    devices: dict[str, int] = {}
    for role, count in pods:
        for resource, amount in role.pods.request.items():
            used[resource] = used.get(resource, 0) + count * amount
        for need in role.pods.devices:
            for driver in {"", need.driver or ""}:
                devices[driver] = devices.get(driver, 0) + count * need.number
    return (
        all(
            amount <= 0 or amount <= node.capacity.get(resource, 0)
            for resource, amount in used.items()
            if resource not in room.unsure
        )
        and all(
            amount <= (node.devices.get(driver, 0) if driver else node.devices.get("", sum(node.devices.values())))
            for driver, amount in devices.items()
        )
        and not _ports_clash(pods)
    )


def _ports_clash(pods: Sequence[tuple[PackingRole, int]]) -> bool:
    """Returns whether two of the pods of a node share a host port. One pass: a pod may have hundreds of ports."""
    anywhere = {"", "0.0.0.0"}  # noqa: S104 - what a pod may state; nothing is opened
    used: dict[tuple[int, str], set[str]] = {}
    for role, count in pods:
        if role.pods.ports and count > 1:
            return True
        for port in role.pods.ports:
            taken = used.setdefault((port.number, port.protocol), set())
            if taken and (port.address in anywhere or port.address in taken or not anywhere.isdisjoint(taken)):
                return True
            taken.add(port.address)
    return False


def _labels_hold(nodes: Sequence[_Nodes], room: Room) -> bool:
    """Returns whether anti-affinity and spread constraints are kept in each value of their labels."""
    roles = {role.name: role for _, _, pods in nodes for role, _ in pods}
    keys = {rule.key for role in roles.values() for rule in role.pods.apart}
    keys |= {limit.key for role in roles.values() for limit in role.pods.spread}
    return all(_label_holds(key, roles.values(), nodes, room) for key in keys)


def _label_holds(key: str, roles: Iterable[PackingRole], nodes: Sequence[_Nodes], room: Room) -> bool:
    values: dict[str, dict[str, int]] = {}
    cells: list[Mapping[str, int]] = []
    for index, number, pods in nodes:
        value = room.classes[index].labels.get(key)
        if value is None:
            if any(limit.key == key for role, _ in pods for limit in role.pods.spread):
                return False
        elif value == OWN_VALUE:
            cells.append({role.name: count for role, count in pods})
        else:
            cell = values.setdefault(value, {})
            for role, count in pods:
                cell[role.name] = cell.get(role.name, 0) + count * number
    return all(_cell_holds(key, cell, roles) for cell in (*cells, *values.values()))


def _cell_holds(key: str, cell: Mapping[str, int], roles: Iterable[PackingRole]) -> bool:
    for role in roles:
        there = cell.get(role.name, 0)
        if not there:
            continue
        if any(limit.key == key and there > limit.most for limit in role.pods.spread):
            return False
        for rule in role.pods.apart:
            others = sum(cell.get(name, 0) for name in rule.roles if name != role.name)
            if rule.key == key and (others or (role.name in rule.roles and there > 1)):
                return False
    return True


def _domains_hold(need: Need, depth: int, spots: Sequence[Spot], room: Room) -> bool:
    """Returns whether the pods of a need, all of them below it, share a domain, and those of its children."""
    if need.within is not None and not _shared_domains(need.within, spots, room):
        return False
    if isinstance(need, PodsNeed):
        return True
    of_children: dict[int, list[Spot]] = {}
    for spot in spots:
        of_children.setdefault(spot.path[depth], []).append(spot)
    return all(_domains_hold(need.needs[index], depth + 1, below, room) for index, below in of_children.items())


def _shared_domains(partition: Partition, spots: Sequence[Spot], room: Room) -> frozenset[str]:
    domains = [_domains(partition, index, there, room) for index, there in _spots_by_class(spots).items()]
    return frozenset.intersection(*domains) if domains else frozenset()


def _spots_by_class(spots: Sequence[Spot]) -> dict[int, list[Spot]]:
    by_class: dict[int, list[Spot]] = {}
    for spot in spots:
        by_class.setdefault(spot.node_class, []).append(spot)
    return by_class


def _domains(partition: Partition, index: int, spots: Sequence[Spot], room: Room) -> frozenset[str]:
    node = room.classes[index]
    if partition.members is not None:
        used = [name for spot in spots for name in node.nodes[spot.start : spot.start + spot.number]]
        if len(used) < sum(spot.number for spot in spots):
            used = list(node.nodes)
        return frozenset(
            name
            for name, inside in partition.members.items()
            if used and all(node_name in inside for node_name in used)
        )
    is_one_node = len({(spot.start, spot.number) for spot in spots}) == 1 and spots[0].number == 1
    alone = _node_name(node, index, spots[0].start) if is_one_node else ""
    if partition.lacks(node.labels):
        return frozenset({alone} - {""}) if partition.own_domain and not node.future else frozenset()
    if any(key not in node.labels for key in partition.required_keys):
        return frozenset()
    values = [node.labels[key] for key in partition.keys]
    if OWN_VALUE in values:
        return frozenset({alone} - {""})
    return frozenset({".".join(values)})


def _domain_path(need: Need, path: Path) -> Path | None:
    """Returns the innermost need above a place, or there, whose pods share a domain."""
    above = (path[:length] for length in range(len(path), -1, -1))
    return next((place for place in above if need_at(need, place).within is not None), None)


def _role(need: Need, path: Path) -> PackingRole:
    leaf = need_at(need, path)
    if isinstance(leaf, GroupNeed):
        raise TypeError(path)
    return leaf.role


def _node_name(node: NodeClass, index: int, ordinal: int) -> str:
    if ordinal < len(node.nodes):
        return node.nodes[ordinal]
    return f"{node.nodes[0] if node.nodes else f'class {index}'} + {ordinal}"


# What a message shows of a taint, and how many.
_LONGEST, _MOST = 60, 2


def name_taints(verdict: FitVerdict, packing: Packing, facts: ClusterFacts) -> FitVerdict:
    """Returns the verdict with the taints that keep the pods off all nodes, if no node admits them."""
    witness, nodes = verdict.witness, facts.nodes
    if witness is None or not witness.closed or nodes is None:
        return verdict
    role = next((role for role in roles_of(packing.sets) if role.name in witness.members), None)
    taints = {} if role is None else dict.fromkeys(_keeping_off(role.pods.eligibility, facts))
    if role is None or not taints:
        return verdict
    shown = " and ".join(_text_of(taint) for taint in list(taints)[:_MOST])
    more = f" and {len(taints) - _MOST} more" if len(taints) > _MOST else ""
    why = f"no node admits the pods of {role.name}: they do not tolerate the taint {shown}{more}"
    remedy = "add the toleration, or add nodes without the taint"
    return replace(verdict, witness=replace(witness, why=why, remedy=remedy))


def _keeping_off(eligibility: Eligibility, facts: ClusterFacts) -> Iterator[Taint]:
    """Yields the taints that a pod does not tolerate of the nodes that it may use otherwise."""
    assert facts.nodes is not None  # noqa: S101 - asked for by the caller
    keys, whatever = tuple(sorted(eligibility.keys)), replace(eligibility, tolerations=(EVERYTHING,))
    for group in facts.nodes.groups(keys):
        labels = {key: value for key, value in zip(keys, group.values, strict=True) if value is not None}
        if whatever.admits(None, labels, ()):
            yield from (taint for taint in group.taints if not eligibility.tolerates(taint))


def added_tolerations(verdict: FitVerdict, shape: GangShape, packing: Packing, facts: ClusterFacts) -> tuple[str, ...]:
    """Returns what a placement relies on: tolerations that the templates lack. Raises `Malformed`."""
    if shape.stored or facts.nodes is None:
        return ()
    templates = {member.called: member.template for member in shape.members}
    roles = {role.name: role for role in roles_of(packing.sets)}
    tolerations: dict[str, None] = {}
    nodes_of: dict[str, set[str]] = {}
    for spot in verdict.placement:
        nodes_of.setdefault(spot.role, set()).add(spot.node)
    for name, nodes in nodes_of.items():
        if name in roles and name in templates:
            taints = dict.fromkeys(taint for node in nodes if node in facts.nodes for taint in facts.nodes[node].taints)
            tolerations.update(dict.fromkeys(_relied_on(roles[name], templates[name], taints)))
    return tuple(tolerations)


def _relied_on(role: PackingRole, template: PodTemplate, taints: Iterable[Taint]) -> Iterator[str]:
    """Yields which added tolerations the pods of a role need for these taints."""
    eligibility = Eligibility.from_spec(template.spec, stored=True)
    runtime_class = text(template.spec.get("runtimeClassName"))
    for taint in taints:
        if eligibility.tolerates(taint) or is_transient(taint) or not role.pods.eligibility.tolerates(taint):
            continue
        if taint.key in template.resources:
            adds = "the admission plugin ExtendedResourceToleration, or a webhook, adds"
        elif runtime_class is not None:
            adds = f"the RuntimeClass {runtime_class[:_LONGEST]} adds"
        else:
            continue
        yield f"{adds} a toleration of the taint {_text_of(taint)} to the pods of {role.name}"


def _text_of(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    written = f"{taint.key}{value}:{taint.effect}"
    return written if len(written) <= _LONGEST else f"{written[: _LONGEST - 1]}…"

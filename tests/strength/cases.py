"""Random gangs and rooms by family. The demand is near what the nodes have: a third or more of the gangs ask for less.

Of each family one thing decides: sums, the shapes of pods and nodes, which nodes a role may use, domains, ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from webhook.fit.packing import (
    OWN_VALUE,
    Ceiling,
    GroupNeed,
    Need,
    NodeClass,
    Packing,
    PackingRole,
    Partition,
    PodsNeed,
    Room,
)
from webhook.fit.pod_needs import AntiAffinity, DeviceNeed, Eligibility, HostPort, PodNeeds, SpreadLimit
from webhook.fit.verdict import FitFamily, FitScope
from webhook.model.fields import FieldPath

AT = FieldPath(("spec",))
GPU = "nvidia.com/gpu"
ZONE, RACK, BLOCK, HOST = "zone", "rack", "block", "kubernetes.io/hostname"
ZONES, RACKS, BLOCKS = Partition("zone", (ZONE,)), Partition("rack", (RACK,)), Partition("block", (BLOCK,))


class Case(NamedTuple):
    """A gang, its room, and the family it is of."""

    family: str
    seed: int
    packing: Packing
    room: Room


def role(name: str, request: dict[str, int], **needs: object) -> PackingRole:
    """Return a role that requests something and one pod slot."""
    return PackingRole(name, AT / name, PodNeeds({"pods": 1, **request}, Eligibility(), **needs))  # type: ignore[arg-type]


def case(family: str, seed: int) -> Case:
    """Return the case of a family and a seed."""
    random = Random(f"{family} {seed}")  # noqa: S311 - the same for the same seed, and no secret
    packing, room = FAMILIES[family](random)
    return Case(family, seed, packing, room)


def _names(random: Random, most: int = 4) -> list[str]:
    return [f"r{index}" for index in range(random.randint(1, most))]


def _nodes(
    random: Random, names: Sequence[str], sizes: Sequence[int], most: int = 9, labels: Sequence[str] = ()
) -> list[NodeClass]:
    """Nodes of a few shapes. Each label has a few values; a rack is in one zone, and a block in one rack."""
    classes: list[NodeClass] = []
    left = random.randint(2, most)
    racks = {f"k{index}": f"z{random.randrange(2)}" for index in range(random.randint(2, 4))}
    while left > 0:
        number = min(left, random.randint(1, 3))
        left -= number
        rack = random.choice(sorted(racks))
        values = {ZONE: racks[rack], RACK: rack, BLOCK: f"{rack}b{random.randrange(2)}", HOST: OWN_VALUE}
        classes.append(
            NodeClass(
                {GPU: random.choice(sizes), "cpu": random.choice((16, 32, 48)) * 1000, "pods": 20},
                {key: values[key] for key in labels if random.random() > 0.06},
                number,
                frozenset(names),
                tuple(f"n{len(classes)}-{index}" for index in range(number)),
            )
        )
    return classes


def _ratio(random: Random) -> float:
    return random.uniform(0.7, 1.0) if random.random() < 0.5 else random.uniform(1.0, 1.25)


def _counts(random: Random, roles: Sequence[PackingRole], capacity: dict[str, int], most: int = 26) -> list[int]:
    """How many pods of each role, so that the scarcest resource is used up to about all that there is."""
    shares = [random.uniform(0.3, 1.0) for _ in roles]
    ratio = _ratio(random)
    scale = min(
        (
            ratio * have / asked
            for resource, have in capacity.items()
            if (
                asked := sum(
                    share * one.pods.request.get(resource, 0) for share, one in zip(shares, roles, strict=True)
                )
            )
        ),
        default=1.0,
    )
    scale = min(scale, most / sum(shares))
    return [max(round(share * scale), 1) for share in shares]


def _capacity(classes: Sequence[NodeClass], key: str | None = None) -> dict[str, int]:
    """What all nodes have, or those of the largest value of a label."""
    sums: dict[str, dict[str, int]] = {}
    for one in classes:
        domain = "" if key is None else one.labels.get(key)
        if domain is None:
            continue
        there = sums.setdefault(domain, {})
        for resource, amount in one.capacity.items():
            there[resource] = there.get(resource, 0) + amount * (one.number or 0)
    return max(sums.values(), key=lambda there: there[GPU], default={GPU: 1, "cpu": 1, "pods": 1})


def _gang(roles: Sequence[PackingRole], counts: Sequence[int], within: Partition | None = None) -> Need:
    needs = tuple(PodsNeed(one, count) for one, count in zip(roles, counts, strict=True))
    return GroupNeed("gang", needs, len(needs), within)


def _simple(random: Random, gpus: Sequence[int], sizes: Sequence[int], cpus: Sequence[int]) -> tuple[Packing, Room]:
    names = _names(random)
    roles = [role(name, {GPU: random.choice(gpus), "cpu": random.choice(cpus) * 1000}) for name in names]
    classes = _nodes(random, names, sizes)
    return Packing((_gang(roles, _counts(random, roles, _capacity(classes))),)), Room(tuple(classes))


def sums(random: Random) -> tuple[Packing, Room]:
    """Pods that fill nodes without a rest."""
    return _simple(random, (1, 2, 4), (4, 8), (1, 2, 4))


def shapes(random: Random) -> tuple[Packing, Room]:
    """Pods that leave a rest on nodes."""
    return _simple(random, (3, 5, 6, 7, 2), (4, 8, 8), (2, 6, 12))


def eligibility(random: Random) -> tuple[Packing, Room]:
    """Roles that may use some of the nodes."""
    names = _names(random)
    roles = [role(name, {GPU: random.choice((1, 2, 3, 4)), "cpu": 2000}) for name in names]
    classes = [
        one._replace(roles=frozenset(name for name in names if random.random() < 0.6))
        for one in _nodes(random, names, (4, 8))
    ]
    counts = _counts(random, roles, _capacity(classes))
    return Packing((_gang(roles, [max(round(count * random.uniform(0.5, 1)), 1) for count in counts]),)), Room(
        tuple(classes)
    )


def domains(random: Random) -> tuple[Packing, Room]:
    """A gang, or its roles, that need one rack."""
    names = _names(random, 3)
    roles = [
        role(name, {GPU: random.choice((1, 2, 3, 4, 5)), "cpu": random.choice((2, 4, 8)) * 1000}) for name in names
    ]
    classes = _nodes(random, names, (4, 8), 12, (RACK,))
    capacity = _capacity(classes, RACK)
    if random.random() < 0.5:
        need = _gang(roles, _counts(random, roles, capacity), RACKS)
    else:
        counts = _counts(random, roles, _capacity(classes))
        parts = tuple(
            PodsNeed(one, count, RACKS if random.random() < 0.7 else None)
            for one, count in zip(roles, counts, strict=True)
        )
        need = GroupNeed("gang", parts, len(parts))
    return Packing((need,)), Room(tuple(classes))


def nested(random: Random) -> tuple[Packing, Room]:
    """Groups that each need a rack, in a gang that needs a zone or nothing."""
    names = _names(random, 3)
    roles = [role(name, {GPU: random.choice((1, 2, 3, 4)), "cpu": 2000}) for name in names]
    classes = _nodes(random, names, (4, 8), 12, (ZONE, RACK))
    within = ZONES if random.random() < 0.6 else None
    capacity = _capacity(classes, ZONE if within else None)
    groups: list[Need] = []
    for number in range(random.randint(1, 2)):
        members = random.sample(roles, random.randint(1, len(roles)))
        counts = [random.randint(1, 3) for _ in members]
        groups += [_gang(members, counts, RACKS)] * random.randint(1, 3)
        if number and random.random() < 0.4:
            groups.append(PodsNeed(roles[0], random.randint(1, 4)))
    asked = sum(_gpus(one) for one in groups)
    while len(groups) > 1 and asked > capacity[GPU] * 1.3:
        asked -= _gpus(groups.pop())
    return Packing((GroupNeed("gang", tuple(groups), len(groups), within),)), Room(tuple(classes))


def _gpus(need: Need) -> int:
    if isinstance(need, PodsNeed):
        return need.count * need.role.pods.request[GPU]
    return sum(map(_gpus, need.needs))


def apart(random: Random) -> tuple[Packing, Room]:
    """Pods that must not share a zone, a rack or a node."""
    names = _names(random, 3)
    key = random.choice((ZONE, RACK, RACK, HOST, HOST))
    roles = []
    for index, name in enumerate(names):
        others = frozenset(other for other in names if random.random() < 0.3) | ({name} if index == 0 else frozenset())
        rule = (AntiAffinity(key, others, AT),) if others and (index == 0 or random.random() < 0.5) else ()
        roles.append(role(name, {GPU: random.choice((1, 2, 3)), "cpu": 2000}, apart=rule))
    classes = _nodes(random, names, (4, 8), 8, (key,))
    values = len({one.labels.get(key) for one in classes}) if key != HOST else sum(one.number or 0 for one in classes)
    counts = [min(count, 6) for count in _counts(random, roles, _capacity(classes), 14)]
    counts[0] = max(1, values + random.randint(-1, 1))
    return Packing((_gang(roles, counts),)), Room(tuple(classes))


def spread(random: Random) -> tuple[Packing, Room]:
    """Pods of which each zone may have only some, as there are fewer zones than wanted."""
    names = _names(random, 2)
    most = random.randint(1, 3)
    roles = [
        role(name, {GPU: 1, "cpu": 2000}, spread=(SpreadLimit(RACK, 9, most, AT),) if index == 0 else ())
        for index, name in enumerate(names)
    ]
    classes = _nodes(random, names, (4, 8), 8, (RACK,))
    counts = [min(count, 8) for count in _counts(random, roles, _capacity(classes), 14)]
    counts[0] = max(1, most * len({one.labels.get(RACK) for one in classes}) + random.randint(-2, 1))
    return Packing((_gang(roles, counts),)), Room(tuple(classes))


def ports(random: Random) -> tuple[Packing, Room]:
    """Pods with host ports."""
    names = _names(random, 4)
    roles = []
    for name in names:
        taken = (HostPort(random.choice((80, 81)), "TCP", random.choice(("", "", "10.0.0.1"))),)
        wanted = taken if random.random() < 0.6 else ()
        roles.append(role(name, {GPU: random.choice((1, 2, 3)), "cpu": 2000}, ports=wanted))
    classes = _nodes(random, names, (4, 8), 8)
    nodes = sum(one.number or 0 for one in classes)
    counts = _counts(random, roles, _capacity(classes))
    with_ports = [bool(one.pods.ports) for one in roles]
    each = max(1, round(nodes * _ratio(random) / max(sum(with_ports), 1)))
    return Packing(
        (_gang(roles, [each if port else count for port, count in zip(with_ports, counts, strict=True)]),)
    ), Room(tuple(classes))


def quotas(random: Random) -> tuple[Packing, Room]:
    """A gang under a quota, now and then of some roles only."""
    packing, room = sums(random)
    need = packing.sets[0]
    assert isinstance(need, GroupNeed)
    asked = _gpus(need)
    limited = None if random.random() < 0.7 else frozenset({"r0"})
    ceiling = Ceiling(
        "quota", "team", {GPU: max(asked + random.randint(-3, 3), 0)}, FitFamily.QUOTA, FitScope.EVER, roles=limited
    )
    return Packing(packing.sets, (ceiling,)), room


def slots(random: Random) -> tuple[Packing, Room]:
    """Small pods on nodes with few pod slots."""
    names = _names(random, 3)
    roles = [role(name, {"cpu": random.choice((100, 500, 4000)), GPU: random.choice((0, 0, 1))}) for name in names]
    classes = [
        one._replace(capacity={**one.capacity, "pods": random.randint(1, 4)})
        for one in _nodes(random, names, (1, 4), 7)
    ]
    return Packing((_gang(roles, _counts(random, roles, _capacity(classes))),)), Room(tuple(classes))


def devices(random: Random) -> tuple[Packing, Room]:
    """Pods that claim devices of two drivers."""
    names = _names(random, 3)
    roles = []
    for name in names:
        driver = random.choice((None, "a", "b"))
        roles.append(role(name, {"cpu": 2000, GPU: 0}, devices=(DeviceNeed("c", random.randint(1, 5), AT, driver),)))
    classes = []
    for one in _nodes(random, names, (8,), 7):
        some, others = random.choice((0, 4, 8)), random.choice((0, 2, 4))
        classes.append(one._replace(devices={"a": some, "b": others, "": some + others}))
    there = sum(one.devices[""] * (one.number or 0) for one in classes)
    asked = sum(one.pods.devices[0].number for one in roles)
    each = max(1, round(_ratio(random) * there / asked))
    return Packing((_gang(roles, [each] * len(roles)),)), Room(tuple(classes))


def choices(random: Random) -> tuple[Packing, Room]:
    """Some of several groups, with a rack each or without."""
    names = _names(random, 3)
    roles = [role(name, {GPU: random.choice((1, 2, 3, 4)), "cpu": 2000}) for name in names]
    classes = [
        one._replace(roles=frozenset(name for name in names if random.random() < 0.85))
        for one in _nodes(random, names, (4, 8), 8, (RACK,))
    ]
    groups: list[Need] = []
    for _ in range(random.randint(2, 5)):
        members = random.sample(roles, random.randint(1, len(roles)))
        groups.append(_gang(members, [random.randint(1, 4) for _ in members], RACKS if random.random() < 0.4 else None))
    needed = random.randint(1, len(groups) - 1)
    cheapest = sum(sorted(map(_gpus, groups))[:needed])
    capacity = _capacity(classes)[GPU]
    while needed < len(groups) - 1 and cheapest < 0.7 * capacity:
        needed += 1
        cheapest = sum(sorted(map(_gpus, groups))[:needed])
    return Packing((GroupNeed("gang", tuple(groups), needed),)), Room(tuple(classes))


def mixed(random: Random) -> tuple[Packing, Room]:
    """A bit of everything."""
    names = _names(random, 4)
    key = random.choice((RACK, HOST))
    roles = []
    for name in names:
        rule = (AntiAffinity(key, frozenset({name}), AT),) if random.random() < 0.2 else ()
        port = (HostPort(80, "TCP", ""),) if random.random() < 0.2 else ()
        gpu = random.choice((0, 1, 2, 3, 4, 5))
        roles.append(role(name, {GPU: gpu, "cpu": random.choice((2, 6, 12)) * 1000}, apart=rule, ports=port))
    classes = [
        one._replace(roles=frozenset(name for name in names if random.random() < 0.9))
        for one in _nodes(random, names, (4, 8), 9, (RACK, HOST))
    ]
    within = RACKS if random.random() < 0.4 else None
    counts = _counts(random, roles, _capacity(classes, RACK if within else None), 18)
    counts = [
        min(count, 4) if one.pods.apart or one.pods.ports else count for one, count in zip(roles, counts, strict=True)
    ]
    return Packing((_gang(roles, counts, within),)), Room(tuple(classes))


def everything(random: Random) -> tuple[Packing, Room]:
    """Domains in domains in domains, choices, paths of labels, nodes that are domains of their own, and all rules."""
    names = _names(random, 3)
    roles = []
    for name in names:
        others = frozenset(other for other in names if random.random() < 0.4)
        rule = (
            (AntiAffinity(random.choice((ZONE, RACK, HOST)), others, AT),) if others and random.random() < 0.3 else ()
        )
        port = (HostPort(80, "TCP", ""),) if random.random() < 0.15 else ()
        limit = (SpreadLimit(random.choice((ZONE, RACK)), 9, 2, AT),) if random.random() < 0.15 else ()
        gpu = random.choice((0, 1, 2, 3, 4))
        roles.append(role(name, {GPU: gpu, "cpu": 4000}, apart=rule, ports=port, spread=limit))
    classes = [
        one._replace(roles=frozenset(name for name in names if random.random() < 0.9))
        for one in _nodes(random, names, (4, 8), 6, (ZONE, RACK, BLOCK, HOST))
    ]
    levels = (
        ZONES,
        Partition("rack", (ZONE, RACK), own_domain=random.random() < 0.3),
        Partition("block", (BLOCK,), required_keys=(RACK,) if random.random() < 0.3 else ()),
    )
    need = _tree(random, roles, levels, 0)
    return Packing((need,)), Room(tuple(classes))


def _tree(random: Random, roles: Sequence[PackingRole], levels: Sequence[Partition], depth: int) -> Need:
    within = random.choice(levels[depth:]) if depth < len(levels) and random.random() < 0.5 else None
    deeper = levels.index(within) + 1 if within is not None else depth
    if depth > 1 or random.random() < 0.35:
        members = random.sample(roles, random.randint(1, len(roles)))
        return _gang(members, [random.randint(1, 2) for _ in members], within)
    children: list[Need] = []
    for _ in range(random.randint(1, 2)):
        children += [_tree(random, roles, levels, max(deeper, depth + 1))] * random.randint(1, 2)
    needed = len(children) if random.random() < 0.7 else random.randint(1, len(children))
    return GroupNeed("group", tuple(children), needed, within)


FAMILIES: dict[str, Callable[[Random], tuple[Packing, Room]]] = {
    "sum": sums,
    "shape": shapes,
    "eligibility": eligibility,
    "domain": domains,
    "nested domain": nested,
    "anti-affinity": apart,
    "spread": spread,
    "ports": ports,
    "quota": quotas,
    "slots": slots,
    "devices": devices,
    "some of several": choices,
    "mixed": mixed,
    "everything": everything,
}


def sums_fit(found: Case) -> bool:
    """Whether all that the gang requests is within what all nodes, or those of the largest required domain, have."""
    need = found.packing.sets[0]
    asked: dict[str, int] = {}
    _add(need, asked)
    key = need.within.keys[0] if need.within is not None else None
    capacity = _capacity(found.room.classes, key)
    return all(amount <= capacity.get(resource, 0) for resource, amount in asked.items())


def _add(need: Need, asked: dict[str, int]) -> None:
    if isinstance(need, PodsNeed):
        for resource, amount in need.role.pods.request.items():
            asked[resource] = asked.get(resource, 0) + amount * need.count
        return
    for child in need.needs[: need.count]:
        _add(child, asked)

"""Families of cases by what binds: each draws the shape of a cluster and a gang, which `drawing` brings to a limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from tests.e2e.control_plane import Manifest
from tests.e2e.fit.case import BLOCK, HOST, RACK
from tests.e2e.fit.placement import GroupDraft, NodeDraft, RoleDraft, roles_of
from tests.e2e.fit.sketch import Offers, Sketch
from tests.e2e.fit.spelling import CPU, DEVICES, DONGLE, GPU, HUGE, MEMORY, MIB, SLOTS, STORAGE

GIB = 1024**3


def _room(rng: Random, *, gpu: int = 0, slots: int = 110) -> dict[str, int]:
    odd = rng.random() < 0.4
    cpu = rng.randint(8, 64) * 250 + (rng.randint(-120, 120) if odd else 0)
    memory = rng.randint(8, 64) * 512 * MIB + (rng.randint(-(10**6), 10**6) if odd else 0)
    found = {CPU: cpu, MEMORY: memory, SLOTS: slots}
    if gpu:
        found[GPU] = gpu
    if rng.random() < 0.2:
        found[STORAGE] = rng.randint(20, 100) * GIB
    return found


def _nodes(rng: Random, classes: int, each: tuple[int, int], **room: Any) -> list[NodeDraft]:
    found: list[NodeDraft] = []
    for index in range(classes):
        size = _room(rng, **room)
        labels = {"pool": f"p{index}", "size": str(index * 10 + 10)}
        found += [NodeDraft(f"class-{index}", dict(size), dict(labels)) for _ in range(rng.randint(*each))]
    rng.shuffle(found)
    return found


def _role(rng: Random, name: str, nodes: list[NodeDraft], share: tuple[float, float] = (0.1, 0.45)) -> RoleDraft:
    """A role of which a node takes a few: its request is a share of a node's room."""
    room = rng.choice(nodes).room
    request = {
        one: max(int(room[one] * rng.uniform(*share)), 1)
        for one in (CPU, MEMORY, STORAGE)
        if one in room and rng.random() < (0.75 if one != STORAGE else 0.4)
    }
    if rng.random() < 0.6:
        request = {one: _rounded(one, amount) for one, amount in request.items()}
    if GPU in room and rng.random() < 0.8:
        request[GPU] = rng.randint(1, max(room[GPU] // 2, 1))
    return RoleDraft(name, request, labels={"role": name})


def _rounded(resource: str, amount: int) -> int:
    unit = 250 if resource == CPU else 128 * MIB
    return max(amount // unit, 1) * unit


def _roles(rng: Random, nodes: list[NodeDraft], numbers: tuple[int, int] = (1, 3)) -> list[RoleDraft]:
    return [_role(rng, f"role{index}", nodes) for index in range(rng.randint(*numbers))]


def _flat(nodes: list[NodeDraft], roles: list[RoleDraft], **fields: Any) -> Sketch:
    return Sketch(nodes, GroupDraft(list(roles)), **fields)


def _sum(rng: Random, _: Offers) -> Sketch:
    nodes = _nodes(rng, rng.randint(1, 2), (1, 4), gpu=rng.choice([0, 0, 4, 8]))
    if rng.random() < 0.15:
        for node in nodes:
            node.room[HUGE] = rng.randint(2, 40) * 2 * MIB
    roles = _roles(rng, nodes)
    if HUGE in nodes[0].room and rng.random() < 0.7:
        roles[0].request[HUGE] = rng.randint(1, 8) * 2 * MIB
        roles[0].request.setdefault(CPU, 100)
    return _flat(nodes, roles)


def _shape(rng: Random, _: Offers) -> Sketch:
    """Sums would fit: 5 of 8 GPUs, or a bit more than half of a node."""
    gpu = rng.choice([4, 8, 8, 8, 16])
    nodes = _nodes(rng, rng.randint(1, 2), (2, 5), gpu=gpu)
    sizes = rng.choice([[gpu // 2 + 1], [gpu // 2 + 1, gpu // 2], [3, 5], [gpu - 1, 2], [3]])
    roles = []
    for index, size in enumerate(sizes):
        request = {GPU: min(size, gpu)}
        if rng.random() < 0.6:
            request[CPU] = int(min(node.room[CPU] for node in nodes) * rng.uniform(0.3, 0.55))
        roles.append(RoleDraft(f"role{index}", request, labels={"role": f"role{index}"}))
    return _flat(nodes, roles)


_TAINTS = [
    {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
    {"key": "team", "value": "a", "effect": "NoExecute"},
    {"key": "team", "effect": "NoSchedule"},
    {"key": "level", "value": "5", "effect": "NoSchedule"},
]
_SOFT = {"key": "soft", "value": "x", "effect": "PreferNoSchedule"}


def _toleration(rng: Random, taint: Manifest) -> Manifest:
    ways: list[Manifest] = [
        {"operator": "Exists"},
        {"key": taint["key"], "operator": "Exists"},
        {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]},
        {"key": taint["key"], "operator": "Equal", "value": taint.get("value", ""), "effect": taint["effect"]},
        {"key": taint["key"], "value": taint.get("value", "")},
    ]
    return rng.choice(ways)


def _terms(rng: Random, pool: str, size: str) -> list[Manifest]:
    """Required terms that the nodes of one pool meet, one way or another."""
    ways: list[list[Manifest]] = [
        [{"matchExpressions": [{"key": "pool", "operator": "In", "values": [pool, "other"]}]}],
        [{"matchExpressions": [{"key": "size", "operator": "Gt", "values": [str(int(size) - 1)]}]}],
        [{"matchExpressions": [{"key": "size", "operator": "Lt", "values": [str(int(size) + 1)]}]}],
        [{"matchExpressions": [{"key": "missing", "operator": "DoesNotExist"}]}],
        [{"matchExpressions": [{"key": "missing", "operator": "NotIn", "values": ["x"]}]}],
        [
            {"matchExpressions": [{"key": "missing", "operator": "Exists"}]},
            {"matchExpressions": [{"key": "pool", "operator": "In", "values": [pool]},
                                  {"key": "size", "operator": "NotIn", "values": ["999"]}]},
        ],
        [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"@n{index}"]}]} for index in range(3)],
        [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["@n0"]}]}],
    ]  # fmt: skip
    return rng.choice(ways)


def _eligibility(rng: Random, _: Offers) -> Sketch:
    nodes = _nodes(rng, rng.randint(2, 3), (1, 3), gpu=rng.choice([0, 4]))
    pools = sorted({(node.labels["pool"], node.labels["size"]) for node in nodes})
    for pool, _size in pools:
        taints = [rng.choice(_TAINTS)] if rng.random() < 0.5 else []
        taints += [_SOFT] if rng.random() < 0.3 else []
        for node in nodes:
            if node.labels["pool"] == pool:
                node.taints = [dict(taint) for taint in taints]
    roles = _roles(rng, nodes)
    for role in roles:
        pool, size = rng.choice(pools)
        if rng.random() < 0.5:
            role.selector = {"pool": pool}
        if rng.random() < 0.5:
            role.terms = _terms(rng, pool, size)
        taints = next(node.taints for node in nodes if node.labels["pool"] == pool)
        role.tolerations = [_toleration(rng, taint) for taint in taints if rng.random() < 0.85]
    return _flat(nodes, roles)


def _domains(rng: Random, nodes: list[NodeDraft], *, nested: bool) -> None:
    """Blocks of racks; some nodes have no rack, and a rack's name may be used in two blocks."""
    shared = nested and rng.random() < 0.25
    blocks = rng.randint(1, 2) if nested else 1
    for index, node in enumerate(nodes):
        block = index % blocks
        rack = f"@r{rng.randint(0, 2)}" if shared else f"@b{block}r{rng.randint(0, 1)}"
        if nested or rng.random() < 0.9:
            node.labels[BLOCK] = f"@b{block}"
        if rng.random() < 0.92:
            node.labels[RACK] = "" if nested and rng.random() < 0.04 else rack


def _domain(rng: Random, offers: Offers) -> Sketch:
    gpu = rng.choice([0, 4, 8])
    nodes = _nodes(rng, rng.randint(1, 2), (2, 4), gpu=gpu)
    _domains(rng, nodes, nested=offers.nested)
    roles = _roles(rng, nodes)
    if offers.nested and rng.random() < 0.6:
        return Sketch(nodes, _nested(rng, roles))
    return Sketch(nodes, GroupDraft(list(roles), rng.choice([RACK, RACK, BLOCK])))


def _nested(rng: Random, roles: list[RoleDraft]) -> GroupDraft:
    parts: list[RoleDraft | GroupDraft] = []
    rest = list(roles)
    while rest:
        number = rng.randint(1, len(rest))
        some, rest = rest[:number], rest[number:]
        if rng.random() < 0.3 and len(some) == 1:
            parts += some
        else:
            # A member that must be in one domain of its own, or several together.
            parts.append(GroupDraft(list(some), rng.choice([RACK, RACK, HOST])))
    return GroupDraft(parts, rng.choice([None, BLOCK, BLOCK, RACK]))


def _apart(rng: Random, offers: Offers) -> Sketch:
    nodes = _nodes(rng, rng.randint(1, 2), (2, 4))
    _domains(rng, nodes, nested=False)
    roles = _roles(rng, nodes, (1, 2))
    for role in roles:
        role.request = {name: max(amount // 3, 1) for name, amount in role.request.items()}
        role.labels["apart"] = rng.choice(["x", "x", role.name])
    for role in roles:
        if role is roles[0] or rng.random() < 0.6:
            role.apart = (rng.choice([HOST, HOST, RACK]), rng.choice(["x", role.labels["apart"]]))
    return _flat(nodes, roles)


def _ports(rng: Random, _: Offers) -> Sketch:
    nodes = _nodes(rng, rng.randint(1, 2), (2, 4))
    roles = _roles(rng, nodes, (1, 3))
    for role in roles:
        role.request = {name: max(amount // 3, 1) for name, amount in role.request.items()}
        address = rng.choice(["", "", "0.0.0.0", "10.0.0.1", "10.0.0.2"])  # noqa: S104 - an address in a manifest
        role.ports = [(rng.choice([9000, 9000, 9001]), rng.choice(["TCP", "TCP", "UDP"]), address)]
    return _flat(nodes, roles)


def _slots(rng: Random, _: Offers) -> Sketch:
    nodes = _nodes(rng, rng.randint(1, 3), (1, 3), slots=rng.randint(1, 4))
    roles = _roles(rng, nodes)
    for role in roles:
        role.request = {name: max(amount // 8, 1) for name, amount in role.request.items() if rng.random() < 0.6}
    if rng.random() < 0.3:
        # Pods without any request, on nodes without any cpu.
        roles[0].request = {}
        for node in nodes:
            node.room[CPU] = 0
    return _flat(nodes, roles)


def _spread(rng: Random, _: Offers) -> Sketch:
    """Topology spread with pods of others that match: these can permit more elsewhere."""
    nodes = _nodes(rng, rng.randint(1, 2), (2, 4))
    _domains(rng, nodes, nested=False)
    roles = _roles(rng, nodes, (1, 2))
    found = _flat(nodes, roles)
    role = roles[0]
    key = rng.choice([HOST, RACK])
    constraint: Manifest = {
        "maxSkew": rng.choice([1, 1, 2]),
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"role": rng.choice([role.name, role.name, role.name, "nobody"])}},
    }
    if rng.random() < 0.4:
        constraint["minDomains"] = rng.randint(1, 5)
    if rng.random() < 0.3:
        constraint["nodeTaintsPolicy"] = rng.choice(["Honor", "Ignore"])
    if rng.random() < 0.2:
        constraint["nodeAffinityPolicy"] = "Ignore"
    if rng.random() < 0.2:
        constraint["matchLabelKeys"] = ["uneven"]
    found.more[role.name] = {"topologySpreadConstraints": [constraint]}
    for _index in range(rng.randint(0, 4)):
        found.foreign.append((rng.randrange(len(nodes)), _small(), {"role": role.name}))
    return found


def _affinity(rng: Random, _: Offers) -> Sketch:
    """Required affinity to the gang's own labels: a pod of others opens a second domain."""
    nodes = _nodes(rng, rng.randint(1, 2), (2, 4))
    _domains(rng, nodes, nested=False)
    roles = _roles(rng, nodes, (1, 2))
    found = _flat(nodes, roles)
    term = {"topologyKey": rng.choice([RACK, HOST]), "labelSelector": {"matchLabels": {"near": "@near"}}}
    for role in roles:
        role.labels["near"] = "@near"
    wanted = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    found.more[roles[0].name] = {"affinity": wanted}
    for _index in range(rng.randint(0, 3)):
        found.foreign.append((rng.randrange(len(nodes)), _small(), {"near": "@near"}))
    return found


def _small() -> Manifest:
    requests = {"cpu": "10m", "memory": "1Mi"}
    return {"containers": [{"name": "main", "image": "example.com/other", "resources": {"requests": requests}}]}


def _quota(rng: Random, offers: Offers) -> Sketch:
    """The nodes have room, a limit on the sum has not."""
    nodes = _nodes(rng, 1, (2, 3), gpu=rng.choice([0, 8]))
    for node in nodes:
        node.room = {name: amount * (1 if name == SLOTS else 4) for name, amount in node.room.items()}
    roles = _roles(rng, nodes, (1, 2))
    for role in roles:
        role.request = {name: max(amount // 8, 1) for name, amount in role.request.items()} or {CPU: 100}
    return _flat(nodes, roles, limited="quota" if offers.quotas else "objects")


def _tree(rng: Random, _: Offers) -> Sketch:
    """Some of its parts are enough, and not all of them can be placed."""
    nodes = _nodes(rng, rng.randint(1, 2), (2, 4), gpu=rng.choice([0, 8]))
    _domains(rng, nodes, nested=True)
    parts: list[RoleDraft | GroupDraft] = []
    for index in range(rng.randint(2, 4)):
        role = _role(rng, f"role{index}", nodes)
        if rng.random() < 0.3:
            # Can be placed nowhere.
            role.selector = {"pool": "none"}
        if rng.random() < 0.4:
            other = _role(rng, f"more{index}", nodes)
            parts.append(GroupDraft([role, other], rng.choice([None, RACK])))
        else:
            parts.append(role)
    return Sketch(nodes, GroupDraft(parts, rng.choice([None, None, BLOCK]), rng.randint(1, len(parts))))


def _pinned(rng: Random, _: Offers) -> Sketch:
    """Each member is one pod on a node of its name, so that no order of the scheduler matters."""
    nodes = _nodes(rng, rng.randint(1, 3), (1, 2), gpu=rng.choice([0, 8]))
    roles = _roles(rng, nodes, (2, 7))
    for role in roles:
        role.terms = [{"matchFields": [{"key": "metadata.name", "operator": "In",
                                        "values": [f"@n{rng.randrange(len(nodes))}"]}]}]  # fmt: skip
    return _flat(nodes, roles)


def _devices(rng: Random, _: Offers) -> Sketch:
    """Devices of dynamic resource allocation are what is short."""
    nodes = _nodes(rng, rng.randint(1, 2), (1, 3))
    for node in nodes:
        node.room[DEVICES] = rng.randint(2, 5)
    roles = _roles(rng, nodes, (1, 2))
    for role in roles:
        role.request = {name: max(amount // 4, 1) for name, amount in role.request.items()}
        role.request[DEVICES] = rng.randint(1, 3)
    return _flat(nodes, roles)


def _mixed(rng: Random, offers: Offers) -> Sketch:
    """Several of the above at once."""
    names = ["eligibility", "apart", "ports", "slots", "sum"]
    if offers.topology:
        names.append("domain")
    found = FAMILIES[rng.choice(names)](rng, offers)
    roles = roles_of(found.top)
    for node in found.nodes:
        if rng.random() < 0.2:
            node.taints = [*node.taints, {**_SOFT, "key": "softer"}]
        if rng.random() < 0.15:
            node.room[DONGLE] = rng.randint(1, 4)
    some = rng.choice(roles)
    if rng.random() < 0.4:
        some.ports = some.ports or [(9000, "TCP", "")]
    if rng.random() < 0.3 and any(DONGLE in node.room for node in found.nodes):
        some.request[DONGLE] = 1
    if rng.random() < 0.3:
        some.labels["apart"] = "x"
        some.apart = some.apart or (HOST, "x")
    for _index in range(rng.choice([0, 0, 1, 2])):
        found.foreign.append((rng.randrange(len(found.nodes)), _small(), dict(some.labels)))
    return found


FAMILIES: Mapping[str, Callable[[Random, Offers], Sketch]] = {
    "sum": _sum,
    "shape": _shape,
    "eligibility": _eligibility,
    "domain": _domain,
    "apart": _apart,
    "ports": _ports,
    "slots": _slots,
    "spread": _spread,
    "affinity": _affinity,
    "quota": _quota,
    "tree": _tree,
    "pinned": _pinned,
    "devices": _devices,
    "mixed": _mixed,
}


def families_for(offers: Offers) -> tuple[str, ...]:
    """The families that can be asked of a scheduler, the more telling ones more than once."""
    common = ("sum", "shape", "eligibility", "apart", "ports", "slots", "quota", "pinned", "pinned", "mixed", "mixed")
    rare = ("spread", "affinity", "devices")
    of_topology = ("domain", "domain") if offers.topology else ()
    return (*common, *rare, *of_topology, *(("tree", "tree") if offers.trees else ()))

"""From a seed to a case: the family draws a shape, the counts or the rooms are brought to the limit, and one unit may
be added or taken away.
"""

from __future__ import annotations

from random import Random

from tests.e2e.control_plane import Manifest
from tests.e2e.fit.case import HOST, Case, ForeignPod, MemberPlan, NodePlan, SubsetPlan
from tests.e2e.fit.device_claims import add_devices
from tests.e2e.fit.families import FAMILIES, families_for
from tests.e2e.fit.placement import GroupDraft, NodeDraft, RoleDraft, at_the_limit, placed, roles_of
from tests.e2e.fit.sketch import Offers, Sketch
from tests.e2e.fit.spelling import CPU, DEVICES, DONGLE, GPU, MEMORY, SLOTS, containers, spelled
from webhook.model import grove

# More pods cost time and prove no more.
_MOST_PODS = 11
_TRIES = 200
# What device plugins bring.
_PLUGINS = (GPU, DONGLE)


def drawn_case(seed: int, offers: Offers, family: str | None = None) -> Case:
    """The case of a seed."""
    rng = Random(seed)
    chosen = family or rng.choice(families_for(offers))
    for _ in range(_TRIES):
        sketch = FAMILIES[chosen](rng, offers)
        for index, node in enumerate(sketch.nodes):
            node.labels[HOST] = f"@n{index}"
        if at_the_limit(sketch.nodes, sketch.top, rng, _MOST_PODS if chosen != "pinned" else 0):
            return _written(rng, seed, chosen, sketch, offers)
    raise AssertionError(f"seed {seed}: the family {chosen} drew no gang that fits")


def _written(rng: Random, seed: int, family: str, sketch: Sketch, offers: Offers) -> Case:
    how = (
        rng.choice(["at", "at", "tight", "tight", "tight", "above", "above", "below"])
        if not sketch.limited
        else "below"
    )
    if family == "pinned" and how in {"at", "below"}:
        how = "tight"
    roles = roles_of(sketch.top)
    if how == "tight":
        _tighten(rng, sketch)
    elif how == "above":
        if rng.random() < 0.5 and family != "pinned":
            rng.choice(roles).count += 1
        else:
            _tighten(rng, sketch)
            _take_one_unit(rng, sketch.nodes)
    elif how == "below":
        fewer = [role for role in roles if role.count > 1]
        if fewer:
            rng.choice(fewer).count -= 1
    case = Case(seed, family, [], [], drawn=how)
    case.nodes = [_node(rng, node) for node in sketch.nodes]
    case.members = [_member(rng, role, sketch, offers, single=len(roles) == 1) for role in roles]
    case.foreign = [ForeignPod(node, spec, labels) for node, spec, labels in sketch.foreign]
    if any(DEVICES in node.room for node in sketch.nodes):
        add_devices(rng, case, sketch.nodes, roles)
    _structure(case, sketch.top)
    if sketch.limited:
        _limit(rng, case, sketch, roles)
    elif rng.random() < 0.02:
        case.namespaced.append(_limit_range(rng))
    return case


def _tighten(rng: Random, sketch: Sketch) -> None:
    """Each class of nodes gets exactly what the fullest of its nodes uses; sometimes each node of itself."""
    floor = placed(sketch.nodes, sketch.top)
    assert floor is not None
    if rng.random() < 0.4:
        for index, node in enumerate(sketch.nodes):
            node.class_name = f"own-{index}"
    slots = rng.random() < 0.5
    for name in {node.class_name for node in sketch.nodes}:
        same = [index for index, node in enumerate(sketch.nodes) if node.class_name == name]
        used = [floor.used(index) for index in same]
        for index in same:
            node = sketch.nodes[index]
            for resource in node.room:
                if resource != SLOTS or slots:
                    node.room[resource] = max(one.get(resource, 0) for one in used)
    for place, _, _ in sketch.foreign:
        # Room for the pods of others: 10m of cpu and 1Mi of memory each.
        room = sketch.nodes[place].room
        for resource, amount in ((CPU, 10), (MEMORY, 1024**2), (SLOTS, 1)):
            if resource in room:
                room[resource] += amount


def _take_one_unit(rng: Random, nodes: list[NodeDraft]) -> None:
    wanted = [(node.class_name, name) for node in nodes for name, amount in node.room.items() if amount]
    if not wanted:
        return
    chosen, resource = rng.choice(wanted)
    for node in nodes:
        if node.class_name == chosen and node.room.get(resource):
            node.room[resource] -= 1


def _node(rng: Random, draft: NodeDraft) -> NodePlan:
    # A node that states 0 of a device makes it unknown for all cases of the batch: its device plugin may have stopped.
    stated = {
        name: amount for name, amount in draft.room.items() if name != DEVICES and (amount or name not in _PLUGINS)
    }
    plan = NodePlan(
        {name: spelled(rng, name, amount) for name, amount in stated.items()},
        dict(draft.labels),
        [dict(taint) for taint in draft.taints],
    )
    if rng.random() < 0.3:
        # What the kubelet reserves, and devices that are broken now.
        plan.capacity = {
            name: spelled(rng, name, draft.room[name] + more)
            for name, more in ((CPU, 200), (MEMORY, 1024**2))
            if name in draft.room
        }
    if rng.random() < 0.05:
        for name in _PLUGINS:
            if name in draft.room:
                plan.capacity[name] = str(draft.room[name] + rng.randint(1, 2))
                plan.allocatable[name] = str(rng.randint(0, draft.room[name]))
    if rng.random() < 0.03:
        plan.cordoned = True
    if rng.random() < 0.03:
        plan.taints = [*plan.taints, {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}]
    return plan


def _member(rng: Random, role: RoleDraft, sketch: Sketch, offers: Offers, *, single: bool) -> MemberPlan:
    spec = containers(rng, role.request, simple=sketch.simple)
    if role.selector:
        spec["nodeSelector"] = dict(role.selector)
    affinity: Manifest = {}
    if role.terms:
        terms = {"nodeSelectorTerms": role.terms}
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    if role.apart:
        key, value = role.apart
        affinity["podAntiAffinity"] = _anti_affinity(rng, key, value)
    elif rng.random() < 0.04:
        affinity["podAntiAffinity"] = _without_effect(rng, role)
    if affinity:
        spec["affinity"] = affinity
    if role.tolerations:
        spec["tolerations"] = role.tolerations
    _give_ports(rng, role, spec)
    for key, more in sketch.more.get(role.name, {}).items():
        spec[key] = {**spec[key], **more} if isinstance(spec.get(key), dict) else more
    # Pods above the minimum may take the place of those that are needed.
    spare = rng.choice([1, 2]) if (single or not offers.merged) and rng.random() < 0.1 else 0
    return MemberPlan(role.name, spec, role.count, role.count + spare, dict(role.labels))


def _anti_affinity(rng: Random, key: str, value: str) -> Manifest:
    selector: Manifest = {"matchLabels": {"apart": value}}
    if rng.random() < 0.4:
        selector = {"matchExpressions": [{"key": "apart", "operator": "In", "values": [value, "other"]}]}
    if rng.random() < 0.25:
        # A label that Grove adds to each pod: it changes nothing, and a template does not show it.
        selector["matchExpressions"] = [
            *selector.get("matchExpressions", []),
            {"key": grove.LABEL_PODCLIQUE, "operator": "Exists"},
        ]
    # Of one batch all pods are in few namespaces, and on the nodes of a case are only its own.
    everywhere: Manifest = {"namespaceSelector": {}} if rng.random() < 0.15 else {}
    term = {"topologyKey": key, "labelSelector": selector, **everywhere}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _without_effect(rng: Random, role: RoleDraft) -> Manifest:
    """A term that keeps none of the gang's pods apart."""
    own: Manifest = {"matchLabels": {"role": role.name}}
    host = "kubernetes.io/hostname"
    ways: list[Manifest] = [
        {"topologyKey": host, "labelSelector": own, "namespaces": ["of-others"]},
        {"topologyKey": "example.com/nowhere", "labelSelector": own},
        {"topologyKey": host, "labelSelector": {"matchLabels": {"role": "nobody"}}},
        {"topologyKey": host, "labelSelector": own, "namespaceSelector": {"matchLabels": {"of": "others"}}},
        {"topologyKey": host, "labelSelector": own, "mismatchLabelKeys": ["role"]},
    ]
    return {"requiredDuringSchedulingIgnoredDuringExecution": [rng.choice(ways)]}


def _give_ports(rng: Random, role: RoleDraft, spec: Manifest) -> None:
    holder = spec["containers"][-1]
    sidecars = [one for one in spec.get("initContainers", []) if one.get("restartPolicy") == "Always"]
    if sidecars and rng.random() < 0.5:
        holder = sidecars[0]
    said = []
    for number, protocol, address in role.ports:
        port: Manifest = {"containerPort": number, "hostPort": number, "protocol": protocol}
        if address:
            port["hostIP"] = address
        elif rng.random() < 0.2:
            # On the network of its node a pod has each of its ports there.
            spec["hostNetwork"] = True
            del port["hostPort"]
        if protocol == "TCP" and rng.random() < 0.5:
            del port["protocol"]
        said.append(port)
    if said:
        holder["ports"] = said
    plain = [one for one in spec.get("initContainers", []) if "restartPolicy" not in one]
    if plain and rng.random() < 0.1 and not spec.get("hostNetwork"):
        # The ports of init containers do not count.
        plain[0]["ports"] = [{"containerPort": 9100, "hostPort": 9100}]


def _structure(case: Case, top: GroupDraft) -> None:
    """Topology and K of N, as a PodGang states them."""
    case.required, case.enough = top.within, top.enough
    by_name = {member.name: member for member in case.members}
    for index, part in enumerate(top.parts):
        if isinstance(part, RoleDraft):
            continue
        members = [role.name for role in roles_of(part)]
        if len(members) == 1 and case.seed % 2 and top.enough is None:
            by_name[members[0]].required = part.within
        else:
            case.subsets.append(SubsetPlan(f"part{index}", members, part.within))


def _limit_range(rng: Random) -> Manifest:
    """A LimitRange whose defaults only raise, or whose maximum may refuse pods."""
    one: Manifest = rng.choice(
        [
            {"type": "Container", "defaultRequest": {"cpu": "5m", "memory": "1Mi"}},
            {"type": "Container", "default": {"ephemeral-storage": "1Mi"}},
            {"type": "Container", "max": {"cpu": "3"}, "default": {"cpu": "20m"}},
            {"type": "Pod", "max": {"memory": "8Gi"}},
        ]
    )
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"}, "spec": {"limits": [one]}}


def _limit(rng: Random, case: Case, sketch: Sketch, roles: list[RoleDraft]) -> None:
    """A quota at the sum of the gang's minimum, one unit below or above it, or with room."""
    totals: dict[str, int] = {SLOTS: sum(role.count for role in roles)}
    for role in roles:
        for name, amount in role.request.items():
            totals[name] = totals.get(name, 0) + amount * role.count
    case.drawn = rng.choice(["at", "at", "above", "below"])
    change = {"at": 0, "above": -1, "below": 1}[case.drawn]
    bound = rng.choice(sorted(totals))
    amounts = {
        name: max(amount + (change if name == bound else rng.randint(0, amount)), 0)
        for name, amount in totals.items()
        if name == bound or rng.random() < 0.4
    }
    if sketch.limited == "quota":
        _elastic_quotas(rng, case, amounts)
    else:
        case.namespaced.append(_resource_quota(rng, amounts))
        if rng.random() < 0.15:
            case.namespaced.append(_limit_range(rng))


def _resource_quota(rng: Random, amounts: dict[str, int]) -> Manifest:
    keys = {
        CPU: ["cpu", "requests.cpu"],
        MEMORY: ["memory", "requests.memory"],
        SLOTS: ["pods", "count/pods"],
    }
    hard = {
        rng.choice(keys.get(name, [f"requests.{name}"])): spelled(rng, name, amount) for name, amount in amounts.items()
    }
    spec: Manifest = {"hard": hard}
    if rng.random() < 0.15:
        # Matches none of the pods, or all of them.
        spec["scopes"] = [rng.choice(["Terminating", "NotTerminating", "BestEffort", "NotBestEffort"])]
        spec["hard"] = {"pods": str(max(amounts.get(SLOTS, 1), 0))}
    elif rng.random() < 0.1:
        wanted = {"scopeName": "PriorityClass", "operator": rng.choice(["Exists", "DoesNotExist"])}
        spec["hard"] = {"pods": str(amounts.get(SLOTS, 1))}
        spec["scopeSelector"] = {"matchExpressions": [wanted]}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "limit"}, "spec": spec}


def _elastic_quotas(rng: Random, case: Case, amounts: dict[str, int]) -> None:
    """An ElasticQuota that the pods name, and sometimes one above it with the limit."""
    case.quota = "@team"
    said = {name: spelled(rng, name, amount) for name, amount in amounts.items() if name != SLOTS}
    wide = {name: spelled(rng, name, 4 * amounts[name]) for name in said}
    least = dict.fromkeys(said, "0")
    above = rng.random() < 0.4
    parent = {"quota.scheduling.koordinator.sh/is-parent": "true"}
    child = {"quota.scheduling.koordinator.sh/parent": "@org"} if above else {}
    own = {} if above and rng.random() < 0.3 else (wide if above and rng.random() < 0.7 else said)
    if above:
        case.namespaced.append(_elastic_quota("@org", said, least, parent))
    if rng.random() < 0.2:
        # A guarantee above the maximum, or of all that is wanted.
        least = dict(wide)
    case.namespaced.append(_elastic_quota("@team", own, least if not above or rng.random() < 0.5 else {}, child))


def _elastic_quota(name: str, most: Manifest, least: Manifest, labels: Manifest) -> Manifest:
    metadata = {"name": name, "labels": {"quota.scheduling.koordinator.sh/is-parent": "false", **labels}}
    head = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": metadata}
    return {**head, "spec": {"max": most, "min": least}}

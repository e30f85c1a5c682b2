"""Witnesses: a refusal in words. The numbers are those of the condition that fails, so the sentence is the proof."""

from __future__ import annotations

from collections.abc import Sequence

from webhook.fit.amounts import amount, amount_of, counted, sentence_list
from webhook.fit.domains import Domain
from webhook.fit.ground import DEVICES, UNLIMITED, Ground
from webhook.fit.packing import Role
from webhook.fit.parts import Part, roles_of
from webhook.fit.refusal import Refusal
from webhook.fit.verdict import Family, Scope, Shortfall, Witness

_NAMES = 4


def witness_of(refusal: Refusal, ground: Ground) -> Witness:
    """Return the witness of a refusal, without a computed remedy."""
    inner = _innermost(refusal)
    required = _required(refusal)
    kinds = inner.kinds or _kinds_of(inner.part, ground)
    members = _members(inner.part, kinds, ground)
    at = members[0].at if members else roles_of([inner.part.need])[0].at
    if required is not None and required.partition is not None and required.partition.at is not None:
        at = required.partition.at
    domain = None if required is None or required.domain is None else _domain_name(required.domain)
    return Witness(
        family=_family(refusal, inner, ground),
        scope=Scope.ON_THESE_NODES,
        at=at,
        found=inner.needed if inner.resource is None else amount_of(_resource(inner, ground), inner.needed),
        why=_sentence(refusal, inner, required, ground),
        remedy="",
        condition=inner.condition if required is None else f"D, {inner.condition}" if inner is not required else "D",
        members=tuple(role.name for role in members),
        domain=domain,
        shortfalls=_shortfalls(inner, ground),
        closed=no_node_admits(refusal, ground),
    )


def no_node_admits(refusal: Refusal, ground: Ground) -> bool:
    """Return whether pods cannot be placed because of where they may be, whatever they request."""
    inner = _innermost(refusal)
    return inner.condition == "C1" and not any(shape.kinds >> inner.kinds[0] & 1 for shape in ground.shapes)


def _innermost(refusal: Refusal) -> Refusal:
    while refusal.inner is not None and refusal.condition == "D":
        refusal = refusal.inner
    return refusal


def _required(refusal: Refusal) -> Refusal | None:
    """The innermost refusal that is about domains."""
    found = None
    step: Refusal | None = refusal
    while step is not None:
        if step.partition is not None:
            found = step
        step = step.inner if step.condition == "D" else None
    return found


def _kinds_of(part: Part, ground: Ground) -> tuple[int, ...]:
    return tuple(dict.fromkeys(ground.kind_of[role.name] for role in roles_of([part.need])))


def _members(part: Part, kinds: Sequence[int], ground: Ground) -> list[Role]:
    return [role for role in roles_of([part.need]) if ground.kind_of[role.name] in kinds]


def _family(refusal: Refusal, inner: Refusal, ground: Ground) -> Family:
    if inner.resource is not None and ground.resources[inner.resource].startswith(DEVICES):
        return Family.DEVICES
    if _required(refusal) is not None:
        return Family.TOPOLOGY
    if inner.condition == "A" or (inner.condition == "C2" and _apart(inner, ground)):
        return Family.APART
    if inner.condition == "C1":
        binding = _binding(inner, ground)
        return Family.DEVICES if binding is not None and ground.resources[binding].startswith(DEVICES) else Family.NODE
    return Family.TOTAL


def _apart(inner: Refusal, ground: Ground) -> bool:
    """Whether rules between pods are why so few fit: the resources alone would take more."""
    if inner.resource is not None or len(inner.kinds) != 1:
        return False
    kind = inner.kinds[0]
    by_resources = 0
    for shape, count in inner.area.counts:
        if ground.floors[shape][kind]:
            by_resources += count * min(
                (
                    have // wanted
                    for have, wanted in zip(ground.shapes[shape].capacity, ground.requests[kind], strict=True)
                    if wanted
                ),
                default=UNLIMITED,
            )
    return by_resources >= inner.needed


def _binding(inner: Refusal, ground: Ground) -> int | None:
    """The resource that a kind is shortest of: on the nodes that it may use, or on all."""
    if len(inner.kinds) != 1:
        return inner.resource
    kind = inner.kinds[0]
    request = ground.requests[kind]
    usable = [shape for shape in ground.shapes if shape.kinds >> kind & 1]
    short: list[tuple[float, int]] = []
    for k, wanted in enumerate(request):
        if wanted:
            most = max((shape.capacity[k] for shape in usable), default=0)
            # A pod slot is named only if nothing else explains it.
            short.append(((most / wanted) + (ground.resources[k] == "pods"), k))
    return min(short)[1] if short else None


def _resource(refusal: Refusal, ground: Ground) -> str:
    return "pods" if refusal.resource is None else ground.resources[refusal.resource]


def _shown(resource: str) -> str:
    """Devices are called so."""
    if not resource.startswith(DEVICES):
        return resource
    driver = resource.removeprefix(DEVICES)
    return f"devices of {driver}" if driver else "devices"


def _per_pod(inner: Refusal, ground: Ground) -> str:
    """What one pod of a kind requests of the resource that matters: `8 nvidia.com/gpu`."""
    binding = _binding(inner, ground)
    if binding is None or len(inner.kinds) != 1:
        return ""
    resource = ground.resources[binding]
    if resource == "pods":
        return ""
    return f" of {amount(resource, ground.requests[inner.kinds[0]][binding])} {_shown(resource)}"


def _pods(inner: Refusal, number: int, ground: Ground) -> str:
    return f"{counted(number, 'pod')}{_per_pod(inner, ground)}"


def _sentence(refusal: Refusal, inner: Refusal, required: Refusal | None, ground: Ground) -> str:
    if inner.condition == "T":
        reason = "" if inner.inner is None else f": {_sentence(inner.inner, _innermost(inner.inner), None, ground)}"
        return f"{counted(inner.needed, 'group')} of {inner.part.name} must fit, and {inner.there} can{reason}"
    if required is None:
        return _anywhere(inner, ground)
    return _in_a_domain(inner, required, ground)


def _in_a_domain(inner: Refusal, required: Refusal, ground: Ground) -> str:
    assert required.partition is not None  # noqa: S101 - that is what makes it required
    named = required.partition.named
    if required.domain is None and required is inner and not inner.needed:
        return f"the pods of {required.part.name} need one {named}, and no node that they may use is in one"
    if inner is required:
        return (
            f"{counted(inner.needed, 'group')} like {inner.part.name} need one {named} each; "
            f"the nodes have room for {_there(inner.there)}"
        )
    nearest = "" if required.domain is None else f" {_domain_name(required.domain)}"
    there = f"the largest {named}{nearest}"
    if inner.condition == "C6":
        return f"{_all_pods(inner, ground)} need one {named}; every way to place them in {there[4:]} was looked at"
    if inner.resource is not None:
        resource = ground.resources[inner.resource]
        return (
            f"{_all_pods(inner, ground)} need one {named} with {amount(resource, inner.needed)} {_shown(resource)}; "
            f"{there} has {amount(resource, inner.there)}{_usable(inner)}"
        )
    if inner.condition == "C1":
        return f"{_pods(inner, inner.needed, ground)} need one {named}; no node of {there[4:]} can take one"
    return f"{_pods(inner, inner.needed, ground)} need one {named}; {there} has room for {_there(inner.there)}"


def _anywhere(inner: Refusal, ground: Ground) -> str:
    if inner.condition == "C1":
        return _no_node(inner, ground)
    if inner.condition == "C6":
        nodes = counted(inner.area.nodes, "node")
        return f"{_all_pods(inner, ground)} must run together, and no way to place them on {nodes} exists"
    if inner.condition == "A":
        return (
            f"{_pods(inner, inner.needed, ground)} need a different {inner.key} each; "
            f"the nodes have room for {_there(inner.there)}"
        )
    if inner.resource is not None:
        resource = ground.resources[inner.resource]
        return (
            f"{_all_pods(inner, ground)} request {amount(resource, inner.needed)} {_shown(resource)} together; "
            f"the nodes that they may use have {amount(resource, inner.there)}{_usable(inner)}"
        )
    if len(inner.kinds) != 1:
        return (
            f"{_all_pods(inner, ground)} must run together; "
            f"the nodes that they may use have room for {_there(inner.there)} of them"
        )
    if _apart(inner, ground):
        pods = counted(inner.needed, "pod")
        return f"{pods} that affinity, spread or host ports keep apart; {_room_by_node(inner, None, ground)}"
    return f"{_pods(inner, inner.needed, ground)}; {_room_by_node(inner, _binding(inner, ground), ground)}"


def _no_node(inner: Refusal, ground: Ground) -> str:
    kind = inner.kinds[0]
    name = sentence_list([role.name for role in _members(inner.part, inner.kinds, ground)][:_NAMES])
    usable = [shape for shape in ground.shapes if shape.kinds >> kind & 1]
    if not usable:
        return f"no node admits the pods of {name}: their node selector, affinity or tolerations exclude all nodes"
    binding = _binding(inner, ground)
    if binding is None:
        return f"no node can take a pod of {name}"
    resource = ground.resources[binding]
    wanted = ground.requests[kind][binding]
    most = max(shape.capacity[binding] for shape in usable)
    if most >= wanted:
        return f"no node has all that a pod of {name} requests"
    return (
        f"a pod of {name} requests {amount(resource, wanted)} {_shown(resource)}; "
        f"the largest node that it may use has {amount(resource, most)}"
    )


def _room_by_node(inner: Refusal, binding: int | None, ground: Ground) -> str:
    """How many pods of a kind the nodes take: `6 nodes of 8 take one each` where they are equal in that resource."""
    kind = inner.kinds[0]
    taking = [(shape, count) for shape, count in inner.area.counts if ground.floors[shape][kind]]
    floors = {ground.floors[shape][kind] for shape, _ in taking}
    nodes = sum(count for _, count in taking)
    if len(floors) != 1 or nodes * min(floors, default=0) != inner.there or nodes >= UNLIMITED:
        return f"the nodes that they may use have room for {_there(inner.there)}"
    sizes = set() if binding is None else {ground.shapes[shape].capacity[binding] for shape, _ in taking}
    of = ""
    if binding is not None and len(sizes) == 1 and ground.resources[binding] != "pods":
        of = f" of {amount(ground.resources[binding], sizes.pop())}"
    each = min(floors)
    takes = "one" if each == 1 else str(each)
    return f"{counted(nodes, 'node')}{of} {'takes' if nodes == 1 else 'take'} {takes}{' each' if nodes > 1 else ''}"


def _all_pods(inner: Refusal, ground: Ground) -> str:
    """The pods that a condition is about, with their number where there is no choice."""
    roles = _members(inner.part, inner.kinds or _kinds_of(inner.part, ground), ground)
    names = sentence_list([role.name for role in roles][:_NAMES])
    more = len(roles) - _NAMES
    names += f" and {more} more" if more > 0 else ""
    if inner.part.vector is None:
        return f"the pods of {names}"
    kinds = inner.kinds or range(ground.kinds)
    number = sum(inner.part.vector[kind] for kind in kinds)
    return f"{counted(number, 'pod')} of {names}"


def _usable(inner: Refusal) -> str:
    return " that pods of these sizes can use" if inner.condition in ("C2", "C4") else ""


def _there(number: int) -> str:
    return "none" if number == 0 else str(number)


def _domain_name(domain: Domain) -> str:
    return min(domain.names)


def _shortfalls(inner: Refusal, ground: Ground) -> tuple[Shortfall, ...]:
    if inner.condition == "C1" and (binding := _binding(inner, ground)) is not None:
        kind = inner.kinds[0]
        most = max((one.capacity[binding] for one in ground.shapes if one.kinds >> kind & 1), default=0)
        if most < ground.requests[kind][binding]:
            return (Shortfall(_shown(ground.resources[binding]), ground.requests[kind][binding], most),)
    if not inner.needed:
        return ()
    return (Shortfall(_shown(_resource(inner, ground)), inner.needed, min(inner.there, inner.needed)),)

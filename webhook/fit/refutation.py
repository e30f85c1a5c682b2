"""The refutation of a part in an area: the conditions that fail, and the proof in words.

A condition is a sum of integers: so much is needed at least, so much the nodes can give at most. The numbers C1 to C4b
are those of docs/explanation/fit.md, which has the proofs. A required domain is refuted if each domain is. Equal
children that each need a domain are refuted if all domains together have room for fewer of them. A choice is refuted
if too few of its children can be placed alone, or if the cheapest of them need too much. A witness names the numbers
of the condition that fails, so its sentence is the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from math import gcd
from typing import Any, NamedTuple

from webhook.fit import verdict
from webhook.fit.domains import (
    DomainItem,
    EqualDomains,
    NeedPart,
    content_of,
    domains_in,
    drop_children,
    least_weight,
    partitions_below,
    roles_of,
)
from webhook.fit.ground import DEVICES, UNLIMITED, Area, Ground
from webhook.fit.packing import OWN_VALUE, PackingRole, Partition


class Refusal(NamedTuple):
    """A condition that fails. The pods of `kinds` need at least `needed` of a resource, and the nodes of the area can
    give them at most `there`. Without a resource, pods are counted. For a required domain `domain` is the one that
    comes nearest, and `inner` why the part does not fit there.
    """

    condition: str
    part: NeedPart
    area: Area
    kinds: tuple[int, ...] = ()
    resource: int | None = None
    needed: int = 0
    there: int = 0
    partition: Partition | None = None
    domain: EqualDomains | None = None
    inner: Refusal | None = None
    key: str | None = None


# Up to so many kinds all subsets are looked at.
_ALL_SUBSETS = 8
# The sums that pods can reach on a node are worked out up to so many units of the resource.
_MOST_UNITS = 4096


def simply_refused(part: NeedPart, area: Area, ground: Ground, budget: verdict.StepBudget) -> Refusal | None:
    """Returns what C1 to C3 refute: each kind by itself, and each resource in all."""
    budget.spend(2 + (ground.kinds + len(ground.resources)) // 2)
    floors = ground.floors_in(area)
    totals = ground.totals_in(area)
    pods_of: Iterable[int]
    sums: Iterable[int]
    if part.vector is None:
        # Some children are enough: each sum counts its own cheapest ones.
        budget.spend((ground.kinds + len(ground.resources)) * (1 + len(part.children)))
        kinds = range(ground.kinds)
        pods_of = (least_weight(part, [int(other == kind) for other in kinds]) for kind in kinds)
        sums = (least_weight(part, [request[k] for request in ground.requests]) for k in range(len(totals)))
    else:
        pods_of, sums = part.vector, part.sums
    for kind, (pods, floor) in enumerate(zip(pods_of, floors, strict=True)):
        if pods > floor:
            return Refusal("C2" if floor else "C1", part, area, (kind,), None, pods, floor)
    for k, (needed, there) in enumerate(zip(sums, totals, strict=True)):
        if needed > there:
            kinds_of = tuple(kind for kind in range(ground.kinds) if part.vector is None or part.vector[kind])
            return Refusal("C3", part, area, kinds_of, k, needed, there)
    return None


def refused_by_subsets(part: NeedPart, area: Area, ground: Ground, budget: verdict.StepBudget) -> Refusal | None:
    """Returns what C4 and C4b refute: each set of kinds on the nodes that it can use, with the sums that its pods can
    reach on a node. Then the kinds of which only one pod can be in each value of a label.
    """
    kinds = tuple(kind for kind in range(ground.kinds) if part.vector is None or part.vector[kind])
    floors = ground.floors_in(area)
    for k in range(-1, len(ground.resources)):
        weights = [1 if k < 0 else request[k] for request in ground.requests]
        vector = part.vector
        requested = None if vector is None else [pods * weight for pods, weight in zip(vector, weights, strict=True)]
        # One kind by itself can use so much, so all of them can, too.
        alone = [floor * weight for floor, weight in zip(floors, weights, strict=True)]
        for subset in _subsets(kinds):
            budget.spend(2 if requested else 8)
            if requested:
                needed = sum([requested[kind] for kind in subset])
            else:
                needed = least_weight(part, [weight if kind in subset else 0 for kind, weight in enumerate(weights)])
            if needed <= max([alone[kind] for kind in subset]):
                continue
            usable = usable_by(sum(1 << kind for kind in subset), k, ground, budget)
            budget.spend(1 + len(area.counts) // 2)
            there = sum(usable[shape] * count for shape, count in area.counts)
            if needed > there:
                return Refusal("C4", part, area, subset, None if k < 0 else k, needed, there)
    return _refused_by_cells(part, area, kinds, ground, budget)


def usable_by(mask: int, k: int, ground: Ground, budget: verdict.StepBudget) -> list[int]:
    """Returns, by shape, how much of a resource (-1: how many) pods of some kinds can have on one node at most. The
    steps are spent also where it is known already, so that an answer does not depend on what was asked before.
    """
    budget.spend(len(ground.shapes) * (1 + mask.bit_count() // 2))
    usable = ground.usable.get((mask, k))
    if usable is None:
        usable = ground.usable[mask, k] = [_usable_on(shape, mask, k, ground) for shape in range(len(ground.shapes))]
    return usable


def _subsets(kinds: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if len(kinds) > _ALL_SUBSETS:
        yield kinds
        yield from combinations(kinds, 2)
        return
    # A kind by itself is C2.
    for size in range(len(kinds), 1, -1):
        yield from combinations(kinds, size)


def _usable_on(shape: int, mask: int, k: int, ground: Ground) -> int:
    floors = ground.floors[shape]
    pods = [
        (ground.requests[kind][k] if k >= 0 else 1, floors[kind], kind)
        for kind in range(ground.kinds)
        if mask >> kind & 1 and floors[kind]
    ]
    rows = ground.node_conflicts[shape]
    if len(pods) > 1 and all(rows[kind] >> other & 1 for (_, _, kind), (_, _, other) in combinations(pods, 2)):
        # One kind excludes the others.
        return max(request * floor for request, floor, _ in pods)
    everything = sum(request * floor for request, floor, _ in pods)
    if k < 0:
        # Of each resource at least the smallest request is used.
        most = everything
        for resource, have in enumerate(ground.shapes[shape].capacity):
            smallest = min((ground.requests[kind][resource] for _, _, kind in pods), default=0)
            most = min(most, have // smallest) if smallest else most
        return most
    capacity = ground.shapes[shape].capacity[k]
    return everything if everything <= capacity else _reachable(pods, capacity)


def _reachable(pods: list[tuple[int, int, int]], capacity: int) -> int:
    """Returns the largest sum within a capacity, with at most so many pods of each request."""
    requests = [(request, floor) for request, floor, _ in pods if request]
    unit = gcd(*(request for request, _ in requests))
    units = capacity // unit
    if units > _MOST_UNITS:
        return units * unit
    within = (1 << units + 1) - 1
    sums = 1
    for request, floor in requests:
        step, left = request // unit, floor
        taken = 1
        while left > 0:
            # 1, 2, 4, ... pods at a time make up every number.
            some = min(taken, left)
            sums |= (sums << some * step) & within
            left -= some
            taken *= 2
    return (sums.bit_length() - 1) * unit


def _refused_by_cells(
    part: NeedPart, area: Area, kinds: tuple[int, ...], ground: Ground, budget: verdict.StepBudget
) -> Refusal | None:
    """Returns why kinds that all conflict over a label do not fit: each value has one pod, other nodes have any."""
    for key, name in enumerate(ground.keys):
        rows = ground.conflicts.apart.get(name)
        if rows is None:
            continue
        for clique in _cliques(rows, kinds):
            budget.spend(1 + len(clique) + len(area.counts))
            needed = least_weight(part, [int(kind in clique) for kind in range(ground.kinds)])
            there = _values(area, key, clique, ground)
            if needed > there:
                return Refusal("A", part, area, clique, None, needed, there, key=name)
    return None


def _cliques(rows: tuple[int, ...], kinds: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Returns the largest sets of kinds that conflict with themselves and one another."""
    cliques = set()
    for first in kinds:
        clique: list[int] = []
        for kind in (first, *kinds):
            if kind not in clique and all(rows[kind] >> other & 1 for other in (*clique, kind)):
                clique.append(kind)
        if clique:
            cliques.add(tuple(sorted(clique)))
    return sorted(cliques)


def _values(area: Area, key: int, clique: tuple[int, ...], ground: Ground) -> int:
    cells: set[str] = set()
    there = 0
    for shape, count in area.counts:
        pods = sum(ground.floors[shape][kind] for kind in clique)
        cell = ground.shapes[shape].cells[key]
        if pods and cell is not None and cell != OWN_VALUE:
            cells.add(cell)
        else:
            there += count * (pods if cell is None else min(pods, 1))
    return there + len(cells)


class Refuter:
    """Refutes parts on one ground. `strong` also looks at all subsets of kinds."""

    def __init__(self, ground: Ground, budget: verdict.StepBudget, *, strong: bool) -> None:
        self.ground = ground
        self.budget = budget
        self.strong = strong
        # An area stands for itself, and stays as long as what is known of it.
        self._refusals: dict[tuple[Any, Area], Refusal | None] = {}

    def refused(self, part: NeedPart, area: Area) -> Refusal | None:
        """Returns why the part cannot be placed, or None if that is not shown."""
        if part.within is None:
            return self.refused_inside(part, area)
        key = part.key, area
        if key not in self._refusals:
            self._refusals[key] = self._refused_in_each(part, area)
        return self._refusals[key]

    def refused_inside(self, part: NeedPart, area: Area) -> Refusal | None:
        """Returns why the part cannot be placed in the area once that is its domain."""
        refusal = self._refused_by_sums(part, area)
        if refusal is not None or part.kind >= 0:
            return refusal
        if part.chooses:
            return self._choice_refused(part, area)
        content = content_of(part)
        self.budget.spend(len(content.items) + len(content.choices))
        for item in content.items:
            if (refusal := self.refused(item.part, area) or self._too_many(item, area)) is not None:
                return refusal
        for _, choice in content.choices:
            if (refusal := self.refused_inside(choice, area)) is not None:
                return refusal
        return None

    def domains(self, part: NeedPart, area: Area) -> tuple[EqualDomains, ...]:
        if part.within is None:
            return (EqualDomains((area,), ("",), 1),)
        return tuple(domains_in(area, part.within, self.ground, partitions_below(part)))

    def _refused_in_each(self, part: NeedPart, area: Area) -> Refusal | None:
        nearest: Refusal | None = None
        domains = self.domains(part, area)
        self.budget.spend(1)
        for domain in reversed(domains):
            refusal = self.refused_inside(part, domain.area)
            if refusal is None:
                return None
            refusal = Refusal("D", part, area, partition=part.within, domain=domain, inner=refusal)
            if nearest is None or nearness(refusal) > nearness(nearest):
                nearest = refusal
        return nearest or Refusal("D", part, area, partition=part.within)

    def _too_many(self, item: DomainItem, area: Area) -> Refusal | None:
        """Returns why equal children that each need a domain do not fit: all domains together have too few."""
        number = len(item.paths)
        if number == 1:
            return None
        there = 0
        domains = self.domains(item.part, area)
        # The largest first: mostly there is room enough.
        for domain in reversed(domains):
            self.budget.spend(1)
            there += min(domain.number, UNLIMITED) * self.copies(item.part, domain.area, number)
            if there >= number:
                return None
        nearest = domains[-1] if domains else None
        return Refusal("D", item.part, area, (), None, number, there, item.part.within, nearest)

    def copies(self, part: NeedPart, area: Area, most: int) -> int:
        """Returns how many times the part could be in the area, at most."""
        if self.refused_inside(part, area) is not None:
            return 0
        if part.vector is None:
            return most
        self.budget.spend(1)
        floors, totals = self.ground.floors_in(area), self.ground.totals_in(area)
        rooms = [floor // pods for pods, floor in zip(part.vector, floors, strict=True) if pods]
        rooms += [there // needed for needed, there in zip(part.sums, totals, strict=True) if needed]
        return min([most, *rooms])

    def _choice_refused(self, part: NeedPart, area: Area) -> Refusal | None:
        dead, first = [], None
        self.budget.spend(len(part.children))
        for index, child in enumerate(part.children):
            if (refusal := self.refused(child.part, area)) is not None:
                dead.append(index)
                first = first or refusal
        placeable = self._placeable(part, frozenset(dead), area)
        if placeable < part.count:
            return Refusal("T", part, area, (), None, part.count, placeable, inner=first)
        left = drop_children(part, frozenset(dead), self.ground) if dead else None
        return None if left is None else self._refused_by_sums(left, area)

    def _refused_by_sums(self, part: NeedPart, area: Area) -> Refusal | None:
        refusal = simply_refused(part, area, self.ground, self.budget)
        if refusal is None and self.strong:
            refusal = refused_by_subsets(part, area, self.ground, self.budget)
        return refusal

    def _placeable(self, part: NeedPart, dead: frozenset[int], area: Area) -> int:
        """Returns how many children could be placed, each sort of them alone."""
        total = 0
        for index, child in enumerate(part.children):
            if index in dead:
                continue
            most = len(child.indexes)
            if child.part.within is None:
                total += self.copies(child.part, area, most)
            else:
                domains = self.domains(child.part, area)
                self.budget.spend(len(domains))
                total += min(
                    most, sum(domain.number * self.copies(child.part, domain.area, most) for domain in domains)
                )
        return total


def nearness(refusal: Refusal) -> tuple[float, int]:
    """Returns how near a refusal is to none: larger is nearer. Only what is shown depends on it, never an answer."""
    inner = refusal.inner or refusal
    while inner.inner is not None:
        inner = inner.inner
    return (inner.there / inner.needed if inner.needed else 0.0), refusal.area.nodes


_NAMES = 4


def witness_of(refusal: Refusal, ground: Ground) -> verdict.Witness:
    """Returns the witness of a refusal, without a computed remedy."""
    inner = _innermost(refusal)
    required = _required(refusal)
    members = _members(inner, ground)
    at = members[0].at if members else roles_of([inner.part.need])[0].at
    if required is not None and required.partition is not None and required.partition.at is not None:
        at = required.partition.at
    domain = None if required is None or required.domain is None else min(required.domain.names)
    return verdict.Witness(
        family=_family(refusal, inner, ground),
        scope=verdict.FitScope.ON_THESE_NODES,
        at=at,
        value=inner.needed
        if inner.resource is None
        else verdict.resource_amount_text(_resource(inner, ground), inner.needed),
        why=_sentence(refusal, inner, required, ground),
        remedy="",
        condition=inner.condition if required is None else f"D, {inner.condition}" if inner is not required else "D",
        members=tuple(role.name for role in members),
        domain=domain,
        shortfalls=_shortfalls(inner, ground),
        closed=no_node_admits(refusal, ground),
    )


def no_node_admits(refusal: Refusal, ground: Ground) -> bool:
    """Returns whether pods cannot be placed because of where they may be, whatever they request."""
    inner = _innermost(refusal)
    return inner.condition == "C1" and not any(shape.kinds >> inner.kinds[0] & 1 for shape in ground.shapes)


def _innermost(refusal: Refusal) -> Refusal:
    while refusal.inner is not None and refusal.condition == "D":
        refusal = refusal.inner
    return refusal


def _required(refusal: Refusal) -> Refusal | None:
    """Returns the innermost refusal that is about domains."""
    required = None
    step: Refusal | None = refusal
    while step is not None:
        if step.partition is not None:
            required = step
        step = step.inner if step.condition == "D" else None
    return required


def _members(refusal: Refusal, ground: Ground) -> list[PackingRole]:
    """Returns the roles of the kinds that a refusal is about, or all of its part."""
    roles = roles_of([refusal.part.need])
    return [role for role in roles if not refusal.kinds or ground.kind_of[role.name] in refusal.kinds]


def _family(refusal: Refusal, inner: Refusal, ground: Ground) -> verdict.FitFamily:
    if inner.resource is not None and ground.resources[inner.resource].startswith(DEVICES):
        return verdict.FitFamily.DEVICES
    if _required(refusal) is not None:
        return verdict.FitFamily.TOPOLOGY
    if inner.condition == "A" or (inner.condition == "C2" and _apart(inner, ground)):
        return verdict.FitFamily.APART
    if inner.condition == "C1":
        binding = _binding(inner, ground)
        of_devices = binding is not None and ground.resources[binding].startswith(DEVICES)
        return verdict.FitFamily.DEVICES if of_devices else verdict.FitFamily.NODE
    return verdict.FitFamily.TOTAL


def _apart(inner: Refusal, ground: Ground) -> bool:
    """Returns whether rules between pods are why so few fit: the resources alone would take more."""
    if inner.resource is not None or len(inner.kinds) != 1:
        return False
    kind = inner.kinds[0]
    by_resources = 0
    for shape, count in inner.area.counts:
        if ground.floors[shape][kind]:
            pairs = zip(ground.shapes[shape].capacity, ground.requests[kind], strict=True)
            by_resources += count * min((have // request for have, request in pairs if request), default=UNLIMITED)
    return by_resources >= inner.needed


def _binding(inner: Refusal, ground: Ground) -> int | None:
    """Returns the resource that a kind is shortest of: on the nodes that it may use, or on all."""
    if len(inner.kinds) != 1:
        return inner.resource
    kind = inner.kinds[0]
    request = ground.requests[kind]
    usable = [shape for shape in ground.shapes if shape.kinds >> kind & 1]
    short: list[tuple[float, int]] = []
    for k, pod_request in enumerate(request):
        if pod_request:
            most = max((shape.capacity[k] for shape in usable), default=0)
            # A pod slot is named only if nothing else explains it.
            short.append(((most / pod_request) + (ground.resources[k] == "pods"), k))
    return min(short)[1] if short else None


def _resource(refusal: Refusal, ground: Ground) -> str:
    return "pods" if refusal.resource is None else ground.resources[refusal.resource]


def _shown(resource: str) -> str:
    if not resource.startswith(DEVICES):
        return resource
    driver = resource.removeprefix(DEVICES)
    return f"devices of {driver}" if driver else "devices"


def _pods(inner: Refusal, number: int, ground: Ground) -> str:
    """Returns so many pods, with what each requests of the resource that matters: `2 pods of 8 nvidia.com/gpu`."""
    binding = _binding(inner, ground)
    if binding is None or len(inner.kinds) != 1 or ground.resources[binding] == "pods":
        return verdict.count_text(number, "pod")
    resource = ground.resources[binding]
    each = verdict.amount_text(resource, ground.requests[inner.kinds[0]][binding])
    return f"{verdict.count_text(number, 'pod')} of {each} {_shown(resource)}"


def _sentence(refusal: Refusal, inner: Refusal, required: Refusal | None, ground: Ground) -> str:
    if inner.condition == "T":
        reason = "" if inner.inner is None else f": {_sentence(inner.inner, _innermost(inner.inner), None, ground)}"
        return (
            f"{verdict.count_text(inner.needed, 'group')} of {inner.part.name} must fit, and {inner.there} can{reason}"
        )
    if required is None:
        return _node_sentence(inner, ground)
    return _domain_sentence(inner, required, ground)


def _domain_sentence(inner: Refusal, required: Refusal, ground: Ground) -> str:
    assert required.partition is not None  # noqa: S101 - that is what makes it required
    called = required.partition.noun
    if required.domain is None and required is inner and not inner.needed:
        return f"the pods of {required.part.name} need one {called}, and no node that they may use is in one"
    if inner is required:
        return (
            f"{verdict.count_text(inner.needed, 'group')} like {inner.part.name} need one {called} each; "
            f"the nodes have room for {inner.there or 'none'}"
        )
    nearest = "" if required.domain is None else f" {min(required.domain.names)}"
    there = f"the largest {called}{nearest}"
    if inner.condition == "C6":
        return f"{_all_pods(inner, ground)} need one {called}; every way to place them in {there[4:]} was looked at"
    if inner.resource is not None:
        resource = ground.resources[inner.resource]
        return (
            f"{_all_pods(inner, ground)} need one {called} with {verdict.amount_text(resource, inner.needed)} "
            f"{_shown(resource)}; "
            f"{there} has {verdict.amount_text(resource, inner.there)}{_usable(inner)}"
        )
    if inner.condition == "C1":
        return f"{_pods(inner, inner.needed, ground)} need one {called}; no node of {there[4:]} can take one"
    return f"{_pods(inner, inner.needed, ground)} need one {called}; {there} has room for {inner.there or 'none'}"


def _node_sentence(inner: Refusal, ground: Ground) -> str:
    if inner.condition == "C1":
        return _no_node(inner, ground)
    if inner.condition == "C6":
        nodes = verdict.count_text(inner.area.nodes, "node")
        return f"{_all_pods(inner, ground)} must run together, and no way to place them on {nodes} exists"
    if inner.condition == "A":
        return (
            f"{_pods(inner, inner.needed, ground)} need a different {inner.key} each; "
            f"the nodes have room for {inner.there or 'none'}"
        )
    if inner.resource is not None:
        resource = ground.resources[inner.resource]
        return (
            f"{_all_pods(inner, ground)} request {verdict.amount_text(resource, inner.needed)} "
            f"{_shown(resource)} together; the nodes that they may use have "
            f"{verdict.amount_text(resource, inner.there)}{_usable(inner)}"
        )
    if len(inner.kinds) != 1:
        return (
            f"{_all_pods(inner, ground)} must run together; "
            f"the nodes that they may use have room for {inner.there or 'none'} of them"
        )
    if _apart(inner, ground):
        pods = verdict.count_text(inner.needed, "pod")
        return f"{pods} that affinity, spread or host ports keep apart; {_room_by_node(inner, None, ground)}"
    return f"{_pods(inner, inner.needed, ground)}; {_room_by_node(inner, _binding(inner, ground), ground)}"


def _no_node(inner: Refusal, ground: Ground) -> str:
    kind = inner.kinds[0]
    name = verdict.sentence_list([role.name for role in _members(inner, ground)][:_NAMES])
    usable = [shape for shape in ground.shapes if shape.kinds >> kind & 1]
    if not usable:
        return f"no node admits the pods of {name}: their node selector, affinity or tolerations exclude all nodes"
    binding = _binding(inner, ground)
    if binding is None:
        return f"no node can take a pod of {name}"
    resource = ground.resources[binding]
    request = ground.requests[kind][binding]
    most = max(shape.capacity[binding] for shape in usable)
    if most >= request:
        return f"no node has all that a pod of {name} requests"
    return (
        f"a pod of {name} requests {verdict.amount_text(resource, request)} {_shown(resource)}; "
        f"the largest node that it may use has {verdict.amount_text(resource, most)}"
    )


def _room_by_node(inner: Refusal, binding: int | None, ground: Ground) -> str:
    """Returns how many pods of a kind the nodes take: `6 nodes of 8 take one each` where the nodes are equal."""
    kind = inner.kinds[0]
    taking = [(shape, count) for shape, count in inner.area.counts if ground.floors[shape][kind]]
    floors = {ground.floors[shape][kind] for shape, _ in taking}
    nodes = sum(count for _, count in taking)
    if len(floors) != 1 or nodes * min(floors, default=0) != inner.there or nodes >= UNLIMITED:
        return f"the nodes that they may use have room for {inner.there or 'none'}"
    sizes = set() if binding is None else {ground.shapes[shape].capacity[binding] for shape, _ in taking}
    of = ""
    if binding is not None and len(sizes) == 1 and ground.resources[binding] != "pods":
        of = f" of {verdict.amount_text(ground.resources[binding], sizes.pop())}"
    each = min(floors)
    takes = "one" if each == 1 else str(each)
    verb, each_one = ("takes", "") if nodes == 1 else ("take", " each" if nodes > 1 else "")
    return f"{verdict.count_text(nodes, 'node')}{of} {verb} {takes}{each_one}"


def _all_pods(inner: Refusal, ground: Ground) -> str:
    """Returns the pods that a condition is about, with their number where there is no choice."""
    roles = _members(inner, ground)
    names = verdict.sentence_list([role.name for role in roles][:_NAMES])
    more = len(roles) - _NAMES
    names += f" and {more} more" if more > 0 else ""
    if inner.part.vector is None:
        return f"the pods of {names}"
    kinds = inner.kinds or range(ground.kinds)
    number = sum(inner.part.vector[kind] for kind in kinds)
    return f"{verdict.count_text(number, 'pod')} of {names}"


def _usable(inner: Refusal) -> str:
    return " that pods of these sizes can use" if inner.condition in ("C2", "C4") else ""


def _shortfalls(inner: Refusal, ground: Ground) -> tuple[verdict.Shortfall, ...]:
    if inner.condition == "C1" and (binding := _binding(inner, ground)) is not None:
        kind = inner.kinds[0]
        most = max((shape.capacity[binding] for shape in ground.shapes if shape.kinds >> kind & 1), default=0)
        if most < ground.requests[kind][binding]:
            return (verdict.Shortfall(_shown(ground.resources[binding]), ground.requests[kind][binding], most),)
    if not inner.needed:
        return ()
    return (verdict.Shortfall(_shown(_resource(inner, ground)), inner.needed, min(inner.there, inner.needed)),)

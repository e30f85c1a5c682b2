"""The judgement whether a packed gang can ever be placed, and the estimate whether it has room now.

Ceilings come first, then the nodes, from the cheap conditions to the strong ones. Each set of a packing is refuted,
placed, or looked at in every way. A remedy is named only if a placement was found with it; the work is bounded, so one
that exists may stay unnamed. The estimate judges what is free in place of what there is. It does not count quotas in
use, other gangs that wait, volumes, or devices of DRA in use, so a gang may still wait although there is room.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from webhook.fit.ceilings import ceiling_witness, keeps_ceilings
from webhook.fit.domains import (
    DomainRoom,
    EqualDomains,
    NeedPart,
    domain_rooms_of,
    domains_by_node,
    domains_in,
    numbers_in,
    part_of,
    partitions_below,
    partitions_of,
    roles_of,
)
from webhook.fit.exact import Exact, TooLargeError, TooManyError
from webhook.fit.first_fit import ORDERS, FirstFit
from webhook.fit.ground import Area, Ground, ground_of
from webhook.fit.packing import GroupNeed, Need, NodeClass, Packing, PackingRole, Partition, PodReading, PodsNeed, Room
from webhook.fit.placement import Spot, holds, placement_of
from webhook.fit.refutation import Refusal, Refuter, nearness, no_node_admits, witness_of
from webhook.fit.resource_requests import GPU_PARTS, GPUS, is_gpu_name
from webhook.fit.verdict import (
    STEPS,
    FitAnswer,
    FitFamily,
    FitScope,
    FitVerdict,
    OutOfStepsError,
    PlacedPods,
    Shortfall,
    StepBudget,
    Witness,
    count_text,
    sentence_list,
)
from webhook.model.facts import ClusterFacts
from webhook.model.keys import ObjectKey
from webhook.model.node_pods import NodePods, PodAmounts, Reservation
from webhook.model.nodes import Node

# What the attempts to place a gang quickly may take, in each order.
_QUICK_STEPS = (4_500, 1_500)
# What a look at every way may take in one domain: at first, and how much more in each further round.
_EXACT_STEPS, _MORE = 2_000, 4
# What checking and telling the place of some pods takes.
_CHECK_STEPS = 5


class SetOutcome(NamedTuple):
    """What is known of a set: why it never fits, where its pods can be, or neither."""

    part: NeedPart
    refusal: Refusal | None = None
    spots: tuple[Spot, ...] | None = None
    cause: str = ""


def judge_set(need: Need, ground: Ground, budget: StepBudget) -> SetOutcome:
    part = part_of(need, ground)
    try:
        return _judged(part, need, ground, budget)
    except OutOfStepsError:
        return SetOutcome(part, cause=f"no answer within {budget.steps} steps")


def _judged(part: NeedPart, need: Need, ground: Ground, budget: StepBudget) -> SetOutcome:
    quick = Refuter(ground, budget, strong=False)
    if (refusal := _refused(quick, part, ground)) is not None:
        return SetOutcome(part, refusal)
    domains = quick.domains(part, ground.whole)
    open_domains = [
        domain for domain in domains if part.within is None or quick.refused_inside(part, domain.area) is None
    ]
    # The largest domains first.
    open_domains.reverse()
    spots = _placed_quickly(part, need, open_domains, ground, budget)
    if spots is not None:
        return SetOutcome(part, spots=tuple(spots))
    strong = Refuter(ground, budget, strong=True)
    if (refusal := _refused(strong, part, ground)) is not None:
        return SetOutcome(part, refusal)
    if part.within is not None:
        open_domains = [domain for domain in open_domains if strong.refused_inside(part, domain.area) is None]
    return _looked_at(part, need, open_domains, ground, budget)


def _refused(refuter: Refuter, part: NeedPart, ground: Ground) -> Refusal | None:
    """Returns why the part fits nowhere: on all nodes together, which is the simpler reason, or in each domain."""
    refusal = refuter.refused_inside(part, ground.whole)
    return refuter.refused(part, ground.whole) if refusal is None and part.within is not None else refusal


def _placed_quickly(
    part: NeedPart, need: Need, domains: Sequence[EqualDomains], ground: Ground, budget: StepBudget
) -> list[Spot] | None:
    for order, steps in zip(ORDERS, _QUICK_STEPS, strict=True):
        share = budget.share(steps)
        try:
            for domain in domains:
                area = domain.area.node(0) if domain.area.single else domain.area
                spots = FirstFit(ground, share, order).placed(part, area)
                if spots is not None:
                    budget.spend(len(spots) * _CHECK_STEPS)
                    if holds(spots, need, ground.room):
                        return spots
        except OutOfStepsError:
            pass
        finally:
            budget.settle(share)
    return None


def _looked_at(
    part: NeedPart, need: Need, domains: Sequence[EqualDomains], ground: Ground, budget: StepBudget
) -> SetOutcome:
    """Looks at every way in every domain, with more steps for each domain in every round."""
    waiting = list(domains)
    unclear = unsure = False
    refused: list[Refusal] = []
    steps = _EXACT_STEPS
    while waiting:
        later = []
        for domain in waiting:
            area = domain.area.node(0) if domain.area.single else domain.area
            share = budget.share(steps)
            try:
                spots = Exact(ground, share).placed(part, area)
            except (TooLargeError, TooManyError):
                unclear = True
            except OutOfStepsError:
                later.append(domain)
            else:
                if spots is None:
                    refused.append(Refusal("C6", part, area, domain=domain, partition=part.within))
                elif holds(spots, need, ground.room):
                    return SetOutcome(part, spots=tuple(spots))
                else:
                    unsure = True
            finally:
                budget.settle(share)
        waiting = later
        steps *= _MORE
    if unsure and any(node_class.future for node_class in ground.room.classes):
        cause = "the conditions hold, and it depends on the labels that the nodes of a group that grows will get"
        return SetOutcome(part, cause=cause)
    if unclear or unsure or not refused:
        return SetOutcome(part, cause="the conditions hold, and there are too many ways to place the pods")
    return SetOutcome(part, max(refused, key=nearness))


# What all remedies of a verdict may take together, and one of them.
_STEPS, _EACH = 2_500, 1_000
# In how many domains a broader partition is tried.
_LARGEST = 3

_OTHERWISE = {
    FitFamily.NODE: "request less for each pod, or add nodes that are large enough and that the pods may use",
    FitFamily.TOTAL: "lower the minimum of the gang, or add nodes",
    FitFamily.TOPOLOGY: "lower the minimum of the gang, require a broader domain, or add nodes to a domain",
    FitFamily.APART: "lower the minimum of the gang, relax what keeps its pods apart, or add nodes",
    FitFamily.DEVICES: "request fewer devices, or add nodes that have them",
}


def remedy_for(witness: Witness, outcome: SetOutcome, ground: Ground) -> Witness:
    trial = _Trial(outcome, ground)
    remedies = [remedy for remedy in (trial.fewer(witness), trial.broader()) if remedy]
    otherwise = _OTHERWISE.get(witness.family, "add nodes")
    if outcome.refusal is not None and witness.family is FitFamily.NODE and no_node_admits(outcome.refusal, ground):
        otherwise = "change their node selector, affinity or tolerations, or add nodes that these admit"
    return replace(witness, remedy=", or ".join(remedies) or otherwise)


class _Trial:
    """Other needs, tried where the refused one came nearest to fit."""

    def __init__(self, outcome: SetOutcome, ground: Ground) -> None:
        self.need = outcome.part.need
        self.refusal = outcome.refusal
        self.ground = ground
        self.budget = StepBudget(_STEPS)

    def fewer(self, witness: Witness) -> str:
        """Returns the most pods of a role, or the most children of a group, with which the rest still fits."""
        for name in witness.members[:2]:
            counts = _counts(name, self.need)
            # A role that is needed in several places is left as it is.
            count = counts[0] if len(counts) == 1 else 0
            # So many there could be if there were no others.
            kind = self.ground.kind_of[name]
            alone = max((self.ground.floors_in(area)[kind] for area in self._areas(self.need)), default=0)
            most = self._largest(min(count - 1, alone), partial(_replace_count, name, self.need))
            if most:
                return f"lower the minimum of {name} to {count_text(most, 'pod')}"
        if isinstance(self.need, GroupNeed) and self.need.count > 1 and not witness.members:
            group = self.need
            most = self._largest(group.count - 1, lambda number: replace(group, count=number))
            if most:
                return f"lower the minimum of {group.name} from {group.count} to {most}"
        return ""

    def broader(self) -> str:
        for partition in _partitions(self.need):
            broader = partition.broader
            if broader is not None and self._fits(_replace_partition(self.need, partition, broader)):
                return f"require one {broader.noun} instead of one {partition.noun}"
            if self._fits(_replace_partition(self.need, partition, None)):
                return f"do not require one {partition.noun}"
        return ""

    def _largest(self, most: int, changed: Callable[[int], Need]) -> int:
        """Returns the largest number that fits, by halves, 0 if not even one does. The most is tried early."""
        if most < 1 or not self._fits(changed(1)):
            return 0
        if most == 1 or self._fits(changed(most)):
            return most
        low, high = 1, most - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._fits(changed(middle)):
                low = middle
            else:
                high = middle - 1
        return low

    def _fits(self, need: Need) -> bool:
        ground = self.ground
        part = part_of(need, ground)
        for area in self._areas(need):
            share = self.budget.share(_EACH)
            try:
                if FirstFit(ground, share, ORDERS[0]).fits(part, area):
                    return True
            except OutOfStepsError:
                return False
            finally:
                self.budget.left -= share.used
        return False

    def _areas(self, need: Need) -> list[Area]:
        """Returns where to try: in the domain that came nearest, or in some large ones if another partition is
        tried.
        """
        refusal = self.refusal
        if need.within is None:
            return [self.ground.whole]
        if refusal is not None and refusal.domain is not None and refusal.partition == need.within:
            return [refusal.domain.area]
        domains = domains_in(self.ground.whole, need.within, self.ground, partitions_below(part_of(need, self.ground)))
        return [domain.area for domain in sorted(domains, key=lambda domain: -domain.area.nodes)[:_LARGEST]]


def _partitions(need: Need) -> list[Partition]:
    direct = [] if need.within is None else [need.within]
    if isinstance(need, PodsNeed):
        return direct
    seen = {id(child): child for child in need.needs}
    partitions: list[Partition] = []
    for partition in chain(direct, *map(_partitions, seen.values())):
        if partition not in partitions:
            partitions.append(partition)
    return partitions


def _replace_partition(need: Need, partition: Partition, other: Partition | None) -> Need:
    within = other if need.within == partition else need.within
    if isinstance(need, PodsNeed):
        return replace(need, within=within)
    return replace(
        need, within=within, needs=tuple(_replace_partition(child, partition, other) for child in need.needs)
    )


def _counts(name: str, need: Need) -> list[int]:
    if isinstance(need, PodsNeed):
        return [need.count] if need.role.name == name else []
    return [count for child in need.needs for count in _counts(name, child)]


def _replace_count(name: str, need: Need, number: int) -> Need:
    if isinstance(need, PodsNeed):
        return replace(need, count=number) if need.role.name == name else need
    return replace(need, needs=tuple(_replace_count(name, child, number) for child in need.needs))


def judge(packing: Packing, room: Room | None, steps: int = STEPS) -> FitVerdict:
    """Returns the verdict on a gang. Without a room only ceilings are judged."""
    budget = StepBudget(steps)
    if packing.unknown:
        return FitVerdict(FitAnswer.UNKNOWN, causes=packing.unknown, assumptions=packing.assumptions)
    grows = room is None or room.grows or room.unknown is not None
    witness = next((witness for witness in packing.witnesses if witness.scope is FitScope.EVER or not grows), None)
    witness = witness or ceiling_witness(packing, room)
    if witness is not None:
        return _never(witness, packing, budget)
    if room is None:
        return _unknown(("the nodes of the cluster are not known",), packing, budget)
    if room.unknown is not None:
        return _unknown((room.unknown,), packing, budget)
    return _judge_on_nodes(packing, room, budget)


def _judge_on_nodes(packing: Packing, room: Room, budget: StepBudget) -> FitVerdict:
    roles = roles_of(packing.sets)
    ground = ground_of(roles, room)
    outcomes: list[tuple[Need, SetOutcome]] = []
    for need in packing.sets:
        outcome = judge_set(need, ground, budget)
        if outcome.refusal is not None:
            witness = witness_of(outcome.refusal, ground)
            if ground.room.grows:
                cause = f"the cluster may grow by nodes of unknown shape; on the nodes there are: {witness.why}"
                return _unknown((cause,), packing, budget)
            return _never(remedy_for(witness, outcome, ground), packing, budget)
        outcomes.append((need, outcome))
    causes = tuple(dict.fromkeys(outcome.cause for _, outcome in outcomes if outcome.cause))
    causes += _unsure(packing, roles, room)
    for need, outcome in outcomes:
        if outcome.spots is not None and not keeps_ceilings(outcome.spots, need, packing):
            causes += ("the placement found exceeds a quota; another one might not",)
    if causes:
        return _unknown(causes, packing, budget)
    return FitVerdict(
        FitAnswer.FITS,
        causes=packing.unjudged,
        placement=tuple(pods for need, outcome in outcomes for pods in placement_of(outcome.spots or (), need, room)),
        assumptions=packing.assumptions,
        steps=budget.used,
    )


def _unsure(packing: Packing, roles: Sequence[PackingRole], room: Room) -> tuple[str, ...]:
    """Returns why a placement would not show that the gang fits."""
    causes = dict.fromkeys(packing.left_out)
    if not roles and not causes:
        causes["no pod of the gang has to be on a node for it to start"] = None
    for role in roles:
        causes.update(dict.fromkeys((*role.pods.unjudged, *role.pods.left_out)))
        if role.pods.shared_devices:
            causes["pods share the devices of a claim, and which nodes reach these is not known"] = None
        unsure = sorted(name for name, amount in role.pods.request.items() if amount > 0 and name in room.unsure)
        if unsure:
            # What only a scheduler counts, such as parts of a GPU, has a space in its name.
            shown = [name for name in unsure if " " not in name] or unsure
            causes[f"not all nodes say how much they have of {sentence_list(shown)}"] = None
    return tuple(causes)


def _never(witness: Witness, packing: Packing, budget: StepBudget) -> FitVerdict:
    return FitVerdict(FitAnswer.NEVER, witness, assumptions=packing.assumptions, steps=budget.used)


def _unknown(causes: tuple[str, ...], packing: Packing, budget: StepBudget) -> FitVerdict:
    return FitVerdict(
        FitAnswer.UNKNOWN, causes=causes + packing.unjudged, assumptions=packing.assumptions, steps=budget.used
    )


# More running gangs of one domain are not tried: who would have to go is a hint, not a plan.
_MOST_GANGS = 200
# So many of them are tried alone.
_MOST_ALONE = 50


class RoomAnswer(StrEnum):
    """Whether there is room now."""

    ROOM = "room"
    SHORT = "short"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GangsToEvict:
    """Running gangs that would have to go: those of the gang's own namespace by name, of others only their number."""

    gangs: tuple[str, ...] = ()
    others: int = 0


@dataclass(frozen=True, slots=True)
class RoomEstimate:
    """The estimate. With room: the domains of the placement, or its nodes. Short: why, the domain that comes nearest,
    what it lacks, and who would have to go; `leaving` is None if that would not be enough, or is not known.
    """

    answer: RoomAnswer
    domains: tuple[str, ...] = ()
    why: str = ""
    nearest: str | None = None
    short: tuple[Shortfall, ...] = ()
    leaving: GangsToEvict | None = None
    placement: tuple[PlacedPods, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "estimate": True,
            "answer": str(self.answer),
            "domains": list(self.domains),
            "why": self.why or None,
            "nearest": self.nearest,
            "short": [shortfall._asdict() for shortfall in self.short],
            "wouldHaveToGo": None
            if self.leaving is None
            else {"gangs": list(self.leaving.gangs), "ofOtherNamespaces": self.leaving.others},
        }


def stated_amounts(resource: str, amount: int) -> PodAmounts:
    return ((resource, amount),)


def kai_amounts(resource: str, amount: int) -> PodAmounts:
    """Returns an amount as KAI counts it: every name that ends in "gpu" is the GPUs of a node, whole and in parts."""
    if not is_gpu_name(resource):
        return ((resource, amount),)
    return (GPUS, amount), (GPU_PARTS, 1000 * amount)


def amount_reader(reading: PodReading) -> Callable[[str, int], PodAmounts]:
    return kai_amounts if reading.requests.kai_gpus else stated_amounts


class Usage(NamedTuple):
    """What is used on the nodes. `closed` nodes take no pods now: cordoned, or not ready. `lost` is what a node lacks
    of what it may have: a broken device. `counted` gives the names that the scheduler counts an amount under.
    """

    pods: NodePods
    reservations: Mapping[str, Reservation] = {}
    closed: frozenset[str] = frozenset()
    lost: Mapping[str, PodAmounts] = {}
    counted: Callable[[str, int], PodAmounts] = stated_amounts

    @classmethod
    def from_facts(cls, facts: ClusterFacts, counted: Callable[[str, int], PodAmounts] = stated_amounts) -> Usage:
        nodes = (facts.nodes or {}).values()
        return cls(
            facts.node_pods or NodePods(),
            facts.node_reservations or {},
            frozenset(node.name for node in nodes if node.unschedulable or not node.ready),
            {node.name: lost for node in nodes if (lost := _lost(node))},
            counted,
        )

    def amounts_by_node(self, without: Collection[ObjectKey]) -> dict[str, dict[str, int]]:
        """Returns what is used on each node, without the pods of some gangs, by namespace and name."""
        used: dict[str, dict[str, int]] = {}
        gone = {pod for gang in without for pod in self.pods.pods_of_gang(*gang)}
        for node in self.pods.nodes:
            self._add(used, node, self.pods.used_on(node).items())
        for key in gone:
            self._add(used, self.pods[key].node, ((name, -amount) for name, amount in self.pods[key].amounts))
        for kept in self.reservations.values():
            self._add(used, kept.node, kept.amounts)
        for node, amounts in self.lost.items():
            self._add(used, node, amounts)
        return used

    def _add(self, by_node: dict[str, dict[str, int]], node: str, amounts: Iterable[tuple[str, int]]) -> None:
        used = by_node.setdefault(node, {})
        for resource, amount in amounts:
            for name, units in self.counted(resource, amount):
                used[name] = used.get(name, 0) + units


def _lost(node: Node) -> PodAmounts:
    return tuple(
        (resource, amount - node.allocatable.get(resource, 0))
        for resource, amount in node.highest.items()
        if amount > node.allocatable.get(resource, 0)
    )


def free_room(room: Room, usage: Usage, without: Collection[ObjectKey] = ()) -> Room:
    """Returns what is free of a room, as if the pods of some gangs were gone, without nodes that are yet to come."""
    used = usage.amounts_by_node(without)
    classes: list[NodeClass] = []
    for node_class in room.classes:
        if node_class.future or node_class.number is None:
            continue
        alike: dict[tuple[tuple[str, int], ...], list[str]] = {}
        for node in node_class.nodes:
            if node not in usage.closed:
                taken = used.get(node, {})
                left = {resource: max(has - taken.get(resource, 0), 0) for resource, has in node_class.capacity.items()}
                alike.setdefault(tuple(left.items()), []).append(node)
        classes += [
            node_class._replace(capacity=dict(left), number=len(nodes), nodes=tuple(nodes))
            for left, nodes in alike.items()
        ]
    return replace(room, classes=tuple(classes), grows=False, memo={})


def now_of(packing: Packing, room: Room, usage: Usage, gang: ObjectKey, steps: int = STEPS) -> RoomEstimate:
    """Returns whether a gang fits now. `gang` is its namespace and name: what its own pods use counts as free."""
    now, nearest = _estimate(packing, room, usage, gang, steps)
    if now.answer is not RoomAnswer.SHORT:
        return now
    return replace(now, leaving=_leaving(_nodes_only(packing), room, usage, gang, nearest, steps))


def room_now(packing: Packing, room: Room, usage: Usage, gang: ObjectKey) -> RoomEstimate:
    """Returns the estimate without who would have to go: that takes a judgement for each of them."""
    return _estimate(packing, room, usage, gang, STEPS)[0]


def _estimate(
    packing: Packing, room: Room, usage: Usage, gang: ObjectKey, steps: int
) -> tuple[RoomEstimate, DomainRoom | None]:
    """Returns the estimate, and if there is no room, the domain that comes nearest."""
    free = free_room(room, usage, [gang])
    rooms = domain_rooms_of(packing, room, free)
    verdict = judge(_nodes_only(packing), free, steps)
    if verdict.answer is FitAnswer.FITS:
        # The domains of the placement as messages call them, or its nodes where no domain is required.
        called_by_name = {domain.name: domain.called for domain in rooms}
        places = (
            placed.node if placed.domain is None else called_by_name.get(placed.domain, placed.domain)
            for placed in verdict.placement
        )
        return RoomEstimate(RoomAnswer.ROOM, tuple(dict.fromkeys(places)), placement=verdict.placement), None
    witness = verdict.witness
    if witness is None:
        return RoomEstimate(RoomAnswer.UNKNOWN, why="; ".join(verdict.causes)), None
    nearest = _nearest(rooms, witness.domain, witness.shortfalls)
    called = None if nearest is None else nearest.called
    return RoomEstimate(RoomAnswer.SHORT, why=witness.why, nearest=called, short=witness.shortfalls), nearest


def _nodes_only(packing: Packing) -> Packing:
    """Returns the packing without limits that do not depend on what is used on the nodes."""
    return replace(packing, ceilings=(), witnesses=(), unjudged=())


def _nearest(domains: Sequence[DomainRoom], domain_name: str | None, short: Sequence[Shortfall]) -> DomainRoom | None:
    """Returns the domain that the witness names, else the one with most of what is short."""
    for domain in domains:
        if domain_name in {domain.name, domain.called}:
            return domain
    resources = domains[0].total if domains else {}
    lacking = [shortfall.resource for shortfall in short if shortfall.resource in resources] or resources
    return max(domains, key=lambda room: [(room.free or {}).get(name, 0) for name in lacking], default=None)


def _leaving(
    packing: Packing, room: Room, usage: Usage, gang: ObjectKey, domain: DomainRoom | None, steps: int
) -> GangsToEvict | None:
    """Returns a small set of running gangs without which the gang would fit, or None if there is none."""
    if domain is None:
        return None
    running = [other for other in _running_in(packing, room, usage, domain) if other != gang][:_MOST_GANGS]

    def enough(gone: Sequence[ObjectKey]) -> bool:
        return judge(packing, free_room(room, usage, [gang, *gone]), steps).answer is FitAnswer.FITS

    chosen = _smallest(running, enough)
    if chosen is None:
        return None
    names = tuple(sorted(name for namespace, name in chosen if namespace == gang[0]))
    return GangsToEvict(names, len(chosen) - len(names))


def _smallest(running: Sequence[ObjectKey], enough: Callable[[Sequence[ObjectKey]], bool]) -> list[ObjectKey] | None:
    """Returns the one gang that is enough and uses least; else the first ones without those that are not needed."""
    if not enough(running):
        return None
    alone = next((gang for gang in running[: -_MOST_ALONE - 1 : -1] if enough([gang])), None)
    if alone is not None:
        return [alone]
    fewer = range(1, len(running))
    chosen = list(running[: bisect_left(fewer, True, key=lambda count: enough(running[:count])) + 1])
    for gang in list(chosen):
        others = [other for other in chosen if other != gang]
        if enough(others):
            chosen = others
    return chosen


def _running_in(packing: Packing, room: Room, usage: Usage, domain: DomainRoom) -> list[ObjectKey]:
    """Returns the gangs with pods in a domain, those first that use most of what the gang requests."""
    partition = next(iter(partitions_of(packing)), None)
    of_nodes = {} if partition is None else domains_by_node(partition)
    uses: dict[ObjectKey, int] = {}
    total = domain.total
    for node_class in room.classes:
        for node in node_class.nodes if node_class.roles else ():
            if domain.name not in numbers_in(node_class._replace(nodes=(node,), number=1), partition, of_nodes):
                continue
            for key in usage.pods.pods_on(node):
                pod = usage.pods[key]
                if pod.gang is not None:
                    counted = (part for resource, amount in pod.amounts for part in usage.counted(resource, amount))
                    # In thousandths of what the domain has of each resource.
                    share = sum(1000 * amount // total[name] for name, amount in counted if total.get(name))
                    uses[key[0], pod.gang] = uses.get((key[0], pod.gang), 0) + share
    return sorted(uses, key=lambda gang: (-uses[gang], gang))

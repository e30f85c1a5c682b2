"""Whether a gang fits *now*: an estimate, of the nodes only, from what the pods on them use.

The same judgement, with what is free in place of what there is. Quotas in use, other gangs that wait, volumes and
devices of DRA in use are not counted, so a gang may still wait although there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from webhook.fit.budget import STEPS
from webhook.fit.domain_rooms import DomainRoom, domain_rooms_of, numbers_in, partitions_of
from webhook.fit.judgement import judge
from webhook.fit.membership import domains_by_node
from webhook.fit.packing import Packing
from webhook.fit.reading import PodReading
from webhook.fit.requests import GPU_PARTS, GPUS, is_gpu_name
from webhook.fit.room import NodeClass, Room
from webhook.fit.verdict import Answer, Placed, Shortfall, Verdict
from webhook.model.facts import ClusterFacts
from webhook.model.keys import ObjectKey
from webhook.model.node import Node
from webhook.model.node_pods import Amounts, NodePods, Reservation

# More running gangs of one domain are not tried: who would have to go is a hint, not a plan.
_MOST_GANGS = 200
# So many of them are tried alone.
_MOST_ALONE = 50


class NowAnswer(StrEnum):
    """Whether there is room now."""

    ROOM = "room"
    SHORT = "short"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Leaving:
    """Running gangs that would have to go: those of the gang's own namespace by name, of others only their number."""

    gangs: tuple[str, ...] = ()
    others: int = 0


@dataclass(frozen=True, slots=True)
class Now:
    """The estimate. With room: the domains of the placement, or its nodes. Short: why, the domain that comes nearest,
    what it lacks, and who would have to go; `leaving` is None if that would not be enough, or is not known.
    """

    answer: NowAnswer
    domains: tuple[str, ...] = ()
    why: str = ""
    nearest: str | None = None
    short: tuple[Shortfall, ...] = ()
    leaving: Leaving | None = None
    placement: tuple[Placed, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the estimate as plain JSON values."""
        return {
            "estimate": True,
            "answer": str(self.answer),
            "domains": list(self.domains),
            "why": self.why or None,
            "nearest": self.nearest,
            "short": [one._asdict() for one in self.short],
            "wouldHaveToGo": None
            if self.leaving is None
            else {"gangs": list(self.leaving.gangs), "ofOtherNamespaces": self.leaving.others},
        }


def as_stated(resource: str, amount: int) -> Amounts:
    """Return an amount under its own name."""
    return ((resource, amount),)


def as_gpus_of_kai(resource: str, amount: int) -> Amounts:
    """Return an amount as KAI counts it: every name that ends in "gpu" is the GPUs of a node, whole and in parts."""
    if not is_gpu_name(resource):
        return ((resource, amount),)
    return (GPUS, amount), (GPU_PARTS, 1000 * amount)


def counted_by(reading: PodReading) -> Callable[[str, int], Amounts]:
    """Return how a scheduler counts what pods on nodes use."""
    return as_gpus_of_kai if reading.requests.kai_gpus else as_stated


class Usage(NamedTuple):
    """What is used on the nodes. `closed` nodes take no pods now: cordoned, or not ready. `lost` is what a node lacks
    of what it may have: a broken device. `counted` gives the names that the scheduler counts an amount under.
    """

    pods: NodePods
    reservations: Mapping[str, Reservation] = {}
    closed: frozenset[str] = frozenset()
    lost: Mapping[str, Amounts] = {}
    counted: Callable[[str, int], Amounts] = as_stated

    @classmethod
    def of(cls, facts: ClusterFacts, counted: Callable[[str, int], Amounts] = as_stated) -> Usage:
        """Return what is used, by the facts of a cluster whose pods on nodes are known."""
        nodes = (facts.nodes or {}).values()
        return cls(
            facts.node_pods or NodePods(),
            facts.node_reservations or {},
            frozenset(node.name for node in nodes if node.unschedulable or not node.ready),
            {node.name: lost for node in nodes if (lost := _lost(node))},
            counted,
        )

    def by_node(self, without: Collection[ObjectKey] = ()) -> dict[str, dict[str, int]]:
        """Return what is used on each node, without the pods of some gangs, by namespace and name."""
        found: dict[str, dict[str, int]] = {}
        gone = {pod for gang in without for pod in self.pods.of_gang(*gang)}
        for node in self.pods.nodes:
            self._add(found, node, self.pods.used_on(node).items())
        for key in gone:
            self._add(found, self.pods[key].node, ((name, -amount) for name, amount in self.pods[key].amounts))
        for kept in self.reservations.values():
            self._add(found, kept.node, kept.amounts)
        for node, amounts in self.lost.items():
            self._add(found, node, amounts)
        return found

    def _add(self, found: dict[str, dict[str, int]], node: str, amounts: Iterable[tuple[str, int]]) -> None:
        used = found.setdefault(node, {})
        for resource, amount in amounts:
            for name, units in self.counted(resource, amount):
                used[name] = used.get(name, 0) + units


def _lost(node: Node) -> Amounts:
    """Return what a node may have and cannot give now."""
    return tuple(
        (resource, amount - node.allocatable.get(resource, 0))
        for resource, amount in node.highest.items()
        if amount > node.allocatable.get(resource, 0)
    )


def free_room(room: Room, usage: Usage, without: Collection[ObjectKey] = ()) -> Room:
    """Return what is free of a room, as if the pods of some gangs were gone, without nodes that are yet to come."""
    used = usage.by_node(without)
    classes: list[NodeClass] = []
    for found in room.classes:
        if found.future or found.number is None:
            continue
        alike: dict[tuple[tuple[str, int], ...], list[str]] = {}
        for node in found.nodes:
            if node not in usage.closed:
                taken = used.get(node, {})
                left = {resource: max(has - taken.get(resource, 0), 0) for resource, has in found.capacity.items()}
                alike.setdefault(tuple(left.items()), []).append(node)
        classes += [
            found._replace(capacity=dict(left), number=len(nodes), nodes=tuple(nodes)) for left, nodes in alike.items()
        ]
    return replace(room, classes=tuple(classes), grows=False, memo={})


def now_of(packing: Packing, room: Room, usage: Usage, gang: ObjectKey, steps: int = STEPS) -> Now:
    """Return whether a gang fits now. `gang` is its namespace and name: what its own pods use counts as free."""
    found, nearest = _estimate(packing, room, usage, gang, steps)
    if found.answer is not NowAnswer.SHORT:
        return found
    return replace(found, leaving=_leaving(_nodes_only(packing), room, usage, gang, nearest, steps))


def room_now(packing: Packing, room: Room, usage: Usage, gang: ObjectKey, steps: int = STEPS) -> Now:
    """Return as `now_of`, without who would have to go: that takes a judgement for each of them."""
    return _estimate(packing, room, usage, gang, steps)[0]


def _estimate(packing: Packing, room: Room, usage: Usage, gang: ObjectKey, steps: int) -> tuple[Now, DomainRoom | None]:
    """Return the estimate, and if there is no room, the domain that comes nearest."""
    free = free_room(room, usage, [gang])
    rooms = domain_rooms_of(packing, room, free)
    verdict = judge(_nodes_only(packing), free, steps)
    if verdict.answer is Answer.FITS:
        return Now(NowAnswer.ROOM, _places_in(verdict, rooms), placement=verdict.placement), None
    witness = verdict.witness
    if witness is None:
        return Now(NowAnswer.UNKNOWN, why="; ".join(verdict.causes)), None
    nearest = _nearest(rooms, witness.domain, witness.shortfalls)
    called = None if nearest is None else nearest.called
    return Now(NowAnswer.SHORT, why=witness.why, nearest=called, short=witness.shortfalls), nearest


def _nodes_only(packing: Packing) -> Packing:
    """Return the packing without limits that do not depend on what is used on the nodes."""
    return replace(packing, ceilings=(), witnesses=(), unjudged=())


def _places_in(verdict: Verdict, rooms: Sequence[DomainRoom]) -> tuple[str, ...]:
    """Return the domains of a placement as messages call them, or its nodes where no domain is required."""
    called = {one.name: one.called for one in rooms}
    places = (
        placed.node if placed.domain is None else called.get(placed.domain, placed.domain)
        for placed in verdict.placement
    )
    return tuple(dict.fromkeys(places))


def _nearest(domains: Sequence[DomainRoom], named: str | None, short: Sequence[Shortfall]) -> DomainRoom | None:
    """Return the domain that comes nearest: the one that the witness names, else the one with most of what is short."""
    for domain in domains:
        if named in {domain.name, domain.called}:
            return domain
    lacking = [one.resource for one in short if domains and one.resource in domains[0].total] or list(
        domains[0].total if domains else ()
    )
    return max(domains, key=lambda one: [(one.free or {}).get(name, 0) for name in lacking], default=None)


def _leaving(
    packing: Packing, room: Room, usage: Usage, gang: ObjectKey, domain: DomainRoom | None, steps: int
) -> Leaving | None:
    """Return a small set of running gangs without which the gang would fit, or None if there is none."""
    if domain is None:
        return None
    running = [one for one in _running_in(packing, room, usage, domain) if one != gang][:_MOST_GANGS]

    def enough(gone: Sequence[ObjectKey]) -> bool:
        return judge(packing, free_room(room, usage, [gang, *gone]), steps).answer is Answer.FITS

    chosen = _smallest(running, enough)
    if chosen is None:
        return None
    own = tuple(sorted(name for namespace, name in chosen if namespace == gang[0]))
    return Leaving(own, len(chosen) - len(own))


def _smallest(running: Sequence[ObjectKey], enough: Callable[[Sequence[ObjectKey]], bool]) -> list[ObjectKey] | None:
    """Return one gang that is enough, the one that uses least; else the shortest beginning of `running`, those that use
    most, without what it can do without. None if not even all are enough.
    """
    if not enough(running):
        return None
    alone = next((one for one in running[: -_MOST_ALONE - 1 : -1] if enough([one])), None)
    if alone is not None:
        return [alone]
    low, high = 1, len(running)
    while low < high:
        middle = (low + high) // 2
        if enough(running[:middle]):
            high = middle
        else:
            low = middle + 1
    chosen = list(running[:high])
    for one in list(chosen):
        others = [other for other in chosen if other != one]
        if enough(others):
            chosen = others
    return chosen


def _running_in(packing: Packing, room: Room, usage: Usage, domain: DomainRoom) -> list[ObjectKey]:
    """Return the gangs with pods in a domain, those first that use most of what the gang requests."""
    partition = next(iter(partitions_of(packing)), None)
    of_nodes = {} if partition is None else domains_by_node(partition)
    uses: dict[ObjectKey, int] = {}
    for found in room.classes:
        if found.roles:
            for node in found.nodes:
                if domain.name in numbers_in(found._replace(nodes=(node,), number=1), partition, of_nodes):
                    _add_uses(uses, node, usage, domain.total)
    return sorted(uses, key=lambda one: (-uses[one], one))


def _add_uses(uses: dict[ObjectKey, int], node: str, usage: Usage, total: Mapping[str, int]) -> None:
    """Add what each gang uses of a node, in thousandths of what the domain has of each resource."""
    for key in usage.pods.on(node):
        pod = usage.pods[key]
        if pod.gang is not None:
            counted = (part for resource, amount in pod.amounts for part in usage.counted(resource, amount))
            share = sum(1000 * amount // total[name] for name, amount in counted if total.get(name))
            uses[key[0], pod.gang] = uses.get((key[0], pod.gang), 0) + share

"""Devices: what the pods of a gang need of them, and the most that each node can have.

An upper bound holds whatever is allocated now: a device can be used once. So nothing is claimed of a driver with a
device that can be used several times, or with an incomplete pool (its slices are being written), and nothing where the
driver is unknown. On a node without devices of a driver it may not have started: there may be any number.

Source: k8s.io/dynamic-resource-allocation v0.37.0, structured/internal/stable/{allocator,pools}_stable.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from webhook.fit.claims import PodClaim, claims_of
from webhook.fit.pods import DeviceNeed, PodNeeds, SharedClaim
from webhook.fit.shape import GangShape, MemberShape
from webhook.fit.verdict import Family, Scope, Witness
from webhook.model.devices import (
    MOST_CONSUMERS,
    MOST_DEVICES,
    Claim,
    DeviceRequest,
    Slice,
    summary_of,
)
from webhook.model.facts import ClusterFacts

# More devices than any node has.
UNBOUNDED = 2**40
# The key of all drivers together.
ALL_DRIVERS = ""
_CONDITION = "C0"
_UNCOUNTED = "which nodes have the devices of the {} is not known"


class NodeDevices(NamedTuple):
    """The devices of a cluster. `nodes` has their number by node and driver, `anywhere` by driver those that any node
    may use, with 0 for a driver without such. Nothing is claimed of `unsure` drivers.
    """

    nodes: Mapping[str, Mapping[str, int]]
    anywhere: Mapping[str, int]
    unsure: frozenset[str]

    @property
    def drivers(self) -> frozenset[str]:
        """The drivers of which something can be claimed."""
        return frozenset(self.anywhere) - self.unsure

    def on(self, node: str) -> dict[str, int]:
        """Return the most devices that a node can have of each driver, and of all together under `ALL_DRIVERS`."""
        own = self.nodes.get(node, {})
        found = {
            driver: UNBOUNDED if driver in self.unsure or not own.get(driver) else own[driver] + number
            for driver, number in self.anywhere.items()
        }
        return {**found, ALL_DRIVERS: min(sum(found.values()), UNBOUNDED)}


class DevicesByNode(Mapping[str, Mapping[str, int]]):
    """The most devices of each driver that a node can have, by its name, also for a node without any slice."""

    def __init__(self, known: NodeDevices) -> None:
        self._known = known
        self._found: dict[str, Mapping[str, int]] = {}

    def __getitem__(self, node: str) -> Mapping[str, int]:
        found = self._found.get(node)
        if found is None:
            found = self._found[node] = self._known.on(node)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._known.nodes)

    def __len__(self) -> int:
        return len(self._known.nodes)


class PodDevices(NamedTuple):
    """The devices of one pod: `own` for each pod, `shared` once for all pods that name the claim. `unknown` says in
    words what is left out.
    """

    own: tuple[DeviceNeed, ...] = ()
    shared: tuple[SharedClaim, ...] = ()
    unknown: tuple[str, ...] = ()


def devices_on(facts: ClusterFacts) -> NodeDevices | None:
    """Return the devices of the cluster; None if they are unknown, or only some are known."""
    if facts.resource_slices is None or "resource_slices" in (facts.partial or ()):
        return None
    return summary_of(facts.resource_slices, _devices_in)


def devices_by_node(facts: ClusterFacts) -> DevicesByNode | None:
    """Return the devices of each node, the same object for the same slices; None if they are unknown, or only some are
    known.
    """
    if facts.resource_slices is None or "resource_slices" in (facts.partial or ()):
        return None
    return summary_of(facts.resource_slices, _by_node)


def _by_node(slices: Mapping[str, Slice]) -> DevicesByNode:
    return DevicesByNode(_devices_in(slices))


def _devices_in(slices: Mapping[str, Slice]) -> NodeDevices:
    newest: dict[tuple[str, str], int] = {}
    for one in slices.values():
        pool = (one.driver, one.pool)
        newest[pool] = max(one.generation, newest.get(pool, one.generation))
    seen: dict[tuple[str, str], set[str]] = {}
    for one in slices.values():
        if one.generation == newest[one.driver, one.pool]:
            seen.setdefault((one.driver, one.pool), set()).update(node for node, _ in one.nodes if node)
    nodes: dict[str, dict[str, int]] = {}
    anywhere: dict[str, int] = {}
    present: dict[tuple[str, str], int] = {}
    unsure: set[str] = set()
    missing: dict[tuple[str, str], int] = {}
    for one in slices.values():
        pool = (one.driver, one.pool)
        anywhere.setdefault(one.driver, 0)
        if one.generation != newest[pool]:
            if any(node not in seen[pool] for node, _ in one.nodes):
                # Nodes that the newer slices do not concern still have the devices of the older one.
                unsure.add(one.driver)
            continue
        present[pool] = present.get(pool, 0) + 1
        missing[pool] = one.slices
        if one.shared:
            unsure.add(one.driver)
        for node, number in one.nodes:
            if node:
                of_node = nodes.setdefault(node, {})
                of_node[one.driver] = of_node.get(one.driver, 0) + number
            else:
                anywhere[one.driver] += number
    unsure.update(driver for (driver, pool), number in missing.items() if present[driver, pool] != number)
    return NodeDevices(nodes, anywhere, frozenset(unsure))


def device_needs_of(member: MemberShape, shape: GangShape, facts: ClusterFacts) -> PodDevices:
    """Return the devices that each pod of a member needs, at least. Raises `Malformed`."""
    claims, unknown = claims_of(member.template, shape, facts)
    known = devices_on(facts)
    if known is None:
        return PodDevices(unknown=("the ResourceSlices are unknown",) if claims else ())
    own = [need for claim in claims if claim.name is None for need in _needs(claim, facts, known)]
    shared = [
        SharedClaim(claim.name, needs)
        for claim in claims
        if claim.name is not None and (needs := tuple(_needs(claim, facts, known)))
    ]
    uncounted = (_UNCOUNTED.format(claim.called) for claim in claims if not _is_counted(claim, facts, known))
    return PodDevices(tuple(own), tuple(shared), (*unknown, *dict.fromkeys(uncounted)))


def with_devices(needs: PodNeeds, member: MemberShape, shape: GangShape, facts: ClusterFacts) -> PodNeeds:
    """Return the needs of a pod with those of its devices. Raises `Malformed`."""
    if not member.template.spec.get("resourceClaims"):
        return needs
    found = device_needs_of(member, shape, facts)
    return replace(needs, devices=found.own, shared_devices=found.shared, unjudged=(*needs.unjudged, *found.unknown))


def _needs(claim: PodClaim, facts: ClusterFacts, known: NodeDevices) -> Iterable[DeviceNeed]:
    for request in claim.requests or ():
        driver = _driver(request, facts)
        number = _least(request)
        # A driver without any slice may come with devices for every node.
        if driver in known.drivers and number and not request.admin:
            yield DeviceNeed(request.alternatives[0].device_class, number, claim.at, driver)


def _is_counted(claim: PodClaim, facts: ClusterFacts, known: NodeDevices) -> bool:
    """Return whether the devices of a claim are all counted among the needs of a pod."""
    return all(_driver(request, facts) in known.drivers and not request.admin for request in claim.requests or ())


def _least(request: DeviceRequest) -> int:
    """Return the fewest devices that satisfy a request."""
    return min((one.number for one in request.alternatives), default=0)


def _driver(request: DeviceRequest, facts: ClusterFacts) -> str | None:
    """Return the driver of the devices of a request, whichever alternative is taken; None if it is not sure."""
    classes = facts.device_classes or {}
    drivers = set()
    for one in request.alternatives:
        of_class = classes.get(one.device_class)
        drivers.add(one.driver or (None if of_class is None else of_class.driver))
    return drivers.pop() if len(drivers) == 1 else None


def device_refusals(shape: GangShape, facts: ClusterFacts, together: Mapping[str, int]) -> tuple[Witness, ...]:
    """Return the proofs that claims of the gang are never allocated, one for each role at most. `together` are the pods
    of each role that surely run at the same time. Raises `Malformed`.
    """
    members = {member.called: member for member in shape.needed if together.get(member.called)}
    claiming = (member for member in members.values() if member.template.spec.get("resourceClaims"))
    found = (_refusal(member, together[member.called], shape, facts) for member in claiming)
    return tuple(one for one in found if one is not None)


def _refusal(member: MemberShape, together: int, shape: GangShape, facts: ClusterFacts) -> Witness | None:
    for claim in claims_of(member.template, shape, facts)[0]:
        least = _least_of_claim(claim.requests)
        if least > MOST_DEVICES:
            why = f"the {claim.called} requests at least {least} devices, and a claim has {MOST_DEVICES} at most"
            # Another claim of that name cures it as well.
            return _witness(member, claim, least, why, "divide the claim into several", own_change=False)
        if claim.name is not None and together > MOST_CONSUMERS:
            why = f"{together} pods use the {claim.called}, and a claim has {MOST_CONSUMERS} consumers at most"
            remedy = "use several claims, or a ResourceClaimTemplate"
            return _witness(member, claim, together, why, remedy, own_change=True)
    return None


def _least_of_claim(requests: Claim) -> int:
    """Return the fewest devices of a claim. "All" may be none, and admin access counts as well."""
    return sum(
        min((0 if one.every else one.number for one in request.alternatives), default=0) for request in requests or ()
    )


def _witness(member: MemberShape, claim: PodClaim, found: int, why: str, remedy: str, *, own_change: bool) -> Witness:
    return Witness(
        family=Family.DEVICES,
        scope=Scope.EVER,
        at=claim.at,
        found=found,
        why=why,
        remedy=remedy,
        condition=_CONDITION,
        members=(member.called,),
        own_change=own_change,
    )

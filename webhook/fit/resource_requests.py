"""What a pod requests, by the arithmetic of one scheduler: resources, whole GPUs of KAI, ResourceClaims and devices.

Amounts are rounded down where schedulers differ. The number of devices of a node is an upper bound that holds whatever
is allocated now. Nothing is claimed of a driver that is unknown, has an incomplete pool, or has a device that can be
used several times. A claim from a template is one for each pod, or one for all pods of a PodGroup that lists it (the
gate DRAWorkloadResourceClaims of Kubernetes 1.37); these, and claims that a workload asks its gangs to share, are left
out. KAI multiplies a number of GPUs by a portion: beside containers that request 0, the GPUs of a sidecar do not count
(seen with v0.16.8).

Source: Kubernetes 1.37, pkg/scheduler/framework/types.go and plugins/noderesources/fit.go;
k8s.io/dynamic-resource-allocation v0.37.0, structured/internal/stable/{allocator,pools}_stable.go; KAI-Scheduler
v0.16.8, pkg/scheduler/api/pod_info/pod_info.go and
pkg/scheduler/api/resource_info/{resource_requirment,gpu_resource_requirment}.go; Volcano v1.15.1,
pkg/scheduler/api/resource_info.go.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

from webhook.fit.gang_shapes import GangShape, MemberShape
from webhook.fit.pod_needs import DeviceNeed, PodNeeds, SharedClaimNeed
from webhook.fit.verdict import FitFamily, FitScope, Witness
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath, Item
from webhook.model.pod_template import (
    HUGE_PAGES,
    PodTemplate,
    requests_of_container,
    total_requests,
    unreadable_request,
)
from webhook.model.quantity import MOST_COUNTED, parse_quantity
from webhook.model.reading import mapping, sequence, text
from webhook.model.resources import ALLOCATED, MOST_CONSUMERS, MOST_DEVICES, Claim, DeviceRequest, Slice, summary_of

# The names under which containers request whole GPUs.
WHOLE_GPUS = ("nvidia.com/gpu", "amd.com/gpu")


class _Unsure(Exception):
    """An amount is not a whole number."""


class _Counted(NamedTuple):
    """GPUs as KAI keeps them: their number, and whether the portion is 1."""

    number: int = 0
    whole: bool = False

    @property
    def gpus(self) -> int:
        return self.number if self.whole else 0

    def add(self, more: _Counted) -> _Counted:
        if self == _NONE:
            return more
        if more == _NONE or more.whole != self.whole:
            return self
        return _Counted(self.number + more.number, self.whole)


_NONE = _Counted()


def whole_gpus(spec: Mapping[str, Any], *, from_limits: bool) -> int:
    """Returns the fewest whole GPUs that KAI counts. `from_limits`: as `total_requests`. Raises `Malformed`."""

    def counted(containers: Iterable[object]) -> _Counted:
        return _counted(requests_of_container(container, from_limits=from_limits) for container in containers)

    try:
        running = counted(sequence(spec.get("containers")))
        sidecars = largest_init = _NONE
        for container in sequence(spec.get("initContainers")):
            container_gpus = counted([container])
            if mapping(container).get("restartPolicy") == "Always":
                sidecars = sidecars.add(container_gpus)
            else:
                largest_init = max(largest_init, container_gpus.add(sidecars), key=lambda count: count.gpus)
        return max(running.add(sidecars).gpus, largest_init.gpus)
    except _Unsure:
        return 0


def _counted(requests: Iterable[Mapping[str, Any]]) -> _Counted:
    sums: dict[str, int] = {}
    for request in requests:
        for name in (name for name in WHOLE_GPUS if name in request):
            amount = parse_quantity(request[name])
            if amount is None or amount < 0 or amount.denominator != 1:
                raise _Unsure
            sums[name] = sums.get(name, 0) + int(amount)
    if not sums:
        return _NONE
    total = sum(sums.values())
    # The order in which KAI reads two names is not fixed. If that with 0 is the last, the number is 1.
    return _Counted(total if total and min(sums.values()) else 1, total > 0)


# The resource "pods": a slot of a node, of which every pod takes one.
SLOTS = "pods"
_OF_EVERY_NODE = frozenset({"cpu", "memory", "ephemeral-storage"})
# Further resources of a pod are not compared. No node has so many.
_MOST_RESOURCES = 32
# A device of a DeviceClass, asked for as if it were an extended resource: dynamic resource allocation places it.
BY_CLASS = "deviceclass.resource.kubernetes.io/"

# How KAI counts GPUs. Whole GPUs, and those of which a pod takes more than half: one such pod a GPU.
GPUS = "nvidia.com/gpu"
# The same GPUs and the parts of GPUs, in thousandths. Annotations ask for parts and for memory (MiB).
GPU_PARTS = "thousandths of nvidia.com/gpu"
GPU_MEMORY = "MiB of GPU memory"
_FRACTION, _MEMORY, _DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
_MIG = "nvidia.com/mig-"
# KAI compares parts as memory, on a node without a label as hundredths.
_PARTS_OF_GPU = 100
_MOST_DIGITS = 64
_OVERFLOW = "the request for {} is more than schedulers can count"
_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}\Z")


@dataclass(frozen=True, slots=True)
class RequestRules:
    """How a scheduler adds up and compares requests. `pod_level`: as in `total_requests`. `kai_gpus`: annotations ask
    for parts of GPUs, and all names that end in "gpu" are one resource. Nothing is claimed of `unsure` prefixes.
    `ignored` resources and groups are not compared; without `compared` none is.
    """

    pod_level: bool = True
    # Whether sums of other resources than cpu and memory are compared in thousandths.
    exact: bool = False
    kai_gpus: bool = False
    unsure: tuple[str, ...] = ()
    ignored: frozenset[str] = frozenset()
    ignored_groups: frozenset[str] = field(default=frozenset())
    compared: bool = True

    def ignores(self, resource: str) -> bool:
        """Returns whether the scheduler does not compare a resource."""
        return resource in self.ignored or resource.partition("/")[0] in self.ignored_groups


OF_KUBERNETES = RequestRules()


def requests_of(template: PodTemplate, rules: RequestRules, *, stored: bool) -> tuple[dict[str, int], tuple[str, ...]]:
    """Returns the least that a pod requests, with its slot, and why other resources are not judged. Raises `Malformed`.
    For a template that is not `stored` a limit counts as request, as the API server defaults it on pods. A limit of the
    whole pod does not: a LimitRange may give its containers lower requests before.
    """
    if not rules.compared:
        return {}, ()
    spec: Mapping[str, Any] = template.spec
    resources = mapping(spec.get("resources"))
    if resources:
        spec = {**spec, "resources": {"requests": resources.get("requests")}}
    totals = total_requests(spec, from_limits=not stored, pod_level=rules.pod_level)
    request: dict[str, int] = {}
    unjudged: list[str] = []
    unsure = (*rules.unsure, BY_CLASS)
    for resource, amount in totals.items():
        pooled = rules.kai_gpus and is_gpu_name(resource) and amount is not None
        # Schedulers skip other names.
        is_compared = resource in _OF_EVERY_NODE or resource.startswith(HUGE_PAGES) or "/" in resource
        if pooled or not is_compared or rules.ignores(resource):
            continue
        if len(request) == _MOST_RESOURCES:
            unjudged.append(f"the resources of a pod above {_MOST_RESOURCES}")
            break
        if amount is None or amount > MOST_COUNTED:
            unreadable = f"{unreadable_request(template.spec, resource)} is not a quantity" if amount is None else ""
            unjudged.append(unreadable or _OVERFLOW.format(resource[:80]))
        elif resource.startswith(unsure):
            if amount > 0:
                unjudged.append(f"the scheduler handles {resource[:80]} in its own way")
        elif (units := _units(resource, amount, exact=rules.exact)) > 0:
            request[resource] = units
    if rules.kai_gpus:
        gpus = _gpus_of_kai(template, from_limits=not stored)
        if any(amount > MOST_COUNTED for amount in gpus.values()):
            unjudged.append(_OVERFLOW.format("GPUs"))
        else:
            request |= gpus
    return {**request, SLOTS: 1}, tuple(unjudged)


def is_gpu_name(resource: str) -> bool:
    return resource.endswith("gpu")


def is_best_effort(request: Mapping[str, int], unjudged: tuple[str, ...] = ()) -> bool:
    """Returns whether a pod surely requests nothing but its slot. Volcano starts a gang without such pods."""
    return not unjudged and request.keys() <= {SLOTS}


def _units(resource: str, amount: Fraction, *, exact: bool) -> int:
    """Returns an amount in the scheduler's units, rounded as the scheduler rounds the sum of a pod."""
    if amount.denominator == 1:
        return amount.numerator * (1000 if resource == "cpu" else 1)
    if resource == "cpu":
        return math.ceil(amount * 1000)
    return math.floor(amount) if exact and resource != "memory" else math.ceil(amount)


def _gpus_of_kai(template: PodTemplate, *, from_limits: bool) -> dict[str, int]:
    """Returns what a pod requests of GPUs. An annotation for a part of a GPU replaces the requests of containers."""
    if any(key.startswith(_MIG) for key in template.annotations):
        # An older form of a request for a part. It replaces all others.
        return {}
    whole = whole_gpus(template.spec, from_limits=from_limits)
    part, memory = _part(template.annotations), _number(template.annotations, _MEMORY)
    if part is not None:
        devices = _devices(template.annotations)
        return _positive({GPUS: devices if 2 * part > _PARTS_OF_GPU else 0, GPU_PARTS: 10 * part * devices})
    if memory is not None and memory > 0:
        return _positive({GPU_MEMORY: memory * _devices(template.annotations)})
    return _positive({GPUS: whole, GPU_PARTS: 1000 * whole})


def _positive(amounts: Mapping[str, int]) -> dict[str, int]:
    return {resource: amount for resource, amount in amounts.items() if amount > 0}


def _part(annotations: Mapping[str, Any]) -> int | None:
    """Returns the part of a GPU in hundredths, rounded down; None without a valid one."""
    written = text(annotations.get(_FRACTION)) or ""
    if len(written) > _MOST_DIGITS:
        return 0
    if not written.isascii() or "_" in written:
        # Python reads such numbers, and Go does not.
        return None
    try:
        part = float(written)
    except ValueError:
        # Go reads more forms of numbers, so a text that has a digit may still be one.
        return 0 if any(character.isdigit() for character in written) else None
    return math.floor(part * _PARTS_OF_GPU) if 0 < part <= 1 else None


def _devices(annotations: Mapping[str, Any]) -> int:
    if not text(annotations.get(_DEVICES)):
        return 1
    return max(_number(annotations, _DEVICES) or 0, 0)


def _number(annotations: Mapping[str, Any], key: str) -> int | None:
    written = text(annotations.get(key)) or ""
    return int(written) if _DECIMAL.match(written) else None


_GROUPS = ("schedulingGroup", "workloadRef")
# Further claims of a pod are not read: without them it needs less.
_MOST_CLAIMS = 16


class PodClaim(NamedTuple):
    """A claim of a pod, at the entry that names it. `name` is that of the ResourceClaim that pods share, None for one
    that is made for each pod. `requests` is None if they are unknown.
    """

    at: FieldPath
    requests: Claim
    name: str | None = None
    # In messages.
    called: str = ""


def claims_of(template: PodTemplate, shape: GangShape, facts: ClusterFacts) -> tuple[list[PodClaim], tuple[str, ...]]:
    """Returns the claims of each pod of a template, and what is unknown of them, in words. Raises `Malformed`."""
    # Rollcall's PodGroups list only the claims that the workload asks for, and stored pods are in these.
    grouped_elsewhere = not shape.stored and any(template.spec.get(field) for field in _GROUPS)
    shared_names = {claim.shared.name for claim in shape.record.claims}
    claims: list[PodClaim] = []
    stated_claims = sequence(template.spec.get("resourceClaims"))
    for index, entry in enumerate(stated_claims[:_MOST_CLAIMS]):
        stated = mapping(entry)
        name, from_template = text(stated.get("resourceClaimName")), text(stated.get("resourceClaimTemplateName"))
        claim_name = text(stated.get("name")) or ""
        if grouped_elsewhere or claim_name in shared_names or (name is None) == (from_template is None):
            # Which pods share it depends on a group that is not known here.
            continue
        at = template.spec_path / "resourceClaims" / Item(index, claim_name)
        if name is not None:
            by_name: Mapping[Any, Claim] | None = facts.resource_claims
            claims.append(PodClaim(at, (by_name or {}).get((shape.namespace, name)), name, f"ResourceClaim {name}"))
        else:
            by_name = facts.resource_claim_templates
            requests = (by_name or {}).get((shape.namespace, from_template or ""))
            claims.append(PodClaim(at, requests, None, f"ResourceClaimTemplate {from_template}"))
    unknown: dict[str, None] = {}
    for claim in claims:
        if claim.requests is None:
            unknown[f"the requests of the {claim.called} are unknown"] = None
        elif claim.requests == ALLOCATED and claim.name is not None:
            unknown[f"the {claim.called} has its devices, and which nodes reach these is not known"] = None
    if len(stated_claims) > _MOST_CLAIMS:
        unknown[f"the ResourceClaims of a pod above {_MOST_CLAIMS}"] = None
    return claims, tuple(unknown)


# More devices than any node has.
UNBOUNDED = 2**40
# The key of all drivers together.
ALL_DRIVERS = ""


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

    def devices_of(self, node: str) -> dict[str, int]:
        """Returns the most devices that a node can have of each driver, and of all together under `ALL_DRIVERS`."""
        on_node = self.nodes.get(node, {})
        devices = {
            driver: UNBOUNDED if driver in self.unsure or not on_node.get(driver) else on_node[driver] + number
            for driver, number in self.anywhere.items()
        }
        return {**devices, ALL_DRIVERS: min(sum(devices.values()), UNBOUNDED)}


class DevicesByNode(Mapping[str, Mapping[str, int]]):
    """The most devices of each driver that a node can have, by its name, also for a node without any slice."""

    def __init__(self, devices: NodeDevices) -> None:
        self._devices = devices
        self._by_name: dict[str, Mapping[str, int]] = {}

    def __getitem__(self, node: str) -> Mapping[str, int]:
        devices = self._by_name.get(node)
        if devices is None:
            devices = self._by_name[node] = self._devices.devices_of(node)
        return devices

    def __iter__(self) -> Iterator[str]:
        return iter(self._devices.nodes)

    def __len__(self) -> int:
        return len(self._devices.nodes)


class PodDevices(NamedTuple):
    """The devices of one pod: `each` for each pod, `shared` once for a claim. `unknown` says what is left out."""

    each: tuple[DeviceNeed, ...] = ()
    shared: tuple[SharedClaimNeed, ...] = ()
    unknown: tuple[str, ...] = ()


def devices_on(facts: ClusterFacts) -> NodeDevices | None:
    """Returns the devices of the cluster; None if they are unknown, or only some are known."""
    if facts.resource_slices is None or "resource_slices" in (facts.partial or ()):
        return None
    return summary_of(facts.resource_slices, _devices_in)


def devices_by_node(facts: ClusterFacts) -> DevicesByNode | None:
    """Returns the devices of each node, one object for the same slices; None unless all are known."""
    if facts.resource_slices is None or "resource_slices" in (facts.partial or ()):
        return None
    return summary_of(facts.resource_slices, _devices_by_node)


def _devices_by_node(slices: Mapping[str, Slice]) -> DevicesByNode:
    return DevicesByNode(_devices_in(slices))


def _devices_in(slices: Mapping[str, Slice]) -> NodeDevices:
    newest: dict[tuple[str, str], int] = {}
    for resource_slice in slices.values():
        pool = (resource_slice.driver, resource_slice.pool)
        newest[pool] = max(resource_slice.generation, newest.get(pool, resource_slice.generation))
    seen: dict[tuple[str, str], set[str]] = {}
    for resource_slice in slices.values():
        pool = (resource_slice.driver, resource_slice.pool)
        if resource_slice.generation == newest[pool]:
            seen.setdefault(pool, set()).update(node for node, _ in resource_slice.nodes if node)
    nodes: dict[str, dict[str, int]] = {}
    anywhere: dict[str, int] = {}
    present: dict[tuple[str, str], int] = {}
    unsure: set[str] = set()
    missing: dict[tuple[str, str], int] = {}
    for resource_slice in slices.values():
        pool = (resource_slice.driver, resource_slice.pool)
        anywhere.setdefault(resource_slice.driver, 0)
        if resource_slice.generation != newest[pool]:
            if any(node not in seen[pool] for node, _ in resource_slice.nodes):
                # Nodes that the newer slices do not concern still have the devices of the older one.
                unsure.add(resource_slice.driver)
            continue
        present[pool] = present.get(pool, 0) + 1
        missing[pool] = resource_slice.slices
        if resource_slice.shared:
            unsure.add(resource_slice.driver)
        for node, number in resource_slice.nodes:
            if node:
                of_node = nodes.setdefault(node, {})
                of_node[resource_slice.driver] = of_node.get(resource_slice.driver, 0) + number
            else:
                anywhere[resource_slice.driver] += number
    unsure.update(driver for (driver, pool), number in missing.items() if present[driver, pool] != number)
    return NodeDevices(nodes, anywhere, frozenset(unsure))


def device_needs_of(member: MemberShape, shape: GangShape, facts: ClusterFacts) -> PodDevices:
    """Returns the devices that each pod of a member needs, at least. Raises `Malformed`."""
    claims, unknown = claims_of(member.template, shape, facts)
    devices = devices_on(facts)
    if devices is None:
        return PodDevices(unknown=("the ResourceSlices are unknown",) if claims else ())
    device_needs = [need for claim in claims if claim.name is None for need in _needs(claim, facts, devices)]
    shared = [
        SharedClaimNeed(claim.name, needs)
        for claim in claims
        if claim.name is not None and (needs := tuple(_needs(claim, facts, devices)))
    ]
    uncounted = (
        f"which nodes have the devices of the {claim.called} is not known"
        for claim in claims
        for request in claim.requests or ()
        if _driver(request, facts) not in devices.drivers or request.admin
    )
    return PodDevices(tuple(device_needs), tuple(shared), (*unknown, *dict.fromkeys(uncounted)))


def add_device_needs(needs: PodNeeds, member: MemberShape, shape: GangShape, facts: ClusterFacts) -> PodNeeds:
    """Returns the needs of a pod with those of its devices. Raises `Malformed`."""
    if not member.template.spec.get("resourceClaims"):
        return needs
    pod_devices = device_needs_of(member, shape, facts)
    return replace(
        needs,
        devices=pod_devices.each,
        shared_devices=pod_devices.shared,
        unjudged=(*needs.unjudged, *pod_devices.unknown),
    )


def _needs(claim: PodClaim, facts: ClusterFacts, devices: NodeDevices) -> Iterable[DeviceNeed]:
    for request in claim.requests or ():
        driver = _driver(request, facts)
        number = _least(request)
        # A driver without any slice may come with devices for every node.
        if driver in devices.drivers and number and not request.admin:
            yield DeviceNeed(request.alternatives[0].device_class, number, claim.at, driver)


def _least(request: DeviceRequest) -> int:
    return min((alternative.number for alternative in request.alternatives), default=0)


def _driver(request: DeviceRequest, facts: ClusterFacts) -> str | None:
    """Returns the driver of the devices of a request, whichever alternative is taken; None if it is not sure."""
    classes = facts.device_classes or {}
    drivers = set()
    for alternative in request.alternatives:
        of_class = classes.get(alternative.device_class)
        drivers.add(alternative.driver or (None if of_class is None else of_class.driver))
    return drivers.pop() if len(drivers) == 1 else None


def device_refusals(shape: GangShape, facts: ClusterFacts, together: Mapping[str, int]) -> tuple[Witness, ...]:
    """Returns the proofs that claims are never allocated. `together`: pods that run at once. Raises `Malformed`."""
    members = {member.called: member for member in shape.needed if together.get(member.called)}
    claiming = (member for member in members.values() if member.template.spec.get("resourceClaims"))
    refusals = (_refusal(member, together[member.called], shape, facts) for member in claiming)
    return tuple(witness for witness in refusals if witness is not None)


def _refusal(member: MemberShape, together: int, shape: GangShape, facts: ClusterFacts) -> Witness | None:
    for claim in claims_of(member.template, shape, facts)[0]:
        # "All" may be no device, and admin access counts as well.
        numbers = (
            [0 if device.every else device.number for device in request.alternatives]
            for request in claim.requests or ()
        )
        least = sum(min(of_request, default=0) for of_request in numbers)
        if least > MOST_DEVICES:
            why = f"the {claim.called} requests at least {least} devices, and a claim has {MOST_DEVICES} at most"
            remedy = "divide the claim into several"
        elif claim.name is not None and together > MOST_CONSUMERS:
            why = f"{together} pods use the {claim.called}, and a claim has {MOST_CONSUMERS} consumers at most"
            remedy = "use several claims, or a ResourceClaimTemplate"
        else:
            continue
        is_large = least > MOST_DEVICES
        return Witness(
            family=FitFamily.DEVICES,
            scope=FitScope.EVER,
            at=claim.at,
            value=least if is_large else together,
            why=why,
            remedy=remedy,
            condition="C0",
            members=(member.called,),
            # Another claim of that name cures a large claim as well.
            own_change=not is_large,
        )
    return None

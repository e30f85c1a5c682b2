"""The ceilings on a gang: LimitRanges, ResourceQuotas, and quotas of Kueue's ClusterQueues. No node cures a ceiling
(C0).

The API server creates no pod that breaks a LimitRange or exceeds a ResourceQuota. Only what a template states counts,
because LimitRanges and webhooks may add to it; stored pods have passed. Kueue admits a workload as a whole and gives
each pod set one flavor of each resource. So a pod set has at most the largest quota of a flavor, and all of them the
sum; without a borrowingLimit the quota of a cohort is not known. Of a group that needs some of its children the
cheapest count, for each resource by itself.

Source: Kubernetes 1.37, plugin/pkg/admission/limitranger/admission.go (`PodValidateLimitFunc`),
pkg/quota/v1/evaluator/core/{pods,resource_claims}.go, pkg/quota/v1/generic/evaluator.go; kubernetes-sigs/kueue v0.19,
pkg/scheduler/flavorassigner/flavorassigner.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from webhook.fit.domains import need_at, roles_of
from webhook.fit.gang_shapes import GangShape, MemberShape
from webhook.fit.packing import Ceiling, Ceilings, Need, Packing, PackingRole, PodsNeed, Room
from webhook.fit.placement import Spot
from webhook.fit.resource_requests import BY_CLASS, SLOTS, claims_of
from webhook.fit.verdict import FitFamily, FitScope, Shortfall, Witness, amount_text, count_text, resource_amount_text
from webhook.model import kueue
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, FieldPath, Item
from webhook.model.findings import shown
from webhook.model.kueue_objects import ClusterQueue
from webhook.model.pod_template import HUGE_PAGES, PodTemplate, total_requests
from webhook.model.quantity import (
    LARGEST_AMOUNT,
    MOST_COUNTED,
    Amounts,
    is_cpu,
    parse_quantity,
    rounded_down,
    rounded_up,
)
from webhook.model.reading import integer, mapping, sequence, text
from webhook.model.resources import MOST_DEVICES, Claim, NamespaceQuota, QuotaScope, ResourceRange, objects_in_namespace
from webhook.workloads.kueue_integration import Held, HeldBy

# How many queues or quotas are tried for one that allows a gang.
MOST_TRIED = 128
# What one pod of a role counts against a limit.
Counted: TypeAlias = Callable[[PackingRole], Mapping[str, int]]


def templates_of(shape: GangShape) -> dict[str, PodTemplate]:
    return {member.called: member.template for member in shape.members}


def queue_request(role: PackingRole) -> Mapping[str, int]:
    """Returns what one pod of a role requests, without its slot on a node: no queue counts slots."""
    return {resource: amount for resource, amount in role.pods.request.items() if resource != SLOTS}


def demand_of(
    shape: GangShape, roles: Mapping[str, PackingRole], counted: Counted, only: Iterable[str]
) -> dict[str, int]:
    """Returns what the pods that a gang needs of some roles count together."""
    limited = frozenset(only)
    pods: dict[str, int] = {}
    for member in shape.needed:
        if member.called in limited:
            pods[member.called] = pods.get(member.called, 0) + member.minimum
    demand: dict[str, int] = {}
    for name, number in pods.items():
        for resource, quantity in counted(roles[name]).items() if name in roles else ():
            demand[resource] = demand.get(resource, 0) + quantity * number
    return demand


def allows(ceiling: Ceiling, shape: GangShape, roles: Mapping[str, PackingRole]) -> bool:
    """Returns whether a limit allows the pods that a gang needs, if it starts them all at one moment."""
    only = roles.keys() if ceiling.roles is None else ceiling.roles
    demand = demand_of(shape, roles, ceiling.counted or queue_request, only)
    return all(demand.get(resource, 0) <= max(amount, 0) for resource, amount in ceiling.amounts.items())


def exact_requests(template: PodTemplate, *, overhead: bool = True) -> dict[str, Fraction]:
    """Returns what a pod requests, without what cannot be read or overflows. Raises `Malformed`."""
    spec: Mapping[str, Any] = template.spec if overhead else {**template.spec, "overhead": None}
    if resources := mapping(spec.get("resources")):
        # A LimitRange may give containers lower requests before the limits of the whole pod become requests.
        spec = {**spec, "resources": {"requests": resources.get("requests")}}
    return _readable(total_requests(spec))


def exact_limits(template: PodTemplate) -> dict[str, Fraction]:
    """Returns the limits of a pod, without overhead and what cannot be read. Raises `Malformed`."""
    spec = template.spec
    limits: dict[str, Any] = {}
    for kind in ("containers", "initContainers"):
        limits[kind] = []
        for container in map(mapping, sequence(spec.get(kind))):
            as_requests = {"requests": dict(mapping(mapping(container.get("resources")).get("limits")))}
            limits[kind].append({"resources": as_requests, "restartPolicy": container.get("restartPolicy")})
    resources = mapping(spec.get("resources"))
    totals = total_requests({**limits, "resources": {"requests": resources.get("limits")}}, from_limits=False)
    return _readable(totals)


def _readable(totals: Mapping[str, Fraction | None]) -> dict[str, Fraction]:
    return {name: amount for name, amount in totals.items() if amount is not None and amount <= MOST_COUNTED}


def round_down(exact: Mapping[str, Fraction]) -> dict[str, int]:
    return {name: rounded_down(name, amount) for name, amount in exact.items()}


_CONDITION = "C0"
_MILLI = 1000
# Further LimitRanges of a namespace are not read: without them more is allowed.
_MOST_RANGES = 32
# Go compares ratios as floating point numbers in thousandths.
_TOLERANCE = Fraction(1, 100)


class _Stated(NamedTuple):
    """What a container, or a pod, states: its requests and limits, and where."""

    at: FieldPath
    requests: Mapping[str, Fraction]
    limits: Mapping[str, Fraction]


class _Bound(NamedTuple):
    """A bound on a resource, and the LimitRange that sets it."""

    amount: Fraction
    name: str


class _Bounds(NamedTuple):
    """The bounds on each Pod or Container, by resource."""

    most: dict[str, _Bound]
    least: dict[str, _Bound]
    ratio: dict[str, _Bound]


def refusals_of(shape: GangShape, facts: ClusterFacts) -> tuple[tuple[Witness, ...], tuple[str, ...]]:
    """Returns the proofs that pods are never created, one for each role, and what is unknown. Raises `Malformed`."""
    if shape.stored:
        return (), ()
    if facts.limit_ranges is None:
        return (), ("the LimitRanges of the namespace are unknown",)
    ranges = objects_in_namespace(facts.limit_ranges, shape.namespace)
    unknown = [f"the LimitRanges of the namespace above {_MOST_RANGES}"] if len(ranges) > _MOST_RANGES else []
    if not facts.is_whole("limit_ranges"):
        unknown.append("whether the namespace has other LimitRanges")
    strictest = _strictest(ranges[:_MOST_RANGES])
    members = {member.called: member for member in shape.needed} if strictest else {}
    witnesses = (next(_refusals(member, strictest), None) for member in members.values())
    return tuple(witness for witness in witnesses if witness is not None), tuple(unknown)


def _refusals(member: MemberShape, strictest: Mapping[str, _Bounds]) -> Iterator[Witness]:
    for of, bounds in strictest.items():
        for stated in _containers(member.template) if of == "Container" else (_stated_by_pod(member.template),):
            for at, value, (name, what), remedy in _broken(of, bounds, stated):
                why = f"the LimitRange {shown(name)} {what} of a {of}"
                yield Witness(
                    family=FitFamily.QUOTA,
                    scope=FitScope.EVER,
                    at=at,
                    value=value,
                    why=f"{why}, so no pod of {member.called} is created",
                    remedy=remedy,
                    condition=_CONDITION,
                    members=(member.called,),
                )


def _strictest(ranges: list[tuple[str, tuple[ResourceRange, ...]]]) -> dict[str, _Bounds]:
    """Returns the strictest bounds of all LimitRanges, so that the work for a container does not grow with these."""
    strictest: dict[str, _Bounds] = {}
    for name, items in ranges:
        for item in items:
            bounds = strictest.setdefault(item.of, _Bounds({}, {}, {}))
            for kept, stated, sign in (
                (bounds.most, item.most, 1),
                (bounds.least, item.least, -1),
                (bounds.ratio, item.ratio, 1),
            ):
                for resource, quantity in stated.items():
                    if resource not in kept or sign * quantity < sign * kept[resource].amount:
                        kept[resource] = _Bound(quantity, name)
    return strictest


def _broken(of: str, bounds: _Bounds, stated: _Stated) -> Iterator[tuple[FieldPath, str, tuple[str, str], str]]:
    """Yields where a container or pod breaks a bound: field, value, which LimitRange allows what, and the remedy."""
    kinds = (("limits", stated.limits), ("requests", stated.requests))
    amounts = [(kind, resource, quantity) for kind, sums in kinds for resource, quantity in sums.items()]
    for kind, resource, quantity in amounts:
        most = bounds.most.get(resource)
        if most is not None and _more(resource, quantity, most.amount):
            at, allowed = stated.at / kind / resource, _written(resource, most.amount)
            what = (most.name, f"allows at most {allowed} {resource}")
            yield at, _written(resource, quantity), what, f"set it to {allowed} or less"
    # A pod's sum may grow by what a LimitRange fills in.
    for kind, resource, quantity in amounts if of == "Container" else ():
        least = bounds.least.get(resource)
        if least is not None and _more(resource, least.amount, quantity):
            at, demanded = stated.at / kind / resource, _written(resource, least.amount)
            what = (least.name, f"demands at least {demanded} {resource}")
            yield at, _written(resource, quantity), what, f"set it to {demanded} or more"
    for resource, limit in stated.limits.items() if of == "Container" else ():
        ratio, request = bounds.ratio.get(resource), stated.requests.get(resource)
        if ratio is None or not request or not limit or max(limit, request, ratio.amount) > MOST_COUNTED:
            continue
        if limit / request > ratio.amount + _TOLERANCE:
            at, value = stated.at / "limits" / resource, _written(resource, limit)
            what = (ratio.name, f"allows at most a limit of {float(ratio.amount):g} times the request for {resource}")
            yield at, value, what, "lower the limit, or raise the request"


def _more(resource: str, amount: Fraction, than: Fraction) -> bool:
    """Returns whether an amount is surely more than another, both rounded up, as the API server compares them."""
    if max(amount, than) > MOST_COUNTED:
        return False
    return rounded_up(resource, amount) > rounded_up(resource, than)


def _containers(template: PodTemplate) -> Iterator[_Stated]:
    for kind in ("containers", "initContainers"):
        for index, entry in enumerate(sequence(template.spec.get(kind))):
            container = mapping(entry)
            name = text(container.get("name")) or str(index)
            at = template.spec_path / kind / Item(index, name) / "resources"
            resources = mapping(container.get("resources"))
            requests, limits = _amounts(resources.get("requests")), _amounts(resources.get("limits"))
            # The API server sets a missing request to the limit.
            yield _Stated(at, {**limits, **requests}, limits)


def _amounts(stated: object) -> dict[str, Fraction]:
    read = {name: parse_quantity(amount) for name, amount in mapping(stated).items()}
    amounts = {name: amount for name, amount in read.items() if amount is not None and amount >= 0}
    # The API server rounds every quantity of a pod up to thousandths.
    return {name: Fraction(math.ceil(amount * _MILLI), _MILLI) for name, amount in amounts.items()}


def _stated_by_pod(template: PodTemplate) -> _Stated:
    """Returns what a whole pod states, at least, without the overhead. Of huge pages LimitRanges add up containers."""
    resources = mapping(template.spec.get("resources"))
    stated = {
        part: {name: amount for name, amount in mapping(resources.get(part)).items() if not name.startswith(HUGE_PAGES)}
        for part in ("requests", "limits")
    }
    spec = {**template.spec, "overhead": None, "resources": {"requests": stated["requests"]}}
    requests = {name: amount for name, amount in total_requests(spec).items() if amount is not None}
    at = template.spec_path / ("resources" if resources else "containers")
    return _Stated(at, requests, exact_limits(template.replace_spec({**template.spec, "resources": stated})))


def _written(resource: str, amount: Fraction) -> str:
    if amount.denominator != 1:
        return f"{-(-amount * _MILLI // 1)}m" if is_cpu(resource) else f"{float(amount):g}"
    whole = int(amount)
    for suffix, size in (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if whole and not is_cpu(resource) and "/" not in resource and whole % size == 0:
            return f"{whole // size}{suffix}"
    return str(whole)


# Further quotas of a namespace are not read: without them more is allowed.
_MOST_QUOTAS = 32
_REQUESTS, _LIMITS = "requests.", "limits."
_PODS = ("pods", "count/pods")
_OF_CLASS = ".deviceclass.resource.k8s.io/devices"
# These are counted under their own name as well as with "requests.". Extended ones only with it, others not at all.
_PLAIN = frozenset({"cpu", "memory", "ephemeral-storage"})
_NATIVE = "kubernetes.io/"
_COMPUTE = frozenset({"cpu", "memory"})


def namespace_ceilings(shape: GangShape, facts: ClusterFacts) -> Ceilings:
    """Returns the ResourceQuotas that limit a gang, under any scheduler. Raises `Malformed`."""
    if shape.stored:
        return Ceilings()
    if facts.resource_quotas is None:
        return Ceilings(unknown=("the ResourceQuotas of the namespace are unknown",))
    quotas = objects_in_namespace(facts.resource_quotas, shape.namespace)
    unknown = [] if facts.is_whole("resource_quotas") else ["whether the namespace has other ResourceQuotas"]
    if not quotas:
        return Ceilings(unknown=tuple(unknown))
    templates = {member.called: member.template for member in shape.needed}
    charged = {name: charge_of(template, shape, facts) for name, template in templates.items()}
    requesting = {
        role: any((parse_quantity(amount) or 0) > 0 for amount in _compute(template))
        for role, template in templates.items()
    }
    ceilings: list[Ceiling] = []
    if len(quotas) > _MOST_QUOTAS:
        unknown.append(f"the ResourceQuotas of the namespace above {_MOST_QUOTAS}")
    for name, quota in quotas[:_MOST_QUOTAS]:
        if quota.hard is None:
            unknown.append(f"the ResourceQuota {shown(name)} cannot be read")
        else:
            roles = frozenset(
                role
                for role, template in templates.items()
                if all(_surely_matches(scope, template, requesting=requesting[role]) for scope in quota.scopes)
            )
            ceilings += _ceilings(name, quota, quota.hard, charged, roles)
            if not quota.in_force:
                unknown.append(f"the ResourceQuota {shown(name)} is not in force yet")
    return Ceilings(tuple(ceilings), tuple(unknown))


def _ceilings(
    name: str, quota: NamespaceQuota, hard: Amounts, charged: Mapping[str, Amounts], roles: frozenset[str]
) -> Iterator[Ceiling]:
    """Yields the ceilings of a quota. Devices of claims have no scopes."""
    of_claims = {key: amount for key, amount in hard.items() if key.endswith(_OF_CLASS)}
    of_pods: dict[str, int] = {}
    for key, quantity in hard.items():
        if key not in of_claims:
            plain = key.removeprefix(_REQUESTS)
            name_here = "pods" if key in _PODS else plain if _is_plain(plain) else key
            of_pods[name_here] = min(quantity, of_pods.get(name_here, quantity))
    for limits, only in ((of_pods, roles), (of_claims if not quota.scopes else {}, frozenset(charged))):
        # A quota may count many other objects.
        amounts = {key: amount for key, amount in limits.items() if any(charged[role].get(key) for role in only)}
        if amounts:

            def counted(role: PackingRole) -> Amounts:
                return charged.get(role.name, {})

            yield Ceiling(
                "the ResourceQuota", name, amounts, FitFamily.QUOTA, FitScope.EVER, counted=counted, roles=only
            )


def _is_plain(resource: str) -> bool:
    return resource in _PLAIN or resource.startswith(HUGE_PAGES)


def charge_of(template: PodTemplate, shape: GangShape, facts: ClusterFacts) -> Amounts:
    """Returns what one pod of a template counts against quotas, at least. Raises `Malformed`."""
    requests, limits = round_down(exact_requests(template)), round_down(exact_limits(template))
    charge = {name: amount for name, amount in requests.items() if _is_plain(name)}
    # A quota counts no other resources than these with "requests.", though it may name them.
    extended = (name for name in requests if name.startswith(BY_CLASS) or ("/" in name and _NATIVE not in name))
    charge |= {_REQUESTS + name: requests[name] for name in extended}
    charge |= {_LIMITS + name: amount for name, amount in limits.items() if name in _PLAIN}
    for claim in claims_of(template, shape, facts)[0]:
        # A claim that pods share exists already.
        if claim.name is None:
            for key, number in _devices(claim.requests).items():
                charge[key] = charge.get(key, 0) + number
    return {**charge, "pods": 1}


def _devices(requests: Claim) -> dict[str, int]:
    """Returns the devices of each class that a claim counts: of a request with alternatives the most of each class."""
    devices: dict[str, int] = {}
    for request in requests or ():
        most: dict[str, int] = {}
        for alternative in request.alternatives:
            number = MOST_DEVICES if alternative.every else alternative.number
            most[alternative.device_class] = max(number, most.get(alternative.device_class, 0))
        for device_class, number in most.items():
            key = device_class + _OF_CLASS
            devices[key] = devices.get(key, 0) + number
    return devices


def _surely_matches(scope: QuotaScope, template: PodTemplate, *, requesting: bool) -> bool:
    """Returns whether a scope matches all pods of a template. `requesting`: they request cpu or memory."""
    spec = template.spec
    if scope.name == "Terminating":
        seconds = integer(spec.get("activeDeadlineSeconds"))
        return seconds is not None and seconds >= 0
    if scope.name == "NotTerminating":
        return spec.get("activeDeadlineSeconds") is None
    if scope.name == "NotBestEffort":
        return requesting
    if scope.name == "PriorityClass":
        # A pod that names no class gets the default one.
        priority_class = text(spec.get("priorityClassName"))
        holds = {"Exists": True, "In": priority_class in scope.values, "NotIn": priority_class not in scope.values}
        return priority_class is not None and holds.get(scope.operator, False)
    # A LimitRange may give a pod without requests some. Affinity across namespaces is not looked at.
    return False


def _compute(template: PodTemplate) -> Iterator[object]:
    """Yields the cpu and memory that decide whether a pod is BestEffort: those of the pod, if it has resources of its
    own, else those of its containers. Up to Kubernetes 1.36 empty resources of the pod leave out its containers, too.

    Source: k8s.io/kubernetes v1.36.3, pkg/apis/core/v1/helper/qos/qos.go, ComputePodQOS.
    """
    spec = template.spec
    of_pod = spec.get("resources") is not None
    holders = (spec,) if of_pod else (*sequence(spec.get("containers")), *sequence(spec.get("initContainers")))
    for holder in holders:
        resources = mapping(mapping(holder).get("resources"))
        for part in ("requests", "limits"):
            stated = mapping(resources.get(part))
            yield from (stated[name] for name in _COMPUTE & stated.keys())


ASSUMED = "the configuration of Kueue leaves out and transforms no resource that the workload requests"


class KueueLimits(NamedTuple):
    """The proofs that Kueue never admits a workload, what they rely on, and what is not known of its quotas."""

    refusals: tuple[Witness, ...] = ()
    unknown: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = (ASSUMED,)


def kueue_limits(by_kueue: Held, namespace: str, facts: ClusterFacts) -> KueueLimits:
    """Returns what the quotas of Kueue say of a workload that it holds. Raises `Malformed`."""
    local = (facts.local_queues or {}).get((namespace, by_kueue.queue or ""))
    name = None if local is None else local.cluster_queue
    queue = (facts.cluster_queues or {}).get(name or "")
    if queue is None or queue.quotas is None or name is None:
        return KueueLimits(unknown=(f"the ClusterQueue of the LocalQueue {shown(by_kueue.queue)} is unknown",))
    if by_kueue.by is HeldBy.ELASTIC:
        return KueueLimits()
    requested: list[Mapping[str, int]] = []
    for pods in by_kueue.pod_sets:
        least = pods.count if pods.min_count is None else pods.min_count
        requests = round_down(exact_requests(pods.template))
        requested.append({resource: amount * least for resource, amount in requests.items()})
    resources = dict.fromkeys(resource for amounts in requested for resource, needed in amounts.items() if needed)
    refusals: list[Witness] = []
    unknown: list[str] = []
    for resource in resources:
        limits, why = _limits(resource, name, queue)
        if why:
            unknown.append(why)
        elif witness := _refusal(resource, [amounts.get(resource, 0) for amounts in requested], limits, name, by_kueue):
            refusals.append(witness)
    return KueueLimits(tuple(refusals), tuple(unknown))


def _limits(resource: str, name: str, queue: ClusterQueue) -> tuple[Sequence[int], str]:
    """Returns the most that each flavor gives of a resource, or why that is not known."""
    quotas = [quota for quota in queue.quotas or () if quota.resource == resource]
    if not quotas:
        why = "Kueue admits no such workload unless its configuration leaves it out"
        return (), f"the ClusterQueue {shown(name)} does not cover {resource[:80]}, and {why}"
    limits: list[int] = []
    for quota in quotas:
        stated = [quota.nominal]
        if queue.cohort is not None:
            if quota.borrowing is None:
                return (), f"how much {resource[:80]} the cohort {shown(queue.cohort)} lends is not known"
            stated.append(quota.borrowing)
        numbers = [parse_quantity(quantity) for quantity in stated]
        amounts = [rounded_up(resource, number) for number in numbers if number is not None]
        if len(amounts) < len(stated) or not all(0 <= amount <= LARGEST_AMOUNT for amount in amounts):
            return (), f"the quota of {resource[:80]} in the ClusterQueue {shown(name)} cannot be read"
        limits.append(sum(amounts))
    return limits, ""


def _refusal(
    resource: str, requested: Sequence[int], limits: Sequence[int], name: str, by_kueue: Held
) -> Witness | None:
    """Returns the proof that the quota is too small: for all pods, or for those of one pod set."""
    needed, most, what = sum(requested), sum(limits), "the workload requests"
    if needed <= most:
        needed, most, what = max(requested), max(limits), "the pods of one part request"
    if needed <= most:
        return None
    return Witness(
        family=FitFamily.QUEUE,
        scope=FitScope.EVER,
        at=by_kueue.path or LABELS / kueue.QUEUE_NAME,
        value=resource_amount_text(resource, needed),
        why=f"{what} {resource_amount_text(resource, needed)}, and the ClusterQueue {shown(name)} gives "
        f"{amount_text(resource, most)} "
        "at most, so Kueue never admits it",
        remedy="request less, raise the quota, or name a LocalQueue of a larger ClusterQueue",
        condition=_CONDITION,
        shortfalls=(Shortfall(resource, needed, most),),
    )


# What one pod of a role counts.
Weight = Callable[[PackingRole], int]


def ceiling_witness(packing: Packing, room: Room | None) -> Witness | None:
    """Returns the proof that a set of the packing is above a ceiling, or None."""
    nodes_are_fixed = room is not None and not room.grows and room.unknown is None
    for ceiling in packing.ceilings:
        if ceiling.scope is FitScope.ON_THESE_NODES and not nodes_are_fixed:
            continue
        for resource, limit in ceiling.amounts.items():
            weight = _weight(ceiling, resource)
            for need in packing.sets:
                needed = _least(need, weight, {})
                # A limit below 0 does not hold back what requests none of it.
                if needed > max(limit, 0):
                    return _witness(ceiling, resource, needed, limit, need, weight)
    return None


def keeps_ceilings(spots: Iterable[Spot], need: Need, packing: Packing) -> bool:
    pods: list[tuple[PackingRole, int]] = []
    for spot in spots:
        leaf = need_at(need, spot.path)
        if isinstance(leaf, PodsNeed):
            pods.append((leaf.role, spot.number * spot.pods))
    return all(
        sum(_weight(ceiling, resource)(role) * count for role, count in pods) <= limit
        for ceiling in packing.ceilings
        for resource, limit in ceiling.amounts.items()
    )


def _weight(ceiling: Ceiling, resource: str) -> Weight:
    weights: dict[str, int] = {}

    def weight(role: PackingRole) -> int:
        if ceiling.roles is not None and role.name not in ceiling.roles:
            return 0
        if role.name not in weights:
            counts = role.pods.request if ceiling.counted is None else ceiling.counted(role)
            weights[role.name] = max(counts.get(resource, 0), 0)
        return weights[role.name]

    return weight


def _least(need: Need, weight: Weight, sums: dict[int, int]) -> int:
    """Returns the smallest sum of a need. Equal children are mostly the same object, and summed once."""
    if isinstance(need, PodsNeed):
        return weight(need.role) * max(need.count, 0)
    values = []
    for child in need.needs:
        if (value := sums.get(id(child))) is None:
            value = sums[id(child)] = _least(child, weight, sums)
        values.append(value)
    return sum(sorted(values)[: max(need.count, 0)])


def least_of_each(need: Need, of_children: dict[int, dict[str, int]]) -> dict[str, int]:
    """Returns the smallest number of pods of each role by its name. Equal children are counted once, as in `_least`."""
    if isinstance(need, PodsNeed):
        return {need.role.name: max(need.count, 0)}
    values: dict[str, list[int]] = {}
    for child in need.needs:
        if (fewest := of_children.get(id(child))) is None:
            fewest = of_children[id(child)] = least_of_each(child, of_children)
        for name, pods in fewest.items():
            values.setdefault(name, []).append(pods)
    spare = len(need.needs) - max(need.count, 0)
    fewest = {}
    for name, pods_of in values.items():
        # The children that have none of the role, and then those that have the fewest.
        left_out = max(spare, 0) if len(pods_of) > spare else len(pods_of)
        fewest[name] = sum(sorted(pods_of)[: len(pods_of) - left_out])
    return fewest


def _witness(ceiling: Ceiling, resource: str, needed: int, limit: int, need: Need, weight: Weight) -> Witness:
    roles = [role for role in roles_of([need]) if weight(role)]
    called = f"{ceiling.called} {ceiling.name}".strip()
    # Fewer pods of the role that counts most, the others left as they are.
    counts = least_of_each(need, {})
    largest = max(roles, key=lambda role: counts[role.name] * weight(role))
    fewer = counts[largest.name] - -(-(needed - limit) // weight(largest))
    if fewer > 0:
        remedy = f"lower the minimum of {largest.name} to {count_text(fewer, 'pod')}"
    else:
        remedy = f"lower the {resource} that the gang requests by {resource_amount_text(resource, needed - limit)}"
    return Witness(
        family=ceiling.family,
        scope=ceiling.scope,
        at=ceiling.at or roles[0].at,
        value=resource_amount_text(resource, needed),
        why=f"the gang requests at least {resource_amount_text(resource, needed)}; "
        f"{called} allows {resource_amount_text(resource, limit)}",
        remedy=f"{remedy}, or {ceiling.cure}" if ceiling.cure else remedy,
        condition="C0",
        members=tuple(role.name for role in roles),
        shortfalls=(Shortfall(resource, needed, limit),),
    )

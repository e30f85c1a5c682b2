"""The ResourceQuotas of a namespace as ceilings on a gang: the API server creates no pod beyond them.

A quota counts a pod only if all its scopes match it. Only what a template states counts, as LimitRanges and other
webhooks may add to it. Stored pods have passed the quotas.

Source: Kubernetes 1.37, pkg/quota/v1/evaluator/core/{pods,resource_claims}.go, pkg/quota/v1/generic/evaluator.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from webhook.fit.claims import claims_of
from webhook.fit.demand import exact_limits, exact_requests, floors
from webhook.fit.packing import Ceiling, Ceilings, Role
from webhook.fit.requests import BY_CLASS
from webhook.fit.shape import GangShape
from webhook.fit.verdict import Family, Scope
from webhook.model.amounts import Amounts
from webhook.model.devices import MOST_DEVICES, Claim
from webhook.model.facts import ClusterFacts
from webhook.model.findings import shown
from webhook.model.namespace_limits import NamespaceQuota, in_namespace
from webhook.model.namespace_limits import Scope as QuotaScope
from webhook.model.quantity import parse_quantity
from webhook.model.reading import integer, mapping, sequence, text
from webhook.model.workloads.pod_requests import HUGE_PAGES
from webhook.model.workloads.podtemplate import PodTemplate

_UNKNOWN_QUOTAS = "the ResourceQuotas of the namespace are unknown"
_OTHERS = "whether the namespace has other ResourceQuotas"
_UNREADABLE = "the ResourceQuota {} cannot be read"
_NOT_IN_FORCE = "the ResourceQuota {} is not in force yet"
# Further quotas of a namespace are not read: without them more is allowed.
_MOST_QUOTAS = 32
_MANY_QUOTAS = f"the ResourceQuotas of the namespace above {_MOST_QUOTAS}"
_REQUESTS, _LIMITS = "requests.", "limits."
_PODS = ("pods", "count/pods")
_OF_CLASS = ".deviceclass.resource.k8s.io/devices"
# These are counted under their own name as well as with "requests.". Extended ones only with it, others not at all.
_PLAIN = frozenset({"cpu", "memory", "ephemeral-storage"})
_NATIVE = "kubernetes.io/"
_COMPUTE = frozenset({"cpu", "memory"})


def namespace_ceilings(shape: GangShape, facts: ClusterFacts) -> Ceilings:
    """Return the ResourceQuotas that limit a gang, under any scheduler. Raises `Malformed`."""
    if shape.stored:
        return Ceilings()
    if facts.resource_quotas is None:
        return Ceilings(unknown=(_UNKNOWN_QUOTAS,))
    quotas = in_namespace(facts.resource_quotas, shape.namespace)
    others = () if facts.is_whole("resource_quotas") else (_OTHERS,)
    if not quotas:
        return Ceilings(unknown=others)
    templates = {member.called: member.template for member in shape.needed}
    charged = {name: charge_of(template, shape, facts) for name, template in templates.items()}
    requesting = {role: _requests_compute(template) for role, template in templates.items()}
    found, unknown = [], [*others, *((_MANY_QUOTAS,) if len(quotas) > _MOST_QUOTAS else ())]
    for name, quota in quotas[:_MOST_QUOTAS]:
        if quota.hard is None:
            unknown.append(_UNREADABLE.format(shown(name)))
        else:
            roles = frozenset(
                role
                for role, template in templates.items()
                if all(_surely_matches(scope, template, requesting=requesting[role]) for scope in quota.scopes)
            )
            found += list(_ceilings(name, quota, quota.hard, charged, roles))
            if not quota.in_force:
                unknown.append(_NOT_IN_FORCE.format(shown(name)))
    return Ceilings(tuple(found), tuple(unknown))


def _ceilings(
    name: str, quota: NamespaceQuota, hard: Amounts, charged: Mapping[str, Amounts], roles: frozenset[str]
) -> Iterator[Ceiling]:
    """Yield the ceilings of a quota. Devices of claims have no scopes."""
    of_claims = {key: amount for key, amount in hard.items() if key.endswith(_OF_CLASS)}
    of_pods: dict[str, int] = {}
    for key, amount in hard.items():
        if key not in of_claims:
            name_here = _counted_as(key)
            of_pods[name_here] = min(amount, of_pods.get(name_here, amount))
    for limits, only in ((of_pods, roles), (of_claims if not quota.scopes else {}, frozenset(charged))):
        # A quota may count many other objects.
        amounts = {key: amount for key, amount in limits.items() if any(charged[role].get(key) for role in only)}
        if amounts:

            def counted(role: Role) -> Amounts:
                return charged.get(role.name, {})

            yield Ceiling("the ResourceQuota", name, amounts, Family.QUOTA, Scope.EVER, counted=counted, roles=only)


def _counted_as(key: str) -> str:
    """Return the name under which what a key of a quota limits is counted here."""
    plain = key.removeprefix(_REQUESTS)
    return "pods" if key in _PODS else plain if _is_plain(plain) else key


def _is_plain(resource: str) -> bool:
    return resource in _PLAIN or resource.startswith(HUGE_PAGES)


def _is_extended(resource: str) -> bool:
    """Return whether a quota counts a resource with "requests." only. It counts no others, though it may name them."""
    return resource.startswith(BY_CLASS) or ("/" in resource and _NATIVE not in resource)


def charge_of(template: PodTemplate, shape: GangShape, facts: ClusterFacts) -> Amounts:
    """Return what one pod of a template counts against quotas, at least. Raises `Malformed`."""
    requests, limits = floors(exact_requests(template)), floors(exact_limits(template))
    found = {name: amount for name, amount in requests.items() if _is_plain(name)}
    found |= {_REQUESTS + name: amount for name, amount in requests.items() if _is_extended(name)}
    found |= {_LIMITS + name: amount for name, amount in limits.items() if name in _PLAIN}
    for claim in claims_of(template, shape, facts)[0]:
        # A claim that pods share exists already.
        if claim.name is None:
            for key, number in _devices(claim.requests).items():
                found[key] = found.get(key, 0) + number
    return {**found, "pods": 1}


def _devices(requests: Claim) -> dict[str, int]:
    """Return the devices of each class that a claim counts: of a request with alternatives the most of each class."""
    found: dict[str, int] = {}
    for request in requests or ():
        most: dict[str, int] = {}
        for one in request.alternatives:
            number = MOST_DEVICES if one.every else one.number
            most[one.device_class] = max(number, most.get(one.device_class, 0))
        for device_class, number in most.items():
            key = device_class + _OF_CLASS
            found[key] = found.get(key, 0) + number
    return found


def _surely_matches(scope: QuotaScope, template: PodTemplate, *, requesting: bool) -> bool:
    """Return whether a scope matches all pods of a template, whatever the API server adds to them. `requesting`: they
    request cpu or memory.
    """
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
        named = text(spec.get("priorityClassName"))
        if named is None:
            return False
        return {
            "Exists": True,
            "In": named in scope.values,
            "NotIn": named not in scope.values,
        }.get(scope.operator, False)
    # A LimitRange may give a pod without requests some. Affinity across namespaces is not looked at.
    return False


def _requests_compute(template: PodTemplate) -> bool:
    return any((parse_quantity(amount) or 0) > 0 for amount in _compute(template))


def _compute(template: PodTemplate) -> Iterator[object]:
    """Yield the cpu and memory that decide whether a pod is BestEffort: those of the pod, if it has resources of its
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

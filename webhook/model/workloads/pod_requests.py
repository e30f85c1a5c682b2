"""What a pod requests of each resource, as the schedulers add it up.

Source: k8s.io/component-helpers/resource, `PodRequests` and `AggregateContainerRequests`. One pass over the containers,
so a template with thousands of them takes no more time than reading it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from webhook.model.findings import shown
from webhook.model.quantity import parse_quantity
from webhook.model.reading import mapping, sequence

_ZERO = Fraction(0)
# A quantity that is null.
_NULL = "0"
HUGE_PAGES = "hugepages-"


def total_requests(spec: Mapping[str, Any], *, from_limits: bool = True, pod_level: bool = True) -> dict[str, Any]:
    """The whole pod's request by resource, as a `Fraction`: the sum of its containers and sidecars, or its largest init
    container with the sidecars before it, whichever is more, and its overhead. None where a quantity cannot be read, or
    is negative.

    `from_limits`: a missing request is the limit, as the API server defaults it on pods. `pod_level`: a request of the
    pod itself replaces those of its containers (pod-level resources, on since Kubernetes 1.34). Raises
    `Malformed`.
    """
    running: dict[str, Fraction] = {}
    sidecars: dict[str, Fraction] = {}
    largest_init: dict[str, Fraction] = {}
    unreadable: set[str] = set()

    def amounts(holder: Mapping[str, Any]) -> Iterator[tuple[str, Fraction]]:
        for resource, said in holder.items():
            amount = parse_quantity(said)
            if amount is None or amount < 0:
                unreadable.add(resource)
            else:
                yield resource, amount

    for container in sequence(spec.get("containers")):
        _add(running, amounts(requests_of_container(container, from_limits=from_limits)))
    for container in sequence(spec.get("initContainers")):
        own = dict(amounts(requests_of_container(container, from_limits=from_limits)))
        if mapping(container).get("restartPolicy") == "Always":
            _add(sidecars, own.items())
            own = dict.fromkeys(own, _ZERO)
        for resource, amount in own.items():
            total = sidecars.get(resource, _ZERO) + amount
            largest_init[resource] = max(largest_init.get(resource, _ZERO), total)
    _add(running, sidecars.items())
    # A sum of fractions takes longer than everything else here, and most resources have one amount.
    found = {resource: amount if amount.numerator > 0 else _ZERO for resource, amount in running.items()}
    for resource, amount in largest_init.items():
        found[resource] = max(found.get(resource, _ZERO), amount)
    if pod_level:
        stated = {name: said for name, said in _of_pod(spec, found.keys() | unreadable).items() if _is_pod_level(name)}
        unreadable.difference_update(stated)
        found.update(amounts(stated))
    _add(found, amounts(mapping(spec.get("overhead"))))
    return {**found, **dict.fromkeys(sorted(unreadable))}


def unreadable_request(spec: Mapping[str, Any], resource: str) -> str:
    """The first amount of a resource that is not a quantity, in words: its place in the pod and its value."""
    for part in ("containers", "initContainers"):
        for index, container in enumerate(sequence(spec.get(part))):
            resources = mapping(mapping(container).get("resources"))
            for name in ("requests", "limits"):
                value = mapping(resources.get(name)).get(resource)
                if value is not None and parse_quantity(value) is None:
                    return f"{part}[{index}].resources.{name}[{resource[:80]}] {shown(value)}"
    return f"the request for {resource[:80]}"


def _add(totals: dict[str, Fraction], amounts: Any) -> None:
    for resource, amount in amounts:
        before = totals.get(resource)
        totals[resource] = amount if before is None else before + amount


def requests_of_container(container: object, *, from_limits: bool) -> Mapping[str, Any]:
    """What a container requests. The API server reads null as 0, and a limit is no default for it."""
    resources = mapping(mapping(container).get("resources"))
    own = {name: _NULL if said is None else said for name, said in mapping(resources.get("requests")).items()}
    return {**mapping(resources.get("limits")), **own} if from_limits else own


def _of_pod(spec: Mapping[str, Any], requested: Any) -> Mapping[str, Any]:
    """What the pod itself requests. A limit counts for what no container requests, and always for huge pages."""
    own = mapping(spec.get("resources"))
    limits = {
        name: said
        for name, said in mapping(own.get("limits")).items()
        if name not in requested or name.startswith(HUGE_PAGES)
    }
    requests = mapping(own.get("requests")).items()
    return {**limits, **{name: _NULL if said is None else said for name, said in requests}}


def _is_pod_level(resource: str) -> bool:
    return resource in {"cpu", "memory"} or resource.startswith(HUGE_PAGES)

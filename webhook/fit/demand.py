"""What a gang counts against a limit: the pods that it needs at least, by what one pod of each role counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from webhook.fit.packing import Ceiling, Role
from webhook.fit.requests import SLOTS
from webhook.fit.shape import GangShape
from webhook.model.amounts import MOST_COUNTED, rounded_down
from webhook.model.reading import EMPTY, mapping, sequence
from webhook.model.workloads.pod_requests import total_requests
from webhook.model.workloads.podtemplate import PodTemplate

# How many queues or quotas are tried for one that allows a gang.
MOST_TRIED = 128
# What one pod of a role counts against a limit.
Counted: TypeAlias = Callable[[Role], Mapping[str, int]]


def templates_of(shape: GangShape) -> dict[str, PodTemplate]:
    """Return the template of each role by its name."""
    return {member.called: member.template for member in shape.members}


def requested(role: Role) -> Mapping[str, int]:
    """Return what one pod of a role requests, without its slot on a node: no queue counts slots."""
    return {resource: amount for resource, amount in role.pods.request.items() if resource != SLOTS}


def demand_of(shape: GangShape, roles: Mapping[str, Role], counted: Counted, only: Iterable[str]) -> dict[str, int]:
    """Return what the pods that a gang needs of some roles count together."""
    limited = frozenset(only)
    pods: dict[str, int] = {}
    for member in shape.needed:
        if member.called in limited:
            pods[member.called] = pods.get(member.called, 0) + member.minimum
    found: dict[str, int] = {}
    for name in (name for name in pods if name in roles):
        for resource, amount in counted(roles[name]).items():
            found[resource] = found.get(resource, 0) + amount * pods[name]
    return found


def allows(ceiling: Ceiling, shape: GangShape, roles: Mapping[str, Role]) -> bool:
    """Return whether a limit allows the pods that a gang needs, if it starts them all at one moment."""
    only = roles.keys() if ceiling.roles is None else ceiling.roles
    demand = demand_of(shape, roles, ceiling.counted or requested, only)
    return all(demand.get(resource, 0) <= max(amount, 0) for resource, amount in ceiling.amounts.items())


def exact_requests(template: PodTemplate, *, overhead: bool = True) -> dict[str, Fraction]:
    """Return what a pod requests as the API server adds it up, without what cannot be read or overflows. Raises
    `Malformed`.
    """
    spec: Mapping[str, Any] = template.spec if overhead else {**template.spec, "overhead": None}
    return _readable(total_requests(_without_limits(spec)))


def exact_limits(template: PodTemplate) -> dict[str, Fraction]:
    """Return the limits of a pod that its template states, without overhead. Leaves out what cannot be read. Raises
    `Malformed`.
    """
    spec = template.spec
    limits: dict[str, Any] = {
        kind: [_limits_as_requests(container) for container in sequence(spec.get(kind))]
        for kind in ("containers", "initContainers")
    }
    own = mapping(spec.get("resources"))
    found = total_requests({**limits, "resources": {"requests": own.get("limits")}}, from_limits=False)
    return _readable(found)


def _readable(totals: Mapping[str, Fraction | None]) -> dict[str, Fraction]:
    """Return the amounts that can be read and do not overflow."""
    return {name: amount for name, amount in totals.items() if amount is not None and amount <= MOST_COUNTED}


def floors(exact: Mapping[str, Fraction]) -> dict[str, int]:
    """Return amounts as whole numbers, rounded down."""
    return {name: rounded_down(name, amount) for name, amount in exact.items()}


def _without_limits(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a pod spec without the limits of the whole pod. A LimitRange may give containers lower requests before
    these limits become requests.
    """
    own = mapping(spec.get("resources"))
    return {**spec, "resources": {"requests": own.get("requests")}} if own else spec


def _limits_as_requests(container: object) -> dict[str, Any]:
    stated = mapping(container)
    limits = mapping(mapping(stated.get("resources")).get("limits")) or EMPTY
    return {"resources": {"requests": dict(limits)}, "restartPolicy": stated.get("restartPolicy")}

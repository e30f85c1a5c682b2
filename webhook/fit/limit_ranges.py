"""The LimitRanges of a namespace: the API server creates no pod that breaks one, so a gang of such pods never starts.

Only what a template states is judged: a LimitRange may fill in what is missing. Stored pods have passed.

Source: Kubernetes 1.37, plugin/pkg/admission/limitranger/admission.go (`PodValidateLimitFunc`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from webhook.fit.demand import exact_limits
from webhook.fit.shape import GangShape, MemberShape
from webhook.fit.verdict import Family, Scope, Witness
from webhook.model.amounts import is_cpu, rounded_up
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath, Item
from webhook.model.findings import shown
from webhook.model.namespace_limits import ResourceRange, in_namespace
from webhook.model.quantity import parse_quantity
from webhook.model.reading import mapping, sequence, text
from webhook.model.workloads.pod_requests import total_requests
from webhook.model.workloads.podtemplate import PodTemplate

_CONDITION = "C0"
_MILLI = 1000
# Go compares ratios as floating point numbers in thousandths.
_TOLERANCE = Fraction(1, 100)


class _Stated(NamedTuple):
    """What a container, or a pod, states: its requests and limits, and where."""

    at: FieldPath
    called: str
    requests: Mapping[str, Fraction]
    limits: Mapping[str, Fraction]


def refusals_of(shape: GangShape, facts: ClusterFacts) -> tuple[tuple[Witness, ...], tuple[str, ...]]:
    """Return the proofs that pods of the gang are never created, one for each role at most, and what is unknown. Raises
    `Malformed`.
    """
    if shape.stored:
        return (), ()
    if facts.limit_ranges is None:
        return (), ("the LimitRanges of the namespace are unknown",)
    ranges = in_namespace(facts.limit_ranges, shape.namespace)
    members = {member.called: member for member in shape.needed} if ranges else {}
    found = (next(_refusals(member, ranges), None) for member in members.values())
    return tuple(one for one in found if one is not None), ()


def _refusals(member: MemberShape, ranges: list[tuple[str, tuple[ResourceRange, ...]]]) -> Iterator[Witness]:
    containers, pod = list(_containers(member.template)), _pod(member.template)
    for name, items in ranges:
        for item in items:
            for stated in containers if item.of == "Container" else [pod]:
                for at, found, what, remedy in _broken(item, stated):
                    why = f"the LimitRange {shown(name)} {what} of a {item.of}"
                    yield Witness(
                        family=Family.QUOTA,
                        scope=Scope.EVER,
                        at=at,
                        found=found,
                        why=f"{why}, so no pod of {member.called} is created",
                        remedy=remedy,
                        condition=_CONDITION,
                        members=(member.called,),
                    )


def _broken(item: ResourceRange, stated: _Stated) -> Iterator[tuple[FieldPath, str, str, str]]:
    """Yield where a container or pod breaks an item: the field, its value, what the item allows, and what to do."""
    kinds = (("limits", stated.limits), ("requests", stated.requests))
    for resource, most in item.most.items():
        for kind, amounts in kinds:
            if resource in amounts and _more(resource, amounts[resource], most):
                at, found = stated.at / kind / resource, _written(resource, amounts[resource])
                allowed = _written(resource, most)
                yield at, found, f"allows at most {allowed} {resource}", f"set it to {allowed} or less"
    for resource, least in item.least.items():
        for kind, amounts in kinds:
            # A pod's sum may grow by what a LimitRange fills in.
            if item.of == "Container" and resource in amounts and _more(resource, least, amounts[resource]):
                at, found = stated.at / kind / resource, _written(resource, amounts[resource])
                demanded = _written(resource, least)
                yield at, found, f"demands at least {demanded} {resource}", f"set it to {demanded} or more"
    for resource, ratio in item.ratio.items():
        request, limit = stated.requests.get(resource), stated.limits.get(resource)
        if item.of == "Container" and request and limit and limit / request > ratio + _TOLERANCE:
            at, found = stated.at / "limits" / resource, _written(resource, limit)
            allowed = f"a limit of {float(ratio):g} times the request"
            yield at, found, f"allows at most {allowed} for {resource}", "lower the limit, or raise the request"


def _more(resource: str, amount: Fraction, than: Fraction) -> bool:
    """Return whether an amount is more than another when both are rounded up, as the API server compares them."""
    return rounded_up(resource, amount) > rounded_up(resource, than)


def _containers(template: PodTemplate) -> Iterator[_Stated]:
    for kind in ("containers", "initContainers"):
        for index, one in enumerate(sequence(template.spec.get(kind))):
            container = mapping(one)
            name = text(container.get("name")) or str(index)
            at = template.spec_path / kind / Item(index, name) / "resources"
            yield _stated(at, name, mapping(container.get("resources")))


def _stated(at: FieldPath, called: str, resources: Mapping[str, Any]) -> _Stated:
    requests, limits = _amounts(resources.get("requests")), _amounts(resources.get("limits"))
    # The API server sets a missing request to the limit.
    return _Stated(at, called, {**limits, **requests}, limits)


def _amounts(stated: object) -> dict[str, Fraction]:
    read = {name: parse_quantity(amount) for name, amount in mapping(stated).items()}
    # The API server rounds every quantity of a pod up to thousandths.
    return {name: Fraction(math.ceil(amount * _MILLI), _MILLI) for name, amount in read.items() if amount is not None}


def _pod(template: PodTemplate) -> _Stated:
    """Return what a whole pod states, at least, without the overhead."""
    own = mapping(template.spec.get("resources"))
    spec = {**template.spec, "overhead": None, "resources": {"requests": own.get("requests")}}
    requests = {name: amount for name, amount in total_requests(spec).items() if amount is not None}
    at = template.spec_path / ("resources" if own else "containers")
    return _Stated(at, "the pod", requests, exact_limits(template))


def _written(resource: str, amount: Fraction) -> str:
    """Return an amount as Kubernetes writes it."""
    if amount.denominator != 1:
        return f"{-(-amount * _MILLI // 1)}m" if is_cpu(resource) else f"{float(amount):g}"
    whole = int(amount)
    for suffix, size in (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if whole and not is_cpu(resource) and "/" not in resource and whole % size == 0:
            return f"{whole // size}{suffix}"
    return str(whole)

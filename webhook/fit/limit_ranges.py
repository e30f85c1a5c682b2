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
from webhook.model.amounts import MOST_COUNTED, is_cpu, rounded_up
from webhook.model.facts import ClusterFacts
from webhook.model.fields import FieldPath, Item
from webhook.model.findings import shown
from webhook.model.namespace_limits import ResourceRange, in_namespace
from webhook.model.quantity import parse_quantity
from webhook.model.reading import mapping, sequence, text
from webhook.model.workloads.pod_requests import HUGE_PAGES, total_requests
from webhook.model.workloads.podtemplate import PodTemplate

_CONDITION = "C0"
_MILLI = 1000
# Further LimitRanges of a namespace are not read: without them more is allowed.
_MOST_RANGES = 32
_MANY_RANGES = f"the LimitRanges of the namespace above {_MOST_RANGES}"
# Go compares ratios as floating point numbers in thousandths.
_TOLERANCE = Fraction(1, 100)


class _Stated(NamedTuple):
    """What a container, or a pod, states: its requests and limits, and where."""

    at: FieldPath
    called: str
    requests: Mapping[str, Fraction]
    limits: Mapping[str, Fraction]


class _Bound(NamedTuple):
    """A bound on a resource, and the LimitRange that sets it."""

    amount: Fraction
    name: str

    def written(self, resource: str) -> str:
        return _written(resource, self.amount)


class _Bounds(NamedTuple):
    """The bounds on each Pod or Container, by resource."""

    most: dict[str, _Bound]
    least: dict[str, _Bound]
    ratio: dict[str, _Bound]


def refusals_of(shape: GangShape, facts: ClusterFacts) -> tuple[tuple[Witness, ...], tuple[str, ...]]:
    """Return the proofs that pods of the gang are never created, one for each role at most, and what is unknown. Raises
    `Malformed`.
    """
    if shape.stored:
        return (), ()
    if facts.limit_ranges is None:
        return (), ("the LimitRanges of the namespace are unknown",)
    ranges = in_namespace(facts.limit_ranges, shape.namespace)
    unknown = [_MANY_RANGES] if len(ranges) > _MOST_RANGES else []
    if not facts.is_whole("limit_ranges"):
        unknown.append("whether the namespace has other LimitRanges")
    strictest = _strictest(ranges[:_MOST_RANGES])
    members = {member.called: member for member in shape.needed} if strictest else {}
    found = (next(_refusals(member, strictest), None) for member in members.values())
    return tuple(one for one in found if one is not None), tuple(unknown)


def _refusals(member: MemberShape, strictest: Mapping[str, _Bounds]) -> Iterator[Witness]:
    for of, bounds in strictest.items():
        for stated in _containers(member.template) if of == "Container" else (_pod(member.template),):
            for at, found, (name, what), remedy in _broken(of, bounds, stated):
                why = f"the LimitRange {shown(name)} {what} of a {of}"
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


def _strictest(ranges: list[tuple[str, tuple[ResourceRange, ...]]]) -> dict[str, _Bounds]:
    """Return the strictest bounds of all LimitRanges, so that the work for a container does not grow with these."""
    found: dict[str, _Bounds] = {}
    for name, items in ranges:
        for item in items:
            bounds = found.setdefault(item.of, _Bounds({}, {}, {}))
            for known, stated, sign in (
                (bounds.most, item.most, 1),
                (bounds.least, item.least, -1),
                (bounds.ratio, item.ratio, 1),
            ):
                for resource, amount in stated.items():
                    if resource not in known or sign * amount < sign * known[resource].amount:
                        known[resource] = _Bound(amount, name)
    return found


def _broken(of: str, bounds: _Bounds, stated: _Stated) -> Iterator[tuple[FieldPath, str, tuple[str, str], str]]:
    """Yield where a container or pod breaks a bound: the field, its value, which LimitRange allows what, and what to
    do.
    """
    kinds = (("limits", stated.limits), ("requests", stated.requests))
    for kind, amounts in kinds:
        for resource, amount in amounts.items():
            most = bounds.most.get(resource)
            if most is not None and _more(resource, amount, most.amount):
                at, found, allowed = stated.at / kind / resource, _written(resource, amount), most.written(resource)
                yield at, found, (most.name, f"allows at most {allowed} {resource}"), f"set it to {allowed} or less"
    # A pod's sum may grow by what a LimitRange fills in.
    for kind, amounts in kinds if of == "Container" else ():
        for resource, amount in amounts.items():
            least = bounds.least.get(resource)
            if least is not None and _more(resource, least.amount, amount):
                at, found, demanded = stated.at / kind / resource, _written(resource, amount), least.written(resource)
                yield (
                    at,
                    found,
                    (least.name, f"demands at least {demanded} {resource}"),
                    f"set it to {demanded} or more",
                )
    for resource, limit in stated.limits.items() if of == "Container" else ():
        ratio, request = bounds.ratio.get(resource), stated.requests.get(resource)
        if ratio is None or not request or not limit or max(limit, request, ratio.amount) > MOST_COUNTED:
            continue
        if limit / request > ratio.amount + _TOLERANCE:
            at, found = stated.at / "limits" / resource, _written(resource, limit)
            allowed = f"a limit of {float(ratio.amount):g} times the request"
            what = f"allows at most {allowed} for {resource}"
            yield at, found, (ratio.name, what), "lower the limit, or raise the request"


def _more(resource: str, amount: Fraction, than: Fraction) -> bool:
    """Return whether an amount is surely more than another, both rounded up, as the API server compares them."""
    if max(amount, than) > MOST_COUNTED:
        return False
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
    known = {name: amount for name, amount in read.items() if amount is not None and amount >= 0}
    # The API server rounds every quantity of a pod up to thousandths.
    return {name: Fraction(math.ceil(amount * _MILLI), _MILLI) for name, amount in known.items()}


def _pod(template: PodTemplate) -> _Stated:
    """Return what a whole pod states, at least, without the overhead. Of huge pages LimitRanges add up containers."""
    own = mapping(template.spec.get("resources"))
    stated = {part: _of_pod(own.get(part)) for part in ("requests", "limits")}
    spec = {**template.spec, "overhead": None, "resources": {"requests": stated["requests"]}}
    requests = {name: amount for name, amount in total_requests(spec).items() if amount is not None}
    at = template.spec_path / ("resources" if own else "containers")
    return _Stated(at, "the pod", requests, exact_limits(template.with_spec({**template.spec, "resources": stated})))


def _of_pod(stated: object) -> dict[str, Any]:
    return {name: amount for name, amount in mapping(stated).items() if not name.startswith(HUGE_PAGES)}


def _written(resource: str, amount: Fraction) -> str:
    """Return an amount as Kubernetes writes it."""
    if amount.denominator != 1:
        return f"{-(-amount * _MILLI // 1)}m" if is_cpu(resource) else f"{float(amount):g}"
    whole = int(amount)
    for suffix, size in (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if whole and not is_cpu(resource) and "/" not in resource and whole % size == 0:
            return f"{whole // size}{suffix}"
    return str(whole)

"""Rules about amounts of resources, wherever an object states them. They judge files only: the API server refuses,
with the schema of the kind or when the pods are created, what these rules report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from webhook.model.any_object import AnyObject
from webhook.model.facts import ClusterFacts
from webhook.model.fields import LABELS, SPEC, Trail, path_of
from webhook.model.findings import Action, Finding, shown
from webhook.model.keys import Needed
from webhook.model.known_objects import Quota
from webhook.model.quantity import parse_quantity
from webhook.model.reading import Manifest, is_unrendered
from webhook.validators.examples import clique, pod_clique_set
from webhook.validators.registry import Context, Example, Results, Subject, rule

_CONTAINERS = frozenset({"containers", "initContainers", "ephemeralContainers"})
_LISTS = ("requests", "limits")
# Where other kinds state amounts: maps by resource.
_MAPS: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("", "ResourceQuota"): (("spec", "hard"),),
    ("scheduling.volcano.sh", "Queue"): (
        ("spec", "capability"),
        ("spec", "deserved"),
        ("spec", "guarantee", "resource"),
    ),
    ("scheduling.volcano.sh", "PodGroup"): (("spec", "minResources"),),
    ("scheduling.x-k8s.io", "PodGroup"): (("spec", "minResources"),),
    ("scheduling.sigs.k8s.io", "PodGroup"): (("spec", "minResources"),),
    ("scheduling.sigs.k8s.io", "ElasticQuota"): (("spec", "max"), ("spec", "min")),
    ("scheduling.x-k8s.io", "ElasticQuota"): (("spec", "max"), ("spec", "min")),
}
_ELASTIC_QUOTA = ("scheduling.sigs.k8s.io", "ElasticQuota")
# Keys whose value is an amount itself, in any kind of Kueue.
_OF_KUEUE, _AMOUNTS_OF_KUEUE = "kueue.x-k8s.io", frozenset({"nominalQuota", "borrowingLimit", "lendingLimit"})
# What a container requests without a prefix, and what a pod requests itself.
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_OF_PODS = frozenset({"cpu", "memory"})
_BYTES = frozenset({"memory", "ephemeral-storage"})
_HUGE_PAGES = "hugepages-"
_NATIVE = "kubernetes.io/"
# Suffixes that people write, in lower case, and those that Kubernetes has.
_MEANT = {"kb": "k", "mb": "M", "gb": "G", "tb": "T", "kib": "Ki", "mib": "Mi", "gib": "Gi", "tib": "Ti"}
_BINARY = {"ki": "Ki", "mi": "Mi", "gi": "Gi", "ti": "Ti", "k": "k", "g": "G", "t": "T"}


class _Amount(NamedTuple):
    """One stated amount, its place, and the place of its list; `holder` is "container", "pod", or empty."""

    trail: Trail
    resource: str
    value: Any
    holder: str = ""
    limit: Any = None


def _requesting(**requests: Any) -> Any:
    return pod_clique_set(clique("worker", requests=requests))


@rule(
    "resources/quantity",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(_requesting(cpu="500m")),
    fails=Example(_requesting(cpu="500mi")),
)
def quantity(manifest: AnyObject, _: Context[Any]) -> Results:
    """Kubernetes writes an amount as a number with one of the suffixes n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi
    and Ei, or with an exponent. The API server refuses other texts and negative requests. A fraction of a byte is
    rounded up: 128m of memory is one byte.

    Source: k8s.io/apimachinery, pkg/api/resource (`ParseQuantity`); kubernetes, pkg/apis/core/validation
    (`ValidateResourceQuantityValue`).
    """
    for stated in _amounts(manifest):
        amount = parse_quantity(stated.value)
        if amount is None:
            likely = _likely(stated.resource, stated.value)
            yield _finding(
                stated,
                "it is not a quantity, so the API server refuses it",
                f"did you mean {likely}? write that" if likely else "write a number with a suffix such as m, Mi or Gi",
                *([] if likely is None else [likely]),
            )
        elif amount < 0:
            yield _finding(stated, "an amount is never negative, so the API server refuses it", "write 0 or more")
        elif stated.resource in _BYTES and amount.denominator != 1:
            yield _finding(
                stated,
                "it is a fraction of a byte, which Kubernetes rounds up",
                "write bytes with a suffix such as Mi or Gi",
            )


@rule(
    "resources/request",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(_requesting(**{"nvidia.com/gpu": "1"})),
    fails=Example(_requesting(**{"nvidia.com/gpu": "0.5"})),
)
def request(manifest: AnyObject, _: Context[Any]) -> Results:
    """A pod requests whole devices, and as many as its limit states. A request is at most the limit. A resource of a
    container is a standard one or has a prefix; the pod itself requests only cpu, memory and huge pages. The API server
    refuses other pods, so a controller never creates them.

    Source: kubernetes, pkg/apis/core/validation/validation.go (`ValidateContainerResourceRequirements`,
    `validatePodResourceRequirements`), pkg/apis/core/helper (`IsIntegerResourceName`).
    """
    for stated in _amounts(manifest):
        amount = parse_quantity(stated.value)
        if not stated.holder or amount is None or amount < 0:
            continue
        if (fault := _request_fault(stated, amount)) is not None:
            yield _finding(stated, *fault)


def _quota(**least: str) -> Manifest:
    spec: Manifest = {"min": least, "max": {"cpu": "8"}}
    metadata = {"name": "team-a", "namespace": "default"}
    return {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": metadata, "spec": spec}


@rule(
    "resources/quota-range",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(_quota(cpu="4")),
    fails=Example(_quota(cpu="16")),
)
def quota_range(manifest: AnyObject, _: Context[Any]) -> Results:
    """An ElasticQuota states a maximum of each resource of which it states a minimum, and the minimum is at most the
    maximum. Koordinator's own webhook refuses other ElasticQuotas.

    Source: koordinator-sh/koordinator, pkg/webhook/elasticquota/quota_topology_check.go (`validateQuotaSelfItem`,
    v1.8).
    """
    spec = manifest.raw.get("spec")
    if manifest.kind[::2] != _ELASTIC_QUOTA or not isinstance(spec, dict) or not isinstance(spec.get("min"), dict):
        return
    most = spec["max"] if isinstance(spec.get("max"), dict) else {}
    for stated in _map_amounts(spec["min"], (((), "spec"), "min")):
        limit = most.get(stated.resource)
        amount, bound = parse_quantity(stated.value), parse_quantity(limit)
        if limit is None:
            yield _finding(stated, "Koordinator refuses a minimum without a maximum of the resource", "add it to max")
        elif amount is not None and bound is not None and amount > bound:
            why = f"it is above the maximum, {shown(limit)[:32]}, so Koordinator refuses it"
            yield _finding(stated, why, "lower it, or raise the maximum")


_QUOTA_LABELS = "quota.scheduling.koordinator.sh/"
_PARENT = Quota(is_parent=True, max={"cpu": 8000}, min={"cpu": 8000})
_LEAF = Quota(is_parent=False, max={"cpu": 8000}, min={"cpu": 4000}, parent="all")
_TREE = ClusterFacts(elastic_quotas={"all": _PARENT, "team-a": _LEAF})
_ABOVE = ClusterFacts(elastic_quotas={"all": _PARENT, "team-a": replace(_LEAF, min={"cpu": 16000})})


def _child() -> Manifest:
    quota = _quota(cpu="4")
    return {**quota, "metadata": {**quota["metadata"], "labels": {f"{_QUOTA_LABELS}parent": "all"}}}


@rule(
    "resources/quota-tree",
    subject=Subject.MANIFEST,
    default=Action.WARN,
    passes=Example(_child(), facts=_TREE),
    fails=Example(_child(), facts=_ABOVE),
)
def quota_tree(manifest: AnyObject, context: Context[Any]) -> Results:
    """Koordinator refuses an ElasticQuota whose parent is missing, is no parent, or has another tree or other resources
    in its maximum, or if the quotas below a parent have a larger minimum than that one.

    Source: koordinator-sh/koordinator, pkg/webhook/elasticquota/quota_topology_check.go (`validateQuotaTopology`) and
    quota_topology.go (`fillQuotaDefaultInformation`), v1.8. A feature gate allows fewer resources below a parent.
    """
    quotas, name = context.facts.elastic_quotas, manifest.name
    if manifest.kind[::2] != _ELASTIC_QUOTA or quotas is None or (quota := quotas.get(name)) is None:
        return
    if quota.parent is not None:
        yield from _parent_faults(quota, quotas)
    exempt = (f"{_QUOTA_LABELS}allow-force-update", f"{_QUOTA_LABELS}is-root")
    if any(manifest.labels.get(label) == "true" for label in exempt):
        return
    for above in (quota.parent, name):
        parent = quotas.get(above or "")
        if parent is None or parent.min is None or not parent.is_parent:
            continue
        below = [other.min or {} for other in quotas.values() if other.parent == above]
        for resource in sorted({resource for least in below for resource in least}):
            if sum(least.get(resource, 0) for least in below) > parent.min.get(resource, 0):
                why = f"Koordinator refuses it: the quotas below {shown(above)} have a larger minimum than that one"
                written = _written(manifest, resource)
                yield Finding(SPEC / "min" / resource, written, why, "lower it, or raise the minimum above")


def _written(manifest: AnyObject, resource: str) -> Any:
    spec = manifest.raw.get("spec")
    least = spec.get("min") if isinstance(spec, dict) else None
    return least.get(resource) if isinstance(least, dict) else None


def _parent_faults(quota: Quota, quotas: Mapping[str, Quota]) -> Results:
    """Yields how a quota differs from what the one above it allows."""
    name, parent = quota.parent or "", quotas.get(quota.parent or "")
    if parent is None or not parent.is_parent:
        absent = Needed("elastic_quotas", name) if parent is None else None
        why = "Koordinator refuses a quota below one that does not exist, or is no parent"
        remedy = f'name a parent, or label that one {_QUOTA_LABELS}is-parent: "true"'
        yield Finding(LABELS / f"{_QUOTA_LABELS}parent", name, why, remedy, absent=absent)
        return
    # Koordinator writes the tree of the parent into a quota without one.
    if quota.tree and quota.tree != parent.tree:
        why = f"Koordinator refuses another tree than that of {shown(name)} above it"
        yield Finding(LABELS / f"{_QUOTA_LABELS}tree-id", quota.tree, why, "name the same tree")
    if quota.max is not None and parent.max is not None and quota.max.keys() != parent.max.keys():
        other = min(quota.max.keys() ^ parent.max.keys())
        why = f"Koordinator refuses a maximum of other resources than that of {shown(name)} above it"
        yield Finding(SPEC / "max", other, why, "state the same resources in both")


def _request_fault(stated: _Amount, amount: Fraction) -> tuple[str, str] | None:
    """Returns what is wrong with what a container or a pod requests, and what to do."""
    resource = stated.resource
    huge, extended = resource.startswith(_HUGE_PAGES), "/" in resource and _NATIVE not in resource
    if stated.holder == "pod" and not (huge or resource in _OF_PODS):
        return "a pod itself requests only cpu, memory and huge pages", "move it to the resources of a container"
    if "/" not in resource and not (huge or resource in _STANDARD):
        return "Kubernetes knows no such resource without a prefix", "write its whole name, such as nvidia.com/gpu"
    if extended and amount.denominator != 1:
        return "a device is requested as a whole, so the API server refuses it", "write a whole number"
    limit = parse_quantity(stated.limit)
    if limit is not None and (amount > limit or (extended and amount != limit)):
        word = "other than" if extended else "above"
        return (
            f"it is {word} its limit {shown(stated.limit)[:32]}, so the API server refuses it",
            "write the same in both",
        )
    return None


def _amounts(manifest: AnyObject) -> Iterator[_Amount]:
    """Yields every amount that an object states: of containers, pods and volumes, and of queues and quotas."""
    waiting: list[tuple[Any, Trail]] = [(manifest.raw, ())]
    of_kueue = manifest.kind.group == _OF_KUEUE
    while waiting:
        value, trail = waiting.pop()
        if isinstance(value, dict):
            for key, inner in value.items():
                below = (trail, str(key))
                if key in {"resources", "resourcesPerNode"} and isinstance(inner, dict):
                    holder = "pod" if isinstance(value.get("containers"), list) else _holder(trail)
                    # Trainer writes these on the containers.
                    holder = "container" if key == "resourcesPerNode" else holder
                    yield from _requirement_amounts(inner, below, holder)
                elif of_kueue and key in _AMOUNTS_OF_KUEUE:
                    yield from _stated(below, str(value.get("name")), inner)
                if isinstance(inner, dict | list):
                    waiting.append((inner, below))
        else:
            waiting += [
                (item, (trail, index, item)) for index, item in enumerate(value) if isinstance(item, dict | list)
            ]
    if manifest.kind[::2] == ("", "LimitRange"):
        yield from _range_amounts(manifest.raw.get("spec"))
    for place in _MAPS.get(manifest.kind[::2], ()):
        value, trail = manifest.raw, ()
        for name in place:
            value, trail = value.get(name) if isinstance(value, dict) else None, (trail, name)
        yield from _map_amounts(value, trail)


def _range_amounts(spec: Any) -> Iterator[_Amount]:
    ranges = spec.get("limits") if isinstance(spec, dict) else None
    for index, limits in enumerate(ranges if isinstance(ranges, list) else ()):
        for name in ("max", "min", "default", "defaultRequest"):
            if isinstance(limits, dict):
                yield from _map_amounts(limits.get(name), (((((), "spec"), "limits"), index, limits), name))


def _holder(trail: Trail) -> str:
    """Returns what the resources at a place are of: an item of a list of containers, or something else."""
    is_item = len(trail) > len(("above", "part"))
    return "container" if is_item and trail[0] and trail[0][1] in _CONTAINERS else ""


def _requirement_amounts(value: Mapping[str, Any], trail: Trail, holder: str) -> Iterator[_Amount]:
    limits = value.get("limits")
    for name in _LISTS:
        bounds = limits if name == "requests" and isinstance(limits, dict) else {}
        for stated in _map_amounts(value.get(name), (trail, name), holder, bounds):
            if holder or _is_resource(stated.resource):
                yield stated


def _map_amounts(
    value: Any, trail: Trail, holder: str = "", bounds: Mapping[str, Any] | None = None
) -> Iterator[_Amount]:
    for resource, amount in value.items() if isinstance(value, dict) else ():
        for stated in _stated((trail, str(resource)), str(resource), amount):
            yield stated._replace(holder=holder, limit=(bounds or {}).get(resource))


def _stated(trail: Trail, resource: str, value: Any) -> Iterator[_Amount]:
    """Yields the amount, unless it is null, which counts as missing, or a template that is not rendered yet."""
    if value is not None and not is_unrendered(value):
        yield _Amount(trail, resource, value)


def _is_resource(name: str) -> bool:
    """Returns whether it is surely a resource of Kubernetes. Other kinds have words of their own beside these."""
    return name in _STANDARD or name == "storage" or "/" in name or name.startswith(_HUGE_PAGES)


def _likely(resource: str, value: object) -> str | None:
    """Returns the quantity that a wrong one most likely means: 10GB is 10G, and 500mi of cpu is 500m."""
    word = value.strip() if isinstance(value, str) and len(value) <= len("1234567890.123456789 GiB") else ""
    digits = word.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    suffix = word[len(digits) :].casefold()
    meant = "m" if suffix == "mi" and resource == "cpu" else _MEANT.get(suffix) or _BINARY.get(suffix)
    likely = f"{digits.strip()}{meant or ''}"
    return likely if (meant or not suffix) and parse_quantity(likely) is not None else None


def _finding(stated: _Amount, why: str, remedy: str, *instead: str) -> Finding:
    return Finding(at=path_of(stated.trail), value=stated.value, why=why, remedy=remedy, instead=instead)

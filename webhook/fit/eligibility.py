"""Eligibility: which nodes a pod may use by its nodeSelector, its node affinity and its tolerations.

One-sided: a part that cannot be judged admits the node. Source: component-helpers nodeaffinity.go,
core/v1/toleration.go, and apimachinery labels/selector.go of Kubernetes 1.37.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from webhook.model.node import Taint
from webhook.model.reading import mapping, sequence, text

__all__ = ["EVERYTHING", "Eligibility", "Requirement", "Taint", "Toleration", "is_transient"]

# More than these are not read. A template is as large as its author likes, and is held against every node.
_MOST_PAIRS, _MOST_TERMS, _MOST_REQUIREMENTS, _MOST_VALUES, _MOST_TOLERATIONS = 32, 32, 64, 1024, 128
# Taints that come and go with the state of a node. A pod waits for that.
_TRANSIENT_PREFIXES = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "node.cluster.x-k8s.io/",
    "aws-node-termination-handler/",
    "medik8s.io/",
)
_TRANSIENT = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "karpenter.sh/unregistered",
        "cloud.google.com/impending-node-termination",
    }
)
_NOT_READY = "-not-ready"
# PreferNoSchedule never blocks.
_BLOCKING = frozenset({"NoSchedule", "NoExecute"})
# Gt and Lt of a toleration depend on a feature gate that is off, so they tolerate.
_EQUAL = frozenset({"", "Equal"})
_NAME = "metadata.name"
# Operators that ask whether a value is one of many.
_OF_MEMBERS = frozenset({"In", "NotIn"})
# As strconv.ParseInt reads it, with any number of leading zeros. A label value has 63 characters at most.
_INTEGER = re.compile(r"[+-]?[0-9]{1,63}\Z")
_INT64 = 2**63


class Toleration(NamedTuple):
    """A toleration of a pod."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the taint does not block the pod."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        return self.operator not in _EQUAL or self.value == taint.value


# Tolerates every taint.
EVERYTHING = Toleration("", "Exists", "", "")


class Requirement(NamedTuple):
    """A requirement of a node selector term: on a label, or on the name of the node (`field`)."""

    key: str
    operator: str
    values: tuple[str, ...] | frozenset[str]
    field: bool = False

    def admits(self, value: str | None) -> bool:
        """Return whether it holds for a label value, None for no label. An unknown operator holds."""
        check = _CHECKS.get(self.operator)
        return check is None or check(value, self.values)


def _compares(value: str | None, values: tuple[str, ...] | frozenset[str], *, greater: bool) -> bool:
    found, bound = _integer(value), _integer(next(iter(values))) if len(values) == 1 else None
    return found is not None and bound is not None and (found > bound if greater else found < bound)


_CHECKS: Mapping[str, Callable[[str | None, tuple[str, ...] | frozenset[str]], bool]] = {
    "In": lambda value, values: value is not None and value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: _compares(value, values, greater=True),
    "Lt": lambda value, values: _compares(value, values, greater=False),
}


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Which nodes a pod may use. `terms` are ORed, the requirements of a term ANDed; None without required affinity."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[Requirement, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    node_name: str | None = None

    @classmethod
    def of(cls, spec: Mapping[str, Any], *, stored: bool, resources: Iterable[str] = ()) -> Eligibility:
        """Return what a pod spec says. Raises `Malformed`.

        A template of a pod that is not `stored` yet may get tolerations at admission: for the extended `resources` that
        it requests (ExtendedResourceToleration), and those of its RuntimeClass.
        """
        required = mapping(mapping(spec.get("affinity")).get("nodeAffinity")).get(_REQUIRED)
        tolerations = tuple(_tolerations(spec))
        if not stored:
            tolerations += tuple(Toleration(resource, "Exists", "", "") for resource in sorted(resources))
            if text(spec.get("runtimeClassName")) is not None:
                tolerations = (EVERYTHING,)
        return cls(
            tuple(_pairs(spec)),
            None if required is None else _terms(mapping(required)),
            tolerations if len(tolerations) <= _MOST_TOLERATIONS else (EVERYTHING,),
            text(spec.get("nodeName")),
        )

    def without(self, *, affinity: bool, taints: bool) -> Eligibility:
        """Return it for a scheduler that does not read `affinity`, or `taints`."""
        if affinity:
            return Eligibility(tolerations=(EVERYTHING,) if taints else self.tolerations, node_name=self.node_name)
        return replace(self, tolerations=(EVERYTHING,)) if taints else self

    @property
    def keys(self) -> frozenset[str]:
        """The node label keys that it reads."""
        named = {key for key, _ in self.selector}
        for term in self.terms or ():
            named.update(one.key for one in term if not one.field)
        return frozenset(named)

    @property
    def size(self) -> int:
        """How many checks a node may take."""
        return 1 + len(self.selector) + sum(map(len, self.terms or ()))

    def admits(
        self,
        name: str | None,
        labels: Mapping[str, str],
        taints: Iterable[Taint],
        unknown: frozenset[str] = frozenset(),
    ) -> bool:
        """Return whether the pod may use a node with that name, these labels and these taints.

        The name is None, and the labels with the keys `unknown`, for a node that does not exist yet: these may be what
        the pod asks for.
        """
        if self.node_name is not None and name is not None and self.node_name != name:
            return False
        if any(labels.get(key) != value for key, value in self.selector if key not in unknown):
            return False
        if self.terms is not None and not any(_holds(term, name, labels, unknown) for term in self.terms):
            return False
        return all(self.tolerates(taint) for taint in taints)

    def tolerates(self, taint: Taint) -> bool:
        """Return whether a taint does not block the pod, or passes."""
        if taint.effect not in _BLOCKING or is_transient(taint):
            return True
        return any(one.tolerates(taint) for one in self.tolerations)


def is_transient(taint: Taint) -> bool:
    """Return whether a taint comes and goes with the state of a node."""
    return taint.key in _TRANSIENT or taint.key.startswith(_TRANSIENT_PREFIXES) or taint.key.endswith(_NOT_READY)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _pairs(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in list(mapping(spec.get("nodeSelector")).items())[:_MOST_PAIRS]:
        yield key, text(value) or ""


def _tolerations(spec: Mapping[str, Any]) -> Iterator[Toleration]:
    for one in map(mapping, sequence(spec.get("tolerations"))[: _MOST_TOLERATIONS + 1]):
        yield Toleration(*(text(one.get(field)) or "" for field in ("key", "operator", "value", "effect")))


def _terms(required: Mapping[str, Any]) -> tuple[tuple[Requirement, ...], ...] | None:
    """The terms; None if they are too many to be judged, so that they admit every node. An empty term matches nothing,
    and is left out.
    """
    terms = sequence(required.get("nodeSelectorTerms"))
    if len(terms) > _MOST_TERMS:
        return None
    found = tuple(tuple(_requirements(mapping(term))) for term in terms)
    every = [one for term in found for one in term]
    if len(every) > _MOST_REQUIREMENTS or sum(len(one.values) for one in every) > _MOST_VALUES:
        return None
    return tuple(term for term in found if term)


def _requirements(term: Mapping[str, Any]) -> Iterator[Requirement]:
    for field in (False, True):
        for one in map(mapping, sequence(term.get("matchFields" if field else "matchExpressions"))):
            operator = text(one.get("operator")) or ""
            values = tuple(text(value) or "" for value in sequence(one.get("values")))
            # Each value is looked for on each kind of nodes.
            known = frozenset(values) if operator in _OF_MEMBERS else values
            yield Requirement(text(one.get("key")) or "", operator, known, field)


def _holds(term: tuple[Requirement, ...], name: str | None, labels: Mapping[str, str], unknown: frozenset[str]) -> bool:
    for one in term:
        if one.field:
            # The only field of a node.
            holds = name is None or one.key != _NAME or one.admits(name)
        else:
            holds = one.key in unknown or one.admits(labels.get(one.key))
        if not holds:
            return False
    return True


def _integer(value: str | None) -> int | None:
    if value is None or not _INTEGER.match(value):
        return None
    found = int(value)
    return found if -_INT64 <= found < _INT64 else None

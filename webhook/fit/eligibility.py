"""Eligibility: which nodes a pod may use by its nodeSelector, its node affinity and its tolerations.

One-sided: a part that cannot be judged admits the node. Source: component-helpers nodeaffinity.go,
core/v1/toleration.go, and apimachinery labels/selector.go of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Taint(NamedTuple):
    """A taint of a node."""

    key: str
    value: str
    effect: str


class Toleration(NamedTuple):
    """A toleration of a pod."""

    key: str
    operator: str
    value: str
    effect: str


class Requirement(NamedTuple):
    """A requirement of a node selector term: on a label, or on the name of the node (`field`)."""

    key: str
    operator: str
    values: tuple[str, ...]
    field: bool = False


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Which nodes a pod may use. `terms` are ORed, the requirements of a term ANDed; None without required affinity."""

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[Requirement, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    node_name: str | None = None

    @property
    def keys(self) -> frozenset[str]:
        """The node label keys that it reads."""
        named = {key for key, _ in self.selector}
        for term in self.terms or ():
            named.update(one.key for one in term if not one.field)
        return frozenset(named)

    def admits(self, name: str, labels: Mapping[str, str], taints: Iterable[Taint]) -> bool:
        """Return whether the pod may use a node with that name, these labels and these taints."""
        raise NotImplementedError

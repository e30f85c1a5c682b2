"""Which pods a rule about pods must see, in a form that an API server can evaluate.

A rule about pods declares the traits without which it finds nothing in a pod that it sees without its workload. The API
server does not call `/validate` for pods of Grove's operator that have none of these traits. So a trait may be wider
than its rule, and never narrower. A rule without a guard must see every pod.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from webhook.model.workloads.podtemplate import PodTemplate

# A pod with more containers of one kind is judged whatever they request, because an API server evaluates only cheap
# conditions.
MOST_CONTAINERS = 32


class HasLabel(NamedTuple):
    """The pod has a label, with another value than those of `besides`."""

    key: str
    besides: tuple[str, ...] = ()

    @property
    def cel(self) -> str:
        """The trait as an expression over `object`."""
        present = f"{_quoted(self.key)} in object.metadata.?labels.orValue({{}})"
        if not self.besides:
            return present
        return f"({present} && !(object.metadata.labels[{_quoted(self.key)}] in {_quoted(self.besides)}))"

    def of(self, pod: PodTemplate) -> bool:
        """Return whether `pod` has the trait."""
        return self.key in pod.labels and pod.labels[self.key] not in self.besides


class HasAnnotation(NamedTuple):
    """The pod has an annotation."""

    key: str

    @property
    def cel(self) -> str:
        """The trait as an expression over `object`."""
        return f"{_quoted(self.key)} in object.metadata.?annotations.orValue({{}})"

    def of(self, pod: PodTemplate) -> bool:
        """Return whether `pod` has the trait."""
        return self.key in pod.annotations


class Requests(NamedTuple):
    """A container requests or limits one of `resources`, of whatever amount; or the pod has very many containers."""

    resources: frozenset[str]

    @property
    def cel(self) -> str:
        """The trait as an expression over `object`."""
        containers, init = "object.spec.containers", "object.spec.?initContainers.orValue([])"
        asked = " || ".join(f"r in c.?resources.?{kind}.orValue({{}})" for kind in ("requests", "limits"))
        each = f"({containers} + {init}).exists(c, {_quoted(sorted(self.resources))}.exists(r, {asked}))"
        return f"(size({containers}) > {MOST_CONTAINERS} || size({init}) > {MOST_CONTAINERS} || {each})"

    def of(self, pod: PodTemplate) -> bool:
        """Return whether `pod` has the trait."""
        many = any(len(pod.spec.get(field) or ()) > MOST_CONTAINERS for field in ("containers", "initContainers"))
        return many or not self.resources.isdisjoint(pod.resources)


Trait = HasLabel | HasAnnotation | Requests


def _always(_: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class PodGuard:
    """The traits of the pods that a rule must see: it finds nothing in a pod that has none of them.

    Where `suffices` says no to the settings of the profile, the rule must see every pod. With `by_facts`, what the rule
    finds depends on the cluster, so `/mutate` asks it before it seals a pod.
    """

    traits: tuple[Trait, ...] = ()
    suffices: Callable[[Any], bool] = _always
    by_facts: bool = False


def sees(*traits: Trait, suffices: Callable[[Any], bool] = _always) -> PodGuard:
    """Return the guard of a rule that finds something only in pods with one of `traits`."""
    return PodGuard(traits, suffices)


# The guard of a rule that finds nothing in a pod without its workload.
NEEDS_WORKLOAD = PodGuard()
# The guard of a rule that `/mutate` asks.
BY_FACTS = PodGuard(by_facts=True)


def any_of(guards: Iterable[PodGuard]) -> str:
    """Return an expression that is true for the pods with a trait of any of `guards`; empty if they have no traits."""
    return " || ".join(dict.fromkeys(trait.cel for guard in guards for trait in guard.traits))


def _quoted(value: object) -> str:
    return json.dumps(value)

"""The guards of rules about pods: which pods a rule must see, in a form that an API server can evaluate.

A rule about pods declares traits. In a pod that is judged without its workload, the rule finds nothing unless the pod
has one of them. The API server does not send a sealed pod without any of these traits to `/validate`. So a trait may
be wider than its rule, and never narrower. A rule without a guard must see every pod.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from webhook.model.claims import Mark
from webhook.model.pod_template import PodTemplate
from webhook.model.reading import mapping, sequence

# A pod with more containers of one kind, or more resources in one of them, is judged whatever these are, because an API
# server evaluates only cheap conditions.
MOST_CONTAINERS = 32
MOST_RESOURCES = 32
_AMOUNTS = ("requests", "limits")


class HasLabel(NamedTuple):
    """The pod has the label, and its value is not one of `other_than`."""

    key: str
    other_than: tuple[str, ...] = ()

    @property
    def cel(self) -> str:
        """The trait as an expression over `object`."""
        present = Mark("labels", self.key).cel
        if not self.other_than:
            return present
        return f"({present} && !(object.metadata.labels[{_quoted(self.key)}] in {_quoted(self.other_than)}))"

    def matches(self, pod: PodTemplate) -> bool:
        """Returns whether `pod` has the trait."""
        return self.key in pod.labels and pod.labels[self.key] not in self.other_than


class HasAnnotation(NamedTuple):
    """The pod has an annotation."""

    key: str

    @property
    def cel(self) -> str:
        """The trait as an expression over `object`."""
        return Mark("annotations", self.key).cel

    def matches(self, pod: PodTemplate) -> bool:
        """Returns whether `pod` has the trait."""
        return self.key in pod.annotations


class Requests(NamedTuple):
    """A container requests or limits one of `resources`, of whatever amount; or the pod has very many containers, or
    one of them very many resources.
    """

    resources: frozenset[str]

    @property
    def cel(self) -> str:
        """The trait as an expression over `object`."""
        containers, init = "object.spec.containers", "object.spec.?initContainers.orValue([])"
        # A container names few resources, so these are looked up among those that matter, and not the reverse.
        amounts = ", ".join(f"c.?resources.?{kind}.orValue({{}})" for kind in _AMOUNTS)
        condition = f"size(m) > {MOST_RESOURCES} || m.exists(r, r in {_quoted(sorted(self.resources))})"
        each = f"({containers} + {init}).exists(c, [{amounts}].exists(m, {condition}))"
        return f"(size({containers}) > {MOST_CONTAINERS} || size({init}) > {MOST_CONTAINERS} || {each})"

    def matches(self, pod: PodTemplate) -> bool:
        """Returns whether `pod` has the trait."""
        lists = [sequence(pod.spec.get(field)) for field in ("containers", "initContainers")]
        if any(len(containers) > MOST_CONTAINERS for containers in lists):
            return True
        resources = [mapping(mapping(container).get("resources")) for containers in lists for container in containers]
        amounts = [mapping(resource.get(kind)) for resource in resources for kind in _AMOUNTS]
        return any(len(amount) > MOST_RESOURCES or not self.resources.isdisjoint(amount) for amount in amounts)


Trait = HasLabel | HasAnnotation | Requests


def _always(_: Any) -> bool:
    return True


class PodGuard(NamedTuple):
    """The traits of the pods that a rule must see: it finds nothing in a pod that has none of them.

    If `suffices` returns False for the settings of the profile, no pod of the profile is sealed. With `by_facts`, the
    rule depends on these parts of the facts, and finds nothing where none of them is known. So `/mutate` runs it before
    it seals a pod.
    """

    traits: tuple[Trait, ...] = ()
    suffices: Callable[[Any], bool] = _always
    by_facts: tuple[str, ...] = ()


def sees(*traits: Trait, suffices: Callable[[Any], bool] = _always) -> PodGuard:
    """Returns the guard of a rule that finds something only in pods with one of `traits`."""
    return PodGuard(traits, suffices)


# The guard of a rule that finds nothing in a pod without its workload.
NEEDS_WORKLOAD = PodGuard()


def asks_facts(*parts: str) -> PodGuard:
    """Returns the guard of a rule that `/mutate` runs, about these parts of the facts."""
    return PodGuard(by_facts=parts)


def any_of(guards: Iterable[PodGuard]) -> str:
    """Returns an expression that is true for the pods with a trait of any of `guards`; empty if they have no traits."""
    traits = dict.fromkeys(trait for guard in guards for trait in guard.traits)
    requested = [trait.resources for trait in traits if isinstance(trait, Requests)]
    # The containers are looked through once, and last.
    whole = [Requests(frozenset().union(*requested))] if requested else []
    others = [trait for trait in traits if not isinstance(trait, Requests)]
    return " || ".join(trait.cel for trait in (*others, *whole))


def _quoted(value: object) -> str:
    return json.dumps(value)

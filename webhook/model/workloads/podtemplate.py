"""PodTemplate: the view that rules about pods read, over a Pod or over the pod template of a clique in a PodCliqueSet.

A rule written against it judges both. So a fault is refused at the workload and, if the workload was admitted anyway,
at the pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

from webhook.model.fields import FieldPath, Item, Part
from webhook.model.quantity import parse_quantity
from webhook.model.reading import mapping, sequence, text

_ZERO = Fraction(0)


class Placed(Protocol):
    """An object with a pod template, and the paths of its metadata and its pod spec."""

    @property
    def metadata_path(self) -> FieldPath:
        """The path of labels and annotations."""

    @property
    def spec_path(self) -> FieldPath:
        """The path of the pod spec."""


class PodTemplate:
    """A read view of a pod's labels, annotations and spec, and of their paths in the judged object."""

    __slots__ = ("_asked", "_holder", "annotations", "labels", "spec")

    def __init__(self, metadata: Mapping[str, Any], spec: Mapping[str, Any], holder: Placed) -> None:
        self.labels = mapping(metadata.get("labels"))
        self.annotations = mapping(metadata.get("annotations"))
        self.spec = spec
        # Paths are made only for findings.
        self._holder = holder
        self._asked: set[str] | None = None

    @property
    def labels_path(self) -> FieldPath:
        """The path of the labels."""
        return self._holder.metadata_path / "labels"

    @property
    def annotations_path(self) -> FieldPath:
        """The path of the annotations."""
        return self._holder.metadata_path / "annotations"

    @property
    def spec_path(self) -> FieldPath:
        """The path of the pod spec."""
        return self._holder.spec_path

    def request_of(self, resources: frozenset[str]) -> Request | None:
        """The first request or limit, in any container, for a non-zero amount of one of `resources`."""
        return None if resources.isdisjoint(self.resources) else find_request(self.spec, resources)

    @property
    def resources(self) -> set[str]:
        """Every resource that a container requests or limits."""
        if self._asked is None:
            # Several rules ask for this, and most pods request none of the resources that a rule is about.
            self._asked = _resources(self.spec)
        return self._asked

    def total_request(self, resource: str) -> Fraction | None:
        """The whole pod's request for `resource`: the sum of its containers and sidecars, or its largest init container
        with the sidecars before it, whichever is more. None if a quantity cannot be read.

        Source: k8s.io/component-helpers/resource, `PodRequests`; a missing request is its limit, as the API server
        defaults it.
        """
        running, largest_init, sidecars = _ZERO, _ZERO, _ZERO
        for container in sequence(self.spec.get("containers")):
            amount = _request(mapping(container), resource)
            if amount is None:
                return None
            running += amount
        for container in sequence(self.spec.get("initContainers")):
            amount = _request(mapping(container), resource)
            if amount is None:
                return None
            if mapping(container).get("restartPolicy") == "Always":
                sidecars += amount
                largest_init = max(largest_init, sidecars)
            else:
                largest_init = max(largest_init, sidecars + amount)
        overhead = parse_quantity(mapping(self.spec.get("overhead")).get(resource, 0))
        # A request of the pod itself replaces those of its containers (pod-level resources, on since Kubernetes 1.34).
        own = mapping(self.spec.get("resources"))
        stated = mapping(own.get("requests")).get(resource, mapping(own.get("limits")).get(resource))
        whole = max(running + sidecars, largest_init) if stated is None else parse_quantity(stated)
        return None if overhead is None or whole is None else whole + overhead


class Request(NamedTuple):
    """A container's request for a resource, and its path below the pod spec."""

    resource: str
    path: tuple[Part, ...]


def find_request(spec: Mapping[str, Any], resources: frozenset[str]) -> Request | None:
    """The first request or limit in a pod spec for a non-zero amount of one of `resources`, in any container."""
    for field in ("containers", "initContainers"):
        for index, container in enumerate(sequence(spec.get(field))):
            asked = mapping(container).get("resources")
            if not asked:
                continue
            for kind in ("requests", "limits"):
                amounts = mapping(mapping(asked).get(kind))
                if resources.isdisjoint(amounts):
                    continue
                for resource in sorted(resources.intersection(amounts)):
                    if parse_quantity(amounts[resource]) != _ZERO:
                        place = (field, Item(index, text(container.get("name"))), "resources", kind, resource)
                        return Request(resource, place)
    return None


def _resources(spec: Mapping[str, Any]) -> set[str]:
    """Every resource that a container of a pod spec requests or limits."""
    found: set[str] = set()
    for field in ("containers", "initContainers"):
        for container in sequence(spec.get(field)):
            asked = mapping(container).get("resources")
            # As `find_request` reads it: an empty value of another type requests nothing.
            if asked:
                found.update(mapping(mapping(asked).get("requests")), mapping(asked.get("limits")))
    return found


def _request(container: Mapping[str, Any], resource: str) -> Fraction | None:
    resources = mapping(container.get("resources"))
    amount = mapping(resources.get("requests")).get(resource)
    if amount is None:
        amount = mapping(resources.get("limits")).get(resource, 0)
    return parse_quantity(amount)

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
from webhook.model.workloads.pod_requests import total_requests

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

    __slots__ = ("_asked", "_holder", "_mentions", "_totals", "annotations", "labels", "spec")

    def __init__(self, metadata: Mapping[str, Any], spec: Mapping[str, Any], holder: Placed) -> None:
        self.labels = mapping(metadata.get("labels"))
        self.annotations = mapping(metadata.get("annotations"))
        self.spec = spec
        # Paths are made only for findings.
        self._holder = holder
        self._asked: set[str] | None = None
        self._mentions: set[str] | None = None
        self._totals: dict[str, Any] | None = None

    def with_spec(self, spec: Mapping[str, Any]) -> PodTemplate:
        """The template at the same place with another spec."""
        return PodTemplate({"labels": self.labels, "annotations": self.annotations}, spec, self._holder)

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

    @property
    def mentions(self) -> set[str]:
        """The names of its labels and annotations, of the fields of its spec, and of its containers' resources."""
        if self._mentions is None:
            self._mentions = {*self.labels, *self.annotations, *self.spec, *self.resources}
        return self._mentions

    def request_of(self, resources: frozenset[str]) -> Request | None:
        """The first request or limit, in any container, for a non-zero amount of one of `resources`."""
        return None if resources.isdisjoint(self.resources) else find_request(self.spec, resources)

    @property
    def resources(self) -> set[str]:
        """Every resource that a container requests or limits."""
        if self._asked is None:
            # Several rules ask for this, and most pods request none of the resources that a rule is about.
            resources: set[str] = set()
            add_resources(self.spec, resources)
            self._asked = resources
        return self._asked

    def total_request(self, resource: str) -> Fraction | None:
        """The whole pod's request for `resource`, as `total_requests` has it. None if a quantity cannot be read."""
        if self._totals is None:
            self._totals = total_requests(self.spec)
        found: Fraction | None = self._totals.get(resource, _ZERO)
        return found


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


def add_resources(spec: Mapping[str, Any], resources: set[str]) -> None:
    """Adds every resource that a container of a pod spec requests or limits to `resources`."""
    for field in ("containers", "initContainers"):
        if (containers := spec.get(field)) is None:
            continue
        for container in sequence(containers):
            asked = mapping(container).get("resources")
            # As `find_request` reads it: an empty value of another type requests nothing.
            if asked:
                resources.update(mapping(mapping(asked).get("requests")), mapping(asked.get("limits")))

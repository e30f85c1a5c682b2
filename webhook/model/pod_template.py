"""PodTemplate and Pod: the views that rules about pods read, with what a pod requests and the ResourceClaims that it
shares with its group.

A PodTemplate stands over a Pod or over a template in a workload. Requests are added up as the schedulers do. A claim
is shared if the pod's group lists an equal entry: one claim is then made for the group. Source: KEP-5729; k8s.io/api
scheduling/v1beta1, core/v1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import islice
from typing import Any, NamedTuple, Protocol

from webhook.model import grove
from webhook.model.bounds import MOST_CHARACTERS, MOST_ITEMS, name_text
from webhook.model.fields import METADATA, SPEC, FieldPath, Item, Part
from webhook.model.findings import shown
from webhook.model.keys import NAME_LIMIT, PodsClaim, SharedClaim
from webhook.model.quantity import parse_quantity
from webhook.model.reading import Manifest, mapping, sequence, text

_ZERO = Fraction(0)
# A quantity that is null.
_NULL = "0"
HUGE_PAGES = "hugepages-"


def total_requests(spec: Mapping[str, Any], *, from_limits: bool = True, pod_level: bool = True) -> dict[str, Any]:
    """Returns the whole pod's request by resource, as a `Fraction`: the sum of its containers and sidecars, or its
    largest init container with the sidecars before it, whichever is more, and its overhead. None where a quantity
    cannot be read, or is negative.

    `from_limits`: a missing request is the limit, as the API server defaults it on pods. `pod_level`: a request of the
    pod itself replaces those of its containers (pod-level resources, on since Kubernetes 1.34). Raises
    `Malformed`.
    """
    running: dict[str, Fraction] = {}
    sidecars: dict[str, Fraction] = {}
    largest_init: dict[str, Fraction] = {}
    unreadable: set[str] = set()

    def amounts(holder: Mapping[str, Any]) -> Iterator[tuple[str, Fraction]]:
        for resource, quantity in holder.items():
            amount = parse_quantity(quantity)
            if amount is None or amount < 0:
                unreadable.add(resource)
            else:
                yield resource, amount

    for container in sequence(spec.get("containers")):
        _add(running, amounts(requests_of_container(container, from_limits=from_limits)))
    for container in sequence(spec.get("initContainers")):
        init_amounts = dict(amounts(requests_of_container(container, from_limits=from_limits)))
        if mapping(container).get("restartPolicy") == "Always":
            _add(sidecars, init_amounts.items())
            init_amounts = dict.fromkeys(init_amounts, _ZERO)
        for resource, amount in init_amounts.items():
            total = sidecars.get(resource, _ZERO) + amount
            largest_init[resource] = max(largest_init.get(resource, _ZERO), total)
    _add(running, sidecars.items())
    # A sum of fractions takes longer than everything else here, and most resources have one amount.
    totals = {resource: amount if amount.numerator > 0 else _ZERO for resource, amount in running.items()}
    for resource, amount in largest_init.items():
        totals[resource] = max(totals.get(resource, _ZERO), amount)
    if pod_level:
        stated = {
            name: quantity
            for name, quantity in _pod_level_requests(spec, totals.keys() | unreadable).items()
            if (name in {"cpu", "memory"} or name.startswith(HUGE_PAGES))
        }
        unreadable.difference_update(stated)
        totals.update(amounts(stated))
    _add(totals, amounts(mapping(spec.get("overhead"))))
    return {**totals, **dict.fromkeys(sorted(unreadable))}


def unreadable_request(spec: Mapping[str, Any], resource: str) -> str:
    """Returns the first amount of a resource that is not a quantity, in words: its place in the pod and its value."""
    for part in ("containers", "initContainers"):
        for index, container in enumerate(sequence(spec.get(part))):
            resources = mapping(mapping(container).get("resources"))
            for name in ("requests", "limits"):
                value = mapping(resources.get(name)).get(resource)
                if value is not None and parse_quantity(value) is None:
                    return f"{part}[{index}].resources.{name}[{resource[:80]}] {shown(value)}"
    return f"the request for {resource[:80]}"


def _add(totals: dict[str, Fraction], amounts: Any) -> None:
    for resource, amount in amounts:
        before = totals.get(resource)
        totals[resource] = amount if before is None else before + amount


def requests_of_container(container: object, *, from_limits: bool) -> Mapping[str, Any]:
    """Returns what a container requests. The API server reads null as 0, and a limit is no default for it."""
    resources = mapping(mapping(container).get("resources"))
    requests = {
        name: _NULL if quantity is None else quantity for name, quantity in mapping(resources.get("requests")).items()
    }
    return {**mapping(resources.get("limits")), **requests} if from_limits else requests


def _pod_level_requests(spec: Mapping[str, Any], requested: Any) -> Mapping[str, Any]:
    """Returns what the pod itself requests. Limits count for huge pages, and for what no container requests."""
    resources = mapping(spec.get("resources"))
    limits = {
        name: quantity
        for name, quantity in mapping(resources.get("limits")).items()
        if name not in requested or name.startswith(HUGE_PAGES)
    }
    requests = mapping(resources.get("requests")).items()
    return {**limits, **{name: _NULL if quantity is None else quantity for name, quantity in requests}}


class TemplateHolder(Protocol):
    """An object with a pod template, and the paths of its metadata and its pod spec."""

    @property
    def metadata_path(self) -> FieldPath:
        """The path of labels and annotations."""

    @property
    def spec_path(self) -> FieldPath:
        """The path of the pod spec."""


class PodTemplate:
    """A read view of a pod's labels, annotations and spec, and of their paths in the judged object."""

    __slots__ = ("_holder", "_mentions", "_requested", "_totals", "annotations", "labels", "spec")

    def __init__(self, metadata: Mapping[str, Any], spec: Mapping[str, Any], holder: TemplateHolder) -> None:
        self.labels = mapping(metadata.get("labels"))
        self.annotations = mapping(metadata.get("annotations"))
        self.spec = spec
        # Paths are made only for findings.
        self._holder = holder
        self._requested: set[str] | None = None
        self._mentions: set[str] | None = None
        self._totals: dict[str, Any] | None = None

    def replace_spec(self, spec: Mapping[str, Any]) -> PodTemplate:
        """Returns the template at the same place with another spec."""
        return PodTemplate({"labels": self.labels, "annotations": self.annotations}, spec, self._holder)

    @property
    def labels_path(self) -> FieldPath:
        return self._holder.metadata_path / "labels"

    @property
    def annotations_path(self) -> FieldPath:
        return self._holder.metadata_path / "annotations"

    @property
    def spec_path(self) -> FieldPath:
        return self._holder.spec_path

    @property
    def mentions(self) -> set[str]:
        """The names of its labels and annotations, of the fields of its spec, and of its containers' resources."""
        if self._mentions is None:
            self._mentions = {*self.labels, *self.annotations, *self.spec, *self.resources}
        return self._mentions

    def request_of(self, resources: frozenset[str]) -> ResourceRequest | None:
        """Returns the first request or limit, in any container, for a non-zero amount of one of `resources`."""
        return None if resources.isdisjoint(self.resources) else find_request(self.spec, resources)

    @property
    def resources(self) -> set[str]:
        """Every resource that a container requests or limits."""
        if self._requested is None:
            # Several rules ask for this, and most pods request none of the resources that a rule is about.
            resources: set[str] = set()
            add_resources(self.spec, resources)
            self._requested = resources
        return self._requested

    def total_request(self, resource: str) -> Fraction | None:
        """Returns the pod's request for `resource`, as `total_requests` does; None if a quantity is unreadable."""
        if self._totals is None:
            self._totals = total_requests(self.spec)
        total: Fraction | None = self._totals.get(resource, _ZERO)
        return total


class ResourceRequest(NamedTuple):
    """A container's request for a resource, and its path below the pod spec."""

    resource: str
    path: tuple[Part, ...]


def find_request(spec: Mapping[str, Any], resources: frozenset[str]) -> ResourceRequest | None:
    """Returns the first request or limit of a container for a non-zero amount of one of `resources`."""
    for field in ("containers", "initContainers"):
        for index, container in enumerate(sequence(spec.get(field))):
            container_resources = mapping(container).get("resources")
            if not container_resources:
                continue
            for kind in ("requests", "limits"):
                amounts = mapping(mapping(container_resources).get(kind))
                if resources.isdisjoint(amounts):
                    continue
                for resource in sorted(resources.intersection(amounts)):
                    if parse_quantity(amounts[resource]) != _ZERO:
                        place = (field, Item(index, text(container.get("name"))), "resources", kind, resource)
                        return ResourceRequest(resource, place)
    return None


def add_resources(spec: Mapping[str, Any], resources: set[str]) -> None:
    """Adds every resource that a container of a pod spec requests or limits to `resources`."""
    for field in ("containers", "initContainers"):
        if (containers := spec.get(field)) is None:
            continue
        for container in sequence(containers):
            container_resources = mapping(container).get("resources")
            # As `find_request` reads it: an empty value of another type requests nothing.
            if container_resources:
                resources.update(
                    mapping(mapping(container_resources).get("requests")), mapping(container_resources.get("limits"))
                )


class TemplatePaths(NamedTuple):
    """The paths of the object with labels and annotations, and of the one with the fields of a pod's spec."""

    metadata_path: FieldPath
    spec_path: FieldPath


# A template that referred to its pod would keep the memory of both until the garbage collector finds them.
_PATHS = TemplatePaths(METADATA, SPEC)


class Pod:
    """A Pod (v1)."""

    __slots__ = ("name", "namespace", "raw", "template")

    kind = "Pod"

    def __init__(self, raw: Manifest, namespace: str | None = None) -> None:
        self.raw = raw
        metadata = mapping(raw.get("metadata"))
        self.name = text(metadata.get("name")) or text(metadata.get("generateName")) or ""
        self.namespace = text(metadata.get("namespace")) or namespace or "default"
        self.template = PodTemplate(metadata, mapping(raw.get("spec")), _PATHS)

    @property
    def podgang(self) -> str | None:
        """The PodGang that the pod belongs to: read from the label, never computed."""
        if self.template.labels.get(grove.LABEL_MANAGED_BY) != grove.MANAGED_BY_GROVE:
            return None
        return text(self.template.labels.get(grove.LABEL_PODGANG))

    @property
    def podclique(self) -> str | None:
        """The PodClique that the pod belongs to."""
        return text(self.template.labels.get(grove.LABEL_PODCLIQUE))

    @property
    def workload(self) -> str | None:
        """The PodCliqueSet that the pod belongs to."""
        return text(self.template.labels.get(grove.LABEL_PART_OF))

    @property
    def long_label(self) -> str | None:
        """The key of a label value longer than any name. Kubernetes refuses it, but only after mutation."""
        for key, value in self.template.labels.items():
            if isinstance(value, str) and len(value) > NAME_LIMIT:
                return key
        return None

    @property
    def scheduler_name(self) -> str | None:
        return text(self.template.spec.get("schedulerName"))


# On a workload: the names of claims of its pods, with commas between them.
CLAIMS_ANNOTATION = "rollcall.dev/group-claims"
# The most claims of one group that the API server accepts (k8s.io/api scheduling/v1beta1: maxItems).
MAX_CLAIMS = 4
# The annotation may have 256 KiB. Names beyond these are not read, and a rule reports that.
_READ_BYTES = 2048


def claim_names_in(annotations: Mapping[str, Any]) -> list[str]:
    """Returns the names of the claims that a workload asks to be shared. Raises `Malformed`."""
    stated = (text(annotations.get(CLAIMS_ANNOTATION)) or "")[:_READ_BYTES]
    return list(dict.fromkeys(name for entry in stated.split(",") if (name := entry.strip())))


def claims_in(spec: Mapping[str, Any]) -> Iterator[SharedClaim]:
    """Yields the `resourceClaims` of a group, a template or a pod. Raises `Malformed`."""
    for entry in map(mapping, sequence(spec.get("resourceClaims"))):
        claim, template = entry.get("resourceClaimName"), entry.get("resourceClaimTemplateName")
        yield SharedClaim(name_text(entry.get("name")) or "", name_text(claim), name_text(template))


def pods_claims(
    annotations: Mapping[str, Any], templates: Iterable[tuple[str, Mapping[str, Any]]]
) -> tuple[PodsClaim, ...]:
    """Returns the claims that a workload asks to be shared; none if they are too many to keep. `templates` are the
    pods' names, as `PodsClaim` has them, and specs. Raises `Malformed`.
    """
    if not (names := frozenset(claim_names_in(annotations)[:MAX_CLAIMS])):
        return ()
    every = (PodsClaim(pods, claim) for pods, spec in templates for claim in claims_in(spec) if claim.name in names)
    claims = tuple(islice(dict.fromkeys(every), MOST_ITEMS + 1))
    characters = sum(len(text or "") for claim in claims for text in (claim.pods, *claim.shared))
    return claims if len(claims) <= MOST_ITEMS and characters <= MOST_CHARACTERS else ()


def shared_by(claims: Iterable[SharedClaim]) -> list[SharedClaim]:
    """Returns the claims that a group lists, of those its pods share; none of a name with several sources."""
    sources: dict[str, set[SharedClaim]] = {}
    for claim in claims:
        sources.setdefault(claim.name, set()).add(claim)
    return [next(iter(distinct)) for _, distinct in sorted(sources.items()) if len(distinct) == 1]

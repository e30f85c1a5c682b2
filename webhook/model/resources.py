"""What limits gangs besides nodes: devices of dynamic resource allocation with the claims that request them, and the
ResourceQuotas and LimitRanges of a namespace.

Of a ResourceSlice only numbers are kept and no device: slices are written often, and devices are many. The fields of
v1beta1 and v1beta2 are read as well, for files. Quotas and ranges are read as the API server's admission applies them
to pods. Source: k8s.io/api/resource/v1 (1.35 to 1.37); kubernetes pkg/quota/v1/evaluator/core/pods.go,
plugin/pkg/admission/{resourcequota,limitranger}.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set
from fractions import Fraction
from typing import Any, Generic, NamedTuple, TypeVar

from webhook.model.bounds import MOST_ITEMS, name_text
from webhook.model.keys import Api, ObjectKey
from webhook.model.known_objects import Indexed
from webhook.model.projections import Projection, Resource, key_of, name_of
from webhook.model.quantity import Amounts, ceiling_amounts, exact_amounts
from webhook.model.reading import Manifest, integer, mapping, sequence, text

GROUP, VERSION = "resource.k8s.io", "v1"
# The API's limits: requests of a claim, alternatives of a request, devices of a claim, consumers of a claim.
MOST_REQUESTS, MOST_ALTERNATIVES, MOST_DEVICES, MOST_CONSUMERS = 32, 8, 32, 256
_MOST_SLICE_NODES = 128
# The owners of claims that are made from a template, for one pod or one group of pods.
_MADE_FOR = frozenset({"Pod", "PodGroup"})
# A CEL expression that demands a driver, alone or with further conditions: && binds its operands weaker than ==.
_DRIVER = re.compile(r"""\s*device\.driver\s*==\s*(?:"([^"'\\]+)"|'([^"'\\]+)')\s*(?:&&(.*))?\Z""", re.DOTALL)

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")


class Slice(NamedTuple):
    """A ResourceSlice: devices of one driver, in one pool. `generation` and `slices` tell whether the pool is complete.

    `nodes` has the number of devices by the name of the node that alone can use them; "" for devices that several
    nodes can use. `shared`: some device may be allocated several times.
    """

    driver: str
    pool: str
    generation: int
    slices: int
    nodes: tuple[tuple[str, int], ...]
    shared: bool = False


class DeviceClass(NamedTuple):
    """A DeviceClass: the driver that all its devices surely have, and the extended resource it stands for."""

    driver: str | None = None
    resource: str | None = None


class Alternative(NamedTuple):
    """One way to satisfy a request: at least `number` devices of a class. `every`: all devices that match."""

    device_class: str
    number: int
    driver: str | None = None
    every: bool = False


class DeviceRequest(NamedTuple):
    """A request of a claim, by one of its alternatives. `admin`: it uses devices that others have, too."""

    name: str
    alternatives: tuple[Alternative, ...]
    admin: bool = False


# The requests of a claim; None if they cannot be read.
Claim = tuple[DeviceRequest, ...] | None
# A claim that has its devices needs no more, also if its driver has removed them since.
ALLOCATED: Claim = ()


class Summarized(dict[K, V], Generic[K, V]):
    """A dict that keeps what was computed of all its entries until one of them changes."""

    _summaries: dict[Callable[[Any], Any], Any] | None = None

    def summary(self, compute: Callable[[Mapping[K, V]], S]) -> S:
        """Returns the result of `compute` for these entries."""
        if self._summaries is None:
            self._summaries = {}
        if compute not in self._summaries:
            self._summaries[compute] = compute(self)
        summary: S = self._summaries[compute]
        return summary

    def __setitem__(self, key: K, value: V) -> None:
        if self.get(key) != value:
            self._summaries = None
            super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        self._summaries = None
        super().__delitem__(key)

    def pop(self, key: K, *default: Any) -> Any:
        """Removes an entry, and returns it."""
        self._summaries = None
        return super().pop(key, *default)

    def update(self, *sources: Any, **_: Any) -> None:
        for source in sources:
            for key, value in dict(source).items():
                self[key] = value


def summary_of(entries: Mapping[K, V], compute: Callable[[Mapping[K, V]], S]) -> S:
    """Returns the result of `compute` for entries, kept where these can keep it."""
    return entries.summary(compute) if isinstance(entries, Summarized) else compute(entries)


def driver_of(selectors: object) -> str | None:
    """Returns the driver that CEL selectors surely demand together; None without one. Raises `Malformed`."""
    for selector in sequence(selectors):
        expression = text(mapping(mapping(selector).get("cel")).get("expression")) or ""
        match = _DRIVER.match(expression)
        # With "or" and "?:" the rest may match other drivers' devices.
        if match and not any(mark in (match[3] or "") for mark in ("||", "?")):
            return name_text(match[1] or match[2])
    return None


def _slice(raw: Manifest) -> tuple[str, Slice]:
    spec = mapping(raw.get("spec"))
    pool = mapping(spec.get("pool"))
    only_node = text(spec.get("nodeName"))
    numbers: dict[str, int] = {}
    shared = False
    for device in map(mapping, sequence(spec.get("devices"))):
        of_device = mapping(device.get("basic")) or device
        shared = shared or of_device.get("allowMultipleAllocations") is True
        node = only_node or text(of_device.get("nodeName")) or ""
        numbers[node] = numbers.get(node, 0) + 1
    if len(numbers) > _MOST_SLICE_NODES:
        numbers = {"": sum(numbers.values())}
    if only_node:
        # The driver runs on the node, even if it has no device there.
        numbers.setdefault(only_node, 0)
    return name_of(raw), Slice(
        driver=name_text(spec.get("driver")) or "",
        pool=name_text(pool.get("name")) or "",
        generation=integer(pool.get("generation")) or 0,
        slices=integer(pool.get("resourceSliceCount")) or 0,
        nodes=tuple(sorted(numbers.items())),
        shared=shared,
    )


def _device_class(raw: Manifest) -> tuple[str, DeviceClass]:
    spec = mapping(raw.get("spec"))
    return name_of(raw), DeviceClass(driver_of(spec.get("selectors")), name_text(spec.get("extendedResourceName")))


def _claim(raw: Manifest) -> tuple[ObjectKey, Claim] | None:
    """Returns the requests of a ResourceClaim; None for one made from a template, which no other object names."""
    owners = sequence(mapping(raw.get("metadata")).get("ownerReferences"))
    if any(text(mapping(owner).get("kind")) in _MADE_FOR for owner in owners):
        return None
    allocated = mapping(raw.get("status")).get("allocation") is not None
    return key_of(raw), ALLOCATED if allocated else requests_in(mapping(raw.get("spec")))


def _claim_template(raw: Manifest) -> tuple[ObjectKey, Claim]:
    return key_of(raw), requests_in(mapping(mapping(raw.get("spec")).get("spec")))


def requests_in(spec: Mapping[str, Any]) -> Claim:
    """Returns the requests in the spec of a claim; None if there are more than the API allows. Raises `Malformed`."""
    listed = sequence(mapping(spec.get("devices")).get("requests"))
    if len(listed) > MOST_REQUESTS:
        return None
    requests = []
    for request in map(mapping, listed):
        exactly = mapping(request.get("exactly")) or request
        ways: Iterable[Any] = sequence(request.get("firstAvailable")) or (exactly,)
        alternatives = tuple(_alternative(mapping(way)) for way in ways)
        if len(alternatives) > MOST_ALTERNATIVES:
            return None
        admin = exactly.get("adminAccess") is True
        requests.append(DeviceRequest(name_text(request.get("name")) or "", alternatives, admin))
    return tuple(requests)


def _alternative(stated: Mapping[str, Any]) -> Alternative:
    mode = text(stated.get("allocationMode"))
    count = integer(stated.get("count"))
    return Alternative(
        device_class=name_text(stated.get("deviceClassName")) or "",
        # A mode of a later release may need none.
        number=max(1 if count is None else count, 0) if mode in {None, "ExactCount"} else int(mode == "All"),
        driver=driver_of(stated.get("selectors")),
        every=mode == "All",
    )


def _kind(kind: str, plural: str, *, namespaced: bool) -> Resource:
    return Resource(Api(GROUP, VERSION, kind), plural, namespaced=namespaced)


_DEVICES = "spec.devices"
RESOURCE_SLICES = Projection(
    "resource_slices",
    _kind("ResourceSlice", "resourceslices", namespaced=False),
    _slice,
    Summarized,
    awaited=False,
    fields=(
        "spec.driver",
        "spec.pool",
        "spec.nodeName",
        *(f"{_DEVICES}.{path}" for path in ("name", "nodeName", "allowMultipleAllocations")),
        *(f"{_DEVICES}.basic.{path}" for path in ("nodeName", "allowMultipleAllocations")),
    ),
)
DEVICE_CLASSES = Projection(
    "device_classes",
    _kind("DeviceClass", "deviceclasses", namespaced=False),
    _device_class,
    Summarized,
    awaited=False,
    fields=("spec.selectors", "spec.extendedResourceName"),
)
RESOURCE_CLAIM_TEMPLATES = Projection(
    "resource_claim_templates",
    _kind("ResourceClaimTemplate", "resourceclaimtemplates", namespaced=True),
    _claim_template,
    awaited=False,
    fields=("spec.spec.devices.requests",),
)
RESOURCE_CLAIMS = Projection(
    "resource_claims",
    _kind("ResourceClaim", "resourceclaims", namespaced=True),
    _claim,
    awaited=False,
    fields=("metadata.ownerReferences.kind", "spec.devices.requests", "status.allocation.allocationTimestamp"),
)
DEVICE_PROJECTIONS = (RESOURCE_SLICES, DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS)


Limited = TypeVar("Limited")

_NO_AMOUNTS: Mapping[str, Fraction] = {}


class QuotaScope(NamedTuple):
    """A requirement on the pods that a ResourceQuota counts, such as PriorityClass In (high)."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class NamespaceQuota(NamedTuple):
    """A ResourceQuota. `hard` is None if it cannot be read; a key that it lacks has no limit. It counts the pods that
    all `scopes` match. `in_force`: the API server holds pods against all that its spec says.
    """

    hard: Amounts | None
    scopes: tuple[QuotaScope, ...] = ()
    in_force: bool = True


class ResourceRange(NamedTuple):
    """What a LimitRange demands of each Pod or Container. `ratio` is the most that a limit may be of its request."""

    of: str
    most: Mapping[str, Fraction]
    least: Mapping[str, Fraction]
    ratio: Mapping[str, Fraction]


class InNamespaces(Indexed[ObjectKey, Limited]):
    """Objects by namespace and name, indexed by their namespace as well."""

    @staticmethod
    def terms(key: ObjectKey, _: Any) -> Iterable[Hashable]:
        return (key[0],)

    def keys_in(self, namespace: str) -> Set[ObjectKey]:
        return self.having(namespace)


def objects_in_namespace(objects: Mapping[ObjectKey, Limited], namespace: str) -> list[tuple[str, Limited]]:
    """Returns the objects of a namespace with their names, sorted."""
    keys = (
        objects.keys_in(namespace)
        if isinstance(objects, InNamespaces)
        else (key for key in objects if key[0] == namespace)
    )
    return [(key[1], objects[key]) for key in sorted(keys)]


def _scopes(spec: Mapping[str, Any]) -> Iterator[QuotaScope]:
    for name in sequence(spec.get("scopes")):
        yield QuotaScope(text(name) or "")
    for stated in map(mapping, sequence(mapping(spec.get("scopeSelector")).get("matchExpressions"))):
        values = tuple(name_text(value) or "" for value in sequence(stated.get("values")))
        yield QuotaScope(text(stated.get("scopeName")) or "", text(stated.get("operator")) or "", values)


def _quota(raw: Manifest) -> tuple[ObjectKey, NamespaceQuota]:
    spec = mapping(raw.get("spec"))
    hard, scopes = ceiling_amounts(spec.get("hard")), tuple(dict.fromkeys(_scopes(spec)))
    if raw.get("status") is None:
        # A file that no cluster has seen.
        return key_of(raw), NamespaceQuota(hard, scopes)
    # The API server holds pods against the status. The quota controller copies the spec there.
    in_force = ceiling_amounts(mapping(raw.get("status")).get("hard"))
    if hard is None or in_force is None:
        return key_of(raw), NamespaceQuota(None, scopes)
    both = {key: max(amount, in_force[key]) for key, amount in hard.items() if key in in_force}
    return key_of(raw), NamespaceQuota(both, scopes, in_force=len(both) == len(hard))


def _limit_range(raw: Manifest) -> tuple[ObjectKey, tuple[ResourceRange, ...]]:
    ranges = []
    for stated in map(mapping, sequence(mapping(raw.get("spec")).get("limits"))[:MOST_ITEMS]):
        # What cannot be read demands nothing.
        most, least, ratio = (exact_amounts(stated.get(part)) for part in ("max", "min", "maxLimitRequestRatio"))
        if (of := text(stated.get("type"))) in {"Pod", "Container"} and (most or least or ratio):
            ranges.append(ResourceRange(of, most or _NO_AMOUNTS, least or _NO_AMOUNTS, ratio or _NO_AMOUNTS))
    return key_of(raw), tuple(ranges)


RESOURCE_QUOTAS = Projection(
    "resource_quotas",
    Resource(Api("", "v1", "ResourceQuota"), "resourcequotas"),
    _quota,
    InNamespaces,
    awaited=False,
    fields=("spec.hard", "spec.scopes", "spec.scopeSelector", "status.hard"),
)
LIMIT_RANGES = Projection(
    "limit_ranges",
    Resource(Api("", "v1", "LimitRange"), "limitranges"),
    _limit_range,
    InNamespaces,
    awaited=False,
    fields=("spec.limits",),
)

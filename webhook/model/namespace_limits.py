"""What a namespace limits: its ResourceQuotas and LimitRanges, as the API server's admission applies them to pods.

Source: kubernetes pkg/quota/v1/evaluator/core/pods.go, plugin/pkg/admission/{resourcequota,limitranger}.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

from webhook.model.amounts import Amounts, ceiling_amounts, exact_amounts
from webhook.model.bounds import MOST_ITEMS, name_text
from webhook.model.indexed import Indexed
from webhook.model.keys import Api, ObjectKey
from webhook.model.projections import Projection, Resource, key_of
from webhook.model.reading import Manifest, mapping, sequence, text

V = TypeVar("V")

_NO_AMOUNTS: Mapping[str, Fraction] = {}


class Scope(NamedTuple):
    """A requirement on the pods that a ResourceQuota counts, such as PriorityClass In (high)."""

    name: str
    operator: str = "Exists"
    values: tuple[str, ...] = ()


class NamespaceQuota(NamedTuple):
    """A ResourceQuota. `hard` is None if it cannot be read; a key that it lacks has no limit. It counts the pods that
    all `scopes` match. `in_force`: the API server holds pods against all that its spec says.
    """

    hard: Amounts | None
    scopes: tuple[Scope, ...] = ()
    in_force: bool = True


class ResourceRange(NamedTuple):
    """What one item of a LimitRange demands of each Pod or Container. `ratio` is the most that a limit may be of its
    request.
    """

    of: str
    most: Mapping[str, Fraction]
    least: Mapping[str, Fraction]
    ratio: Mapping[str, Fraction]


class InNamespaces(Indexed[ObjectKey, V]):
    """Objects by namespace and name, indexed by their namespace as well."""

    @staticmethod
    def terms(key: ObjectKey, _: Any) -> Iterable[Hashable]:
        """Its namespace."""
        return (key[0],)

    def of(self, namespace: str) -> Set[ObjectKey]:
        """The keys of the objects in a namespace."""
        return self.having(namespace)


def in_namespace(objects: Mapping[ObjectKey, V], namespace: str) -> list[tuple[str, V]]:
    """The objects of a namespace with their names, sorted."""
    keys = (
        objects.of(namespace) if isinstance(objects, InNamespaces) else (key for key in objects if key[0] == namespace)
    )
    return [(key[1], objects[key]) for key in sorted(keys)]


def _scopes(spec: Mapping[str, Any]) -> Iterator[Scope]:
    for name in sequence(spec.get("scopes")):
        yield Scope(text(name) or "")
    for one in sequence(mapping(spec.get("scopeSelector")).get("matchExpressions")):
        stated = mapping(one)
        values = tuple(name_text(value) or "" for value in sequence(stated.get("values")))
        yield Scope(text(stated.get("scopeName")) or "", text(stated.get("operator")) or "", values)


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
    found = []
    for one in sequence(mapping(raw.get("spec")).get("limits"))[:MOST_ITEMS]:
        stated = mapping(one)
        # What cannot be read demands nothing.
        most, least, ratio = (exact_amounts(stated.get(part)) for part in ("max", "min", "maxLimitRequestRatio"))
        if (of := text(stated.get("type"))) in {"Pod", "Container"} and (most or least or ratio):
            found.append(ResourceRange(of, most or _NO_AMOUNTS, least or _NO_AMOUNTS, ratio or _NO_AMOUNTS))
    return key_of(raw), tuple(found)


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

"""The field names of a kind, as a tree, without types and values; and the fields of an object that are not in it.

Where a schema permits any field (`additionalProperties`, `x-kubernetes-preserve-unknown-fields`, a list of scalars),
the tree ends and nothing below is checked.

Source: apiextensions.k8s.io/v1 (structural schemas and pruning); fields of metadata: k8s.io/apimachinery ObjectMeta.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from webhook.model.fields import FieldPath, Item, Part
from webhook.model.near_names import NearMisses

# The fields below one object; None where any field is permitted. A list of objects has the one key `ITEMS`, and a map
# whose values are objects the one key `EACH`.
Names = Mapping[str, Any]
ITEMS, EACH = "[]", "*"

# metadata has these fields in every kind. A schema does not list them.
OBJECT_META: Names = dict.fromkeys(
    (
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    )
)
# The most unknown fields of one object that are reported.
MOST_UNKNOWN = 100
# The schemas of real kinds are less deep. A schema from a file may refer to itself by aliases.
_DEEPEST = 40
# A field that is permitted in more places than this has no place that the author most likely meant.
_MOST_PLACES = 8


class UnknownField(NamedTuple):
    """A field that its kind does not have: `likely` is a similar field of the same object, `belongs` the place where
    the kind has a field of that name.
    """

    at: FieldPath
    value: Any
    likely: str | None = None
    belongs: str | None = None

    def below(self, path: FieldPath) -> UnknownField:
        """The same field in an object that has this one at `path`."""
        belongs = None
        if self.belongs is not None:
            belongs = " or ".join(f"{path}.{place}" for place in self.belongs.split(" or "))
        return self._replace(at=FieldPath((*path.parts, *self.at.parts)), belongs=belongs)


@dataclass(frozen=True, eq=False)
class KindFields:
    """The fields of one kind. `origin` names the release or the file that they were read from."""

    # Left out where facts are shown: there may be thousands.
    names: Names = field(compare=False)
    origin: str

    @cached_property
    def places(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """The places of each field name, shortest first, and at most `_MOST_PLACES` + 1 of them."""
        found: dict[str, list[tuple[str, ...]]] = {}
        waiting: deque[tuple[tuple[str, ...], Names]] = deque([((), self.names)])
        while waiting:
            path, names = waiting.popleft()
            for name, below in names.items():
                places = found.setdefault(name, [])
                if len(places) <= _MOST_PLACES:
                    places.append((*path, name))
                if below is not None:
                    waiting.append(((*path, name), below))
        return {name: tuple(places) for name, places in found.items()}

    def below(self, name: str) -> KindFields:
        """The fields below one of its fields."""
        if name not in self._below:
            self._below[name] = KindFields(self.names.get(name) or {}, self.origin)
        return self._below[name]

    @cached_property
    def _below(self) -> dict[str, KindFields]:
        return {}

    def unknown(self, manifest: Mapping[str, Any]) -> Iterator[UnknownField]:
        """Yield the fields of an object that its kind does not have, with their likely names or places. The time is
        linear in the size of the object.
        """
        near = NearMisses()
        wrong: list[_Unknown] = []
        _find_unknown(manifest, self.names, (), wrong)
        for trail, value, names in wrong:
            at = path_of(trail)
            name = str(at.parts[-1])
            likely = near.likely(name, names)
            yield UnknownField(at, value, likely, None if likely else self._belongs(at))

    def _belongs(self, at: FieldPath) -> str | None:
        """Return the place of a field of that name: those below the present place if there are some, else the nearest.
        Return None if several elsewhere are as near: each may mean something else.
        """
        here = tuple(part if isinstance(part, str) else ITEMS for part in at.parts[:-1])
        places = self.places.get(str(at.parts[-1]), ())
        if not places or len(places) > _MOST_PLACES:
            return None
        nearness = {place: (_common(place, here), -len(place)) for place in places}
        best = max(nearness.values())
        nearest = [place for place in places if nearness[place] == best]
        if len(nearest) > 1 and best[0] < len(here):
            return None
        return " or ".join(".".join(place).replace(f".{ITEMS}", ITEMS) for place in nearest)


def _common(place: tuple[str, ...], here: tuple[str, ...]) -> int:
    length = 0
    for one, other in zip(place, here, strict=False):
        if one != other:
            break
        length += 1
    return length


# The way to a value: the way to its parent, and its key; for an item of a list its index and itself. A path is made of
# it only where a field is unknown.
Trail = tuple[Any, ...]
_Unknown = tuple[Trail, Any, Names]


def _find_unknown(value: Any, names: Names, trail: Trail, found: list[_Unknown]) -> None:
    """Add the unknown fields below a value, up to `MOST_UNKNOWN`."""
    if ITEMS in names:
        below = names[ITEMS]
        for index, item in enumerate(value if isinstance(value, list) else ()):
            _find_unknown(item, below, (trail, index, item), found)
    elif isinstance(value, dict):
        each = EACH in names
        for key, one in value.items():
            if len(found) >= MOST_UNKNOWN:
                return
            if not each and key not in names:
                found.append(((trail, key), one, names))
            elif (below := names[EACH if each else key]) is not None:
                _find_unknown(one, below, (trail, key), found)


def path_of(trail: Trail) -> FieldPath:
    """Return the path of a value."""
    parts: list[Part] = []
    while trail:
        above, part, *item = trail
        name = item[0].get("name") if item and isinstance(item[0], dict) else None
        parts.append(Item(part, name if isinstance(name, str) else None) if item else part)
        trail = above
    return FieldPath(tuple(reversed(parts)))


def names_in(schema: object) -> Names | None:
    """Return the field names in an OpenAPI schema; None where it permits any field."""
    return _names(schema, _DEEPEST)


def kind_names(schema: object) -> Names | None:
    """Return the field names of a kind; None if its schema lists none. Its status is not checked."""
    names = names_in(schema)
    if not names or EACH in names or ITEMS in names:
        return None
    return {**names, "apiVersion": None, "kind": None, "metadata": OBJECT_META, "status": None}


def _names(schema: object, deepest: int) -> Names | None:
    if not isinstance(schema, dict) or not deepest or schema.get("x-kubernetes-preserve-unknown-fields"):
        return None
    each, properties = schema.get("additionalProperties"), schema.get("properties")
    if "items" in schema or (each is not None and each is not False):
        below = _names(schema.get("items", each), deepest - 1)
        return None if below is None else {ITEMS if "items" in schema else EACH: below}
    if not isinstance(properties, dict) or not properties:
        return None
    found = {str(name): _names(below, deepest - 1) for name, below in properties.items()}
    # The metadata of a template is often declared as an object without fields.
    if "metadata" in found and found["metadata"] is None and _is_open_object(properties["metadata"]):
        found["metadata"] = OBJECT_META
    return found


def _is_open_object(schema: object) -> bool:
    return (
        isinstance(schema, dict)
        and schema.get("type") == "object"
        and not schema.get("x-kubernetes-preserve-unknown-fields")
        and "additionalProperties" not in schema
    )

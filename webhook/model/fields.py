"""FieldPath: the place of a finding in an object, as Kubernetes writes it; the field names of a kind; and the word
that a misspelt name most likely means.

`KindFields` is a tree of names without types and values. An object may be hostile, so the number and the length of
compared words are limited.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any, NamedTuple


# Nothing changes one. It is not frozen, because rules make very many.
@dataclass(slots=True, unsafe_hash=True)
class Item:
    """An item of a list: its index, and the name that identifies it, if it has one."""

    index: int
    name: str | None = None


Part = str | Item

# A key that reads well after a dot. Other keys (mostly annotation keys) go into brackets.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
# A valid key has at most 253 characters, a slash and 63 more. A path in a message must not hide the rest of the
# message.
LONGEST_KEY = 317


class FieldPath(tuple[Part, ...]):
    """A path from the root of an object: map keys and list items. A tuple, because rules make very many."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """Its map keys and list items. Unlike the path, those of the root are false."""
        return tuple(self)

    def __truediv__(self, part: Part) -> FieldPath:
        """The path one step further down."""
        return FieldPath((*self, part))

    def __bool__(self) -> bool:
        """The root is a place, too."""
        return True

    def __repr__(self) -> str:
        return f"FieldPath({tuple(self)!r})"

    def __str__(self) -> str:
        return self._render(by_name=False)

    @property
    def anchor(self) -> str:
        """The path with list items by name instead of index; `[]` for an item without a name."""
        return self._render(by_name=True)

    def _render(self, *, by_name: bool) -> str:
        rendered = ""
        for part in self:
            if isinstance(part, Item):
                rendered += f"[{part.name or '' if by_name else part.index}]"
            elif len(part) > LONGEST_KEY and not by_name:
                rendered += f"[{part[: LONGEST_KEY - 3]}...]"
            elif _PLAIN.match(part):
                rendered += f".{part}" if rendered else part
            else:
                rendered += f"[{part}]"
        return rendered


ROOT = FieldPath()
METADATA = FieldPath(("metadata",))
SPEC = FieldPath(("spec",))
LABELS = METADATA / "labels"
ANNOTATIONS = METADATA / "annotations"


# The most words of one object that are compared, because its author may be hostile. One comparison with a
# hundred known words takes about a millisecond.
MOST_COMPARED = 16
# No known word is longer. The time of a comparison grows with the length.
_LONGEST = 80
# How similar two words must be, from 0 to 1: `siez` and `size` have 0.75.
_SIMILAR = 0.75
_OFFERED = 3
_SEPARATORS = str.maketrans("", "", "-_.")


class NearMisses:
    """Finds likely words for one object, until `MOST_COMPARED` words were compared."""

    def __init__(self) -> None:
        self._left = MOST_COMPARED

    def likely(self, word: str, words: Iterable[str], similar: float = _SIMILAR) -> str | None:
        """Returns the most similar of the `words`, None without a similar one. Case and separators do not count."""
        if self._left == 0 or len(word) > _LONGEST:
            return None
        self._left -= 1
        by_form = {_form(candidate): candidate for candidate in words}
        matches = get_close_matches(_form(word), by_form, n=1, cutoff=similar)
        return by_form[matches[0]] if matches else None


def meant(name: str, words: Iterable[str]) -> str:
    """Returns the `words` that are close to `name`, or the only one that begins with it, as the end of a
    sentence; empty if there is none. The number of words is not limited: it is for what a user of the commands wrote,
    and for few words.
    """
    words, name = list(words), name[:_LONGEST]
    close = get_close_matches(name, words, _OFFERED)
    longer = [word for word in words if name and word.startswith(name)]
    if not close and len(longer) == 1:
        close = longer
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _form(word: str) -> str:
    return word.casefold().translate(_SEPARATORS)


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
    """A field that its kind lacks: `likely` is a similar field of the object, `belongs` the place of that name."""

    at: FieldPath
    value: Any
    likely: str | None = None
    belongs: str | None = None

    def moved_below(self, path: FieldPath) -> UnknownField:
        """Returns the same field in an object that has this one at `path`."""
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
        by_name: dict[str, list[tuple[str, ...]]] = {}
        waiting: deque[tuple[tuple[str, ...], Names]] = deque([((), self.names)])
        while waiting:
            path, names = waiting.popleft()
            for name, below in names.items():
                places = by_name.setdefault(name, [])
                if len(places) <= _MOST_PLACES:
                    places.append((*path, name))
                if below is not None:
                    waiting.append(((*path, name), below))
        return {name: tuple(places) for name, places in by_name.items()}

    def below(self, name: str) -> KindFields:
        if name not in self._below:
            self._below[name] = KindFields(self.names.get(name) or {}, self.origin)
        return self._below[name]

    @cached_property
    def _below(self) -> dict[str, KindFields]:
        return {}

    def unknown(self, manifest: Mapping[str, Any]) -> Iterator[UnknownField]:
        """Yields the fields that its kind does not have, with likely names or places. The time is linear."""
        near = NearMisses()
        wrong: list[_Unknown] = []
        _find_unknown(manifest, self.names, (), wrong)
        for trail, value, names in wrong:
            at = path_of(trail)
            name = str(at.parts[-1])
            likely = near.likely(name, names)
            yield UnknownField(at, value, likely, None if likely else self._belongs(at))

    def _belongs(self, at: FieldPath) -> str | None:
        """Returns the place of a field of that name: those below the present place if there are some, else the nearest.
        Returns None if several elsewhere are as near: each may mean something else.
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
    for part, other in zip(place, here, strict=False):
        if part != other:
            break
        length += 1
    return length


# The way to a value: the way to its parent, and its key; for an item of a list its index and itself. A path is made of
# it only where a field is unknown.
Trail = tuple[Any, ...]
_Unknown = tuple[Trail, Any, Names]


def _find_unknown(value: Any, names: Names, trail: Trail, unknown: list[_Unknown]) -> None:
    """Adds the unknown fields below a value, up to `MOST_UNKNOWN`."""
    if ITEMS in names:
        below = names[ITEMS]
        for index, item in enumerate(value if isinstance(value, list) else ()):
            _find_unknown(item, below, (trail, index, item), unknown)
    elif isinstance(value, dict):
        each = EACH in names
        for key, entry in value.items():
            if len(unknown) >= MOST_UNKNOWN:
                return
            if not each and key not in names:
                unknown.append(((trail, key), entry, names))
            elif (below := names[EACH if each else key]) is not None:
                _find_unknown(entry, below, (trail, key), unknown)


def path_of(trail: Trail) -> FieldPath:
    """Returns the path of a value."""
    parts: list[Part] = []
    while trail:
        above, part, *item = trail
        name = item[0].get("name") if item and isinstance(item[0], dict) else None
        parts.append(Item(part, name if isinstance(name, str) else None) if item else part)
        trail = above
    return FieldPath(tuple(reversed(parts)))


def names_in(schema: object) -> Names | None:
    """Returns the field names in an OpenAPI schema; None where it permits any field."""
    return _names(schema, _DEEPEST)


def kind_names(schema: object) -> Names | None:
    """Returns the field names of a kind; None if its schema lists none. Its status is not checked."""
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
    names = {str(name): _names(below, deepest - 1) for name, below in properties.items()}
    # The metadata of a template is often declared as an object without fields.
    if "metadata" in names and names["metadata"] is None and _is_open_object(properties["metadata"]):
        names["metadata"] = OBJECT_META
    return names


def _is_open_object(schema: object) -> bool:
    return (
        isinstance(schema, dict)
        and schema.get("type") == "object"
        and not schema.get("x-kubernetes-preserve-unknown-fields")
        and "additionalProperties" not in schema
    )

"""Objects that grow: each list, and each map of names, of an object repeated to a given length.

Nothing here knows a kind. What is repeated is what the object has, under names of its own, so that an object of a new
kind, or of a new rule, grows without a word here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

Place = tuple[str | int, ...]

# Maps whose keys are free. The other maps are objects, whose fields are in a schema.
MAPS = frozenset(
    {"labels", "annotations", "requests", "limits", "nodeSelector", "matchLabels", "overhead", "allocated"}
)


class Text(str):
    """A string that Python code hashes and tells from others, so that a search in C is counted. Sorting is not."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)


class Style(StrEnum):
    """What the names of repeated items have in common."""

    # Each ends in the first: "worker", "x1-worker", "x2-worker".
    SUFFIX = "suffix"
    # Each begins with the first: "worker", "worker-1", "worker-2".
    PREFIX = "prefix"
    # All are one name, which no schema allows and a file may say.
    SAME = "same"
    # As PREFIX, and each refers to the one before it wherever the first refers to anything: a chain, not a star.
    CHAIN = "chain"

    def of(self, first: str, index: int) -> str:
        """The name of the item at `index` of those repeated from `first`."""
        if index == 0 or self is Style.SAME:
            return Text(first)
        return Text(f"x{index}-{first}" if self is Style.SUFFIX else f"{first}-{index}")


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Where an object has a list, or a map, that can grow."""
    if isinstance(value, dict):
        if value and at and at[-1] in MAPS:
            yield at
        for key, below in value.items():
            yield from places(below, (*at, key))
    elif isinstance(value, list) and value:
        yield at
        for index, below in enumerate(value):
            yield from places(below, (*at, index))


def grown(value: Any, wanted: Iterable[Place], length: int, style: Style) -> Any:
    """A copy of an object in which the lists and maps at these places have `length` entries more. Of a list within a
    list that of the first item grows, so that the object grows as `length` does and not as its square.
    """
    return _grown(value, frozenset(wanted), length, style, ())


def _grown(value: Any, wanted: frozenset[Place], length: int, style: Style, at: Place) -> Any:
    if isinstance(value, dict):
        found = {key: _grown(below, wanted, length, style, (*at, key)) for key, below in value.items()}
        if at in wanted:
            found |= _more_entries(value, length, style)
        return found
    if isinstance(value, list):
        items = [_grown(below, wanted, length, style, (*at, index)) for index, below in enumerate(value)]
        if at in wanted:
            items += _more_items(value, length, style)
        return items
    return Text(value) if isinstance(value, str) else value


def _more_entries(value: Mapping[str, Any], length: int, style: Style) -> dict[str, Any]:
    kept = list(value.items())
    # The keys of a map are distinct whatever the style.
    style = Style.PREFIX if style is Style.SAME else style
    return {style.of(kept[index % len(kept)][0], index + 1): kept[index % len(kept)][1] for index in range(length)}


def _more_items(value: list[Any], length: int, style: Style) -> list[Any]:
    return [_renamed(value[index % len(value)], index + 1, style) for index in range(length)]


def _renamed(item: Any, index: int, style: Style) -> Any:
    if isinstance(item, str):
        return style.of(item, index)
    if not isinstance(item, dict):
        return item
    found = {key: _renamed(below, index, style) if key == "metadata" else texts(below) for key, below in item.items()}
    if isinstance(item.get("name"), str):
        found["name"] = style.of(item["name"], index)
    if isinstance(spec := found.get("spec"), dict):
        spec |= {key: style.of(below, index) for key, below in spec.items() if key in _NAMES and isinstance(below, str)}
    if style is Style.CHAIN:
        found |= {key: style.of(below, index - 1) for key, below in item.items() if key in _REFERENCES and below}
    return found


# Names of an item besides its own.
_NAMES = ("roleName",)
# Fields by which an item names another of its list.
_REFERENCES = ("parent", "parentCompositePodGroupTemplateName", "parentTemplateName")


def texts(value: Any) -> Any:
    """A copy of a value in which each string is a `Text`, but for the keys of its maps."""
    if isinstance(value, dict):
        return {key: texts(below) for key, below in value.items()}
    if isinstance(value, list):
        return [texts(below) for below in value]
    return Text(value) if isinstance(value, str) else value

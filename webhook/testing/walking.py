"""Walk through plain objects: every value that is not a map or a list, with its path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Step = str | int
Place = tuple[Step, ...]


def leaves(value: object, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield each leaf of `value` with its path, in order."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield from leaves(below, (*at, key))
    elif isinstance(value, list | tuple):
        for index, below in enumerate(value):
            yield from leaves(below, (*at, index))
    else:
        yield at, value


def places(value: object, at: Place = ()) -> Iterator[Place]:
    """Yield every path in `value` below its root: of leaves, and of the maps and lists that have them."""
    below: Iterator[tuple[Step, object]] = iter(())
    if isinstance(value, dict):
        below = iter(value.items())
    elif isinstance(value, list):
        below = iter(enumerate(value))
    for step, found in below:
        yield (*at, step)
        yield from places(found, (*at, step))


def put(value: Any, at: Place, new: object) -> None:
    """Replace the value at `at` in `value`."""
    *way, last = at
    for step in way:
        value = value[step]
    value[last] = new


def shown(at: Place) -> str:
    """Return a path for messages."""
    return ".".join(map(str, at))

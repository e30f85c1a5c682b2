"""Row: an unchanging mapping that shares its keys with others like it.

Thousands of nodes have the same hundred label keys. A row has only its values of its own, so a node takes a kilobyte
and not ten.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar

V = TypeVar("V")

# Different sets of keys that are shared. A set that is not among these is only not shared.
_SHARED_KEYS = 1024


class Row(Mapping[str, V]):
    """A hashable mapping. Two rows are equal if their keys and values are."""

    __slots__ = ("_values", "places")

    def __init__(self, places: Mapping[str, int], values: tuple[V, ...]) -> None:
        """`places` has the keys in their order, with the index of each value."""
        self.places = places
        self._values = values

    @classmethod
    def of(cls, found: Mapping[str, V]) -> Row[V]:
        """A row with the entries of `found`. Texts in it are interned."""
        keys = tuple(sorted(found))
        return cls(_places(keys), tuple(_interned(found[key]) for key in keys))

    def __getitem__(self, key: str) -> V:
        return self._values[self.places[key]]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default."""
        place = self.places.get(key)
        return default if place is None else self._values[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented if not isinstance(other, Mapping) else dict(self) == other
        if self is other:
            return True
        same_keys = self.places is other.places or tuple(self.places) == tuple(other.places)
        return same_keys and self._values == other._values

    def __sizeof__(self) -> int:
        """The bytes of the row with its keys and values: plain values, of which `weight` need not look at each."""
        return sum(map(sys.getsizeof, (self.places, *self.places, self._values, *self._values)))

    def __repr__(self) -> str:
        return f"Row({dict(self)!r})"


def _interned(value: Any) -> Any:
    return sys.intern(value) if type(value) is str else value


@lru_cache(maxsize=_SHARED_KEYS)
def _places(keys: tuple[str, ...]) -> Mapping[str, int]:
    return {sys.intern(key): place for place, key in enumerate(keys)}

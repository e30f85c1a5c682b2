"""Which group each key is in, and which keys a group has: an index in both directions, without empty groups."""

from __future__ import annotations

from collections.abc import Hashable, KeysView, Set
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
G = TypeVar("G", bound=Hashable)


class Grouping(Generic[K, G]):
    """Keys in groups, each in one at most."""

    def __init__(self) -> None:
        self._members: dict[G, set[K]] = {}
        self._group: dict[K, G] = {}

    def move(self, key: K, group: G | None) -> None:
        """`key` is in `group` from now on, or in none."""
        if (before := self._group.pop(key, None)) is not None:
            members = self._members[before]
            members.discard(key)
            if not members:
                del self._members[before]
        if group is not None:
            self._group[key] = group
            self._members.setdefault(group, set()).add(key)

    def members(self, group: G) -> Set[K]:
        """The keys of `group`."""
        return self._members.get(group, frozenset())

    def group(self, key: K) -> G | None:
        """The group that `key` is in."""
        return self._group.get(key)

    def groups(self) -> KeysView[G]:
        """The groups that have any key."""
        return self._members.keys()

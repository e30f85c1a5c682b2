"""An index in both directions: the group of each key, and the keys of each group; empty groups are removed."""

from __future__ import annotations

from collections.abc import Hashable, KeysView, Set
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
G = TypeVar("G", bound=Hashable)


class Grouping(Generic[K, G]):
    """Keys in groups; a key is in one group at most."""

    def __init__(self) -> None:
        self._members: dict[G, set[K]] = {}
        self._group: dict[K, G] = {}

    def move(self, key: K, group: G | None) -> None:
        """Put `key` into `group`, or into none."""
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
        """The groups that have at least one key."""
        return self._members.keys()

"""An index in both directions: the group of each key, and the keys of each group; empty groups are removed."""

from __future__ import annotations

from collections.abc import Collection, Hashable, KeysView
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
G = TypeVar("G", bound=Hashable)

# A group of so many keys is kept as a tuple, which takes a third of a set. Most groups have few, such as the pods of a
# PodClique.
_FEW = 8


class Grouping(Generic[K, G]):
    """Keys in groups; a key is in one group at most."""

    def __init__(self) -> None:
        self._members: dict[G, tuple[K, ...] | set[K]] = {}
        self._group: dict[K, G] = {}

    def move(self, key: K, group: G | None) -> None:
        """Put `key` into `group`, or into none."""
        before = self._group.get(key)
        if before == group:
            return
        if before is not None:
            del self._group[key]
            self._remove(key, before)
        if group is not None:
            self._group[key] = group
            self._add(key, group)

    def members(self, group: G) -> Collection[K]:
        """The keys of `group`."""
        return self._members.get(group, ())

    def group(self, key: K) -> G | None:
        """The group that `key` is in."""
        return self._group.get(key)

    def groups(self) -> KeysView[G]:
        """The groups that have at least one key."""
        return self._members.keys()

    def _add(self, key: K, group: G) -> None:
        members = self._members.get(group, ())
        if isinstance(members, set):
            members.add(key)
        else:
            self._members[group] = (*members, key) if len(members) < _FEW else {*members, key}

    def _remove(self, key: K, group: G) -> None:
        members = self._members[group]
        if isinstance(members, set):
            members.discard(key)
        else:
            members = self._members[group] = tuple(one for one in members if one != key)
        if not members:
            del self._members[group]

"""Indexed: a mapping with an index over a common property of its entries, such as a parent or a queue.

The index is updated with each write, so a decision needs no search, no matter how many objects a cluster has.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Set
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Indexed(dict[K, V], Generic[K, V]):
    """A dict with an index. A subclass defines by `terms` the index terms of an entry."""

    def __init__(self, known: Mapping[K, V] | None = None) -> None:
        super().__init__()
        # By term: the keys that have it. A tuple of the only key, as most terms have, takes a third of a dict. A dict
        # instead of a set, so that the keys stay in insertion order.
        self._keys: dict[Hashable, tuple[K] | dict[K, None]] = {}
        self.update(known or {})

    @staticmethod
    def terms(key: Any, value: Any) -> Iterable[Hashable]:
        """The index terms of an entry."""
        raise NotImplementedError

    def having(self, term: Hashable) -> Set[K]:
        """The keys of the entries that have a term."""
        keys = self._keys.get(term, ())
        return (keys if isinstance(keys, dict) else dict.fromkeys(keys)).keys()

    @property
    def every_term(self) -> Set[Hashable]:
        """All terms of the index."""
        return self._keys.keys()

    def __setitem__(self, key: K, value: V) -> None:
        self._forget(key)
        super().__setitem__(key, value)
        for term in self.terms(key, value):
            keys = self._keys.get(term)
            if keys is None:
                self._keys[term] = (key,)
            elif isinstance(keys, dict):
                keys[key] = None
            elif keys != (key,):
                self._keys[term] = {keys[0]: None, key: None}

    def __delitem__(self, key: K) -> None:
        self._forget(key)
        super().__delitem__(key)

    def update(self, *known: Any, **_: Any) -> None:
        """Add all of these."""
        for found in known:
            for key, value in dict(found).items():
                self[key] = value

    def pop(self, key: K, *default: Any) -> Any:
        """Remove an entry, and return it."""
        self._forget(key)
        return super().pop(key, *default)

    def _forget(self, key: K) -> None:
        if key not in self:
            return
        for term in self.terms(key, self[key]):
            keys = self._keys[term]
            if isinstance(keys, dict):
                del keys[key]
            if not isinstance(keys, dict) or not keys:
                del self._keys[term]


class Overlay(Indexed[K, V]):
    """Entries with a few changes. It supports only what rules ask for: an entry by its key, and the keys of a term."""

    def __init__(self, known: Indexed[K, V], changes: Mapping[K, V | None]) -> None:
        """`changes` has None for a removed entry."""
        self._known = known
        self._changed = frozenset(changes)
        super().__init__({key: value for key, value in changes.items() if value is not None})

    def having(self, term: Hashable) -> Set[K]:
        """The keys of the entries that have a term."""
        before = (key for key in self._known.having(term) if key not in self._changed)
        return dict.fromkeys((*super().having(term), *before)).keys()

    def get(self, key: K, default: Any = None) -> Any:
        """One entry."""
        try:
            return self[key]
        except KeyError:
            return default

    def __missing__(self, key: K) -> V:
        if key in self._changed:
            raise KeyError(key)
        return self._known[key]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (key not in self._changed and key in self._known)

    def _forget(self, key: K) -> None:
        """Does nothing: each key is written once."""

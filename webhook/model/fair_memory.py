"""A bounded memory that all namespaces share. No I/O.

A tenant can make any number of what is remembered, and must not push out what is remembered of others.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def share_of(most: int) -> int:
    """What one namespace may have of something that is shared: three quarters, and at least one."""
    return max(most * 3 // 4, 1)


class _Entry(NamedTuple, Generic[V]):
    """What is remembered of a namespace, and how much it counts."""

    namespace: str
    value: V
    weight: int


class FairMemory(Generic[K, V]):
    """The entries that were put or asked for last, at most so many, or of so much weight. Of these one namespace has
    its share at most, and then loses its own oldest entries for a new one. The last entry is kept whatever it weighs.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        # The keys of each namespace, the oldest first, and what they weigh.
        self._of: dict[str, OrderedDict[K, None]] = {}
        self._weights: Counter[str] = Counter()
        self._weight = 0

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The entry of a key, which counts as the latest then; None without one."""
        if (entry := self._entries.get(key)) is None:
            return None
        self._entries.move_to_end(key)
        self._of[entry.namespace].move_to_end(key)
        return entry.value

    def put(self, namespace: str, key: K, value: V, weight: int = 1) -> None:
        """Remember an entry as the latest."""
        self.drop(key)
        self._entries[key] = _Entry(namespace, value, weight)
        own = self._of.setdefault(namespace, OrderedDict())
        own[key] = None
        self._weights[namespace] += weight
        self._weight += weight
        while self._weights[namespace] > share_of(self._most) and len(own) > 1:
            self.drop(next(iter(own)))
        while self._weight > self._most and len(self._entries) > 1:
            self.drop(next(iter(self._entries)))

    def drop(self, key: K) -> None:
        """Forget an entry, if there is one."""
        if (entry := self._entries.pop(key, None)) is None:
            return
        own = self._of[entry.namespace]
        del own[key]
        self._weight -= entry.weight
        self._weights[entry.namespace] -= entry.weight
        if not own:
            del self._of[entry.namespace], self._weights[entry.namespace]

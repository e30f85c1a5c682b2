"""A bounded memory that all namespaces share. No I/O.

A tenant can make any number of what is remembered, and must not push out what is remembered of others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def share_of(most: int) -> int:
    """What one namespace may have of something that is shared: three quarters, and at least one."""
    return max(most * 3 // 4, 1)


class FairMemory(Generic[K, V]):
    """The entries that were put or asked for last, at most so many. Of these one namespace has its share at most, and
    then loses its own oldest entry for a new one.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[K, tuple[str, V]] = OrderedDict()
        # The keys of each namespace, the oldest first.
        self._of: dict[str, OrderedDict[K, None]] = {}

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The entry of a key, which counts as the latest then; None without one."""
        if (found := self._entries.get(key)) is None:
            return None
        self._entries.move_to_end(key)
        self._of[found[0]].move_to_end(key)
        return found[1]

    def put(self, namespace: str, key: K, value: V) -> None:
        """Remember an entry as the latest."""
        self.drop(key)
        self._entries[key] = namespace, value
        own = self._of.setdefault(namespace, OrderedDict())
        own[key] = None
        if len(own) > share_of(self._most):
            self.drop(next(iter(own)))
        elif len(self._entries) > self._most:
            self.drop(next(iter(self._entries)))

    def drop(self, key: K) -> None:
        """Forget an entry, if there is one."""
        if (found := self._entries.pop(key, None)) is not None:
            own = self._of[found[0]]
            del own[key]
            if not own:
                del self._of[found[0]]

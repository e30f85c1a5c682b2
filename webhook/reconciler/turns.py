"""The order in which gangs get something of which there is little (no I/O): namespaces take turns.

A tenant can make any number of gangs in a namespace of his, and must not delay what those of the others get.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, KeysView
from typing import Any, Generic, TypeVar

# What takes turns: the first of its parts is its namespace.
K = TypeVar("K", bound=tuple[Any, ...])


def _any(_: str) -> bool:
    return True


# Gets a namespace each time that it wants more than its share.
HeldBack = Callable[[str], None]


def not_noted(_: str) -> None:
    """Leave it unsaid that a namespace wants more than its share."""


class Turns(Generic[K]):
    """Waiting keys, each once. Each namespace hands out its first key, and then waits until the others had their
    turn.
    """

    def __init__(self) -> None:
        # The namespace whose turn is next comes first.
        self._waiting: OrderedDict[str, deque[K]] = OrderedDict()
        self._keys: set[K] = set()

    def __len__(self) -> int:
        """The number of waiting keys."""
        return len(self._keys)

    def __contains__(self, key: K) -> bool:
        """Whether `key` waits."""
        return key in self._keys

    @property
    def namespaces(self) -> KeysView[str]:
        """The namespaces that have waiting keys."""
        return self._waiting.keys()

    def put(self, key: K) -> None:
        """Let `key` wait as the last of its namespace; a key that waits keeps its place."""
        if key not in self._keys:
            self._keys.add(key)
            self._waiting.setdefault(key[0], deque()).append(key)

    def take(self, may: Callable[[str], bool] = _any) -> K | None:
        """The next key of a namespace that `may` have a turn; None if no key of such a namespace waits."""
        namespace = next(filter(may, self._waiting), None)
        if namespace is None:
            return None
        keys = self._waiting[namespace]
        key = keys.popleft()
        self._keys.remove(key)
        if keys:
            self._waiting.move_to_end(namespace)
        else:
            del self._waiting[namespace]
        return key

"""How much memory objects take, counted and not measured."""

from __future__ import annotations

import gc
import sys
from types import FunctionType, ModuleType


def bytes_of(root: object) -> int:
    """What an object takes with all that it refers to, as the garbage collector reports it; code does not count."""
    total, seen, left = 0, set[int](), [root]
    while left:
        found = left.pop()
        if id(found) not in seen and not isinstance(found, type | ModuleType | FunctionType):
            seen.add(id(found))
            total += sys.getsizeof(found)
            left.extend(gc.get_referents(found))
    return total

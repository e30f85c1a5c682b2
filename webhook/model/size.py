"""The size of an object, counted no further than needed."""

from __future__ import annotations

from typing import Any


def values_in(value: Any, most: int) -> int:
    """The number of values in an object, including its maps and lists; `most` if there are more."""
    found = 0
    waiting = [value]
    while waiting and found < most:
        one = waiting.pop()
        found += 1
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return found

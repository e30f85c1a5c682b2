"""How large an object is, told without walking over more of it than it takes to know."""

from __future__ import annotations

from typing import Any


def values_in(value: Any, most: int) -> int:
    """The values in an object, its maps and lists among them; `most` where there are more."""
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

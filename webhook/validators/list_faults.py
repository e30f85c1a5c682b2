"""The wrong items of a list, when only some of them can be told: so chosen that an update hides no new one.

A list in an annotation may have tens of thousands of items. What an update made wrong comes first; of what was wrong
before only those are told that were told then, so that an update is never blamed for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# So many new ones, and so many old ones. Whoever has read that many knows what is wrong.
MOST_TOLD = 16


def told(wrong: Iterable[str], before: Iterable[str] = ()) -> Iterator[str]:
    """The wrong items that are told, each once; `before` are those of the object before the update."""
    old = dict.fromkeys(before)
    now = dict.fromkeys(wrong)
    yield from [item for item in now if item not in old][:MOST_TOLD]
    yield from (item for item in list(old)[:MOST_TOLD] if item in now)

"""Choose which wrong items of a list are reported if there are too many. An update cannot hide a new wrong item.

A list in an annotation may have tens of thousands of items. New faults of an update come first. Of the old faults only
those that were reported before are reported again, so that an update is never blamed for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# At most this many new ones and this many old ones: they are enough to see what is wrong.
MOST_TOLD = 16


def told(wrong: Iterable[str], before: Iterable[str] = ()) -> Iterator[str]:
    """The wrong items to report, each once. `before` are the wrong items of the object before the update."""
    old = dict.fromkeys(before)
    now = dict.fromkeys(wrong)
    yield from [item for item in now if item not in old][:MOST_TOLD]
    yield from (item for item in list(old)[:MOST_TOLD] if item in now)

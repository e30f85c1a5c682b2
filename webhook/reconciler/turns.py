"""The order in which gangs get something of which there is little (no I/O): namespaces take turns.

A tenant can make any number of gangs in a namespace of his, and must not delay what those of the others get.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from webhook.gangs.key import GangKey

_NONE: Mapping[str, int] = {}


def in_turns(keys: Iterable[GangKey], had: Mapping[str, int] = _NONE) -> list[GangKey]:
    """Sort gangs so that namespaces alternate. Those that `had` fewer turns come first, and the order of the gangs of
    one namespace stays.
    """
    turns = Counter(had)
    found: list[tuple[int, int, GangKey]] = []
    for place, key in enumerate(keys):
        found.append((turns[key.namespace], place, key))
        turns[key.namespace] += 1
    return [key for *_, key in sorted(found)]

"""Names that a wrong name was probably meant to be, for messages about files and arguments of a user of the commands.

Comparing takes time that grows with both names, so it is not for objects of tenants.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_OFFERED = 3


def meant(name: str, known: Iterable[str]) -> str:
    """The names in `known` that are close to `name`, as the end of a sentence; empty if none is close."""
    close = get_close_matches(name[:100], known, _OFFERED)
    return f"; did you mean {' or '.join(close)}?" if close else ""

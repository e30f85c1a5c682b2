"""The pause before the next try: doubled after each failure, up to a limit."""

from __future__ import annotations

# The pause no longer grows after so many failures; a larger power of two would not fit a float.
_DOUBLINGS = 20


def doubled(seconds: tuple[float, float], failures: int) -> float:
    """Return the seconds to wait after `failures` in a row, at least one. `seconds` are the first and the longest
    pause.
    """
    first, most = seconds
    return min(most, first * 2.0 ** min(failures - 1, _DOUBLINGS))


def spread(seconds: float, chance: float) -> float:
    """Return a part of a pause, from half of it to all of it, so that many clients do not try at the same time.
    `chance` is between 0 and 1.
    """
    return seconds * (0.5 + chance / 2)

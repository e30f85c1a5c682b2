"""How the time of some work grows with its size: a ratio, which does not depend on the speed of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable

# Between what four times the size takes in linear work (4) and in quadratic work (16).
LINEAR = 9
_TRIES = 5


def growth(work: Callable[[int], object], size: int) -> float:
    """How many times as long `work` takes for four times the size. Of several tries the shortest counts."""
    small, large = (min(_seconds(work, count) for _ in range(_TRIES)) for count in (size, size * 4))
    return large / small


def _seconds(work: Callable[[int], object], size: int) -> float:
    begun = time.thread_time()
    work(size)
    return time.thread_time() - begun

"""How much time shadows may take, so that they never delay the answers that count."""

from __future__ import annotations

from threading import Lock

# All shadows together may take this part of the time of one processor, in the long run.
SHARE = 0.25
# As much is saved up while they do nothing, in seconds.
MOST_SAVED = 1.0


class Allowance:
    """A budget in seconds that fills up with time. The event loop and the lane use it."""

    def __init__(self, now: float) -> None:
        self._lock = Lock()
        self._left = MOST_SAVED
        self._at = now

    def left(self, now: float) -> float:
        """Return the seconds that may be used now; negative after more was used than there was."""
        with self._lock:
            self._left = min(MOST_SAVED, self._left + SHARE * max(0.0, now - self._at))
            self._at = max(self._at, now)
            return self._left

    def use(self, seconds: float) -> None:
        """Take what was used."""
        with self._lock:
            self._left -= seconds

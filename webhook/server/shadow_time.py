"""How much time shadows may take, so that they never delay the answers that count.

What they use is processor time of their threads: other programs on the machine do not use it up.
"""

from __future__ import annotations

from threading import Lock

from webhook.clock import MACHINE_CLOCK, Clock

# All shadows together may take this part of the time of one processor, in the long run.
SHARE = 0.25
# As much is saved up while they do nothing, in seconds.
MOST_SAVED = 1.0


class Allowance:
    """A budget in seconds of a processor that fills up as time passes. The event loop and the lane use it."""

    def __init__(self, *, clock: Clock = MACHINE_CLOCK) -> None:
        self._clock = clock
        self._lock = Lock()
        self._left = MOST_SAVED
        self._at = clock.monotonic()

    def left(self) -> float:
        """Return the seconds that may be used now; negative after more was used than there was."""
        now = self._clock.monotonic()
        with self._lock:
            self._left = min(MOST_SAVED, self._left + SHARE * max(0.0, now - self._at))
            self._at = max(self._at, now)
            return self._left

    def use(self, seconds: float) -> None:
        """Take what was used."""
        with self._lock:
            self._left -= seconds

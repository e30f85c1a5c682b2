"""The clocks of the machine, and the pause before the next try. Only this module reads clocks: what depends on time
takes a `Clock`, so that a test can play it.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Clock:
    """The clocks of the machine.

    Timers (`asyncio.sleep`, `asyncio.timeout`, `call_later`) run by the clock of the event loop. A test that plays a
    clock plays both.
    """

    def monotonic(self) -> float:
        """Returns seconds since an arbitrary moment: for deadlines, ages and pauses."""
        return time.monotonic()

    def now(self) -> datetime:
        """Returns the date and time in UTC: for what is shown, stored or compared with dates of objects."""
        return datetime.now(UTC)

    def processor(self) -> float:
        """Returns the seconds that this thread has used of a processor: for shares of it, which other programs on the
        machine must not use up.
        """
        return time.thread_time()


MACHINE_CLOCK = Clock()

# A turn of a task. A loop that is late by 50 ms is noticed by those who ask it.
TURN_SECONDS = 0.01


class LoopTurn:
    """The turn of a task that works through very much: it ends now and then, so that others on the event loop run."""

    def __init__(self, clock: Clock = MACHINE_CLOCK) -> None:
        self._clock = clock
        self._begun = clock.processor()

    async def pause(self) -> None:
        """Lets the others run if this turn was long enough."""
        if self._clock.processor() - self._begun >= TURN_SECONDS:
            # The command line reads clocks, too, and has no event loop.
            from asyncio import sleep  # noqa: PLC0415

            await sleep(0)
            self._begun = self._clock.processor()


# The pause no longer grows after so many failures; a larger power of two would not fit a float.
_DOUBLINGS = 20


def doubled(seconds: tuple[float, float], failures: int) -> float:
    """Returns the seconds to wait after `failures` in a row, at least one. `seconds` are the first and the longest
    pause.
    """
    first, most = seconds
    return min(most, first * 2.0 ** min(failures - 1, _DOUBLINGS))


def spread(seconds: float, chance: float) -> float:
    """Returns a part of a pause, from half of it to all of it, so that many clients do not try at the same time.
    `chance` is between 0 and 1.
    """
    return seconds * (0.5 + chance / 2)

"""The clocks of the machine. Only this module reads them: what depends on time takes a `Clock`, so that a test can
play it.
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

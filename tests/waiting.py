"""Waits in tests for a condition, never for a time. The limits are generous, because a test may share its machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from tests.played import PlayedLoop

# Nothing that works takes as long, on any machine.
LIMIT_SECONDS = 120.0
# Of a played loop: its longest intervals take half an hour, and nothing is waited for that takes more than some.
_PLAYED_SECONDS = 7200.0
_GLANCE_SECONDS = 0.005


async def until(condition: Callable[[], Any], what: str = "what a test waits for") -> None:
    """Waits on the event loop until `condition()` holds. Raises `TimeoutError`, which names `what`."""
    loop, limit = asyncio.get_running_loop(), time.monotonic() + LIMIT_SECONDS
    begun, is_played = loop.time(), isinstance(loop, PlayedLoop)
    while not condition():
        waited = loop.time() - begun
        if time.monotonic() > limit or (is_played and waited > _PLAYED_SECONDS):
            raise TimeoutError(f"{what}: not within {waited:.0f} s")
        # Played hours have a million glances, so they grow apart.
        await asyncio.sleep(max(_GLANCE_SECONDS, waited / 10) if is_played else _GLANCE_SECONDS)


async def until_set(event: asyncio.Event, what: str = "what a test waits for") -> None:
    """Waits for an event of the event loop. Raises `TimeoutError`, which names `what`."""
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            await event.wait()
    except TimeoutError:
        raise TimeoutError(f"{what}: not within {LIMIT_SECONDS:g} s") from None


async def turns(count: int = 1) -> None:
    """Lets everything else on the event loop run that many times."""
    for _ in range(count):
        await asyncio.sleep(0)

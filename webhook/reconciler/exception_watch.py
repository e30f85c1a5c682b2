"""Announces the end of exceptions: an event on each of their namespaces, a week before and once they have ended.

An exception ends by itself, because every decision compares its end with the time. What changes then for gangs that do
not start is judged again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import date, datetime
from itertools import islice

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.gangs.hold_reasons import ExceptionReason
from webhook.model.exceptions import Exceptions, RuleException
from webhook.reconciler.events import APPLY_EXCEPTION, Events, RegardedNamespace

# How often the ends are compared with the time.
LOOK_SECONDS = 30.0
# The configuration may have hundreds of exceptions for dozens of namespaces each.
EVENTS_A_LOOK = 20


class ExceptionWatch:
    """Announces each end to each namespace. `only` is the only namespace that is written to."""

    def __init__(
        self,
        exceptions: Exceptions,
        events: Events,
        leads: Callable[[], bool],
        changed: Callable[[], None],
        *,
        only: str | None = None,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`changed` is called when one has ended."""
        self._exceptions = exceptions
        self._events = events
        self._leads = leads
        self._changed = changed
        self._only = only
        self._clock = clock
        self._in_force: set[str] | None = None
        # On which day each end was last announced, by exception, namespace and reason.
        self._told: dict[tuple[str, str, ExceptionReason], date] = {}

    async def run(self) -> None:
        """Compare the ends with the time until cancelled."""
        while self._exceptions.every:
            await self.look(self._clock.now())
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self, now: datetime) -> None:
        """Announce what is due at `now`."""
        in_force = {one.name for one in self._exceptions.every if not one.has_ended(now)}
        if self._in_force is not None and self._in_force != in_force:
            # Also if one is in force again: the date was wrong, and has been set back.
            self._changed()
        self._in_force = in_force
        for ended in [key for key in self._told if key[0] in in_force and key[2] is ExceptionReason.ENDED]:
            del self._told[ended]
        if not self._leads():
            return
        due = [(one, reason) for one in self._exceptions.every if (reason := _due(one, now)) is not None]
        about = [(one, namespace, reason) for one, reason in due for namespace in sorted(one.namespaces)]
        untold = (one for one in about if self._is_untold(*one, now))
        for one, namespace, reason in islice(untold, EVENTS_A_LOOK):
            self._told[one.name, namespace, reason] = now.date()
            regarded = RegardedNamespace(namespace, APPLY_EXCEPTION)
            await self._events.say(regarded, reason, _note(one, now), apart=one.name)

    def _is_untold(self, one: RuleException, namespace: str, reason: ExceptionReason, now: datetime) -> bool:
        """Whether an end is to be announced: once a day before, and once afterwards."""
        if self._only not in {None, namespace}:
            return False
        told = self._told.get((one.name, namespace, reason))
        return told is None or (reason is ExceptionReason.ENDS_SOON and told != now.date())


def _due(one: RuleException, now: datetime) -> ExceptionReason | None:
    if one.has_ended(now):
        return ExceptionReason.ENDED
    return ExceptionReason.ENDS_SOON if one.ends_soon(now) else None


def _note(one: RuleException, now: datetime) -> str:
    rules = ", ".join(sorted(one.rules))
    what = f"Exception {one.name} of the rules {rules} for {one.workloads} {one.time_left(now)}, at {one.ends}"
    do = (
        "new workloads are refused again: change the workloads, or delete the exception from the configuration"
        if one.has_ended(now)
        else f"change the workloads before, or ask {one.granted_by} for another end"
    )
    return f"{what}; {do}. It was granted by {one.granted_by}: {one.reason}"

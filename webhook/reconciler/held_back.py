"""Which namespaces use all of their share of what all namespaces share, so that their own gangs wait: counted by a
metric, and told by an event in the namespace.

The parts of the reconciler that divide something tell it, each time that a namespace wants more than it gets.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.gangs.hold_reasons import ShareReason
from webhook.reconciler.events import REPEAT_SECONDS, WRITE_GANG_OBJECTS, Events, RegardedNamespace
from webhook.reconciler.metrics import Bound, Metrics

# How often the namespaces are counted.
LOOK_SECONDS = 5.0
# What wants more than it gets says so every second or so. After this time it does not want more any longer.
RECENT_SECONDS = 10.0
# A namespace that is held back for so long is told. Thousands of gangs that come at once are written within this time.
LASTING_SECONDS = 60.0
# The limit protects the API server from an event in each of thousands of namespaces at once.
EVENTS_A_LOOK = 10


_SAYS = {
    Bound.WORKERS: "so many of its gangs changed that their objects are written late",
    Bound.WRITES: "so many of its gangs lost pods or have escaped pods that conditions or deletions come late",
    Bound.HEALTH: "so many of its gangs changed that their health is judged late",
    Bound.LOSSES: "so many of its gangs lost pods that some of the lost pods are not remembered",
    Bound.REMEDIES: "so many of its gangs need a remedy that some wait for it",
}


@dataclass(slots=True)
class _Noted:
    """Since when a namespace wants more than it gets without a break, and when it last did."""

    since: float
    last: float


class HeldBack:
    """Counts and tells which namespaces are held back. Call `note` each time that one is."""

    def __init__(self, metrics: Metrics, leads: Callable[[], bool], *, clock: Clock = MACHINE_CLOCK) -> None:
        self._metrics = metrics
        self._leads = leads
        self._clock = clock
        self._noted: dict[tuple[str, Bound], _Noted] = {}
        # When each namespace was last told.
        self._told: dict[str, float] = {}

    def note(self, bound: Bound, namespace: str) -> None:
        """A namespace wants more than its share. Keys without a namespace have none to tell."""
        if not namespace:
            return
        now = self._clock.monotonic()
        noted = self._noted.setdefault((namespace, bound), _Noted(now, now))
        noted.last = now

    async def run(self, events: Events) -> None:
        """Count and tell from time to time, until cancelled. Only the leader tells."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look(events)

    async def look(self, events: Events) -> None:
        """Count the namespaces that are held back, and tell those that have been for long."""
        now = self._clock.monotonic()
        self._noted = {about: noted for about, noted in self._noted.items() if now - noted.last < RECENT_SECONDS}
        counts = Counter(bound for _, bound in self._noted)
        for bound in Bound:
            self._metrics.held_back.labels(bound.value).set(counts[bound])
        if not self._leads():
            return
        self._told = {namespace: at for namespace, at in self._told.items() if now - at < REPEAT_SECONDS}
        lasting: dict[str, list[Bound]] = {}
        for (namespace, bound), noted in self._noted.items():
            if bound in _SAYS and now - noted.since >= LASTING_SECONDS and namespace not in self._told:
                lasting.setdefault(namespace, []).append(bound)
        for namespace, bounds in islice(lasting.items(), EVENTS_A_LOOK):
            self._told[namespace] = now
            regarded = RegardedNamespace(namespace, WRITE_GANG_OBJECTS)
            await events.say(regarded, ShareReason.HELD_BACK, _note(namespace, bounds))


def _note(namespace: str, bounds: list[Bound]) -> str:
    uses = "; ".join(words for bound, words in _SAYS.items() if bound in bounds)
    return (
        f"All namespaces share Rollcall, and this one uses all of its share: {uses}. Create and change fewer gangs at "
        f"a time, and delete those that are not needed: rollcall gangs -n {namespace} shows all"
    )

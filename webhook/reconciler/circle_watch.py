"""Detects circles of groups.

Two clients may each create a group below the other's at the same moment. Admission allows both, because neither group
exists yet when the other is judged. The circles that result are counted, and reported on each group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from math import inf

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.config.settings import Settings
from webhook.gangs.hold_reasons import GroupReason
from webhook.gangs.stores import Stores
from webhook.model.circles import circles
from webhook.model.group_tree import Trees
from webhook.model.keys import Api, ObjectKey
from webhook.model.reading import Malformed, Manifest, mapping, text
from webhook.reconciler.events import REPEAT_SECONDS, CircledGroup, Events
from webhook.reconciler.metrics import Metrics
from webhook.telemetry.logs import log

# Groups are created in bursts: all changes within this many seconds are checked together.
LOOK_SECONDS = 1.0
# Hundreds of circles only come from a fault. The limit protects the API server from storing an event for each.
EVENTS_A_LOOK = 20
# How many names a note lists. Even with the longest names an event's note has room for the remedy.
NAMED = 3

# A group of one of the kinds. A circle is a sequence of groups, each below the next.
Node = tuple[Api, ObjectKey]
Circle = tuple[Node, ...]


class CircleWatch:
    """Knows the present circles. Call `mark` when a group was created, deleted or changed."""

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        events: Events,
        metrics: Metrics,
        leads: Callable[[], bool],
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._trees = {trees.resource.api: trees for trees in trees_of(settings)}
        self._stores = stores
        self._events = events
        self._metrics = metrics
        self._leads = leads
        self._clock = clock
        self._marked: set[Node] = set()
        self._known: list[Circle] = []
        # The time each group in a circle was last reported.
        self._told: dict[CircledGroup, float] = {}

    def mark(self, api: Api, key: ObjectKey) -> None:
        """Check at the next look whether this group is in a circle, if its kind can be nested."""
        if api in self._trees:
            self._marked.add((api, key))

    async def run(self) -> None:
        """Check once a second until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Count the circles and report their groups. Only the leader reports."""
        marked, self._marked = self._marked, set()
        # A known circle may have changed shape, so one of its groups is checked again.
        before, self._known = self._known, circles((*marked, *(one[0] for one in self._known)), self._above)
        leads = self._leads()
        self._metrics.circles.set(len(self._known) if leads else 0)
        if leads:
            for ended in set(before) - set(self._known):
                names = [name for _, (_, name) in ended]
                log.info("group circle ended", namespace=ended[0][1][0], names=names[:NAMED], count=len(names))
            await self._tell()

    async def _tell(self) -> None:
        concerned = {self._circled(node): circle for circle in self._known for node in circle}
        self._told = {group: at for group, at in self._told.items() if group in concerned}
        now, said = self._clock.monotonic(), 0
        for group, circle in concerned.items():
            if now - self._told.get(group, -inf) < REPEAT_SECONDS:
                continue
            self._told[group] = now
            await self._events.say(group, GroupReason.CIRCLE, note(circle))
            said += 1
            if said == EVENTS_A_LOOK:
                return

    def _live(self, node: Node) -> Manifest | None:
        store = self._stores.by_kind.get(node[0])
        return None if store is None else store.objects.get(node[1])

    def _above(self, node: Node) -> Node | None:
        api, (namespace, _) = node
        try:
            parent = text(mapping((self._live(node) or {}).get("spec")).get(self._trees[api].parent))
        except Malformed:
            # The object was stored before the present schema; its scheduler cannot read the parent either.
            return None
        return None if parent is None else (api, (namespace, parent))

    def _circled(self, node: Node) -> CircledGroup:
        api, (namespace, name) = node
        metadata = (self._live(node) or {}).get("metadata") or {}
        return CircledGroup(self._trees[api].resource, namespace, name, metadata.get("uid"))


def trees_of(settings: Settings) -> Iterable[Trees]:
    """The nested kinds of groups of the enabled schedulers."""
    return (trees for profile in settings.profiles.values() if (trees := profile.backend.trees) is not None)


def note(circle: Circle) -> str:
    """The text about a circle: what is wrong and what to do."""
    kind, names = circle[0][0].kind, [name for _, (_, name) in circle]
    if len(names) == 1:
        what, where, which = f"{kind} {names[0]} is its own parent", "it", "it"
    else:
        others = len(names) - NAMED
        listed = [*names[:NAMED], f"{others} more"] if others > 0 else names
        what = f"The {kind}s {', '.join(listed[:-1])} and {listed[-1]} are parents of each other"
        where, which = "them", "the one that should be the root"
    return f"{what}, so no pod below {where} is ever scheduled; delete {which}, and recreate it without a parent"

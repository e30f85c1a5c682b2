"""Detects circles of groups.

Two clients may each create a group below the other's at the same moment. Admission allows both, because neither group
exists yet when the other is judged. The circles that result are counted, and reported on each group.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from webhook.cluster.clock import MACHINE_CLOCK, Clock, LoopTurn
from webhook.cluster.logs import log
from webhook.config.settings import Settings
from webhook.gangs.hold_reasons import GroupReason
from webhook.gangs.stores import Stores
from webhook.model.keys import Api, ObjectKey
from webhook.model.pod_groups import Trees, circles
from webhook.model.reading import Malformed, mapping, text
from webhook.reconciler.events import REPEAT_SECONDS, CircledGroup, Events
from webhook.reconciler.held_gangs import Turns
from webhook.reconciler.metrics import ReconcilerMetrics

# Groups are created in bursts: all changes within this many seconds are checked together.
LOOK_SECONDS = 1.0
# Hundreds of circles only come from a fault. The limit protects the API server from storing an event for each.
EVENTS_A_LOOK = 20
# How many names a note lists. Even with the longest names an event's note has room for the remedy.
NAMED = 3

# A group of one of the kinds. A circle is a sequence of groups, each below the next.
Node = tuple[Api, ObjectKey]
Circle = tuple[Node, ...]


class _Nested(NamedTuple):
    """The group above a group, and its own uid."""

    parent: Node
    uid: str | None


class CircleWatch:
    """Knows the present circles. Call `mark` when a group was created, deleted or changed."""

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        events: Events,
        metrics: ReconcilerMetrics,
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
        # What each group that has a parent said when it last changed.
        self._nested: dict[Api, dict[ObjectKey, _Nested]] = {api: {} for api in self._trees}
        # The known circles, also by each of their groups.
        self._open: dict[Circle, None] = {}
        self._circle_of: dict[Node, Circle] = {}
        # The groups that are to be reported, and when the others were, the first first.
        self._turns: Turns[tuple[str, Node]] = Turns()
        self._announced: OrderedDict[Node, float] = OrderedDict()
        # Whether this process led at the last look.
        self._led = False

    def mark(self, api: Api, key: ObjectKey) -> None:
        """Checks at the next look whether this group is in a circle, if its kind can be nested."""
        if api in self._trees:
            self._marked.add((api, key))

    async def run(self) -> None:
        """Checks once a second until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Counts the circles and reports their groups, if this process leads."""
        await self._read_marked()
        leads = self._leads()
        self._metrics.circles.set(len(self._open) if leads else 0)
        if leads:
            await self._tell()
        else:
            self._turns, self._announced, self._led = Turns(), OrderedDict(), False

    async def _read_marked(self) -> None:
        """Finds the circles of the marked groups: only a group that changed makes or ends one."""
        marked, self._marked = self._marked, set()
        turn = LoopTurn(self._clock)
        # Nothing tells that the groups of a kind are gone that is not served any more.
        for api in self._nested.keys() - self._stores.by_kind.keys():
            marked.update((api, key) for key in self._nested[api])
        before = {circle: None for node in marked if (circle := self._circle_of.get(node)) is not None}
        for node in marked:
            api, key = node
            if (nested := self._read(node)) is None:
                self._nested[api].pop(key, None)
            else:
                if (earlier := self._nested[api].get(key)) is not None and earlier.uid != nested.uid:
                    self._announced.pop(node, None)
                self._nested[api][key] = nested
            await turn.pause()
        now = dict.fromkeys(circles((*marked, *(circle[0] for circle in before)), self._parent))
        for ended in before.keys() - now.keys():
            del self._open[ended]
            for node in ended:
                del self._circle_of[node]
                self._announced.pop(node, None)
            names = [name for _, (_, name) in ended]
            log.info("group circle ended", namespace=ended[0][1][0], names=names[:NAMED], count=len(names))
        for circle in now:
            self._open[circle] = None
            for node in circle:
                self._circle_of[node] = circle
                if node not in self._announced:
                    self._turns.put((node[1][0], node))

    async def _tell(self) -> None:
        """Reports the groups in circles, some at a time. Namespaces take turns."""
        if not self._led:
            self._led = True
            for node in self._circle_of:
                self._turns.put((node[1][0], node))
        now = self._clock.monotonic()
        while self._announced and now - next(iter(self._announced.values())) >= REPEAT_SECONDS:
            node, _ = self._announced.popitem(last=False)
            self._turns.put((node[1][0], node))
        left = EVENTS_A_LOOK
        while left > 0 and (turn := self._turns.take()) is not None:
            node = turn[1]
            if (circle := self._circle_of.get(node)) is not None and node not in self._announced:
                self._announced[node] = now
                left -= 1
                api, (namespace, name) = node
                uid = self._nested[api][namespace, name].uid
                group = CircledGroup(self._trees[api].resource, namespace, name, uid)
                await self._events.say(group, GroupReason.CIRCLE, note(circle))

    def _read(self, node: Node) -> _Nested | None:
        """Returns what a group says; None if it does not exist or has no parent."""
        api, (namespace, _) = node
        store = self._stores.by_kind.get(api)
        if store is None or (live := store.objects.get(node[1])) is None:
            return None
        try:
            parent = text(mapping(live.get("spec")).get(self._trees[api].parent))
        except Malformed:
            # The object was stored before the present schema; its scheduler cannot read the parent either.
            return None
        return None if parent is None else _Nested((api, (namespace, parent)), live["metadata"].get("uid"))

    def _parent(self, node: Node) -> Node | None:
        nested = self._nested[node[0]].get(node[1])
        return None if nested is None else nested.parent


def trees_of(settings: Settings) -> Iterable[Trees]:
    """Returns the nested kinds of groups of the enabled schedulers."""
    return (trees for profile in settings.profiles.values() for trees in profile.backend.trees)


def note(circle: Circle) -> str:
    """Returns the text about a circle: what is wrong and what to do."""
    kind, names = circle[0][0].kind, [name for _, (_, name) in circle]
    if len(names) == 1:
        what, where, which = f"{kind} {names[0]} is its own parent", "it", "it"
    else:
        others = len(names) - NAMED
        listed = [*names[:NAMED], f"{others} more"] if others > 0 else names
        what = f"The {kind}s {', '.join(listed[:-1])} and {listed[-1]} are parents of each other"
        where, which = "them", "the one that should be the root"
    return f"{what}, so no pod below {where} is ever scheduled; delete {which}, and recreate it without a parent"

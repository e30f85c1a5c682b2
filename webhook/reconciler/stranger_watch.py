"""Finds the strangers of gangs that run in part or are held: other pods that name a group of the gang.

A stranger may be any pod of the namespace, and a watch on every pod of a cluster would cost more than that is worth. So
the leader lists the pods of those namespaces in which a gang waits, a few pages a second, and the namespaces take turns
page by page. Those come first in which a gang runs in part: the others waste no nodes. It keeps some names for each
gang (`webhook.gangs.strangers`) and no pages.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster.backoff import doubled
from webhook.cluster.client import Page
from webhook.errors import RequestFailed
from webhook.gangs.cluster_view import ClusterView
from webhook.gangs.health import GangHealth, State
from webhook.gangs.key import GangKey
from webhook.gangs.strangers import NO_STRANGERS, StrangerSearch
from webhook.telemetry.logs import log, outline

# How often pages are read.
LOOK_SECONDS = 1.0
# The shortest pause between two lists of a namespace, after a further gang came.
PAUSE_SECONDS = 10.0
# The first and the longest pause after a list that failed: doubled each time.
RETRY_SECONDS = (10.0, 600.0)
# A list ends after so many pages, which are a hundred thousand pods: what it has found until then counts.
MOST_PAGES = 1000


class Pace(NamedTuple):
    """How the gangs of a state are searched for: so long after one came, so often, and so many pages at a look."""

    settle: float
    period: float
    pages: int


# A gang that starts is in part for some seconds, while its scheduler binds its pods. It is told of after ten seconds,
# and should then be told of with its strangers. 400 pods a second take some hundredths of a processor. A full cluster
# has thousands of gangs that are held.
PACES = {State.IN_PART: Pace(4.0, 60.0, 4), State.HELD: Pace(60.0, 600.0, 1)}


@dataclass(slots=True)
class _List:
    """A list of the pods of a namespace that is being read, and how many pages were."""

    pages: AsyncGenerator[Page, None]
    search: StrangerSearch
    gangs: frozenset[GangKey]
    read: int = 0


@dataclass(slots=True)
class _Namespace:
    """The gangs of a namespace in one state, when it is listed next, and since when it may be listed again."""

    due: float
    earliest: float = 0.0
    failures: int = 0
    gangs: set[GangKey] = field(default_factory=set)
    list: _List | None = None


class StrangerWatch:
    """The strangers of gangs that wait, as the leader last found them. `view` keeps them."""

    def __init__(self, view: ClusterView, leads: Callable[[], bool], *, clock: Clock = MACHINE_CLOCK) -> None:
        self._view = view
        self._leads = leads
        self._clock = clock
        # By state; the namespace whose turn is next comes first.
        self._namespaces: dict[State, OrderedDict[str, _Namespace]] = {state: OrderedDict() for state in PACES}
        self._states: dict[GangKey, State] = {}
        # Lists that are not needed any more.
        self._left: list[_List] = []
        # Whether there may be lists and strangers that only a leader has.
        self._looked = False

    def judged(self, key: GangKey, health: GangHealth | None) -> None:
        """Note how a gang was judged; None for a gang that does not exist."""
        before = self._states.get(key)
        now = health.state if health is not None and health.may_have_strangers else None
        if before is now:
            return
        if before is not None:
            self._drop(key, before)
        if now is None:
            self._view.put_strangers(key, NO_STRANGERS)
            return
        self._states[key] = now
        namespace = self._namespaces[now].setdefault(key.namespace, _Namespace(inf))
        namespace.gangs.add(key)
        due = max(self._clock.monotonic() + PACES[now].settle, namespace.earliest)
        namespace.due = min(namespace.due, due)

    def _drop(self, key: GangKey, state: State) -> None:
        del self._states[key]
        namespace = self._namespaces[state][key.namespace]
        namespace.gangs.remove(key)
        if not namespace.gangs:
            del self._namespaces[state][key.namespace]
            self._leave(namespace)

    def _every(self) -> Iterator[_Namespace]:
        return (namespace for namespaces in self._namespaces.values() for namespace in namespaces.values())

    async def run(self) -> None:
        """Read pages while this process leads, until cancelled."""
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                if self._leads():
                    await self.look()
                elif self._looked:
                    await self._forget()
        finally:
            for namespace in self._every():
                self._leave(namespace)
            await self._close()

    async def look(self) -> None:
        """Read the next pages, each of the namespace whose turn it is. Another leader ends that."""
        self._looked = True
        for state, pace in PACES.items():
            namespaces, read = self._namespaces[state], 0
            while read < pace.pages and self._leads() and (name := self._next(namespaces)) is not None:
                namespace = namespaces[name]
                read += await self._read(name, namespace, pace)
                if namespaces.get(name) is not namespace:
                    # None of its gangs is in that state any more.
                    self._leave(namespace)
        await self._close()

    def _next(self, namespaces: OrderedDict[str, _Namespace]) -> str | None:
        """The namespace whose turn it is, which is then the last; None if none is due."""
        now = self._clock.monotonic()
        for name, namespace in namespaces.items():
            if namespace.list is not None or now >= namespace.due:
                namespaces.move_to_end(name)
                return name
        return None

    async def _read(self, name: str, namespace: _Namespace, pace: Pace) -> bool:
        """Read the next page of a namespace. Return whether there was one; if not, the namespace is not due."""
        try:
            listed = namespace.list
            if listed is None:
                gangs = frozenset(namespace.gangs)
                search = await self._view.stranger_search(gangs)
                listed = namespace.list = _List(self._view.living_pods(name), search, gangs)
            page = await anext(listed.pages, None) if listed.search.is_needed else None
            if page is not None:
                listed.search.see(page.items)
                listed.read += 1
            if page is None or listed.read == MOST_PAGES:
                self._finish(namespace, listed, pace)
        except RequestFailed as error:
            self._fail(name, namespace, outline(error), error.wait or 0.0)
        except Exception:  # noqa: BLE001 - a fault of ours with a list must keep no gang from its objects
            log.exception("strangers not read", namespace=name)
            self._fail(name, namespace, "an internal error")
        else:
            return page is not None
        return True

    def _finish(self, namespace: _Namespace, listed: _List, pace: Pace) -> None:
        self._leave(namespace)
        namespace.failures = 0
        namespace.earliest = self._clock.monotonic() + PAUSE_SECONDS
        is_behind = bool(namespace.gangs - listed.gangs)
        namespace.due = namespace.earliest if is_behind else self._clock.monotonic() + pace.period
        for key, strangers in listed.search.found().items():
            if key in namespace.gangs:
                self._view.put_strangers(key, strangers)

    def _fail(self, name: str, namespace: _Namespace, why: str, wait: float = 0.0) -> None:
        """Keep what the last list has found, and try again later."""
        self._leave(namespace)
        namespace.failures += 1
        pause = max(doubled(RETRY_SECONDS, namespace.failures), wait)
        namespace.due = namespace.earliest = self._clock.monotonic() + pause
        if namespace.failures.bit_count() == 1:
            # At 1, 2, 4, 8 and so on.
            log.warning("strangers not read", namespace=name, why=why, failures=namespace.failures)

    async def _forget(self) -> None:
        """Forget what only a leader knows."""
        self._looked = False
        for namespace in self._every():
            self._leave(namespace)
            namespace.due, namespace.earliest, namespace.failures = self._clock.monotonic(), 0.0, 0
            for key in namespace.gangs:
                self._view.put_strangers(key, NO_STRANGERS)
        await self._close()

    def _leave(self, namespace: _Namespace) -> None:
        """End the list of a namespace, if one is being read."""
        if namespace.list is not None:
            self._left.append(namespace.list)
            namespace.list = None

    async def _close(self) -> None:
        while self._left:
            await self._left.pop().pages.aclose()

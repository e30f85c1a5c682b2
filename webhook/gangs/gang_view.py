"""A read-only view of a cluster's gangs, for `rollcall gangs` and `rollcall explain KIND/NAME`, with the stored
records of those that lost pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

import httpx

from webhook.cluster import requests
from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock, LoopTurn
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable, NotFound, RequestFailed
from webhook.gangs.cluster_view import ClusterView
from webhook.gangs.escapes import NO_STRANGERS, StrangerSearch
from webhook.gangs.health import AnchoredHealth, GangHealth
from webhook.gangs.key import GangKey
from webhook.gangs.losses import BoundMembers, Loss, LostMembers, bound_members, content_of, losses_in
from webhook.gangs.members import GangPod, Roster
from webhook.gangs.pod_reasons import Anchors
from webhook.installation.names import LOSS_RECORDS, NAMESPACE
from webhook.model.grove import PodGang
from webhook.model.known_kinds import CONFIG_MAPS
from webhook.model.nodes import NODES
from webhook.model.reading import Malformed, Manifest

if TYPE_CHECKING:
    from webhook.cluster.cluster_facts import LiveFacts


def members_left(view: ClusterView, podgang: PodGang) -> BoundMembers | None:
    """Returns the pods of a gang that are on existing nodes; None if the pods are not read yet. Raises `Malformed`."""
    roster = view.roster_of(podgang)
    return None if roster is None else bound_members(podgang, roster.members, partial(node_exists, view.live))


def node_exists(live: LiveFacts, name: str) -> bool:
    """Returns whether there is a node of that name, as far as known."""
    watch = live.watches.get(NODES)
    if watch is None or not watch.filled:
        return True
    # A node that is too large to be kept exists. In the index an object without a namespace has this one.
    return name in watch.index.entries or ("default", name) in watch.index.left_out


async def stored_shards(client: Client, namespace: str) -> dict[str, Manifest]:
    """Returns the ConfigMaps that exist, by name. Raises `RequestFailed`."""
    shards: dict[str, Manifest] = {}
    for name in LOSS_RECORDS:
        try:
            shards[name] = (await client.get(requests.read(CONFIG_MAPS, name, namespace))).content
        except NotFound:
            continue
    return shards


async def stored_losses(client: Client, namespace: str) -> dict[GangKey, Loss]:
    """Returns the records of all gangs. Raises `RequestFailed`, `Malformed`."""
    return await losses_of(await stored_shards(client, namespace))


async def losses_of(shards: Mapping[str, Manifest], clock: Clock = MACHINE_CLOCK) -> dict[GangKey, Loss]:
    """Returns the records in these ConfigMaps, which may be thousands. Raises `Malformed`."""
    losses: dict[GangKey, Loss] = {}
    turn = LoopTurn(clock)
    for raw in shards.values():
        for key, loss in losses_in(content_of(raw)):
            losses[key] = loss
            await turn.pause()
    return losses


def unreadable(error: RequestFailed) -> str:
    """Returns why the records are not known, in a sentence for the user of a command."""
    if error.code == HTTPStatus.FORBIDDEN:
        return f"you may not read the ConfigMaps {LOSS_RECORDS[0]} to {LOSS_RECORDS[-1]} of Rollcall's namespace"
    return str(error)


# A working API server answers long before this. Waiting longer does not help if it is down or refuses.
PATIENCE_SECONDS = 20.0
# Interval at which changes are shown.
LOOK_SECONDS = 1.0
# Interval at which the records of lost pods are read again.
LOSSES_SECONDS = 5.0
# The longest time to search the pods of namespaces for strangers, and the interval at which a watch does so again.
STRANGERS_SECONDS = 10.0
STRANGERS_PERIOD_SECONDS = 60.0
# A command may judge as many shapes of gangs as a reconciler in so many seconds.
LOOKS_OF_A_COMMAND = 25


class GangView:
    """A live view of the gangs of a cluster."""

    def __init__(
        self,
        settings: Settings,
        access: Access,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._clock = clock
        self._changed: set[GangKey] = set()
        self._held: set[GangKey] = set()
        # Those that may have strangers.
        self._waiting: set[GangKey] = set()
        self.following = ClusterView(
            settings,
            access,
            gang_changed=self._changed.add,
            pods_changed=self._changed.add,
            facts_changed=lambda _: self._changed.update(self._held),
            transport=transport,
            clock=clock,
        )
        self._judging = AnchoredHealth(self._health_with_loss)
        # The stored records of gangs that lost pods; `losses_unknown` says why they could not be read.
        self._losses: dict[GangKey, Loss] = {}
        self._losses_read = 0.0
        self.losses_unknown = ""
        # Why it is not known which other pods name the groups of some gangs.
        self.strangers_unknown = ""
        self._strangers_read = 0.0

    async def read_losses(self) -> None:
        """Reads which gangs lost pods."""
        before, self._losses_read = self._losses, self._clock.monotonic()
        try:
            self._losses, self.losses_unknown = await stored_losses(self.following.client, NAMESPACE), ""
        except RequestFailed as error:
            self.losses_unknown = unreadable(error)
        except Malformed as error:
            self.losses_unknown = str(error)
        self._changed.update(key for key in before | self._losses if before.get(key) != self._losses.get(key))

    def gangs(self, namespace: str | None = None) -> list[GangHealth]:
        """Returns the health of all gangs, of one namespace or all; gangs that cannot be read are left out."""
        self._changed.clear()
        self._judging.forget()
        self.following.fits.look(LOOKS_OF_A_COMMAND)
        keys = sorted(key for key in self.following.gangs if namespace is None or key[0] == namespace)
        return [health for key in keys if (health := self._health(key)) is not None]

    async def read_room(self) -> bool:
        """Reads the pods on nodes if a gang that was judged has no room. Returns whether gangs must be judged again."""
        if not (node_pods := self.following.node_pods).is_awaited:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while node_pods.is_awaited:
                    await asyncio.sleep(0.02)
        return node_pods.pods is not None

    async def read_strangers(self, gangs: Iterable[GangKey] | None = None) -> bool:
        """Reads the pods of the namespaces of these gangs (by default of the judged gangs that wait), to find those
        that name a group of a gang and do not belong to it. Returns whether gangs must be judged again.
        """
        self._strangers_read, self.strangers_unknown = self._clock.monotonic(), ""
        keys_by_namespace: dict[str, list[GangKey]] = {}
        for key in self._waiting if gangs is None else gangs:
            keys_by_namespace.setdefault(key.namespace, []).append(key)
        searches = {name: await self.following.stranger_search(keys) for name, keys in keys_by_namespace.items()}
        ended: list[StrangerSearch] = []
        try:
            async with asyncio.timeout(STRANGERS_SECONDS):
                # The client receives a few pages at once, so the namespaces take turns.
                await asyncio.gather(*(self._read(name, search, ended) for name, search in searches.items()))
        except TimeoutError:
            self.strangers_unknown = f"not all pods were listed within {STRANGERS_SECONDS:g} s"
        changed = False
        for search in searches.values():
            for key, strangers in search.strangers().items():
                # Those that an earlier list has found stay if this one did not end.
                if search in ended or strangers != NO_STRANGERS:
                    changed |= self.following.put_strangers(key, strangers)
        return changed

    async def _read(self, namespace: str, search: StrangerSearch, ended: list[StrangerSearch]) -> None:
        try:
            if search.is_needed:
                async with aclosing(self.following.living_pods(namespace)) as pages:
                    async for page in pages:
                        search.see(page.items)
                        del page
            ended.append(search)
        except RequestFailed as error:
            self.strangers_unknown = f"the pods of namespace {namespace} were not listed: {error}"

    def gangs_of_object(self, kind: str, namespace: str, name: str) -> Iterator[tuple[GangHealth, Sequence[GangPod]]]:
        """Yields the health of the gangs of an object, each with the pods that name it. Raises `Malformed`."""
        view = self.following
        keys = view.gangs_of(kind, namespace, name)
        self._judging.forget()
        view.fits.look(LOOKS_OF_A_COMMAND)
        for key in keys:
            podgang, health = view.gang(key), self._judging.health(key)
            if podgang is not None and health is not None:
                yield health, (view.roster_of(podgang) or Roster()).pods

    async def changes(self, namespace: str | None = None) -> AsyncIterator[GangHealth]:
        """Yields each gang that changes, without end."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._clock.monotonic() - self._losses_read >= LOSSES_SECONDS:
                await self.read_losses()
            if self._clock.monotonic() - self._strangers_read >= STRANGERS_PERIOD_SECONDS:
                await self.read_strangers()
            if self.following.fits.look():
                self._changed.update(self._held)
            self._judging.forget()
            changed = sorted(self._changed)
            self._changed.clear()
            for key in changed:
                if namespace is not None and key[0] != namespace:
                    continue
                if (health := self._health(key)) is not None:
                    yield health
                self._changed.update(self._judging.affected(key))

    def _health_with_loss(self, key: GangKey, anchors: Anchors | None) -> GangHealth | None:
        """Returns the health of a gang with what is stored of it. Raises as `ClusterView.health` does."""
        health = self.following.health(key, anchors)
        loss = None if health is None else self._losses.get(key)
        podgang = None if loss is None else self.following.gang(key)
        if health is None or loss is None or podgang is None or loss.uid != (podgang.uid or ""):
            return health
        left = members_left(self.following, podgang)
        if left is None or left.is_whole:
            # A record outlives its gang's recovery by some seconds.
            return health
        return health.add_loss(LostMembers.combine(loss, left, self._clock.now()))

    def _health(self, key: GangKey) -> GangHealth | None:
        self._held.discard(key)
        try:
            health = self._judging.health(key)
        except (Malformed, FactsUnavailable):
            # A kind that was installed a moment ago is not read yet.
            return None
        if health is not None and health.obstacles:
            self._held.add(key)
        if health is not None and health.may_have_strangers:
            self._waiting.add(key)
        elif key in self._waiting:
            self._waiting.remove(key)
            self.following.put_strangers(key, NO_STRANGERS)
        return health


@asynccontextmanager
async def looking(
    settings: Settings,
    access: Access,
    transport: httpx.AsyncBaseTransport | None = None,
    *,
    clock: Clock = MACHINE_CLOCK,
) -> AsyncIterator[GangView]:
    """Yields a view of the cluster once everything is read. Raises `FactsUnavailable` if that fails."""
    look = GangView(settings, access, transport, clock=clock)
    running = asyncio.create_task(look.following.run())
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (any(look.following.unseen()) or look.following.looks_at_all) and not running.done():
                    await asyncio.sleep(0.02)
        if running.done():
            running.result()
        missing = list(look.following.unseen())
        if missing:
            raise FactsUnavailable("\n".join(missing))
        if not look.following.serves_gangs:
            raise FactsUnavailable("the cluster does not serve PodGangs; is Grove installed?")
        await look.following.removed_records.look_at_once()
        await look.read_losses()
        yield look
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await look.following.close()

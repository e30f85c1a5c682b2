"""The read side of the reconciler: facts, gangs with their objects, workloads and pods. It reports which gangs an
event affects. It never writes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import httpx

from webhook.cluster.access import Access
from webhook.cluster.client import Client, Page
from webhook.cluster.clock import MACHINE_CLOCK, Clock, LoopTurn
from webhook.cluster.cluster_facts import NOT_ASKED, LiveFacts, live_facts
from webhook.cluster.logs import log
from webhook.cluster.requests import LIVING
from webhook.cluster.watch import Watch, unread
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable, Gone, RequestFailed
from webhook.gangs.escapes import NO_STRANGERS, Escapes, SoughtGang, Strangers, StrangerSearch, still_strangers
from webhook.gangs.health import GangHealth, Observed, judge, prepared_for
from webhook.gangs.key import POD_GANG, GangKey, gang_of_object, key_of_gang, objects_of, shared_key, whose_object
from webhook.gangs.kueue_queue import FollowedWorkloads
from webhook.gangs.members import GangOwner, GangPod, PodEnd, Roster
from webhook.gangs.object_plan import is_elsewhere
from webhook.gangs.pod_reasons import Anchors, Outcomes
from webhook.gangs.pod_watches import ControllerKey, Controllers, GangPods
from webhook.gangs.podgangs import FollowedPodGangs
from webhook.gangs.room import FollowedNodePods, GangFits
from webhook.gangs.stores import StoredWorkloads, Stores
from webhook.gangs.waiting_gang import (
    FACT_PARTS_WITHOUT_ROOM,
    GANG_FACT_PARTS,
    NAMESPACE_FACT_PARTS,
    NODE_FACT_PARTS,
    StoredFits,
)
from webhook.gangs.workload_gangs import GANGS_A_TURN, OptedInGangs, QueuedOwners, RemovedRecords, WorkloadKey
from webhook.model import grove
from webhook.model.bounds import FairMemory
from webhook.model.facts import ClusterFacts
from webhook.model.grove import PodGang
from webhook.model.keys import Api, ObjectKey
from webhook.model.known_kinds import JOB_SETS, PODS
from webhook.model.kueue_objects import LOCAL_QUEUES, KueueWorkload
from webhook.model.kueue_objects import WORKLOADS as KUEUE_WORKLOADS
from webhook.model.place import GROVE_POD_CONTROLLERS
from webhook.model.projections import NAMESPACES, POD_CLIQUE_SETS, POD_GANGS, Projection, Resource
from webhook.model.reading import Malformed, Manifest
from webhook.workloads.known_workloads import TRAIN_JOB_FACTS
from webhook.workloads.opted_in_gang import OptedInGang, no_gang
from webhook.workloads.pod_clique_set import PodCliqueSet


def gang_resources(settings: Settings, live: LiveFacts) -> list[Resource]:
    """Returns the served kinds to follow: PodGangs, gang objects, and the queue trees of the enabled schedulers."""
    served = live.resources
    backends = [profile.backend for profile in settings.profiles.values()]
    apis = {api: None for backend in backends for api in backend.gang_kinds(live.facts)}
    for backend in backends:
        # The objects of a kind are the same in each version, so one is followed.
        trees = next((tree.resource.api for tree in backend.trees if tree.resource.api in served), None)
        apis |= {} if trees is None else {trees: None}
    resources = [served[api] for api in apis if api in served]
    if POD_GANGS.resource.api in served:
        resources.insert(0, POD_GANGS.resource)
    else:
        log.info("no PodGangs", why="the cluster does not serve them")
    return resources


# Large gangs of which it is kept how their pods escaped. A cluster has few of them, or none.
LARGE_GANGS = 64
# The seconds between two times that all gangs are queued.
PAUSE_SECONDS = 0.2


class ClusterView:
    """The watches on one cluster, and what they have read.

    It calls `gang_changed` with each gang whose objects may have to change, and `pods_changed` with each gang whose
    pods changed. It calls `object_changed` with each gang object, also those of other owners, and `fact_changed` with
    each entry of the facts that changed. It calls `facts_changed` when something changed that may hold or release
    gangs, with their namespace or None for all, and `all_changed` when everything must be checked. It calls `read` when
    something is known that was not, and `pod_ended` with each pod on a node that does not count for its gang any more.
    """

    def __init__(  # noqa: PLR0913 - whom it tells of what
        self,
        settings: Settings,
        access: Access,
        *,
        gang_changed: Callable[[GangKey], None],
        pods_changed: Callable[[GangKey], None],
        facts_changed: Callable[[str | None], None],
        object_changed: Callable[[Api, ObjectKey], None] = lambda _, __: None,
        fact_changed: Callable[[Projection, Any], None] = lambda _, __: None,
        all_changed: Callable[[], Awaitable[None]] | None = None,
        read: Callable[[], None] = lambda: None,
        pod_ended: Callable[[PodEnd], None] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        writes: bool = False,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """With `writes` its client is for thousands of writes."""
        self.client = Client(access, transport, pooled=writes, clock=clock)
        self._settings, self._clock = settings, clock
        self._say_gang_changed, self._say_pods_changed = gang_changed, pods_changed
        self._held_changed = facts_changed
        self._object_changed = object_changed
        self._fact_changed = fact_changed
        self._all_changed = all_changed
        self._say_read = read
        # Whether all gangs must be checked, and whether they are being queued for it.
        self._requested, self._looking = asyncio.Event(), False
        # Gangs of a workload that changed and has very many, and whether there are any.
        self._many: OrderedDict[GangKey, None] = OrderedDict()
        self._has_many = asyncio.Event()
        # How often something changed that rules may look at.
        self._revision = 0
        self._escapes: FairMemory[GangKey, Escapes] = FairMemory(LARGE_GANGS)
        facts_client = Client(access, transport, clock=clock)
        self.live: LiveFacts = live_facts(
            settings, facts_client, self._facts_changed, self._touched, objects=False, clock=clock
        )
        gang, whole = partial(gang_of_object, kinds=settings.kinds), partial(whose_object, kinds=settings.kinds)
        self.stores = Stores(self.client, self._stored, gang, whole, filled=self._store_read, clock=clock)
        self._gated = any(profile.gate for profile in settings.profiles.values())
        noticed = self._controller_noticed
        self._pods = GangPods(
            self.client, self._pods_noticed, filled=read, ended=pod_ended, controller_changed=noticed, clock=clock
        )
        self._workloads = StoredWorkloads(
            self.client, POD_CLIQUE_SETS.resource, self._workload_changed, filled=read, clock=clock
        )
        self.podgangs = FollowedPodGangs(settings, self.live, self.stores, self._pods, self._workloads)
        self.opted_in = OptedInGangs(
            self.client, settings, self._gangs_changed, self._pods_changed, read, pod_ended, clock=clock
        )
        self.removed_records = RemovedRecords(
            self.client, self.opted_in.stored, self._owners_of, self.opted_in.look_at, clock=clock
        )
        self._queued = FollowedWorkloads()
        self.node_pods = FollowedNodePods(self.client, clock=clock)
        self.fits = GangFits(StoredFits(settings), lambda: self.live.facts, self.node_pods, clock=clock)
        self._owners = QueuedOwners(self._gang_owner, self._gangs_of_groups, pods_changed)
        self._strangers: dict[GangKey, Strangers] = {}

    @property
    def gangs(self) -> list[GangKey]:
        """All known gangs."""
        return [*self.podgangs.keys, *self.opted_in.gangs]

    @property
    def serves_gangs(self) -> bool:
        """Whether the cluster can have gangs: it serves PodGangs, or Rollcall makes gangs of opted-in workloads."""
        return self.opted_in.makes_gangs or POD_GANGS.resource.api in self.stores.by_kind

    def gang(self, key: GangKey) -> PodGang | None:
        """Returns one gang. Raises `Malformed`, and `FactsUnavailable` while its existence is not known."""
        if key.kind in self._settings.kinds.gang_workloads:
            return self.opted_in.gang(key)
        return self.podgangs.gang(key)

    def is_needed(self, key: GangKey, objects: Iterable[Manifest]) -> bool:
        """Returns whether the gang objects of a PodGang that is missing are still needed. Raises `FactsUnavailable`."""
        return self.podgangs.is_needed(key, objects)

    def is_empty(self, podgang: PodGang) -> bool:
        """Returns whether this is a PodGang without pods, without a PodClique that could make them, and without gang
        objects: it needs none yet. `gang_changed` gets its key as soon as that changes.
        """
        return not isinstance(podgang, OptedInGang) and self.podgangs.is_empty(podgang)

    def workload_uid(self, key: GangKey) -> str | None:
        """Returns the uid of the opted-in workload of a gang; None if it is missing or Rollcall makes no gang of it any
        more.

        In the second case existing gang objects are left alone. Raises as `gang` does.
        """
        workload = self.opted_in.workload(key) if key.kind in self._settings.kinds.gang_workloads else None
        return None if workload is None or no_gang(workload) is not None else workload.uid

    def roster_of(self, podgang: PodGang) -> Roster | None:
        """Returns the pods that name a gang, members or not; None if they are not read yet."""
        roster = self._watched_roster(podgang)
        strangers = self._strangers.get(key_of_gang(podgang))
        if roster is None or strangers is None:
            return roster
        strangers = still_strangers(self._sought(podgang, roster), strangers)
        return roster._replace(strangers=strangers.pods, further=strangers.further)

    async def stranger_search(self, keys: Iterable[GangKey]) -> StrangerSearch:
        """Returns a search for the strangers of these gangs of one namespace, which has seen no pod yet."""
        search, turn = StrangerSearch(self._settings.profiles.values()), LoopTurn(self._clock)
        for key in keys:
            with suppress(FactsUnavailable, Malformed):
                podgang = self.gang(key)
                roster = None if podgang is None else self._watched_roster(podgang)
                if podgang is not None and roster is not None:
                    gang_objects = self.stores.owned_by(podgang.owners, objects_of(podgang))
                    search.add(self._sought(podgang, roster), gang_objects)
            await turn.pause()
        return search

    def living_pods(self, namespace: str) -> AsyncGenerator[Page, None]:
        """Yields the pods of a namespace that have not ended, in pages and by name. Raises `RequestFailed`."""
        selector = {"fieldSelector": LIVING}
        return self.client.pages(PODS, namespace=namespace, selector=selector, again=_goes_on)

    def put_strangers(self, key: GangKey, strangers: Strangers) -> bool:
        """Keeps the strangers that a search has found. Reports the gang and returns True if they have changed."""
        if self._strangers.get(key, NO_STRANGERS) == strangers:
            return False
        if strangers == NO_STRANGERS:
            del self._strangers[key]
        else:
            self._strangers[key] = strangers
        self._pods_changed(key)
        return True

    def _sought(self, podgang: PodGang, roster: Roster) -> SoughtGang:
        above = partial(self._pods_for(podgang).controllers.chain, podgang.namespace)
        return SoughtGang(key_of_gang(podgang), GangOwner.find(podgang), {pod.name for pod in roster.pods}, above)

    def _watched_roster(self, podgang: PodGang) -> Roster | None:
        pods = self._pods_for(podgang)
        if not pods.filled:
            return None
        gang_pods = (
            self.opted_in.pods_of(podgang)
            if isinstance(podgang, OptedInGang)
            else pods.pods_of_gang(key_of_gang(podgang))
        )
        return pods.roster(podgang, gang_pods)

    def pods_of(self, podgang: PodGang) -> Sequence[GangPod] | None:
        """Returns the members of a gang; None if they are not read yet."""
        roster = self.roster_of(podgang)
        return None if roster is None else roster.members

    def controllers(self, podgang: PodGang) -> Controllers:
        """Returns the controllers above the pods of a gang. Raises `FactsUnavailable` before they are read."""
        pods = self._pods_for(podgang)
        if not pods.filled:
            raise FactsUnavailable("the objects between pods and their workloads are not read yet")
        return pods.controllers

    def _pods_for(self, podgang: PodGang) -> GangPods:
        return self.opted_in.pods if isinstance(podgang, OptedInGang) else self._pods

    def gangs_of(self, kind: str, namespace: str, name: str) -> list[GangKey]:
        """Returns the gangs of an object: a PodGang itself, those of a workload, or the one of a pod."""
        if kind == POD_GANG:
            return [GangKey(namespace, name)]
        if kind == POD_CLIQUE_SETS.resource.api.kind:
            return sorted(self.podgangs.keys_of((namespace, name)))
        if kind == PODS.api.kind:
            return self._gangs_of_pod((namespace, name))
        return self.opted_in.gangs_of_workload(kind, namespace, name)

    def _gangs_of_groups(self, workload: WorkloadKey, indexes: Collection[str | None]) -> Collection[GangKey]:
        if workload[0] in self._settings.kinds.gang_workloads:
            return self.opted_in.gangs_of_groups(workload, indexes)
        return self.gangs_of(*workload)

    def _gangs_of_pod(self, pod: ObjectKey) -> list[GangKey]:
        if (gang_key := self._pods.gang_of(pod)) is not None:
            return [gang_key]
        if (gang_key := self.opted_in.pods.gang_of(pod)) is None:
            return []
        # The labels of a pod that was not prepared do not name its gang.
        gangs = self.opted_in.gangs_of_workload(gang_key.kind, gang_key.namespace, gang_key.workload)
        return [
            key
            for key in gangs
            if (gang := self.opted_in.gang(key)) is not None
            and any(gang_pod.key == pod for gang_pod in self.opted_in.pods_of(gang))
        ]

    def report_gangs_on_nodes(self, names: Collection[str]) -> set[str]:
        """Reports the gangs with pods on nodes of these names, and returns the names of nodes that have such pods."""
        return self._pods.report_gangs_on_nodes(names) | self.opted_in.pods.report_gangs_on_nodes(names)

    def has_gate(self, key: GangKey) -> bool:
        """Returns whether any pod that names a gang has Rollcall's gate."""
        pods = self.opted_in.pods if key.kind in self._settings.kinds.gang_workloads else self._pods
        return pods.any_gated(key)

    def was_restored(self, key: GangKey) -> bool:
        """Returns whether an object of a gang has lower minimums until no pod of the gang is on a node."""
        return any(store.has_restored(key) for store in self.stores.by_kind.values())

    def health(self, key: GangKey, anchors: Anchors | None = None) -> GangHealth | None:
        """Returns the health of a gang; None if it does not exist or Rollcall does not make it. `anchors` judges its
        anchors. Raises `Malformed`, and `FactsUnavailable` as `gang` does.
        """
        podgang = self.gang(key)
        if podgang is None or is_elsewhere(podgang, self.live.facts, self._settings):
            self._queued.judged(key, None)
            return None
        gang_health = judge(self._observed(key, podgang, anchors))
        self._queued.judged(key, gang_health.kueue_workload)
        return gang_health

    def observed(self, key: GangKey) -> Observed | None:
        """Returns what is known of a gang, no matter who makes it; None if it does not exist. Raises `Malformed`."""
        podgang = self.gang(key)
        return None if podgang is None else self._observed(key, podgang)

    def _observed(self, key: GangKey, podgang: PodGang, anchors: Anchors | None = None) -> Observed:
        # Other workloads may have this label of Grove's, which Kubernetes recommends to all.
        name = "" if isinstance(podgang, OptedInGang) else str(podgang.labels.get(grove.LABEL_PART_OF) or "")
        judged = self._workloads.latest((key.namespace, name), _JudgedSet)
        gang_objects = self.stores.owned_by(podgang.owners, objects_of(podgang))
        return Observed(
            podgang,
            self.roster_of(podgang) or Roster(),
            self._object,
            gang_objects,
            None if judged is None else judged.workload,
            self.live.facts,
            self._settings,
            anchors,
            self._queued.places,
            self._clock.now(),
            self.fits,
            None if judged is None else judged.outcomes_at(self._revision),
            self._escapes,
            self.is_empty(podgang),
        )

    def unready(self) -> Iterator[str]:
        """Messages about what must still be read before a write."""
        yield from self.live.unready()
        yield from self.stores.unready()
        yield from unread(self._needed_watches())

    def _needed_watches(self) -> Iterator[tuple[str, Watch]]:
        yield from self.opted_in.needed_watches()
        if self._writes_need_pods:
            yield from self._pods.watches()

    @property
    def _writes_need_pods(self) -> bool:
        """Whether the pods must be read before anything is written. The name of a PodGang's gang comes from its pods.
        Without the pods a gate would stay on, and no message would say why.
        """
        return self._gated or POD_GANGS.resource.api in self.stores.by_kind

    @property
    def is_troubled(self) -> bool:
        """Whether something that is needed to write could not be read so far."""
        if self.live.facts.apis is None:
            return self.live.trouble not in {None, NOT_ASKED}
        needed = (watch for _, watch in (*self.live.awaited(), *self._needed_watches()))
        return any(watch.trouble and not watch.filled for watch in (*needed, *self.stores.watches()))

    def unseen(self) -> Iterator[str]:
        """Messages about what must still be read before a gang's health can be judged."""
        yield from self.unready()
        if not self._writes_need_pods:
            yield from unread(self._pods.watches())
        yield from unread((("PodCliqueSet", self._workloads.watch),))
        # Without the right to read these, gangs are judged without Kueue, or without nodes and quotas.
        yield from unread(
            (projection.resource.api.kind, watch)
            for projection, watch in self.live.watches.items()
            if not projection.awaited and watch.trouble is None
        )

    def kinds(self) -> Iterator[Api]:
        """Yields the kinds that are followed in addition to those of the facts, served or not."""
        yield PODS.api
        yield POD_GANGS.resource.api
        yield from (resource.api for resource in GROVE_POD_CONTROLLERS)
        for profile in self._settings.profiles.values():
            yield from profile.backend.writable_kinds
            yield from (trees.resource.api for trees in profile.backend.trees)
        if self.opted_in.makes_gangs:
            kinds = self._settings.kinds
            yield from dict.fromkeys(kind.api for kind in (*kinds.gang_workloads.values(), *kinds.pod_controllers))

    def watches(self) -> Iterator[Watch]:
        yield from self.live.watches.values()
        yield from self.stores.watches()
        yield from (watch for _, watch in self._pods.watches())
        yield from (watch for _, watch in self.node_pods.watches())
        if self._workloads.watch is not None:
            yield self._workloads.watch
        yield from (watch for _, watch in self.opted_in.watches())

    async def run(self) -> None:
        """Follows the cluster until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.live.run())
                group.create_task(self._pods.run())
                group.create_task(self.node_pods.run())
                group.create_task(self.opted_in.run())
                group.create_task(self._look_on_request())
                group.create_task(self._tell_of_many())
                if self.opted_in.makes_gangs:
                    group.create_task(self.removed_records.run())
        finally:
            await self._workloads.close()
            await self._pods.close()
            await self.opted_in.close()
            await self.stores.close()

    async def close(self) -> None:
        """Closes every connection."""
        await self.client.close()

    def _object(self, manifest: Manifest) -> Manifest | None:
        metadata = manifest["metadata"]
        return self.stores.store_for(manifest).objects.get((metadata["namespace"], metadata["name"]))

    def _store_read(self) -> None:
        self.podgangs.put_in_facts()
        self._say_read()

    def _facts_changed(self, facts: ClusterFacts) -> None:
        self._revision += 1
        self._queued.note_served(served=facts.kueue_workloads is not None)
        self.fits.changed()
        if facts.apis is not None:
            self.stores.follow(gang_resources(self._settings, self.live))
            self.podgangs.put_in_facts()
            self._workloads.follow(served=POD_CLIQUE_SETS.resource.api in facts.apis)
            self._pods.follow(facts.apis)
            self.opted_in.follow(facts.apis)
        self._say_read()
        self.look_at_all()

    def _touched(self, projection: Projection, key: Any) -> None:
        self._revision += 1
        self._fact_changed(projection, key)
        if projection.part in NODE_FACT_PARTS:
            self.fits.nodes_changed()
        elif projection.part not in FACT_PARTS_WITHOUT_ROOM:
            self.fits.changed()
        if projection is POD_CLIQUE_SETS:
            self._gangs_changed(self.podgangs.keys_of(key))
        elif projection is TRAIN_JOB_FACTS:
            # The JobSet has the name of the TrainJob, and takes the queues of the TrainJob's record.
            self.opted_in.look_at(JOB_SETS.api.kind, key)
        elif projection.part == KUEUE_WORKLOADS.part:
            self._kueue_workload_changed(key, self.live.watches[projection].index.entries.get(key))
        elif projection.part in GANG_FACT_PARTS:
            # A topology layer, a HyperNode or a priority class changed. Any gang may be affected; for the others the
            # check is only a comparison.
            self.look_at_all()
        elif projection.part not in NODE_FACT_PARTS:
            if projection.part == LOCAL_QUEUES.part:
                self._queued.places.put_queue(key, self.live.watches[projection].index.entries.get(key))
            # A queue or quota changed. Gang objects do not depend on it, but gangs may be held because it is missing.
            self._held_changed(_namespace_of(projection, key))

    def _kueue_workload_changed(self, key: ObjectKey, workload: KueueWorkload | None) -> None:
        self._queued.places.put(key, workload)
        for gang in self._queued.gangs(key):
            self._pods_changed(gang)
        for owner in self._queued.owners(key, workload):
            self._owners.put(owner, None if workload is None else workload.component_index)

    def _gang_owner(self, kind: str, *key: str) -> WorkloadKey:
        """Returns the object whose gangs an owner has: of a pod, its PodGang or its opted-in workload."""
        pod = key[0], key[1]
        gang_key = None if kind != PODS.api.kind else self._pods.gang_of(pod) or self.opted_in.pods.gang_of(pod)
        return (kind, *pod) if gang_key is None else (gang_key.kind, pod[0], gang_key.workload or gang_key.name)

    def _stored(self, api: Api, key: ObjectKey, concerned: set[GangKey]) -> None:
        if api == POD_GANGS.resource.api:
            self._revision += 1
            gang = shared_key(GangKey(*key))
            self.podgangs.forget(gang)
            self._gang_changed(gang)
            return
        self._object_changed(api, key)
        for gang in concerned:
            for gang_key in (gang,) if gang.kind else self.opted_in.labelled(gang.namespace, gang.name):
                self._gang_changed(gang_key)

    def _pods_noticed(self, gang: GangKey) -> None:
        if self.podgangs.forget(gang):
            self._gang_changed(gang)
        self._pods_changed(gang)

    def _controller_noticed(self, controller: ControllerKey) -> None:
        for gang in self.podgangs.awaiting(controller):
            self.podgangs.forget(gang)
            self._gang_changed(gang)

    def _workload_changed(self, key: ObjectKey) -> None:
        if self.podgangs.keys_of(key):
            self._held_changed(key[0])

    def _gang_changed(self, key: GangKey) -> None:
        self._note_missing(key)
        self._say_gang_changed(key)

    def _pods_changed(self, key: GangKey) -> None:
        self._note_missing(key)
        self._say_pods_changed(key)

    def _note_missing(self, key: GangKey) -> None:
        if self.opted_in.lacks(key):
            self.removed_records.note(key)

    def _owners_of(self, key: GangKey) -> set[str]:
        """Returns the uids that the prepared pods and the objects of an opted-in workload's gang name as theirs."""
        pods = self.opted_in.pods
        prepared = (
            pod for pod in pods.pods_of_gang(key) if pod.counts and prepared_for(pod, self._settings) is not None
        )
        above = (pods.controllers.chain(pod.namespace, pod.controller) for pod in prepared)
        return self.stores.owners(key) | {owner.uid for chain in above for owner in chain if owner.uid}

    def _gangs_changed(self, keys: Collection[GangKey]) -> None:
        """Queues gangs. Those of a workload that has thousands are queued in slices, once for all changes."""
        if len(keys) > GANGS_A_TURN:
            self._many.update(dict.fromkeys(keys))
            self._has_many.set()
            return
        for key in keys:
            self._gang_changed(key)

    async def _tell_of_many(self) -> None:
        turn = LoopTurn(self._clock)
        while True:
            await self._has_many.wait()
            self._has_many.clear()
            while self._many:
                key, _ = self._many.popitem(last=False)
                self._gang_changed(key)
                await turn.pause()

    def look_at_all(self) -> None:
        """Queues every gang soon, and the gangs that no longer exist but still have objects."""
        self._requested.set()

    @property
    def looks_at_all(self) -> bool:
        """Whether gangs are still to be queued because all must be checked, or very many."""
        return self._requested.is_set() or self._looking or bool(self._many)

    async def look_slowly(self, seconds: float) -> None:
        """Queues every gang as `look_at_all` does, spread over so many seconds."""
        every = await self._every_gang()
        turns = max(-(-len(every) // GANGS_A_TURN), 1)
        for turn in range(turns):
            await asyncio.sleep(seconds / turns)
            for key in every[turn * GANGS_A_TURN : (turn + 1) * GANGS_A_TURN]:
                self._gang_changed(key)
        self._held_changed(None)
        if self._all_changed is not None:
            await self._all_changed()

    async def _look_on_request(self) -> None:
        """Looks at all gangs once for all that was asked meanwhile, as when hundreds of nodes come at once."""
        while True:
            await self._requested.wait()
            self._requested.clear()
            self._looking = True
            await self.look_slowly(0)
            self._looking = False
            await asyncio.sleep(PAUSE_SECONDS)

    async def _every_gang(self) -> list[GangKey]:
        """Returns all gangs, and those that only have objects left. Each store is copied at once, which is quick."""
        gangs: dict[GangKey, None] = {}
        turn = LoopTurn(self._clock)
        for keys in (lambda: self.gangs, *(store.concerned for store in self.stores.by_kind.values())):
            for key in keys():
                if key.kind:
                    gangs[key] = None
                await turn.pause()
        return list(gangs)


class _JudgedSet:
    """A PodCliqueSet, and what the rules said of it when the cluster had a certain revision."""

    def __init__(self, raw: Manifest) -> None:
        self.workload = PodCliqueSet(raw)
        self._outcomes: Outcomes = {}
        self._revision = -1

    def outcomes_at(self, revision: int) -> Outcomes:
        """Returns what the rules said at this revision."""
        if revision != self._revision:
            self._revision, self._outcomes = revision, {}
        return self._outcomes


async def _goes_on(error: RequestFailed) -> bool:
    """Returns whether a list goes on with today's pods: it took longer than the API server keeps its version."""
    return isinstance(error, Gone) and error.token is not None


def _namespace_of(projection: Projection, key: Any) -> str | None:
    """Returns the only namespace whose gangs depend on an entry of the facts; None if there may be several."""
    if projection.part == NAMESPACES.part:
        return str(key)
    return str(key[0]) if projection.part in NAMESPACE_FACT_PARTS else None

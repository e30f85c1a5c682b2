"""The cluster as the reconciler follows it: facts, PodGangs with their objects, workloads and pods, and which PodGangs
are concerned when something changes. It reads; whoever asked for it decides and writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import orjson

from webhook.cluster.access import Access
from webhook.cluster.client import Client
from webhook.cluster.facts import LiveFacts, live_facts
from webhook.cluster.watch import Index, Watch
from webhook.model import grove
from webhook.model.facts import Api, ClusterFacts, ObjectKey
from webhook.model.podcliqueset import PodCliqueSet
from webhook.model.podgang import PodGang
from webhook.model.projections import POD_CLIQUE_SETS, POD_GANGS, Projection, key_of
from webhook.model.reading import Manifest, mapping
from webhook.reconciler.gang_pods import GangPods
from webhook.reconciler.gangs import gang_resources
from webhook.reconciler.grouping import Grouping
from webhook.reconciler.health import GangHealth, Observed, judge
from webhook.reconciler.stores import Stores
from webhook.settings import Settings

# The parts of the facts that a translation reads, besides the PodGang and its workload.
_OF_GANGS = frozenset(
    {"topology_bindings", "network_topologies", "hyper_nodes", "kai_topologies", "priority_classes", "apis"}
)


class Following:
    """One cluster, followed. `gang_changed` is told of each PodGang whose objects may have to be others, `pods_changed`
    of each whose pods did, `object_changed` of each gang object, whosever it is, `facts_changed` that something changed
    by which gangs are held or not, `all_changed` that everything wants to be looked at.
    """

    def __init__(  # noqa: PLR0913 - whom it tells of what
        self,
        settings: Settings,
        access: Access,
        *,
        gang_changed: Callable[[ObjectKey], None],
        pods_changed: Callable[[ObjectKey], None],
        facts_changed: Callable[[], None],
        object_changed: Callable[[Api, ObjectKey], None] = lambda _, __: None,
        all_changed: Callable[[], None] = lambda: None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.client = Client(access, transport)
        self._settings = settings
        self._gang_changed = gang_changed
        self._held_changed = facts_changed
        self._object_changed = object_changed
        self._all_changed = all_changed
        self.live: LiveFacts = live_facts(
            settings, Client(access, transport), self._facts_changed, self._touched, objects=False
        )
        self.stores = Stores(self.client, self._stored)
        self.pods = GangPods(self.client, pods_changed)
        self._workloads = Workloads(self.client, self._workload_changed)
        # PodGangs by their PodCliqueSet.
        self._of_workload: Grouping[ObjectKey, ObjectKey] = Grouping()

    @property
    def podgangs(self) -> list[ObjectKey]:
        """Every PodGang that is known."""
        store = self.stores.by_kind.get(POD_GANGS.resource.api)
        return [] if store is None else list(store.objects)

    def podgang(self, key: ObjectKey) -> PodGang | None:
        """One PodGang. Raises `Malformed`."""
        store = self.stores.by_kind.get(POD_GANGS.resource.api)
        found = None if store is None else store.objects.get(key)
        return None if found is None else PodGang(found)

    def health(self, key: ObjectKey) -> GangHealth | None:
        """How a gang is; None where there is none of that name. Raises `Malformed`."""
        podgang = self.podgang(key)
        if podgang is None:
            return None
        workload = self._workloads.get((key[0], str(podgang.labels.get(grove.LABEL_PART_OF) or "")))
        pods, facts = self.pods.of(key), self.live.facts
        own = self.stores.owned_by(podgang.uid or "")
        return judge(Observed(podgang, pods, self._object, own, workload, facts, self._settings))

    def unready(self) -> Iterator[str]:
        """What is not known yet and is needed to write."""
        yield from self.live.unready()
        yield from self.stores.unready()

    def unseen(self) -> Iterator[str]:
        """What is not known yet and is needed to judge a gang's health."""
        yield from self.unready()
        for name, watch in (("Pod", self.pods.watch), ("PodCliqueSet", self._workloads.watch)):
            if watch is not None and not watch.filled:
                yield f"cluster: the {name} objects are not read yet{f': {watch.trouble}' if watch.trouble else ''}"

    def watches(self) -> Iterator[Watch]:
        """What keeps all of it in step."""
        yield from self.live.watches.values()
        yield from self.stores.watches()
        yield self.pods.watch
        if self._workloads.watch is not None:
            yield self._workloads.watch

    async def run(self) -> None:
        """Follow, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.live.run())
                group.create_task(self.pods.run())
        finally:
            await self._workloads.close()
            await self.stores.close()

    async def close(self) -> None:
        """Close every connection."""
        await self.client.close()

    def _object(self, manifest: Manifest) -> Manifest | None:
        metadata = manifest["metadata"]
        return self.stores.of(manifest).objects.get((metadata["namespace"], metadata["name"]))

    # What changes, and whom that concerns.

    def _facts_changed(self, facts: ClusterFacts) -> None:
        if facts.apis is not None:
            self.stores.follow(gang_resources(self._settings, self.live))
            self._workloads.follow(served=POD_CLIQUE_SETS.resource.api in facts.apis)
        self.look_at_all()

    def _touched(self, projection: Projection, key: Any) -> None:
        if projection is POD_CLIQUE_SETS:
            for concerned in self._of_workload.members(key):
                self._gang_changed(concerned)
        elif projection.part in _OF_GANGS:
            # A layer, a tier, a class: whichever gangs that concerns, the others cost a comparison.
            self.look_at_all()
        elif projection is not POD_GANGS:
            # A queue, a quota: nothing that is written depends on it, and a gang may be held for want of it.
            self._held_changed()

    def _stored(self, api: Api, key: ObjectKey, owners: set[str]) -> None:
        if api == POD_GANGS.resource.api:
            self._note_workload(key)
            self._gang_changed(key)
            return
        self._object_changed(api, key)
        for name in owners:
            self._gang_changed((key[0], name))
        if not owners and (podgang := self._label(api, key)) is not None:
            self._gang_changed((key[0], podgang))

    def _workload_changed(self, key: ObjectKey) -> None:
        if self._of_workload.members(key):
            self._held_changed()

    def _label(self, api: Api, key: ObjectKey) -> str | None:
        """The PodGang that an object without a controller says it is of."""
        store = self.stores.by_kind.get(api)
        live = None if store is None else store.objects.get(key)
        return None if live is None else (live["metadata"].get("labels") or {}).get(grove.LABEL_PODGANG)

    def _note_workload(self, key: ObjectKey) -> None:
        """Remember of which PodCliqueSet a PodGang is."""
        podgang = self.stores.by_kind[POD_GANGS.resource.api].objects.get(key)
        workload = None if podgang is None else (podgang["metadata"].get("labels") or {}).get(grove.LABEL_PART_OF)
        self._of_workload.move(key, None if workload is None else (key[0], workload))

    def look_at_all(self) -> None:
        """Every PodGang may have to have other objects."""
        for key in self.podgangs:
            self._gang_changed(key)
        self._held_changed()
        self._all_changed()


class Workloads:
    """The PodCliqueSets as they are stored, which rules need whole, kept as small as that can be: as text."""

    def __init__(self, client: Client, changed: Callable[[ObjectKey], None]) -> None:
        # None while the cluster does not serve them.
        self.watch: Watch | None = None
        self._client = client
        self._changed = changed
        self._task: asyncio.Task[None] | None = None

    def get(self, key: ObjectKey) -> PodCliqueSet | None:
        """One of them; None where there is none. Raises `Malformed`."""
        found = None if self.watch is None else self.watch.index.entries.get(key)
        return None if found is None else PodCliqueSet(orjson.loads(found))

    def follow(self, *, served: bool) -> None:
        """Follow them while they are served."""
        if served and self._task is None:
            projection = Projection("", POD_CLIQUE_SETS.resource, _as_text)
            self.watch = Watch(self._client, projection, _filled, self._changed)
            self._task = asyncio.create_task(self.watch.run())
        elif not served and self._task is not None:
            self._task.cancel()
            self.watch = self._task = None

    async def close(self) -> None:
        """Follow them no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _as_text(raw: Manifest) -> tuple[ObjectKey, bytes]:
    metadata = mapping(raw.get("metadata"))
    kept = {field: metadata[field] for field in ("name", "namespace", "labels", "annotations") if field in metadata}
    return key_of(raw), orjson.dumps({"kind": "PodCliqueSet", "metadata": kept, "spec": raw.get("spec")})


def _filled(_: Index) -> None:
    """What is known of them is asked for when a gang is judged."""

"""One PodGang, from its plan to the cluster: apply what differs in the order of creation, then prune.

Nothing of a gang is written while one of its objects is somebody else's, cannot be expressed, or is on its way out: a
part of the objects may start a part of the gang.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from webhook.cluster.facts import LiveFacts
from webhook.errors import FactsUnavailable, Inexpressible, NotLeading, RequestFailed
from webhook.logs import log
from webhook.model.facts import Api, ObjectKey
from webhook.model.podgang import PodGang
from webhook.model.projections import POD_GANGS, Resource
from webhook.model.reading import Malformed, Manifest
from webhook.reconciler.differences import in_step, is_ours, left_behind, stranger, to_apply
from webhook.reconciler.events import Events, Reason
from webhook.reconciler.gates import Gates
from webhook.reconciler.metrics import Metrics
from webhook.reconciler.plan import Aside, Plan, plan
from webhook.reconciler.stores import Store, Stores
from webhook.reconciler.writing import Writer
from webhook.settings import Settings

# Where somebody else's object is in the way: it may be anybody's, so nothing says when it goes. A look is no request.
LOOK_AGAIN_SECONDS = 5.0
# HTTP: the API server understood the object and will not have it as it is.
_REFUSALS = frozenset({400, 403, 404, 422})


class _Wanted(NamedTuple):
    """One object that should be there, and what is there of it."""

    store: Store
    manifest: Manifest
    live: Manifest | None

    @property
    def key(self) -> ObjectKey:
        metadata = self.manifest["metadata"]
        return metadata["namespace"], metadata["name"]


class GangReconciler:
    """Works on one PodGang at a time; `outcome` words are those of `metrics.OUTCOMES`."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it works with
        self,
        settings: Settings,
        live: LiveFacts,
        stores: Stores,
        writer: Writer,
        events: Events,
        metrics: Metrics,
        gates: Gates | None = None,
    ) -> None:
        self._settings = settings
        self._live = live
        self._stores = stores
        self._writer = writer
        self._events = events
        self._metrics = metrics
        self._gates = gates

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Make it so. Returns the seconds after which to look again, None for not until something changes.

        Raises `RequestFailed`, `FactsUnavailable` and `NotLeading`, after which it is to be tried again.
        """
        begun = time.perf_counter()
        outcome = "failed"
        try:
            outcome, again = await self._reconcile(key)
        except (RequestFailed, FactsUnavailable, NotLeading):
            raise
        except Exception:
            outcome = "fault"
            raise
        finally:
            self._metrics.outcomes.labels(outcome).inc()
            self._metrics.seconds.observe(time.perf_counter() - begun)
        return again

    async def _reconcile(self, key: ObjectKey) -> tuple[str, float | None]:
        gangs = self._stores.by_kind.get(POD_GANGS.resource.api)
        found = None if gangs is None else gangs.objects.get(key)
        if found is None:
            # Its objects go with it, by their owner reference.
            return "gone", None
        podgang = PodGang(found)
        try:
            planned = plan(podgang, self._live.facts, self._settings)
        except Inexpressible as refusal:
            if refusal.unjudged and not refusal.findings:
                raise FactsUnavailable(str(refusal)) from None
            await self._events.warn(podgang, Reason.INEXPRESSIBLE, str(refusal))
            return "inexpressible", None
        except Malformed as error:
            await self._events.warn(podgang, Reason.INEXPRESSIBLE, f"it cannot be read: {error}")
            return "inexpressible", None
        if isinstance(planned, Aside):
            self._metrics.asides.labels(planned.value).inc()
            if planned in {Aside.GROVE, Aside.EXTERNAL}:
                # Whoever brings the objects holds the pods until then.
                await self._open(key)
            return "inStep", None
        done = await self._make(podgang, planned)
        if done[0] in {"written", "inStep"}:
            await self._open(key)
        return done

    async def _open(self, key: ObjectKey) -> None:
        """Take the gate off the pods of a gang: all that it waited for is there."""
        if self._gates is not None:
            for pod, index in list(self._gates.of(key)):
                await self._writer.ungate(pod, index)

    async def _make(self, podgang: PodGang, planned: Plan) -> tuple[str, float | None]:
        uid = podgang.uid or ""
        wanted = self._wanted(planned)
        for one in wanted:
            if one.live is None:
                continue
            if left_behind(one.live, podgang.name, uid):
                return "waiting", LOOK_AGAIN_SECONDS
            if (owner := stranger(one.live, uid)) is not None:
                kind, name = one.live["kind"], one.live["metadata"]["name"]
                note = (
                    f"{kind} {name} belongs to {owner}, so nothing of this gang is written; it has to go, or be renamed"
                )
                await self._events.warn(podgang, Reason.CONFLICT, note)
                return "conflict", LOOK_AGAIN_SECONDS
            if one.live["metadata"].get("deletionTimestamp") is not None:
                return "waiting", LOOK_AGAIN_SECONDS
        try:
            written = [await self._step(one) for one in wanted]
            pruned = await self._prune(uid, wanted, planned)
        except RequestFailed as error:
            if error.code in _REFUSALS:
                await self._events.warn(podgang, Reason.REFUSED, f"the API server refuses its objects: {error}")
            raise
        self._events.well(podgang)
        return ("written" if any(written) or pruned else "inStep"), None

    def _wanted(self, planned: Plan) -> list[_Wanted]:
        found = []
        for desired in planned.objects:
            store = self._store(desired)
            metadata = desired["metadata"]
            live = store.objects.get((metadata["namespace"], metadata["name"]))
            found.append(_Wanted(store, to_apply(planned.profile.backend.adopt(desired, live)), live))
        return found

    def _store(self, manifest: Manifest) -> Store:
        group, _, version = str(manifest["apiVersion"]).rpartition("/")
        api = Api(group, version, str(manifest["kind"]))
        store = self._stores.by_kind.get(api)
        if store is None:
            raise FactsUnavailable(f"the cluster does not serve {api}")
        if not store.filled:
            raise FactsUnavailable(f"the {api.kind} objects are not read yet")
        return store

    async def _step(self, one: _Wanted) -> bool:
        if one.live is not None and in_step(one.manifest, one.live):
            return False
        one.store.put(await self._writer.apply(one.store.resource, one.manifest))
        return True

    async def _prune(self, uid: str, wanted: Iterable[_Wanted], planned: Plan) -> int:
        """Delete what the PodGang controls and no longer needs, narrowest first: what others refer to goes last."""
        kept: dict[Store, set[ObjectKey]] = {}
        for one in wanted:
            kept.setdefault(one.store, set()).add(one.key)
        pruned = 0
        for store in reversed(self._kinds(planned)):
            for key in sorted(store.by_owner.members(uid) - kept.get(store, set())):
                live = store.objects[key]
                if is_ours(live, uid) and live["metadata"].get("deletionTimestamp") is None:
                    await self._writer.delete(store.resource, live)
                    pruned += 1
        return pruned

    def _kinds(self, planned: Plan) -> list[Store]:
        """Every kind of gang object, the profile's own first: a gang may have moved from one scheduler to another."""
        own = planned.profile.backend.gang_kinds(self._live.facts)
        others = [api for api in self._stores.by_kind if api not in own and api != POD_GANGS.resource.api]
        return [self._stores.by_kind[api] for api in (*own, *others) if api in self._stores.by_kind]


def gang_resources(settings: Settings, live: LiveFacts) -> list[Resource]:
    """The kinds to follow: PodGangs, and of the gang objects of every enabled scheduler those that are served."""
    served = live.resources
    wanted = {api: None for profile in settings.profiles.values() for api in profile.backend.gang_kinds(live.facts)}
    found = [served[api] for api in wanted if api in served]
    if POD_GANGS.resource.api in served:
        found.insert(0, POD_GANGS.resource)
    else:
        log.info("no PodGangs", why="the cluster does not serve them")
    return found

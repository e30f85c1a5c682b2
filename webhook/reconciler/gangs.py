"""Reconciles one gang: applies the objects that differ in the order of creation, then prunes.

Nothing of a gang is written while one of its objects belongs to another owner, cannot be expressed, or is being
deleted. Some of the objects alone could start a part of the gang.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from typing import NamedTuple, Protocol

from webhook.cluster import spans
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.cluster_facts import LiveFacts
from webhook.cluster.logs import log, outline
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable, Inexpressible, NotLeading, RequestFailed
from webhook.gangs import object_plan
from webhook.gangs.hold_reasons import GangReason
from webhook.gangs.key import GangKey, objects_of
from webhook.gangs.members import GangPod
from webhook.gangs.stores import Store, Stores
from webhook.model import gang_objects
from webhook.model.grove import PodGang
from webhook.model.keys import Api, ObjectKey
from webhook.model.projections import POD_GANGS, key_of
from webhook.model.reading import Malformed, Manifest
from webhook.reconciler.events import Events
from webhook.reconciler.metrics import ReconcilerMetrics
from webhook.reconciler.writer import REFUSALS, Writer, releasable, unseen_seconds

# Pause while another owner's object blocks the name. No watch may report when it goes. The check sends no request.
LOOK_AGAIN_SECONDS = 5.0
# Pause while pods block a new shape. No watch reports when they are gone, and each check sends requests.
FROZEN_SECONDS = 15.0
# Number of gates removed in parallel: what an API server accepts from one client at a time.
AT_ONCE = 32


class _DesiredObject(NamedTuple):
    """One object that should exist, and the live object if there is one."""

    store: Store
    manifest: Manifest
    live: Manifest | None

    @property
    def key(self) -> ObjectKey:
        metadata = self.manifest["metadata"]
        return metadata["namespace"], metadata["name"]

    @property
    def changes(self) -> bool:
        """Whether the spec of an existing object changes."""
        return self.live is not None and not object_plan.holds(self.manifest["spec"], self.live.get("spec"))


class ClusterGangs(Protocol):
    """Access to the cluster's gangs."""

    def gang(self, key: GangKey) -> PodGang | None:
        """Returns one gang, None if it does not exist. Raises `FactsUnavailable`, and `Malformed`."""

    def workload_uid(self, key: GangKey) -> str | None:
        """Returns the uid of the opted-in workload that a gang is or was of; None if it is missing or its existing gang
        objects are to be left alone.
        """

    def is_needed(self, key: GangKey, objects: Sequence[Manifest]) -> bool:
        """Returns whether objects of a PodGang that is missing are still needed. Raises `FactsUnavailable`."""

    def is_empty(self, podgang: PodGang) -> bool:
        """Returns whether this is a PodGang that needs no objects yet; its key is queued as soon as it does."""

    def pods_of(self, podgang: PodGang) -> Sequence[GangPod] | None:
        """Returns the pods of a gang, None if they are not read yet."""


class GangReconciler:
    """Reconciles one gang at a time; `outcome` is one of `metrics.OUTCOMES`."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it works with
        self,
        settings: Settings,
        live: LiveFacts,
        stores: Stores,
        writer: Writer,
        events: Events,
        metrics: ReconcilerMetrics,
        stage: Callable[[PodGang], Awaitable[gang_objects.Stage]],
        gangs: ClusterGangs,
        look_later: Callable[[GangKey, float], None],
        *,
        opens: bool,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`stage` returns the stage of a gang; it is called if a change of its shape depends on that. `look_later` has
        a gang reconciled again after so many seconds. With `opens`, pods whose gang objects exist lose their gate.
        """
        self._settings = settings
        self._live = live
        self._stores = stores
        self._writer = writer
        self._events = events
        self._metrics = metrics
        self._stage = stage
        self._gangs = gangs
        self._look_later = look_later
        self._opens = opens
        self._clock = clock

    async def reconcile(self, key: GangKey) -> float | None:
        """Reconciles a gang. Returns the seconds after which to check again; None means not before a change.

        Raises `RequestFailed`, `FactsUnavailable` and `NotLeading`; the gang must then be tried again.
        """
        begun = self._clock.monotonic()
        outcome = "failed"
        try:
            outcome, again = await self._reconcile(key)
        except RequestFailed as error:
            outcome = "refused" if error.code in REFUSALS else "failed"
            raise
        except (FactsUnavailable, NotLeading):
            raise
        except Exception:
            outcome = "fault"
            raise
        finally:
            self._metrics.outcomes.labels(outcome).inc()
            spans.note({"rollcall.outcome": outcome})
            self._metrics.seconds.observe(self._clock.monotonic() - begun)
        return again

    async def _reconcile(self, key: GangKey) -> tuple[str, float | None]:
        try:
            podgang = self._gangs.gang(key)
        except Malformed as error:
            # The gang keeps its objects. A retry does not help: the watch reports when the gang can be read again.
            log.warning(
                "gang cannot be read", kind=key.kind, namespace=key.namespace, name=key.name, why=outline(error)
            )
            return "inexpressible", None
        if podgang is None:
            return await (self._gone(key) if key.workload else self._missing(key))
        try:
            planned = object_plan.plan(podgang, self._live.facts, self._settings, empty=self._gangs.is_empty(podgang))
        except Inexpressible as refusal:
            if refusal.unjudged and not refusal.findings:
                raise FactsUnavailable(str(refusal), refusal.outline) from None
            await self._events.warn(podgang, GangReason.INEXPRESSIBLE, str(refusal))
            return "inexpressible", None
        except Malformed as error:
            await self._events.warn(podgang, GangReason.INEXPRESSIBLE, f"it cannot be read: {error}")
            return "inexpressible", None
        if isinstance(planned, object_plan.SkipReason):
            self._metrics.asides.labels(planned.value).inc()
            if planned in {object_plan.SkipReason.GROVE, object_plan.SkipReason.EXTERNAL}:
                # The writer of the objects holds the pods until they exist.
                await self._open(key, podgang)
            pruned = await self._prune(podgang, (), self._kinds(())) if planned in object_plan.UNWANTED else 0
            return ("written" if pruned else "inStep"), None
        return await self._make(key, podgang, planned)

    async def _gone(self, key: GangKey) -> tuple[str, float | None]:
        """Deletes the objects of a gang that its workload no longer has. The others are deleted with their owner."""
        uid, pruned = self._gangs.workload_uid(key), 0
        if uid is not None:
            for store in reversed(self._kinds(())):
                for live in store.owned_by({uid}, key):
                    await self._writer.delete(store.resource, live)
                    pruned += 1
        return ("written" if pruned else "gone"), None

    async def _missing(self, key: GangKey) -> tuple[str, float | None]:
        """Deletes the objects of a PodGang that is missing and has no successor: it was scaled in."""
        kinds = self._kinds(())
        objects = [live for store in kinds for live in store.concerning(key) if _is_moved(live)]
        if not objects:
            # A PodGang owned them, and the garbage collector deletes them with it.
            return "gone", None
        if self._gangs.is_needed(key, objects):
            return "waiting", LOOK_AGAIN_SECONDS
        for store in reversed(kinds):
            for live in store.concerning(key):
                # The successor may take it over while the others are deleted.
                if _is_moved(live) and store.whose(key_of(live)) == key:
                    await self._writer.delete(store.resource, live)
        return "written", None

    async def _open(
        self, key: GangKey, podgang: PodGang, objects: Sequence[_DesiredObject] = (), *, shows: bool = False
    ) -> None:
        """Removes the gate from the pods of a gang if nothing else holds them, and if its scheduler has seen a raised
        minimum of its `objects`, as far as that is known. `shows` as for `unseen_seconds`.

        All gates are removed together, so that a scheduler sees a part of the gang ungated only briefly.
        """
        pods = self._gangs.pods_of(podgang) if self._opens else None
        due = [] if pods is None else releasable(podgang, pods)
        unseen = self._unseen_seconds(objects, shows=shows) if due else 0.0
        if unseen > 0:
            # The store reports the sign of a scheduler as a change of the object.
            self._look_later(key, unseen)
            return
        for start in range(0, len(due), AT_ONCE):
            some = due[start : start + AT_ONCE]
            done = await asyncio.gather(*(self._writer.ungate(*pod_gate) for pod_gate in some), return_exceptions=True)
            for error in done:
                if isinstance(error, BaseException):
                    raise error

    def _unseen_seconds(self, objects: Sequence[_DesiredObject], *, shows: bool) -> float:
        """Returns for how many seconds the scheduler may still know the minimums from before a raise."""
        now, longest = self._clock.now(), 0.0
        for desired in objects:
            live, shown = desired.store.objects.get(desired.key), desired.store.has_new_status(desired.key)
            longest = max(longest, unseen_seconds(live, now, shows=shows, shown=shown))
        return longest

    async def _make(self, key: GangKey, podgang: PodGang, planned: object_plan.GangPlan) -> tuple[str, float | None]:
        objects = await self._desired_objects(planned, podgang)
        for desired in objects:
            if desired.live is None:
                continue
            if desired.live["metadata"].get("deletionTimestamp") is not None or object_plan.left_behind(
                desired.live, podgang
            ):
                return "waiting", LOOK_AGAIN_SECONDS
            if (owner := object_plan.other_owner(desired.live, podgang)) is not None:
                kind, name = desired.live["kind"], desired.live["metadata"]["name"]
                note = f"{kind} {name} belongs to {owner}, so no object of this gang is written; delete or rename it"
                await self._events.warn(podgang, GangReason.CONFLICT, note)
                return "conflict", LOOK_AGAIN_SECONDS
        kinds = self._kinds(planned.profile.backend.gang_kinds(self._live.facts))
        existing = [live for store in kinds for live in store.owned_by(podgang.owners, objects_of(podgang))]
        living = object_plan.include_replaced(existing, [desired.live for desired in objects])
        frozen = planned.profile.backend.frozen([desired.manifest for desired in objects], living)
        try:
            if frozen is not None and (done := await self._reshape(podgang, frozen, objects)) is not None:
                return done
            await self._rehearse(objects)
            written = await self._write(objects)
            pruned = await self._prune(podgang, objects, kinds)
        except RequestFailed as error:
            if error.code in REFUSALS:
                await self._events.warn(podgang, GangReason.REFUSED, f"the API server refuses its objects: {error}")
            raise
        self._events.well(podgang)
        await self._open(key, podgang, objects, shows=planned.profile.backend.shows_raises)
        return ("written" if written or pruned else "inStep"), None

    async def _desired_objects(self, planned: object_plan.GangPlan, podgang: PodGang) -> list[_DesiredObject]:
        backend = planned.profile.backend
        stores = [self._stores.store_for(desired) for desired in planned.objects]
        pairs = zip(stores, planned.objects, strict=True)
        live_objects = [store.objects.get(key_of(desired)) for store, desired in pairs]
        settled = backend.settle(planned.objects, [live for live in live_objects if live is not None])
        present = podgang.present() if None in live_objects else None
        # Without pods on nodes there is nothing to protect: the next pods are a whole gang again.
        whole = (
            any(map(gang_objects.is_restored, live_objects)) and await self._stage(podgang) < gang_objects.Stage.BOUND
        )
        objects = []
        for store, desired, live in zip(stores, settled, live_objects, strict=True):
            adopted = backend.adopt(desired, gang_objects.unrestored(live) if whole else live)
            if live is None and present is not None:
                adopted = backend.restore(adopted, present)
            objects.append(_DesiredObject(store, object_plan.add_digest(adopted), live))
        return objects

    async def _reshape(
        self, podgang: PodGang, frozen: gang_objects.Frozen, objects: Sequence[_DesiredObject]
    ) -> tuple[str, float | None] | None:
        """Reports that the gang is too far along for this change, or deletes what blocks it; None if it may be written
        now. Nothing is deleted if the API server would refuse a change of the objects that stay.
        """
        if frozen.until < gang_objects.Stage.BOUND and await self._stage(podgang) > frozen.until:
            some = "is on a node" if frozen.until is gang_objects.Stage.WAITING else "exists"
            note = (
                f"{frozen.what}: {frozen.why}, so no object of this gang is written while any of its pods {some}; "
                f"undo the change, or delete and recreate the {podgang.workload_kind}"
            )
            await self._events.warn(podgang, GangReason.FROZEN, note)
            return "frozen", FROZEN_SECONDS
        if not frozen.recreated:
            return None
        going = {live["metadata"]["uid"] for live in frozen.recreated}
        await self._rehearse(objects, going)
        for live in reversed(frozen.recreated):
            await self._writer.delete(self._stores.store_for(live).resource, live)
        # The watch reports when they are gone.
        return "waiting", LOOK_AGAIN_SECONDS

    async def _rehearse(self, objects: Sequence[_DesiredObject], going: Container[str] = ()) -> None:
        """Validates all changes of existing objects with the API server (dry run) before anything is written, or before
        the objects with the uids `going` are deleted.

        If it refused a later object, a running gang would be left with half of its change. A new gang is not affected:
        it starts only when it has all its objects.
        """
        due = [
            desired
            for desired in objects
            if desired.live is None or not object_plan.is_in_step(desired.manifest, desired.live)
        ]
        for desired in due if len(due) > 1 else ():
            if desired.changes and desired.live is not None and desired.live["metadata"]["uid"] not in going:
                await self._writer.rehearse(desired.store.resource, desired.manifest)

    async def _write(self, objects: Sequence[_DesiredObject]) -> bool:
        """Writes the objects that differ, and returns whether there were any. Before an existing one changes, those
        that are created after it are validated: all that they refer to but it exists by then.
        """
        written = False
        new = [desired for desired in objects if desired.live is None]
        for desired in objects:
            if desired.live is None:
                new = new[1:]
            elif desired.changes:
                for later in new:
                    await self._writer.rehearse(later.store.resource, later.manifest)
                new = []
            written |= await self._step(desired)
        return written

    async def _step(self, desired: _DesiredObject) -> bool:
        store, manifest, live = desired
        if live is not None and object_plan.is_in_step(manifest, live):
            return False
        raised = live is not None and gang_objects.is_raised(manifest["spec"], live.get("spec"))
        # The time is in each write of the raise, so that it outlives this process.
        at = self._clock.now().isoformat(timespec="microseconds") if raised else gang_objects.raised_at(live)
        time = {} if at is None else {gang_objects.RAISED_ANNOTATION: at}
        metadata = manifest["metadata"]
        dated = {**manifest, "metadata": {**metadata, "annotations": metadata["annotations"] | time}}
        store.put(await self._writer.apply(store.resource, dated), raised=raised)
        return True

    async def _prune(self, podgang: PodGang, objects: Iterable[_DesiredObject], kinds: Sequence[Store]) -> int:
        """Deletes the objects that the gang no longer needs, those last that others refer to."""
        kept: dict[Store, set[ObjectKey]] = {}
        for desired in objects:
            kept.setdefault(desired.store, set()).add(desired.key)
        pruned = 0
        for store in reversed(kinds):
            for live in store.owned_by(podgang.owners, objects_of(podgang)):
                if key_of(live) not in kept.get(store, set()):
                    await self._writer.delete(store.resource, live)
                    pruned += 1
        return pruned

    def _kinds(self, gang_kinds: Sequence[Api]) -> list[Store]:
        """Returns the stores of all gang objects, `gang_kinds` first: a gang may have changed its scheduler."""
        others = [api for api in self._stores.by_kind if api not in gang_kinds and api != POD_GANGS.resource.api]
        return [self._stores.by_kind[api] for api in (*gang_kinds, *others) if api in self._stores.by_kind]


def _is_moved(live: Manifest) -> bool:
    """Returns whether Rollcall made the object and a PodCliqueSet owns it."""
    gang = gang_objects.living_gang(live)
    return gang is not None and gang.moved

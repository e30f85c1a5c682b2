"""The gangs of workloads that are not Grove's, followed: of which workloads and pods they come, and which there are.

Those of a Job or a JobSet are what it says; those of a LeaderWorkerSet what its pods show, which are of one group and
one revision each: a group of a new revision is another gang, and the old one goes with its last pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterator, Mapping
from functools import partial

from webhook.admission.opted_in import is_part
from webhook.cluster.client import Client
from webhook.cluster.watch import Watch
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable
from webhook.gangs.grouping import Grouping
from webhook.gangs.key import OWNER_RESOURCES, GangKey, key_of_gang
from webhook.gangs.pod import GangPod, read_owned_pod
from webhook.gangs.pods import GangPods
from webhook.gangs.stored_workloads import StoredWorkloads
from webhook.model.keys import Api, ObjectKey
from webhook.model.reading import Malformed
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.workloads.facts import VIEWS
from webhook.model.workloads.gang import OwnedGang, gangs_of, group_gang, no_gang
from webhook.model.workloads.leaderworkerset import LeaderWorkerSet
from webhook.model.workloads.place import label_value
from webhook.model.workloads.pod_controllers import OF_OPTED_IN
from webhook.model.workloads.workload import OwnedWorkload
from webhook.telemetry.logs import log, outline

RECORDED = {"labelSelector": SCHEDULER_LABEL}
# A kind, a namespace and a name.
WorkloadKey = tuple[str, str, str]


class OwnedGangs:
    """`gang_changed` is told of each gang that comes, goes or has become another, `pods_changed` of each whose pods
    changed. Nothing is followed where no enabled scheduler's gangs are Rollcall's to make.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        gang_changed: Callable[[GangKey], None],
        pods_changed: Callable[[GangKey], None],
    ) -> None:
        self.wanted = settings.makes_gangs_of_owners
        self._gang_changed = gang_changed
        self._say_pods_changed = pods_changed
        self.pods = GangPods(client, self._pods_changed, _pods_of(settings), read_owned_pod, OF_OPTED_IN)
        self._workloads: Mapping[str, StoredWorkloads] = {
            kind: StoredWorkloads(client, resource, partial(self._workload_changed, kind), RECORDED)
            for kind, resource in OWNER_RESOURCES.items()
        }
        # The gangs of each workload, and of a LeaderWorkerSet those that any pod names.
        self._of: Grouping[GangKey, WorkloadKey] = Grouping()
        self._named: Grouping[GangKey, WorkloadKey] = Grouping()
        # By LeaderWorkerSet, its uid.
        self._uids: dict[WorkloadKey, str] = {}
        # By namespace and what labels say, which does not tell the workload.
        self._labelled: Grouping[GangKey, ObjectKey] = Grouping()
        # By gang of a LeaderWorkerSet, what of its pods decides about its objects.
        self._shapes: dict[GangKey, tuple[str, int | None]] = {}

    def follow(self, served: Container[Api]) -> None:
        """Follow the kinds that are served."""
        self.pods.follow(served if self.wanted else ())
        for kind, found in self._workloads.items():
            found.follow(served=self.wanted and found.resource.api in served)
            if found.watch is None:
                for workload in [known for known in self._of.groups() if known[0] == kind]:
                    self._workload_changed(kind, workload[1:])

    async def run(self) -> None:
        """Follow the pods, until cancelled."""
        if self.wanted:
            await self.pods.run()

    async def close(self) -> None:
        """Follow nothing any more."""
        await asyncio.gather(self.pods.close(), *(found.close() for found in self._workloads.values()))

    def watches(self) -> Iterator[tuple[str, Watch]]:
        """What keeps all of it in step, and the kinds of that."""
        if self.wanted:
            yield from self.pods.watches()
        for kind, found in self._workloads.items():
            if found.watch is not None:
                yield kind, found.watch

    @property
    def gangs(self) -> list[GangKey]:
        """Every gang."""
        return [key for workload in self._of.groups() for key in self._of.members(workload)]

    def named(self, kind: str, namespace: str, name: str) -> list[GangKey]:
        """The gangs of the workload of that name, else the one of a workload of that kind that is itself called so."""
        found = self._of.members((kind, namespace, name))
        return sorted(found or (key for key in self.labelled(namespace, label_value(name)) if key.kind == kind))

    def labelled(self, namespace: str, label: str) -> list[GangKey]:
        """The gangs whose labels say that, of whatever workloads."""
        return sorted(self._labelled.members((namespace, label)))

    def workload(self, key: GangKey) -> OwnedWorkload | None:
        """The workload of a gang, None where there is none. Raises `FactsUnavailable` where that is not known yet."""
        store = self._workloads[key.kind]
        if store.watch is not None and not store.watch.filled:
            raise FactsUnavailable(f"the {key.kind} objects are not read yet")
        return self._view(key.kind, key.owner)

    def gang(self, key: GangKey) -> OwnedGang | None:
        """One gang, None where there is none. Raises `FactsUnavailable`, `Malformed`."""
        workload = self.workload(key)
        if workload is None:
            return None
        if not isinstance(workload, LeaderWorkerSet) or no_gang(workload) is not None:
            gangs = _gangs(workload)
        elif not self.pods.filled:
            raise FactsUnavailable("the Pod objects are not read yet")
        else:
            shape = self._shapes.get(key)
            gangs = iter(()) if shape is None else iter((group_gang(workload, *shape),))
        return next((found for found in gangs if key_of_gang(found) == key), None)

    def pods_of(self, gang: OwnedGang) -> list[GangPod]:
        """The pods that name a gang, those included that were not prepared for it."""
        key = key_of_gang(gang)
        found, whole = self.pods.of(key), key._replace(name=label_value(key.workload))
        if key != whole and key.kind != LeaderWorkerSet.resource.api.kind:
            # Of a pod alone it cannot be told that its JobSet starts in turn.
            members = {label_value(member.name) for member in gang.members}
            found += [pod for pod in self.pods.of(whole) if pod.podclique in members]
        return found

    def look_at(self, kind: str, key: ObjectKey) -> None:
        """The gangs of a workload may have become others."""
        self._workload_changed(kind, key)

    def _view(self, kind: str, key: ObjectKey) -> OwnedWorkload | None:
        raw = self._workloads[kind].get(key)
        if raw is None:
            return None
        view = VIEWS[OWNER_RESOURCES[kind].api.group, kind](raw)
        # What a JobSet makes is the JobSet's.
        return None if is_part(view) else view

    def _living(self, kind: str, key: ObjectKey) -> set[GangKey] | None:
        """The gangs that a workload has now; None where it cannot be read, though its kind's schema let it through:
        then everything stays as it is.
        """
        try:
            workload = self._view(kind, key)
            if isinstance(workload, LeaderWorkerSet) and no_gang(workload) is None:
                return {gang for gang in self._named.members((kind, *key)) if gang in self._shapes}
            return set() if workload is None else {key_of_gang(gang) for gang in _gangs(workload)}
        except Malformed as error:
            log.warning("workload not understood", kind=kind, namespace=key[0], name=key[1], why=outline(error))
            return None

    # What changes, and whom that concerns.

    def _workload_changed(self, kind: str, key: ObjectKey) -> None:
        workload_key = (kind, *key)
        if kind == LeaderWorkerSet.resource.api.kind:
            self._note_uid(workload_key)
        before, now = set(self._of.members(workload_key)), self._living(kind, key)
        if now is None:
            return
        for gone in before - now:
            self._move(gone, None)
        for gang in now:
            self._move(gang, workload_key)
        for gang in before | now:
            self._gang_changed(gang)

    def _pods_changed(self, key: GangKey) -> None:
        if key.kind == LeaderWorkerSet.resource.api.kind:
            self._note_group(key)
        for gang in (key,) if self._of.group(key) else self._of.members((key.kind, *key.owner)):
            self._say_pods_changed(gang)

    def _note_group(self, key: GangKey) -> None:
        """Remember a group while it has pods, and say so when it comes, goes, or its size is another."""
        workload = (key.kind, *key.owner)
        self._named.move(key, workload if self.pods.of(key) else None)
        if self._note_shape(key):
            self._move(key, workload if key in (self._living(key.kind, key.owner) or ()) else None)
            self._gang_changed(key)

    def _note_uid(self, workload: WorkloadKey) -> None:
        """Remember which LeaderWorkerSet has that name now: the pods of another one are of no group of it."""
        kind, *key = workload
        found = self._workloads[kind].get((key[0], key[1]))
        uid = None if found is None else found["metadata"].get("uid")
        if uid == self._uids.get(workload):
            return
        if uid is None:
            del self._uids[workload]
        else:
            self._uids[workload] = uid
        for gang in self._named.members(workload):
            self._note_shape(gang)

    def _note_shape(self, key: GangKey) -> bool:
        """Remember what the pods that its LeaderWorkerSet made say of a group; whether that is new."""
        uid = self._uids.get((key.kind, *key.owner))
        pods = [] if uid is None else self.pods.controlled_by(uid, self.pods.of(key))
        sizes = [pod.size for pod in pods if pod.size is not None]
        shape = (pods[0].group, max(sizes, default=None)) if pods else None
        if shape == self._shapes.get(key):
            return False
        if shape is None:
            del self._shapes[key]
        else:
            self._shapes[key] = shape
        return True

    def _move(self, gang: GangKey, workload: WorkloadKey | None) -> None:
        """A gang is of a workload from now on, or of none."""
        self._of.move(gang, workload)
        self._labelled.move(gang, None if workload is None else (gang.namespace, gang.name))


def _gangs(workload: OwnedWorkload) -> Iterator[OwnedGang]:
    """The gangs that a workload itself tells of."""
    if isinstance(workload, LeaderWorkerSet):
        # Its pods are not prepared; one word about all of them will do.
        yield OwnedGang(workload, workload.name, [(workload.name, workload.size)])
    else:
        yield from gangs_of(workload)


def _pods_of(settings: Settings) -> dict[str, str]:
    """The pods that bear the record of their workload, prepared or not, but for those of schedulers that make their
    gangs themselves.
    """
    others = sorted(name for name, profile in settings.profiles.items() if not profile.backend.makes_gangs_of_owners)
    kept = f",{SCHEDULER_LABEL} notin ({','.join(others)})" if others else ""
    return {"labelSelector": f"{SCHEDULER_LABEL}{kept}"}

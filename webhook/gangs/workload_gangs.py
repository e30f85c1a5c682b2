"""Watches on opted-in workloads and their pods, and the gangs they have.

The spec of a Job or JobSet defines its gangs. The gangs of a LeaderWorkerSet come from its pods: one gang per group
and revision. A group of a new revision is another gang, and the old gang ends with its last pod. A workload without
the record label is missing in the watches as if it were deleted; if prepared pods or gang objects still name it, it is
read by its name, kept and judged like the others. After a change of Kueue's Workloads, the gangs of their owners are
judged again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import cached_property, partial
from itertools import islice
from typing import NamedTuple

from webhook.admission.opted_in_admission import is_part
from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock, LoopTurn
from webhook.cluster.logs import log, outline
from webhook.cluster.watch import Watch
from webhook.config.settings import Settings
from webhook.errors import FactsUnavailable, RequestFailed
from webhook.gangs.key import GangKey, Grouping, key_of_gang
from webhook.gangs.members import GangPod, PodEnd, read_opted_in_pod
from webhook.gangs.object_plan import gangs_of_sets
from webhook.gangs.pod_watches import GangPods
from webhook.gangs.stores import StoredWorkloads
from webhook.model.bounds import share_of
from webhook.model.grove import controller_in
from webhook.model.keys import Api, ObjectKey, is_subdomain
from webhook.model.known_kinds import PODS
from webhook.model.place import OPTED_IN_POD_CONTROLLERS, label_value
from webhook.model.reading import Malformed, Manifest, mapping
from webhook.model.workload_record import OPTED_OUT, SCHEDULER_LABEL
from webhook.workloads.leaderworkerset import LeaderWorkerSet
from webhook.workloads.opted_in_gang import OptedInGang, gangs_of, group_gang, no_gang
from webhook.workloads.opted_in_workload import OptedInWorkload
from webhook.workloads.workload_kinds import PYTHON_KINDS

LOOK_SECONDS = 1.0
# The pods and gang objects of a workload that is deleted follow it within seconds.
SETTLE_SECONDS = 5.0
# How many workloads are read at one look. Anyone who may create pods can name any number of workloads.
READS_A_LOOK = 4
# No watch says what becomes of a workload without its record, so it is read again.
PERIOD_SECONDS = 60.0
# A command waits for so many reads at most.
READS_OF_A_COMMAND = 200
# How many workloads are kept. One namespace has its share of them.
MOST_KEPT = 256

# Kind, namespace and name.
_Workload = tuple[str, str, str]


class _Noted(NamedTuple):
    """A gang whose workload is missing, and since when it may be read."""

    gang: GangKey
    due: float


class RemovedRecords:
    """A search for workloads whose record was removed. `owners` returns the uids that the prepared pods and the objects
    of a gang name as its workload, and `changed` gets the kind and key of each workload that comes, changes or goes.
    """

    def __init__(
        self,
        client: Client,
        workloads: Mapping[str, StoredWorkloads],
        owners: Callable[[GangKey], Collection[str]],
        changed: Callable[[str, ObjectKey], None],
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._client = client
        self._workloads = workloads
        self._owners = owners
        self._changed = changed
        self._clock = clock
        # By namespace, the one whose turn is next first; each in the order of time.
        self._noted: OrderedDict[str, OrderedDict[_Workload, _Noted]] = OrderedDict()
        # A gang of each workload that is kept.
        self._kept: dict[_Workload, GangKey] = {}
        self._again = 0.0
        self._failures = 0

    def note(self, gang: GangKey) -> None:
        """Looks for the workload of a gang, which is missing in the watch."""
        noted = self._noted.setdefault(gang.namespace, OrderedDict())
        noted.setdefault((gang.kind, *gang.workload_key), _Noted(gang, self._clock.monotonic() + SETTLE_SECONDS))

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except Exception:  # noqa: BLE001 - a fault of ours with one workload must keep no gang from its objects
                log.exception("workloads without a record not read")

    async def look(self) -> None:
        """Reads the next workloads. Namespaces take turns."""
        now = self._clock.monotonic()
        if now >= self._again:
            self._again = now + PERIOD_SECONDS
            for gang in self._kept.values():
                self.note(gang)
        await self._look(now)

    async def look_at_once(self) -> None:
        """Reads every workload, up to `READS_OF_A_COMMAND`."""
        for _ in range(READS_OF_A_COMMAND // READS_A_LOOK):
            if not self._noted:
                return
            await self._look(self._clock.monotonic() + SETTLE_SECONDS)

    async def _look(self, now: float) -> None:
        gangs, unfilled, turn = list[GangKey](), list[GangKey](), LoopTurn(self._clock)
        while len(gangs) < READS_A_LOOK and (gang := self._next(now)) is not None:
            if not self._workloads[gang.kind].filled:
                unfilled.append(gang)
            elif self._must_read(gang):
                gangs.append(gang)
            await turn.pause()
        for gang in unfilled:
            self.note(gang)
        await asyncio.gather(*map(self._read, gangs))

    def _next(self, now: float) -> GangKey | None:
        """Returns the gang whose turn it is; None if none is due."""
        for namespace, noted in self._noted.items():
            workload, (gang, due) = next(iter(noted.items()))
            if due <= now:
                del noted[workload]
                self._noted.move_to_end(namespace)
                if not noted:
                    del self._noted[namespace]
                return gang
        return None

    def _must_read(self, gang: GangKey) -> bool:
        """Returns whether to read the workload of a gang. It is forgotten if it has its record, or nothing names it."""
        workloads, key = self._workloads[gang.kind], gang.workload_key
        has_record = workloads.watch is None or key in workloads.entries
        if has_record or not (self._owners(gang) and all(map(is_subdomain, key))):
            self._forget(gang)
            return False
        return True

    async def _read(self, gang: GangKey) -> None:
        workloads, (namespace, name) = self._workloads[gang.kind], gang.workload_key
        selector = {"fieldSelector": f"metadata.name={name}"}
        unrecorded: Manifest | None = None
        try:
            async for raw in self._client.items(workloads.resource, namespace=namespace, selector=selector):
                unrecorded = raw if _is_unrecorded(raw, name, self._owners(gang)) else unrecorded
            self._keep(gang, unrecorded)
        except (RequestFailed, Malformed) as error:
            self._failures += 1
            if self._failures.bit_count() == 1:
                # At 1, 2, 4, 8 and so on.
                why, kind = outline(error), gang.kind
                log.warning("workload without a record not read", kind=kind, namespace=namespace, name=name, why=why)
            self.note(gang)

    def _keep(self, gang: GangKey, raw: Manifest | None) -> None:
        """Keeps the workload of a gang as it was read; None if it is not one without a record. Raises `Malformed`."""
        workloads, workload = self._workloads[gang.kind], (gang.kind, *gang.workload_key)
        if raw is None or gang.workload_key in workloads.entries:
            self._forget(gang)
            return
        if workload not in self._kept:
            of_namespace = sum(1 for _, namespace, _ in self._kept if namespace == gang.namespace)
            if len(self._kept) >= MOST_KEPT or of_namespace >= share_of(MOST_KEPT):
                return
            kind, namespace, name = workload
            log.warning("record removed", kind=kind, namespace=namespace, name=name)
        self._kept[workload] = gang
        if workloads.put_unrecorded(raw):
            self._changed(gang.kind, gang.workload_key)

    def _forget(self, gang: GangKey) -> None:
        if self._kept.pop((gang.kind, *gang.workload_key), None) is not None:
            self._workloads[gang.kind].drop_unrecorded(gang.workload_key)
            self._changed(gang.kind, gang.workload_key)


def _is_unrecorded(raw: Manifest, name: str, owners: Collection[str]) -> bool:
    """Returns whether this is the workload that these pods and objects name, without its record. Raises `Malformed`."""
    metadata = mapping(raw.get("metadata"))
    is_it = metadata.get("name") == name and metadata.get("uid") in owners
    leaves = metadata.get("deletionTimestamp") is not None
    return is_it and not leaves and SCHEDULER_LABEL not in mapping(metadata.get("labels"))


# Gang labels with a longer value are cut.
_UNCUT = 50
RECORDED = {"labelSelector": SCHEDULER_LABEL}
# The kinds that are written in Python, with what stands between them and their pods, and pods.
_NEEDED = frozenset(
    {*PYTHON_KINDS.gang_workloads, *(resource.api.kind for resource in OPTED_IN_POD_CONTROLLERS), PODS.api.kind}
)
# Gangs that are reported before other tasks may run.
GANGS_A_TURN = 200
# Kind, namespace and name.
WorkloadKey = tuple[str, str, str]


class OptedInGangs:
    """The gangs of opted-in workloads.

    `gangs_changed` gets the gangs that are created, changed or deleted; `pods_changed` each gang whose pods changed.
    `filled` is called each time all objects of a kind were read once, `ended` as for `GangPods`. Nothing is followed if
    Rollcall makes no gangs for the enabled schedulers.
    """

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        client: Client,
        settings: Settings,
        gangs_changed: Callable[[Collection[GangKey]], None],
        pods_changed: Callable[[GangKey], None],
        filled: Callable[[], None] = lambda: None,
        ended: Callable[[PodEnd], None] | None = None,
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._enabled = settings.gang_workloads
        self._gangs_changed = gangs_changed
        self._say_pods_changed = pods_changed
        self._kinds = settings.kinds
        self.pods = GangPods(
            client,
            self._pods_changed,
            _pods_of(settings),
            partial(read_opted_in_pod, kinds=settings.kinds),
            settings.kinds.pod_controllers,
            filled,
            ended=ended,
            clock=clock,
        )
        self._workloads: Mapping[str, StoredWorkloads] = {
            kind: StoredWorkloads(client, resource, partial(self.look_at, kind), RECORDED, filled, clock=clock)
            for kind, resource in settings.kinds.gang_workloads.items()
        }
        # The gangs of each workload; and, for a LeaderWorkerSet, the gangs that its pods name.
        self._of: Grouping[GangKey, WorkloadKey] = Grouping()
        self._gangs_of_pods: Grouping[GangKey, WorkloadKey] = Grouping()
        # The workload that made a LeaderWorkerSet for one of its roles.
        self._made_for: Grouping[ObjectKey, WorkloadKey] = Grouping()
        # The uid of each LeaderWorkerSet.
        self._uids: dict[WorkloadKey, str] = {}
        # The gangs of each LeaderWorkerSet by the index of their group; "" if their labels may not show it.
        self._of_group: Grouping[GangKey, tuple[WorkloadKey, str]] = Grouping()
        # By namespace and gang label, which does not show the workload.
        self._labelled: Grouping[GangKey, ObjectKey] = Grouping()
        # For each gang of a LeaderWorkerSet: the group and size from its pods, which determine its objects.
        self._shapes: dict[GangKey, tuple[str, int | None]] = {}

    @property
    def makes_gangs(self) -> bool:
        """Whether Rollcall makes gangs of any opted-in workloads."""
        return bool(self._enabled)

    def follow(self, served: Container[Api]) -> None:
        """Starts watching the kinds that the cluster serves."""
        self.pods.follow(served if self.makes_gangs else ())
        for kind, workloads in self._workloads.items():
            was_followed = workloads.watch is not None
            workloads.follow(served=kind in self._enabled and workloads.resource.api in served)
            if was_followed and workloads.watch is None:
                for workload in [workload_key for workload_key in self._of.groups() if workload_key[0] == kind]:
                    self.look_at(kind, workload[1:])

    async def run(self) -> None:
        """Follows the pods until cancelled."""
        if self.makes_gangs:
            await self.pods.run()

    async def close(self) -> None:
        """Stops all watches."""
        await asyncio.gather(self.pods.close(), *(workloads.close() for workloads in self._workloads.values()))

    def watches(self) -> Iterator[tuple[str, Watch]]:
        """Yields all watches, each with its kind."""
        if self.makes_gangs:
            yield from self.pods.watches()
        for kind, workloads in self._workloads.items():
            if workloads.watch is not None:
                yield kind, workloads.watch

    def needed_watches(self) -> Iterator[tuple[str, Watch]]:
        """Yields the watches without which nothing is written, each with its kind. A declared kind that cannot be read
        has no gangs, such as after an upgrade without its rights, and does not hold up the others.
        """
        for kind, watch in self.watches():
            if kind in _NEEDED or watch.trouble is None:
                yield kind, watch

    @property
    def stored(self) -> Mapping[str, StoredWorkloads]:
        """The workloads by their kind."""
        return self._workloads

    def lacks(self, key: GangKey) -> bool:
        """Returns whether no workload with a record has the name of the one of a gang."""
        store = self._workloads.get(key.kind)
        return store is not None and store.watch is not None and key.workload_key not in store.entries

    @property
    def gangs(self) -> list[GangKey]:
        return [key for workload in self._of.groups() for key in self._of.members(workload)]

    def gangs_of_workload(self, kind: str, namespace: str, name: str) -> list[GangKey]:
        gangs = self._of.members((kind, namespace, name))
        return sorted(gangs or (key for key in self.labelled(namespace, label_value(name)) if key.kind == kind))

    def labelled(self, namespace: str, label: str) -> list[GangKey]:
        return sorted(self._labelled.members((namespace, label)))

    def gangs_of_groups(self, workload: WorkloadKey, indexes: Collection[str | None]) -> Collection[GangKey]:
        """Returns the gangs of a workload that Kueue's Workloads with these component indexes may stand for. A
        LeaderWorkerSet has a Workload for each group, so of its gangs these are only the ones of the groups.
        """
        if None in indexes or workload[0] != LeaderWorkerSet.resource.api.kind:
            return self.gangs_of_workload(*workload)
        groups = (self._of_group.members((workload, index)) for index in (*indexes, "") if index is not None)
        return [gang for gangs in groups for gang in gangs]

    def workload(self, key: GangKey) -> OptedInWorkload | None:
        """Returns the workload of a gang or None. Raises `FactsUnavailable` while that is not known."""
        store = self._workloads[key.kind]
        if store.watch is not None and not store.watch.filled:
            raise FactsUnavailable(f"the {key.kind} objects are not read yet")
        return self._view(key.kind, key.workload_key)

    def gang(self, key: GangKey) -> OptedInGang | None:
        """Returns one gang, None if it does not exist. Raises `FactsUnavailable`, `Malformed`."""
        workload = self.workload(key)
        read = self._read(key.kind, key.workload_key)
        if workload is None or read is None:
            return None
        if read.gangs is not None:
            return read.gangs.get(key)
        if not self.pods.filled:
            raise FactsUnavailable("the Pod objects are not read yet")
        if not isinstance(workload, LeaderWorkerSet):
            gangs = self._role_gangs(workload)
        else:
            shape = self._shapes.get(key)
            gangs = iter(()) if shape is None else iter((self._group(workload, *shape),))
        return next((gang for gang in gangs if key_of_gang(gang) == key), None)

    def pods_of(self, gang: OptedInGang) -> list[GangPod]:
        """Returns the pods that name a gang, including pods that were not prepared for it."""
        key = key_of_gang(gang)
        pods, whole = self.pods.pods_of_gang(key), key._replace(name=label_value(key.workload))
        if key != whole and key.kind != LeaderWorkerSet.resource.api.kind:
            # A pod alone does not show whether its JobSet starts its parts in order.
            members = {label_value(member.name) for member in gang.members}
            pods += [pod for pod in self.pods.pods_of_gang(whole) if pod.podclique in members]
        if gang.workload.crd:
            # No gang needs the pods of some parts of a declared kind, so they wait for nothing.
            members = {label_value(member.name) for member in gang.members}
            pods = [pod for pod in pods if pod.podclique in members]
        return pods

    def _view(self, kind: str, key: ObjectKey) -> OptedInWorkload | None:
        read = self._read(kind, key)
        return None if read is None else read.workload

    def _read(self, kind: str, key: ObjectKey) -> _Read | None:
        api = self._kinds.gang_workloads[kind].api
        view = self._kinds.views[api.group, api.kind]
        read = self._workloads[kind].latest(key, lambda raw: _Read(view(raw)))
        # The gangs of a JobSet's Jobs belong to the JobSet. A workload that opted out has none.
        if read is None or read.workload.scheduler == OPTED_OUT or is_part(read.workload, self._kinds):
            return None
        return read

    def _living(self, kind: str, key: ObjectKey) -> set[GangKey] | None:
        """Returns the gangs that a workload has now; None if it cannot be read although it passed the schema.

        None leaves everything as it is.
        """
        try:
            workload = self._view(kind, key)
            if isinstance(workload, LeaderWorkerSet) and no_gang(workload) is None:
                return {gang for gang in self._gangs_of_pods.members((kind, *key)) if gang in self._shapes}
            if workload is not None and workload.together is not None and no_gang(workload) is None:
                return {key_of_gang(gang) for gang in self._role_gangs(workload)}
            return set() if workload is None else {key_of_gang(gang) for gang in _gangs(workload)}
        except Malformed as error:
            log.warning("workload cannot be read", kind=kind, namespace=key[0], name=key[1], why=outline(error))
            return None

    def _is_living(self, key: GangKey) -> bool:
        """Returns whether a gang of a LeaderWorkerSet is one that its workload has now."""
        try:
            workload = self._view(key.kind, key.workload_key)
            if workload is not None and no_gang(workload) is None:
                # As `_living` says, without a look at the other groups.
                return key in self._shapes and self._gangs_of_pods.group(key) == (key.kind, *key.workload_key)
        except Malformed:
            return False
        return key in (self._living(key.kind, key.workload_key) or ())

    def look_at(self, kind: str, key: ObjectKey) -> None:
        """Checks whether the gangs of a workload changed."""
        workload_key = (kind, *key)
        if key in self._workloads[kind].entries:
            self._workloads[kind].drop_unrecorded(key)
        if kind == LeaderWorkerSet.resource.api.kind:
            self._note_uid(workload_key)
            self._note_maker(key)
        before, now = set(self._of.members(workload_key)), self._living(kind, key)
        if now is None:
            return
        for gone in before - now:
            self._move(gone, None)
        for gang in now:
            self._move(gang, workload_key)
        self._gangs_changed(before | now)
        for set_key in self._made_for.members(workload_key):
            # Queue and quota of its further groups may be those of the workload.
            self._gangs_changed(self._of.members((LeaderWorkerSet.resource.api.kind, *set_key)))

    def _pods_changed(self, key: GangKey) -> None:
        if key.kind == LeaderWorkerSet.resource.api.kind:
            self._note_group(key)
        if self._of.group(key) or self.lacks(key):
            self._say_pods_changed(key)
            return
        # The labels of a pod that was not prepared do not name its gang.
        gangs = self._of.members((key.kind, *key.workload_key))
        if len(gangs) > GANGS_A_TURN:
            self._gangs_changed(gangs)
            return
        for gang in gangs:
            self._say_pods_changed(gang)

    def _note_group(self, key: GangKey) -> None:
        """Keeps a group while it has pods. Reports it when it appears, disappears or changes its size."""
        workload = (key.kind, *key.workload_key)
        self._gangs_of_pods.move(key, workload if self.pods.pods_of_gang(key) else None)
        if self._note_shape(key):
            self._move(key, workload if self._is_living(key) else None)
            self._gangs_changed((key,))

    def _note_maker(self, key: ObjectKey) -> None:
        """Assigns a LeaderWorkerSet to the workload that made it for a role, and checks the gangs of that workload."""
        raw = self._workloads[LeaderWorkerSet.resource.api.kind].get(key)
        controller = None if raw is None else controller_in(raw["metadata"])
        title = None if controller is None else self._kinds.title_with_roles(controller.group, controller.kind)
        before = self._made_for.group(key)
        now = None if controller is None or title is None else (title, key[0], controller.name)
        self._made_for.move(key, now)
        for maker in dict.fromkeys((before, now)):
            if maker is not None:
                self.look_at(maker[0], maker[1:])

    def _role_gangs(self, workload: OptedInWorkload) -> Iterator[OptedInGang]:
        """Returns the gangs of the first groups of a workload's LeaderWorkerSets: one for each revision."""
        sets = self._workloads[LeaderWorkerSet.resource.api.kind]
        manifests = (sets.get(key) for key in sorted(self._made_for.members((workload.kind, *workload.key))))
        return gangs_of_sets(workload, (LeaderWorkerSet(raw) for raw in manifests if raw is not None))

    def _group(self, workload: LeaderWorkerSet, group: str, size: int | None) -> OptedInGang:
        """Returns the gang of one group, which may be of a role of another workload."""
        gang = group_gang(workload, group, size)
        gang.grouped_as = self._kinds.grouped_as(workload)
        maker = self._made_for.group(workload.key)
        above = None if maker is None else self._view(maker[0], maker[1:])
        if above is not None:
            gang.above = above.record
        return gang

    def _note_uid(self, workload: WorkloadKey) -> None:
        """Records the uid of the present LeaderWorkerSet: pods of an earlier one are not in its groups."""
        kind, *key = workload
        manifest = self._workloads[kind].get((key[0], key[1]))
        uid = None if manifest is None else manifest["metadata"].get("uid")
        if uid == self._uids.get(workload):
            return
        if uid is None:
            del self._uids[workload]
        else:
            self._uids[workload] = uid
        for gang in self._gangs_of_pods.members(workload):
            self._note_shape(gang)

    def _note_shape(self, key: GangKey) -> bool:
        """Records the group and size that the LeaderWorkerSet's pods show for a gang. Returns whether that changed."""
        uid = self._uids.get((key.kind, *key.workload_key))
        pods = [] if uid is None else self.pods.controlled_by(uid, self.pods.pods_of_gang(key))
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
        self._of.move(gang, workload)
        self._labelled.move(gang, None if workload is None else (gang.namespace, gang.name))
        if gang.kind == LeaderWorkerSet.resource.api.kind:
            self._of_group.move(gang, None if workload is None else (workload, _group_index(gang)))


class _Read:
    """A workload, and the gangs that follow from it alone."""

    def __init__(self, workload: OptedInWorkload) -> None:
        self.workload = workload

    @cached_property
    def gangs(self) -> Mapping[GangKey, OptedInGang] | None:
        """The gangs; None if pods show them. Raises `Malformed`."""
        workload = self.workload
        shown = workload.together is not None or isinstance(workload, LeaderWorkerSet)
        if shown and no_gang(workload) is None:
            return None
        gangs: dict[GangKey, OptedInGang] = {}
        for gang in _gangs(workload):
            gangs.setdefault(key_of_gang(gang), gang)
        return gangs


def _gangs(workload: OptedInWorkload) -> Iterator[OptedInGang]:
    """Yields the gangs that follow from the workload alone."""
    if isinstance(workload, LeaderWorkerSet):
        # Its pods are not prepared, so one gang for the whole workload is enough to report that.
        yield OptedInGang(workload, workload.name, [(workload.name, workload.size)], {})
    elif workload.together is not None:
        yield from islice(gangs_of(workload), 1)
    else:
        yield from gangs_of(workload)


def _group_index(gang: GangKey) -> str:
    """Returns the index of a LeaderWorkerSet's group. A longer label is cut, and may lack it."""
    return "" if len(gang.name) > _UNCUT else gang.name.removeprefix(f"{gang.workload}-").partition("-")[0]


def _pods_of(settings: Settings) -> dict[str, str]:
    """Returns the selector for pods with a record, without schedulers for which Rollcall makes no gangs."""
    kinds = [resource.api.group_kind for resource in settings.gang_workloads.values()]
    others = sorted(
        name for name, profile in settings.profiles.items() if not any(map(profile.backend.makes_gangs_of, kinds))
    )
    kept = f",{SCHEDULER_LABEL} notin ({','.join(others)})" if others else ""
    return {"labelSelector": f"{SCHEDULER_LABEL}{kept}"}


# The owners are looked up once for all changes within this many seconds.
OWNERS_SECONDS = 0.2


class QueuedOwners:
    """Owners of changed Workloads, until their gangs are reported: each owner once, because thousands of Workloads may
    name the same. `above` returns the object that has the gangs of an owner, `gangs_of` the gangs of that object that
    Workloads with these component indexes may stand for, and `changed` is called with each gang.
    """

    def __init__(
        self,
        above: Callable[[str, str, str], WorkloadKey],
        gangs_of: Callable[[WorkloadKey, Collection[str | None]], Iterable[GangKey]],
        changed: Callable[[GangKey], None],
    ) -> None:
        self._above = above
        self._gangs_of = gangs_of
        self._changed = changed
        # By owner: the component indexes of its changed Workloads.
        self._waiting: dict[WorkloadKey, set[str | None]] = {}

    def put(self, owner: WorkloadKey, index: str | None) -> None:
        """Notes a changed Workload of that owner, whose gangs are reported in `OWNERS_SECONDS` on the event loop."""
        if not self._waiting:
            asyncio.get_running_loop().call_later(OWNERS_SECONDS, self._report)
        self._waiting.setdefault(owner, set()).add(index)

    def _report(self) -> None:
        indexes: dict[WorkloadKey, set[str | None]] = {}
        for owner, owner_indexes in self._waiting.items():
            indexes.setdefault(self._above(*owner), set()).update(owner_indexes)
        self._waiting = {}
        for gang in {gang for owner, owner_indexes in indexes.items() for gang in self._gangs_of(owner, owner_indexes)}:
            self._changed(gang)

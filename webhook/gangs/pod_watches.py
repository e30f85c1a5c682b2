"""Watches on the pods of a cluster's gangs, indexed by gang, and on the controllers between pods and their workloads.

Anyone who may create pods can write any label or name. So a pod belongs to a workload only if each controller in the
chain has the uid that the object below it names. `Stages` reads the stage of a gang live (no pods, waiting pods, bound
pods) before its shape is changed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache, partial
from typing import NamedTuple

from webhook.cluster.client import Client
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.requests import BOUND, METADATA_ONLY
from webhook.cluster.watch import ServedWatch, Watch
from webhook.gangs import members
from webhook.gangs.key import GangKey, Grouping, shared_key
from webhook.model import grove
from webhook.model.gang_objects import Stage
from webhook.model.grove import OwnerReference, PodGang
from webhook.model.keys import LABEL_VALUE_LIMIT, Api, ObjectKey
from webhook.model.known_kinds import PODS
from webhook.model.place import (
    GROVE_POD_CONTROLLERS,
    NAME_LABELS,
    OPTED_IN_POD_CONTROLLERS,
    PodControllers,
    kept_controller,
    label_value,
)
from webhook.model.projections import Projection, Resource, key_of
from webhook.model.reading import Manifest, mapping, text
from webhook.workloads.job import Job
from webhook.workloads.opted_in_gang import GANG_LABEL, OptedInGang

# The longest chain: worker pod, StatefulSet, leader pod, StatefulSet, LeaderWorkerSet.
LONGEST = 5

# Those of kinds that are written in Python.
_NEEDED = frozenset(
    (resource.api.group, resource.api.kind) for resource in (*GROVE_POD_CONTROLLERS, *OPTED_IN_POD_CONTROLLERS)
)
# API group, kind, namespace and name.
ControllerKey = tuple[str, str, str, str]


class Controlled(NamedTuple):
    """The uid and controller of an object between a pod and its workload."""

    uid: str
    controller: OwnerReference | None


@lru_cache(maxsize=4096)
def controller_key(namespace: str, reference: OwnerReference) -> ControllerKey:
    """Returns the key of the object that a reference names, regardless of its uid. Siblings share it."""
    return reference.api_version.rpartition("/")[0], reference.kind, namespace, reference.name


class Controllers:
    """The controllers of the given kinds.

    `changed` gets the key of each object that was created, deleted or changed, and the keys of all objects below it
    whose chain it may be in.
    `filled` is called each time all objects of a kind were read.
    """

    def __init__(
        self,
        client: Client,
        kinds: PodControllers,
        changed: Callable[[ControllerKey], None],
        filled: Callable[[], None],
        pod: Callable[[ObjectKey], Controlled | None],
        *,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """`pod` returns a pod that controls others, as the leader of a LeaderWorkerSet's group does."""
        self._changed = changed
        self._pod = pod
        self._kinds = {
            (resource.api.group, resource.api.kind): ServedWatch(
                client,
                Projection("", resource, read_controlled, keyed_by_object=True),
                partial(self._noticed, resource.api),
                {"labelSelector": selector} if selector else None,
                filled,
                clock=clock,
            )
            for resource, selector in kinds.items()
        }
        # Whether `follow` was called. Before that it is not known which kinds the cluster serves.
        self._followed = False
        # The key of each object below another one of these kinds, by the key of that one.
        self._below: Grouping[ControllerKey, ControllerKey] = Grouping()

    @property
    def filled(self) -> bool:
        """Whether the served kinds are known and all their objects were read once."""
        kinds = self._kinds.items()
        return self._followed and all(served_watch.filled or self._is_spared(kind) for kind, served_watch in kinds)

    def _is_spared(self, kind: tuple[str, str]) -> bool:
        """Returns whether a kind that only declared kinds need cannot be read: the others go on without it."""
        watch = self._kinds[kind].watch
        return kind not in _NEEDED and watch is not None and watch.trouble is not None

    def follow(self, served: Container[Api]) -> None:
        """Starts watching the kinds that the cluster serves."""
        self._followed = True
        for served_watch in self._kinds.values():
            served_watch.follow(served=served_watch.resource.api in served)

    def watches(self) -> Iterator[tuple[str, Watch]]:
        """Yields all watches, each with its kind."""
        for (_, kind), served_watch in self._kinds.items():
            if served_watch.watch is not None:
                yield kind, served_watch.watch

    async def close(self) -> None:
        """Stops all watches."""
        await asyncio.gather(*(served_watch.close() for served_watch in self._kinds.values()))

    def chain(self, namespace: str, controller: OwnerReference | None) -> list[OwnerReference]:
        """Returns the chain of controllers above an object, starting with the one that the object itself names.

        Each further controller is named by an existing object whose uid matches the reference to it.
        """
        chain: list[OwnerReference] = []
        while controller is not None and len(chain) < LONGEST:
            chain.append(controller)
            controlled = self._find(controller_key(namespace, controller))
            controller = None if controlled is None or controlled.uid != controller.uid else controlled.controller
        return chain

    def is_read(self, resource: Resource) -> bool:
        """Returns whether the cluster serves a kind, and all objects of it were read."""
        followed = self._kinds.get((resource.api.group, resource.api.kind))
        return followed is not None and followed.watch is not None and followed.filled

    def is_below(self, resource: Resource, key: ObjectKey, uid: str) -> bool:
        """Returns whether an object of this kind exists and something with that uid is above it."""
        controlled = self._find((resource.api.group, resource.api.kind, *key))
        above = [] if controlled is None else self.chain(key[0], controlled.controller)
        return any(reference.uid == uid for reference in above)

    def is_uncontrolled(self, resource: Resource, key: ObjectKey) -> bool:
        """Returns whether an object of this kind exists and has no controller."""
        controlled = self._find((resource.api.group, resource.api.kind, *key))
        return controlled is not None and controlled.controller is None

    def unseen(self, namespace: str, above: Sequence[OwnerReference]) -> Resource | None:
        """Returns the kind of the last object of the chain `above` if that object is not known: it may be too new."""
        if not above or len(above) == LONGEST:
            return None
        last, kind = above[-1], controller_key(namespace, above[-1])[:2]
        followed = self._kinds.get(kind)
        controlled = self._find(controller_key(namespace, last))
        if controlled is not None and controlled.uid == last.uid:
            return None
        if kind == (PODS.api.group, PODS.api.kind):
            return PODS
        return followed.resource if followed is not None and followed.watch is not None else None

    def _find(self, key: ControllerKey) -> Controlled | None:
        group, kind, *place = key
        if (group, kind) == (PODS.api.group, PODS.api.kind):
            return self._pod((place[0], place[1]))
        followed = self._kinds.get((group, kind))
        return None if followed is None else followed.entries.get((place[0], place[1]))

    def _noticed(self, api: Api, key: ObjectKey) -> None:
        where = (api.group, api.kind, *key)
        controlled = self._find(where)
        controller = None if controlled is None else controlled.controller
        above = None if controller is None else controller_key(key[0], controller)
        self._below.move(where, above if above is not None and above[:2] in self._kinds else None)
        reported, level = {where}, [where]
        # Nothing that is further below has this object in its chain. Any user may write longer chains, and circles.
        for _ in range(LONGEST):
            for changed_key in level:
                self._changed(changed_key)
            level = [below for parent in level for below in self._below.members(parent) if below not in reported]
            reported.update(level)


def read_controlled(raw: Manifest) -> tuple[ObjectKey, Controlled]:
    """Returns key, uid and controller of one object. Raises `Malformed`."""
    metadata = mapping(raw.get("metadata"))
    return key_of(raw), Controlled(text(metadata.get("uid")) or "", kept_controller(metadata))


class GangPods:
    """The pods of gangs.

    `changed` gets the gang of each pod whose projection is created, changed or deleted, and of each pod whose
    controllers change. `selector` selects the pods, `read` makes the projection, and `kinds` are the kinds of
    controllers between pods and workloads. `filled` is called each time all objects of a kind were read once. `ended`
    gets each pod on a node that does not count any more, before `changed` gets its gang. `controller_changed` gets the
    key of each controller that changes or has one above it that does, with or without pods.
    """

    def __init__(  # noqa: PLR0913 - what it watches, and whom it tells
        self,
        client: Client,
        changed: Callable[[GangKey], None],
        selector: Mapping[str, str] = members.OF_GANGS,
        read: Callable[[Manifest], tuple[ObjectKey, members.GangPod]] = members.read_gang_pod,
        kinds: PodControllers = GROVE_POD_CONTROLLERS,
        filled: Callable[[], None] = lambda: None,
        *,
        ended: Callable[[members.PodEnd], None] | None = None,
        controller_changed: Callable[[ControllerKey], None] = lambda _: None,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._changed = changed
        self._controller_changed = controller_changed
        self._ended = ended
        self._say_filled = filled
        self._of: Grouping[ObjectKey, GangKey] = Grouping()
        self._gated: Grouping[ObjectKey, GangKey] = Grouping()
        self._below: Grouping[ObjectKey, ControllerKey] = Grouping()
        # The pods that name a gang, by their node.
        self._on_node: Grouping[ObjectKey, str] = Grouping()
        self._watch = Watch(
            client,
            Projection("", PODS, read, most=members.POD_BYTES, keyed_by_object=True),
            lambda _: self._kind_read(),
            self._noticed,
            selector,
            replaced=None if ended is None else self._replaced,
            clock=clock,
        )
        self.controllers = Controllers(
            client, kinds, self._controller_noticed, self._kind_read, self._controlled, clock=clock
        )

    @property
    def filled(self) -> bool:
        """Whether all pods and the controllers above them were read once."""
        return self._watch.filled and self.controllers.filled

    def pods_of_gang(self, gang: GangKey) -> list[members.GangPod]:
        """Returns the pods that name a gang, members or not, sorted by name."""
        return [self._watch.index.entries[key] for key in sorted(self._of.members(gang))]

    def any_of(self, gang: GangKey) -> bool:
        """Returns whether any pod names a gang, member or not."""
        return bool(self._of.members(gang))

    def gang_of(self, pod: ObjectKey) -> GangKey | None:
        """Returns the gang that a pod names, or None if the pod does not exist or names none."""
        return self._of.group(pod)

    def report_gangs_on_nodes(self, names: Collection[str]) -> set[str]:
        """Reports the gangs with pods on nodes of these names, and returns the names of nodes that have such pods."""
        pods = {name: self._on_node.members(name) for name in names}
        for gang in {self._of.group(key) for keys in pods.values() for key in keys}:
            if gang is not None:
                self._changed(gang)
        return {name for name, keys in pods.items() if keys}

    def roster(self, podgang: PodGang, pods: list[members.GangPod]) -> members.Roster:
        """Splits `pods`, which name a gang, into members and others."""
        return members.roster(podgang, [(pod, self._chain(pod)) for pod in pods])

    def controlled_by(self, uid: str, pods: Iterable[members.GangPod]) -> list[members.GangPod]:
        """Returns those of `pods` that have the object with that uid in their chain of controllers."""
        return [pod for pod in pods if any(reference.uid == uid for reference in self._chain(pod))]

    def follow(self, served: Container[Api]) -> None:
        """Starts watching the served kinds of controllers between pods and their workloads."""
        self.controllers.follow(served)

    def watches(self) -> Iterator[tuple[str, Watch]]:
        """Yields all watches, each with its kind."""
        yield PODS.api.kind, self._watch
        yield from self.controllers.watches()

    def any_gated(self, gang: GangKey) -> bool:
        """Returns whether any pod of a gang has Rollcall's gate. Called for each pod event, so it must be fast."""
        return bool(self._gated.members(gang))

    async def run(self) -> None:
        """Follows the pods until cancelled."""
        await self._watch.run()

    async def close(self) -> None:
        """Stops watching the controllers between pods and their workloads."""
        await self.controllers.close()

    def _chain(self, pod: members.GangPod) -> list[OwnerReference]:
        return self.controllers.chain(pod.namespace, pod.controller)

    def _controlled(self, key: ObjectKey) -> Controlled | None:
        pod: members.GangPod | None = self._watch.index.entries.get(key)
        return None if pod is None else Controlled(pod.uid, pod.controller)

    def _replaced(self, before: members.GangPod, after: members.GangPod | None, *, watched: bool) -> None:
        cause = members.cause_of_end(before, after, watched=watched)
        if cause is not None and before.kind and self._ended is not None:
            self._ended(members.PodEnd(before, self._chain(before), cause))

    def _noticed(self, key: ObjectKey) -> None:
        before = self._of.group(key)
        pod: members.GangPod | None = self._watch.index.entries.get(key)
        now = None if pod is None or not pod.kind else shared_key(pod.gang)
        self._of.move(key, now)
        self._on_node.move(key, None if pod is None or now is None else pod.node)
        self._gated.move(key, now if pod is not None and pod.gate is not None else None)
        controller = None if pod is None else pod.controller
        self._below.move(key, None if controller is None else controller_key(key[0], controller))
        if before is not None and before != now:
            self._changed(before)
        if now is not None:
            self._changed(now)

    def _controller_noticed(self, where: ControllerKey) -> None:
        self._controller_changed(where)
        concerned = {self._of.group(key) for key in self._below.members(where)}
        for gang in concerned:
            if gang is not None:
                self._changed(gang)

    def _kind_read(self) -> None:
        for gang in list(self._of.groups()):
            self._changed(gang)
        self._say_filled()


# The pods of a gang name two or three controllers. Forged pods may name any number; those above the limit are ignored.
MOST_READ = 32
# Characters of a name that are safe in a field selector.
_NAME = re.compile(r"[a-z0-9.-]+")


class Stages:
    """Reads the stage live, because a pod that was bound a moment ago must not be missed. Called only if something
    differs.

    For the same reason, a pod that the PodGang does not name counts if a controller of the gang's workload made it. A
    controller that the watches do not know yet is read live too.
    """

    def __init__(self, client: Client, controllers: Callable[[PodGang], Controllers]) -> None:
        """`controllers` returns the controllers between the pods of a gang and its workload."""
        self._client = client
        self._controllers = controllers

    async def read_stage(self, podgang: PodGang) -> Stage:
        """Returns the stage of a gang. Raises `RequestFailed`, `FactsUnavailable`."""
        if isinstance(podgang, OptedInGang):
            workload = podgang.workload
            # A Job and a JobSet with the same name have gangs with the same name. Pods of a Job with its own selector
            # (`manualSelector`) do not have the label with the Job's name.
            if isinstance(workload, Job):
                whose = f"!{NAME_LABELS['JobSet']},!{NAME_LABELS['LeaderWorkerSet']}"
            else:
                key = NAME_LABELS.get(workload.kind) or workload.name_label
                whose = f"{key}={workload.name}" if key else ""
            selector = f"{GANG_LABEL}={label_value(podgang.name)}{',' if whose else ''}{whose}"
        elif len(podgang.name) > LABEL_VALUE_LIMIT:
            # The name does not fit into a label, so no pod can name this gang.
            return Stage.EMPTY
        else:
            selector = f"{grove.LABEL_PODGANG}={podgang.name}"
        if await self._any(podgang, {"labelSelector": selector, "fieldSelector": BOUND}):
            return Stage.BOUND
        return Stage.WAITING if await self._any(podgang, {"labelSelector": selector}) else Stage.EMPTY

    async def _any(self, podgang: PodGang, selector: Mapping[str, str]) -> bool:
        """Returns whether any of these pods belongs to the gang; other pods may have the same labels."""
        pods = self._client.items(PODS, namespace=podgang.namespace, selector=selector, accept=METADATA_ONLY)
        controllers = self._controllers(podgang)
        read: dict[OwnerReference, OwnerReference | None] = {}
        async with aclosing(pods):
            async for raw in pods:
                above = controllers.chain(podgang.namespace, kept_controller(mapping(mapping(raw).get("metadata"))))
                while not members.is_controlled(podgang, above):
                    kind = controllers.unseen(podgang.namespace, above)
                    if kind is None:
                        break
                    last = above[-1]
                    if last not in read and len(read) < MOST_READ:
                        read[last] = await self._controller_above(kind, podgang.namespace, last)
                    if (following := read.get(last)) is None:
                        break
                    above += controllers.chain(podgang.namespace, following)[: LONGEST - len(above)]
                else:
                    return True
        return False

    async def _controller_above(
        self, kind: Resource, namespace: str, reference: OwnerReference
    ) -> OwnerReference | None:
        """Returns the controller of the referenced object; None if no object has that uid, or it has no controller."""
        if not _NAME.fullmatch(reference.name):
            return None
        selector = {"fieldSelector": f"metadata.name={reference.name}"}
        objects = self._client.items(kind, namespace=namespace, selector=selector, accept=METADATA_ONLY)
        async with aclosing(objects):
            async for raw in objects:
                _, controlled = read_controlled(raw)
                if controlled.uid == reference.uid:
                    return controlled.controller
        return None

"""Watches on the pods of a cluster's gangs, indexed by gang, and on the controllers above the pods."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster.client import Client
from webhook.cluster.watch import Index, Watch
from webhook.gangs.controllers import Controlled, ControllerKey, Controllers, controller_key
from webhook.gangs.grouping import Grouping
from webhook.gangs.key import GangKey, shared_key
from webhook.gangs.pod import OF_GANGS, POD_BYTES, GangPod, read_gang_pod
from webhook.gangs.pod_changes import PodEnd, cause_of_end
from webhook.gangs.roster import Roster, roster
from webhook.model.keys import Api, ObjectKey
from webhook.model.kubernetes_kinds import PODS
from webhook.model.projections import Projection
from webhook.model.reading import Manifest
from webhook.model.workloads.pod_controllers import OF_GROVE, PodControllers
from webhook.model.workloads.podgang import OwnerReference, PodGang


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
        selector: Mapping[str, str] = OF_GANGS,
        read: Callable[[Manifest], tuple[ObjectKey, GangPod]] = read_gang_pod,
        kinds: PodControllers = OF_GROVE,
        filled: Callable[[], None] = lambda: None,
        *,
        ended: Callable[[PodEnd], None] | None = None,
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
            Projection("", PODS, read, most=POD_BYTES, own_key=True),
            self._pods_read,
            self._noticed,
            selector,
            replaced=None if ended is None else self._replaced,
            clock=clock,
        )
        self._controllers = Controllers(
            client, kinds, self._controller_noticed, self._kind_read, self._controlled, clock=clock
        )

    @property
    def filled(self) -> bool:
        """Whether all pods and the controllers above them were read once."""
        return self._watch.filled and self._controllers.filled

    def of(self, gang: GangKey) -> list[GangPod]:
        """The pods that name a gang, members or not, sorted by name."""
        return [self._watch.index.entries[key] for key in sorted(self._of.members(gang))]

    def any_of(self, gang: GangKey) -> bool:
        """Whether any pod names a gang, member or not."""
        return bool(self._of.members(gang))

    def gang_of(self, pod: ObjectKey) -> GangKey | None:
        """The gang that a pod names, or None if the pod does not exist or names none."""
        return self._of.group(pod)

    def on_nodes(self, names: Collection[str]) -> set[str]:
        """Report the gangs with pods on nodes of these names, and return the names of nodes that have such pods."""
        pods = {name: self._on_node.members(name) for name in names}
        for gang in {self._of.group(key) for keys in pods.values() for key in keys}:
            if gang is not None:
                self._changed(gang)
        return {name for name, keys in pods.items() if keys}

    def roster(self, podgang: PodGang, pods: list[GangPod]) -> Roster:
        """Split `pods`, which name a gang, into members and others."""
        return roster(podgang, [(pod, self._above(pod)) for pod in pods])

    def controlled_by(self, uid: str, pods: Iterable[GangPod]) -> list[GangPod]:
        """Those of `pods` that have the object with that uid in their chain of controllers."""
        return [pod for pod in pods if any(found.uid == uid for found in self._above(pod))]

    @property
    def controllers(self) -> Controllers:
        """The controllers between pods and their workloads."""
        return self._controllers

    def follow(self, served: Container[Api]) -> None:
        """Start watching the served kinds of controllers between pods and their workloads."""
        self._controllers.follow(served)

    def watches(self) -> Iterator[tuple[str, Watch]]:
        """All watches, each with its kind."""
        yield PODS.api.kind, self._watch
        yield from self._controllers.watches()

    def any_gated(self, gang: GangKey) -> bool:
        """Whether any pod of a gang has Rollcall's gate. Must be fast: called for each pod event, for gangs of
        thousands.
        """
        return bool(self._gated.members(gang))

    async def run(self) -> None:
        """Follow, until cancelled."""
        await self._watch.run()

    async def close(self) -> None:
        """Stop watching the controllers between pods and their workloads."""
        await self._controllers.close()

    def _above(self, pod: GangPod) -> list[OwnerReference]:
        return self._controllers.above(pod.namespace, pod.controller)

    def _controlled(self, key: ObjectKey) -> Controlled | None:
        found: GangPod | None = self._watch.index.entries.get(key)
        return None if found is None else Controlled(found.uid, found.controller)

    def _replaced(self, before: GangPod, after: GangPod | None, *, watched: bool) -> None:
        cause = cause_of_end(before, after, watched=watched)
        if cause is not None and before.kind and self._ended is not None:
            self._ended(PodEnd(before, self._above(before), cause))

    def _noticed(self, key: ObjectKey) -> None:
        before = self._of.group(key)
        found: GangPod | None = self._watch.index.entries.get(key)
        now = None if found is None or not found.kind else shared_key(found.gang)
        self._of.move(key, now)
        self._on_node.move(key, None if found is None or now is None else found.node)
        self._gated.move(key, now if found is not None and found.gate is not None else None)
        controller = None if found is None else found.controller
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

    def _pods_read(self, _: Index) -> None:
        self._kind_read()

    def _kind_read(self) -> None:
        for gang in list(self._of.groups()):
            self._changed(gang)
        self._say_filled()

"""Watches on the controllers between pods and their workloads.

Anyone who may create pods can write any label or name. So a pod belongs to a workload only if each controller in the
chain has the uid that the object below it names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from webhook.clock import MACHINE_CLOCK, Clock
from webhook.cluster.client import Client
from webhook.cluster.served_watch import ServedWatch
from webhook.cluster.watch import Watch
from webhook.gangs.grouping import Grouping
from webhook.model.keys import Api, ObjectKey
from webhook.model.kubernetes_kinds import PODS
from webhook.model.projections import Projection, Resource, key_of
from webhook.model.reading import Manifest, mapping, text
from webhook.model.workloads.pod_controllers import OF_GROVE, OF_OPTED_IN, PodControllers, kept_controller
from webhook.model.workloads.podgang import OwnerReference

# The longest chain: worker pod, StatefulSet, leader pod, StatefulSet, LeaderWorkerSet.
LONGEST = 5

# Those of kinds that are written in Python.
_NEEDED = frozenset((one.api.group, one.api.kind) for one in (*OF_GROVE, *OF_OPTED_IN))
# API group, kind, namespace and name.
ControllerKey = tuple[str, str, str, str]


class Controlled(NamedTuple):
    """The uid and controller of an object between a pod and its workload."""

    uid: str
    controller: OwnerReference | None


@lru_cache(maxsize=4096)
def controller_key(namespace: str, reference: OwnerReference) -> ControllerKey:
    """The key of the object that a reference names, regardless of its uid. Siblings share it."""
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
        """`pod` returns what is known of a pod: in a LeaderWorkerSet the leader pod controls the workers'
        StatefulSet.
        """
        self._changed = changed
        self._pod = pod
        self._kinds = {
            (resource.api.group, resource.api.kind): ServedWatch(
                client,
                Projection("", resource, read_controlled, own_key=True),
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
        return self._followed and all(found.filled or self._is_spared(kind) for kind, found in self._kinds.items())

    def _is_spared(self, kind: tuple[str, str]) -> bool:
        """Whether a kind cannot be read that only declared kinds of workloads need: the others go on without it."""
        watch = self._kinds[kind].watch
        return kind not in _NEEDED and watch is not None and watch.trouble is not None

    def follow(self, served: Container[Api]) -> None:
        """Start watching the kinds that the cluster serves."""
        self._followed = True
        for found in self._kinds.values():
            found.follow(served=found.resource.api in served)

    def watches(self) -> Iterator[tuple[str, Watch]]:
        """All watches, each with its kind."""
        for (_, kind), found in self._kinds.items():
            if found.watch is not None:
                yield kind, found.watch

    async def close(self) -> None:
        """Stop all watches."""
        await asyncio.gather(*(found.close() for found in self._kinds.values()))

    def above(self, namespace: str, controller: OwnerReference | None) -> list[OwnerReference]:
        """The chain of controllers above an object, starting with the one that the object itself names.

        Each further controller is named by an existing object whose uid matches the reference to it.
        """
        found: list[OwnerReference] = []
        while controller is not None and len(found) < LONGEST:
            found.append(controller)
            known = self._known(controller_key(namespace, controller))
            controller = None if known is None or known.uid != controller.uid else known.controller
        return found

    def is_read(self, resource: Resource) -> bool:
        """Whether the cluster serves a kind, and all objects of it were read."""
        followed = self._kinds.get((resource.api.group, resource.api.kind))
        return followed is not None and followed.watch is not None and followed.filled

    def is_below(self, resource: Resource, key: ObjectKey, uid: str) -> bool:
        """Whether an object of this kind exists and something with that uid is above it."""
        known = self._known((resource.api.group, resource.api.kind, *key))
        return known is not None and any(found.uid == uid for found in self.above(key[0], known.controller))

    def is_uncontrolled(self, resource: Resource, key: ObjectKey) -> bool:
        """Whether an object of this kind exists and has no controller."""
        controlled = self._known((resource.api.group, resource.api.kind, *key))
        return controlled is not None and controlled.controller is None

    def unseen(self, namespace: str, above: Sequence[OwnerReference]) -> Resource | None:
        """The kind of the last object of the chain `above` if that object is not known: it may be too new."""
        if not above or len(above) == LONGEST:
            return None
        last, kind = above[-1], controller_key(namespace, above[-1])[:2]
        followed = self._kinds.get(kind)
        known = self._known(controller_key(namespace, last))
        if known is not None and known.uid == last.uid:
            return None
        if kind == (PODS.api.group, PODS.api.kind):
            return PODS
        return followed.resource if followed is not None and followed.watch is not None else None

    def _known(self, key: ControllerKey) -> Controlled | None:
        group, kind, *place = key
        if (group, kind) == (PODS.api.group, PODS.api.kind):
            return self._pod((place[0], place[1]))
        followed = self._kinds.get((group, kind))
        return None if followed is None else followed.entries.get((place[0], place[1]))

    def _noticed(self, api: Api, key: ObjectKey) -> None:
        where = (api.group, api.kind, *key)
        found = self._known(where)
        controller = None if found is None else found.controller
        above = None if controller is None else controller_key(key[0], controller)
        self._below.move(where, above if above is not None and above[:2] in self._kinds else None)
        told, level = {where}, [where]
        # Nothing that is further below has this object in its chain. Any user may write longer chains, and circles.
        for _ in range(LONGEST):
            for one in level:
                self._changed(one)
            level = [below for one in level for below in self._below.members(one) if below not in told]
            told.update(level)


def read_controlled(raw: Manifest) -> tuple[ObjectKey, Controlled]:
    """Key, uid and controller of one object. Raises `Malformed`."""
    metadata = mapping(raw.get("metadata"))
    return key_of(raw), Controlled(text(metadata.get("uid")) or "", kept_controller(metadata))

"""The objects between pods and their workloads, followed. Labels and names can be written by anybody who creates pods,
so a pod belongs to a workload only where each controller above it has the uid that the object below it names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from webhook.cluster.client import Client
from webhook.cluster.served_watch import ServedWatch
from webhook.cluster.watch import Watch
from webhook.gangs.grouping import Grouping
from webhook.model.keys import Api, ObjectKey
from webhook.model.kubernetes_kinds import PODS
from webhook.model.projections import Projection, Resource, key_of
from webhook.model.reading import Manifest, mapping, text
from webhook.model.workloads.pod_controllers import PodControllers, kept_controller
from webhook.model.workloads.podgang import OwnerReference

# Worker pod, StatefulSet, leader pod, StatefulSet, LeaderWorkerSet: the longest chain that there is.
LONGEST = 5

# API group, kind, namespace and name.
ControllerKey = tuple[str, str, str, str]


class Controlled(NamedTuple):
    """What is known of an object between a pod and its workload."""

    uid: str
    controller: OwnerReference | None


def controller_key(namespace: str, reference: OwnerReference) -> ControllerKey:
    """Where the object that a reference names is, whatever its uid."""
    return reference.api_version.rpartition("/")[0], reference.kind, namespace, reference.name


class Controllers:
    """The objects of these kinds. `changed` gets where an object is that came, went or changed, and where each object
    below it is; `filled` is called each time that all objects of a kind were read.
    """

    def __init__(
        self,
        client: Client,
        kinds: PodControllers,
        changed: Callable[[ControllerKey], None],
        filled: Callable[[], None],
        pod: Callable[[ObjectKey], Controlled | None],
    ) -> None:
        """`pod` returns what is known of a pod: the leader of a group controls the StatefulSet of its workers."""
        self._changed = changed
        self._pod = pod
        self._kinds = {
            (resource.api.group, resource.api.kind): ServedWatch(
                client,
                Projection("", resource, read_controlled),
                partial(self._noticed, resource.api),
                {"labelSelector": selector} if selector else None,
                filled,
            )
            for resource, selector in kinds.items()
        }
        # Whether `follow` was called: before, no kind is followed, and none is known not to be served.
        self._followed = False
        # Each object by where its controller is.
        self._below: Grouping[ControllerKey, ControllerKey] = Grouping()

    @property
    def filled(self) -> bool:
        """Whether it is known which kinds are served, and everything of these was read once."""
        return self._followed and all(found.filled for found in self._kinds.values())

    def follow(self, served: Container[Api]) -> None:
        """Follow the kinds that are served."""
        self._followed = True
        for found in self._kinds.values():
            found.follow(served=found.resource.api in served)

    def watches(self) -> Iterator[tuple[str, Watch]]:
        """What keeps them in step, and the kinds of that."""
        for (_, kind), found in self._kinds.items():
            if found.watch is not None:
                yield kind, found.watch

    async def close(self) -> None:
        """Stop following them."""
        await asyncio.gather(*(found.close() for found in self._kinds.values()))

    def above(self, namespace: str, controller: OwnerReference | None) -> list[OwnerReference]:
        """The controllers above an object, from the one that it names itself. After the first, each is named by an
        object that is there with the uid by which the one before names it.
        """
        found: list[OwnerReference] = []
        while controller is not None and len(found) < LONGEST:
            found.append(controller)
            known = self._known(controller_key(namespace, controller))
            controller = None if known is None or known.uid != controller.uid else known.controller
        return found

    def unseen(self, namespace: str, above: Sequence[OwnerReference]) -> Resource | None:
        """The kind of the last object of a chain from `above`, where no such object is known: it may be too new."""
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
        self._below.move(where, None if controller is None else controller_key(key[0], controller))
        told, waiting = set[ControllerKey](), [where]
        while waiting:
            one = waiting.pop()
            if one not in told:
                told.add(one)
                self._changed(one)
                waiting.extend(self._below.members(one))


def read_controlled(raw: Manifest) -> tuple[ObjectKey, Controlled]:
    """What is known of one object. Raises `Malformed`."""
    metadata = mapping(raw.get("metadata"))
    return key_of(raw), Controlled(text(metadata.get("uid")) or "", kept_controller(metadata))

"""How far a gang has come, asked of the cluster where the answer decides whether its shape may still change."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import aclosing

from webhook.backends.base import Stage
from webhook.cluster.client import Client
from webhook.cluster.requests import BOUND, METADATA_ONLY
from webhook.gangs.controllers import LONGEST, Controllers, read_controlled
from webhook.gangs.roster import is_controlled
from webhook.model import grove
from webhook.model.kubernetes_kinds import PODS
from webhook.model.naming import LABEL_VALUE_LIMIT
from webhook.model.projections import Resource
from webhook.model.reading import mapping
from webhook.model.workloads.gang import GANG_LABEL, OwnedGang
from webhook.model.workloads.job import Job
from webhook.model.workloads.place import NAME_LABELS, label_value
from webhook.model.workloads.pod_controllers import kept_controller
from webhook.model.workloads.podgang import OwnerReference, PodGang

# Pods of one gang name two controllers or three. Forged ones may name any number, and those beyond do not count.
MOST_READ = 32
# What a name is made of, as far as a field selector is concerned.
_NAME = re.compile(r"[a-z0-9.-]+")


class Stages:
    """Asks live: a pod that was bound a moment ago must not be missed, and nobody asks where all is in step. For the
    same reason a pod counts that the PodGang does not name, if a controller of the gang's workload made it, and a
    controller that no watch has brought yet is read live as well.
    """

    def __init__(self, client: Client, controllers: Callable[[PodGang], Controllers]) -> None:
        """`controllers` says what is between the pods of a gang and its workload."""
        self._client = client
        self._controllers = controllers

    async def of(self, podgang: PodGang) -> Stage:
        """The stage of a gang. Raises `RequestFailed`, `FactsUnavailable`."""
        if isinstance(podgang, OwnedGang):
            workload = podgang.workload
            # A Job and a JobSet of one name have gangs of one name, too. Pods of a Job with a selector of its own
            # (`manualSelector`) do not bear its name.
            if isinstance(workload, Job):
                whose = f"!{NAME_LABELS['JobSet']},!{NAME_LABELS['LeaderWorkerSet']}"
            else:
                whose = f"{NAME_LABELS[workload.kind]}={workload.name}"
            selector = f"{GANG_LABEL}={label_value(podgang.name)},{whose}"
        elif len(podgang.name) > LABEL_VALUE_LIMIT:
            # No pod can name it.
            return Stage.EMPTY
        else:
            selector = f"{grove.LABEL_PODGANG}={podgang.name}"
        if await self._any(podgang, {"labelSelector": selector, "fieldSelector": BOUND}):
            return Stage.BOUND
        return Stage.WAITING if await self._any(podgang, {"labelSelector": selector}) else Stage.EMPTY

    async def _any(self, podgang: PodGang, selector: Mapping[str, str]) -> bool:
        """Whether any of these pods is of the gang; others may have its labels."""
        pods = self._client.items(PODS, namespace=podgang.namespace, selector=selector, accept=METADATA_ONLY)
        controllers = self._controllers(podgang)
        read: dict[OwnerReference, OwnerReference | None] = {}
        async with aclosing(pods):
            async for raw in pods:
                above = controllers.above(podgang.namespace, kept_controller(mapping(mapping(raw).get("metadata"))))
                while not is_controlled(podgang, above):
                    kind = controllers.unseen(podgang.namespace, above)
                    if kind is None:
                        break
                    last = above[-1]
                    if last not in read and len(read) < MOST_READ:
                        read[last] = await self._controller_above(kind, podgang.namespace, last)
                    if (following := read.get(last)) is None:
                        break
                    above += controllers.above(podgang.namespace, following)[: LONGEST - len(above)]
                else:
                    return True
        return False

    async def _controller_above(
        self, kind: Resource, namespace: str, reference: OwnerReference
    ) -> OwnerReference | None:
        """The controller of the object that a reference names by its uid; None where there is none."""
        if not _NAME.fullmatch(reference.name):
            return None
        selector = {"fieldSelector": f"metadata.name={reference.name}"}
        objects = self._client.items(kind, namespace=namespace, selector=selector, accept=METADATA_ONLY)
        async with aclosing(objects):
            async for raw in objects:
                _, found = read_controlled(raw)
                if found.uid == reference.uid:
                    return found.controller
        return None

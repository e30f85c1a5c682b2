"""The stage of a gang (no pods, waiting pods, bound pods), read live before its shape is changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import aclosing

from webhook.cluster.client import Client
from webhook.cluster.requests import BOUND, METADATA_ONLY
from webhook.gangs.controllers import LONGEST, Controllers, read_controlled
from webhook.gangs.roster import is_controlled
from webhook.model import grove
from webhook.model.frozen_changes import Stage
from webhook.model.kubernetes_kinds import PODS
from webhook.model.naming import LABEL_VALUE_LIMIT
from webhook.model.projections import Resource
from webhook.model.reading import mapping
from webhook.model.workloads.gang import GANG_LABEL, OptedInGang
from webhook.model.workloads.job import Job
from webhook.model.workloads.place import NAME_LABELS, label_value
from webhook.model.workloads.pod_controllers import kept_controller
from webhook.model.workloads.podgang import OwnerReference, PodGang

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

    async def of(self, podgang: PodGang) -> Stage:
        """The stage of a gang. Raises `RequestFailed`, `FactsUnavailable`."""
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
        """Whether any of these pods belongs to the gang; other pods may have the same labels."""
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
        """The controller of the referenced object; None if no object has that uid, or it has no controller."""
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

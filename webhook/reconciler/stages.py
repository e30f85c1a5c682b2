"""How far a gang has come, asked of the cluster where the answer decides whether its shape may still change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing

from webhook.backends.base import Stage
from webhook.cluster.client import Client
from webhook.cluster.requests import BOUND, METADATA_ONLY
from webhook.model import grove
from webhook.model.kubernetes_kinds import PODS
from webhook.model.naming import LABEL_VALUE_LIMIT
from webhook.model.owners.gang import GANG_LABEL, OwnedGang
from webhook.model.owners.job import Job
from webhook.model.owners.place import NAME_LABELS, label_value
from webhook.model.pod_controllers import kept_controller
from webhook.model.podgang import OwnerReference, PodGang
from webhook.model.reading import mapping


class Stages:
    """Asks live: a pod that was bound a moment ago must not be missed, and nobody asks where all is in step. For the
    same reason a pod counts that the PodGang does not name, if a controller of the gang's workload made it.
    """

    def __init__(self, client: Client, is_controlled: Callable[[PodGang, OwnerReference | None], bool]) -> None:
        self._client = client
        self._is_controlled = is_controlled

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
        async with aclosing(pods):
            async for raw in pods:
                if self._is_controlled(podgang, kept_controller(mapping(mapping(raw).get("metadata")))):
                    return True
        return False

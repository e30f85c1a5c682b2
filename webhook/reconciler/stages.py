"""How far a gang has come, asked of the cluster where the answer decides whether its shape may still change."""

from __future__ import annotations

from webhook.backends.base import Stage
from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.model import grove
from webhook.model.naming import LABEL_VALUE_LIMIT
from webhook.model.owners.gang import GANG_LABEL, OwnedGang
from webhook.model.owners.job import Job
from webhook.model.owners.place import NAME_LABELS, label_value
from webhook.model.podgang import PodGang
from webhook.model.reading import sequence


class Stages:
    """Asks live: a pod that was bound a moment ago must not be missed, and nobody asks where all is in step."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def of(self, podgang: PodGang) -> Stage:
        """The stage of a gang. Raises `RequestFailed`."""
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
        if await self._any(requests.bound_pods(podgang.namespace, selector)):
            return Stage.BOUND
        return Stage.WAITING if await self._any(requests.one_pod(podgang.namespace, selector)) else Stage.EMPTY

    async def _any(self, request: requests.Request) -> bool:
        return bool(sequence((await self._client.get(request)).content.get("items")))

"""Writing gang objects: only while this process leads, and nothing at all in a dry run."""

from __future__ import annotations

from collections.abc import Callable

from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.errors import NotFound, NotLeading
from webhook.logs import log
from webhook.model.facts import ObjectKey
from webhook.model.projections import Resource, key_of
from webhook.model.reading import Manifest
from webhook.reconciler.differences import FIELD_MANAGER
from webhook.reconciler.gates import PODS, lift
from webhook.reconciler.metrics import Metrics


class Writer:
    """Applies and deletes. `leads` is asked before every write, so that of two processes one writes at a time."""

    def __init__(self, client: Client, leads: Callable[[], bool], metrics: Metrics, *, dry_run: bool = False) -> None:
        self._client = client
        self._leads = leads
        self._metrics = metrics
        self._dry_run = dry_run

    async def apply(self, resource: Resource, wanted: Manifest) -> Manifest:
        """Make the object what `wanted` says, and leave what it does not say. Raises `RequestFailed`, `NotLeading`."""
        self._check()
        written = await self._client.write(requests.apply(resource, wanted, FIELD_MANAGER, dry_run=self._dry_run))
        self._say("apply", resource, *key_of(wanted))
        return dict(written)

    async def rehearse(self, resource: Resource, wanted: Manifest) -> None:
        """Ask what the API server would say to `apply`, and change nothing. Raises `RequestFailed`, `NotLeading`."""
        self._check()
        await self._client.write(requests.apply(resource, wanted, FIELD_MANAGER, dry_run=True))

    async def delete(self, resource: Resource, live: Manifest) -> None:
        """Delete the object, if it still is that one. Raises `RequestFailed`, `NotLeading`."""
        self._check()
        metadata = live["metadata"]
        request = requests.delete(
            resource, metadata.get("namespace"), metadata["name"], metadata["uid"], dry_run=self._dry_run
        )
        try:
            await self._client.write(request)
        except NotFound:
            return
        self._say("delete", resource, *key_of(live))

    async def ungate(self, pod: ObjectKey, index: int) -> None:
        """Take the gate off a pod. Raises `RequestFailed`, `NotLeading`."""
        self._check()
        if self._dry_run or not await lift(self._client, pod, index):
            return
        self._say("ungate", PODS, *pod)

    def _check(self) -> None:
        if not self._leads():
            raise NotLeading

    def _say(self, action: str, resource: Resource, namespace: str, name: str) -> None:
        self._metrics.writes.labels(resource.api.kind, action).inc()
        log.info(action, kind=resource.api.kind, namespace=namespace, name=name, dryRun=self._dry_run)

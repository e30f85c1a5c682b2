"""Writing gang objects: only while this process leads, and nothing at all in a dry run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.errors import NotFound, NotLeading, RequestFailed
from webhook.logs import log
from webhook.model.facts import ObjectKey
from webhook.model.projections import Resource, key_of
from webhook.model.reading import Manifest
from webhook.reconciler.differences import FIELD_MANAGER
from webhook.reconciler.gates import PODS, lift
from webhook.reconciler.lease import WRITE_SECONDS
from webhook.reconciler.metrics import Metrics


class Writer:
    """Applies and deletes. `leads` is asked when a write leaves, and no write takes long, so that of two processes one
    writes at a time.
    """

    def __init__(self, client: Client, leads: Callable[[], bool], metrics: Metrics, *, dry_run: bool = False) -> None:
        self._client = client
        self._leads = leads
        self._metrics = metrics
        self._dry_run = dry_run

    async def apply(self, resource: Resource, wanted: Manifest) -> Manifest:
        """Make the object what `wanted` says, and leave what it does not say. Raises `RequestFailed`, `NotLeading`."""
        written = await self._write(requests.apply(resource, wanted, FIELD_MANAGER, dry_run=self._dry_run))
        self._say("apply", resource, *key_of(wanted))
        return dict(written)

    async def delete(self, resource: Resource, live: Manifest) -> None:
        """Delete the object, if it still is that one. Raises `RequestFailed`, `NotLeading`."""
        metadata = live["metadata"]
        request = requests.delete(
            resource, metadata.get("namespace"), metadata["name"], metadata["uid"], dry_run=self._dry_run
        )
        try:
            await self._write(request)
        except NotFound:
            return
        self._say("delete", resource, *key_of(live))

    async def ungate(self, pod: ObjectKey, index: int) -> None:
        """Take the gate off a pod. Raises `RequestFailed`, `NotLeading`."""
        if self._dry_run or not await lift(self._write, pod, index):
            return
        self._say("ungate", PODS, *pod)

    async def _write(self, request: requests.Write) -> Any:
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                return await self._client.write(request, self._check)
        except TimeoutError:
            raise RequestFailed(f"no answer within {WRITE_SECONDS:g} s") from None

    def _check(self) -> None:
        if not self._leads():
            raise NotLeading

    def _say(self, action: str, resource: Resource, namespace: str, name: str) -> None:
        self._metrics.writes.labels(resource.api.kind, action).inc()
        log.info(action, kind=resource.api.kind, namespace=namespace, name=name, dryRun=self._dry_run)

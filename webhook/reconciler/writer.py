"""Writes gang and topology objects: only while this process leads, and never in a dry run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any

from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.errors import NotFound, NotLeading, RequestFailed
from webhook.gangs.differences import FIELD_MANAGER
from webhook.gangs.pod import GangPod
from webhook.model.keys import ObjectKey
from webhook.model.kubernetes_kinds import PODS
from webhook.model.projections import Resource, key_of
from webhook.model.reading import Manifest
from webhook.reconciler.gates import lift
from webhook.reconciler.lease import WRITE_SECONDS
from webhook.reconciler.metrics import Metrics
from webhook.telemetry import spans
from webhook.telemetry.logs import log

# HTTP statuses that mean the API server refuses the object as it is.
REFUSALS = frozenset({400, 403, 404, 422})


class Writer:
    """Applies and deletes objects. `leads` is checked just before a write is sent, and every write has a short limit.
    So two processes never write at the same time.
    """

    def __init__(self, client: Client, leads: Callable[[], bool], metrics: Metrics, *, dry_run: bool = False) -> None:
        self._client = client
        self._leads = leads
        self._metrics = metrics
        self.dry_run = dry_run

    async def apply(self, resource: Resource, wanted: Manifest) -> Manifest:
        """Apply `wanted`; fields that it does not contain stay. Raises `RequestFailed`, `NotLeading`."""
        written = await self._write(resource, requests.apply(resource, wanted, FIELD_MANAGER, dry_run=self.dry_run))
        self._say("apply", resource, *key_of(wanted))
        return dict(written)

    async def rehearse(self, resource: Resource, wanted: Manifest) -> None:
        """Like `apply`, but as a dry run at the API server. Raises `RequestFailed`, `NotLeading`."""
        await self._write(resource, requests.apply(resource, wanted, FIELD_MANAGER, dry_run=True))

    async def delete(self, resource: Resource, live: Manifest) -> None:
        """Delete the object if it still has the same uid. Raises `NotLeading`, and `RequestFailed`, also where the kind
        is not served: that does not show that the object is gone.
        """
        metadata = live["metadata"]
        request = requests.delete(
            resource, metadata.get("namespace"), metadata["name"], metadata["uid"], dry_run=self.dry_run
        )
        try:
            await self._write(resource, request)
        except NotFound as error:
            if error.object_name != metadata["name"]:
                raise
            return
        self._say("delete", resource, *key_of(live))

    async def delete_unchanged(self, resource: Resource, live: Manifest) -> bool:
        """Delete the object if it still has the uid and the owners of `live`, and nothing about it changes until it is
        gone; return whether that was done. Raises `RequestFailed`, `NotLeading`.
        """
        namespace, name = key_of(live)
        metadata = live["metadata"]
        same = [
            {"op": "test", "path": f"/metadata/{field}", "value": metadata[field]}
            for field in ("uid", "ownerReferences")
        ]
        # A patch of tests alone changes nothing, and its answer has the version in which they hold.
        tests = requests.json_patch(resource, namespace, name, same, dry_run=self.dry_run)
        try:
            version = (await self._write(resource, tests))["metadata"]["resourceVersion"]
            request = requests.delete(resource, namespace, name, metadata["uid"], version=version, dry_run=self.dry_run)
            await self._write(resource, request)
        except RequestFailed as error:
            if error.is_outdated_patch or error.code == HTTPStatus.CONFLICT:
                return False
            raise
        self._say("delete", resource, namespace, name)
        return True

    async def ungate(self, pod: ObjectKey, index: int) -> None:
        """Remove the gate from a pod. Raises `RequestFailed`, `NotLeading`."""
        if self.dry_run or not await lift(partial(self._write, PODS), pod, index):
            return
        self._say("ungate", PODS, *pod)

    async def delete_unbound(self, pod: GangPod) -> bool:
        """Delete a pod that was never on a node; return whether that was done. Raises `RequestFailed`, `NotLeading`."""
        try:
            live = (await self._client.get(requests.read(PODS, pod.name, pod.namespace))).content
        except NotFound:
            return False
        metadata = live["metadata"]
        if metadata["uid"] != pod.uid or live["spec"].get("nodeName"):
            return False
        # If a scheduler binds the pod meanwhile, its version changes and the API server refuses the deletion.
        request = requests.delete(
            PODS, pod.namespace, pod.name, pod.uid, version=metadata["resourceVersion"], dry_run=self.dry_run
        )
        try:
            await self._write(PODS, request)
        except NotFound:
            return False
        except RequestFailed as error:
            if error.code == HTTPStatus.CONFLICT:
                return False
            raise
        self._say("delete", PODS, *pod.key)
        return True

    async def send(self, action: str, resource: Resource, key: ObjectKey, request: requests.Write) -> None:
        """Send any other write; it is counted and logged as `action`. Raises `RequestFailed`, `NotLeading`."""
        await self._write(resource, request)
        self._say(action, resource, *key)

    async def _write(self, resource: Resource, request: requests.Write) -> Any:
        rehearsed = bool(request.params.get("dryRun"))
        about = {"rollcall.kind": resource.api.kind, "http.request.method": request.method}
        with spans.span("rehearse" if rehearsed else "write", spans.Side.CLIENT, about):
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
        where = {"namespace": namespace} if resource.namespaced else {}
        log.info(action, kind=resource.api.kind, **where, name=name, dryRun=self.dry_run)

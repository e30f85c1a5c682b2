"""The writer of gang and topology objects, and the pod gate `rollcall.dev/gang-sync`. It writes only while this
process leads, and never in a dry run.

The gate is removed from the pods of a gang once the gang's objects exist and nothing else holds any of its pods. Pods
that only have the gang's labels keep their gate. Other controllers, such as Grove, remove their gates pod by pod, and
koord-scheduler 1.8 binds the pods that are already free, which is half a gang. So our gate is removed last, from all
pods together. After a gang's minimum was raised, the gates also wait until the scheduler has shown that it knows, or,
where it shows nothing, for a pause.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Sequence
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Any

from webhook.cluster import requests, spans
from webhook.cluster.client import Client
from webhook.cluster.logs import log
from webhook.errors import NotFound, NotLeading, RequestFailed
from webhook.gangs.members import OF_GANGS, OF_OPTED_IN_GANGS, GangPod, read_gang_pod, read_opted_in_pod
from webhook.gangs.object_plan import FIELD_MANAGER
from webhook.model.gang_objects import raised_at
from webhook.model.grove import PodGang
from webhook.model.keys import ObjectKey
from webhook.model.known_kinds import PODS
from webhook.model.place import label_value
from webhook.model.projections import Resource, key_of
from webhook.model.reading import Malformed, Manifest
from webhook.mutators.prepare_pod import GATE
from webhook.reconciler.lease import WRITE_SECONDS
from webhook.reconciler.metrics import ReconcilerMetrics
from webhook.workloads.opted_in_gang import GANG_LABEL

# How long a scheduler that shows nothing has to see a raised minimum. A watch delivers within milliseconds. One that
# broke is read again after one or two seconds (client-go starts with 0.8 s).
SILENT_SECONDS = 5.0
# The longest wait for the sign of a scheduler that shows it: client-go tries a broken watch again every 30 seconds at
# the latest.
SIGN_SECONDS = 30.0


def releasable(podgang: PodGang, pods: Sequence[GangPod]) -> list[tuple[ObjectKey, int]]:
    """Returns the pods whose gate may be removed now, each with the index of the gate.

    These are all members with the gate, if there are as many members as the gang needs and no other gate is left;
    otherwise none.
    """
    there = Counter(pod.podclique for pod in pods if pod.counts)
    held = any(gate != GATE for pod in pods if pod.counts for gate in pod.gates)
    if held or any(there[label_value(member.name)] < member.min_replicas for member in podgang.members):
        return []
    return [(pod.key, pod.gate) for pod in pods if pod.gate is not None]


def unseen_seconds(live: Manifest | None, now: datetime, *, shows: bool, shown: bool) -> float:
    """For how many seconds the scheduler may still know this gang object with a minimum from before a raise.

    `shows`: it is one that shows that it has seen a raise; `shown`: it has. The clock of the process that wrote the
    time may be ahead, so a time less than the pause in the future counts as now. A later one, or one that cannot be
    read, holds nothing: no gate waits for ever.
    """
    try:
        raised = datetime.fromisoformat(raised_at(live) or "")
        age = (now - raised).total_seconds()
    except (Malformed, TypeError, ValueError):
        return 0.0
    pause = SIGN_SECONDS if shows else SILENT_SECONDS
    return 0.0 if age <= -pause or (shows and shown) else max(pause - max(age, 0.0), 0.0)


def gate_removal(namespace: str, name: str, index: int) -> requests.Write:
    """Returns the request that removes our gate if it still is at `index`: other controllers remove gates, too."""
    path = f"/spec/schedulingGates/{index}"
    test: Manifest = {"op": "test", "path": f"{path}/name", "value": GATE}
    return requests.json_patch(PODS, namespace, name, [test, {"op": "remove", "path": path}])


async def lift(write: Callable[[requests.Write], Awaitable[Any]], key: ObjectKey, index: int) -> bool:
    """Removes the gate from one pod; return whether that was done. Raises what `write` raises.

    It is not done if the gate has moved or the pod is gone; the watch reports that.
    """
    try:
        await write(gate_removal(*key, index))
    except RequestFailed as error:
        if error.is_outdated_patch:
            return False
        raise
    return True


def _names(pod: GangPod) -> set[str]:
    """Returns the names by which a pod's gang may be called: the gang's, the workload's, and a declared kind's."""
    return {pod.podgang, pod.workload, str(pod.labels.get(GANG_LABEL) or "")}


async def gated(
    client: Client, namespace: str | None, gangs: Container[str] | None
) -> AsyncIterator[tuple[GangPod, int]]:
    """Yields the pods that have our gate with its index, of one namespace or all. Raises `RequestFailed`."""
    for selector, read in ((OF_GANGS, read_gang_pod), (OF_OPTED_IN_GANGS, read_opted_in_pod)):
        async for raw in client.items(PODS, namespace=namespace, selector=selector):
            _, pod = read(raw)
            if pod.gate is not None and (gangs is None or any(name in gangs for name in _names(pod))):
                yield pod, pod.gate


# HTTP statuses that mean the API server refuses the object as it is.
REFUSALS = frozenset({400, 403, 404, 422})


class Writer:
    """Applies and deletes objects. `leads` is checked just before a write is sent, and every write has a short limit.
    So two processes never write at the same time.
    """

    def __init__(
        self, client: Client, leads: Callable[[], bool], metrics: ReconcilerMetrics, *, dry_run: bool = False
    ) -> None:
        self._client = client
        self._leads = leads
        self._metrics = metrics
        self.dry_run = dry_run

    async def apply(self, resource: Resource, manifest: Manifest) -> Manifest:
        """Applies `manifest`; fields that it does not contain stay. Raises `RequestFailed`, `NotLeading`."""
        written = await self._write(resource, requests.apply(resource, manifest, FIELD_MANAGER, dry_run=self.dry_run))
        self._say("apply", resource, *key_of(manifest))
        return dict(written)

    async def rehearse(self, resource: Resource, manifest: Manifest) -> None:
        """Sends what `apply` would, as a dry run at the API server. Raises `RequestFailed`, `NotLeading`."""
        await self._write(resource, requests.apply(resource, manifest, FIELD_MANAGER, dry_run=True))

    async def delete(self, resource: Resource, live: Manifest) -> None:
        """Deletes the object if it still has the same uid. Raises `NotLeading`, and `RequestFailed`, also where the
        kind is not served: that does not show that the object is gone.
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
        """Deletes the object if it still has the uid and the owners of `live`, and nothing about it changes until it is
        gone. Returns whether that was done. Raises `RequestFailed`, `NotLeading`.
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
        """Removes the gate from a pod. Raises `RequestFailed`, `NotLeading`."""
        if self.dry_run or not await lift(partial(self._write, PODS), pod, index):
            return
        self._say("ungate", PODS, *pod)

    async def delete_unbound(self, pod: GangPod) -> bool:
        """Deletes a pod that was never on a node. Returns whether it did. Raises `RequestFailed`, `NotLeading`."""
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
        """Sends any other write; it is counted and logged as `action`. Raises `RequestFailed`, `NotLeading`."""
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

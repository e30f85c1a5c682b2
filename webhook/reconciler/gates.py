"""The pod gate: `rollcall.dev/gang-sync` comes off the pods of a gang once its objects are there, and once nothing else
holds back any of its pods. Pods that only have its labels neither complete nor hold it, and keep theirs.

Whoever else gates them lifts that pod by pod, as Grove does, and koord-scheduler 1.8 binds those that are free already:
half a gang. So ours is the last to go, from all at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Sequence
from http import HTTPStatus
from typing import Any

from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.errors import NotFound, RequestFailed
from webhook.gangs.pod import OF_GANGS, OF_OWNED_GANGS, GangPod, read_gang_pod, read_owned_pod
from webhook.model.keys import ObjectKey
from webhook.model.kubernetes_kinds import PODS
from webhook.model.reading import Manifest
from webhook.model.workloads.place import label_value
from webhook.model.workloads.podgang import PodGang
from webhook.mutators.prepare_pod import GATE


def releasable(podgang: PodGang, pods: Sequence[GangPod]) -> list[tuple[ObjectKey, int]]:
    """The members of a gang from which the gate may come off, and where it stands: all that bear it, when there are as
    many as the gang needs and no other gate is left; none before.
    """
    there = Counter(pod.podclique for pod in pods if pod.counts)
    held = any(gate != GATE for pod in pods if pod.counts for gate in pod.gates)
    if held or any(there[label_value(member.name)] < member.min_replicas for member in podgang.members):
        return []
    return [(pod.key, pod.gate) for pod in pods if pod.gate is not None]


def without_gate(namespace: str, name: str, index: int) -> requests.Write:
    """The request that takes our gate off, if it still stands there: others remove theirs at the same time."""
    path = f"/spec/schedulingGates/{index}"
    test: Manifest = {"op": "test", "path": f"{path}/name", "value": GATE}
    return requests.json_patch(PODS, namespace, name, [test, {"op": "remove", "path": path}])


async def lift(write: Callable[[requests.Write], Awaitable[Any]], key: ObjectKey, index: int) -> bool:
    """Take the gate off one pod; whether that was done. Not done is also that it moved, or went with its pod: the
    watch tells. Raises what `write` does.
    """
    try:
        await write(without_gate(*key, index))
    except NotFound:
        return False
    except RequestFailed as error:
        if error.code == HTTPStatus.UNPROCESSABLE_ENTITY:
            return False
        raise
    return True


async def gated(
    client: Client, namespace: str | None, gangs: Container[str] | None
) -> AsyncIterator[tuple[GangPod, int]]:
    """The pods that bear our gate, and where it stands: of a namespace or of all, of the gangs of these names or of
    all. Raises `RequestFailed`.
    """
    for selector, read in ((OF_GANGS, read_gang_pod), (OF_OWNED_GANGS, read_owned_pod)):
        async for raw in client.items(PODS, namespace=namespace, selector=selector):
            _, pod = read(raw)
            if pod.gate is not None and (gangs is None or pod.podgang in gangs or pod.workload in gangs):
                yield pod, pod.gate

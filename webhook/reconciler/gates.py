"""The pod gate `rollcall.dev/gang-sync`.

It is removed from the pods of a gang once the gang's objects exist and nothing else holds any of its pods. Pods that
only have the gang's labels do not count, and keep their gate.

Other controllers, such as Grove, remove their gates pod by pod. koord-scheduler 1.8 binds the pods that are already
free, which is half a gang. So our gate is removed last, from all pods together.

A scheduler that does not know yet that the gang's minimum was raised would bind some of the new pods. So the gates also
wait until it has shown that it knows, or, where it shows nothing, for a pause.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Sequence
from datetime import datetime
from typing import Any

from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.errors import RequestFailed
from webhook.gangs.pod import OF_GANGS, OF_OPTED_IN_GANGS, GangPod, read_gang_pod, read_opted_in_pod
from webhook.model.gang_object import raised_at
from webhook.model.keys import ObjectKey
from webhook.model.kubernetes_kinds import PODS
from webhook.model.reading import Malformed, Manifest
from webhook.model.workloads.gang import GANG_LABEL
from webhook.model.workloads.place import label_value
from webhook.model.workloads.podgang import PodGang
from webhook.mutators.prepare_pod import GATE

# How long a scheduler that shows nothing has to see a raised minimum. A watch delivers within milliseconds. One that
# broke is read again after one or two seconds (client-go starts with 0.8 s).
SILENT_SECONDS = 5.0
# The longest wait for the sign of a scheduler that shows it: client-go tries a broken watch again every 30 seconds at
# the latest.
SIGN_SECONDS = 30.0


def releasable(podgang: PodGang, pods: Sequence[GangPod]) -> list[tuple[ObjectKey, int]]:
    """The pods whose gate may be removed now, each with the index of the gate.

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


def without_gate(namespace: str, name: str, index: int) -> requests.Write:
    """The request that removes our gate if it still is at `index`: other controllers remove their gates at the same
    time.
    """
    path = f"/spec/schedulingGates/{index}"
    test: Manifest = {"op": "test", "path": f"{path}/name", "value": GATE}
    return requests.json_patch(PODS, namespace, name, [test, {"op": "remove", "path": path}])


async def lift(write: Callable[[requests.Write], Awaitable[Any]], key: ObjectKey, index: int) -> bool:
    """Remove the gate from one pod; return whether that was done. Raises what `write` raises.

    It is not done if the gate has moved or the pod is gone; the watch reports that.
    """
    try:
        await write(without_gate(*key, index))
    except RequestFailed as error:
        if error.is_outdated_patch:
            return False
        raise
    return True


def _names(pod: GangPod) -> set[str]:
    """What a pod's gang may be called: its name, that of its workload, and that of a gang of a declared kind."""
    return {pod.podgang, pod.workload, str(pod.labels.get(GANG_LABEL) or "")}


async def gated(
    client: Client, namespace: str | None, gangs: Container[str] | None
) -> AsyncIterator[tuple[GangPod, int]]:
    """The pods that have our gate, with its index; of one namespace or all, of the given gangs or all. Raises
    `RequestFailed`.
    """
    for selector, read in ((OF_GANGS, read_gang_pod), (OF_OPTED_IN_GANGS, read_opted_in_pod)):
        async for raw in client.items(PODS, namespace=namespace, selector=selector):
            _, pod = read(raw)
            if pod.gate is not None and (gangs is None or any(name in gangs for name in _names(pod))):
                yield pod, pod.gate

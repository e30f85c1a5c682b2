"""The pod gate: `rollcall.dev/gang-sync` comes off the pods of a gang once its objects are there.

Followed are the pods that name a PodGang, and kept of each is one number; without a profile that wants the gate nobody
follows any.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from typing import Any, NamedTuple

from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.cluster.watch import Index, Watch
from webhook.errors import NotFound, RequestFailed
from webhook.model import grove
from webhook.model.facts import Api, ObjectKey
from webhook.model.projections import Projection, Resource, key_of, labels_of
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.mutators.prepare_pod import GATE
from webhook.reconciler.grouping import Grouping

PODS = Resource(Api("", "v1", "Pod"), "pods")
# Pods that name a PodGang: of whatever owner, for the gate is ours alone.
OF_GANGS = {"labelSelector": grove.LABEL_PODGANG}


class Gated(NamedTuple):
    """A pod's PodGang, and where among its gates ours is; None where it has none."""

    podgang: str
    position: int | None


def gate_of(raw: Manifest) -> int | None:
    """Where among a pod's gates ours is."""
    gates = sequence(mapping(raw.get("spec")).get("schedulingGates"))
    return next((index for index, gate in enumerate(gates) if mapping(gate).get("name") == GATE), None)


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


class Gates:
    """The gated pods of a cluster, by PodGang. `changed` is told of each PodGang that gains one."""

    def __init__(self, client: Client, changed: Callable[[ObjectKey], None]) -> None:
        self._changed = changed
        # The pods that bear the gate, by PodGang.
        self._gated: Grouping[ObjectKey, ObjectKey] = Grouping()
        projection = Projection("", PODS, _read)
        self.watch = Watch(client, projection, _filled, self._noticed, OF_GANGS)

    def of(self, podgang: ObjectKey) -> Iterator[tuple[ObjectKey, int]]:
        """The gated pods of a PodGang, and where the gate stands."""
        for pod in sorted(self._gated.members(podgang)):
            found: Gated = self.watch.index.entries[pod]
            if found.position is not None:
                yield pod, found.position

    def _noticed(self, pod: ObjectKey) -> None:
        found: Gated | None = self.watch.index.entries.get(pod)
        podgang = None if found is None or found.position is None else (pod[0], found.podgang)
        self._gated.move(pod, podgang)
        if podgang is not None:
            self._changed(podgang)


def _read(raw: Manifest) -> tuple[ObjectKey, Gated]:
    return key_of(raw), Gated(text(labels_of(raw).get(grove.LABEL_PODGANG)) or "", gate_of(raw))


def _filled(_: Index) -> None:
    """Nobody waits for it: a gated pod that is not known yet is waited for by its gang alone."""

"""The pod gate: `rollcall.dev/gang-sync` comes off the pods of a gang once its objects are there, and once nothing else
holds back any of its pods.

Whoever else gates them lifts that pod by pod, as Grove does, and koord-scheduler 1.8 binds those that are free already:
half a gang. So ours is the last to go, from all at once. Followed are the pods that name a PodGang, and little is kept
of each; without a profile that wants the gate nobody follows any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from webhook.cluster import requests
from webhook.cluster.client import Client
from webhook.cluster.watch import Index, Watch
from webhook.errors import NotFound, RequestFailed
from webhook.model import grove
from webhook.model.facts import Api, ObjectKey
from webhook.model.podgang import PodGang
from webhook.model.projections import Projection, Resource, key_of, labels_of
from webhook.model.reading import Manifest, mapping, sequence, text
from webhook.mutators.prepare_pod import GATE
from webhook.reconciler.grouping import Grouping

PODS = Resource(Api("", "v1", "Pod"), "pods")
# Pods that name a PodGang: of whatever owner, for the gate is ours alone.
OF_GANGS = {"labelSelector": grove.LABEL_PODGANG}


class Gated(NamedTuple):
    """A pod's PodGang and PodClique, where among its gates ours is (None where it has none), and whether it bears
    others.
    """

    podgang: str
    podclique: str
    position: int | None
    held: bool


def gate_of(raw: Manifest) -> int | None:
    """Where among a pod's gates ours is."""
    gates = sequence(mapping(raw.get("spec")).get("schedulingGates"))
    return next((index for index, gate in enumerate(gates) if mapping(gate).get("name") == GATE), None)


def without_gate(namespace: str, name: str, index: int) -> requests.Write:
    """The request that takes our gate off, if it still stands there: others remove theirs at the same time."""
    path = f"/spec/schedulingGates/{index}"
    test: Manifest = {"op": "test", "path": f"{path}/name", "value": GATE}
    return requests.json_patch(PODS, namespace, name, [test, {"op": "remove", "path": path}])


async def lift(client: Client, key: ObjectKey, index: int) -> bool:
    """Take the gate off one pod; whether that was done. Not done is also that it moved, or went with its pod: the
    watch tells. Raises `RequestFailed`.
    """
    try:
        await client.write(without_gate(*key, index))
    except NotFound:
        return False
    except RequestFailed as error:
        if error.code == HTTPStatus.UNPROCESSABLE_ENTITY:
            return False
        raise
    return True


class Gates:
    """The pods of a cluster's gangs. `changed` is told of each PodGang that has gated pods, whenever one of its pods
    changes.
    """

    def __init__(self, client: Client, changed: Callable[[ObjectKey], None]) -> None:
        self._changed = changed
        self._pods: Grouping[ObjectKey, ObjectKey] = Grouping()
        # Those that bear our gate.
        self._gated: Grouping[ObjectKey, ObjectKey] = Grouping()
        projection = Projection("", PODS, _read)
        self.watch = Watch(client, projection, self._filled, self._noticed, OF_GANGS)

    def of(self, podgang: PodGang) -> list[tuple[ObjectKey, int]]:
        """The pods of a PodGang from which the gate may come off, and where it stands: all that bear it, when there are
        as many as the gang needs and no other gate is left; none before.
        """
        key = podgang.namespace, podgang.name
        gated = self._gated.members(key)
        if not gated or not self.watch.filled:
            return []
        entries: Mapping[ObjectKey, Gated] = self.watch.index.entries
        pods = [entries[pod] for pod in self._pods.members(key)]
        there = Counter(pod.podclique for pod in pods)
        if any(pod.held for pod in pods) or any(there[one.name] < one.min_replicas for one in podgang.members):
            return []
        return [(pod, position) for pod in sorted(gated) if (position := entries[pod].position) is not None]

    def _filled(self, _: Index) -> None:
        """Before, a pod that holds its gang back may not have been read."""
        for podgang in list(self._gated.groups()):
            self._changed(podgang)

    def _noticed(self, pod: ObjectKey) -> None:
        found: Gated | None = self.watch.index.entries.get(pod)
        podgang = None if found is None else (pod[0], found.podgang)
        concerned = podgang if podgang is not None else self._pods.group(pod)
        self._pods.move(pod, podgang)
        self._gated.move(pod, None if found is None or found.position is None else podgang)
        if concerned is not None and self._gated.members(concerned):
            self._changed(concerned)


def _read(raw: Manifest) -> tuple[ObjectKey, Gated]:
    labels = labels_of(raw)
    gates = sequence(mapping(raw.get("spec")).get("schedulingGates"))
    position = gate_of(raw)
    return key_of(raw), Gated(
        text(labels.get(grove.LABEL_PODGANG)) or "",
        text(labels.get(grove.LABEL_PODCLIQUE)) or "",
        position,
        len(gates) > (position is not None),
    )

"""The life of some gangs, step by step and the same in every namespace, so that the results of two reconcilers can be
compared: gangs are created, deleted and changed, and in the end half of them are deleted.

PodCliques, PodGangs and pods are made by hand here, as they are once Grove's operator and admission are done with them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import httpx

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.grove_operator import GATE
from tests.e2e.workloads import pod_clique_alone

T = TypeVar("T")

STEPS = ("create", "scale", "update", "delete")
KOORD, KUBE = "koord-scheduler", "default-scheduler"
_PODGANGS = "/apis/scheduler.grove.io/v1alpha1/namespaces/{}/podgangs"
_POD_CLIQUES = "/apis/grove.io/v1alpha1/namespaces/{}/podcliques"
_MERGE = {"Content-Type": "application/merge-patch+json"}
# The gang objects of each scheduler.
_KINDS = {
    KOORD: ("scheduling.sigs.k8s.io/v1alpha1/podgroups",),
    KUBE: (
        "scheduling.k8s.io/v1beta1/workloads",
        "scheduling.k8s.io/v1alpha3/compositepodgroups",
        "scheduling.k8s.io/v1beta1/podgroups",
    ),
}
_CLIENTS = 4


class Gang(NamedTuple):
    """A PodGang: the minimum of each of its members. It has as many pods, or none."""

    name: str
    members: dict[str, int]
    # Grove's gate is on them until it is lifted.
    gated: bool = False
    pods: bool = True


class Story:
    """The gangs of one namespace; `count` of them, a multiple of four, for one scheduler."""

    def __init__(self, plane: ControlPlane, namespace: str, count: int, scheduler: str, *, pods: bool = True) -> None:
        self.plane = plane
        self.namespace = namespace
        self.count = count
        self.scheduler = scheduler
        self.gangs: dict[int, Gang] = {}
        self._pods = pods
        self._podgangs = _PODGANGS.format(namespace)
        self._pod_cliques = _POD_CLIQUES.format(namespace)

    def tell(self, step: str) -> None:
        """Do one of `STEPS`."""
        {"create": self._create, "scale": self._scale, "update": self._update, "delete": self._delete}[step]()

    # the steps; of 20 gangs, 20 to 24 come, 15 to 19 go, 0 to 4, 5 to 9 and 10 to 14 are changed

    def _create(self) -> None:
        self._add(range(self.count))

    def _scale(self) -> None:
        quarter = self.count // 4
        self._remove(range(3 * quarter, self.count))
        self._add(range(self.count, self.count + quarter))

    def _update(self) -> None:
        quarter = self.count // 4
        lowered, grown, shrunk = (range(n * quarter, (n + 1) * quarter) for n in range(3))
        if self.scheduler == KUBE:
            # What the Workload API has stored keeps its shape: another one is another PodGang, of the same name.
            for number in grown:
                members = {**self.gangs[number].members, f"g{number}-d": 1}
                self._remove([number])
                self._post(Gang(f"g{number}", members, pods=False), number)
            return
        for number in lowered:
            self._change(number, dict.fromkeys(self.gangs[number].members, 1))
        for number in grown:
            self._change(number, {**self.gangs[number].members, f"g{number}-d": 1})
        for number in shrunk:
            self._change(number, dict(list(self.gangs[number].members.items())[:-1]))

    def _delete(self) -> None:
        self._remove([number for number in self.gangs if number % 2 == 0])

    def close(self) -> None:
        """Delete what is left."""
        self._remove(list(self.gangs))

    def _add(self, numbers: Iterable[int]) -> None:
        _each(lambda number: self._post(self._shape(number), number), numbers)

    def _shape(self, number: int) -> Gang:
        """Gangs of even number have two members, the others three; the second needs two pods."""
        name, quarter = f"g{number}", self.count // 4
        members = dict(zip((f"{name}-a", f"{name}-b", f"{name}-c")[: 2 + number % 2], (1, 2, 1), strict=False))
        # Whose shape will change has pods that wait for it, as Grove's operator would have them wait.
        changes = quarter <= number < 3 * quarter
        # The larger ones, which stay to the end.
        pods = self._pods and number % 2 == 1 and not (changes and self.scheduler == KUBE)
        return Gang(name, members, gated=changes, pods=pods)

    def _post(self, gang: Gang, number: int) -> None:
        metadata = {
            "name": gang.name,
            "namespace": self.namespace,
            "labels": {"rollcall.dev/scheduler": self.scheduler},
        }
        body = {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": metadata,
            "spec": {"podgroups": _pod_groups(gang.members)},
        }
        for member, pods in gang.members.items():
            _answered(self.plane.http.post(self._pod_cliques, json=pod_clique_alone(member, self.namespace, pods)))
        _answered(self.plane.http.post(self._podgangs, json=body))
        self.gangs[number] = gang
        if gang.pods:
            # Pods of a member that is to come wait beside the others.
            grown = gang.gated and number < self.count // 2
            self._create_pods(gang, {**gang.members, **({f"{gang.name}-d": 1} if grown else {})})

    def _create_pods(self, gang: Gang, members: dict[str, int]) -> None:
        for member, pods in members.items():
            for index in range(pods):
                pod = self._pod(gang, member, index)
                _answered(self.plane.http.post(f"/api/v1/namespaces/{self.namespace}/pods", json=pod))

    def _delete_pods(self, gang: Gang) -> None:
        params = {"labelSelector": f"gang={gang.name}", "gracePeriodSeconds": "0"}
        _answered(self.plane.http.delete(f"/api/v1/namespaces/{self.namespace}/pods", params=params))

    def _pod(self, gang: Gang, member: str, index: int) -> Manifest:
        container = {
            "name": "main",
            "image": "registry.example.com/main:1.0",
            "resources": {"requests": {"cpu": "10m"}},
        }
        spec: Manifest = {"schedulerName": self.scheduler, "containers": [container]}
        labels = {"gang": gang.name, "member": member}
        if self.scheduler == KOORD:
            labels["pod-group.scheduling.sigs.k8s.io"] = member
        else:
            spec["schedulingGroup"] = {"podGroupName": member}
        if gang.gated:
            spec["schedulingGates"] = [{"name": GATE}]
        metadata = {"name": f"{member}-{index}", "namespace": self.namespace, "labels": labels}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _change(self, number: int, members: dict[str, int]) -> None:
        gang = self.gangs[number] = self.gangs[number]._replace(members=members)
        body = {"spec": {"podgroups": _pod_groups(members)}}
        _answered(self.plane.http.patch(f"{self._podgangs}/{gang.name}", json=body, headers=_MERGE))

    def _remove(self, numbers: Iterable[int]) -> None:
        _each(self._remove_one, numbers)

    def _remove_one(self, number: int) -> None:
        gang = self.gangs.pop(number)
        _answered(self.plane.http.delete(f"{self._podgangs}/{gang.name}"))
        for member in gang.members:
            answer = self.plane.http.delete(f"{self._pod_cliques}/{member}")
            # A member that came later has none: one PodClique of a gang is enough.
            assert answer.is_success or answer.status_code == httpx.codes.NOT_FOUND, answer.text
        if gang.pods:
            self._delete_pods(gang)

    def lift_gates(self) -> None:
        """Remove Grove's gate from the pods, as Grove's operator does for a complete gang."""
        for number, gang in self.gangs.items():
            self.gangs[number] = gang._replace(gated=False)
        _each(self._lift_gate, (pod for pod in self._stored_pods() if pod["spec"].get("schedulingGates")))

    def _lift_gate(self, pod: Manifest) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
        _answered(self.plane.http.patch(path, json={"spec": {"schedulingGates": None}}, headers=_MERGE))

    def replace_pods(self, names: Iterable[str]) -> None:
        """Delete the pods of these gangs and recreate them without gates, as a desperate user does."""
        for number, gang in self.gangs.items():
            if gang.name in names:
                self._delete_pods(gang)
                self._create_pods(gang, gang.members)
                self.gangs[number] = gang._replace(gated=False)

    # what came of it

    def objects(self) -> dict[tuple[str, str], Manifest]:
        """The gang objects by kind and name, without what differs from namespace to namespace and from time to time."""
        return {
            (path.rpartition("/")[2], found["metadata"]["name"]): self._plain(found)
            for path in _KINDS[self.scheduler]
            for found in self._items(path)
        }

    def _plain(self, found: Manifest) -> Manifest:
        metadata = found["metadata"]
        annotations = json.loads(
            json.dumps(metadata.get("annotations", {})).replace(f"{self.namespace}/", "NAMESPACE/")
        )
        # Of what was applied, uids included.
        assert annotations.pop("rollcall.dev/applied")
        owners = [{**owner, "uid": ""} for owner in metadata["ownerReferences"]]
        return {
            "labels": metadata["labels"],
            "annotations": annotations,
            "owners": owners,
            "leaving": "deletionTimestamp" in metadata,
            "spec": found["spec"],
        }

    def orphans(self) -> list[str]:
        """The gang objects whose PodGang, as it is now, is not there."""
        there = {found["metadata"]["uid"] for found in self._items("scheduler.grove.io/v1alpha1/podgangs")}
        return [
            found["metadata"]["name"]
            for path in _KINDS[self.scheduler]
            for found in self._items(path)
            if not {owner["uid"] for owner in found["metadata"]["ownerReferences"]} <= there
        ]

    def _items(self, path: str) -> list[Manifest]:
        start, _, plural = path.rpartition("/")
        return self.plane.items(f"/apis/{start}/namespaces/{self.namespace}/{plural}")

    def _stored_pods(self) -> list[Manifest]:
        return self.plane.items(f"/api/v1/namespaces/{self.namespace}/pods")

    def started(self) -> dict[str, str]:
        """Of each gang with pods: `none`, `whole`, or how many of each member are bound."""
        bound: dict[str, int] = {}
        for pod in self._stored_pods():
            if pod["spec"].get("nodeName"):
                member = pod["metadata"]["labels"]["member"]
                bound[member] = bound.get(member, 0) + 1
        return {gang.name: _state(gang, bound) for gang in self.gangs.values() if gang.pods}

    def in_part(self) -> Iterator[str]:
        """The gangs of which a part has started, and not the rest."""
        for name, state in self.started().items():
            if state not in {"none", "whole"}:
                yield f"{name}: {state}"


def _each(doing: Callable[[T], None], those: Iterable[T]) -> None:
    """Do it to each of those, as several clients would."""
    with ThreadPoolExecutor(_CLIENTS) as clients:
        list(clients.map(doing, those))


def _state(gang: Gang, bound: dict[str, int]) -> str:
    started = {member: bound.get(member, 0) for member in gang.members}
    if not any(started.values()):
        return "none"
    whole = all(started[member] >= minimum for member, minimum in gang.members.items())
    return "whole" if whole else ", ".join(f"{count} of {member}" for member, count in started.items())


def _pod_groups(members: dict[str, int]) -> list[Manifest]:
    return [{"name": name, "minReplicas": minimum, "podReferences": []} for name, minimum in members.items()]


def _answered(answer: httpx.Response) -> None:
    assert answer.is_success, answer.text

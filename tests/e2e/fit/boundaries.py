"""Pods that are each pinned to a node by its name, with exactly the room they need, and with one unit less or one more
asked. No order in which the scheduler takes them matters.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.e2e.control_plane import Manifest
from tests.e2e.fit.case import HOST, Case, MemberPlan, NodePlan

GPU = "nvidia.com/gpu"


class Boundary(NamedTuple):
    """Pods at a limit, and pods that are one unit over it, on nodes with the same room."""

    room: dict[str, str]
    at: list[Manifest]
    over: list[Manifest]


def pod(requests: dict[str, str] | None = None, *, on: int = 0, **spec: Any) -> Manifest:
    """A pod that is pinned to the node of that number."""
    name = {"key": "metadata.name", "operator": "In", "values": [f"@n{on}"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [name]}]}
    pinned = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    affinity = {**spec.pop("affinity", {}), **pinned}
    return {"containers": [container("main", requests)], "affinity": affinity, **spec}


def container(name: str, requests: dict[str, str] | None = None, **fields: Any) -> Manifest:
    # Extended resources and huge pages have a limit that is their request.
    limits = {key: said for key, said in (requests or {}).items() if "/" in key or key.startswith("hugepages")}
    resources = {"requests": requests or {}, "limits": limits}
    return {"name": name, "image": "example.com/main", "resources": resources, **fields}


def port(**fields: Any) -> Manifest:
    return pod(containers=[container("main", ports=[{"containerPort": 80, "hostPort": 80, **fields}])])


def _sidecar(cpu: str) -> Manifest:
    return container("side", {"cpu": cpu}, restartPolicy="Always")


def _level(cpu: str) -> Manifest:
    return pod({"cpu": "100m"}, resources={"requests": {"cpu": cpu}})


def _sandboxed(cpu: str) -> Manifest:
    return pod({"cpu": cpu}, runtimeClassName="fit-small", overhead={"cpu": "100m", "memory": "64Mi"})


def _apart(on: int) -> Manifest:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"all": "@all"}}}
    return pod(on=on, affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


_ROOM = {"cpu": "4", "memory": "8Gi", "pods": "10"}
BOUNDARIES: dict[str, Boundary] = {
    "a milli of cpu": Boundary(_ROOM, [pod({"cpu": "2500m"}), pod({"cpu": "1.5"})],
                               [pod({"cpu": "2500m"}), pod({"cpu": "1501m"})]),
    "a byte of memory": Boundary(_ROOM, [pod({"memory": "8589934592"})], [pod({"memory": "8589934593"})]),
    "a byte of storage": Boundary({**_ROOM, "ephemeral-storage": "1G"}, [pod({"ephemeral-storage": "1e9"})],
                                  [pod({"ephemeral-storage": "1000000001"})]),
    "a slot": Boundary({**_ROOM, "pods": "2"}, [pod(), pod()], [pod(), pod(), pod()]),
    "a GPU": Boundary({**_ROOM, GPU: "8"}, [pod({GPU: "5"}), pod({GPU: "3"})], [pod({GPU: "5"}), pod({GPU: "4"})]),
    "a huge page": Boundary({**_ROOM, "hugepages-2Mi": "8Mi"}, [pod({"cpu": "1", "hugepages-2Mi": "8Mi"})],
                            [pod({"cpu": "1", "hugepages-2Mi": "10Mi"})]),
    # The API server rounds each of them up when it stores the pod.
    "half a milli in two containers": Boundary(
        _ROOM,
        [pod(containers=[container("a", {"cpu": "1999500u"}), container("b", {"cpu": "1999500u"})])],
        [pod(containers=[container("a", {"cpu": "1999500u"}), container("b", {"cpu": "2001m"})])],
    ),
    "an init container": Boundary(
        _ROOM,
        [pod({"cpu": "4"}, initContainers=[container("a", {"cpu": "4"}), container("b", {"cpu": "3"})])],
        [pod({"cpu": "1"}, initContainers=[container("a", {"cpu": "4001m"})])],
    ),
    "a sidecar": Boundary(
        _ROOM,
        [pod({"cpu": "3"}, initContainers=[container("a", {"cpu": "4"}), _sidecar("1"), container("b", {"cpu": "3"})])],
        [pod({"cpu": "1"}, initContainers=[_sidecar("1"), container("b", {"cpu": "3001m"})])],
    ),
    "overhead": Boundary(_ROOM, [_sandboxed("3900m")], [_sandboxed("3901m")]),
    "a request of the whole pod": Boundary(_ROOM, [_level("4")], [_level("4001m")]),
    "a host port": Boundary(_ROOM, [port(), port(protocol="UDP")], [port(), port(hostIP="10.0.0.1")]),
    "a host port of one address": Boundary(_ROOM, [port(hostIP="10.0.0.1"), port(hostIP="10.0.0.2")],
                                           [port(hostIP="10.0.0.1"), port(hostIP="10.0.0.1")]),
    "anti-affinity": Boundary(_ROOM, [_apart(0), _apart(1)], [_apart(0), _apart(0)]),
    "nothing of what is not there": Boundary({**_ROOM, "cpu": "0"}, [pod({"cpu": "0", GPU: "0"})],
                                             [pod({"cpu": "1m"})]),
}  # fmt: skip


def case_of(number: int, name: str, specs: list[Manifest], room: dict[str, str]) -> Case:
    """The case of these pods on two nodes with that room."""
    nodes = [NodePlan(dict(room), {HOST: f"@n{index}"}) for index in range(2)]
    members = [MemberPlan(f"p{index}", spec, 1, 1, {"all": "@all"}) for index, spec in enumerate(specs)]
    return Case(number, name, nodes, members)

"""Small gangs and rooms for tests of the estimate: pods of so many GPUs, and racks of nodes with eight."""

from __future__ import annotations

from collections.abc import Mapping

from webhook.fit.packing import GroupNeed, NodeClass, Packing, PackingRole, Partition, PodsNeed, Room
from webhook.fit.pod_needs import Eligibility, PodNeeds
from webhook.model.fields import SPEC
from webhook.model.node_pods import NodePod, NodePods

GPU = "nvidia.com/gpu"
RACK = Partition("rack", ("example.com/rack",), SPEC / "rack")


def role(gpus: int, name: str = "worker") -> PackingRole:
    return PackingRole(name, SPEC / "template", PodNeeds({GPU: gpus, "pods": 1}, Eligibility()))


def gang(pods: int, gpus: int, within: Partition | None = RACK) -> Packing:
    return Packing((GroupNeed("gang", (PodsNeed(role(gpus), pods),), 1, within),))


def nodes(rack: str, *names: str, gpus: int = 8) -> NodeClass:
    capacity = {GPU: gpus, "pods": 110}
    return NodeClass(capacity, {"example.com/rack": rack}, len(names), frozenset({"worker"}), names)


def racks(**named: int) -> Room:
    """A room of racks: the number of nodes of each. The nodes of rack a are a1, a2 and so on."""
    return Room(tuple(nodes(rack, *(f"{rack}{index + 1}" for index in range(count))) for rack, count in named.items()))


def running(pods: Mapping[str, tuple[str, int]]) -> NodePods:
    """Pods by namespace/gang/name (or namespace//name without a gang): the node and the GPUs of each."""
    found = NodePods()
    for path, (node, gpus) in pods.items():
        namespace, gang_name, name = path.split("/")
        found[namespace, f"{gang_name}-{name}"] = NodePod(node, (("pods", 1), (GPU, gpus)), gang_name or None)
    return found

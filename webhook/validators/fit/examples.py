"""The facts that the examples of these rules assume."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from webhook.model.devices import Alternative, DeviceClass, DeviceRequest, Slice
from webhook.model.facts import ClusterFacts
from webhook.model.known_objects import TopologyBinding, TopologyLayer
from webhook.model.node import node_of
from webhook.model.nodes import Nodes
from webhook.model.reading import Manifest

GPU = "nvidia.com/gpu"
_DRIVER = "gpu.example.com"
_RACK, _HOST = "example.com/rack", "kubernetes.io/hostname"


def node(name: str, gpus: int = 0, labels: Mapping[str, str] | None = None) -> Manifest:
    """A node with so many GPUs."""
    amounts: dict[str, Any] = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    if gpus:
        amounts[GPU] = str(gpus)
    metadata = {"name": name, "labels": {_HOST: name, **(labels or {})}}
    return {"metadata": metadata, "status": {"allocatable": amounts, "capacity": amounts}}


def nodes(number: int, gpus: int = 0) -> ClusterFacts:
    """So many equal nodes, and nothing that adds others."""
    return _known(node(f"node-{index}", gpus) for index in range(1, number + 1))


def racks(number: int, each: int, gpus: int = 0) -> ClusterFacts:
    """So many racks of so many equal nodes, with the objects that Koordinator finds them by."""
    found = _known(
        node(f"node-{rack}-{index}", gpus, {_RACK: f"r{rack}"})
        for rack in range(1, number + 1)
        for index in range(1, each + 1)
    )
    layers = (TopologyLayer("rack", None, (_RACK,)), TopologyLayer("NodeTopologyLayer", "rack", ()))
    bindings = {"dc": TopologyBinding({"rack": _RACK})}
    return replace(found, topology_bindings=bindings, network_topologies={"default": layers})


def devices(number: int, each: int, wanted: int) -> ClusterFacts:
    """So many nodes of so many devices of one driver, and a ResourceClaimTemplate `gpus` that wants some of them."""
    names = [f"node-{index}" for index in range(1, number + 1)]
    return replace(
        nodes(number),
        resource_slices={name: Slice(_DRIVER, name, 1, 1, ((name, each),)) for name in names},
        device_classes={_DRIVER: DeviceClass(_DRIVER)},
        resource_claim_templates={("default", "gpus"): (DeviceRequest("gpu", (Alternative(_DRIVER, wanted),)),)},
    )


def _known(found: Iterator[Manifest]) -> ClusterFacts:
    known = Nodes()
    for one in found:
        read = node_of(one)
        known[read.name] = read
    return ClusterFacts(nodes=known)

"""Node objects without machines: schedulers really bind pods to them, and nothing runs."""

from __future__ import annotations

from collections.abc import Mapping

from tests.e2e.control_plane import ControlPlane, Manifest

_MERGE = {"Content-Type": "application/merge-patch+json"}


def add_nodes(
    plane: ControlPlane,
    count: int,
    *,
    cpu: int = 8,
    gpu: int = 0,
    labels: Mapping[str, str] | None = None,
    prefix: str = "node",
) -> list[str]:
    """Add nodes that are ready and have room; their names."""
    existing = {node["metadata"]["name"] for node in plane.items("/api/v1/nodes")}
    names = [name for name in (f"{prefix}-{index}" for index in range(len(existing) + count)) if name not in existing]
    for name in names[:count]:
        _add(plane, name, cpu, gpu, labels or {})
    return names[:count]


def _add(plane: ControlPlane, name: str, cpu: int, gpu: int, labels: Mapping[str, str]) -> None:
    node: Manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
    }
    plane.http.post("/api/v1/nodes", json=node).raise_for_status()
    room = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    if gpu:
        room["nvidia.com/gpu"] = str(gpu)
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "no machine"}
    status = {"capacity": room, "allocatable": room, "conditions": [ready]}
    path = f"/api/v1/nodes/{name}"
    plane.http.patch(f"{path}/status", json={"status": status}, headers=_MERGE).raise_for_status()
    # Every new node is tainted as not ready, which the node lifecycle controller would undo.
    plane.http.patch(path, json={"spec": {"taints": None}}, headers=_MERGE).raise_for_status()


def remove_nodes(plane: ControlPlane) -> None:
    """Remove every node."""
    plane.http.delete("/api/v1/nodes").raise_for_status()

"""Queues of KAI and Volcano for the cluster tests."""

from __future__ import annotations

from tests.e2e.control_plane import ControlPlane, Manifest


def kai_queue(name: str, parent: str | None = None) -> Manifest:
    """A Queue of KAI without limits. What a queue does not state is nothing."""
    unlimited = {kind: {"quota": -1, "limit": -1, "overQuotaWeight": 1} for kind in ("cpu", "gpu", "memory")}
    spec: Manifest = {"resources": unlimited} if parent is None else {"resources": unlimited, "parentQueue": parent}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def volcano_queue(name: str) -> Manifest:
    """A Queue of Volcano; its state comes later."""
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {}}


def set_state(plane: ControlPlane, queue: str, state: str) -> None:
    """What Volcano's controller does with a Queue."""
    path = f"/apis/scheduling.volcano.sh/v1beta1/queues/{queue}/status"
    headers = {"Content-Type": "application/merge-patch+json"}
    plane.http.patch(path, json={"status": {"state": state}}, headers=headers).raise_for_status()

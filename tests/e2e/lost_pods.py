"""The ways to lose a pod of a running gang, each as it happens in a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import run_here
from tests.e2e.control_plane import ROLLCALL_NAMESPACE, ControlPlane, Manifest
from tests.e2e.grove_operator import Played
from tests.e2e.pod_life import let_fail
from tests.e2e.programs import Program, program
from webhook.installation.names import LOSS_RECORDS

_MERGE = {"Content-Type": "application/merge-patch+json"}
HIGH = "lost-pods-high"


def start_taint_eviction(plane: ControlPlane) -> Program:
    """The controller that evicts pods from tainted nodes, which the control planes of the tests leave out."""
    found = program("kube-controller-manager", f"kube-{plane.version}")
    if found is None:
        raise FileNotFoundError(f"there is no kube-controller-manager among the programs of Kubernetes {plane.version}")
    command: list[str | Path] = [
        found,
        f"--kubeconfig={plane.kubeconfig}",
        # The second makes the index of pods by node that the first needs; there are no DaemonSets here.
        "--controllers=taint-eviction-controller,daemonset-controller",
        "--leader-elect=false",
        "--secure-port=0",
        "--use-service-account-credentials=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]
    return plane.workplace.start("taint-eviction-controller", command)


@pytest.fixture
def taint_eviction(plane: ControlPlane) -> Iterator[Program]:
    """The running controller."""
    found = start_taint_eviction(plane)
    yield found
    found.stop()


def pod_path(pod: Manifest) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def delete_node(plane: ControlPlane, node: str) -> None:
    """The machine is gone, and the cloud's controller removes its Node."""
    plane.http.delete(f"/api/v1/nodes/{node}").raise_for_status()


def taint_node(plane: ControlPlane, node: str) -> None:
    """The node does not answer any more: without tolerations its pods go at once."""
    taint = {"key": "example.com/broken", "effect": "NoExecute"}
    answer = plane.http.patch(f"/api/v1/nodes/{node}", json={"spec": {"taints": [taint]}}, headers=_MERGE)
    answer.raise_for_status()


def evict(plane: ControlPlane, pod: Manifest) -> None:
    """As `kubectl drain` does."""
    metadata = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    plane.http.post(f"{pod_path(pod)}/eviction", json=body).raise_for_status()


def delete(plane: ControlPlane, pod: Manifest) -> None:
    plane.http.delete(pod_path(pod)).raise_for_status()


def fail(plane: ControlPlane, pod: Manifest) -> None:
    let_fail(plane, [pod])


def preempt(plane: ControlPlane, namespace: str, scheduler: str, selector: dict[str, str]) -> None:
    """A pod of a higher priority wants one CPU of nodes that are full."""
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": HIGH}}
    plane.apply({**priority, "value": 1000}, check=True)
    resources = {"requests": {"cpu": "1"}}
    container = {"name": "main", "image": "registry.example.com/main:1.0", "resources": resources}
    spec = {
        "schedulerName": scheduler,
        "priorityClassName": HIGH,
        "nodeSelector": selector,
        "containers": [container],
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "urgent-"}, "spec": spec}
    plane.http.post(f"/api/v1/namespaces/{namespace}/pods", json=body).raise_for_status()


def stored_text(plane: ControlPlane) -> str:
    """All that is stored of losses."""
    found = plane.items(f"/api/v1/namespaces/{ROLLCALL_NAMESPACE}/configmaps")
    return "\n".join(one["data"]["losses"] for one in found if one["metadata"]["name"] in LOSS_RECORDS)


def stored_causes(plane: ControlPlane) -> dict[str, str]:
    """The cause of each pod that is stored as lost, by the pod's name."""
    return {pod[0]: pod[1] for line in stored_text(plane).splitlines() for pod in json.loads(line)[3]}


def on_node(played: Played, node: str) -> list[Manifest]:
    return [pod for pod in played.pods() if pod["spec"].get("nodeName") == node]


def said_lost(plane: ControlPlane, config: Path, namespace: str) -> dict[str, Any]:
    """What `rollcall gangs --lost` says of each gang of a namespace, without what the passing time changes."""
    command = ("gangs", "--lost", "-n", namespace, "-o", "json")
    done = run_here(*command, f"--config={config}", f"--kubeconfig={plane.kubeconfig}")
    assert done.returncode == 0, done.stderr
    found = {one["name"]: one["lost"] for one in json.loads(done.stdout)["gangs"]}
    for lost in found.values():
        lost["idle"].pop("gpuHours")
    return found


def causes_of(lost: dict[str, Any]) -> dict[str, set[str]]:
    """The lost pods of each gang by name, each with its cause."""
    return {name: {f"{pod['pod']} {pod['cause']}" for pod in one["pods"]} for name, one in lost.items()}


def records(plane: ControlPlane) -> list[str]:
    """The stored ConfigMaps."""
    found = plane.items(f"/api/v1/namespaces/{ROLLCALL_NAMESPACE}/configmaps")
    return sorted(one["metadata"]["name"] for one in found if one["metadata"]["name"] in LOSS_RECORDS)

"""PodCliqueSets for the cluster tests, as users write them."""

from __future__ import annotations

from typing import Any

from tests.e2e.control_plane import Manifest

GPU = "nvidia.com/gpu"


def clique(name: str, replicas: int = 2, *, cpu: str = "1", gpu: int = 0, **fields: Any) -> Manifest:
    """One clique; keywords are fields beside its spec."""
    requests: Manifest = {"cpu": cpu}
    resources: Manifest = {"requests": requests}
    if gpu:
        resources["limits"] = {GPU: str(gpu)}
    container = {"name": "main", "image": "registry.example.com/main:1.0", "resources": resources}
    spec = {"roleName": name, "replicas": replicas, "podSpec": {"containers": [container]}}
    return {"name": name, "spec": spec, **fields}


def pod_clique_set(
    name: str,
    namespace: str,
    *cliques: Manifest,
    groups: list[Manifest] | None = None,
    labels: Manifest | None = None,
    annotations: Manifest | None = None,
    **template: Any,
) -> Manifest:
    """A PodCliqueSet of one replica."""
    metadata: Manifest = {"name": name, "namespace": namespace}
    if labels is not None:
        metadata["labels"] = labels
    if annotations is not None:
        metadata["annotations"] = annotations
    body: Manifest = {"cliques": list(cliques), **template}
    if groups is not None:
        body["podCliqueScalingGroups"] = groups
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": metadata,
        "spec": {"replicas": 1, "template": body},
    }


def nvlink(name: str, namespace: str, **labels: str) -> Manifest:
    """A set whose workers want one multi-node NVLink domain, which koord-scheduler cannot give them."""
    worker = clique("worker", gpu=8, annotations={"grove.io/mnnvl-group": "train"})
    return pod_clique_set(name, namespace, clique("leader", 1), worker, labels=dict(labels) or None)


def two_cliques(name: str, namespace: str, **fields: Any) -> Manifest:
    """A leader and two workers: three pods of one CPU each."""
    return pod_clique_set(name, namespace, clique("leader", 1), clique("worker", 2), **fields)


def pod_clique_alone(name: str, namespace: str, replicas: int = 2) -> Manifest:
    """A PodClique that nothing controls. A PodGang that was made by hand has no gang objects before there is one of its
    members, or a pod.
    """
    spec = {**clique(name, replicas)["spec"], "minAvailable": replicas}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": metadata, "spec": spec}

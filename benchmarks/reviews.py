"""The AdmissionReviews that are sent: made here, or real ones from a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_KINDS = {
    "PodCliqueSet": {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"},
    "Pod": {"group": "", "version": "v1", "kind": "Pod"},
}
_GROVE = "system:serviceaccount:grove-system:grove-operator"


def pod_clique_set_review() -> bytes:
    """A CREATE of a PodCliqueSet, about 8 KB, as kubectl would send it."""
    manifest = pod_clique_set("bench")
    # kubectl apply keeps the manifest as it was applied, as text, in an annotation: half of what is sent.
    manifest["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(manifest)}
    return _review("PodCliqueSet", manifest, "jane@example.com")


def manifests(count: int) -> bytes:
    """A file of many PodCliqueSets, as `POST /check` is sent them."""
    return "\n---\n".join([json.dumps(pod_clique_set("bench"), indent=1)] * count).encode()


def pod_clique_set(name: str) -> dict[str, Any]:
    """A PodCliqueSet of five cliques and two scaling groups: 13 pods."""
    cliques = [_clique(name, replicas) for name, replicas in _CLIQUES]
    groups = [
        {"name": "prefill", "cliqueNames": ["pleader", "pworker"], "replicas": 2, "minAvailable": 1},
        {"name": "decode", "cliqueNames": ["dleader", "dworker"], "replicas": 1, "minAvailable": 1},
    ]
    spec = {
        "replicas": 1,
        "template": {"cliques": cliques, "podCliqueScalingGroups": groups, "terminationDelay": "4h0m0s"},
    }
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": metadata, "spec": spec}


_CLIQUES = (("frontend", 2), ("pleader", 1), ("pworker", 3), ("dleader", 1), ("dworker", 2))


def _clique(name: str, replicas: int) -> dict[str, Any]:
    container = {
        "name": name,
        "image": "registry.example.com/inference/server:1.0",
        "command": ["/bin/sh"],
        "args": ["-c", f"exec server --role {name} --listen 0.0.0.0:8000 --model /models/example --tensor-parallel 8"],
        "env": [{"name": "ROLE", "value": name}, {"name": "LOG_LEVEL", "value": "info"}],
        "resources": {"requests": {"cpu": "8", "memory": "64Gi"}, "limits": {"memory": "64Gi"}},
    }
    pod = {
        "containers": [container],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [{"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }
    return {"name": name, "spec": {"roleName": name, "replicas": replicas, "minAvailable": replicas, "podSpec": pod}}


def pod_review() -> bytes:
    """A CREATE of one pod of a gang, as Grove's operator would send it."""
    labels = {
        "app.kubernetes.io/component": "pcsg-podclique",
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "bench",
        "grove.io/podclique": "bench-0-prefill-0-pworker",
        "grove.io/podgang": "bench-0",
    }
    metadata = {"generateName": "bench-0-prefill-0-pworker-", "namespace": "default", "labels": labels}
    spec = _clique("pworker", 3)["spec"]["podSpec"]
    spec |= {"schedulerName": "default-scheduler", "schedulingGates": [{"name": "grove.io/podgang-pending-creation"}]}
    return _review("Pod", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, _GROVE)


def _review(kind: str, manifest: dict[str, Any], user: str) -> bytes:
    request = {
        "uid": "00000000-0000-4000-8000-000000000000",
        "kind": _KINDS[kind],
        "operation": "CREATE",
        "name": manifest["metadata"].get("name", ""),
        "namespace": "default",
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
        "object": manifest,
        "oldObject": None,
        "dryRun": False,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review, separators=(",", ":")).encode()


def real_reviews(folder: Path) -> list[bytes]:
    """Every AdmissionReview below a folder."""
    found = [path.read_bytes() for path in sorted(folder.rglob("*.json"))]
    return [body for body in found if b'"AdmissionReview"' in body]

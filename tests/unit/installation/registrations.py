"""The parts of webhook configurations that several tests expect."""

from __future__ import annotations

from typing import Any

from webhook.installation.webhooks import Address

SERVICE = Address("rollcall-system", "rollcall", 443)
OUTSIDE = {
    "matchExpressions": [
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", "kube-node-lease", "rollcall-system"],
        },
        {"key": "rollcall.dev/exempt", "operator": "DoesNotExist"},
    ]
}
COMMON: dict[str, Any] = {
    "namespaceSelector": OUTSIDE,
    "matchPolicy": "Equivalent",
    "failurePolicy": "Fail",
    "timeoutSeconds": 5,
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}


HEAD = {"apiVersion": "rollcall.dev/v1alpha1", "kind": "RollcallConfiguration"}
# The kinds that rules about Kueue read.
KUEUE = (
    "kueue.x-k8s.io/localqueues",
    "kueue.x-k8s.io/clusterqueues",
    "kueue.x-k8s.io/resourceflavors",
    "kueue.x-k8s.io/topologies",
    "kueue.x-k8s.io/admissionchecks",
)
GANGS = {"name": "default-scheduler", "config": {"gangScheduling": True}}

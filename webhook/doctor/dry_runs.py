"""The objects that `rollcall doctor` asks the API server to create as a dry run, to see how they are handled.

Source: Kubernetes documentation, "Dry-run" (a request goes through every stage but storing).
"""

from __future__ import annotations

from typing import Any

from webhook.backends.kai.keys import LABEL_QUEUE
from webhook.backends.kube.generation import Generation
from webhook.doctor.gates import pod_field
from webhook.doctor.parts import NAMESPACES
from webhook.doctor.selectors import namespace_labels
from webhook.doctor.snapshot import Snapshot
from webhook.errors import FactsUnavailable
from webhook.model.projections import name_of
from webhook.model.reading import Manifest
from webhook.model.record import SCHEDULER_LABEL
from webhook.model.selectors import selects

NAME = "rollcall-doctor"
# Not a valid scheduler name, so no backend can have it.
_NO_SCHEDULER = "no-such-scheduler"


def refused_set(namespace: str) -> Manifest:
    """A PodCliqueSet that Grove accepts and Rollcall refuses under every configuration."""
    container = {"name": "main", "image": "example.com/main"}
    spec = {"roleName": "worker", "replicas": 1, "minAvailable": 1, "podSpec": {"containers": [container]}}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        # Grove's own backend for KAI refuses a set without a queue. It does not look for the queue.
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {SCHEDULER_LABEL: _NO_SCHEDULER, LABEL_QUEUE: NAME},
        },
        "spec": {"replicas": 1, "template": {"cliques": [{"name": "worker", "spec": spec}]}},
    }


def namespace_asked_about(snapshot: Snapshot) -> str:
    """A namespace in which the webhook for PodCliqueSets is called, if possible `default`."""
    hook = snapshot.hook("podcliquesets.mutate.rollcall.dev")
    selector: Any = None if hook is None else hook.get("namespaceSelector")
    try:
        namespaces = {name_of(raw): raw for raw in snapshot.all(NAMESPACES)}
    except FactsUnavailable:
        return "default"
    every = sorted(namespaces, key=lambda name: (name != "default", name))
    return next((name for name in every if selects(selector, namespace_labels(name, namespaces))), "default")


def grouped_pod(namespace: str, spoken: Generation) -> Manifest:
    """A pod of a group; the strictest Pod Security level admits it. The group need not exist."""
    group = {"name": NAME, "podGroup": "main"} if spoken is Generation.V1ALPHA1 else {"podGroupName": NAME}
    inside = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            pod_field(spoken): group,
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "main", "image": "example.com/main", "securityContext": inside}],
        },
    }

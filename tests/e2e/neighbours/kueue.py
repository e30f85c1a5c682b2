"""What Kueue needs that the other controllers do not: its namespace with its certificates, a conversion webhook in five
of its CRDs, and a configuration that a test chooses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.neighbours.certificates import Certificates
from tests.e2e.neighbours.systems import SYSTEMS, Ports, configuration
from tests.e2e.workload_objects import MERGE

NAMESPACE = "kueue-system"
# On the pods that Kueue manages: they are not gone before Kueue has seen them end.
FINALIZER = "kueue.x-k8s.io/managed"
_SECRET, _SERVICE = "kueue-webhook-server-cert", "kueue-webhook-service"
_CONVERTED = ("localqueues", "clusterqueues", "workloads", "cohorts", "multikueueclusters")
# Of a system whose kinds it knows, and those that need no other system.
_FRAMEWORKS = {
    "jobset": ("jobset.x-k8s.io/jobset",),
    "lws": ("leaderworkerset.x-k8s.io/leaderworkerset",),
    "trainer": ("trainer.kubeflow.org/trainjob",),
    "kuberay": ("ray.io/raycluster", "ray.io/rayjob"),
}
_ALWAYS = ("batch/job", "pod", "deployment", "statefulset")
# VisibilityOnDemand wants a fixed path and port; MultiKueue would only watch.
_GATES = {"VisibilityOnDemand": False, "MultiKueue": False}


def frameworks_of(systems: Iterable[str]) -> list[str]:
    """The integrations that Kueue has beside those systems."""
    return [*_ALWAYS, *(one for name in sorted(systems) for one in _FRAMEWORKS.get(name, ()))]


def kueue_configuration(ports: Ports, certificates: Certificates, settings: dict[str, Any]) -> Manifest:
    """Its configuration file. `settings` are fields of it: `waitForPodsReady`, `managedJobsNamespaceSelector` and so
    on; `frameworks` and `featureGates` go to their places.
    """
    given = dict(settings)
    integrations = {"frameworks": given.pop("frameworks"), **given.pop("integrations", {})}
    gates = {**_GATES, **given.pop("featureGates", {})}
    return {
        **configuration(SYSTEMS["kueue"], ports, certificates.folder),
        "namespace": NAMESPACE,
        # Off, it would read its certificates from a fixed path. It finds ours good and leaves them unchanged.
        "internalCertManagement": {"enable": True, "webhookServiceName": _SERVICE, "webhookSecretName": _SECRET},
        "integrations": integrations,
        "featureGates": gates,
        **given,
    }


def prepare(plane: ControlPlane, ports: Ports, certificates: Certificates) -> None:
    """Give it what it looks for when it starts; its CRDs are served."""
    answer = plane.http.post("/api/v1/namespaces", json={"metadata": {"name": NAMESPACE}})
    assert answer.is_success or answer.status_code == httpx.codes.CONFLICT, answer.text
    files = ("ca.crt", "ca.key", "tls.crt", "tls.key")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": _SECRET, "namespace": NAMESPACE},
        "data": {name: certificates.encoded(name) for name in files},
    }
    plane.apply(secret, check=True)
    url = f"https://127.0.0.1:{ports.webhook}/convert"
    client = {"clientConfig": {"url": url, "caBundle": certificates.bundle}, "conversionReviewVersions": ["v1"]}
    body = {"spec": {"conversion": {"strategy": "Webhook", "webhook": client}}}
    for plural in _CONVERTED:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.kueue.x-k8s.io"
        plane.http.patch(path, json=body, headers=MERGE).raise_for_status()


def release_pods(plane: ControlPlane, namespace: str) -> None:
    """Let go the pods of a namespace that end with their test, which Kueue would keep until they have ended well."""
    for pod in plane.items(f"/api/v1/namespaces/{namespace}/pods"):
        if FINALIZER in pod["metadata"].get("finalizers", ()):
            path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
            plane.http.patch(path, json={"metadata": {"finalizers": None}}, headers=MERGE)
            plane.http.delete(path, params={"gracePeriodSeconds": "0"})

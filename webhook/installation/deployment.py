"""The workloads: the server's Deployment, the reconciler in it or in its own Deployment, and their
PodDisruptionBudgets.

Their containers run under the Pod Security level *restricted*. Only containers that call the API server get a service
account token, as a volume of their own: a token that Kubernetes mounts automatically goes to all containers of a Pod.
"""

from __future__ import annotations

from collections.abc import Mapping

from webhook.config.settings import Settings
from webhook.installation.names import LABELS, RECONCILER, SERVER, SERVING_PORT_NAME, TLS_SECRET
from webhook.installation.parameters import Options, sysctls
from webhook.model.reading import Manifest

# The image's default command expects the pair there. The configuration needs another folder, because a volume cannot be
# mounted into a read-only one.
TLS_FOLDER, CONFIGURATION_FOLDER = "/etc/rollcall/tls", "/etc/rollcall/configuration"
CONFIGURATION_VOLUME, CONFIGURATION_FILE = "configuration", "configuration.yaml"
# Where clients look for the token (Kubernetes documentation, "Accessing the Kubernetes API from a Pod").
ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
# The lifetime that kubelets use for automatic tokens: an hour and a few seconds, to tell them apart.
TOKEN_SECONDS = 3607
# The only user in the image.
USER = 65532

# A server holds 150 MB with 5,000 PodGangs known, a reconciler about as much. A call takes about 0.2 ms of a core.
# There is no CPU limit: a throttled server answers late, and the API server waits.
SERVER_RESOURCES: Manifest = {"requests": {"cpu": "250m", "memory": "192Mi"}, "limits": {"memory": "512Mi"}}
RECONCILER_RESOURCES: Manifest = {"requests": {"cpu": "100m", "memory": "192Mi"}, "limits": {"memory": "1Gi"}}

POD_SECURITY: Manifest = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    # Only this group can read the Secrets.
    "fsGroup": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_SECURITY: Manifest = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_MOUNTED_TLS = {"name": "tls", "mountPath": TLS_FOLDER, "readOnly": True}
_MOUNTED_TOKEN = {"name": "token", "mountPath": ACCOUNT_FOLDER, "readOnly": True}
_MOUNTED_CONFIGURATION = {"name": CONFIGURATION_VOLUME, "mountPath": CONFIGURATION_FOLDER, "readOnly": True}
_MOUNTED_SCRATCH = {"name": "scratch", "mountPath": "/tmp"}  # noqa: S108 - a volume of the Pod's own


def server_container(settings: Settings, options: Options) -> Manifest:
    """Returns `rollcall serve`: AdmissionReviews over TLS; health and metrics in plain HTTP, for any client."""
    network, mounts = options.network, [_MOUNTED_TLS]
    arguments = [
        "serve",
        *_configured(options),
        f"--cert={TLS_FOLDER}/tls.crt",
        f"--key={TLS_FOLDER}/tls.key",
        f"--port={network.ports.serving}",
        f"--health-port={network.ports.health}",
    ]
    ports = {SERVING_PORT_NAME: network.ports.serving, "health": network.ports.health}
    if settings.certificates.self_managed:
        arguments += [
            f"--next-cert={TLS_FOLDER}/next.crt",
            f"--next-key={TLS_FOLDER}/next.key",
            f"--next-port={network.ports.next}",
        ]
        ports["next"] = network.ports.next
    if options.clients is not None:
        arguments += options.clients.arguments
        mounts.append(options.clients.mount)
    return {
        "name": "server",
        "image": options.image,
        "args": arguments,
        "ports": _container_ports(ports, on_host=network.host_network),
        **_probes("health"),
        "resources": SERVER_RESOURCES,
        "securityContext": _SECURITY,
        "volumeMounts": _mounted(options, *mounts),
    }


def reconciler_container(options: Options) -> Manifest:
    """Returns `rollcall reconcile`. Its Lease is in the Pod's own namespace."""
    port = options.network.ports.reconciler
    space = {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    return {
        "name": "reconciler",
        "image": options.image,
        "args": ["reconcile", *_configured(options), "--lease-namespace=$(POD_NAMESPACE)", f"--port={port}"],
        "env": [space],
        "ports": _container_ports({"reconciler": port}, on_host=options.is_sidecar and options.network.host_network),
        **_probes("reconciler"),
        "resources": RECONCILER_RESOURCES,
        "securityContext": _SECURITY,
        "volumeMounts": _mounted(options),
    }


def server_volumes(settings: Settings, options: Options) -> list[Manifest]:
    """Returns the volumes of the server's Pods."""
    tls: Manifest = {"secretName": TLS_SECRET, "defaultMode": 0o440}
    if settings.certificates.self_managed:
        # The reconciler creates this Secret and must not wait for servers that wait for it.
        tls["optional"] = True
    clients = [] if options.clients is None else [options.clients.volume]
    return [{"name": "tls", "secret": tls}, *clients, *reconciler_volumes(options)]


def reconciler_volumes(options: Options) -> list[Manifest]:
    """Returns the volumes of the reconciler's own Pods."""
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    volumes: list[Manifest] = [
        {"name": "token", "projected": {"defaultMode": 0o440, "sources": sources}},
        # The root file system is read-only. Written files are small and must not reach a disk.
        {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
    ]
    if options.configuration is not None:
        held = {"name": options.configuration.name, "defaultMode": 0o444}
        volumes.append({"name": CONFIGURATION_VOLUME, "configMap": held})
    return volumes


def _configured(options: Options) -> list[str]:
    return [] if options.configuration is None else [f"--config={CONFIGURATION_FOLDER}/{CONFIGURATION_FILE}"]


def _mounted(options: Options, *further: Manifest) -> list[Manifest]:
    configuration = [] if options.configuration is None else [_MOUNTED_CONFIGURATION]
    return [*further, _MOUNTED_TOKEN, _MOUNTED_SCRATCH, *configuration]


def _container_ports(ports: Mapping[str, int], *, on_host: bool) -> list[Manifest]:
    """Returns the ports of a container. Kubernetes would add the hostPort on the host network, and a later apply could
    not remove it, so it is set.
    """
    return [
        {"name": name, "containerPort": port, "protocol": "TCP", **({"hostPort": port} if on_host else {})}
        for name, port in ports.items()
    ]


def _probes(port: str) -> Manifest:
    """Returns the probes of a container.

    It may take a minute to start, and is restarted after half a minute without an answer. Readiness changes within
    seconds: a server that drains or has no valid certificate must get no new calls.
    """
    live, ready = ({"httpGet": {"path": path, "port": port}} for path in ("/healthz", "/readyz"))
    return {
        "startupProbe": {**live, "periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 60},
        "livenessProbe": {**live, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3},
        "readinessProbe": {**ready, "periodSeconds": 2, "timeoutSeconds": 2, "failureThreshold": 2},
    }


COMPONENT_LABEL = "app.kubernetes.io/component"
SERVER_COMPONENT, RECONCILER_COMPONENT = "server", "reconciler"
# Gang pods wait for Rollcall, so Rollcall must not wait for their eviction, nor be evicted for them.
PRIORITY_CLASS = "system-cluster-critical"
# In addition to the time of draining: to finish running calls, release the lease, and have a reserve on a busy machine.
GRACE_SECONDS = 30
# To release the lease and finish a running write.
RECONCILER_GRACE_SECONDS = 30
# A new Pod must be ready before an old one is stopped.
_ROLL: Manifest = {"maxUnavailable": 0, "maxSurge": 1}
# Each port exists once on a node, so the scheduler places no second Pod with it there. If every node has a server, a
# new Pod cannot start before an old one is stopped.
_ROLL_ON_HOST: Manifest = {"maxUnavailable": 1, "maxSurge": 0}
_SPREAD_OVER = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")


def labels_of(component: str) -> dict[str, str]:
    """Returns the labels of one component's Pods, also used to select them."""
    return {**LABELS, COMPONENT_LABEL: component}


def workloads(settings: Settings, options: Options) -> list[Manifest]:
    """Returns the Deployments, with a PodDisruptionBudget for each."""
    server, reconciler = server_container(settings, options), reconciler_container(options)
    containers = [server, reconciler] if options.is_sidecar else [server]
    volumes, grace = server_volumes(settings, options), settings.serving.drain_seconds + GRACE_SECONDS
    manifests = _deployment(options, SERVER_COMPONENT, containers, volumes, grace)
    if not options.is_sidecar:
        volumes = reconciler_volumes(options)
        manifests += _deployment(options, RECONCILER_COMPONENT, [reconciler], volumes, RECONCILER_GRACE_SECONDS)
    return manifests


def _deployment(
    options: Options, component: str, containers: list[Manifest], volumes: list[Manifest], grace: int
) -> list[Manifest]:
    name = SERVER if component == SERVER_COMPONENT else RECONCILER
    metadata = {"name": name, "namespace": options.namespace, "labels": labels_of(component)}
    selector = {"matchLabels": labels_of(component)}
    network = options.network
    of_server = component == SERVER_COMPONENT
    low_ports = {"sysctls": kernel_settings} if (kernel_settings := sysctls(containers)) else {}
    # Preferred, not required: a cluster with one node has two replicas as well, for rolling updates.
    spread = {"whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector, "matchLabelKeys": ["pod-template-hash"]}
    pod: Manifest = {
        **(network.server_pod if of_server else {}),
        "serviceAccountName": name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": PRIORITY_CLASS,
        "terminationGracePeriodSeconds": grace,
        "securityContext": {**POD_SECURITY, **low_ports},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key, **spread} for key in _SPREAD_OVER],
        "containers": containers,
        "volumes": volumes,
    }
    rolling = {"type": "RollingUpdate", "rollingUpdate": _ROLL_ON_HOST if of_server and network.host_network else _ROLL}
    template = {"metadata": {"labels": labels_of(component)}, "spec": pod}
    spec = {"replicas": options.replicas, "selector": selector, "strategy": rolling, "template": template}
    # A broken Pod must not keep a node from being drained.
    budget = {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": selector}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec},
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget},
    ]


def critical_pods(options: Options) -> Manifest:
    """Returns a quota for Pods with this priority.

    Some API servers admit such Pods only in a namespace with a quota that names the priority (by their admission
    configuration, which some providers set). In other clusters it has no effect.
    """
    scope = {"operator": "In", "scopeName": "PriorityClass", "values": [PRIORITY_CLASS]}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "rollcall-critical-pods", "namespace": options.namespace, "labels": dict(LABELS)},
        "spec": {"hard": {"pods": "100"}, "scopeSelector": {"matchExpressions": [scope]}},
    }

"""The workloads: the server's Deployment, the reconciler in it or in its own Deployment, and their
PodDisruptionBudgets.
"""

from __future__ import annotations

from webhook.config.settings import Settings
from webhook.installation.containers import (
    POD_SECURITY,
    reconciler_container,
    reconciler_volumes,
    server_container,
    server_volumes,
)
from webhook.installation.names import LABELS, RECONCILER, SERVER
from webhook.installation.options import Options
from webhook.installation.pod_network import sysctls
from webhook.model.reading import Manifest

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
    """The labels of one component's Pods, also used to select them."""
    return {**LABELS, COMPONENT_LABEL: component}


def workloads(settings: Settings, options: Options) -> list[Manifest]:
    """The Deployments, with a PodDisruptionBudget for each."""
    server, reconciler = server_container(settings, options), reconciler_container(options)
    found = _deployment(
        options,
        SERVER_COMPONENT,
        [server, reconciler] if options.beside else [server],
        server_volumes(settings, options),
        settings.serving.drain_seconds + GRACE_SECONDS,
    )
    if not options.beside:
        volumes = reconciler_volumes(options)
        found += _deployment(options, RECONCILER_COMPONENT, [reconciler], volumes, RECONCILER_GRACE_SECONDS)
    return found


def _deployment(
    options: Options, component: str, containers: list[Manifest], volumes: list[Manifest], grace: int
) -> list[Manifest]:
    name = SERVER if component == SERVER_COMPONENT else RECONCILER
    metadata = {"name": name, "namespace": options.namespace, "labels": labels_of(component)}
    selector = {"matchLabels": labels_of(component)}
    network = options.network
    of_server = component == SERVER_COMPONENT
    low_ports = {"sysctls": found} if (found := sysctls(containers)) else {}
    pod: Manifest = {
        **(network.server_pod if of_server else {}),
        "serviceAccountName": name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": PRIORITY_CLASS,
        "terminationGracePeriodSeconds": grace,
        "securityContext": {**POD_SECURITY, **low_ports},
        # Preferred, not required: a cluster with one node has two replicas as well, for rolling updates.
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": selector,
                "matchLabelKeys": ["pod-template-hash"],
            }
            for key in _SPREAD_OVER
        ],
        "containers": containers,
        "volumes": volumes,
    }
    rolling = {"type": "RollingUpdate", "rollingUpdate": _ROLL_ON_HOST if of_server and network.host_network else _ROLL}
    template = {"metadata": {"labels": labels_of(component)}, "spec": pod}
    spec = {"replicas": options.replicas, "selector": selector, "strategy": rolling, "template": template}
    return [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec},
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            # A broken Pod must not keep a node from being drained.
            "spec": {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": selector},
        },
    ]


def critical_pods(options: Options) -> Manifest:
    """A quota for Pods with this priority.

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

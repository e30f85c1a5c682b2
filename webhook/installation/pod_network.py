"""The network of Rollcall's Pods: their ports, whether the server uses the host network, and the allowed callers.

An API server that cannot reach the Pod network can usually reach nodes, or a few ports of Pods or nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from webhook.installation.names import HEALTH_PORT, NEXT_PORT, RECONCILER_PORT, SERVING_PORT
from webhook.model.reading import Manifest

# Lower ports need a privileged process, unless the network namespace allows them.
FIRST_UNPRIVILEGED = 1024
# The kubelet listens on this port of each node.
KUBELET_PORT = 10250


class DnsPolicy(StrEnum):
    """The DNS policy of a Pod. `None` is left out: it needs name servers as well."""

    CLUSTER_FIRST = "ClusterFirst"
    CLUSTER_FIRST_WITH_HOST_NET = "ClusterFirstWithHostNet"
    DEFAULT = "Default"


class Ports(NamedTuple):
    """The ports of the containers: AdmissionReviews, the next certificate, and health and metrics of each process."""

    serving: int = SERVING_PORT
    next: int = NEXT_PORT
    health: int = HEALTH_PORT
    reconciler: int = RECONCILER_PORT


@dataclass(frozen=True, slots=True)
class Network:
    """How Pods are reached. `callers` are the NetworkPolicyPeers that may call the server; empty for all.

    With `host_network` the server's Pods use the network of their nodes. The reconciler's own Pods never do, because
    they are not called.
    """

    ports: Ports = field(default_factory=Ports)
    host_network: bool = False
    dns_policy: DnsPolicy | None = None
    callers: tuple[Manifest, ...] = ()

    @property
    def problem(self) -> str | None:
        """Why this network is not possible, or None."""
        if len(set(self.ports)) < len(self.ports):
            return "two of the ports are the same"
        if not self.host_network:
            return None
        if min(self.ports) < FIRST_UNPRIVILEGED:
            return (
                f"in the node's network Rollcall, which has no privileges, cannot listen on port {min(self.ports)}; "
                f"choose {FIRST_UNPRIVILEGED} or higher"
            )
        if KUBELET_PORT in self.ports:
            return f"in the node's network port {KUBELET_PORT} is the kubelet's; choose another and open it"
        if self.callers:
            return (
                "NetworkPolicies have no effect on Pods in the node's network; limit callers with the nodes' firewall"
            )
        return None

    @property
    def server_pod(self) -> Manifest:
        """The network fields of the server's Pods."""
        policy = self.dns_policy or (DnsPolicy.CLUSTER_FIRST_WITH_HOST_NET if self.host_network else None)
        found: Manifest = {"hostNetwork": True} if self.host_network else {}
        return found if policy is None else {**found, "dnsPolicy": policy.value}


def sysctls(containers: Iterable[Manifest]) -> list[Manifest]:
    """The sysctls that let unprivileged processes listen on the lowest port of these containers, in their Pod's own
    network.

    Source: Kubernetes documentation, "Using sysctls in a Kubernetes Cluster": it is among the safe ones.
    """
    lowest = min(port["containerPort"] for container in containers for port in container["ports"])
    if lowest >= FIRST_UNPRIVILEGED:
        return []
    return [{"name": "net.ipv4.ip_unprivileged_port_start", "value": str(lowest)}]

"""The parameters of an installation besides its configuration: where, with which image and certificates, and with
which network of its Pods.

An API server that cannot reach the Pod network can usually reach nodes, or a few ports of Pods or nodes. The authority
that callers' certificates are checked against is in an object that another party maintains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Self

from webhook.installation.names import (
    HEALTH_PORT,
    NAMESPACE,
    NEXT_PORT,
    RECONCILER,
    RECONCILER_PORT,
    SERVER,
    SERVING_PORT,
)
from webhook.model.reading import EMPTY, Manifest

if TYPE_CHECKING:
    from webhook.config.settings import Settings

CLIENTS_VOLUME, CLIENTS_FOLDER = "clients", "/etc/rollcall/clients"
# The key in a ConfigMap or Secret; cert-manager and kubectl use it too.
AUTHORITY = "ca.crt"
# The notation of kubectl. Names of both kinds are RFC 1123 subdomains.
WRITTEN = r"(configmap|secret)/((?=.{1,253}$)[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?)"


class ClientCertificates(NamedTuple):
    """The clients that may call: those with a certificate that an authority in that object signed, for any of these
    names; without names, for any name.
    """

    kind: str
    name: str
    names: tuple[str, ...] = ()

    @classmethod
    def read(cls, written: str, names: tuple[str, ...]) -> Self:
        """Parses `configmap/NAME` or `secret/NAME`. Raises `ValueError`."""
        match = re.fullmatch(WRITTEN, written)
        if match is None:
            raise ValueError(f"{written!r} is neither configmap/NAME nor secret/NAME")
        return cls(match[1], match[2], names)

    @property
    def arguments(self) -> list[str]:
        """The arguments for `rollcall serve`."""
        return [f"--client-ca={CLIENTS_FOLDER}/{AUTHORITY}", *(f"--client-name={name}" for name in self.names)]

    @property
    def volume(self) -> Manifest:
        """Only the authority's certificate: a Secret may also hold its key."""
        source = {"name": self.name, "items": [{"key": AUTHORITY, "path": AUTHORITY}]}
        kind = "configMap" if self.kind == "configmap" else "secret"
        return {"name": CLIENTS_VOLUME, "projected": {"defaultMode": 0o444, "sources": [{kind: source}]}}

    @property
    def mount(self) -> Manifest:
        """The mount of that volume in the server's container."""
        return {"name": CLIENTS_VOLUME, "mountPath": CLIENTS_FOLDER, "readOnly": True}


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
        fields: Manifest = {"hostNetwork": True} if self.host_network else {}
        return fields if policy is None else {**fields, "dnsPolicy": policy.value}


def sysctls(containers: Iterable[Manifest]) -> list[Manifest]:
    """Returns the sysctls that let unprivileged processes listen on the lowest port in their Pod's own network.

    Source: Kubernetes documentation, "Using sysctls in a Kubernetes Cluster": it is among the safe ones.
    """
    lowest = min(port["containerPort"] for container in containers for port in container["ports"])
    if lowest >= FIRST_UNPRIVILEGED:
        return []
    return [{"name": "net.ipv4.ip_unprivileged_port_start", "value": str(lowest)}]


class ReconcilerPlace(StrEnum):
    """Where `rollcall reconcile` runs.

    In Pods of its own with its own service account; the same while sidecars of an earlier installation keep running
    with their rights; or in the server's Pods, which then have all the reconciler's rights.
    """

    DEPLOYMENT = "deployment"
    MOVING = "moving"
    SIDECAR = "sidecar"


@dataclass(frozen=True, slots=True)
class Configuration:
    """The mounted configuration file: its text, the name of its ConfigMap, and the text of each shadow's file."""

    name: str
    text: str
    shadows: Mapping[str, str] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True)
class Options:
    """The options of an installation. Without a `configuration` both processes use their defaults.

    `cert_manager`: cert-manager makes the certificates and fills in the caBundle. `ca_bundle`: PEM in base64, for
    certificates from elsewhere. `clients`: the client certificates that callers must have.
    """

    image: str
    namespace: str = NAMESPACE
    configuration: Configuration | None = None
    replicas: int = 2
    reconciler: ReconcilerPlace = ReconcilerPlace.DEPLOYMENT
    cert_manager: bool = False
    ca_bundle: str | None = None
    network: Network = field(default_factory=Network)
    clients: ClientCertificates | None = None

    @property
    def is_sidecar(self) -> bool:
        """Whether the reconciler runs in the server's Pods."""
        return self.reconciler is ReconcilerPlace.SIDECAR

    @property
    def reconciler_accounts(self) -> tuple[str, ...]:
        """The service accounts with the reconciler's rights: all containers of a Pod share one."""
        if self.is_sidecar:
            return (SERVER,)
        return (RECONCILER, SERVER) if self.reconciler is ReconcilerPlace.MOVING else (RECONCILER,)


def name_by_content(text: str, shadows: Mapping[str, str] = EMPTY) -> Configuration:
    """Returns the configuration file and its shadows as a ConfigMap with a hash of its content in the name."""
    content = "\0".join((text, *(part for item in sorted(shadows.items()) for part in item)))
    return Configuration(f"rollcall-{sha256(content.encode()).hexdigest()[:10]}", text, shadows)


def reconciler_place(settings: Settings, requested: ReconcilerPlace | None) -> ReconcilerPlace:
    """Returns where the reconciler runs: as `requested`, but in its own Pods if it holds the authority's key.

    The server must not be able to read that key, and all containers of a Pod share one service account.
    """
    if settings.certificates.self_managed:
        return ReconcilerPlace.DEPLOYMENT
    return requested or ReconcilerPlace.DEPLOYMENT

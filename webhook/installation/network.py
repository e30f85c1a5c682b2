"""The Services of the processes, and the NetworkPolicies for their incoming and outgoing traffic.

An API server is not a Pod, and its address is not known in advance. So the ports that it calls are open to all unless
the installation names the callers. No other port is.

The Services do not set IP families. Kubernetes then uses the first family of the cluster, which the API server uses
too; servers listen on both. With two families each server would be in two EndpointSlices, with two addresses.
"""

from __future__ import annotations

import re

from webhook.config.settings import Settings
from webhook.installation.deployment import RECONCILER_COMPONENT, SERVER_COMPONENT, labels_of
from webhook.installation.names import (
    HEALTH_PORT,
    LABELS,
    NEXT_PORT,
    RECONCILER,
    RECONCILER_PORT,
    SERVER,
    SERVICE_PORT,
    SERVING_PORT_NAME,
)
from webhook.installation.options import Options
from webhook.model.reading import Manifest

# The ports of API servers: that of their Service, and the usual real one.
API_SERVER_PORTS = (443, 6443)
_DNS_PORT = 53
_PORT_IN_URL = re.compile(r"https?://(?:[^/?#@]*@)?(?:\[[^\]]*\]|[^/?#:]*)(?::(\d+))?", re.ASCII)


def services(settings: Settings, options: Options) -> list[Manifest]:
    """The Service that the API server calls, the one for metrics, and the one of a reconciler with its own Pods."""
    ports = [_service_port(SERVING_PORT_NAME, SERVICE_PORT), _service_port("health", HEALTH_PORT)]
    if settings.certificates.self_managed:
        ports.append(_service_port("next", NEXT_PORT))
    of_reconciler = _service_port("reconciler", RECONCILER_PORT)
    if options.beside:
        return [_service(options, SERVER, SERVER_COMPONENT, [*ports, of_reconciler])]
    return [
        _service(options, SERVER, SERVER_COMPONENT, ports),
        _service(options, RECONCILER, RECONCILER_COMPONENT, [of_reconciler]),
    ]


def network_policies(settings: Settings, options: Options) -> list[Manifest]:
    """A policy for each Deployment whose Pods have a network of their own. Both processes call the API server, and DNS
    if its address is a name.
    """
    out: list[Manifest] = [
        {"ports": [{"protocol": protocol, "port": _DNS_PORT} for protocol in ("UDP", "TCP")]},
        {"ports": _tcp(*API_SERVER_PORTS)},
    ]
    found = []
    if not options.network.host_network:
        found.append(_policy(options, SERVER, SERVER_COMPONENT, _to_server(settings, options), out))
    if not options.beside:
        asked = [*out, *_to_servers(options)] if settings.certificates.self_managed else out
        listened = [{"ports": _tcp(options.network.ports.reconciler)}]
        found.append(_policy(options, RECONCILER, RECONCILER_COMPONENT, listened, asked))
    if settings.tracing.endpoint:
        found.append(_tracing_policy(settings.tracing.endpoint, options))
    return found


def _to_server(settings: Settings, options: Options) -> list[Manifest]:
    """Incoming traffic of the server: calls from the configured callers, and requests for health and metrics."""
    network, own = options.network, settings.certificates.self_managed
    ports = network.ports
    called = _tcp(ports.serving, ports.next) if own else _tcp(ports.serving)
    found: list[Manifest] = [{"ports": called, **({"from": list(network.callers)} if network.callers else {})}]
    if own:
        # The reconciler checks which certificate each server presents.
        found.append({"from": _pods_of(RECONCILER_COMPONENT), "ports": called})
    asked = (ports.health, ports.reconciler) if options.beside else (ports.health,)
    return [*found, {"ports": _tcp(*asked)}]


def _to_servers(options: Options) -> list[Manifest]:
    """The reconciler's traffic to the servers, to see when all present the new certificate. Pods on the host network
    cannot be selected.
    """
    network = options.network
    ports = _tcp(network.ports.serving, network.ports.next)
    return [{"ports": ports} if network.host_network else {"ports": ports, "to": _pods_of(SERVER_COMPONENT)}]


def _pods_of(component: str) -> list[Manifest]:
    return [{"podSelector": {"matchLabels": labels_of(component)}}]


def port_of(url: str) -> int:
    """The explicit or default port of a URL."""
    found = _PORT_IN_URL.match(url)
    assert found is not None, "the configuration allows no other URLs"  # noqa: S101 - said once, in config.py
    return int(found[1]) if found[1] else 443 if url.startswith("https:") else 80


def _tracing_policy(endpoint: str, options: Options) -> Manifest:
    """Policies are additive: this one allows all of Rollcall's Pods to send traces."""
    metadata = {"name": "rollcall-tracing", "namespace": options.namespace, "labels": dict(LABELS)}
    spec = {
        "podSelector": {"matchLabels": dict(LABELS)},
        "policyTypes": ["Egress"],
        "egress": [{"ports": _tcp(port_of(endpoint))}],
    }
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}


def _policy(options: Options, name: str, component: str, ingress: list[Manifest], egress: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": options.namespace, "labels": labels_of(component)},
        "spec": {
            "podSelector": {"matchLabels": labels_of(component)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }


def _tcp(*ports: int) -> list[Manifest]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def _service(options: Options, name: str, component: str, ports: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": options.namespace, "labels": labels_of(component)},
        "spec": {"type": "ClusterIP", "selector": labels_of(component), "ports": ports},
    }


def _service_port(name: str, port: int) -> Manifest:
    return {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}

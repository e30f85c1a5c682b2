"""The network: Services by which the processes are found, and policies for who may reach them, and whom they reach.

An API server is no Pod, and its address is nobody's to know beforehand: neither who calls nor whom we call can be
narrowed to it, so those ports are open to all, and no other port is.
"""

from __future__ import annotations

import re

from webhook.installation.deployment import RECONCILER_COMPONENT, SERVER_COMPONENT, labels_of
from webhook.installation.names import (
    HEALTH_PORT,
    LABELS,
    NEXT_PORT,
    RECONCILER,
    RECONCILER_PORT,
    SERVER,
    SERVICE_PORT,
    SERVING_PORT,
    SERVING_PORT_NAME,
)
from webhook.installation.options import Options, Reconciler
from webhook.model.reading import Manifest
from webhook.settings import Settings

# Where API servers listen: behind their Service, and where most of them really do.
API_SERVER_PORTS = (443, 6443)
_DNS_PORT = 53
_PORT_IN_URL = re.compile(r"https?://(?:[^/?#@]*@)?(?:\[[^\]]*\]|[^/?#:]*)(?::(\d+))?")


def services(settings: Settings, options: Options) -> list[Manifest]:
    """The Service that the API server calls, with the ports of metrics, and that of a reconciler in Pods of its own."""
    ports = [_service_port(SERVING_PORT_NAME, SERVICE_PORT), _service_port("health", HEALTH_PORT)]
    if settings.certificates.self_managed:
        ports.append(_service_port("next", NEXT_PORT))
    of_reconciler = _service_port("reconciler", RECONCILER_PORT)
    if options.reconciler is Reconciler.SIDECAR:
        return [_service(options, SERVER, SERVER_COMPONENT, [*ports, of_reconciler])]
    return [
        _service(options, SERVER, SERVER_COMPONENT, ports),
        _service(options, RECONCILER, RECONCILER_COMPONENT, [of_reconciler]),
    ]


def network_policies(settings: Settings, options: Options) -> list[Manifest]:
    """One a Deployment. Both ask the API server, and DNS where its address is a name."""
    serving, beside = [SERVING_PORT, HEALTH_PORT], options.reconciler is Reconciler.SIDECAR
    if settings.certificates.self_managed:
        serving.append(NEXT_PORT)
    out: list[Manifest] = [
        {"ports": [{"protocol": protocol, "port": _DNS_PORT} for protocol in ("UDP", "TCP")]},
        {"ports": _tcp(*API_SERVER_PORTS)},
    ]
    found = [
        _policy(options, SERVER, SERVER_COMPONENT, [*serving, RECONCILER_PORT] if beside else serving, out),
    ]
    if not beside:
        asked = list(out)
        if settings.certificates.self_managed:
            # A certificate is taken for switched when each server shows it.
            servers = [{"podSelector": {"matchLabels": labels_of(SERVER_COMPONENT)}}]
            asked.append({"to": servers, "ports": _tcp(SERVING_PORT, NEXT_PORT)})
        found.append(_policy(options, RECONCILER, RECONCILER_COMPONENT, [RECONCILER_PORT], asked))
    if settings.tracing.endpoint:
        found.append(_tracing_policy(settings.tracing.endpoint, options))
    return found


def port_of(url: str) -> int:
    """The port that a URL names or stands for."""
    found = _PORT_IN_URL.match(url)
    assert found is not None, "the configuration takes no other URLs"  # noqa: S101 - said once, in config.py
    return int(found[1]) if found[1] else 443 if url.startswith("https:") else 80


def _tracing_policy(endpoint: str, options: Options) -> Manifest:
    """Policies add up: this one lets all of Rollcall's Pods send traces."""
    metadata = {"name": "rollcall-tracing", "namespace": options.namespace, "labels": dict(LABELS)}
    spec = {
        "podSelector": {"matchLabels": dict(LABELS)},
        "policyTypes": ["Egress"],
        "egress": [{"ports": _tcp(port_of(endpoint))}],
    }
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}


def _policy(options: Options, name: str, component: str, listened: list[int], egress: list[Manifest]) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": options.namespace, "labels": labels_of(component)},
        "spec": {
            "podSelector": {"matchLabels": labels_of(component)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": _tcp(*listened)}],
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

"""All objects of an installation, by topic and in the order in which they are applied, and the kustomizations with the
same objects.

An object comes after those it needs, and the objects that make the API server call Rollcall come last. Of the
kustomizations, `base` expects certificates from elsewhere, `cert-manager` adds them to it, and `self-managed` is
complete on its own. cert-manager's authority keeps its key when its certificate is renewed, so the API server and the
servers never disagree during a renewal.

An API server is not a Pod, and its address is not known in advance. So the ports that it calls are open to all unless
the installation names the callers; no other port is. The Services do not set IP families: with two of them each server
would be in two EndpointSlices, with two addresses.

Source: cert-manager documentation, "Certificate resource" and "CA Injector".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from webhook.config.settings import Settings
from webhook.installation.deployment import (
    CONFIGURATION_FILE,
    RECONCILER_COMPONENT,
    SERVER_COMPONENT,
    critical_pods,
    labels_of,
    workloads,
)
from webhook.installation.names import (
    CA_SECRET,
    HEALTH_PORT,
    LABELS,
    MUTATING,
    NEXT_PORT,
    RECONCILER,
    RECONCILER_PORT,
    SERVER,
    SERVICE_PORT,
    SERVING_PORT_NAME,
    TLS_SECRET,
    VALIDATING,
)
from webhook.installation.net_policy import net_policy
from webhook.installation.parameters import Configuration, Network, Options
from webhook.installation.rbac import access_rules, reconciler_access_rules
from webhook.installation.webhooks import Address, webhook_configurations
from webhook.model.reading import EMPTY, Manifest

API_VERSION = "cert-manager.io/v1"
INJECTED = "cert-manager.io/inject-ca-from"
_SELF_SIGNED = "rollcall-selfsigned"
# In hours, as cert-manager requires. The authority lasts ten years, because no other system trusts it; serving
# certificates last three months.
_YEARS_10, _YEAR, _DAYS_90, _DAYS_30 = "87600h", "8760h", "2160h", "720h"


def issuers(options: Options) -> list[Manifest]:
    """Returns the self-signed authority, its issuer, and the serving certificate."""
    issuer = {"name": CA_SECRET, "kind": "Issuer", "group": "cert-manager.io"}
    names = [f"{SERVER}.{options.namespace}.svc", f"{SERVER}.{options.namespace}.svc.cluster.local"]
    authority = {
        "isCA": True,
        "commonName": "rollcall",
        "secretName": CA_SECRET,
        "duration": _YEARS_10,
        "renewBefore": _YEAR,
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Never"},
        "issuerRef": {**issuer, "name": _SELF_SIGNED},
    }
    serving = {
        "secretName": TLS_SECRET,
        "duration": _DAYS_90,
        "renewBefore": _DAYS_30,
        "dnsNames": names,
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        "usages": ["digital signature", "server auth"],
        "issuerRef": issuer,
    }
    return [
        _object(options, API_VERSION, "Issuer", _SELF_SIGNED, spec={"selfSigned": {}}),
        _object(options, API_VERSION, "Certificate", CA_SECRET, spec=authority),
        _object(options, API_VERSION, "Issuer", CA_SECRET, spec={"ca": {"secretName": CA_SECRET}}),
        _object(options, API_VERSION, "Certificate", SERVER, spec=serving),
    ]


def injection(options: Options) -> dict[str, str]:
    """Returns the annotation that makes cert-manager fill in the caBundle of a webhook configuration."""
    return {INJECTED: f"{options.namespace}/{SERVER}"}


def _object(
    options: Options, api_version: str, kind: str, name: str, component: str | None = None, **fields: Any
) -> Manifest:
    """Returns an object in Rollcall's namespace, with the labels of a component's Pods or of all."""
    labels = dict(LABELS) if component is None else labels_of(component)
    metadata = {"name": name, "namespace": options.namespace, "labels": labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


# The ports of API servers: that of their Service, and the usual real one.
API_SERVER_PORTS = (443, 6443)
_DNS_PORT = 53
_NETWORKING = "networking.k8s.io/v1"
_PORT_IN_URL = re.compile(r"https?://(?:[^/?#@]*@)?(?:\[[^\]]*\]|[^/?#:]*)(?::(\d+))?", re.ASCII)


def services(settings: Settings, options: Options) -> list[Manifest]:
    """Returns the Services for the API server, for metrics, and for a reconciler with its own Pods."""
    ports = [_service_port(SERVING_PORT_NAME, SERVICE_PORT), _service_port("health", HEALTH_PORT)]
    if settings.certificates.self_managed:
        ports.append(_service_port("next", NEXT_PORT))
    of_reconciler = _service_port("reconciler", RECONCILER_PORT)
    if options.is_sidecar:
        return [_service(options, SERVER, SERVER_COMPONENT, [*ports, of_reconciler])]
    return [
        _service(options, SERVER, SERVER_COMPONENT, ports),
        _service(options, RECONCILER, RECONCILER_COMPONENT, [of_reconciler]),
    ]


def network_policies(settings: Settings, options: Options) -> list[Manifest]:
    """Returns a policy for each Deployment whose Pods have a network of their own. Both processes call the API server,
    and DNS if its address is a name.
    """
    out: list[Manifest] = [
        {"ports": [{"protocol": protocol, "port": _DNS_PORT} for protocol in ("UDP", "TCP")]},
        {"ports": _tcp(*API_SERVER_PORTS)},
    ]
    policies = []
    if not options.network.host_network:
        policies.append(_policy(options, SERVER, SERVER_COMPONENT, _server_ingress(settings, options), out))
    if not options.is_sidecar:
        egress = [*out, _certificate_egress(options.network)] if settings.certificates.self_managed else out
        listened = [{"ports": _tcp(options.network.ports.reconciler)}]
        policies.append(_policy(options, RECONCILER, RECONCILER_COMPONENT, listened, egress))
    if settings.tracing.endpoint:
        # Policies are additive: this one allows all of Rollcall's Pods to send traces.
        spec = {
            "podSelector": {"matchLabels": dict(LABELS)},
            "policyTypes": ["Egress"],
            "egress": [{"ports": _tcp(port_of(settings.tracing.endpoint))}],
        }
        policies.append(_object(options, _NETWORKING, "NetworkPolicy", "rollcall-tracing", spec=spec))
    return policies


def _server_ingress(settings: Settings, options: Options) -> list[Manifest]:
    """Returns the server's incoming traffic: the configured callers, and requests for health and metrics."""
    network, self_managed = options.network, settings.certificates.self_managed
    ports = network.ports
    called = _tcp(ports.serving, ports.next) if self_managed else _tcp(ports.serving)
    ingress: list[Manifest] = [{"ports": called, **({"from": list(network.callers)} if network.callers else {})}]
    if self_managed:
        # The reconciler checks which certificate each server presents.
        ingress.append({"from": _selected_pods(RECONCILER_COMPONENT), "ports": called})
    health_ports = (ports.health, ports.reconciler) if options.is_sidecar else (ports.health,)
    return [*ingress, {"ports": _tcp(*health_ports)}]


def _certificate_egress(network: Network) -> Manifest:
    """Returns the reconciler's traffic to the servers. Pods on the host network cannot be selected."""
    ports = _tcp(network.ports.serving, network.ports.next)
    return {"ports": ports, **({} if network.host_network else {"to": _selected_pods(SERVER_COMPONENT)})}


def _selected_pods(component: str) -> list[Manifest]:
    return [{"podSelector": {"matchLabels": labels_of(component)}}]


def port_of(url: str) -> int:
    """Returns the explicit or default port of a URL."""
    match = _PORT_IN_URL.match(url)
    assert match is not None, "the configuration allows no other URLs"  # noqa: S101 - said once, in config.py
    return int(match[1]) if match[1] else 443 if url.startswith("https:") else 80


def _policy(options: Options, name: str, component: str, ingress: list[Manifest], egress: list[Manifest]) -> Manifest:
    spec = {
        "podSelector": {"matchLabels": labels_of(component)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": ingress,
        "egress": egress,
    }
    return _object(options, _NETWORKING, "NetworkPolicy", name, component, spec=spec)


def _tcp(*ports: int) -> list[Manifest]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def _service(options: Options, name: str, component: str, ports: list[Manifest]) -> Manifest:
    spec = {"type": "ClusterIP", "selector": labels_of(component), "ports": ports}
    return _object(options, "v1", "Service", name, component, spec=spec)


def _service_port(name: str, port: int) -> Manifest:
    return {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}


def installed_objects(settings: Settings, options: Options) -> list[Manifest]:
    return [manifest for topic in TOPICS.values() for manifest in topic(settings, options)]


def _namespace(_: Settings, options: Options) -> list[Manifest]:
    """Returns Rollcall's namespace with its Pod Security level: *privileged* only for the host network."""
    level = "privileged" if options.network.host_network else "restricted"
    levels = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn", "audit")}
    metadata = {"name": options.namespace, "labels": {**LABELS, **levels}}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}]


def _rights(settings: Settings, options: Options) -> list[Manifest]:
    names = [SERVER] if options.is_sidecar else [SERVER, RECONCILER]
    return [
        # Containers that need a token mount one.
        *(_object(options, "v1", "ServiceAccount", name, automountServiceAccountToken=False) for name in names),
        *access_rules(settings, options.namespace, SERVER),
        *reconciler_access_rules(settings, options.namespace, *options.reconciler_accounts),
    ]


def _configuration(_: Settings, options: Options) -> list[Manifest]:
    """Returns the configuration file, with a hash of its content in the name, so that a rollout can be undone."""
    configuration = options.configuration
    if configuration is None:
        return []
    data = {CONFIGURATION_FILE: configuration.text, **configuration.shadows}
    return [_object(options, "v1", "ConfigMap", configuration.name, immutable=True, data=data)]


def _webhooks(settings: Settings, options: Options) -> list[Manifest]:
    address = Address(options.namespace, SERVER, SERVICE_PORT)
    configurations = webhook_configurations(settings, address, options.namespace, options.ca_bundle)
    annotated = {"annotations": injection(options)} if options.cert_manager else {}
    return [{**manifest, "metadata": {**manifest["metadata"], **annotated}} for manifest in configurations]


# Each topic by the name of its file, if topics have their own files.
TOPICS: Mapping[str, Callable[[Settings, Options], list[Manifest]]] = {
    "namespace": _namespace,
    "rights": _rights,
    "quota": lambda _, options: [critical_pods(options)],
    "configuration": _configuration,
    "certificates": lambda _, options: issuers(options) if options.cert_manager else [],
    "services": services,
    "network": network_policies,
    "workloads": workloads,
    "net": lambda settings, options: net_policy(settings, options.namespace),
    "webhooks": _webhooks,
}


# kustomize adds a hash of the content to this name and to all references.
CONFIGURATION = "rollcall-configuration"
GENERATED = "# Made by `rollcall manifests write`: running it again overwrites changes here.\n"
_KIND = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
# The objects that are applied first are deleted first. So the webhooks come before the servers: an apply ends long
# before a server is ready, in any order, but a deletion must not leave an API server that calls missing servers.
_FIRST = ("net.yaml", "webhooks.yaml")
# Their folder: a shadow may have the name of another file.
_SHADOWS = "shadows"
_IN_ORDER = {"sortOptions": {"order": "fifo"}}

Dump = Callable[[Manifest], str]


class InstalledConfiguration(NamedTuple):
    """A configuration file: its text, the settings made from it, and the text of each shadow's file."""

    text: str
    settings: Settings
    shadows: Mapping[str, str] = EMPTY


def kustomizations(
    files: InstalledConfiguration, self_managed: InstalledConfiguration, namespace: str, image: str, dump: Dump
) -> Mapping[str, str]:
    """Returns the text of each file by its path. `dump` writes an object as YAML, `files` is the configuration for
    certificates from elsewhere, and `self_managed` the one for self-managed certificates.
    """
    base_options, self_managed_options = (
        Options(image, namespace, Configuration(CONFIGURATION, configured.text)) for configured in (files, self_managed)
    )
    issued = replace(base_options, cert_manager=True)
    certificates = TOPICS["certificates"](files.settings, issued)
    return {
        **_complete("base", files, base_options, dump),
        "cert-manager/certificates.yaml": _documents(certificates, dump),
        "cert-manager/kustomization.yaml": GENERATED + dump(_issued(issued, dump)),
        **_complete("self-managed", self_managed, self_managed_options, dump),
    }


def _complete(folder: str, configured: InstalledConfiguration, options: Options, dump: Dump) -> dict[str, str]:
    files = {
        f"{topic}.yaml": _documents(manifests, dump)
        for topic, make in TOPICS.items()
        if topic != "configuration" and (manifests := make(configured.settings, options))
    }
    configuration = {
        "name": CONFIGURATION,
        "namespace": options.namespace,
        "files": [CONFIGURATION_FILE, *(f"{name}={_SHADOWS}/{name}" for name in configured.shadows)],
        "options": {"immutable": True, "labels": dict(LABELS)},
    }
    kustomization = {
        **_KIND,
        "resources": sorted(files, key=lambda path: path not in _FIRST),
        "configMapGenerator": [configuration],
        "images": [_image(options.image)],
        **_IN_ORDER,
    }
    files["kustomization.yaml"] = GENERATED + dump(kustomization)
    files[CONFIGURATION_FILE] = configured.text
    files |= {f"{_SHADOWS}/{name}": text for name, text in configured.shadows.items()}
    return {f"{folder}/{path}": text for path, text in files.items()}


def _image(written: str) -> Manifest:
    whole, _, digest = written.partition("@")
    name, _, tag = whole.rpartition(":")
    # The colon may belong to a registry's port.
    if not name or "/" in tag:
        name, tag = whole, ""
    version = {"digest": digest} if digest else {"newTag": tag} if tag else {}
    return {"name": name, "newName": name, **version}


def _issued(options: Options, dump: Dump) -> Manifest:
    """Returns the base with cert-manager's certificates, and its annotation for the caBundles."""
    # A patch is a list, and kustomize requires it as text.
    added = dump({"op": "add", "path": "/metadata/annotations", "value": injection(options)})
    target = {"group": "admissionregistration.k8s.io", "name": f"{MUTATING}|{VALIDATING}"}
    patches = [{"target": target, "patch": "- " + added.replace("\n", "\n  ").rstrip(" ")}]
    return {**_KIND, "resources": ["../base", "certificates.yaml"], "patches": patches, **_IN_ORDER}


def _documents(manifests: Iterable[Manifest], dump: Dump) -> str:
    return GENERATED + "".join(f"---\n{dump(manifest)}" for manifest in manifests)

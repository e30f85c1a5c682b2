"""All objects of an installation, by topic and in the order in which they are applied: an object comes after those it
needs, and the objects that make the API server call Rollcall come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from webhook.config.settings import Settings
from webhook.installation.access import access_rules, reconciler_access_rules
from webhook.installation.cert_manager import injection, issuers
from webhook.installation.containers import CONFIGURATION_FILE
from webhook.installation.deployment import critical_pods, workloads
from webhook.installation.names import LABELS, RECONCILER, SERVER, SERVICE_PORT
from webhook.installation.net import net_policy
from webhook.installation.network import network_policies, services
from webhook.installation.options import Options
from webhook.installation.webhooks import Address, webhook_configurations
from webhook.model.reading import Manifest


def everything(settings: Settings, options: Options) -> list[Manifest]:
    """Every object of an installation."""
    return [manifest for topic in TOPICS.values() for manifest in topic(settings, options)]


def _namespace(_: Settings, options: Options) -> list[Manifest]:
    """Rollcall's namespace, with the Pod Security level that its Pods need: *privileged* only for the host network."""
    level = "privileged" if options.network.host_network else "restricted"
    levels = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn", "audit")}
    metadata = {"name": options.namespace, "labels": {**LABELS, **levels}}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}]


def _rights(settings: Settings, options: Options) -> list[Manifest]:
    """The service accounts and what they may do."""
    names = [SERVER] if options.beside else [SERVER, RECONCILER]
    accounts: list[Manifest] = [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": options.namespace, "labels": dict(LABELS)},
            # Containers that need a token mount one.
            "automountServiceAccountToken": False,
        }
        for name in names
    ]
    return [
        *accounts,
        *access_rules(settings, options.namespace, SERVER),
        *reconciler_access_rules(settings, options.namespace, *options.reconciler_accounts),
    ]


def _configuration(_: Settings, options: Options) -> list[Manifest]:
    """The configuration file, with a hash of its content in the name: a change of it is a rollout that can be
    undone.
    """
    configuration = options.configuration
    if configuration is None:
        return []
    metadata = {"name": configuration.name, "namespace": options.namespace, "labels": dict(LABELS)}
    data = {CONFIGURATION_FILE: configuration.text, **configuration.shadows}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": True, "data": data}]


def _quota(_: Settings, options: Options) -> list[Manifest]:
    return [critical_pods(options)]


def _certificates(_: Settings, options: Options) -> list[Manifest]:
    return issuers(options) if options.cert_manager else []


def _net(settings: Settings, options: Options) -> list[Manifest]:
    return net_policy(settings, options.namespace)


def _webhooks(settings: Settings, options: Options) -> list[Manifest]:
    """The webhook configurations; with cert-manager's annotation if it fills in the caBundle."""
    address = Address(options.namespace, SERVER, SERVICE_PORT)
    found = webhook_configurations(settings, address, options.namespace, options.ca_bundle)
    return list(_annotated(found, injection(options))) if options.cert_manager else found


def _annotated(manifests: list[Manifest], annotations: Mapping[str, str]) -> Iterator[Manifest]:
    for manifest in manifests:
        yield {**manifest, "metadata": {**manifest["metadata"], "annotations": dict(annotations)}}


# Each topic by the name of its file, if topics have their own files.
TOPICS: Mapping[str, Callable[[Settings, Options], list[Manifest]]] = {
    "namespace": _namespace,
    "rights": _rights,
    "quota": _quota,
    "configuration": _configuration,
    "certificates": _certificates,
    "services": services,
    "network": network_policies,
    "workloads": workloads,
    "net": _net,
    "webhooks": _webhooks,
}

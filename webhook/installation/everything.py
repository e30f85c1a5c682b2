"""All that a cluster is given, by topic and in the order in which it is to be applied: who asks comes before what is
asked about, and what makes an API server ask comes last.
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
    """Its own namespace, in which no Pod may have more than ours need. The node's network is for the level
    *privileged* alone.
    """
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
            # Whoever needs a token mounts one.
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
    """The configuration file, under a name that no other text has: a change of it is a roll that can be undone."""
    configuration = options.configuration
    if configuration is None:
        return []
    metadata = {"name": configuration.name, "namespace": options.namespace, "labels": dict(LABELS)}
    data = {CONFIGURATION_FILE: configuration.text}
    return [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": True, "data": data}]


def _quota(_: Settings, options: Options) -> list[Manifest]:
    return [critical_pods(options)]


def _certificates(_: Settings, options: Options) -> list[Manifest]:
    return issuers(options) if options.cert_manager else []


def _net(settings: Settings, options: Options) -> list[Manifest]:
    return net_policy(settings, options.namespace)


def _webhooks(settings: Settings, options: Options) -> list[Manifest]:
    """The webhook configurations; cert-manager's annotation on them where it fills the caBundle in."""
    address = Address(options.namespace, SERVER, SERVICE_PORT)
    found = webhook_configurations(settings, address, options.namespace, options.ca_bundle)
    return list(_annotated(found, injection(options))) if options.cert_manager else found


def _annotated(manifests: list[Manifest], annotations: Mapping[str, str]) -> Iterator[Manifest]:
    for manifest in manifests:
        yield {**manifest, "metadata": {**manifest["metadata"], "annotations": dict(annotations)}}


# By the name of the file that holds it where each has one of its own.
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

"""What whoever installs Rollcall chooses beside its configuration: where, from which image, and whose certificates."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from webhook.config.settings import Settings
from webhook.installation.client_certificates import ClientCertificates
from webhook.installation.names import NAMESPACE, RECONCILER, SERVER
from webhook.installation.pod_network import Network


class Reconciler(StrEnum):
    """Where `rollcall reconcile` runs: in Pods of its own with a service account of its own; the same, while the
    sidecars of an earlier installation run on with the rights that they have; or beside the server in its Pods, which
    then may all that the reconciler may.
    """

    DEPLOYMENT = "deployment"
    MOVING = "moving"
    SIDECAR = "sidecar"


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration file as it is mounted: its text, and the name of the ConfigMap that holds it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Options:
    """How it is installed. Without a `configuration` both processes have their defaults.

    `cert_manager` has cert-manager make the certificates and fill the caBundle in. `ca_bundle` is PEM in base64, for
    certificates that somebody else keeps. `clients` is whose certificates callers must show.
    """

    image: str
    namespace: str = NAMESPACE
    configuration: Configuration | None = None
    replicas: int = 2
    reconciler: Reconciler = Reconciler.DEPLOYMENT
    cert_manager: bool = False
    ca_bundle: str | None = None
    network: Network = field(default_factory=Network)
    clients: ClientCertificates | None = None

    @property
    def beside(self) -> bool:
        """Whether the reconciler runs in the server's Pods."""
        return self.reconciler is Reconciler.SIDECAR

    @property
    def reconciler_accounts(self) -> tuple[str, ...]:
        """The service accounts with the reconciler's rights: a Pod has one, whatever runs in it."""
        if self.beside:
            return (SERVER,)
        return (RECONCILER, SERVER) if self.reconciler is Reconciler.MOVING else (RECONCILER,)


def named_by_content(text: str) -> Configuration:
    """The configuration file as a ConfigMap that is called by what it says."""
    return Configuration(f"rollcall-{sha256(text.encode()).hexdigest()[:10]}", text)


def placed(settings: Settings, wanted: Reconciler | None) -> Reconciler:
    """Where the reconciler runs. One that holds the authority's key has Pods of its own, whatever is `wanted`: what
    serves must not be able to read that key, and all containers of a Pod have one service account.
    """
    if settings.certificates.self_managed:
        return Reconciler.DEPLOYMENT
    return wanted or Reconciler.DEPLOYMENT

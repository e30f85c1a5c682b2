"""What whoever installs Rollcall chooses beside its configuration: where, from which image, and whose certificates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from webhook.installation.names import NAMESPACE, RECONCILER, SERVER
from webhook.settings import Settings


class Reconciler(StrEnum):
    """Where `rollcall reconcile` runs: beside the server in its Pods, or in Pods of its own."""

    SIDECAR = "sidecar"
    DEPLOYMENT = "deployment"


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration file as it is mounted: its text, and the name of the ConfigMap that holds it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Options:
    """How it is installed. Without a `configuration` both processes have their defaults.

    `cert_manager` has cert-manager make the certificates and fill the caBundle in. `ca_bundle` is PEM in base64, for
    certificates that somebody else keeps.
    """

    image: str
    namespace: str = NAMESPACE
    configuration: Configuration | None = None
    replicas: int = 2
    reconciler: Reconciler = Reconciler.SIDECAR
    cert_manager: bool = False
    ca_bundle: str | None = None

    @property
    def reconciler_account(self) -> str:
        """The service account of the reconciler: a Pod has one, whatever runs in it."""
        return SERVER if self.reconciler is Reconciler.SIDECAR else RECONCILER


def named_by_content(text: str) -> Configuration:
    """The configuration file as a ConfigMap that is called by what it says."""
    return Configuration(f"rollcall-{sha256(text.encode()).hexdigest()[:10]}", text)


def placed(settings: Settings, wanted: Reconciler | None) -> Reconciler:
    """Where the reconciler runs. One that holds the authority's key has Pods of its own, whatever is `wanted`: what
    serves must not be able to read that key, and all containers of a Pod have one service account.
    """
    if settings.certificates.self_managed:
        return Reconciler.DEPLOYMENT
    return wanted or Reconciler.SIDECAR

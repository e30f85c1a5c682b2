"""The choices of an installation besides its configuration: where, with which image, and with whose certificates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING

from webhook.installation.client_certificates import ClientCertificates
from webhook.installation.names import NAMESPACE, RECONCILER, SERVER
from webhook.installation.pod_network import Network
from webhook.model.reading import EMPTY

if TYPE_CHECKING:
    from webhook.config.settings import Settings


class Reconciler(StrEnum):
    """Where `rollcall reconcile` runs.

    In Pods of its own with its own service account; the same while sidecars of an earlier installation keep running
    with their rights; or in the server's Pods, which then have all the reconciler's rights.
    """

    DEPLOYMENT = "deployment"
    MOVING = "moving"
    SIDECAR = "sidecar"


@dataclass(frozen=True, slots=True)
class Configuration:
    """The mounted configuration file: its text, the name of its ConfigMap, and the text of each shadow's file beside
    it.
    """

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
        """The service accounts with the reconciler's rights: all containers of a Pod share one."""
        if self.beside:
            return (SERVER,)
        return (RECONCILER, SERVER) if self.reconciler is Reconciler.MOVING else (RECONCILER,)


def named_by_content(text: str, shadows: Mapping[str, str] = EMPTY) -> Configuration:
    """The configuration file, and those of its shadows, as a ConfigMap with a hash of its content in the name."""
    content = "\0".join((text, *(part for item in sorted(shadows.items()) for part in item)))
    return Configuration(f"rollcall-{sha256(content.encode()).hexdigest()[:10]}", text, shadows)


def placed(settings: Settings, wanted: Reconciler | None) -> Reconciler:
    """Where the reconciler runs: as `wanted`, but in its own Pods if it holds the authority's key.

    The server must not be able to read that key, and all containers of a Pod share one service account.
    """
    if settings.certificates.self_managed:
        return Reconciler.DEPLOYMENT
    return wanted or Reconciler.DEPLOYMENT

"""Certificates for the example snapshots of checks; they are created on demand and never stored."""

from __future__ import annotations

from base64 import b64encode
from datetime import timedelta
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from webhook.certificates.x509 import new_authority, new_leaf, pem
from webhook.doctor.examples import NOW, installed
from webhook.doctor.snapshot import Presented, Snapshot
from webhook.installation.names import NAMESPACE, SERVER
from webhook.model.reading import Manifest

HOST = f"{SERVER}.{NAMESPACE}.svc"


class Signed(NamedTuple):
    """An authority and a certificate that it signed."""

    authority: x509.Certificate
    leaf: x509.Certificate


def signed(days: int = 90, host: str = HOST) -> Signed:
    """An authority and a certificate for a host, both valid for this many more days."""
    begun, ends = NOW - timedelta(days=10), NOW + timedelta(days=days)
    authority = new_authority("example authority", begun, ends - begun)
    return Signed(authority.certificate, new_leaf(authority, (host,), begun, ends).certificate)


def bundle_of(*certificates: x509.Certificate) -> str:
    """The certificates as a caBundle."""
    return b64encode(pem(certificates)).decode()


def bundled(*certificates: x509.Certificate, **known: Any) -> Snapshot:
    """A working installation whose webhooks have these authorities in their caBundle."""
    bundle = bundle_of(*certificates)

    def write(raw: Manifest) -> None:
        for hook in raw.get("webhooks", ()):
            hook["clientConfig"]["caBundle"] = bundle

    return installed(changed=write, **known)


def certified(pair: Signed, refused: str = "") -> Snapshot:
    """An installation that presents the certificate of a pair. The pair's authority accepts it, unless `refused` says
    why not.
    """
    bundle = bundle_of(pair.authority)
    shown = Presented(
        "https://10.0.0.0:8443",
        HOST,
        pair.leaf.public_bytes(serialization.Encoding.DER),
        refused={bundle: refused} if refused else {},
    )
    return bundled(pair.authority, presented=(shown,))

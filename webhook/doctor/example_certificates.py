"""Certificates for the worlds that checks are shown with: made when they are asked for, and nowhere stored."""

from __future__ import annotations

from base64 import b64encode
from datetime import timedelta
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from webhook.doctor.examples import NOW, installed
from webhook.doctor.world import Presented, World
from webhook.installation.names import NAMESPACE, SERVER
from webhook.model.reading import Manifest

HOST = f"{SERVER}.{NAMESPACE}.svc"


class Signed(NamedTuple):
    """An authority, and a certificate that it signed."""

    authority: x509.Certificate
    leaf: x509.Certificate


def signed(days: int = 90, host: str = HOST) -> Signed:
    """An authority and a certificate for a host, both good for so many days more."""
    key, other = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    return Signed(_made("example authority", key, key, days), _made("rollcall", other, key, days, host))


def _made(
    name: str, key: ec.EllipticCurvePrivateKey, authority: ec.EllipticCurvePrivateKey, days: int, host: str = ""
) -> x509.Certificate:
    def called(word: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, word)])

    builder = (
        x509.CertificateBuilder()
        .subject_name(called(name))
        .issuer_name(called("example authority"))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - timedelta(days=10))
        .not_valid_after(NOW + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=not host, path_length=None), critical=True)
    )
    if host:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    return builder.sign(authority, hashes.SHA256())


def bundle_of(*certificates: x509.Certificate) -> str:
    """The certificates as a caBundle."""
    return b64encode(b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)).decode()


def bundled(*certificates: x509.Certificate, **known: Any) -> World:
    """A sound installation whose webhooks have these authorities in their caBundle."""
    bundle = bundle_of(*certificates)

    def write(raw: Manifest) -> None:
        for hook in raw.get("webhooks", ()):
            hook["clientConfig"]["caBundle"] = bundle

    return installed(changed=write, **known)


def certified(pair: Signed, refused: str = "") -> World:
    """One that shows the certificate of a pair, which the authority of the pair vouches for unless it says why not."""
    bundle = bundle_of(pair.authority)
    shown = Presented(
        "https://10.0.0.0:8443",
        HOST,
        pair.leaf.public_bytes(serialization.Encoding.DER),
        refused={bundle: refused} if refused else {},
    )
    return bundled(pair.authority, presented=(shown,))

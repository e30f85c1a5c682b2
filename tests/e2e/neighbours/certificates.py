"""The certificates by which the API server calls the webhooks of other projects' controllers: one authority and one
server certificate, in the forms that Kueue insists on and the others take as well.
"""

from __future__ import annotations

import base64
import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from webhook.certificates.x509 import key_usage

# Kueue creates its certificates anew where these names are missing, or where they end before its look-ahead.
_AUTHORITY_NAME, _SERVER_NAME = "kueue-ca", "kueue-webhook-service.kueue-system.svc"
_YEARS = timedelta(days=3650)
# Where controller-runtime looks, below TMPDIR, for a controller that cannot be told.
_FOLDER = Path("k8s-webhook-server", "serving-certs")


class Certificates(NamedTuple):
    """PEM files in `folder`, which is below `temporary` as controller-runtime has it."""

    temporary: Path
    folder: Path

    @property
    def bundle(self) -> str:
        """The authority's certificate, as a webhook's `caBundle` has it."""
        return self.encoded("ca.crt")

    def encoded(self, name: str) -> str:
        """A file in base64, as a Secret has it: `ca.crt`, `ca.key`, `tls.crt` or `tls.key`."""
        return base64.b64encode((self.folder / name).read_bytes()).decode()


def make_certificates(temporary: Path) -> Certificates:
    """A new authority and server certificate below a folder."""
    made = Certificates(temporary, temporary / _FOLDER)
    made.folder.mkdir(parents=True)
    authority, server = _key(), _key()
    issuer = _common_name(_AUTHORITY_NAME)
    root = (
        _builder(issuer, issuer, authority.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(key_usage(authority=True), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_AUTHORITY_NAME)]), critical=False)
        .sign(authority, hashes.SHA256())
    )
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    leaf = (
        _builder(_common_name(_SERVER_NAME), issuer, server.public_key())
        .add_extension(x509.SubjectAlternativeName([address, x509.DNSName(_SERVER_NAME)]), critical=False)
        .sign(authority, hashes.SHA256())
    )
    # Kueue takes the authority's key in PKCS#1 alone.
    _write(made.folder / "ca.key", _private(authority))
    _write(made.folder / "tls.key", _private(server))
    _write(made.folder / "ca.crt", root.public_bytes(serialization.Encoding.PEM))
    _write(made.folder / "tls.crt", leaf.public_bytes(serialization.Encoding.PEM))
    return made


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: rsa.RSAPublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _YEARS)
    )


def _private(key: rsa.RSAPrivateKey) -> bytes:
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)

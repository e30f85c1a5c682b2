"""Authorities and the certificates they sign, as values: no files, no cluster, no clock.

Keys are ECDSA on P-256, which every API server supports. Names and extensions follow RFC 5280 and what Go's verifier
requires of a server: its name among the alternative names, and the key usage for servers.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from webhook.errors import CertificateError

# Clocks differ; a certificate that is not valid yet causes failures that are hard to explain.
BACKDATED = timedelta(minutes=5)


class KeyPair(NamedTuple):
    """A certificate and its private key. Its `repr` shows no key, because it may be logged."""

    certificate: x509.Certificate
    key: PrivateKeyTypes

    def __repr__(self) -> str:
        return f"KeyPair({fingerprint(self.certificate)})"

    @property
    def certificate_pem(self) -> bytes:
        """The certificate alone."""
        return pem([self.certificate])

    @property
    def key_pem(self) -> bytes:
        """The key, as PKCS #8 without a password."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def new_authority(name: str, now: datetime, lifetime: timedelta) -> KeyPair:
    """Returns a new authority that may sign servers' certificates, but no other authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        _builder(subject, subject, key.public_key(), now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(certificate, key)


def new_leaf(authority: KeyPair, hosts: Iterable[str], now: datetime, until: datetime) -> KeyPair:
    """Returns a new server certificate for `hosts` (names and addresses). Raises `CertificateError`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rollcall")])
    issuer, signing = authority.certificate, authority.key
    if not isinstance(signing, ec.EllipticCurvePrivateKey):
        raise CertificateError("the authority's key is not an elliptic curve key")
    certificate = (
        _builder(subject, issuer.subject, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(general_names(hosts)), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
        .sign(signing, hashes.SHA256())
    )
    return KeyPair(certificate, key)


def read_pair(certificate: bytes, key: bytes) -> KeyPair:
    """Returns the pair in two PEM texts. Raises `CertificateError`, whose message never contains a part of them."""
    leaf = read_certificates(certificate)[0]
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CertificateError("the key is not a private key in PEM form without a password") from None
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    if private.public_key().public_bytes(*form) != leaf.public_key().public_bytes(*form):
        raise CertificateError("the key belongs to another certificate")
    return KeyPair(leaf, private)


def read_certificates(text: bytes) -> tuple[x509.Certificate, ...]:
    """Returns the certificates in a PEM text, at least one. Raises `CertificateError`."""
    try:
        certificates = tuple(x509.load_pem_x509_certificates(text))
        for certificate in certificates:
            # These fields are parsed on first access, which shows errors in them.
            _ = certificate.not_valid_after_utc, certificate.extensions, certificate.subject, certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateError("there is no certificate in PEM form") from None
    return certificates


def pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """Returns the certificates as PEM, one after the other."""
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates)


def fingerprint(certificate: x509.Certificate) -> str:
    """Returns the SHA-256 of the certificate, 64 hexadecimal digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Returns whether `authority` signed the certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        return False
    return True


def holds(certificate: x509.Certificate, now: datetime) -> bool:
    """Returns whether the certificate is valid at that moment."""
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def renewal(certificate: x509.Certificate, part: float) -> datetime:
    """Returns the moment when that part of the certificate's life is over."""
    begin = certificate.not_valid_before_utc
    return begin + (certificate.not_valid_after_utc - begin) * part


def is_authority(certificate: x509.Certificate) -> bool:
    """Returns whether the certificate is marked as an authority."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def names_missing(certificate: x509.Certificate, hosts: Iterable[str]) -> list[str]:
    """Returns those of `hosts` that the certificate is not for. Raises `CertificateError` for an invalid name."""
    required = general_names(hosts)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [str(name.value) for name in required]
    return [str(name.value) for name in required if name not in names]


def general_names(hosts: Iterable[str]) -> list[x509.GeneralName]:
    """Returns names and addresses in the form of certificates, without duplicates. Raises `CertificateError`."""
    names: list[x509.GeneralName] = []
    for host in dict.fromkeys(hosts):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            try:
                names.append(x509.DNSName(host))
            except ValueError:
                raise CertificateError(f"{host}: not a host name or address that a certificate can contain") from None
    return names


def key_usage(*, authority: bool) -> x509.KeyUsage:
    """Returns the key usage: an authority only signs certificates, a server only signs handshakes."""
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(until)
    )

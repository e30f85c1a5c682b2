"""Authorities and what they sign, as values: nothing here reads a file, asks a cluster or looks at a clock.

Keys are ECDSA on P-256, which every API server speaks. Names and extensions follow RFC 5280 and what Go's verifier asks
of a server: its name among the alternative names, and the purpose of a server.
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

# Clocks differ; a certificate that is not valid yet is a puzzle nobody needs.
BACKDATED = timedelta(minutes=5)


class KeyPair(NamedTuple):
    """A certificate and its private key. Its `repr` shows no key: it may end up in a log."""

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
    """An authority that signs servers' certificates, and no other authorities."""
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
    """A server's certificate for `hosts`, which are names and addresses. Raises `CertificateError`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rollcall")])
    issuer, signing = authority.certificate, authority.key
    if not isinstance(signing, ec.EllipticCurvePrivateKey):
        raise CertificateError("the authority's key is none of an elliptic curve")
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
    """The pair that two PEM texts hold. Raises `CertificateError` with what is wrong, and never with a part of them."""
    found = read_certificates(certificate)[0]
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CertificateError("the key is no private key in PEM form without a password") from None
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    if private.public_key().public_bytes(*form) != found.public_key().public_bytes(*form):
        raise CertificateError("the key is that of another certificate")
    return KeyPair(found, private)


def read_certificates(text: bytes) -> tuple[x509.Certificate, ...]:
    """The certificates in a PEM text, at least one. Raises `CertificateError`."""
    try:
        found = tuple(x509.load_pem_x509_certificates(text))
        for one in found:
            # Read when first asked for, and then what is wrong with it shows.
            _ = one.not_valid_after_utc, one.extensions, one.subject, one.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateError("there is no certificate in PEM form") from None
    return found


def pem(certificates: Iterable[x509.Certificate]) -> bytes:
    """PEM of them all, one after the other."""
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the certificate, 64 hexadecimal digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether `authority` signed it."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TypeError):
        return False
    return True


def holds(certificate: x509.Certificate, now: datetime) -> bool:
    """Whether it is valid at that moment."""
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def renewal(certificate: x509.Certificate, part: float) -> datetime:
    """When that part of its life is over."""
    begin = certificate.not_valid_before_utc
    return begin + (certificate.not_valid_after_utc - begin) * part


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether it says that it may sign others."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def names_missing(certificate: x509.Certificate, hosts: Iterable[str]) -> list[str]:
    """Those of `hosts` that the certificate is not for. Raises `CertificateError` where one is no name."""
    wanted = general_names(hosts)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [str(name.value) for name in wanted]
    return [str(name.value) for name in wanted if name not in names]


def general_names(hosts: Iterable[str]) -> list[x509.GeneralName]:
    """Names and addresses as certificates bear them, each once. Raises `CertificateError`."""
    names: list[x509.GeneralName] = []
    for host in dict.fromkeys(hosts):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            try:
                names.append(x509.DNSName(host))
            except ValueError:
                raise CertificateError(f"{host}: no host name or address that a certificate can bear") from None
    return names


def key_usage(*, authority: bool) -> x509.KeyUsage:
    """An authority signs certificates, a server signs handshakes, and neither does anything else."""
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

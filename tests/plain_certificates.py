"""Certificates as other tools create them: with exactly the requested extensions."""

from __future__ import annotations

from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from webhook.certificates.x509 import KeyPair
from webhook.cluster.clock import MACHINE_CLOCK

NOW = MACHINE_CLOCK.now()
DAY = timedelta(days=1)

# DER, as X.690 and RFC 5758 say: tags, the version field of a version 3, and ecdsa-with-SHA256.
_SEQUENCE, _BIT_STRING = 0x30, 0x03
_VERSION_3 = bytes.fromhex("a003020102")
_ECDSA_WITH_SHA256 = bytes.fromhex("300a06082a8648ce3d040302")


def signed_plainly(
    name: str,
    signer: KeyPair | None,
    *extensions: x509.ExtensionType,
    begin: datetime = NOW - DAY,
    end: datetime = NOW + DAY,
) -> KeyPair:
    """A certificate with these extensions, signed by `signer` or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(
        subject if signer is None else signer.certificate.subject,
        subject,
        key.public_key(),
        x509.random_serial_number(),
        begin,
        end,
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    signing = key if signer is None else signer.key
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    return KeyPair(builder.sign(signing, hashes.SHA256()), key)


def version_1(name: str) -> KeyPair:
    """An authority of X.509 version 1, which has no extensions. `cryptography` makes no such certificates."""
    made = signed_plainly(name, None)
    assert isinstance(made.key, ec.EllipticCurvePrivateKey)
    fields = made.certificate.tbs_certificate_bytes.partition(_VERSION_3)[2]
    body = _der(_SEQUENCE, fields)
    signature = made.key.sign(body, ec.ECDSA(hashes.SHA256()))
    whole = _der(_SEQUENCE, body + _ECDSA_WITH_SHA256 + _der(_BIT_STRING, b"\0" + signature))
    return KeyPair(x509.load_der_x509_certificate(whole), made.key)


def _der(tag: int, content: bytes) -> bytes:
    length = len(content)
    size = (length.bit_length() + 7) // 8
    head = bytes([length]) if length < 0x80 else bytes([0x80 | size]) + length.to_bytes(size, "big")
    return bytes([tag]) + head + content

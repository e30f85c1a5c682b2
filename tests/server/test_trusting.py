"""Whom an API server trusts by a caBundle: `rollcall certs verify` and `rollcall doctor` say the same, on any Python.

The verdicts are those of Go's crypto/x509, which is what the API server asks.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.tls_listener import tls_listener
from webhook.authority import KeyPair, new_authority, new_leaf, pem
from webhook.certificates import Pair, server_context, trusting
from webhook.doctor.handshakes import Endpoint, look_at
from webhook.errors import CertificateError
from webhook.reconciler.certificate_checks import handshake

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
HOST = "rollcall.rollcall-system.svc"


def signed_plainly(name: str, signer: KeyPair | None, *extensions: x509.ExtensionType) -> KeyPair:
    """A certificate with these extensions and no others: such as other tools make them."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(
        subject if signer is None else signer.certificate.subject,
        subject,
        key.public_key(),
        x509.random_serial_number(),
        NOW - DAY,
        NOW + DAY,
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    signing = key if signer is None else signer.key
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    return KeyPair(builder.sign(signing, hashes.SHA256()), key)


MAY_SIGN = x509.BasicConstraints(ca=True, path_length=None)
NAMED = x509.SubjectAlternativeName([x509.DNSName(HOST)])

ROOT = signed_plainly("root", None, MAY_SIGN)
BETWEEN = signed_plainly("intermediate", ROOT, MAY_SIGN)
LEAF = signed_plainly("rollcall", BETWEEN, NAMED)
PLAIN = signed_plainly("of the root", ROOT, NAMED)
ELSEWHERE = signed_plainly(HOST, ROOT, x509.SubjectAlternativeName([x509.DNSName("elsewhere")]))
OURS = new_authority("ours", NOW, DAY)
SERVED = new_leaf(OURS, (HOST,), NOW, NOW + DAY)
EXPIRED = new_authority("expired", NOW - 2 * DAY, DAY)
OTHER = new_authority("other", NOW, DAY)


def only(*pairs: KeyPair) -> bytes:
    return pem(one.certificate for one in pairs)


# By what is the case: what is served and with which certificates beside it, the caBundle, and what is said of it.
CASES: dict[str, tuple[KeyPair, tuple[KeyPair, ...], bytes, str]] = {
    "our own authority": (SERVED, (), only(OURS), ""),
    "another authority": (SERVED, (), only(OTHER), "unable to get local issuer certificate"),
    "the authority among others": (SERVED, (), only(OTHER, EXPIRED, OURS), ""),
    # Without a key usage and key identifiers; a strict verifier wants them.
    "a root as plain as may be": (PLAIN, (), only(ROOT), ""),
    "the root, and the chain is served": (LEAF, (BETWEEN,), only(ROOT), ""),
    "the root, and no chain is served": (LEAF, (), only(ROOT), "unable to get local issuer certificate"),
    "the intermediate alone": (LEAF, (), only(BETWEEN), ""),
    "the intermediate, and the chain is served": (LEAF, (BETWEEN,), only(BETWEEN), ""),
    "the certificate itself": (LEAF, (), only(LEAF), ""),
    "the certificate of another server": (LEAF, (), only(PLAIN), "unable to get local issuer certificate"),
    "the host as common name, and another as alternative name": (ELSEWHERE, (), only(ROOT), "Hostname mismatch"),
    "words beside the certificates": (SERVED, (), "# Zertifizierungsstelle für Tests\n".encode() + only(OURS), ""),
}


def pair(served: KeyPair, beside: tuple[KeyPair, ...]) -> Pair:
    """A pair as somebody else's server has it: ours would not load every one of them."""
    leaf = served.certificate.public_bytes(serialization.Encoding.DER)
    return Pair(Path("tls.crt"), Path("tls.key"), NOW, NOW + DAY, leaf, only(served, *beside), served.key_pem)


@pytest.mark.parametrize("case", CASES)
def test_verify_and_doctor_say_what_go_says(case: str) -> None:
    served, beside, bundle, expected = CASES[case]
    shown = pair(served, beside)
    by_verify = handshake(shown, bundle, HOST)
    encoded = b64encode(bundle).decode()
    with tls_listener(server_context(shown)) as port:
        (seen,) = asyncio.run(look_at([Endpoint("127.0.0.1", port, HOST)], [encoded]))
    assert seen.presented.certificate == shown.leaf
    by_doctor = seen.presented.refused.get(encoded, "")
    assert by_verify == by_doctor
    assert by_verify.startswith(expected), by_verify
    assert bool(by_verify) is bool(expected), by_verify


def test_no_python_asks_for_more_than_go() -> None:
    """Python 3.13 made its default context strict, and took partial chains."""
    context = trusting(only(OURS))
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    "bundle", [b"", b"nonsense", b"-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"]
)
def test_a_bundle_of_nothing_is_said_to_be_none(bundle: bytes) -> None:
    with pytest.raises(CertificateError, match="no certificate in PEM form"):
        trusting(bundle)

"""Certificates of servers with CA bundles, and whether a Kubernetes component trusts the certificate by the bundle.

The verdicts are those of Go's crypto/x509. `tests/unit/cluster/test_same_as_go.py` asks Go itself.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.plain_certificates import DAY, NOW, signed_plainly, version_1
from webhook.certificates.files import Pair
from webhook.certificates.x509 import KeyPair, key_usage, new_authority, new_leaf, pem

HOST, ADDRESS = "rollcall.rollcall-system.svc", "127.0.0.1"

MAY_SIGN = x509.BasicConstraints(ca=True, path_length=None)
NAMED = x509.SubjectAlternativeName([x509.DNSName(HOST), x509.IPAddress(ip_address(ADDRESS))])
ELSEWHERE = x509.SubjectAlternativeName([x509.DNSName("elsewhere"), x509.IPAddress(ip_address("127.0.0.2"))])


class TrustCase(NamedTuple):
    """What is served, and which certificates beside it; the bundle; and what OpenSSL says against it."""

    served: KeyPair
    beside: tuple[KeyPair, ...]
    bundle: bytes
    refused: str = ""

    @property
    def pair(self) -> Pair:
        """A pair as another program's server has it: Rollcall would not load every one of them."""
        leaf = self.served.certificate.public_bytes(serialization.Encoding.DER)
        chain = only(self.served, *self.beside)
        return Pair(Path("tls.crt"), Path("tls.key"), NOW, NOW + DAY, leaf, chain, self.served.key_pem)


def only(*pairs: KeyPair) -> bytes:
    return pem(one.certificate for one in pairs)


def self_signed(*extensions: x509.ExtensionType) -> TrustCase:
    """A certificate of an authority that has these extensions."""
    root = signed_plainly("root", None, *extensions)
    return TrustCase(signed_plainly("of the root", root, NAMED), (), only(root))


OURS = new_authority("ours", NOW, DAY)
SERVED = new_leaf(OURS, (HOST, ADDRESS), NOW, NOW + DAY)
OTHER = new_authority("other", NOW, DAY)
EXPIRED = signed_plainly("expired", None, MAY_SIGN, begin=NOW - 3 * DAY, end=NOW - DAY)
FIRST_VERSION = version_1("version 1")
ROOT = signed_plainly("root", None, MAY_SIGN)
BETWEEN = signed_plainly("intermediate", ROOT, MAY_SIGN)
LEAF = signed_plainly("rollcall", BETWEEN, NAMED)
PLAIN = signed_plainly("of the root", ROOT, NAMED)
SAME_NAME = signed_plainly("root", None, MAY_SIGN)
FOR_CLIENTS = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
UNREADABLE = b"-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"

UNKNOWN_ISSUER = "unable to get local issuer certificate"
MISMATCH = "mismatch, certificate is not valid for"

TRUSTED: dict[str, TrustCase] = {
    "our own authority": TrustCase(SERVED, (), only(OURS)),
    "the authority among others": TrustCase(SERVED, (), only(OTHER, EXPIRED, OURS)),
    "the authority beside a certificate that cannot be read": TrustCase(SERVED, (), UNREADABLE + only(OURS)),
    "words beside the certificates": TrustCase(SERVED, (), "# Zertifizierungsstelle\u00df\n".encode() + only(OURS)),
    "a version 1 authority, without any extension": TrustCase(
        signed_plainly("of version 1", FIRST_VERSION, NAMED), (), only(FIRST_VERSION)
    ),
    "an authority with nothing but basic constraints": TrustCase(PLAIN, (), only(ROOT)),
    "an authority without key identifiers": self_signed(MAY_SIGN, key_usage(authority=True)),
    "an authority without key usage": self_signed(
        MAY_SIGN, x509.SubjectKeyIdentifier.from_public_key(OURS.certificate.public_key())
    ),
    "the root, and the chain is served": TrustCase(LEAF, (BETWEEN,), only(ROOT)),
    "the intermediate alone": TrustCase(LEAF, (), only(BETWEEN)),
    "the intermediate, and the chain is served": TrustCase(LEAF, (BETWEEN,), only(BETWEEN)),
    "the certificate itself": TrustCase(LEAF, (), only(LEAF)),
}

REFUSED: dict[str, TrustCase] = {
    "another authority": TrustCase(SERVED, (), only(OTHER), UNKNOWN_ISSUER),
    "the root, and no chain is served": TrustCase(LEAF, (), only(ROOT), UNKNOWN_ISSUER),
    "the certificate of another server": TrustCase(LEAF, (), only(PLAIN), UNKNOWN_ISSUER),
    "another host": TrustCase(signed_plainly("elsewhere", ROOT, ELSEWHERE), (), only(ROOT), MISMATCH),
    "the host as common name, and another as alternative name": TrustCase(
        signed_plainly(HOST, ROOT, ELSEWHERE), (), only(ROOT), MISMATCH
    ),
    "the host as common name alone": TrustCase(signed_plainly(HOST, ROOT), (), only(ROOT), MISMATCH),
    "expired": TrustCase(
        signed_plainly("rollcall", ROOT, NAMED, begin=NOW - 3 * DAY, end=NOW - DAY),
        (),
        only(ROOT),
        "certificate has expired",
    ),
    "not yet valid": TrustCase(
        signed_plainly("rollcall", ROOT, NAMED, begin=NOW + DAY, end=NOW + 3 * DAY),
        (),
        only(ROOT),
        "certificate is not yet valid",
    ),
    "an expired authority": TrustCase(
        signed_plainly("rollcall", EXPIRED, NAMED), (), only(EXPIRED), "certificate has expired"
    ),
    "a certificate for clients": TrustCase(
        signed_plainly("rollcall", ROOT, NAMED, FOR_CLIENTS), (), only(ROOT), "unsuitable certificate purpose"
    ),
    # A certificate of version 3 must say that it may sign, in Go too.
    "a version 3 authority without any extension": self_signed()._replace(refused="invalid CA certificate"),
    "an authority whose key usage is not to sign": self_signed(MAY_SIGN, key_usage(authority=False))._replace(
        refused="invalid CA certificate"
    ),
}

# Trusted by Go and not by OpenSSL, which cannot be told to: docs/how-to/installing.md lists them.
STRICTER: dict[str, TrustCase] = {
    "a server's key usage that is not for TLS": TrustCase(
        signed_plainly("rollcall", ROOT, NAMED, key_usage(authority=True)),
        (),
        only(ROOT),
        "unsuitable certificate purpose",
    ),
    "the key identifier of another authority": TrustCase(
        signed_plainly(
            "rollcall",
            OURS,
            NAMED,
            x509.AuthorityKeyIdentifier(b"of another key", None, None),
        ),
        (),
        only(OURS),
        UNKNOWN_ISSUER,
    ),
    "another authority of the same name comes first": TrustCase(
        PLAIN, (), only(SAME_NAME, ROOT), "certificate signature failure"
    ),
}

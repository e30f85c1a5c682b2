"""TLS as a client: contexts that accept the servers that a Kubernetes component would accept.

Kubernetes components are written in Go, whose verifier checks only the chain, the time and the host name. OpenSSL is
set up here to do the same with every supported Python. `docs/how-to/installing.md` lists the remaining differences.

Source: Go, crypto/x509 `Certificate.Verify`, `VerifyHostname` and `CertPool.AppendCertsFromPEM`.
"""

from __future__ import annotations

import re
import ssl
from contextlib import suppress

from webhook.errors import CertificateError

# Keys and text between the certificates of a bundle are ignored.
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]*-----END CERTIFICATE-----")


def verifying() -> ssl.SSLContext:
    """Return a context that verifies servers as Go does, and has no trusted CA yet."""
    # Not `ssl.create_default_context`: since Python 3.13 it sets VERIFY_X509_STRICT, which refuses certificates without
    # key identifiers or key usage. Clusters have such certificates, and Go accepts them.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Every certificate in Go's root pool is a trust anchor, even if another CA signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Go compares the host only with the alternative names.
    context.hostname_checks_common_name = False
    return context


def trusting(bundle: bytes) -> ssl.SSLContext:
    """Return a context that trusts the certificates in `bundle` (PEM), including intermediates and server certificates.

    Raises `CertificateError` if the bundle has no certificate. A certificate that cannot be read is ignored, as in Go.
    """
    context = verifying()
    for certificate in _CERTIFICATE.findall(bundle):
        with suppress(ssl.SSLError):
            context.load_verify_locations(cadata=certificate.decode("ascii"))
    if not context.cert_store_stats()["x509"]:
        raise CertificateError("there is no certificate in PEM form")
    return context


def trusting_system() -> ssl.SSLContext:
    """Return a context that trusts the certificate authorities of the operating system."""
    context = verifying()
    context.load_default_certs()
    return context


def looking() -> ssl.SSLContext:
    """Return a context that accepts any server: to read its certificate, not to trust it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context

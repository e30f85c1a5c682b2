"""Which servers an API server trusts by a caBundle: `rollcall certs verify` and `rollcall doctor` agree, on every
Python.

The verdicts are those of Go's crypto/x509, which is what the API server asks.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64encode

import pytest

from tests.tls_listener import tls_listener
from tests.trust_cases import HOST, OURS, REFUSED, TRUSTED, only
from tests.waiting import LIMIT_SECONDS
from webhook.certificates.files import server_context
from webhook.certificates.observation import handshake
from webhook.cluster.sockets import trusting
from webhook.errors import CertificateError
from webhook.operations import snapshot_reader
from webhook.operations.snapshot_reader import Endpoint, observe_endpoints


@pytest.mark.parametrize("case", [*TRUSTED, *REFUSED])
def test_verify_and_doctor_trust_the_same_certificates_as_go(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_reader, "SECONDS", LIMIT_SECONDS)
    shown = (TRUSTED | REFUSED)[case]
    by_verify = handshake(shown.pair, shown.bundle, HOST)
    encoded = b64encode(shown.bundle).decode()
    with tls_listener(server_context(shown.pair)) as port:
        (seen,) = asyncio.run(observe_endpoints([Endpoint("127.0.0.1", port, HOST)], [encoded]))
    assert seen.presented.certificate == shown.pair.leaf
    by_doctor = seen.presented.refused.get(encoded, "")
    assert by_verify == by_doctor
    assert shown.refused in by_verify
    assert bool(by_verify) is (case in REFUSED), by_verify


def test_no_python_version_is_stricter_than_go() -> None:
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
def test_an_empty_bundle_is_reported(bundle: bytes) -> None:
    with pytest.raises(CertificateError, match="no certificate"):
        trusting(bundle)


def test_certificates_of_rollcall_satisfy_the_strictest_verifier() -> None:
    """A client that scrapes or probes may run a Python version that is stricter than Go."""
    strict = trusting(only(OURS))
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    shown = TRUSTED["our own authority"]
    with (
        tls_listener(server_context(shown.pair)) as port,
        socket.create_connection(("127.0.0.1", port), timeout=LIMIT_SECONDS) as plain,
        strict.wrap_socket(plain, server_hostname=HOST) as connection,
    ):
        assert connection.getpeercert(binary_form=True) == shown.pair.leaf

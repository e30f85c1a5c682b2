"""Certificates for development, and pairs that others made."""

from __future__ import annotations

import socket
import ssl
import stat
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from tests.played import START, PlayedClock
from tests.waiting import LIMIT_SECONDS
from webhook.certificates.files import (
    DEVELOPMENT_HOSTS,
    development_pair,
    load_pair,
    make_development_certificates,
    server_context,
    unusable,
)
from webhook.errors import CertificateError


def handshake(folder: Path, host: str, flags: int = 0) -> str | None:
    """The TLS version that a strict client and a server with the pair in `folder` agree on."""
    listening = socket.create_server(("127.0.0.1", 0))
    context = server_context(load_pair(folder / "tls.crt", folder / "tls.key"))

    def serve() -> None:
        with listening, listening.accept()[0] as plain:
            try:
                context.wrap_socket(plain, server_side=True).close()
            except OSError:
                return

    thread = threading.Thread(target=serve)
    thread.start()
    client = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    client.verify_flags |= flags
    try:
        with (
            socket.create_connection(listening.getsockname(), timeout=LIMIT_SECONDS) as plain,
            client.wrap_socket(plain, server_hostname=host) as secured,
        ):
            return secured.version()
    finally:
        thread.join(LIMIT_SECONDS)


@pytest.mark.parametrize("host", DEVELOPMENT_HOSTS)
def test_a_strict_client_accepts_the_development_certificate_for_each_name(tmp_path: Path, host: str) -> None:
    make_development_certificates(tmp_path)
    assert handshake(tmp_path, host, ssl.VERIFY_X509_STRICT) == "TLSv1.3"


def test_a_client_refuses_the_certificate_for_another_name(tmp_path: Path) -> None:
    make_development_certificates(tmp_path, ["webhook.test"])
    assert handshake(tmp_path, "webhook.test") == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, "example.com")


def test_the_key_is_readable_by_its_owner_only_and_the_authority_key_is_not_stored(tmp_path: Path) -> None:
    make_development_certificates(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ca.crt", "tls.crt", "tls.key"]
    assert stat.S_IMODE((tmp_path / "tls.key").stat().st_mode) == 0o600


def test_a_usable_pair_is_kept_and_an_unusable_one_is_recreated(tmp_path: Path) -> None:
    first = development_pair(tmp_path)
    before = first.certificate.read_bytes()
    assert development_pair(tmp_path).certificate.read_bytes() == before
    assert unusable(tmp_path, ["more.test"]) == "tls.crt is not for more.test"
    assert development_pair(tmp_path, ["more.test"]).certificate.read_bytes() != before


def other_authority(folder: Path) -> None:
    make_development_certificates(folder / "other")
    (folder / "ca.crt").write_bytes((folder / "other" / "ca.crt").read_bytes())


def other_key(folder: Path) -> None:
    make_development_certificates(folder / "other")
    (folder / "tls.key").write_bytes((folder / "other" / "tls.key").read_bytes())


SPOILED: dict[str, tuple[Any, str]] = {
    "nothing there": (lambda folder: (folder / "tls.crt").unlink(), "no such file"),
    "another authority": (other_authority, "tls.crt is not signed by ca.crt"),
    "another key": (other_key, "does not belong to"),
    "half a certificate": (lambda folder: (folder / "tls.crt").write_text("-----BEGIN"), "no certificate"),
}


@pytest.mark.parametrize(("spoil", "why"), SPOILED.values(), ids=SPOILED)
def test_broken_files_are_detected_and_recreated(tmp_path: Path, spoil: Any, why: str) -> None:
    make_development_certificates(tmp_path)
    spoil(tmp_path)
    reason = unusable(tmp_path)
    assert reason is not None
    assert why in reason
    development_pair(tmp_path)
    assert unusable(tmp_path) is None


def test_a_development_pair_that_ends_within_a_day_is_recreated(tmp_path: Path) -> None:
    clock = PlayedClock()
    first = development_pair(tmp_path, clock=clock)
    clock.move((first.not_after - START).total_seconds() - 86_401)
    assert development_pair(tmp_path, clock=clock).leaf == first.leaf
    clock.move(2)
    assert development_pair(tmp_path, clock=clock).leaf != first.leaf


def self_signed(folder: Path, days: tuple[int, int], key: Any = None) -> None:
    private = key or ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(START + timedelta(days=days[0]))
        .not_valid_after(START + timedelta(days=days[1]))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(private, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    write_key(folder, private, serialization.NoEncryption())


def write_key(folder: Path, private: Any, encryption: Any) -> None:
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "tls.key").write_bytes(private.private_bytes(pem, form, encryption))


def test_a_pair_with_another_key_type_is_accepted(tmp_path: Path) -> None:
    self_signed(tmp_path, (-1, 1), rsa.generate_private_key(65537, 2048))
    assert load_pair(tmp_path / "tls.crt", tmp_path / "tls.key", clock=PlayedClock()).key == tmp_path / "tls.key"


def test_a_fault_of_a_pair_is_reported_with_its_file(tmp_path: Path) -> None:
    def why() -> str:
        with pytest.raises(CertificateError) as error:
            load_pair(tmp_path / "tls.crt", tmp_path / "tls.key", clock=PlayedClock())
        return str(error.value).removeprefix(f"{tmp_path}/")

    assert why() == "tls.crt: no such file"
    self_signed(tmp_path, (-2, -1))
    assert why().startswith("tls.crt: expired at ")
    self_signed(tmp_path, (1, 2))
    assert why().startswith("tls.crt: not valid before ")
    self_signed(tmp_path, (-1, 1))
    (tmp_path / "tls.key").write_text("no key")
    assert why().startswith("tls.key: no private key")
    write_key(tmp_path, ec.generate_private_key(ec.SECP256R1()), serialization.BestAvailableEncryption(b"x"))
    assert why().startswith("tls.key: the key is encrypted")
    (tmp_path / "tls.key").unlink()
    (tmp_path / "tls.key").mkdir()
    assert why() == "tls.key: cannot be read: Is a directory"


def test_a_name_that_no_certificate_can_contain_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="bücher"):
        make_development_certificates(tmp_path, ["bücher"])


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CertificateError, match=str(tmp_path / "file" / "certs")):
        make_development_certificates(tmp_path / "file" / "certs")

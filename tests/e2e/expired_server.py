"""A server with a certificate of a valid authority that expired yesterday."""

from __future__ import annotations

import socket
import ssl
import threading
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.e2e.control_plane import Manifest

_PEM = serialization.Encoding.PEM


class ExpiredServer:
    """It makes a handshake, and hangs up."""

    def __init__(self, folder: Path) -> None:
        self._bundle = _write(folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def client_config(self, before: Manifest) -> Manifest:
        """Where a webhook is to find it, which was registered by a URL before."""
        path = before["url"].rpartition("/")[2]
        return {"url": f"https://127.0.0.1:{self._listening.getsockname()[1]}/{path}", "caBundle": self._bundle}

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._listening.accept()
            except OSError:
                return
            try:
                self._context.wrap_socket(plain, server_side=True).close()
            except OSError:
                plain.close()

    def close(self) -> None:
        """Stop serving."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)


def _write(folder: Path) -> str:
    """The pair, as files; what a caBundle says of its authority."""
    key, authority_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = (
        _builder("authority", authority_key, days=30)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    leaf = (
        _builder("expired", key, days=-1)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "tls.crt").write_bytes(leaf.public_bytes(_PEM))
    (folder / "tls.key").write_bytes(private)
    return b64encode(authority.public_bytes(_PEM)).decode()


def _builder(name: str, key: ec.EllipticCurvePrivateKey, *, days: int) -> x509.CertificateBuilder:
    def called(word: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, word)])

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(called(name))
        .issuer_name(called("authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
    )

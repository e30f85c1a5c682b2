"""Certificates: a throw-away authority for development, and loading a pair that somebody else made."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from webhook.authority import issued_by, names_missing, new_authority, new_leaf
from webhook.errors import CertificateError

CA_FILE, CERTIFICATE_FILE, KEY_FILE = "ca.crt", "tls.crt", "tls.key"

# The names by which a cluster calls a Service `rollcall` in namespace `rollcall-system`, and a person this machine.
DEVELOPMENT_HOSTS = (
    "localhost",
    "127.0.0.1",
    "::1",
    "rollcall",
    "rollcall.rollcall-system",
    "rollcall.rollcall-system.svc",
    "rollcall.rollcall-system.svc.cluster.local",
)
_LIFETIME = timedelta(days=90)
# A pair that ends sooner than this is made anew, so that a service started today lasts the day.
_SPARE = timedelta(days=1)


class Pair(NamedTuple):
    """The files of a certificate and its key, and the time between which the certificate holds."""

    certificate: Path
    key: Path
    not_before: datetime
    not_after: datetime


def load_pair(certificate: Path, key: Path) -> Pair:
    """A pair that a TLS server can serve with, now. Raises `CertificateError` with what is wrong with which file."""
    found = _certificate(certificate)
    private = _read(key)
    try:
        loaded = serialization.load_pem_private_key(private, password=None)
    except TypeError:
        raise CertificateError(f"{key}: the key is encrypted; Rollcall reads only keys without a password") from None
    except ValueError:
        raise CertificateError(f"{key}: no private key in PEM form") from None
    public = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    if loaded.public_key().public_bytes(*public) != found.public_key().public_bytes(*public):
        raise CertificateError(f"{key}: the key of another certificate than {certificate}")
    pair = Pair(certificate, key, found.not_valid_before_utc, found.not_valid_after_utc)
    if (why := validity(pair, datetime.now(UTC))) is not None:
        raise CertificateError(f"{certificate}: {why}")
    try:
        server_context(pair)
    except (ssl.SSLError, OSError) as error:
        raise CertificateError(f"{certificate}: {error}") from None
    return pair


def validity(pair: Pair, now: datetime) -> str | None:
    """Why the certificate does not hold `now`, or None."""
    if now < pair.not_before:
        return f"not valid before {pair.not_before:%Y-%m-%d %H:%M:%S} UTC"
    return f"expired at {pair.not_after:%Y-%m-%d %H:%M:%S} UTC" if now >= pair.not_after else None


def server_context(pair: Pair) -> ssl.SSLContext:
    """A TLS context that serves with `pair`; TLS 1.2 or newer, as the API server speaks it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(pair.certificate, pair.key)
    return context


def development_pair(directory: Path, hosts: Iterable[str] = ()) -> Pair:
    """The development pair in `directory`, made anew where it would not do. Raises `CertificateError`."""
    if unusable(directory, hosts) is not None:
        make_development_certificates(directory, hosts)
    return load_pair(directory / CERTIFICATE_FILE, directory / KEY_FILE)


def unusable(directory: Path, hosts: Iterable[str] = ()) -> str | None:
    """Why the development certificates in `directory` will not do, or None."""
    try:
        pair = load_pair(directory / CERTIFICATE_FILE, directory / KEY_FILE)
        leaf, authority = _certificate(pair.certificate), _certificate(directory / CA_FILE)
        missing = names_missing(leaf, (*DEVELOPMENT_HOSTS, *hosts))
    except CertificateError as error:
        return str(error)
    if not issued_by(leaf, authority):
        return f"{CERTIFICATE_FILE} is not of {CA_FILE}"
    if pair.not_after - datetime.now(UTC) < _SPARE:
        return f"{CERTIFICATE_FILE} ends within a day"
    return f"{CERTIFICATE_FILE} is not for {', '.join(missing)}" if missing else None


def make_development_certificates(directory: Path, hosts: Iterable[str] = ()) -> None:
    """Write a new authority's certificate, and a certificate and key that it signed, to `directory`.

    The authority's own key is thrown away: nobody can sign with it, and the next call makes another one. Each file
    appears whole or not at all, the key first; a crash in between leaves a pair that does not match, which `unusable`
    tells. Raises `CertificateError`.
    """
    now = datetime.now(UTC)
    authority = new_authority("rollcall development authority", now, _LIFETIME)
    leaf = new_leaf(authority, (*DEVELOPMENT_HOSTS, *hosts), now, now + _LIFETIME)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _write(directory / KEY_FILE, leaf.key_pem, mode=0o600)
        _write(directory / CERTIFICATE_FILE, leaf.certificate_pem, mode=0o644)
        _write(directory / CA_FILE, authority.certificate_pem, mode=0o644)
    except OSError as error:
        raise CertificateError(f"{directory}: cannot write certificates: {error.strerror}") from None


def read_authorities(path: Path) -> bytes:
    """The certificates in a file, as PEM for a caBundle; whatever else the file holds, such as a key, is left out.

    Raises `CertificateError`.
    """
    try:
        found = x509.load_pem_x509_certificates(_read(path))
    except ValueError:
        raise CertificateError(f"{path}: no certificate in PEM form") from None
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in found)


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError:
        raise CertificateError(f"{path}: no certificate in PEM form") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CertificateError(f"{path}: no such file") from None
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read: {error.strerror}") from None


def _write(path: Path, content: bytes, *, mode: int) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise

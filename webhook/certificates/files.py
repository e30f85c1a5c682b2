"""Certificates: a throw-away authority for development, and loading a pair that somebody else made."""

from __future__ import annotations

import errno
import hashlib
import os
import ssl
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from webhook.certificates.x509 import issued_by, names_missing, new_authority, new_leaf, pem
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
# A chain takes some kilobytes. What is longer is none, and a device has no end.
_MAX_BYTES = 1024 * 1024
# As public keys are compared.
_KEY_FORM = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its chain and its key, as they were read; where from, and between when the certificate holds.

    What was read is kept, so that what is served is what was checked, whatever becomes of the files.
    """

    certificate: Path
    key: Path
    not_before: datetime
    not_after: datetime
    # The server's own certificate, DER: what a client is shown.
    leaf: bytes = field(repr=False)
    chain: bytes = field(repr=False)
    private: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the server's own certificate, in hex."""
        return hashlib.sha256(self.leaf).hexdigest()


def load_pair(certificate: Path, key: Path) -> Pair:
    """A pair that a TLS server can serve with, now. Raises `CertificateError` with what is wrong with which file."""
    return pair_of(certificate, key, read(certificate), read(key))


def pair_of(certificate: Path, key: Path, chain: bytes, private: bytes) -> Pair:
    """The pair that files hold whose contents are given. Raises `CertificateError`, as `load_pair` does."""
    found = _parsed(certificate, chain)
    try:
        loaded = serialization.load_pem_private_key(private, password=None)
    except TypeError:
        raise CertificateError(f"{key}: the key is encrypted; Rollcall reads only keys without a password") from None
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateError(f"{key}: no private key in PEM form") from None
    try:
        public = found.public_key().public_bytes(*_KEY_FORM)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"{certificate}: its key cannot be read: {error}") from None
    own = loaded.public_key().public_bytes(*_KEY_FORM)
    if own != public:
        if own in _public_keys(chain):
            raise CertificateError(f"{certificate}: the certificate of {key} must come first, then those who signed it")
        raise CertificateError(f"{key}: the key of another certificate than {certificate}")
    if not _names_any(found):
        raise CertificateError(f"{certificate}: no subjectAltName, and API servers look for the host nowhere else")
    leaf = found.public_bytes(serialization.Encoding.DER)
    pair = Pair(certificate, key, found.not_valid_before_utc, found.not_valid_after_utc, leaf, chain, private)
    if (why := validity(pair, datetime.now(UTC))) is not None:
        raise CertificateError(f"{certificate}: {why}")
    try:
        server_context(pair)
    except (ssl.SSLError, OSError) as error:
        raise CertificateError(f"{certificate}: {error}") from None
    return pair


def _public_keys(chain: bytes) -> Iterator[bytes]:
    """Of each certificate in a chain that can be read, DER."""
    try:
        for one in x509.load_pem_x509_certificates(chain):
            yield one.public_key().public_bytes(*_KEY_FORM)
    except (ValueError, UnsupportedAlgorithm):
        return


def _names_any(leaf: x509.Certificate) -> bool:
    try:
        return bool(list(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value))
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        return False


def validity(pair: Pair, now: datetime) -> str | None:
    """Why the certificate does not hold `now`, or None."""
    if now < pair.not_before:
        return f"not valid before {pair.not_before:%Y-%m-%d %H:%M:%S} UTC"
    return f"expired at {pair.not_after:%Y-%m-%d %H:%M:%S} UTC" if now >= pair.not_after else None


Context = TypeVar("Context", bound=ssl.SSLContext)


def hardened(context: Context) -> Context:
    """A TLS server's `context` that speaks TLS 1.2 or newer, as every API server does, with forward secrecy and
    authenticated ciphers alone.
    """
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # For TLS 1.2; those of 1.3 are all of this kind.
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    # The API server resumes no sessions; one that was resumed would know nothing of certificates that changed since.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    return context


def server_context(pair: Pair) -> ssl.SSLContext:
    """A TLS context that serves with `pair`."""
    context = hardened(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    load_into(context, pair)
    return context


def load_into(context: ssl.SSLContext, pair: Pair) -> None:
    """Have `context` serve with `pair`."""
    with _as_file(pair.chain) as chain, _as_file(pair.private) as private:
        context.load_cert_chain(chain, private)


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path under which OpenSSL, which takes keys from files alone, finds `content`: in memory, where there is such a
    file, because the disk may be read-only and a key should not lie about.
    """
    if sys.platform == "linux":
        handle = os.memfd_create("rollcall")
        path = f"/proc/self/fd/{handle}"
    else:
        handle, path = tempfile.mkstemp(prefix="rollcall-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            yield path
    finally:
        if sys.platform != "linux":
            Path(path).unlink()


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
    return authorities_of(path, read(path))


def authorities_of(path: Path, content: bytes) -> bytes:
    """The certificates in a file whose content is given, as `read_authorities` says. Raises `CertificateError`."""
    try:
        found = x509.load_pem_x509_certificates(content)
    except ValueError:
        raise CertificateError(f"{path}: no certificate in PEM form") from None
    authorities = pem(found)
    try:
        # What one parser takes another may not, and it is OpenSSL's word that counts in a handshake.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=authorities.decode())
    except ssl.SSLError:
        raise CertificateError(f"{path}: a certificate that OpenSSL cannot read") from None
    return authorities


def _certificate(path: Path) -> x509.Certificate:
    return _parsed(path, read(path))


def _parsed(path: Path, content: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(content)
    except ValueError:
        raise CertificateError(f"{path}: no certificate in PEM form") from None


def read(path: Path) -> bytes:
    """What a file holds, or what comes out of a pipe. Raises `CertificateError` where it cannot be read."""
    return _read(path, os.open)


def read_regular(path: Path) -> bytes:
    """What a file holds that is read again and again. Raises `CertificateError`, also for a pipe or a device: who waits
    for one may wait for ever, and would serve nobody meanwhile.
    """
    return _read(path, _open_regular)


def _open_regular(path: str, flags: int) -> int:
    handle = os.open(path, flags | os.O_NONBLOCK)
    mode = os.fstat(handle).st_mode
    # Of a directory it is said by whoever reads it.
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file")
    return handle


def _read(path: Path, opener: Callable[[str, int], int]) -> bytes:
    try:
        with open(path, "rb", opener=opener) as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise CertificateError(f"{path}: no such file") from None
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read: {error.strerror}") from None
    if len(content) > _MAX_BYTES:
        raise CertificateError(f"{path}: longer than 1 MiB, so neither a certificate nor a key")
    return content


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

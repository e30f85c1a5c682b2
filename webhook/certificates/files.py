"""Certificate files: a temporary authority for development, and loading of pairs made elsewhere."""

from __future__ import annotations

import hashlib
import os
import ssl
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from webhook.certificates.x509 import issued_by, names_missing, new_authority, new_leaf, pem
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.errors import CertificateError, InputError
from webhook.offline.whole_files import Opener, content_of, open_only_regular, replace_file

CA_FILE, CERTIFICATE_FILE, KEY_FILE = "ca.crt", "tls.crt", "tls.key"

# The names that a cluster uses for a Service `rollcall` in namespace `rollcall-system`, and localhost.
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
# A pair that expires sooner is replaced, so that a service started today works for the day.
_SPARE = timedelta(days=1)
# A chain is a few kilobytes. A longer file is not a certificate, and a device may be endless.
_MAX_BYTES = 1024 * 1024
_KEY_FORM = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its chain and key, the paths they came from, and the validity of the certificate.

    The content is kept, so that exactly the checked content is served even if the files change.
    """

    certificate: Path
    key: Path
    not_before: datetime
    not_after: datetime
    # The server's own certificate (DER), which clients receive.
    leaf: bytes = field(repr=False)
    chain: bytes = field(repr=False)
    private: bytes = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the server's own certificate, in hex."""
        return hashlib.sha256(self.leaf).hexdigest()


def load_pair(certificate: Path, key: Path, *, clock: Clock = MACHINE_CLOCK) -> Pair:
    """Returns a pair that a TLS server can use now. Raises `CertificateError` with the file and the problem."""
    return pair_of(certificate, key, read(certificate), read(key), clock=clock)


def pair_of(certificate: Path, key: Path, chain: bytes, private: bytes, *, clock: Clock = MACHINE_CLOCK) -> Pair:
    """Returns the pair in the given file contents. Raises `CertificateError`, like `load_pair`."""
    leaf = _parsed(certificate, chain)
    try:
        loaded = serialization.load_pem_private_key(private, password=None)
    except TypeError:
        raise CertificateError(f"{key}: the key is encrypted; Rollcall reads only keys without a password") from None
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateError(f"{key}: no private key in PEM form") from None
    try:
        public = leaf.public_key().public_bytes(*_KEY_FORM)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"{certificate}: its key cannot be read: {error}") from None
    public_of_key = loaded.public_key().public_bytes(*_KEY_FORM)
    if public_of_key != public:
        if public_of_key in _public_keys(chain):
            raise CertificateError(
                f"{certificate}: the certificate of {key} must come first, then the certificates that signed it"
            )
        raise CertificateError(f"{key}: the key does not belong to {certificate}")
    if not _names_any(leaf):
        raise CertificateError(f"{certificate}: no subjectAltName, and API servers look for the host only there")
    encoded = leaf.public_bytes(serialization.Encoding.DER)
    pair = Pair(certificate, key, leaf.not_valid_before_utc, leaf.not_valid_after_utc, encoded, chain, private)
    if (why := validity(pair, clock.now())) is not None:
        raise CertificateError(f"{certificate}: {why}")
    try:
        server_context(pair)
    except (ssl.SSLError, OSError) as error:
        raise CertificateError(f"{certificate}: {error}") from None
    return pair


def _public_keys(chain: bytes) -> Iterator[bytes]:
    """Yields the public key (DER) of each readable certificate in a chain."""
    try:
        for certificate in x509.load_pem_x509_certificates(chain):
            yield certificate.public_key().public_bytes(*_KEY_FORM)
    except (ValueError, UnsupportedAlgorithm):
        return


def _names_any(leaf: x509.Certificate) -> bool:
    try:
        return bool(list(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value))
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        return False


def validity(pair: Pair, now: datetime) -> str | None:
    """Returns why the certificate is not valid at `now`, or None."""
    if now < pair.not_before:
        return f"not valid before {pair.not_before:%Y-%m-%d %H:%M:%S} UTC"
    return f"expired at {pair.not_after:%Y-%m-%d %H:%M:%S} UTC" if now >= pair.not_after else None


Context = TypeVar("Context", bound=ssl.SSLContext)


def hardened(context: Context) -> Context:
    """Restricts a TLS server's `context` to TLS 1.2 or newer and to authenticated ciphers with forward secrecy.

    Every API server supports these.
    """
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # For TLS 1.2; all ciphers of TLS 1.3 have these properties.
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    # The API server does not resume sessions. A resumed session would ignore changed certificates.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    return context


def server_context(pair: Pair) -> ssl.SSLContext:
    """Returns a TLS context that serves with `pair`."""
    context = hardened(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    load_into(context, pair)
    return context


def load_into(context: ssl.SSLContext, pair: Pair) -> None:
    """Makes `context` serve with `pair`."""
    with _temporary_file(pair.chain) as chain, _temporary_file(pair.private) as private:
        context.load_cert_chain(chain, private)


@contextmanager
def _temporary_file(content: bytes) -> Iterator[str]:
    """Returns a path where OpenSSL can read `content`: OpenSSL reads keys only from files.

    The file is in memory if the platform supports it: the disk may be read-only, and a key should not stay on it.
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


def development_pair(directory: Path, hosts: Iterable[str] = (), *, clock: Clock = MACHINE_CLOCK) -> Pair:
    """Returns the development pair in `directory`; created again if unusable. Raises `CertificateError`."""
    if unusable(directory, hosts, clock=clock) is not None:
        make_development_certificates(directory, hosts, clock=clock)
    return load_pair(directory / CERTIFICATE_FILE, directory / KEY_FILE, clock=clock)


def unusable(directory: Path, hosts: Iterable[str] = (), *, clock: Clock = MACHINE_CLOCK) -> str | None:
    """Returns why the development certificates in `directory` cannot be used, or None."""
    try:
        pair = load_pair(directory / CERTIFICATE_FILE, directory / KEY_FILE, clock=clock)
        leaf, authority = _certificate(pair.certificate), _certificate(directory / CA_FILE)
        missing = names_missing(leaf, (*DEVELOPMENT_HOSTS, *hosts))
    except CertificateError as error:
        return str(error)
    if not issued_by(leaf, authority):
        return f"{CERTIFICATE_FILE} is not signed by {CA_FILE}"
    if pair.not_after - clock.now() < _SPARE:
        return f"{CERTIFICATE_FILE} ends within a day"
    return f"{CERTIFICATE_FILE} is not for {', '.join(missing)}" if missing else None


def make_development_certificates(directory: Path, hosts: Iterable[str] = (), *, clock: Clock = MACHINE_CLOCK) -> None:
    """Writes a new authority's certificate, and a certificate and key that it signed, to `directory`.

    The authority's own key is discarded: it cannot sign again, and the next call makes another authority. Each file is
    written atomically, the key first. After a crash in between the pair does not match, which `unusable` reports.
    Raises `CertificateError`.
    """
    now = clock.now()
    authority = new_authority("rollcall development authority", now, _LIFETIME)
    leaf = new_leaf(authority, (*DEVELOPMENT_HOSTS, *hosts), now, now + _LIFETIME)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        replace_file(directory / KEY_FILE, leaf.key_pem, mode=0o600)
        replace_file(directory / CERTIFICATE_FILE, leaf.certificate_pem, mode=0o644)
        replace_file(directory / CA_FILE, authority.certificate_pem, mode=0o644)
    except OSError as error:
        raise CertificateError(f"{directory}: cannot write certificates: {error.strerror}") from None


def read_authorities(path: Path) -> bytes:
    """Returns the certificates in a file, as PEM for a caBundle; other content, such as a key, is left out.

    Raises `CertificateError`.
    """
    return authorities_of(path, read(path))


def authorities_of(path: Path, content: bytes) -> bytes:
    """Returns the certificates in the content of a file, like `read_authorities`. Raises `CertificateError`."""
    try:
        certificates = x509.load_pem_x509_certificates(content)
    except ValueError:
        raise CertificateError(f"{path}: no certificate in PEM form") from None
    authorities = pem(certificates)
    try:
        # OpenSSL does the handshakes, and may refuse what another parser accepts.
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
    """Returns the content of a file or pipe. Raises `CertificateError` if it cannot be read."""
    return _read(path, os.open)


def read_regular(path: Path) -> bytes:
    """Returns the content of a file that is read repeatedly. Raises `CertificateError`, also for a pipe or device.

    Reading a pipe or device may block forever and stop the server.
    """
    return _read(path, open_only_regular)


def _read(path: Path, opener: Opener) -> bytes:
    try:
        return content_of(path, opener, most=_MAX_BYTES)
    except InputError:
        raise CertificateError(f"{path}: longer than 1 MiB, so it is neither a certificate nor a key") from None
    except FileNotFoundError:
        raise CertificateError(f"{path}: no such file") from None
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read: {error.strerror}") from None

"""TLS: certificates, keys and client CAs that are reloaded from files.

The listening context has no certificate. In each handshake its callback switches to a context that was built from the
last valid content of the files. So a change needs no restart and affects no open connection. Invalid content is
reported in `refused` and in the metrics, and the last valid certificate stays in use.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from webhook.certificates.files import Pair, authorities_of, hardened, load_into, pair_of, read_regular
from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.cluster.logs import log
from webhook.errors import CertificateError
from webhook.server.metrics import CLIENT_AUTHORITIES, NEXT, SERVING, LifeMetrics

Value = TypeVar("Value")


class PairFiles(NamedTuple):
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


class FileContent(Generic[Value]):
    """The content of some files: `value` is the last valid one, `refused` says why the current content is not used."""

    def __init__(
        self, name: str, paths: tuple[Path, ...], take: Callable[[list[bytes]], Value], metrics: LifeMetrics
    ) -> None:
        """`take` makes the value from the contents of the files, or raises `CertificateError`."""
        self.name = name
        self.value: Value | None = None
        self.refused: str | None = None
        self._paths = paths
        self._take = take
        self._metrics = metrics
        self._contents: list[bytes] | None = None
        self._first = True

    def look(self) -> bool:
        """Reads the files and keeps a new valid value. Returns whether the value changed."""
        try:
            contents = [read_regular(path) for path in self._paths]
            if contents == self._contents:
                self._accepted()
                return False
            # Refused content is checked again each time: a certificate may become valid later.
            value = self._take(contents)
        except CertificateError as error:
            self._refuse(str(error))
            return False
        self._contents, self.value = contents, value
        self._metrics.reloads[self.name, "loaded"].inc()
        if not self._first:
            log.info("certificate loaded", certificate=self.name, file=str(self._paths[0]))
        self._accepted()
        return True

    def forget(self) -> bool:
        """Drops the value and returns whether there was one. Missing files are then not an error."""
        had = self.value is not None
        self._contents = self.value = None
        self._accepted()
        return had

    def gone(self) -> bool:
        """Returns whether none of the files exists."""
        return all(_is_gone(path) for path in self._paths)

    def _accepted(self) -> None:
        self._first = False
        self.refused = None
        self._metrics.refused[self.name].set(0)

    def _refuse(self, why: str) -> None:
        self._first = False
        if why != self.refused:
            self.refused = why
            self._metrics.reloads[self.name, "refused"].inc()
            self._metrics.refused[self.name].set(1)
            served = "none" if self.value is None else "the one before"
            log.warning("certificate refused", certificate=self.name, why=why, served=served)


def _is_gone(path: Path) -> bool:
    """Returns whether the file does not exist. False if that is unknown: reading it reports why."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


class PairContext(ssl.SSLContext):
    """A context with the pair that it serves."""

    pair: Pair


class Tls:
    """The certificate that one port serves, and the client certificates that it requires."""

    def __init__(
        self,
        name: str,
        files: PairFiles,
        metrics: LifeMetrics,
        client_ca: Path | None = None,
        *,
        optional: bool = False,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        """With `client_ca` every client must have a certificate signed by it. With `optional` the files of the pair may
        be missing; then every handshake fails.
        """
        self.pair = FileContent(name, tuple(files), lambda contents: pair_of(*files, *contents, clock=clock), metrics)
        self.authorities: FileContent[bytes] | None = None
        if client_ca is not None:
            self.authorities = FileContent(
                CLIENT_AUTHORITIES, (client_ca,), lambda contents: authorities_of(client_ca, contents[0]), metrics
            )
        self._optional = optional
        self._metrics = metrics
        self._shown: PairContext | None = None
        self.listening = hardened(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self.listening.sni_callback = self._show
        if client_ca is not None:
            # The listening context decides whether a client certificate is requested; the switched context decides
            # which CA is trusted.
            self.listening.verify_mode = ssl.CERT_REQUIRED

    @property
    def kept(self) -> tuple[FileContent[Pair] | FileContent[bytes], ...]:
        """Everything that is read from files."""
        return (self.pair,) if self.authorities is None else (self.pair, self.authorities)

    def look(self) -> None:
        """Reads the files. From the next handshake on, serves the content if it is valid."""
        if self._optional and self.pair.gone():
            changed = self.pair.forget()
        else:
            # Read all of them, even if the first is refused.
            changed = True in {kept.look() for kept in self.kept}
        if changed:
            self._shown = self._context()
            ends = 0.0 if self.pair.value is None else self.pair.value.not_after.timestamp()
            self._metrics.expiry[self.pair.name].set(ends)

    def _context(self) -> PairContext | None:
        pair = self.pair.value
        if pair is None or (self.authorities is not None and self.authorities.value is None):
            return None
        context = hardened(PairContext(ssl.PROTOCOL_TLS_SERVER))
        load_into(context, pair)
        context.pair = pair
        if self.authorities is not None and self.authorities.value is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=self.authorities.value.decode())
        return context

    def _show(self, connection: ssl.SSLObject, _name: str | None, _listening: ssl.SSLContext) -> int | None:
        """Switches the context. OpenSSL calls this in each handshake, even without a server name."""
        if self._shown is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._shown
        return None


def serving_tls(
    files: PairFiles, metrics: LifeMetrics, client_ca: Path | None = None, *, clock: Clock = MACHINE_CLOCK
) -> Tls:
    """Returns the TLS of the serving port."""
    return Tls(SERVING, files, metrics, client_ca, clock=clock)


def next_tls(files: PairFiles, metrics: LifeMetrics, *, clock: Clock = MACHINE_CLOCK) -> Tls:
    """Returns the TLS of the next port: the next pair, if there is one."""
    return Tls(NEXT, files, metrics, optional=True, clock=clock)

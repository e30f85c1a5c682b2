"""TLS: certificates, keys and client authorities that are read from files again and again.

The listening context has no certificate of its own: with each handshake its callback changes to a context that was
built and checked beforehand from the last good content of the files. So a change needs no restart and touches no
connection, and bad content changes nothing: it is told, in `refused` and in the metrics, while the last good one goes
on serving.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from webhook.certificates.files import Pair, authorities_of, hardened, load_into, pair_of, read_regular
from webhook.errors import CertificateError
from webhook.server.life_metrics import CLIENT_AUTHORITIES, NEXT, SERVING, LifeMetrics
from webhook.telemetry.logs import log

Value = TypeVar("Value")


class PairFiles(NamedTuple):
    """Where a certificate and its key are to be found."""

    certificate: Path
    key: Path


class Kept(Generic[Value]):
    """What some files hold: `value` is the last that was good, `refused` says why what they hold now is another."""

    def __init__(
        self, name: str, paths: tuple[Path, ...], take: Callable[[list[bytes]], Value], metrics: LifeMetrics
    ) -> None:
        """`take` makes the value of the files' contents, or raises `CertificateError`."""
        self.name = name
        self.value: Value | None = None
        self.refused: str | None = None
        self._paths = paths
        self._take = take
        self._metrics = metrics
        self._contents: list[bytes] | None = None
        self._first = True

    def look(self) -> bool:
        """Read the files, and take what they hold where that is good and new; whether the value changed."""
        try:
            contents = [read_regular(path) for path in self._paths]
            if contents == self._contents:
                self._accepted()
                return False
            # Judged again each time while it is refused: a certificate may become valid by waiting.
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
        """Be without a value; whether there was one. Files that are gone are no mistake then."""
        had = self.value is not None
        self._contents = self.value = None
        self._accepted()
        return had

    def gone(self) -> bool:
        """Whether none of the files is there."""
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
    """Whether there is no such file; not where that cannot be known, and reading it says why."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


class PairContext(ssl.SSLContext):
    """A context that serves with a pair, and knows which."""

    pair: Pair


class Tls:
    """What one port shows, and whom it asks for a certificate."""

    def __init__(
        self,
        name: str,
        files: PairFiles,
        metrics: LifeMetrics,
        client_ca: Path | None = None,
        *,
        optional: bool = False,
    ) -> None:
        """With `client_ca` every client must have a certificate that it signed. `optional`: the pair's files may be
        away, and then there is nothing to show.
        """
        self.pair = Kept(name, tuple(files), lambda contents: pair_of(*files, *contents), metrics)
        self.authorities: Kept[bytes] | None = None
        if client_ca is not None:
            self.authorities = Kept(
                CLIENT_AUTHORITIES, (client_ca,), lambda contents: authorities_of(client_ca, contents[0]), metrics
            )
        self._optional = optional
        self._metrics = metrics
        self._shown: PairContext | None = None
        self.listening = hardened(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        self.listening.sni_callback = self._show
        if client_ca is not None:
            # Who is asked is settled by the context that listens, who is believed by the one that is shown.
            self.listening.verify_mode = ssl.CERT_REQUIRED

    @property
    def kept(self) -> tuple[Kept[Pair] | Kept[bytes], ...]:
        """Everything that is read."""
        return (self.pair,) if self.authorities is None else (self.pair, self.authorities)

    def look(self) -> None:
        """Read the files, and show what they hold from the next handshake on, where it is good."""
        if self._optional and self.pair.gone():
            changed = self.pair.forget()
        else:
            # All of them are looked at, whatever the first says.
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
        """Called by OpenSSL in each handshake, also where the client names no server."""
        if self._shown is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._shown
        return None


def serving_tls(files: PairFiles, metrics: LifeMetrics, client_ca: Path | None = None) -> Tls:
    """What the serving port shows."""
    return Tls(SERVING, files, metrics, client_ca)


def next_tls(files: PairFiles, metrics: LifeMetrics) -> Tls:
    """What the next port shows: the pair that is to follow, where there is one."""
    return Tls(NEXT, files, metrics, optional=True)

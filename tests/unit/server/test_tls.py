"""The presented certificate: the last valid content of the files, whatever they contain now."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from tests.played import PlayedClock
from tests.unit.server.certificate_issuer import Authority
from tests.unit.server.server_process import trusting
from tests.waiting import LIMIT_SECONDS
from webhook.certificates.files import Pair, load_pair
from webhook.cluster.clock import MACHINE_CLOCK
from webhook.server.metrics import LifeMetrics
from webhook.server.tls import PairFiles, Tls, next_tls, serving_tls

DAY = 86_400.0


class Port:
    """A port that answers one handshake at a time with what `tls` shows, and metrics of it."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.files = self.authority.issue("tls")
        self.good = self.pair()
        self.registry = CollectorRegistry()
        self.metrics = LifeMetrics(self.registry)
        # Clients check certificates by the clock of the machine.
        self.clock = PlayedClock(MACHINE_CLOCK.now())
        self.tls = serving_tls(self.files, self.metrics, clock=self.clock)

    def pair(self) -> Pair:
        """What the files hold."""
        return load_pair(*self.files)

    def series(self, name: str, **labels: str) -> float | None:
        """The value of a series."""
        return self.registry.get_sample_value(f"rollcall_certificate_{name}", labels)

    def shown(self, client: ssl.SSLContext | None = None, name: str | None = "localhost") -> bytes | None:
        """What a strict client is shown."""
        return shown_by(self.tls, client or trusting(self.authority.file), name)


def shown_by(tls: Tls, client: ssl.SSLContext, name: str | None = "localhost") -> bytes | None:
    """The certificate that `client` accepts. Raises `ssl.SSLError` or `ConnectionError`, as the client sees it."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listening, listening.accept()[0] as plain:
            try:
                # Without a memory BIO, as blocking servers do; the callback is called all the same.
                with tls.listening.wrap_socket(plain, server_side=True) as secured:
                    secured.recv(1)
            except OSError:
                return

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with (
            socket.create_connection(listening.getsockname(), timeout=LIMIT_SECONDS) as plain,
            client.wrap_socket(plain, server_hostname=name) as secured,
        ):
            return secured.getpeercert(binary_form=True)
    finally:
        thread.join(LIMIT_SECONDS)


@pytest.fixture
def port(tmp_path: Path) -> Port:
    """A port whose good pair is loaded."""
    made = Port(tmp_path)
    made.tls.look()
    return made


def cut_in_two(port: Port) -> None:
    content = port.files.certificate.read_bytes()
    port.files.certificate.write_bytes(content[: len(content) // 2])


def a_directory(port: Port) -> None:
    port.files.certificate.unlink()
    port.files.certificate.mkdir()


def half_exchanged(port: Port) -> None:
    port.files.certificate.write_bytes(port.authority.issue("other").certificate.read_bytes())


def broken_chain(port: Port) -> None:
    with port.files.certificate.open("ab") as file:
        file.write(b"-----BEGIN CERTIFICATE-----\nTm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n")


def many_zeros(port: Port) -> None:
    port.files.key.write_bytes(bytes(4096))


def a_pipe(port: Port) -> None:
    """No client ever writes to it."""
    port.files.certificate.unlink()
    os.mkfifo(port.files.certificate)


def a_device(port: Port) -> None:
    port.files.key.unlink()
    port.files.key.symlink_to("/dev/zero")


def authority_first(port: Port) -> None:
    port.files.certificate.write_bytes(port.authority.file.read_bytes() + port.files.certificate.read_bytes())


BAD: dict[str, tuple[Callable[[Port], object], str]] = {
    "expired": (lambda port: port.authority.issue("tls", (-2, -1)), "tls.crt: expired at "),
    "not valid yet": (lambda port: port.authority.issue("tls", (1, 2)), "tls.crt: not valid before "),
    "a key that does not match": (half_exchanged, "tls.key: the key does not"),
    "empty": (lambda port: port.files.certificate.write_bytes(b""), "tls.crt: no certificate"),
    "an empty key": (lambda port: port.files.key.write_bytes(b""), "tls.key: no private key"),
    "zeros, as after a crash": (many_zeros, "tls.key: no private key"),
    "half written": (cut_in_two, "tls.crt: no certificate"),
    "a broken chain": (broken_chain, "tls.crt: "),
    "a directory": (a_directory, "tls.crt: cannot be read: Is a directory"),
    "a pipe": (a_pipe, "tls.crt: cannot be read: it is not a regular file"),
    "a device": (a_device, "tls.key: cannot be read: it is not a regular file"),
    "longer than any chain": (lambda port: port.files.key.write_bytes(bytes(2**20 + 1)), "tls.key: longer than 1 MiB"),
    "a chain in the wrong order": (authority_first, "tls.crt: the certificate of "),
    "no host": (lambda port: port.authority.issue("tls", hosts=()), "tls.crt: no subjectAltName"),
    "gone": (lambda port: port.files.key.unlink(), "tls.key: no such file"),
}


@pytest.mark.parametrize(("spoil", "why"), BAD.values(), ids=BAD)
def test_invalid_files_keep_the_old_pair_and_are_reported(
    port: Port, tmp_path: Path, spoil: Callable[[Port], object], why: str
) -> None:
    spoil(port)
    with capture_logs() as lines:
        port.tls.look()
        port.tls.look()
    assert port.shown() == port.good.leaf
    assert port.tls.pair.refused is not None
    assert port.tls.pair.refused.startswith(f"{tmp_path}/{why}")
    # Told once, however often it is looked at.
    assert [(line["event"], line["served"]) for line in lines] == [("certificate refused", "the one before")]
    assert port.series("refused", certificate="serving") == 1
    assert port.series("reloads_total", certificate="serving", outcome="refused") == 1
    assert port.series("reloads_total", certificate="serving", outcome="loaded") == 1
    assert port.series("expiry_timestamp_seconds", certificate="serving") == port.good.not_after.timestamp()


@pytest.mark.parametrize("days", [-30, -2, 2, 30, 4000])
def test_a_pair_that_a_wrong_date_refuses_is_served_when_the_date_is_right(port: Port, days: int) -> None:
    port.clock.jump(days * DAY)
    port.authority.issue("tls")
    port.tls.look()
    assert port.tls.pair.refused
    # What it served stays: who connects goes by another clock.
    assert port.shown() == port.good.leaf
    port.clock.jump(-days * DAY)
    port.tls.look()
    assert not port.tls.pair.refused
    assert port.shown() == port.pair().leaf != port.good.leaf


@pytest.mark.parametrize("spoil", [spoil for spoil, _ in BAD.values()], ids=BAD)
def test_valid_files_are_served_again_after_invalid_ones(port: Port, spoil: Callable[[Port], object]) -> None:
    spoil(port)
    port.tls.look()
    for file in port.files:
        if file.is_dir():
            file.rmdir()
        else:
            # Writing to a pipe would wait for a reader.
            file.unlink(missing_ok=True)
    port.authority.issue("tls")
    port.tls.look()
    assert port.tls.pair.refused is None
    assert port.series("refused", certificate="serving") == 0
    assert port.shown() == port.pair().leaf != port.good.leaf


def test_restoring_the_old_content_is_not_a_reload(port: Port) -> None:
    before = port.files.certificate.read_bytes()
    cut_in_two(port)
    port.tls.look()
    port.files.certificate.write_bytes(before)
    port.tls.look()
    assert (port.tls.pair.refused, port.shown()) == (None, port.good.leaf)
    assert port.series("reloads_total", certificate="serving", outcome="loaded") == 1


def test_a_pair_that_is_not_valid_yet_is_used_once_it_is_valid(port: Port) -> None:
    port.authority.issue("tls")
    port.clock.move(-2 * DAY)
    port.tls.look()
    assert (port.tls.pair.refused is None, port.shown()) == (False, port.good.leaf)
    # Nothing changes in the files; only time passes.
    port.clock.move(2 * DAY)
    port.tls.look()
    assert (port.tls.pair.refused is None, port.shown()) == (True, port.pair().leaf)
    assert port.shown() != port.good.leaf


def test_without_a_pair_there_is_no_handshake(tmp_path: Path) -> None:
    port = Port(tmp_path)
    for name in ("localhost", "example.com"):
        with pytest.raises(ssl.SSLError, match="INTERNAL_ERROR"):
            port.shown(name=name)


def test_a_client_without_sni_gets_the_same_certificate(port: Port) -> None:
    # The API server names none where it was given an address.
    assert port.shown(name="127.0.0.1") == port.good.leaf


def test_an_open_connection_keeps_its_certificate_and_the_next_gets_the_new_one(port: Port) -> None:
    client = trusting(port.authority.file)
    ours, theirs = socket.socketpair()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = port.tls.listening.wrap_bio(incoming, outgoing, server_side=True)
    thread = threading.Thread(target=lambda: pump(server, incoming, outgoing, theirs))
    thread.start()
    with theirs, client.wrap_socket(ours, server_hostname="localhost") as secured:
        thread.join(LIMIT_SECONDS)
        port.authority.issue("tls")
        port.tls.look()
        server.write(b"still here")
        theirs.sendall(outgoing.read())
        assert secured.recv(100) == b"still here"
        assert secured.getpeercert(binary_form=True) == port.good.leaf
    assert port.shown(client) == port.pair().leaf


def pump(server: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, to: socket.socket) -> None:
    while True:
        try:
            server.do_handshake()
        except ssl.SSLWantReadError:
            to.sendall(outgoing.read())
            incoming.write(to.recv(65536))
        else:
            to.sendall(outgoing.read())
            return


OLD = {"TLS 1.1": ssl.TLSVersion.TLSv1_1, "TLS 1.0": ssl.TLSVersion.TLSv1}


@pytest.mark.parametrize("version", OLD.values(), ids=OLD)
def test_an_old_tls_is_refused(port: Port, version: ssl.TLSVersion) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        client = trusting(port.authority.file, version=version)
    # At its usual level OpenSSL speaks neither; only a client that is ready to shows that it is the server who refuses.
    client.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        port.shown(client)


CIPHERS = {
    "ECDHE-ECDSA-AES128-GCM-SHA256": True,
    "ECDHE-ECDSA-CHACHA20-POLY1305": True,
    "ECDHE-ECDSA-AES128-SHA256": False,
    "ECDHE-ECDSA-AES256-SHA": False,
    "AES128-GCM-SHA256": False,
    "DHE-RSA-AES128-GCM-SHA256": False,
}


@pytest.mark.parametrize(("cipher", "accepted"), CIPHERS.items(), ids=CIPHERS)
def test_tls_1_2_allows_modern_ciphers_only(port: Port, cipher: str, accepted: bool) -> None:
    client = trusting(port.authority.file, version=ssl.TLSVersion.TLSv1_2)
    client.set_ciphers(cipher)
    if accepted:
        assert port.shown(client) == port.good.leaf
    else:
        with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
            port.shown(client)


def test_no_tls_session_is_resumed_over_another_connection(port: Port) -> None:
    # What was resumed would have been shown no certificate, and asked for none.
    context = port.tls.listening
    assert context.options & ssl.OP_NO_TICKET
    assert context.num_tickets == 0
    # A session is not renegotiated within its connection either.
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_every_series_exists_before_the_first_file_is_read(tmp_path: Path) -> None:
    port = Port(tmp_path)
    for name in ("serving", "next", "client-ca"):
        assert port.series("refused", certificate=name) == 0
        for outcome in ("loaded", "refused"):
            assert port.series("reloads_total", certificate=name, outcome=outcome) == 0
    for name in ("serving", "next"):
        assert port.series("expiry_timestamp_seconds", certificate=name) == 0
    for name in ("rollcall_draining", "rollcall_connections", "rollcall_connections_recycled_total"):
        assert port.registry.get_sample_value(name) == 0


def test_the_next_pair_is_optional_and_can_appear_and_disappear(port: Port, tmp_path: Path) -> None:
    files = PairFiles(tmp_path / "next.crt", tmp_path / "next.key")
    following = next_tls(files, port.metrics)
    client = trusting(port.authority.file)
    following.look()
    assert port.series("refused", certificate="next") == 0
    with pytest.raises(ssl.SSLError, match="INTERNAL_ERROR"):
        shown_by(following, client)
    pair = load_pair(*port.authority.issue("next"))
    following.look()
    assert shown_by(following, client) == pair.leaf
    assert port.series("expiry_timestamp_seconds", certificate="next") == pair.not_after.timestamp()
    files.key.unlink()
    following.look()
    # One of two files is a mistake, none of them is none.
    assert port.series("refused", certificate="next") == 1
    assert shown_by(following, client) == pair.leaf
    files.certificate.unlink()
    following.look()
    assert port.series("refused", certificate="next") == 0
    assert port.series("expiry_timestamp_seconds", certificate="next") == 0
    with pytest.raises(ssl.SSLError, match="INTERNAL_ERROR"):
        shown_by(following, client)


def test_an_unreadable_next_pair_is_reported(port: Port, tmp_path: Path) -> None:
    # Like an unreadable folder, which root could read anyway.
    files = PairFiles(tmp_path / ("x" * 300), tmp_path / ("y" * 300))
    following = next_tls(files, port.metrics)
    following.look()
    assert following.pair.refused == f"{files.certificate}: cannot be read: File name too long"
    assert port.series("refused", certificate="next") == 1

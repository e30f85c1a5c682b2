"""Inspection of servers: real handshakes, with a valid certificate, one of another authority, and one for
another host.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from tests.played import PlayedClock
from tests.tls_listener import tls_listener
from webhook.certificates.files import CA_FILE, CERTIFICATE_FILE, KEY_FILE, make_development_certificates
from webhook.operations.snapshot_reader import Endpoint, SeenEndpoint, clock_offset, observe_endpoints

Serve = Callable[..., int]
# It stands still.
CLOCK = PlayedClock()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serve with a development certificate, answering each request with this: `serve(answer)` gives the port."""
    make_development_certificates(tmp_path)
    with ExitStack() as listeners:

        def started(answer: bytes = b"") -> int:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tmp_path / CERTIFICATE_FILE, tmp_path / KEY_FILE)
            return listeners.enter_context(tls_listener(context, answer))

        yield started


def bundle(folder: Path) -> str:
    return b64encode((folder / CA_FILE).read_bytes()).decode()


def look(endpoint: Endpoint, *bundles: str) -> SeenEndpoint:
    (seen,) = asyncio.run(observe_endpoints([endpoint], bundles, clock=CLOCK))
    return seen


def test_a_presented_certificate_is_trusted_by_its_authority(serve: Serve, tmp_path: Path) -> None:
    seen = look(Endpoint("127.0.0.1", serve(), "rollcall.rollcall-system.svc"), bundle(tmp_path))
    expected = ssl.PEM_cert_to_DER_cert((tmp_path / CERTIFICATE_FILE).read_text())
    assert seen.presented.certificate == expected
    assert dict(seen.presented.refused) == {}
    assert seen.clock is None


def test_another_authority_and_another_host_are_reported(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    make_development_certificates(tmp_path / "other")
    right, other = bundle(tmp_path), bundle(tmp_path / "other")
    seen = look(Endpoint("127.0.0.1", serve(), "rollcall"), right, other)
    assert list(seen.presented.refused) == [other]
    assert "local issuer" in seen.presented.refused[other]
    elsewhere = look(Endpoint("127.0.0.1", serve(), "rollcall.default.svc"), right)
    assert "Hostname mismatch" in elsewhere.presented.refused[right]


def test_an_invalid_bundle_is_not_used_for_verification(serve: Serve) -> None:
    seen = look(Endpoint("127.0.0.1", serve(), "rollcall"), b64encode(b"nonsense").decode())
    assert dict(seen.presented.refused) == {}


def test_the_clock_is_read_from_the_answer(serve: Serve) -> None:
    ahead = format_datetime(CLOCK.now() + timedelta(hours=1), usegmt=True)
    port = serve(f"HTTP/1.1 200 OK\r\nDate: {ahead}\r\n\r\nok".encode())
    seen = look(Endpoint("127.0.0.1", port, "rollcall"))
    assert seen.clock is not None
    assert seen.clock.whose == f"https://127.0.0.1:{port}"
    assert seen.clock.ahead == 3600.5


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nDate: soon\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_answer_without_a_date_gives_no_time(serve: Serve, answer: bytes) -> None:
    assert look(Endpoint("127.0.0.1", serve(answer), "rollcall")).clock is None


def test_an_unreachable_server_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    seen = look(Endpoint("127.0.0.1", port, "rollcall"))
    assert (seen.presented.certificate, seen.presented.trouble) == (None, "Connection refused")


def test_a_server_that_ends_between_two_handshakes_is_not_reported_as_untrusted(tmp_path: Path) -> None:
    make_development_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / CERTIFICATE_FILE, tmp_path / KEY_FILE)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]

    def serve_once() -> None:
        plain, _ = listening.accept()
        listening.close()
        with suppress(OSError), context.wrap_socket(plain, server_side=True) as shown:
            shown.recv(4096)

    serving = threading.Thread(target=serve_once, daemon=True)
    serving.start()
    seen = look(Endpoint("127.0.0.1", port, "rollcall"), bundle(tmp_path))
    serving.join(10)
    assert dict(seen.presented.refused) == {}
    assert (seen.presented.certificate, seen.presented.trouble) == (None, "Connection refused")


def test_addresses_are_written_as_in_a_url() -> None:
    assert str(Endpoint("fd00::1", 8443, "rollcall")) == "https://[fd00::1]:8443"
    assert str(Endpoint("10.0.0.1", 8443, "rollcall")) == "https://10.0.0.1:8443"


def test_half_of_a_slow_answer_s_time_is_attributed_to_the_network() -> None:
    now = CLOCK.now()
    offset = clock_offset("it", format_datetime(now, usegmt=True), now - timedelta(seconds=4), now)
    assert offset.ahead == 4 + 0.5 - 2

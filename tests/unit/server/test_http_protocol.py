"""Unusual and invalid HTTP over real TLS. The next client is always answered."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from tests.unit.server.certificate_issuer import Authority
from tests.unit.server.conftest import review
from tests.unit.server.server_process import ServingProcess, eventually, serving_process, trusting
from tests.waiting import LIMIT_SECONDS

BODY = json.dumps(review()).encode()
POST = b"POST /validate?timeout=30s HTTP/1.1\r\nHost: rollcall\r\n"
_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) .*?\r\n\r\n", re.DOTALL)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[ServingProcess]:
    """One process for all of them: what one did to it is seen by the next."""
    folder = tmp_path_factory.mktemp("server")
    with serving_process(folder, authority.issue("tls"), "--drain", "0") as found:
        yield found


class Wire:
    """A connection, byte by byte."""

    def __init__(self, server: ServingProcess, authority: Authority) -> None:
        plain = socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_SECONDS)
        self._secured = trusting(authority.file).wrap_socket(plain, server_hostname="localhost")
        self.said = b""

    def send(self, *parts: bytes) -> Wire:
        """Send these; a server that has hung up is no error of the client's."""
        with suppress(ConnectionError, ssl.SSLError):
            for part in parts:
                self._secured.sendall(part)
        return self

    def read(self, answers: int | None = None) -> bytes:
        """What the server says, until it has said so many answers; without a number until it hangs up."""
        while answers is None or len(self.statuses) < answers:
            try:
                found = self._secured.recv(65536)
            except (ConnectionError, ssl.SSLError):
                found = b""
            if not found:
                assert answers is None, f"the server hung up after {self.said!r}"
                break
            self.said += found
        return self.said

    @property
    def statuses(self) -> list[int]:
        """Of each answer that is here as a whole."""
        found, left = [], self.said
        while (begun := _HEAD.match(left)) is not None:
            length = re.search(rb"content-length: (\d+)", begun[0])
            end = begun.end() + (0 if length is None else int(length[1]))
            if len(left) < end:
                break
            found.append(int(begun[1]))
            left = left[end:]
        return found

    def close(self) -> None:
        """Hang up."""
        self._secured.close()


@pytest.fixture
def wire(server: ServingProcess, authority: Authority) -> Iterator[Wire]:
    with closing(Wire(server, authority)) as found:
        yield found
    # Whatever was done, the server answers others.
    with closing(Wire(server, authority)) as other:
        other.send(whole(BODY)).read(1)
        assert other.statuses == [200]


def whole(body: bytes, head: bytes = POST) -> bytes:
    return head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body


def chunk(body: bytes) -> bytes:
    return f"{len(body):x}\r\n".encode() + body + b"\r\n"


def test_pipelined_requests_are_answered_in_order(wire: Wire) -> None:
    said = wire.send(whole(BODY) + whole(b"{") + whole(BODY, POST.replace(b"/validate", b"/mutate"))).read(3)
    assert wire.statuses == [200, 400, 200]
    assert said.count(b'"uid"') == 2


def test_a_request_that_is_not_http_is_logged(wire: Wire, server: ServingProcess) -> None:
    wire.send(b"hello\r\n\r\n").read()
    assert wire.statuses == [400]
    eventually(lambda: {line.get("library") for line in server.lines()} == {None, "uvicorn.error"}, "it is logged")


def test_a_request_can_arrive_byte_by_byte(wire: Wire) -> None:
    small = b'{"kind":"x"}'
    request = whole(small)
    wire.send(*(request[at : at + 1] for at in range(len(request)))).read(1)
    assert wire.statuses == [400]


@pytest.mark.parametrize(
    "request_bytes",
    {
        "HTTP/1.0": whole(BODY, POST.replace(b"HTTP/1.1", b"HTTP/1.0")),
        "the whole address": whole(BODY, POST.replace(b"/validate", b"https://rollcall.example:443/validate")),
        "an escaped path": whole(BODY, POST.replace(b"/validate", b"/valid%61te")),
        "chunks": POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(BODY[:9]) + chunk(BODY[9:]) + b"0\r\n\r\n",
        "headers behind the body": POST
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + chunk(BODY)
        + b"0\r\nX-After: a\r\n\r\n",
        "100-continue": whole(BODY, POST + b"Expect: 100-continue\r\n"),
        "a header that is no UTF-8": whole(BODY, POST + b"X-A: \xff\r\n"),
    }.values(),
)
def test_an_unusual_but_valid_request_is_answered(wire: Wire, request_bytes: bytes) -> None:
    expected = [100, 200] if b"100-continue" in request_bytes else [200]
    assert b'"allowed":true' in wire.send(request_bytes).read(len(expected))
    assert wire.statuses == expected


@pytest.mark.parametrize(
    ("request_bytes", "statuses"),
    {
        "no HTTP": (b"hello\r\n\r\n", [400]),
        "TLS within TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), [400]),
        "HTTP/2 without asking": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [400]),
        "a length and chunks": (whole(BODY, POST + b"Transfer-Encoding: chunked\r\n"), [400]),
        "two lengths": (whole(BODY, POST + b"Content-Length: 3\r\n"), [400]),
        "a negative length": (POST + b"Content-Length: -1\r\n\r\n", [400]),
        "a length beyond all numbers": (POST + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n", [400]),
        "a length that is too long": (POST + b"Content-Length: 99999999\r\n\r\n", [413]),
        "a chunk beyond all numbers": (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 20 + b"\r\n", [400]),
        "a length that is too short": (POST + b"Content-Length: 5\r\n\r\n" + BODY, [400, 400]),
        "a header without a name": (POST + b": a\r\n\r\n", [400]),
        "a NUL in a header": (POST + b"A: \x00\r\n\r\n", [400]),
        "CONNECT": (b"CONNECT rollcall:443 HTTP/1.1\r\nHost: a\r\n\r\n", [400]),
        "one long line": (b"POST /" + b"a" * 2_000_000, [400]),
        "one long header": (POST + b"A: " + b"a" * 2_000_000, [400]),
        "many headers": (POST + b"A: a\r\n" * 300_000, [400]),
    }.values(),
)  # fmt: skip
def test_an_invalid_request_gets_an_error_and_closes_the_connection(
    wire: Wire, request_bytes: bytes, statuses: list[int]
) -> None:
    wire.send(request_bytes).read()
    # What the server said last may be lost where the client still sends and is cut off.
    assert wire.statuses in (statuses, statuses[:1], [] if len(request_bytes) > 1_000_000 else statuses)


def with_url(size: int) -> bytes:
    return b"POST /" + b"a" * (size - 1) + b" HTTP/1.1\r\nHost: a\r\n"


# What is just short enough, how it is answered, what is too long, and why. With Host and Content-Length there are two
# more headers, and some sixty bytes.
HEADS = {
    "a URL": (with_url(8192), 404, with_url(8193), b"the URL is longer than 8192 bytes"),
    "headers in number": (POST + b"A: a\r\n" * 126, 200, POST + b"A: a\r\n" * 127, b"there are more than 128 headers"),
    "headers in sum": (
        POST + b"A: " + b"a" * 65_400 + b"\r\n",
        200,
        POST + b"A: " + b"a" * 65_536 + b"\r\n",
        b"the headers are longer than 65536 bytes",
    ),
}


@pytest.mark.parametrize(("most", "status", "too_much", "why"), HEADS.values(), ids=HEADS)
def test_a_request_head_in_one_packet_has_the_same_limits(
    wire: Wire, server: ServingProcess, authority: Authority, most: bytes, status: int, too_much: bytes, why: bytes
) -> None:
    wire.send(whole(BODY, most)).read(1)
    assert wire.statuses == [status]
    with closing(Wire(server, authority)) as other:
        said = other.send(whole(BODY, too_much)).read()
        assert (other.statuses, said.rpartition(b"\r\n")[2]) == ([400], why)


def test_trailers_after_a_body_have_a_size_limit(wire: Wire) -> None:
    head = POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(BODY) + b"0\r\n"
    wire.send(head, *[b"X-After: " + b"a" * 8000 + b"\r\n"] * 40).read()
    assert wire.statuses in ([400], [])


@pytest.mark.parametrize("request_bytes", [b"GET /healthz", b"POST /nothing", b"PUT /validate"])
def test_an_answer_before_the_end_of_its_request_closes_the_connection(wire: Wire, request_bytes: bytes) -> None:
    said = wire.send(request_bytes + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + b" " * 50).read()
    assert len(wire.statuses) == 1
    assert b"connection: close\r\n" in said


@pytest.mark.parametrize(
    "path", [b"//validate", b"/validate/", b"/VALIDATE", b"/../validate", b"/%00", b"/%ff%fe", b"*"]
)
def test_an_unknown_path_is_404(wire: Wire, path: bytes) -> None:
    said = wire.send(whole(BODY, POST.replace(b"/validate", path))).read(1)
    assert wire.statuses == [404]
    assert b"\r\n\r\nNot Found\n" in said


def test_chunks_that_never_end_are_answered_at_the_deadline(wire: Wire) -> None:
    head = POST.replace(b"timeout=30s", b"timeout=1s") + b"Transfer-Encoding: chunked\r\n\r\n"
    wire.send(head, chunk(b" "), chunk(b" ")).read()
    assert wire.statuses == [504]
    assert b" within 0.8 s" in wire.said


def test_chunks_beyond_the_body_limit_are_refused(wire: Wire) -> None:
    part = chunk(b" " * 1_000_000)
    wire.send(POST + b"Transfer-Encoding: chunked\r\n\r\n", *[part] * 12).read()
    assert wire.statuses in ([413], [])

"""Attacks on connections and memory, each against a separate process. Meanwhile a review on a new connection and a
kubelet are answered.
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import httpx
import pytest

from tests.unit.server.certificate_issuer import Authority
from tests.unit.server.conftest import review
from tests.unit.server.server_process import ServingProcess, eventually, serving_process, trusting
from tests.waiting import LIMIT_SECONDS

BODY = json.dumps(review()).encode()
HEAD = b"POST /validate?timeout=30s HTTP/1.1\r\nHost: rollcall\r\n"
# With 256 open files, as many as once silenced both ports.
OPEN_FILES = 256
IDLE = 239
LARGE = 6_900_000
UPLOADS = 90
MIB = 1024 * 1024

Attacker = Callable[[ServingProcess, ssl.SSLContext], socket.socket]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and limits open files as Linux does")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def tcp(server: ServingProcess, _: ssl.SSLContext) -> socket.socket:
    """One that never begins a handshake."""
    return socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_SECONDS)


def secured(server: ServingProcess, client: ssl.SSLContext) -> socket.socket:
    """One that is silent after its handshake."""
    return client.wrap_socket(tcp(server, client), server_hostname="localhost")


def half_a_head(server: ServingProcess, client: ssl.SSLContext) -> socket.socket:
    """One that begins a request."""
    found = secured(server, client)
    found.sendall(HEAD)
    return found


def half_a_body(server: ServingProcess, client: ssl.SSLContext) -> socket.socket:
    """One that begins to send a body."""
    found = secured(server, client)
    found.sendall(HEAD + b"Content-Length: 5000\r\n\r\n" + b" " * 4000)
    return found


def health(server: ServingProcess, _: ssl.SSLContext) -> socket.socket:
    """One that is silent on the health port."""
    return socket.create_connection(("127.0.0.1", server.health_port), timeout=LIMIT_SECONDS)


def asking(server: ServingProcess, client: ssl.SSLContext) -> httpx.Client:
    """A caller that keeps its connection."""
    return httpx.Client(
        base_url=f"https://localhost:{server.port}",
        verify=client,
        trust_env=False,
        timeout=LIMIT_SECONDS,
        # By default httpx closes a connection that was idle for 5 s.
        limits=httpx.Limits(keepalive_expiry=None),
    )


def review_over(caller: httpx.Client) -> int:
    """The status of a review."""
    answer = caller.post("/validate?timeout=30s", content=BODY)
    assert answer.status_code != 200 or answer.json()["response"]["allowed"] is True
    return answer.status_code


def connection_of(caller: httpx.Client) -> tuple[str, int]:
    """The client's end of the connection that its last answer came over."""
    found: tuple[str, int] = caller.get("/healthz").extensions["network_stream"].get_extra_info("client_addr")
    return found


def ask(server: ServingProcess, client: ssl.SSLContext) -> int:
    """The status of a review over a new connection."""
    with asking(server, client) as caller:
        return review_over(caller)


def alive(server: ServingProcess) -> int:
    """The status of /healthz over a new connection."""
    return httpx.get(
        f"http://127.0.0.1:{server.health_port}/healthz", trust_env=False, timeout=LIMIT_SECONDS
    ).status_code


@pytest.fixture
def limited(tmp_path: Path, authority: Authority) -> Iterator[ServingProcess]:
    """A server with few open files."""
    with serving_process(
        tmp_path, authority.issue("tls"), "--drain", "0", open_files=OPEN_FILES, traced=False
    ) as server:
        yield server


@pytest.mark.parametrize(
    "attacker",
    [
        half_a_head,
        *(pytest.param(other, marks=pytest.mark.exhaustive) for other in (tcp, secured, half_a_body, health)),
    ],
)
def test_idle_connections_do_not_block_other_clients(
    limited: ServingProcess, authority: Authority, attacker: Attacker
) -> None:
    client = trusting(authority.file)
    statuses: list[tuple[int, int]] = []
    with ExitStack() as attackers, asking(limited, client) as known:
        # An API server's connection, which is kept all the while.
        assert review_over(known) == 200
        first = connection_of(known)
        for number in range(IDLE):
            attackers.enter_context(closing(attacker(limited, client)))
            if number % 40 == 39:
                statuses.append((ask(limited, client), alive(limited)))
        statuses.append((ask(limited, client), alive(limited)))
        assert statuses == [(200, 200)] * 6
        assert limited.readiness()[0] == 200
        assert limited.metric("rollcall_connections_closed_total", reason="replaced") > 0
        assert limited.metric("process_open_fds") < OPEN_FILES
        assert review_over(known) == 200
        assert connection_of(known) == first
    assert limited.stop() == 0
    # Nothing went wrong that the log would tell.
    assert [line["event"] for line in limited.lines() if line["event"] not in {"serving", "stopping"}] == []


def upload(server: ServingProcess, client: ssl.SSLContext, head: bytes, part: bytes) -> socket.socket:
    """One that sends all but the end of its body, and is silent then."""
    found = secured(server, client)
    with suppress(OSError):
        found.sendall(head + part)
    return found


STALLED = {
    "with a length": (HEAD + b"Content-Length: %d\r\n\r\n" % (LARGE + 1), b" " * LARGE),
    "in chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n" % (LARGE + 1) + b" " * LARGE),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("head", "part"), STALLED.values(), ids=STALLED)
def test_stalled_uploads_share_one_budget(tmp_path: Path, authority: Authority, head: bytes, part: bytes) -> None:
    client = trusting(authority.file)
    with (
        serving_process(tmp_path, authority.issue("tls"), "--drain", "0", traced=False) as server,
        ExitStack() as attackers,
    ):
        assert ask(server, client) == 200
        before, limit = server.memory(), server.metric("rollcall_intake_limit_bytes")
        statuses = []
        for number in range(UPLOADS):
            attackers.enter_context(closing(upload(server, client, head, part)))
            if number % 15 == 14:
                statuses.append((ask(server, client), alive(server)))
        assert statuses == [(200, 200)] * 6
        grown = server.memory("VmHWM") - before
        print(f"{UPLOADS} stalled uploads: {before / MIB:.0f} MiB and {grown / MIB:.0f} MiB more")
        assert 0 < server.metric("rollcall_intake_bytes") <= limit
        assert server.metric("rollcall_uploads_ended_total") + server.metric("rollcall_uploads_refused_total") > 0
        # Without a budget it was 90 times 6.9 MB; the rest is buffers, and what the allocator keeps.
        assert grown < 2 * limit < UPLOADS * LARGE / 2
    assert server.process.returncode == 0


def test_stalled_uploads_beyond_the_budget_are_ended(tmp_path: Path, authority: Authority) -> None:
    client = trusting(authority.file)
    with (
        serving_process(tmp_path, authority.issue("tls"), "--drain", "0", traced=False) as server,
        ExitStack() as attackers,
    ):
        limit = server.metric("rollcall_intake_limit_bytes")
        for _ in range(int(limit / LARGE) + 3):
            attackers.enter_context(closing(upload(server, client, *STALLED["with a length"])))
        assert (ask(server, client), alive(server)) == (200, 200)
        assert 0 < server.metric("rollcall_intake_bytes") <= limit
        assert server.metric("rollcall_uploads_ended_total") + server.metric("rollcall_uploads_refused_total") > 0


def test_uploads_release_their_budget_when_their_clients_disconnect(tmp_path: Path, authority: Authority) -> None:
    client = trusting(authority.file)
    with serving_process(tmp_path, authority.issue("tls"), "--drain", "0", traced=False) as server:
        with ExitStack() as attackers:
            for _ in range(4):
                attackers.enter_context(closing(upload(server, client, *STALLED["with a length"])))
            eventually(lambda: server.metric("rollcall_intake_bytes") > 2 * LARGE, "uploads are charged")
        eventually(lambda: server.metric("rollcall_intake_bytes") == 0, "all is paid back")

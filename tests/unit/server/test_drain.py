"""The end of `rollcall serve` and of its connections: no request of a client that obeys HTTP is lost."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import socket
import ssl
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.hostile import objects
from tests.played import PlayedLoop
from tests.series import value
from tests.unit.server.certificate_issuer import Authority
from tests.unit.server.conftest import review
from tests.unit.server.server_process import eventually, serving_process, trusting
from tests.unit.server.test_http_protocol import POST, Wire, whole
from tests.waiting import LIMIT_SECONDS, until
from webhook.server.admission_endpoint import SMALL_BYTES
from webhook.server.connections import Connections
from webhook.server.large_review import LargeReview
from webhook.server.listener import FINISH_SECONDS, Listener
from webhook.server.routes import create_app
from webhook.server.serving import Signals, drain
from webhook.server.state import ServerState

BODY = json.dumps(review())


class Caller:
    """One connection that is kept, and reopened after an answer that closed it."""

    def __init__(self, port: int, client: ssl.SSLContext) -> None:
        self._port, self._client = port, client
        self._connection: http.client.HTTPSConnection | None = None
        self.opened = 0
        self.closing = 0

    def ask(self) -> int:
        """The status of an answer. Raises `OSError` if there is none."""
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                "localhost", self._port, context=self._client, timeout=LIMIT_SECONDS
            )
            self.opened += 1
        self._connection.request("POST", "/validate?timeout=30s", BODY)
        answer = self._connection.getresponse()
        answer.read()
        if answer.getheader("connection") == "close":
            self.closing += 1
            self.close()
        return answer.status

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_a_stop_under_load_loses_no_request(tmp_path: Path, authority: Authority) -> None:
    client = trusting(authority.file)
    gone, statuses, wrong = threading.Event(), list[int](), list[Exception]()
    with serving_process(tmp_path, authority.issue("tls"), "--drain", "120") as server:
        callers = [Caller(server.port, client) for _ in range(3)]

        def call(caller: Caller) -> None:
            try:
                # As a Service does: until its readiness has been seen to be gone, it is sent requests.
                while not gone.is_set():
                    statuses.append(caller.ask())
            except Exception as error:  # noqa: BLE001 - the test reports every error
                wrong.append(error)
            finally:
                caller.close()

        threads = [threading.Thread(target=call, args=(caller,)) for caller in callers]
        for thread in threads:
            thread.start()
        eventually(lambda: len(statuses) > 50, "requests are answered")
        assert sum(caller.closing for caller in callers) == 0
        server.process.send_signal(signal.SIGTERM)
        server.until_readiness(503, "stopping")
        assert server.metric("rollcall_draining") == 1
        before = len(statuses)
        eventually(lambda: len(statuses) > before + 25, "requests are answered after the stop was told")
        # A new caller is answered too, over its own connection.
        eventually(lambda: all(caller.opened > 2 for caller in callers), "every caller has come again")
        gone.set()
        for thread in threads:
            thread.join(LIMIT_SECONDS)
        assert not wrong
        assert set(statuses) == {200}
        # A second signal ends the waiting, although 120 s have not passed.
        assert server.stop() == 0


async def test_the_port_closes_after_the_delay(state: ServerState) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, PlayedLoop)
    listener = Listener(("127.0.0.1", 0), create_app(state), Connections(100, state.metrics.connections), None)
    listener.open()
    address = listener.address
    draining = asyncio.create_task(drain(state, Signals(), [listener], None, 60))
    await until(lambda: state.stopping)
    loop.advance(59)
    reader, writer = await asyncio.open_connection(*listener.address)
    writer.write(whole(BODY.encode()))
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close\r\n" in answer
    assert not draining.done()
    loop.advance(1)
    await draining
    with pytest.raises(ConnectionError):
        await asyncio.open_connection(*address)


async def test_without_a_delay_a_second_signal_that_comes_at_once_ends_the_closing(state: ServerState) -> None:
    loop = asyncio.get_running_loop()
    listener = Listener(("127.0.0.1", 0), create_app(state), Connections(100, state.metrics.connections), None)
    listener.open()
    _, writer = await asyncio.open_connection(*listener.address)
    writer.write(b"POST /validate?timeout=30s HTTP/1.1\r\nHost: rollcall\r\nContent-Length: 100\r\n\r\n")
    await until(lambda: value(state.metrics.registry, "rollcall_requests_in_flight") == 1)
    signals, begun = Signals(), loop.time()
    signals.stop.set()
    signals.hurried.set()
    await drain(state, signals, [listener], None, 0)
    writer.close()
    assert loop.time() - begun < FINISH_SECONDS


def test_each_answer_during_a_drain_closes_its_connection(tmp_path: Path, authority: Authority) -> None:
    with serving_process(tmp_path, authority.issue("tls"), "--drain", "60") as server:
        kept, idle = (Caller(server.port, trusting(authority.file)) for _ in range(2))
        assert [kept.ask(), kept.ask(), idle.ask()] == [200] * 3
        server.process.send_signal(signal.SIGTERM)
        server.until_readiness(503, "stopping")
        asked = [kept.ask() for _ in range(4)]
        # The first came over the connection that was there, the others each over a new one.
        assert (asked, kept.opened, kept.closing) == ([200] * 4, 4, 4)
        # A connection that has long been idle is answered as well.
        assert (idle.ask(), idle.opened, idle.closing) == (200, 1, 1)
        assert server.health("/readyz").headers["connection"] == "close"
        kept.close()
        assert server.stop() == 0


HEAD = b" HTTP/1.1\r\nHost: rollcall\r\n"
EMPTY = HEAD + b"\r\n"
ANSWERS = {
    "a verdict": (whole(BODY.encode()), 200),
    "no review": (whole(b"{"), 400),
    "a timeout that is none": (whole(b"{}", b"POST /mutate?timeout=soon" + HEAD), 400),
    "no HTTP": (b"hello\r\n\r\n", 400),
    "a body that is too large": (POST + b"Content-Length: 99999999\r\n\r\n", 413),
    "another method": (b"GET /mutate" + EMPTY, 405),
    "another path": (b"GET /nothing" + EMPTY, 404),
    "a manifest that is none": (whole(b"x", b"POST /check" + HEAD), 400),
    "capabilities": (b"GET /capabilities" + EMPTY, 200),
    "life": (b"GET /healthz" + EMPTY, 200),
    "readiness": (b"GET /readyz" + EMPTY, 503),
    "metrics": (b"GET /metrics" + EMPTY, 200),
}


def test_each_kind_of_answer_during_a_drain_closes_its_connection(tmp_path: Path, authority: Authority) -> None:
    with serving_process(tmp_path, authority.issue("tls"), "--drain", "600") as server:
        # One request is running at the stop: the server has asked for its body.
        held = Wire(server, authority).send(
            POST + f"Content-Length: {len(BODY)}\r\nExpect: 100-continue\r\n\r\n".encode()
        )
        held.read(1)
        server.process.send_signal(signal.SIGTERM)
        server.until_readiness(503, "stopping")
        held.send(BODY.encode()).read()
        assert held.statuses == [100, 200]
        said = {"what was under way": held.said}
        for name, (request, status) in ANSWERS.items():
            with closing(Wire(server, authority)) as wire:
                # Read until the server hangs up: it does as it says.
                said[name] = wire.send(request).read()
                assert wire.statuses == [status], name
        assert [name for name, words in said.items() if b"connection: close\r\n" not in words] == []
        for path in ("/healthz", "/readyz", "/metrics", "/nothing"):
            assert server.health(path).headers["connection"] == "close"
        held.close()
        assert server.stop() == 0


def test_health_is_served_until_the_last_answer(tmp_path: Path, authority: Authority) -> None:
    with serving_process(tmp_path, authority.issue("tls"), "--drain", "0") as server:
        length = f"Content-Length: {len(BODY)}\r\nExpect: 100-continue\r\n\r\n"
        held = Wire(server, authority).send(POST + length.encode())
        held.read(1)
        server.process.send_signal(signal.SIGTERM)

        def refused() -> bool:
            with suppress(ConnectionError), socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_SECONDS):
                return False
            return True

        eventually(refused, "the serving port is closed")
        assert server.readiness()[0] == 503
        held.send(BODY.encode()).read()
        assert held.statuses == [100, 200]
        assert server.process.wait(LIMIT_SECONDS) == 0
        held.close()


def test_a_forced_stop_does_not_wait_for_unfinished_requests(tmp_path: Path, authority: Authority) -> None:
    client = trusting(authority.file)
    with (
        serving_process(tmp_path, authority.issue("tls")) as server,
        closing(
            http.client.HTTPSConnection("localhost", server.port, context=client, timeout=LIMIT_SECONDS)
        ) as connection,
    ):
        connection.putrequest("POST", "/validate?timeout=30s")
        connection.putheader("content-length", "100")
        connection.endheaders()
        eventually(lambda: server.metric("rollcall_requests_in_flight") == 1, "the request is taken")
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: server.lines()[-1]["event"] == "stopping", "it stops")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(LIMIT_SECONDS) == 0
        # Who had waited to the end would say that a task was still running.
        assert [line["event"] for line in server.lines()] == ["serving", "stopping"]


@pytest.mark.exhaustive
def test_a_stop_during_large_reviews_answers_every_client(tmp_path: Path, authority: Authority) -> None:
    # Each takes seconds, so that most are not answered when the time for that is over.
    large = objects.largest_set(denied=True)
    with serving_process(tmp_path, authority.issue("tls"), "--drain", "0", traced=False) as server:
        head = b"POST /validate?timeout=30s HTTP/1.1\r\nHost: rollcall\r\n"
        held = [Wire(server, authority).send(whole(large, head)) for _ in range(8)]
        eventually(lambda: server.metric("rollcall_lane_waiting", lane="reviews") >= 4, "reviews wait for the thread")
        server.process.send_signal(signal.SIGTERM)
        for wire in held:
            # Until the server hangs up.
            wire.read()
            wire.close()
        assert server.process.wait(LIMIT_SECONDS) == 0
        # A verdict, or 503 or 500 where the time was up, or nothing where even that was too late.
        assert [wire.statuses for wire in held if wire.statuses not in ([200], [503], [500], [])] == []


async def test_large_reviews_beyond_their_deadline_get_an_answer_and_are_no_longer_judged(
    state: ServerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, told = threading.Event(), threading.Event()

    def endless(review: LargeReview, _: bytes) -> None:
        entered.set()
        try:
            while True:
                review._turn.proceed()
        finally:
            told.set()

    # The first of them holds the thread as long as its call lasts.
    monkeypatch.setattr(LargeReview, "begin", endless)

    listener = Listener(("127.0.0.1", 0), create_app(state), Connections(100, state.metrics.connections), None)
    listener.open()
    clients = [await asyncio.open_connection(*listener.address) for _ in range(3)]
    for _, writer in clients:
        writer.write(whole(b" " * (SMALL_BYTES + 1)))
    waiting = ("rollcall_lane_waiting", {"lane": "reviews"})
    await until(lambda: entered.is_set() and state.metrics.registry.get_sample_value(*waiting) == 2)
    await listener.close(1)
    for reader, writer in clients:
        assert (await reader.read()).startswith(b"HTTP/1.1 500 ")
        writer.close()
    assert await asyncio.to_thread(told.wait, LIMIT_SECONDS)
    assert state.metrics.registry.get_sample_value(*waiting) == 0

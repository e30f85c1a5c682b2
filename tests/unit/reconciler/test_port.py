"""The reconciler's port in its process: health and metrics, and a stop within its time."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.programs import eventually, free_port
from tests.played import START, PlayedClock
from tests.waiting import LIMIT_SECONDS
from webhook.reconciler.metrics import ReconcilerMetrics
from webhook.reconciler.process import create_app
from webhook.server.memory import HEALTH_CONNECTIONS

# An address without a listener: health needs no cluster.
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "nowhere",
    "contexts": [{"name": "nowhere", "context": {"cluster": "nowhere", "user": "nobody"}}],
    "clusters": [{"name": "nowhere", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "nobody", "user": {"token": "none"}}],
}


class Reconciling:
    """A process that has no cluster."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port

    def ask(self, path: str) -> httpx.Response:
        """An answer over a new connection."""
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=LIMIT_SECONDS, trust_env=False)

    def connected(self) -> socket.socket:
        """A new connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_SECONDS)

    def listens(self) -> bool:
        """Whether it takes connections."""
        assert self.process.poll() is None
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def ended(self, reason: str) -> float:
        """How many connections it ended for a reason."""
        for family in text_string_to_metric_families(self.ask("/metrics").text):
            for sample in family.samples:
                if (sample.name, sample.labels) == ("rollcall_connections_closed_total", {"reason": reason}):
                    return sample.value
        raise AssertionError("no series")


@contextmanager
def reconciling(folder: Path) -> Iterator[Reconciling]:
    kubeconfig, port = folder / "kubeconfig", free_port()
    kubeconfig.write_text(json.dumps(KUBECONFIG))
    command = [sys.executable, "-m", "webhook", "reconcile", "--kubeconfig", str(kubeconfig), "--host", "127.0.0.1"]
    with subprocess.Popen([*command, "--port", str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            found = Reconciling(process, port)
            eventually(found.listens, "the reconciler listens", timeout=LIMIT_SECONDS)
            yield found
        finally:
            process.kill()


async def test_health_bears_the_time_of_the_process() -> None:
    app = create_app(lambda: iter(()), ReconcilerMetrics(), clock=PlayedClock())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://reconciler") as client:
        answer = await client.get("/healthz")
    assert parsedate_to_datetime(answer.headers["date"]) == START


def test_health_is_served_without_a_cluster_and_a_stop_does_not_wait_for_unfinished_requests(tmp_path: Path) -> None:
    with (
        reconciling(tmp_path) as process,
        process.connected() as connection,
    ):
        connection.sendall(b"POST /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n")
        alive, ready = process.ask("/healthz"), process.ask("/readyz")
        assert (alive.status_code, alive.text, ready.status_code) == (200, "ok\n", 503)
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(LIMIT_SECONDS) == 0


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reconciling]:
    with reconciling(tmp_path_factory.mktemp("reconciler")) as found:
        yield found


@pytest.mark.exhaustive
@pytest.mark.parametrize("said", [b"", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-more: "], ids=["idle", "half"])
def test_300_idle_connections_do_not_block_health(process: Reconciling, said: bytes) -> None:
    before = process.ended("replaced")
    with ExitStack() as held:
        for number in range(300):
            held.enter_context(connection := process.connected())
            connection.sendall(said)
            if number % 50 == 0:
                assert process.ask("/healthz").status_code == 200
        assert process.ask("/healthz").status_code == 200
        assert process.ended("replaced") - before >= 300 - HEALTH_CONNECTIONS


@pytest.mark.exhaustive
def test_a_request_head_that_does_not_end_is_dropped(process: Reconciling) -> None:
    before = process.ended("head")
    with (
        process.connected() as connection,
        suppress(ConnectionError),
    ):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nx-more: " + b"a" * 1_000_000)
    eventually(
        lambda: process.ended("head") == before + 1, "the connection is ended for its head", timeout=LIMIT_SECONDS
    )

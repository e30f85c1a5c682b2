"""`rollcall serve` as a process: it starts, logs its addresses, answers, and stops at a signal; and its limits."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.configurations import configuration_of, settings_from_document
from tests.e2e.programs import free_port
from tests.unit.server.conftest import review
from tests.unit.server.server_process import Running, end, eventually, lines_of, rollcall_process
from tests.waiting import LIMIT_SECONDS
from webhook.certificates.files import CERTIFICATE_FILE, KEY_FILE, make_development_certificates
from webhook.model.facts import NO_FACTS
from webhook.server.memory import HEALTH_CONNECTIONS, NEXT_CONNECTIONS
from webhook.server.serving import ServingPlan, _Server
from webhook.server.state import ServerState
from webhook.server.tls import PairFiles


class Served:
    """A running `rollcall serve`, and its log."""

    def __init__(self, process: Running, log: Path) -> None:
        self.process = process
        self._log = log
        self.first = self.line(0)

    def line(self, number: int) -> dict[str, Any]:
        """The line of the log with that number, from 0, once it is there."""

        def written() -> dict[str, Any] | None:
            lines = lines_of(self._log)
            assert len(lines) > number or self.process.poll() is None, f"the server stopped: {lines}"
            return lines[number] if len(lines) > number else None

        return eventually(written, f"line {number} of the log")


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Served]:
    """A server on a free port, once it has written its first line."""
    log = folder / "serve.log"
    with rollcall_process(log, "serve", "--standalone", "--port", "0", *arguments) as process:
        yield Served(process, log)


def refusal(folder: Path, *arguments: str) -> str:
    """What a server that cannot start writes, without the name of the program."""
    log = folder / "refused.log"
    with rollcall_process(log, "serve", "--standalone", *arguments) as process:
        assert process.wait(LIMIT_SECONDS) == 2
    return log.read_text().removeprefix("rollcall: ")


def client(url: str, ca: str) -> httpx.Client:
    return httpx.Client(
        base_url=url, verify=ssl.create_default_context(cafile=ca), trust_env=False, timeout=LIMIT_SECONDS
    )


def test_a_standalone_server_creates_its_certificates_and_stops_on_sigterm(tmp_path: Path) -> None:
    # As a person starts it.
    log = tmp_path / "serve.log"
    command = [sys.executable, "-m", "webhook", "serve", "--standalone", "--port", "0"]
    with log.open("wb") as output, subprocess.Popen(command, stderr=output) as process:
        try:
            line = Served(process, log).first
            assert line["event"] == "serving"
            folder = Path(line["ca"]).parent
            with client(line["url"], line["ca"]) as asking:
                assert asking.get("/readyz").text == "ready\n"
                assert asking.post("/validate?timeout=30s", json=review()).json()["response"]["allowed"] is True
                process.send_signal(signal.SIGTERM)
                assert process.wait(LIMIT_SECONDS) == 0
                # The client's idle connection, which never says goodbye, is not waited for until the drain's end.
                assert [line["event"] for line in lines_of(log)] == ["serving", "stopping"]
            assert not folder.exists(), "the temporary certificates outlived the process"
        finally:
            end(process)


def test_a_pending_answer_is_completed_before_the_stop(tmp_path: Path) -> None:
    raw = json.dumps(review()).encode()
    head = f"POST /validate HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(raw)}\r\nexpect: 100-continue\r\n\r\n"
    with serving(tmp_path) as served:
        context = ssl.create_default_context(cafile=served.first["ca"])
        port = int(served.first["url"].rpartition(":")[2])
        with (
            socket.create_connection(("127.0.0.1", port), timeout=LIMIT_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            secured.sendall(head.encode())
            # The server asks for the body: it has taken the call.
            assert secured.recv(100).startswith(b"HTTP/1.1 100 ")
            served.process.send_signal(signal.SIGTERM)
            assert served.line(1)["event"] == "stopping"
            secured.sendall(raw)
            answer = b"".join(iter(lambda: secured.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["response"]["allowed"] is True
        assert served.process.wait(LIMIT_SECONDS) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full: /dev/full of Linux")
def test_a_log_that_cannot_be_written_loses_no_verdict(tmp_path: Path) -> None:
    make_development_certificates(tmp_path)
    port = free_port()
    asked = review()
    asked["request"]["object"]["metadata"]["labels"] = {"rollcall.dev/scheduler": "nobody"}
    arguments = ("serve", "--standalone", "--certs", tmp_path, "--port", str(port))
    with rollcall_process(Path("/dev/full"), *arguments) as process:

        def listens() -> bool:
            assert process.poll() is None, "the server stopped"
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=LIMIT_SECONDS):
                return True
            return False

        eventually(listens, "the server listens")
        with client(f"https://localhost:{port}", f"{tmp_path}/ca.crt") as asking:
            assert asking.post("/validate", json=asked).json()["response"]["status"]["code"] == 422


def test_configuration_and_facts_can_be_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "rollcall.yaml").write_text(
        "apiVersion: rollcall.dev/v1alpha1\nkind: RollcallConfiguration\n"
        "scheduler: {defaultProfileName: koord-scheduler, profiles: [{name: koord-scheduler}]}\n"
    )
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "quotas.yaml").write_text(
        "apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: ElasticQuotaList\nitems: []\n"
    )
    certs = tmp_path / "certs"
    arguments = ("--config", f"{tmp_path}/rollcall.yaml", "--facts", f"{tmp_path}/facts", "--certs", str(certs))
    with serving(tmp_path, *arguments) as served, client(served.first["url"], served.first["ca"]) as asking:
        asked = review()
        asked["request"]["object"]["metadata"]["annotations"] = {"scheduling.grove.io/koordinator-quota": "team-a"}
        assert asking.post("/validate", json=asked).json()["response"]["status"]["code"] == 422
    before = (certs / "tls.crt").read_bytes()
    # A second start keeps the authority, because users may have told curl to trust it.
    pair = ("--cert", f"{certs}/tls.crt", "--key", f"{certs}/tls.key")
    with serving(tmp_path, *pair) as served, client(served.first["url"], f"{certs}/ca.crt") as asking:
        assert asking.get("/healthz").text == "ok\n"
    assert (certs / "tls.crt").read_bytes() == before


def test_backend_problems_are_logged_before_serving(tmp_path: Path) -> None:
    facts = tmp_path / "facts"
    facts.mkdir()
    (facts / "crds.yaml").write_text(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinitionList\nitems: []\n"
    )
    with serving(tmp_path, "--facts", str(facts)) as served:
        assert (served.first["event"], served.first["level"]) == ("degraded", "warning")
        assert "scheduling.sigs.k8s.io/v1alpha1 PodGroup" in served.first["reason"]


def test_an_address_in_use_is_reported_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = refusal(tmp_path, "--port", str(port))
    assert told == f"cannot listen on 127.0.0.1 port {port}: {os.strerror(errno.EADDRINUSE)}\n"


def test_an_invalid_host_is_reported(tmp_path: Path) -> None:
    told = refusal(tmp_path, "--host", "no-such-host.invalid")
    assert told.startswith("cannot listen on no-such-host.invalid port 8443: ")
    assert "Unknown error" not in told


def test_a_mistake_in_the_configuration_stops_the_start_before_a_socket_opens(tmp_path: Path) -> None:
    (tmp_path / "rollcall.yaml").write_text("kind: RollcallConfiguration\n")
    # A port that is taken would be reported if it were tried.
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = refusal(tmp_path, "--config", f"{tmp_path}/rollcall.yaml", "--port", str(port))
    assert "apiVersion: is required" in told
    assert "listen" not in told


def test_each_denial_is_one_log_line_without_the_body(tmp_path: Path) -> None:
    with serving(tmp_path) as served, client(served.first["url"], served.first["ca"]) as asking:
        asked = review(name="training")
        asked["request"]["object"]["metadata"]["labels"] = {"rollcall.dev/scheduler": "nobody"}
        asking.post("/validate", json=asked)
        said = served.line(1)
    said.pop("timestamp")
    assert said == {
        "event": "denied",
        "level": "info",
        "endpoint": "validate",
        "uid": asked["request"]["uid"],
        "operation": "CREATE",
        "kind": "PodCliqueSet",
        "namespace": "default",
        "name": "training",
        "scheduler": "nobody",
        "rules": ["rollcall/scheduler-unknown"],
    }


def test_the_serving_port_has_the_limits_of_the_configuration(certificates: Path) -> None:
    limits = {"maxConnections": 48, "connectionSeconds": 77}
    settings = settings_from_document(configuration_of("koord-scheduler", serving=limits), standalone=True)
    anywhere, files = ("127.0.0.1", 0), PairFiles(certificates / CERTIFICATE_FILE, certificates / KEY_FILE)
    plan = ServingPlan(anywhere, files, next_place=anywhere, next_files=files, health_place=anywhere)
    server = _Server(ServerState(settings, NO_FACTS, None), plan)
    ports = [port for port in (server._serving, server._next, server._health) if port is not None]
    for port in ports:
        port._socket.close()
    # The other two are for callers that Rollcall itself chooses.
    assert [(port.connections.most, port.connections.seconds) for port in ports] == [
        (48, 77), (NEXT_CONNECTIONS, 0), (HEALTH_CONNECTIONS, 0),
    ]  # fmt: skip

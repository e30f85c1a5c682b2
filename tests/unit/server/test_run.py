"""`rollcall serve` as a process: it starts, logs its addresses, answers, and stops at a signal."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.unit.server.conftest import review
from webhook.certificates.files import make_development_certificates


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """The process, and its log line about serving."""
    command = [sys.executable, "-m", "webhook", "serve", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            assert process.stderr is not None
            yield process, json.loads(process.stderr.readline())
        finally:
            # A kill would leave the temporary certificates behind.
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


def client(url: str, ca: str) -> httpx.Client:
    return httpx.Client(base_url=url, verify=ssl.create_default_context(cafile=ca), trust_env=False)


def test_a_standalone_server_creates_its_certificates_and_stops_on_sigterm() -> None:
    with serving("--standalone", "--port", "0") as (process, line):
        assert line["event"] == "serving"
        folder = Path(line["ca"]).parent
        with client(line["url"], line["ca"]) as asking:
            assert asking.get("/readyz").text == "ready\n"
            assert asking.post("/validate?timeout=5s", json=review()).json()["response"]["allowed"] is True
            process.send_signal(signal.SIGTERM)
            assert process.wait(15) == 0
            # The client's idle connection, which never says goodbye, is not waited for until the drain's end.
            assert process.stderr is not None
            assert [json.loads(said)["event"] for said in process.stderr] == ["stopping"]
        assert not folder.exists(), "the temporary certificates outlived the process"


def test_a_pending_answer_is_completed_before_the_stop() -> None:
    raw = json.dumps(review()).encode()
    head = f"POST /validate HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(raw)}\r\nexpect: 100-continue\r\n\r\n"
    with serving("--standalone", "--port", "0") as (process, line):
        context = ssl.create_default_context(cafile=line["ca"])
        port = int(line["url"].rpartition(":")[2])
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            secured.sendall(head.encode())
            # The server asks for the body: it has taken the call.
            assert secured.recv(100).startswith(b"HTTP/1.1 100 ")
            process.send_signal(signal.SIGTERM)
            assert process.stderr is not None
            assert json.loads(process.stderr.readline())["event"] == "stopping"
            secured.sendall(raw)
            answer = b"".join(iter(lambda: secured.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["response"]["allowed"] is True
        assert process.wait(15) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full: /dev/full of Linux")
def test_a_log_that_cannot_be_written_loses_no_verdict(tmp_path: Path) -> None:
    make_development_certificates(tmp_path)
    port = free_port()
    command = [sys.executable, "-m", "webhook", "serve", "--standalone", "--certs", str(tmp_path), "--port", str(port)]
    asked = review()
    asked["request"]["object"]["metadata"]["labels"] = {"rollcall.dev/scheduler": "nobody"}
    with Path("/dev/full").open("wb") as full, subprocess.Popen(command, stderr=full) as process:
        try:
            until_it_listens(port, process)
            with client(f"https://localhost:{port}", f"{tmp_path}/ca.crt") as asking:
                assert asking.post("/validate", json=asked).json()["response"]["status"]["code"] == 422
        finally:
            process.terminate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 15
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError as error:
            assert process.poll() is None, "the server stopped"
            assert time.monotonic() < deadline, f"nothing listens on port {port} after 15 s: {error}"
            time.sleep(0.02)


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
    with serving("--standalone", "--port", "0", *arguments) as (_, line), client(line["url"], line["ca"]) as asking:
        asked = review()
        asked["request"]["object"]["metadata"]["annotations"] = {"scheduling.grove.io/koordinator-quota": "team-a"}
        assert asking.post("/validate", json=asked).json()["response"]["status"]["code"] == 422
    before = (certs / "tls.crt").read_bytes()
    # A second start keeps the authority, because users may have told curl to trust it.
    pair = ("--cert", f"{certs}/tls.crt", "--key", f"{certs}/tls.key")
    with serving("--standalone", "--port", "0", *pair) as (_, line), client(line["url"], f"{certs}/ca.crt") as asking:
        assert asking.get("/healthz").text == "ok\n"
    assert (certs / "tls.crt").read_bytes() == before


def test_backend_problems_are_logged_before_serving(tmp_path: Path) -> None:
    (tmp_path / "crds.yaml").write_text(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinitionList\nitems: []\n"
    )
    with serving("--standalone", "--port", "0", "--facts", str(tmp_path)) as (_, line):
        assert (line["event"], line["level"]) == ("degraded", "warning")
        assert "does not serve scheduling.sigs.k8s.io/v1alpha1 PodGroup" in line["reason"]


def test_an_address_in_use_is_reported_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "webhook", "serve", "--standalone", "--port", str(port)]
        ran = subprocess.run(command, capture_output=True, check=False, timeout=30)
    assert ran.returncode == 2
    assert ran.stderr.decode() == f"rollcall: cannot listen on 127.0.0.1 port {port}: Address already in use\n"


def test_an_invalid_host_is_reported() -> None:
    command = [sys.executable, "-m", "webhook", "serve", "--standalone", "--host", "no-such-host.invalid"]
    ran = subprocess.run(command, capture_output=True, check=False, timeout=30)
    assert ran.returncode == 2
    told = ran.stderr.decode()
    assert told.startswith("rollcall: cannot listen on no-such-host.invalid port 8443: ")
    assert "Unknown error" not in told


def test_a_mistake_in_the_configuration_stops_the_start_before_a_socket_opens(tmp_path: Path) -> None:
    (tmp_path / "rollcall.yaml").write_text("kind: RollcallConfiguration\n")
    command = [sys.executable, "-m", "webhook", "serve", "--standalone", "--config", f"{tmp_path}/rollcall.yaml"]
    ran = subprocess.run(command, capture_output=True, check=False, timeout=30)
    assert ran.returncode == 2
    assert ran.stderr.decode().endswith("apiVersion: is required (allowed: rollcall.dev/v1alpha1)\n")


def test_each_denial_is_one_log_line_without_the_body(tmp_path: Path) -> None:
    with serving("--standalone", "--port", "0") as (process, line), client(line["url"], line["ca"]) as asking:
        asked = review(name="training")
        asked["request"]["object"]["metadata"]["labels"] = {"rollcall.dev/scheduler": "nobody"}
        asking.post("/validate", json=asked)
        assert process.stderr is not None
        said = json.loads(process.stderr.readline())
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

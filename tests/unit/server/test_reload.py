"""`rollcall serve` while its certificates change: no call is rejected, and health reports the problem."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.unit.server.certificate_issuer import Authority, Mounted
from tests.unit.server.conftest import review
from tests.unit.server.server_process import ServingProcess, eventually, serving_process, shown_to, trusting
from tests.waiting import LIMIT_SECONDS
from webhook.certificates.files import load_pair
from webhook.operations import snapshot_reader
from webhook.operations.snapshot_reader import Endpoint, observe_endpoints
from webhook.server.tls import PairFiles

ROTATIONS = 2


@contextmanager
def asking(url: str, client: ssl.SSLContext, *, fresh: bool) -> Iterator[Callable[[], int]]:
    """Ask without a pause, over one kept connection or over a fresh one each time; how many were answered so far.
    Leaving it raises what went wrong.
    """
    answered, wrong, end = 0, list[Exception](), threading.Event()

    def ask() -> None:
        nonlocal answered
        limits = httpx.Limits(max_keepalive_connections=0) if fresh else httpx.Limits(max_connections=1)
        try:
            with httpx.Client(verify=client, trust_env=False, limits=limits, timeout=LIMIT_SECONDS) as http:
                while not end.is_set():
                    answer = http.post(f"{url}/validate?timeout=30s", json=review())
                    assert answer.json()["response"]["allowed"] is True
                    answered += 1
        except Exception as error:  # noqa: BLE001 - the test reports every error
            wrong.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield lambda: answered
    finally:
        end.set()
        thread.join(LIMIT_SECONDS)
        if wrong:
            raise wrong[0]


def until_more(answered: Callable[[], int]) -> None:
    """Wait until more was answered than so far."""
    before = answered()
    eventually(lambda: answered() > before, "requests go on")


def until_shown(server: ServingProcess, client: ssl.SSLContext, files: PairFiles) -> None:
    """Wait until a client is shown the certificate in `files`."""
    leaf = load_pair(*files).leaf
    eventually(lambda: shown_to(client, server.port) == leaf, "the new pair is shown")


def test_pairs_change_under_load_without_a_restart_or_a_lost_request(tmp_path: Path) -> None:
    authorities = [Authority(tmp_path / name, name) for name in ("old", "new")]
    mounted = Mounted(tmp_path / "secret")
    mounted.put(authorities[0].issue("0"))
    both = trusting(*(authority.file for authority in authorities))
    with serving_process(tmp_path, mounted.files) as server:
        with asking(server.url, both, fresh=False) as kept, asking(server.url, both, fresh=True) as fresh:
            for number in range(1, ROTATIONS + 1):
                files = authorities[number % 2].issue(str(number))
                mounted.put(files)
                until_shown(server, both, files)
                until_more(kept)
                until_more(fresh)
        assert server.readiness() == (200, "ready\n")
        assert server.metric("rollcall_certificate_reloads_total", certificate="serving", outcome="loaded") == (
            ROTATIONS + 1
        )
        assert server.metric("rollcall_certificate_reloads_total", certificate="serving", outcome="refused") == 0
        assert [line["event"] for line in server.lines()] == ["serving", *["certificate loaded"] * ROTATIONS]


def test_invalid_files_are_reported_while_the_old_pair_serves(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    mounted = Mounted(tmp_path / "secret")
    good = authority.issue("good")
    mounted.put(good)
    client = trusting(authority.file)
    expired = authority.issue("expired", (-2, -1))
    bad = {
        "expired at ": (expired.certificate, expired.key),
        "tls.key: the key does not": (good.certificate, authority.issue("other").key),
        "tls.crt: no certificate": (good.key, good.key),
    }
    with serving_process(tmp_path, mounted.files) as server, asking(server.url, client, fresh=True) as answered:
        for why, (certificate, key) in bad.items():
            mounted.put_contents(certificate.read_bytes(), key.read_bytes())
            text = server.until_readiness(200, why)
            assert text.startswith(f"ready\nserving: not loaded: {tmp_path}/secret/tls.")
            assert server.metric("rollcall_certificate_refused", certificate="serving") == 1
            assert shown_to(client, server.port) == load_pair(*good).leaf
            until_more(answered)
        mounted.put(authority.issue("good again"))
        eventually(lambda: server.readiness() == (200, "ready\n"), "nothing is the matter any more")
        assert server.metric("rollcall_certificate_refused", certificate="serving") == 0


NOTHING_GOOD: dict[str, tuple[Callable[[Authority], PairFiles | None], str]] = {
    "no files": (lambda _: None, "tls.crt: no such file"),
    "an expired one": (lambda authority: authority.issue("expired", (-2, -1)), "tls.crt: expired at "),
    "a key that does not match": (
        lambda authority: PairFiles(authority.issue("one").certificate, authority.issue("other").key),
        "tls.key: the key does not",
    ),
}


@pytest.mark.parametrize(("given", "why"), NOTHING_GOOD.values(), ids=NOTHING_GOOD)
def test_without_a_valid_certificate_the_server_is_not_ready_with_a_reason_and_recovers(
    tmp_path: Path, given: Callable[[Authority], PairFiles | None], why: str
) -> None:
    authority = Authority(tmp_path)
    mounted = Mounted(tmp_path / "secret")
    if (files := given(authority)) is not None:
        mounted.put(files)
    client = trusting(authority.file)
    with serving_process(tmp_path, mounted.files) as server:
        status, text = server.readiness()
        assert status == 503
        assert text.startswith(f"certificate: none is loaded: {tmp_path}/secret/{why}")
        assert server.metric("rollcall_ready") == 0
        assert server.health("/healthz").status_code == 200
        with pytest.raises(ssl.SSLError):
            shown_to(client, server.port)
        mounted.put(authority.issue("good"))
        server.until_readiness(200, "ready\n")
        assert server.metric("rollcall_ready") == 1
        with httpx.Client(verify=client, trust_env=False, timeout=LIMIT_SECONDS) as http:
            assert http.post(f"{server.url}/mutate", json=review()).status_code == 200
        assert server.process.poll() is None


def next_answer(server: ServingProcess, client: ssl.SSLContext, path: str = "/next") -> httpx.Response:
    """What the next port answers."""
    with httpx.Client(verify=client, trust_env=False, timeout=LIMIT_SECONDS) as http:
        return http.post(f"{server.next_url}{path}", json=review())


def test_the_next_port_reports_the_certificate_of_its_connection(tmp_path: Path) -> None:
    authorities = [Authority(tmp_path / name, name) for name in ("old", "new")]
    mounted = Mounted(tmp_path / "serving")
    mounted.put(authorities[0].issue("0"))
    following = Mounted(tmp_path / "next", ("next.crt", "next.key"))
    new = trusting(authorities[1].file)
    options = ("--next-cert", following.files.certificate, "--next-key", following.files.key, "--next-port", "0")
    with serving_process(tmp_path, mounted.files, *options) as server:
        assert server.readiness() == (200, "ready\n")
        assert server.next_url is not None
        next_port = int(server.next_url.rpartition(":")[2])
        with pytest.raises(ssl.SSLError):
            shown_to(new, next_port)
        for name in ("1", "2"):
            files = authorities[1].issue(name)
            following.put(files)
            fingerprint = load_pair(*files).fingerprint

            def proved(fingerprint: str = fingerprint) -> httpx.Response | None:
                with suppress(httpx.TransportError):
                    answer = next_answer(server, new)
                    if fingerprint in answer.text:
                        return answer
                return None

            answer = eventually(proved, "the next certificate is named")
            assert answer.json()["response"]["warnings"] == [f"rollcall: next certificate {fingerprint}"]
            assert answer.json()["response"]["allowed"] is True
            assert answer.json()["response"]["uid"] == review()["request"]["uid"]
            # The next question must see the certificate of its own time.
            assert answer.headers["connection"] == "close"
        assert [next_answer(server, new, path).status_code for path in ("/validate", "/metrics", "/")] == [404] * 3
        with httpx.Client(verify=new, trust_env=False, timeout=LIMIT_SECONDS) as http:
            assert http.get(f"{server.next_url}/next").status_code == 405
            assert http.post(f"{server.next_url}/next", content=b"{").status_code == 400
            assert http.post(f"{server.next_url}/next", content=b" " * (7 * 1024 * 1024 + 1)).status_code == 413
        # What is served is another pair, which this client does not believe.
        with pytest.raises(ssl.SSLCertVerificationError):
            shown_to(new, server.port)


def test_the_doctor_reads_the_certificate_and_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of a server that a test made up: the clock is told by the Date of an answer, which servers may leave out."""
    monkeypatch.setattr(snapshot_reader, "SECONDS", LIMIT_SECONDS)
    authority = Authority(tmp_path)
    files = authority.issue("tls")
    with serving_process(tmp_path, files) as server:
        bundles = [b64encode(authority.file.read_bytes()).decode()]
        (seen,) = asyncio.run(observe_endpoints([Endpoint("127.0.0.1", server.port, "localhost")], bundles))
        assert (seen.presented.certificate, dict(seen.presented.refused)) == (load_pair(*files).leaf, {})
        assert seen.clock is not None
        assert abs(seen.clock.ahead) < 60
        assert "date" in server.health("/healthz").headers


def test_the_health_port_serves_only_health(tmp_path: Path) -> None:
    with serving_process(tmp_path, Authority(tmp_path).issue("tls")) as server:
        assert [server.health(path).status_code for path in ("/healthz", "/readyz", "/metrics")] == [200] * 3
        assert "rollcall_admission_requests_total" in server.health("/metrics").text
        assert [server.health(path).status_code for path in ("/validate", "/docs", "/openapi.json")] == [404] * 3
        # And the serving port no plain HTTP.
        with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_SECONDS) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert b"HTTP/1.1" not in plain.recv(100)

"""The allowed callers: `--client-ca`, `--client-name`, and both while the authority changes."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from tests.unit.server.certificate_issuer import HOSTS, Authority
from tests.unit.server.conftest import review
from tests.unit.server.server_process import ServingProcess, eventually, serving_process, trusting
from tests.waiting import LIMIT_SECONDS
from webhook.server.tls import PairFiles


class World:
    """A server's authority, and two of clients; `allowed` is the file that says whose clients are let in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers, self.ours, self.others = (
            Authority(folder / name, name) for name in ("servers", "ours", "others")
        )
        self.files = self.servers.issue("tls")
        self.allowed = folder / "callers.crt"
        self.allow(self.ours)

    def allow(self, authority: Authority) -> None:
        """Let the clients of `authority` in."""
        shutil.copy(authority.file, self.allowed)

    def caller(self, files: PairFiles | None, version: ssl.TLSVersion | None = None) -> httpx.Client:
        """A client that shows a certificate, or none."""
        context = trusting(self.servers.file, version=version)
        if files is not None:
            context.load_cert_chain(*files)
        return httpx.Client(verify=context, trust_env=False, timeout=LIMIT_SECONDS)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


# A failed handshake shows as one of several errors: the client may have sent data before the alert.
REFUSED = 0


def status(client: httpx.Client, server: ServingProcess) -> int:
    """The status of an answer, or `REFUSED`."""
    try:
        return client.post(f"{server.url}/validate", json=review()).status_code
    except httpx.TransportError:
        return REFUSED


def test_only_clients_of_the_authority_are_accepted(world: World, tmp_path: Path) -> None:
    ours, others = world.ours.issue("client"), world.others.issue("client")
    expired = world.ours.issue("expired", (-2, -1))
    with serving_process(tmp_path, world.files, "--client-ca", world.allowed) as server:
        # The server is ready, although it has itself no certificate to show.
        server.until_readiness(200, "ready\n")
        for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
            with world.caller(ours, version) as client:
                assert status(client, server) == 200
            for files in (None, others, expired):
                with world.caller(files, version) as client:
                    assert status(client, server) == REFUSED, version
        assert server.metric("rollcall_admission_requests_total", endpoint="validate", outcome="allowed") == 2


def test_only_clients_with_an_allowed_name_are_accepted(world: World, tmp_path: Path) -> None:
    names = ("--client-name", "kube-apiserver", "--client-name", "other")
    with serving_process(tmp_path, world.files, "--client-ca", world.allowed, *names) as server:
        with world.caller(world.ours.issue("api-server", common_name="kube-apiserver")) as client:
            assert status(client, server) == 200
        with world.caller(world.ours.issue("somebody", common_name="somebody")) as client:
            answer = client.post(f"{server.url}/validate", json=review())
            assert answer.status_code == 403
            assert answer.text == "a client certificate for 127.0.0.1, localhost, somebody is not accepted\n"
            # Nothing is to be had there.
            assert client.get(f"{server.url}/metrics").status_code == 403


def test_a_full_subject_does_not_count_as_a_name(world: World, tmp_path: Path) -> None:
    part = x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")
    whole = x509.DirectoryName(x509.Name([part]))
    arguments = ("--client-ca", world.allowed, "--client-name", "kube-apiserver")
    with (
        serving_process(tmp_path, world.files, *arguments) as server,
        world.caller(world.ours.issue("somebody", common_name="somebody", hosts=(*HOSTS, whole))) as client,
    ):
        answer = client.post(f"{server.url}/validate", json=review())
        assert answer.status_code == 403
        assert answer.text == "a client certificate for 127.0.0.1, localhost, somebody is not accepted\n"


def test_a_subject_alternative_name_is_accepted(world: World, tmp_path: Path) -> None:
    arguments = ("--client-ca", world.allowed, "--client-name", "localhost")
    with serving_process(tmp_path, world.files, *arguments) as server, world.caller(world.ours.issue("one")) as client:
        assert status(client, server) == 200


def test_the_client_authority_is_reloaded(world: World, tmp_path: Path) -> None:
    ours, others = world.ours.issue("client"), world.others.issue("client")

    def call_over_a_new_connection(files: PairFiles) -> int:
        with world.caller(files) as client:
            return status(client, server)

    with serving_process(tmp_path, world.files, "--client-ca", world.allowed) as server:
        assert (call_over_a_new_connection(ours), call_over_a_new_connection(others)) == (200, REFUSED)
        # What cannot be read lets the same ones in as before.
        world.allowed.write_text("nothing")
        server.until_readiness(200, f"client-ca: not loaded: {world.allowed}: no certificate")
        assert server.metric("rollcall_certificate_refused", certificate="client-ca") == 1
        assert (call_over_a_new_connection(ours), call_over_a_new_connection(others)) == (200, REFUSED)
        # Also when the server's own certificate changes meanwhile.
        world.servers.issue("tls")
        loaded = {"certificate": "serving", "outcome": "loaded"}
        eventually(lambda: server.metric("rollcall_certificate_reloads_total", **loaded) == 2, "the new pair is loaded")
        assert (call_over_a_new_connection(ours), call_over_a_new_connection(others)) == (200, REFUSED)
        world.allow(world.others)
        eventually(lambda: call_over_a_new_connection(others) == 200, "the other authority's clients are let in")
        assert call_over_a_new_connection(ours) == REFUSED
        assert server.metric("rollcall_certificate_refused", certificate="client-ca") == 0


def test_authorities_that_only_one_parser_accepts_are_invalid(world: World, tmp_path: Path) -> None:
    """A name that is an INTEGER is no name to OpenSSL, and a certificate to others."""
    good = world.allowed.read_bytes()
    der = world.ours.certificate.public_bytes(serialization.Encoding.DER)
    spoilt = der.replace(b"\x0c\x04ours", b"\x02\x04ours")
    assert spoilt != der
    world.allowed.write_bytes(x509.load_der_x509_certificate(spoilt).public_bytes(serialization.Encoding.PEM))
    files = world.ours.issue("client")
    with serving_process(tmp_path, world.files, "--client-ca", world.allowed) as server:
        why = f"{world.allowed}: a certificate that"
        server.until_readiness(503, f"client-ca: none is loaded: {why}")
        world.allowed.write_bytes(good)
        server.until_readiness(200, "ready\n")
        world.allowed.write_bytes(ssl.DER_cert_to_PEM_cert(spoilt).encode())
        server.until_readiness(200, f"client-ca: not loaded: {why}")
        # The server's own pair changes all the same.
        world.servers.issue("tls")
        loaded = {"certificate": "serving", "outcome": "loaded"}
        eventually(lambda: server.metric("rollcall_certificate_reloads_total", **loaded) == 2, "the new pair is loaded")
        with world.caller(files) as client:
            assert status(client, server) == 200
        server.until_readiness(200, "client-ca: not loaded")


def test_without_a_client_authority_no_client_is_accepted_and_the_server_is_not_ready(
    world: World, tmp_path: Path
) -> None:
    world.allowed.unlink()
    files = world.ours.issue("client")
    with serving_process(tmp_path, world.files, "--client-ca", world.allowed) as server:
        server.until_readiness(503, f"client-ca: none is loaded: {world.allowed}: no such file")
        with world.caller(files) as client:
            assert status(client, server) == REFUSED
        world.allow(world.ours)
        server.until_readiness(200, "ready\n")
        with world.caller(files) as client:
            assert status(client, server) == 200

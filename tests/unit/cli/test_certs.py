"""`rollcall certs`: the comparison of files, and the certificates of a simulated cluster."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tests.unit.certificates.certificate_world import NAMESPACE, CertificateWorld, configuration, secret
from tests.unit.cli.conftest import Run, answer_for_the_cluster, documents
from tests.unit.reconciler.certificate_api import CONFIGURATIONS, SECRETS, CertificateApi
from tests.waiting import LIMIT_SECONDS
from webhook.certificates.files import make_development_certificates
from webhook.certificates.renewal import Idle, RotationStep
from webhook.certificates.x509 import fingerprint, new_authority, read_certificates
from webhook.cluster.clock import MACHINE_CLOCK

BY_HAND = Path(__file__).parents[3] / "certs" / "by-hand.sh"
EXAMPLE = Path(__file__).parents[3] / "certs" / "cert-manager.yaml"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    make_development_certificates(tmp_path)
    return [f"--{option}={tmp_path / name}" for option, name in (("cert", "tls.crt"), ("key", "tls.key"))]


def test_files_are_checked_by_a_handshake(rollcall: Run, tmp_path: Path, files: list[str]) -> None:
    ran = rollcall("certs", "verify", *files, "--ca", str(tmp_path / "ca.crt"))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        f"good    {tmp_path}/tls.crt and {tmp_path}/tls.key",
        f"good    {tmp_path}/tls.crt as rollcall.rollcall-system.svc",
    ]


def test_host_names_are_checked_without_the_authority(rollcall: Run, tmp_path: Path, files: list[str]) -> None:
    ran = rollcall("certs", "verify", *files)
    assert (ran.code, ran.out.splitlines()[1]) == (0, f"good    {tmp_path}/tls.crt as rollcall.rollcall-system.svc")
    ran = rollcall("certs", "verify", *files, "--namespace", "elsewhere")
    assert ran.code == 1
    assert f"bad     {tmp_path}/tls.crt as rollcall.elsewhere.svc: " in ran.out
    assert "not valid for 'rollcall.elsewhere.svc'" in ran.out


@pytest.mark.parametrize("command", ["status", "verify", "rotate --leaf"])
def test_missing_certificates_may_be_in_another_namespace(
    rollcall: Run, api: CertificateApi, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> httpx.Response:
        return httpx.Response(404, json={"message": 'namespaces "team" not found'})

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", nothing)
    ran = rollcall("certs", *command.split(), "--namespace", "team")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith('rollcall: HTTP 404: namespaces "team" not found: ')
    assert ran.err.endswith(" --namespace\n")
    assert ran.err.count("\n") == 1
    assert rollcall("certs", *command.split(), "--namespace", "a/../b").code == 2
    assert rollcall("doctor", "--namespace", "a/../b").code == 2


def test_files_that_do_not_match_are_reported(rollcall: Run, tmp_path: Path, files: list[str]) -> None:
    other = tmp_path / "other"
    make_development_certificates(other)
    ca = str(tmp_path / "ca.crt")
    ran = rollcall("certs", "verify", *files, "--ca", str(other / "ca.crt"), "-o", "json")
    assert ran.code == 1
    stranger = json.loads(ran.out)["checks"][1]
    assert (stranger["state"], "issuer" in stranger["problem"] or "signature" in stranger["problem"]) == ("bad", True)
    ran = rollcall("certs", "verify", *files, "--ca", ca, "--name", "elsewhere.example")
    assert ran.code == 1
    assert "bad     " in ran.out
    assert "not valid for 'elsewhere.example'" in ran.out
    ran = rollcall("certs", "verify", files[0], f"--key={other / 'tls.key'}", "--ca", ca)
    assert (ran.code, f"{other}/tls.key" in ran.out) == (1, True)
    assert "does not belong to" in ran.out
    assert [line.split()[0] for line in ran.out.splitlines()] == ["bad"]
    assert "PRIVATE" not in ran.out + ran.err


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_certificates_that_are_made_by_hand_are_accepted(rollcall: Run, tmp_path: Path) -> None:
    for _ in range(2):
        subprocess.run(
            [BY_HAND, tmp_path, "team", "localhost", "10.0.0.7"], check=True, capture_output=True, timeout=LIMIT_SECONDS
        )
    pair = f"--cert={tmp_path / 'tls.crt'}", f"--key={tmp_path / 'tls.key'}", f"--ca={tmp_path / 'ca.crt'}"
    names = [f"--name={name}" for name in ("rollcall.team.svc", "localhost", "10.0.0.7")]
    ran = rollcall("certs", "verify", *pair, *names)
    assert (ran.code, ran.out.count("good")) == (0, 4), ran.out
    assert {path.name for path in tmp_path.iterdir()} == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
    assert (tmp_path / "tls.key").stat().st_mode & 0o777 == 0o600


def test_the_cert_manager_example_names_the_secret_that_the_server_mounts() -> None:
    *_, certificate = documents(EXAMPLE.read_text())
    assert certificate["spec"]["secretName"] == "rollcall-tls"
    assert "rollcall.rollcall-system.svc" in certificate["spec"]["dnsNames"]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> CertificateApi:
    """A cluster whose certificates are kept, in the place of the network."""
    world = CertificateWorld()
    # OpenSSL compares the dates of certificates with the date of the machine.
    world.now = MACHINE_CLOCK.now().replace(microsecond=0)
    world.settle()
    found = CertificateApi()
    found.now = world.now
    for name, data in (("rollcall-ca", world.authority), ("rollcall-tls", world.serving)):
        stored = secret(data) or {}
        stored["metadata"].update(name=name, uid=name, resourceVersion="1")
        found.objects[f"{SECRETS}/{name}"] = stored
    for name, path in CONFIGURATIONS.items():
        found.objects[path] = configuration(name, world.bundles[name])
    answer_for_the_cluster(found, monkeypatch, world.now)
    return found


def test_the_certificates_of_a_cluster_are_shown_without_keys(rollcall: Run, api: CertificateApi) -> None:
    ran = rollcall("certs", "status")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    authority = fingerprint(read_certificates(api.data("rollcall-ca")["ca.crt"])[0])[:16]
    assert lines[0].startswith(f"authority         {authority} until ")
    assert ", renewal due " in lines[0]
    assert re.fullmatch(r"certificate       [0-9a-f]{16} until \S+, renewal due \S+", lines[1])
    assert lines[2:] == [
        f"m-rollcall        trusts {authority}",
        f"v-rollcall        trusts {authority}",
        "step              bundle",
    ]
    found = json.loads(rollcall("certs", "status", "-o", "json").out)
    assert found["selfManaged"] is True
    assert [one["goesWithNamespace"] for one in found["configurations"]] == [False, False]
    assert "PRIVATE" not in ran.out


def test_problems_of_the_certificates_are_shown(rollcall: Run, api: CertificateApi) -> None:
    api.objects[f"{SECRETS}/rollcall-tls"]["data"]["tls.key"] = ""
    api.objects[CONFIGURATIONS["v-rollcall"]]["webhooks"][0]["clientConfig"]["caBundle"] = ""
    out = rollcall("certs", "status").out
    assert "certificate       tls.crt and tls.key: " in out
    assert "not a private key" in out
    assert "differs in: pods.validate.rollcall.dev" in out
    del api.objects[CONFIGURATIONS["m-rollcall"]], api.objects[CONFIGURATIONS["v-rollcall"]]
    assert "none exist" in rollcall("certs", "status").out


def test_no_authority_is_shown_for_externally_managed_certificates(rollcall: Run, api: CertificateApi) -> None:
    del api.objects[f"{SECRETS}/rollcall-ca"]
    found = json.loads(rollcall("certs", "status", "-o", "json").out)
    assert (found["selfManaged"], found["authority"], found["step"]) == (False, None, None)
    ran = rollcall("certs", "rotate", "--ca")
    assert ran.code == 3
    assert "not self-managed" in ran.err


def test_an_annotation_requests_a_rotation(rollcall: Run, api: CertificateApi) -> None:
    ran = rollcall("certs", "rotate", "--leaf")
    assert (ran.code, ran.out) == (0, "asked for\n")
    assert "rollcall.dev/rotate" in api.objects[f"{SECRETS}/rollcall-tls"]["metadata"]["annotations"]
    assert "asked for         leaf" in rollcall("certs", "status").out
    assert rollcall("certs", "rotate").code == 2
    assert rollcall("certs", "rotate", "--ca", "--leaf").code == 2


def test_waiting_for_a_rotation_ends_with_the_rotation_or_a_timeout(rollcall: Run, api: CertificateApi) -> None:
    ran = rollcall("certs", "rotate", "--leaf", "--wait", "--timeout", "1")
    assert ran.code == 3
    assert re.search(rf" not finished after 1 s: .* step {RotationStep.BUNDLE.value};", ran.err)
    # The controller obeys.
    world = CertificateWorld()
    world.settle()
    before = api.reads.count(f"{SECRETS}/rollcall-tls")

    async def obeyed(request: httpx.Request) -> httpx.Response:
        if api.reads.count(f"{SECRETS}/rollcall-tls") > before + 3:
            live = api.objects[f"{SECRETS}/rollcall-tls"]
            live["metadata"]["annotations"] = {}
            live["data"] = (secret(world.serving) or {})["data"]
        return await answer(request)

    answer, api.handle_async_request = api.handle_async_request, obeyed  # type: ignore[method-assign]
    ran = rollcall("certs", "rotate", "--leaf", "--wait")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("rotated: ")


def test_another_renewal_does_not_count_as_the_requested_one(rollcall: Run, api: CertificateApi) -> None:
    world = CertificateWorld()
    world.settle()

    def renewed() -> None:
        api.objects[f"{SECRETS}/rollcall-tls"]["data"] = (secret(world.serving) or {})["data"]

    # Just before the annotation came, and the leader has still to obey it.
    api.meanwhile["rollcall-tls"] = renewed
    ran = rollcall("certs", "rotate", "--leaf", "--wait", "--timeout", "1")
    assert ran.code == 3
    assert re.search(rf" not finished after 1 s: .* step {RotationStep.BUNDLE.value};", ran.err)


def test_waiting_for_an_authority_ends_when_the_old_one_is_no_longer_trusted(
    rollcall: Run, api: CertificateApi
) -> None:
    """A step is done with each look, by a world that does what the plan says."""
    world = CertificateWorld()
    world.now = api.now
    world.settle()
    old = world.bundles["m-rollcall"]

    def shown() -> None:
        for name, data, asked in (
            ("rollcall-ca", world.authority, "ca" in world.asked),
            ("rollcall-tls", world.serving, "leaf" in world.asked),
        ):
            live = api.objects[f"{SECRETS}/{name}"]
            stored = secret(data, asked=asked) or {}
            live["data"] = stored["data"]
            live["metadata"]["annotations"] = stored["metadata"]["annotations"]
        for name, path in CONFIGURATIONS.items():
            owner = [{"kind": "Namespace", "name": NAMESPACE, "uid": "n"}]
            managers = [{"manager": "rollcall-certificates"}] if name in world.claimed else []
            api.objects[path] = configuration(name, world.bundles[name], ownerReferences=owner, managedFields=managers)

    asked = False

    async def kept(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        if request.method == "GET" and request.url.path.endswith("/rollcall-ca"):
            if not asked and api.objects[f"{SECRETS}/rollcall-ca"]["metadata"].get("annotations"):
                asked, world.asked = True, {"ca"}
            world.step()
            world.everybody_hears()
            world.look()
            shown()
        return await answer(request)

    answer, api.handle_async_request = api.handle_async_request, kept  # type: ignore[method-assign]
    ran = rollcall("certs", "rotate", "--ca", "--wait")
    assert ran.code == 0, ran.err
    assert isinstance(world.next_action(), Idle)
    assert set(world.bundles.values()) == {(world.authority or {})["ca.crt"]} != {old}
    assert ran.out == f"rotated: {fingerprint(read_certificates(world.bundles['m-rollcall'])[0])}\n"
    assert [line for line in ran.err.splitlines() if "step" in line]


def test_a_cluster_is_verified_and_unreachable_servers_are_unknown(rollcall: Run, api: CertificateApi) -> None:
    api.slices = [{"ports": [{"port": 1}], "endpoints": [{"addresses": ["127.0.0.1"]}]}]
    ran = rollcall("certs", "verify")
    assert ran.code == 3, ran.out
    assert "unknown m-rollcall 127.0.0.1:1: cannot be reached " in ran.out
    assert "good    Secret rollcall-tls for m-rollcall" in ran.out
    other = new_authority("another", api.now, timedelta(days=1)).certificate_pem
    api.objects[CONFIGURATIONS["v-rollcall"]] = configuration("v-rollcall", other)
    api.slices = []
    ran = rollcall("certs", "verify")
    assert ran.code == 1
    assert "bad     Secret rollcall-tls for v-rollcall: " in ran.out
    service = "m-rollcall rollcall.rollcall-system.svc: "
    assert f"{service}there is no server" in ran.out
    api.slices = [{"ports": [{"port": 1}], "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": False}}]}]
    ran = rollcall("certs", "verify")
    assert re.search(f"^bad     {service}no server .* is ready$", ran.out, re.MULTILINE)
    api.objects[CONFIGURATIONS["v-rollcall"]] = configuration("v-rollcall")
    assert "it is empty" in rollcall("certs", "verify").out
    del api.objects[CONFIGURATIONS["v-rollcall"]]
    ran = rollcall("certs", "verify")
    assert re.search("^bad     v-rollcall: .* does not exist", ran.out, re.MULTILINE)


@pytest.mark.parametrize("command", ["status", "verify"])
def test_an_unreadable_cluster_gives_no_verdict(
    rollcall: Run, api: CertificateApi, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> httpx.Response:
        return httpx.Response(403, json={"message": "no right to get secrets"})

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", refused)
    ran = rollcall("certs", command)
    assert ran.code == 3
    assert ran.err.startswith("rollcall: the certificates ")
    assert ran.err.endswith(" cannot be read: HTTP 403: no right to get secrets\n")

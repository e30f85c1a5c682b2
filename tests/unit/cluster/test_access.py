"""Access to a cluster: from inside a pod, from a kubeconfig, and the error if there is neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.played import PlayedClock
from tests.unit.cluster.kubeconfigs import kubeconfig
from tests.unit.cluster.scripted import Script, client, failure
from webhook.certificates.files import CA_FILE, CERTIFICATE_FILE, KEY_FILE, make_development_certificates
from webhook.cluster import access
from webhook.cluster.access import find_access, kubeconfig_access, pod_access
from webhook.cluster.client import CREDENTIALS_KEPT_SECONDS
from webhook.cluster.requests import discovery, watch
from webhook.errors import AccessError, NotModified, RequestFailed
from webhook.model.known_kinds import PODS


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pod's service account, as the kubelet mounts it."""
    make_development_certificates(tmp_path)
    (tmp_path / "token").write_text("first\n")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return tmp_path


def test_in_a_pod_the_token_is_reread_because_kubelet_replaces_it(account: Path) -> None:
    found = pod_access(account)
    assert (found.url, found.authorization()) == ("https://10.0.0.1:443", "Bearer first")
    (account / "token").write_text("second\n")
    assert found.authorization() == "Bearer second"


def test_a_pod_in_an_ipv6_cluster_gets_a_valid_url(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    assert pod_access(account).url == "https://[fd00::1]:443"


@pytest.mark.parametrize("missing", ["token", CA_FILE])
def test_a_pod_without_a_service_account_gets_an_error_with_a_remedy(account: Path, missing: str) -> None:
    (account / missing).unlink()
    with pytest.raises(AccessError, match=f"{account}.*automountServiceAccountToken"):
        pod_access(account)


def test_running_in_a_pod_is_detected(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "SERVICE_ACCOUNT", account)
    assert find_access().url == "https://10.0.0.1:443"


USERS: dict[str, tuple[dict[str, Any], str | None]] = {
    "a token": ({"token": "secret"}, "Bearer secret"),
    "a name and a password": ({"username": "me", "password": "secret"}, "Basic bWU6c2VjcmV0"),
    "a program": (
        {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "/bin/echo",
                "interactiveMode": "Never",
                "args": [
                    '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
                    '"status": {"token": "made"}}'
                ],
            }
        },
        "Bearer made",
    ),
    "nobody": ({}, None),
}


@pytest.mark.parametrize(("user", "expected"), USERS.values(), ids=USERS)
def test_the_credentials_of_a_kubeconfig_are_used(tmp_path: Path, user: dict[str, Any], expected: str | None) -> None:
    found = kubeconfig_access(kubeconfig(tmp_path, user), None)
    assert (found.url, found.authorization()) == ("https://cluster:6443", expected)


def test_a_client_certificate_is_loaded(tmp_path: Path) -> None:
    make_development_certificates(tmp_path)
    user = {"client-certificate": str(tmp_path / CERTIFICATE_FILE), "client-key": str(tmp_path / KEY_FILE)}
    authority = str(tmp_path / CA_FILE)
    found = kubeconfig_access(kubeconfig(tmp_path, user, **{"certificate-authority": authority}), "one")
    assert found.tls.cert_store_stats()["x509_ca"] == 1
    (tmp_path / KEY_FILE).write_text("nothing")
    with pytest.raises(AccessError):
        kubeconfig_access(kubeconfig(tmp_path, user), None)


def test_a_token_file_is_reread_after_a_while(tmp_path: Path) -> None:
    clock = PlayedClock()
    (tmp_path / "token").write_text("first\n")
    found = kubeconfig_access(kubeconfig(tmp_path, {"tokenFile": str(tmp_path / "token")}), None, clock=clock)
    assert (found.authorization() or "").strip() == "Bearer first"
    (tmp_path / "token").write_text("second\n")
    clock.move(access.RELOAD_SECONDS)
    assert (found.authorization() or "").strip() == "Bearer first"
    clock.move(0.1)
    assert (found.authorization() or "").strip() == "Bearer second"


def test_a_server_that_is_not_a_url_is_reported(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"token": "x"}, server="cluster:6443")
    with pytest.raises(AccessError, match="the server 'cluster:6443' is not a URL"):
        kubeconfig_access(path, None)


def test_a_mistake_in_a_kubeconfig_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(AccessError, match=f"{absent}: "):
        kubeconfig_access(absent, None)
    path = kubeconfig(tmp_path, {})
    with pytest.raises(AccessError, match="context two"):
        kubeconfig_access(path, "two")
    path.write_text("7\n")
    with pytest.raises(AccessError, match=f"{path}: "):
        kubeconfig_access(path, None)
    monkeypatch.setenv("KUBECONFIG", str(absent))
    with pytest.raises(AccessError, match=f"{absent}: "):
        find_access()


def test_an_invalid_kubeconfig_is_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def why(path: Path | None = tmp_path / "config") -> str:
        with pytest.raises(AccessError) as error:
            kubeconfig_access(path, None)
        return str(error.value)

    assert why().endswith(f": {tmp_path}/config: no such file")
    for content in ("[]", "7", "clusters: {}\nusers: 5\ncontexts: x\ncurrent-context: here\n", "-----BEGIN X-----"):
        (tmp_path / "config").write_text(content)
        assert why().endswith(f": {tmp_path}/config: is not a kubeconfig"), content
    (tmp_path / "config").write_text("a: [\n")
    assert why().endswith(f": {tmp_path}/config: is not YAML")
    (tmp_path / "config").write_bytes(b"\xff")
    assert why().endswith(f": {tmp_path}/config: is not UTF-8")
    (tmp_path / "config").write_text("")
    assert why().endswith(f": {tmp_path}/config: is empty")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert why(None).endswith(": ~/.kube/config: no such file")


@pytest.mark.parametrize("program", [["/nowhere/program"], ["/bin/echo", '{"token": "secret"'], ["/bin/false"]])
def test_a_credential_program_without_credentials_is_an_error(
    tmp_path: Path, program: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """The requests after it would be refused, because the user is anonymous."""
    command, *arguments = program
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": command,
            "interactiveMode": "Never",
            "args": arguments,
        }
    }
    with pytest.raises(AccessError, match="no credentials"):
        kubeconfig_access(kubeconfig(tmp_path, user), None)
    assert "secret" not in capfd.readouterr().err


async def test_missing_credentials_make_the_request_fail() -> None:
    def broken() -> str:
        raise OSError("the plugin is gone")

    with pytest.raises(RequestFailed, match="no credentials: OSError: the plugin is gone"):
        await client(Script(), broken).get(discovery())


async def test_the_credentials_are_read_again_after_a_while() -> None:
    clock, tokens = PlayedClock(), iter(["first", "second"])
    script = Script((200, {}), (200, {}), (200, {}))
    asking = client(script, lambda: next(tokens), clock=clock)
    for seconds in (0, CREDENTIALS_KEPT_SECONDS / 2, CREDENTIALS_KEPT_SECONDS):
        clock.move(seconds)
        await asking.get(discovery())
    assert [request.headers["authorization"] for request in script.asked] == ["first", "first", "second"]


async def test_an_unmodified_answer_is_not_transferred_again() -> None:
    script = Script((200, {"items": []}), (304, b""), headers={"etag": '"one"'})
    asking = client(script, lambda: "Bearer me")
    answer = await asking.get(discovery())
    with pytest.raises(NotModified):
        await asking.get(discovery(answer.etag))
    await asking.close()
    request = script.asked[1]
    assert (request.headers["if-none-match"], request.headers["authorization"]) == ('"one"', "Bearer me")


def test_the_namespace_of_the_chosen_context_is_read(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path)
    content = yaml.safe_load(file.read_text())
    named = {"name": "two", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}}
    file.write_text(yaml.safe_dump(content | {"contexts": [*content["contexts"], named]}))
    assert kubeconfig_access(file, None).namespace is None
    assert kubeconfig_access(file, "one").namespace is None
    assert kubeconfig_access(file, "two").namespace == "team-a"


@pytest.mark.parametrize("current", [None, "removed"])
def test_a_named_context_needs_no_current_context(tmp_path: Path, current: str | None) -> None:
    file = kubeconfig(tmp_path)
    content = yaml.safe_load(file.read_text())
    content["contexts"][0]["context"]["namespace"] = "team-a"
    others = {key: value for key, value in content.items() if key != "current-context"}
    file.write_text(yaml.safe_dump(others | ({} if current is None else {"current-context": current})))
    assert kubeconfig_access(file, content["contexts"][0]["name"]).namespace == "team-a"
    with pytest.raises(AccessError):
        kubeconfig_access(file, None)


@pytest.mark.parametrize("sent", ["Bearer eyJhbGciOi.secret.token", "Basic dXNlcjpwYXNzd29yZA=="])
async def test_a_refusal_that_quotes_our_credentials_is_told_without_them(sent: str) -> None:
    secret, refusal = sent.split()[1], failure(403, f"forbidden: authorization: {sent}")
    found = client(Script((403, refusal), (403, sent.encode()), (403, refusal)), lambda: sent)
    told: list[str] = []
    for _ in range(2):
        with pytest.raises(RequestFailed) as failed:
            await found.get(discovery())
        told.append(str(failed.value))
    with pytest.raises(RequestFailed) as failed:
        await anext(found.lines(watch(PODS, "1", 60)))
    for text in (*told, str(failed.value)):
        assert text.startswith("HTTP 403: ")
        assert secret not in text

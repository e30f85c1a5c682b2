"""The verification of an API server's certificate: real handshakes and a real request, from a pod and by a
kubeconfig.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tls_listener import tls_listener
from tests.trust_cases import ADDRESS, HOST, OURS, REFUSED, SERVED, STRICTER, TRUSTED, TrustCase, only
from tests.unit.cluster.kubeconfigs import kubeconfig, version
from webhook.certificates.files import server_context
from webhook.cluster.access import Access, kubeconfig_access, pod_access
from webhook.errors import AccessError, RequestFailed

ANSWER = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n{"minor": "34"}'

Find = Callable[[Path, int, bytes], Access]


@pytest.fixture(autouse=True)
def pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", ADDRESS)


@pytest.fixture
def by_pod(monkeypatch: pytest.MonkeyPatch) -> Find:
    def found(folder: Path, port: int, bundle: bytes) -> Access:
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(port))
        (folder / "ca.crt").write_bytes(bundle)
        (folder / "token").write_text("token")
        return pod_access(folder)

    return found


def by_kubeconfig(folder: Path, port: int, bundle: bytes, **cluster: Any) -> Access:
    (folder / "authorities.crt").write_bytes(bundle)
    authorities = {"certificate-authority": "authorities.crt"} if bundle else {}
    path = kubeconfig(folder, **{"server": f"https://{ADDRESS}:{port}", **authorities, **cluster})
    return kubeconfig_access(path, None)


def by_name(folder: Path, port: int, bundle: bytes) -> Access:
    return by_kubeconfig(folder, port, bundle, **{"tls-server-name": HOST})


@pytest.fixture(params=["a pod", "a kubeconfig", "a kubeconfig with tls-server-name"])
def find(request: pytest.FixtureRequest, by_pod: Find) -> Find:
    found: dict[str, Find] = {"a pod": by_pod, "a kubeconfig": by_kubeconfig}
    return found.get(request.param, by_name)


def answered(case: TrustCase, find: Find, folder: Path) -> Any:
    with tls_listener(server_context(case.pair), ANSWER) as port:
        return version(find(folder, port, case.bundle))


@pytest.mark.parametrize("case", TRUSTED.values(), ids=TRUSTED)
def test_an_api_server_that_go_trusts_gets_requests(case: TrustCase, find: Find, tmp_path: Path) -> None:
    assert answered(case, find, tmp_path) == {"minor": "34"}


@pytest.mark.parametrize("case", [*REFUSED.values(), *STRICTER.values()], ids=[*REFUSED, *STRICTER])
def test_an_untrusted_api_server_gets_no_request(case: TrustCase, find: Find, tmp_path: Path) -> None:
    with pytest.raises(RequestFailed) as error:
        answered(case, find, tmp_path)
    assert case.refused in str(error.value)


def test_without_authorities_a_kubeconfig_trusts_the_system_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = tmp_path / "system.crt"
    monkeypatch.setenv("SSL_CERT_FILE", str(system))
    case = TRUSTED["an authority with nothing but basic constraints"]

    def by_system(folder: Path, port: int, _: bytes) -> Access:
        return by_kubeconfig(folder, port, b"")

    system.write_bytes(case.bundle)
    assert answered(case, by_system, tmp_path) == {"minor": "34"}
    system.write_bytes(only(OURS))
    with pytest.raises(RequestFailed, match="local issuer"):
        answered(case, by_system, tmp_path)


def test_a_kubeconfig_can_turn_verification_off(tmp_path: Path) -> None:
    def unverified(folder: Path, port: int, bundle: bytes) -> Access:
        return by_kubeconfig(folder, port, bundle, **{"insecure-skip-tls-verify": True})

    assert answered(REFUSED["another authority"], unverified, tmp_path) == {"minor": "34"}


def test_a_trailing_dot_of_a_host_name_is_ignored_in_verification(tmp_path: Path) -> None:
    def absolute(folder: Path, port: int, bundle: bytes) -> Access:
        found = by_kubeconfig(folder, port, bundle, server=f"https://{HOST}.:{port}")
        assert found.server_name == HOST
        # No resolver knows that name.
        return found._replace(url=f"https://{ADDRESS}:{port}")

    assert answered(TrustCase(SERVED, (), only(OURS)), absolute, tmp_path) == {"minor": "34"}


def test_a_file_without_authorities_is_reported_by_name(tmp_path: Path, by_pod: Find) -> None:
    with pytest.raises(AccessError, match=r" \S+/ca\.crt: .*no certificate"):
        by_pod(tmp_path, 443, b"nothing")
    with pytest.raises(AccessError, match=r" \S+/kubeconfig: .*no certificate"):
        by_kubeconfig(tmp_path, 443, b"nothing")

"""A real request through a real proxy that is asked to connect to a host name; nothing else resolves that name."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.tls_listener import tls_listener
from tests.trust_cases import HOST, OURS, SERVED, TrustCase, only
from tests.unit.cluster.kubeconfigs import kubeconfig, version
from tests.waiting import LIMIT_SECONDS
from webhook.certificates.files import server_context
from webhook.cluster.access import Access, kubeconfig_access, pod_access
from webhook.errors import AccessError, RequestFailed

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class ConnectProxy:
    """It connects every client to one port of this machine, for any host, or refuses to."""

    def __init__(self, listening: socket.socket, port: int, *, refuses: bool) -> None:
        self.asked: list[str] = []
        self.address = f"127.0.0.1:{listening.getsockname()[1]}"
        self._listening, self._port, self._refuses = listening, port, refuses

    def serve(self) -> None:
        with suppress(OSError):
            plain, _ = self._listening.accept()
            with plain:
                head = plain.recv(4096)
                self.asked.append(head.partition(b"\r\n")[0].decode())
                if self._refuses:
                    plain.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
                    return
                with socket.create_connection(("127.0.0.1", self._port), timeout=LIMIT_SECONDS) as onward:
                    plain.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    back = threading.Thread(target=_copy, args=(onward, plain), daemon=True)
                    back.start()
                    _copy(plain, onward)
                    back.join(LIMIT_SECONDS)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(65536):
            target.sendall(content)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def proxy_before_an_api_server(*, refuses: bool = False) -> Iterator[ConnectProxy]:
    case = TrustCase(SERVED, (), only(OURS))
    with (
        tls_listener(server_context(case.pair), ANSWER) as port,
        socket.create_server(("127.0.0.1", 0)) as listening,
    ):
        proxy = ConnectProxy(listening, port, refuses=refuses)
        threading.Thread(target=proxy.serve, daemon=True).start()
        yield proxy


def proxied(folder: Path, **cluster: Any) -> Access:
    (folder / "ca.crt").write_bytes(only(OURS))
    authority: dict[str, Any] = {"server": f"https://{HOST}", "certificate-authority": "ca.crt"}
    return kubeconfig_access(kubeconfig(folder, **authority, **cluster), None)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_a_kubeconfig_s_cluster_is_reached_through_the_proxy_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy_before_an_api_server() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.address)
        assert version(proxied(tmp_path)) == {}
    assert proxy.asked == [f"CONNECT {HOST}:443 HTTP/1.1"]


def test_the_kubeconfig_s_proxy_has_precedence_and_no_exceptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "*")
    with proxy_before_an_api_server() as proxy:
        assert version(proxied(tmp_path, **{"proxy-url": f"http://{proxy.address}"})) == {}
    assert proxy.asked == [f"CONNECT {HOST}:443 HTTP/1.1"]


def test_a_refusing_proxy_is_reported_without_its_password(tmp_path: Path) -> None:
    with proxy_before_an_api_server(refuses=True) as proxy:
        named = proxied(tmp_path, **{"proxy-url": f"http://me:SECRET@{proxy.address}"})
        with pytest.raises(RequestFailed) as error:
            version(named)
    assert f"403 Forbidden (https://{HOST} through the proxy http://{proxy.address})" in str(error.value)
    assert "SECRET" not in str(error.value)


def test_a_pod_uses_no_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_PROXY often lacks the addresses of Services, and the API server is one."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    (tmp_path / "ca.crt").write_bytes(only(OURS))
    (tmp_path / "token").write_text("token")
    with tls_listener(server_context(TrustCase(SERVED, (), b"").pair), ANSWER) as port:
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(port))
        found = pod_access(tmp_path)
        assert found.proxy is None
        assert version(found) == {}


def test_an_unsupported_proxy_type_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="'socks5'"):
        proxied(tmp_path, **{"proxy-url": "socks5://me:SECRET@127.0.0.1:1080"})

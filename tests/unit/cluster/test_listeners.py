"""The addresses of a server: both families if the machine has both, otherwise the one that it has."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.waiting import LIMIT_SECONDS
from webhook.cluster.sockets import EVERYWHERE, listening, reached_at
from webhook.errors import InputError

# In a network of its own: `lo` has the addresses that are left after PREPARE. The server is ready once it
# has probed its own port; then each of two clients prints whether it was answered.
STORY = """
set -e
ip link set lo up
{prepare}
{python} -m webhook serve --standalone --host "{host}" --port 8443 --health-port 8081 2>"{folder}/log" &
server=$!
trap 'kill $server' EXIT
{python} - <<'END'
import http.client, json, time
def ask(address, path):
    connection = http.client.HTTPConnection(address, 8081, timeout={limit})
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode().strip()
    except OSError:
        return ""
    finally:
        connection.close()
deadline = time.monotonic() + {limit}
addresses = ("127.0.0.1", "::1")
while not any(ask(address, "/readyz") == "ready" for address in addresses) and time.monotonic() < deadline:
    time.sleep(0.1)
print(json.dumps([[address, ask(address, "/readyz")] for address in addresses]))
END
"""
NO_IPV6 = "echo 1 > /proc/sys/net/ipv6/conf/lo/disable_ipv6; echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"
NO_IPV4 = "ip address del 127.0.0.1/8 dev lo"
BOTH = [["127.0.0.1", "ready"], ["::1", "ready"]]
IPV4, IPV6 = [["127.0.0.1", "ready"], ["::1", ""]], [["127.0.0.1", ""], ["::1", "ready"]]
NETWORKS = {
    "both": ("", "::", BOTH),
    "IPv4 alone": (NO_IPV6, "::", IPV4),
    "IPv6 alone": (NO_IPV4, "::", IPV6),
    "an address of IPv4": ("", "0.0.0.0", IPV4),  # noqa: S104 - in a network of its own
    "an address of IPv6": ("", "::1", IPV6),
}


def in_a_separate_network(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=3 * LIMIT_SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def networks() -> None:
    """Skip if no separate network can be created."""
    for program in ("unshare", "ip"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program} (util-linux, iproute2)")
    tried = in_a_separate_network("mount -t sysfs none /sys 2>/dev/null; ip link set lo up")
    if tried.returncode:
        pytest.skip(f"needs the right to make a network namespace: {tried.stderr.strip()}")


@pytest.mark.usefixtures("networks")
@pytest.mark.parametrize(
    ("prepare", "host", "expected"),
    [
        pytest.param(*network, id=name, marks=() if name == "IPv4 alone" else pytest.mark.exhaustive)
        for name, network in NETWORKS.items()
    ],
)
def test_a_server_is_reachable_over_every_address_family_of_the_machine(
    tmp_path: Path, prepare: str, host: str, expected: list[list[str]]
) -> None:
    story = STORY.format(prepare=prepare, host=host, folder=tmp_path, python=sys.executable, limit=LIMIT_SECONDS)
    ran = in_a_separate_network(story)
    log = (tmp_path / "log").read_text() if (tmp_path / "log").exists() else ""
    assert ran.returncode == 0, f"{ran.stderr}\n{log}"
    assert json.loads(ran.stdout) == expected, log
    assert json.loads(log.splitlines()[0])["url"] == "https://localhost:8443"


@pytest.fixture(params=[EVERYWHERE, "::"])
def wide(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    """A socket on every address."""
    if not socket.has_dualstack_ipv6() and request.param:
        pytest.skip("needs IPv6")
    with closing(listening(request.param, 0)) as found:
        yield found


def test_listening_on_every_address_includes_ipv4_and_ipv6(wide: socket.socket) -> None:
    port = wide.getsockname()[1]
    reached = []
    for address in ("127.0.0.1", "::1"):
        with suppress(OSError), socket.create_connection((address, port), timeout=LIMIT_SECONDS):
            reached.append(address)
    assert "127.0.0.1" in reached
    assert reached_at(wide) in {(address, port) for address in reached}


def test_a_machine_without_ipv6_listens_on_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    with closing(listening(EVERYWHERE, 0)) as found:
        assert found.family == socket.AF_INET
        assert reached_at(found) == ("127.0.0.1", found.getsockname()[1])


def test_a_port_in_use_is_reported_even_without_an_address() -> None:
    with closing(listening(EVERYWHERE, 0)) as found:
        port = found.getsockname()[1]
        with pytest.raises(InputError) as told:
            listening(EVERYWHERE, port)
    assert str(told.value).endswith(f" port {port}: {os.strerror(errno.EADDRINUSE)}")

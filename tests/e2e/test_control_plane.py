"""The fixtures themselves: several control planes at once, with garbage collection, and none left afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.fixture_types import Grove, Nodes
from tests.e2e.programs import eventually
from tests.e2e.workloads import two_cliques

_STARTS_ONE = """
import signal, sys, time
# Who runs the tests in the background may have had it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
from tests.e2e.control_plane import ControlPlane
plane = ControlPlane(sys.argv[1])
print(plane.folder, *(path.read_text() for path in plane.folder.glob("*.pid")), flush=True)
time.sleep(600)
"""


@pytest.mark.every_version
def test_the_control_plane_has_the_requested_version(plane: ControlPlane, version: str) -> None:
    told = plane.kubectl("version", check=True).out
    assert f"Server Version: v{version}." in told
    assert f"Client Version: v{version}." in told


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT], ids=["killed", "Ctrl-C"])
def test_the_control_plane_ends_with_the_process_that_started_it(
    plane: ControlPlane, version: str, end: signal.Signals
) -> None:
    """A second one does not disturb the test's own."""
    root, command = Path(__file__).parents[2], [sys.executable, "-c", _STARTS_ONE, version]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as starter:
        assert starter.stdout is not None
        folder, *pids = starter.stdout.readline().decode().split()
        assert Path(folder).is_dir()
        assert len(pids) == 2, "etcd and the API server"
        starter.send_signal(end)
        try:
            starter.wait(30)
        finally:
            starter.kill()
    eventually(lambda: not Path(folder).exists(), "the folder is gone")
    for pid in pids:
        eventually(lambda pid=pid: not Path(f"/proc/{pid}").exists(), f"process {pid} is gone")  # type: ignore[misc]
    plane.check()


def test_deleting_an_owner_deletes_its_dependents(plane: ControlPlane, namespace: str, grove: Grove) -> None:
    if not plane.collects_garbage:
        pytest.skip("there is no kube-controller-manager among the programs")
    grove(two_cliques("demo", namespace)).create()
    plane.kubectl("delete", "podcliqueset", "demo", "-n", namespace, check=True)

    def nothing_left() -> bool:
        paths = (
            f"/apis/grove.io/v1alpha1/namespaces/{namespace}/podcliques",
            f"/apis/scheduler.grove.io/v1alpha1/namespaces/{namespace}/podgangs",
            f"/api/v1/namespaces/{namespace}/pods",
        )
        for path in paths:
            left = [found for found in plane.items(path) if "deletionTimestamp" not in found["metadata"]]
            assert left == [], f"{len(left)} left of {path}"
        return True

    eventually(nothing_left, "the garbage collector has done its work", timeout=60)


def test_a_node_is_ready_and_has_free_resources(plane: ControlPlane, nodes: Nodes) -> None:
    assert nodes(2, cpu=4, gpu=8, labels={"example.com/block": "a"}) == ["node-0", "node-1"]
    assert nodes(1) == ["node-2"]
    node = plane.get("node", "node-1")
    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "64Gi", "nvidia.com/gpu": "8", "pods": "110"}
    assert node["metadata"]["labels"]["example.com/block"] == "a"
    assert "taints" not in node["spec"]
    shown = plane.kubectl("get", "nodes", "--no-headers", check=True).out
    assert [line.split()[1] for line in shown.splitlines()] == ["Ready"] * 3

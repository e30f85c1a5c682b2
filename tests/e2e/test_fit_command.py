"""`rollcall fit` on a real API server: a stored Job by name, and a manifest with `--live`, with the pods on nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.command import run_here
from tests.e2e.control_plane import ADMIN, ControlPlane, Manifest
from tests.e2e.fixture_types import Nodes

CONFIG = """\
apiVersion: rollcall.dev/v1alpha1
kind: RollcallConfiguration
fit: {nodes: fixed}
scheduler: {defaultProfileName: volcano, profiles: [{name: volcano}]}
"""


def job(name: str, namespace: str, pods: int) -> Manifest:
    """A Job of pods that take two of the four CPUs of a node."""
    limits = {"cpu": "2"}
    container = {"name": "main", "image": "x", "resources": {"limits": limits, "requests": limits}}
    pod = {"restartPolicy": "Never", "containers": [container], "nodeSelector": {"pool": namespace}}
    # Where another test has left a Job controller and a scheduler running, this keeps the pods off the nodes.
    pod["schedulerName"] = "volcano"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {"rollcall.dev/scheduler": "volcano"}},
        "spec": {
            "completionMode": "Indexed",
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": pod},
        },
    }


def told(code: int, *arguments: str | Path) -> Any:
    """What `rollcall fit` says of the one gang."""
    done = run_here("fit", "-o", "json", *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    [gang] = json.loads(done.stdout)["gangs"]
    return gang


def test_a_stored_job_and_a_manifest_are_held_against_the_nodes_and_the_pods_on_them(
    plane: ControlPlane, namespace: str, nodes: Nodes, tmp_path: Path
) -> None:
    first, second = nodes(2, cpu=4, labels={"pool": namespace}, prefix=namespace)
    config = tmp_path / "rollcall.yaml"
    config.write_text(CONFIG)
    known = ("--config", config, "--kubeconfig", plane.write_kubeconfig(ADMIN))

    plane.apply(job("large", namespace, 5), job("small", namespace, 4), check=True)
    large = told(1, "job/large", "-n", namespace, *known)
    assert (large["verdict"], large["scope"]) == ("never", "on these nodes")
    assert large["witness"]["why"] == "5 pods of 2 cpu; 2 nodes of 4 take 2 each"
    small = told(0, "job/small", "-n", namespace, *known)
    assert (small["verdict"], small["now"]["answer"], sorted(small["now"]["domains"])) == (
        "fits",
        "room",
        sorted([first, second]),
    )

    # A pod of another gang on a node, and one of another namespace: the first is named, the other counted.
    pod = job("x", namespace, 1)["spec"]["template"]["spec"] | {"nodeName": first}
    running = {"apiVersion": "v1", "kind": "Pod", "spec": pod}
    named = {"name": "old-0", "namespace": namespace, "labels": {"rollcall.dev/gang": "old"}}
    plane.apply(running | {"metadata": named}, check=True)
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(job("small", namespace, 4)))
    now = told(0, "--live", *known, file)["now"]
    assert (now["answer"], now["short"]) == ("short", [{"resource": "pods", "needed": 4, "there": 3}])
    assert now["wouldHaveToGo"] == {"gangs": ["old"], "ofOtherNamespaces": 0}

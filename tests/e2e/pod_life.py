"""What a kubelet would do with pods: nothing runs them here, so the test reports that they run, end, and are gone."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.workload_objects import path_of

_STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
# What a container ends with that was told to.
_TERMINATED = 143


def let_start(plane: ControlPlane, pods: Iterable[Manifest]) -> None:
    """The pods run, and are not ready yet."""
    for pod in pods:
        _tell(plane, pod, "Running", ready=False)


def let_run(plane: ControlPlane, pods: Iterable[Manifest]) -> None:
    """The pods run and are ready."""
    for pod in pods:
        _tell(plane, pod, "Running", ready=True)


def let_succeed(plane: ControlPlane, pods: Iterable[Manifest]) -> None:
    """The pods have ended well."""
    for pod in pods:
        _tell(plane, pod, "Succeeded", ready=False)


def let_fail(plane: ControlPlane, pods: Iterable[Manifest], exit_code: int = 1) -> None:
    """The pods have failed."""
    for pod in pods:
        _tell(plane, pod, "Failed", ready=False, exit_code=exit_code)


def let_restart(plane: ControlPlane, pods: Iterable[Manifest], times: int = 1) -> None:
    """The containers of the pods have failed and been started again, so many times in all."""
    for pod in pods:
        _tell(plane, pod, "Running", ready=True, restarts=times)


def finish(plane: ControlPlane, pod: Manifest) -> None:
    """End a pod that is being deleted: its containers end first, and a finalizer may keep it longer."""
    metadata = pod["metadata"]
    if pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}:
        let_fail(plane, [pod], _TERMINATED)
    if metadata.get("deletionGracePeriodSeconds") != 0:
        path = path_of("v1", "Pod", metadata["namespace"], metadata["name"])
        plane.http.delete(path, params={"gracePeriodSeconds": "0"})


def _tell(
    plane: ControlPlane, pod: Manifest, phase: str, *, ready: bool, exit_code: int = 0, restarts: int = 0
) -> None:
    metadata = pod["metadata"]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    running = {"running": {"startedAt": now}}
    ended = {"terminated": {"exitCode": exit_code, "startedAt": now, "finishedAt": now}}
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": restarts,
            "state": running if phase == "Running" else ended,
        }
        for container in pod["spec"]["containers"]
    ]
    conditions = [
        {"type": kind, "status": str(ready), "lastTransitionTime": now} for kind in ("Ready", "ContainersReady")
    ]
    status = {"phase": phase, "startTime": now, "conditions": conditions, "containerStatuses": containers}
    # So that the conditions of others stay.
    path = path_of("v1", "Pod", metadata["namespace"], metadata["name"])
    answer = plane.http.patch(f"{path}/status", json={"status": status}, headers=_STRATEGIC)
    assert answer.is_success, answer.text

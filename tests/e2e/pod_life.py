"""What a kubelet would do with pods: nothing runs them here, so the test reports that they run, end, and are gone."""

from __future__ import annotations

from collections.abc import Iterable

from tests.e2e.control_plane import ControlPlane, Manifest
from tests.e2e.programs import eventually
from tests.e2e.workload_objects import listed, patched, path_of


def let_run(plane: ControlPlane, pods: Iterable[Manifest]) -> None:
    """The pods run and are ready."""
    for pod in pods:
        _tell(plane, pod, "Running", ready=True)


def let_succeed(plane: ControlPlane, pods: Iterable[Manifest]) -> None:
    """The pods have ended well."""
    for pod in pods:
        _tell(plane, pod, "Succeeded", ready=False)


def _tell(plane: ControlPlane, pod: Manifest, phase: str, *, ready: bool) -> None:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": pod["metadata"]["creationTimestamp"]}
    patched(plane, pod, {"status": {"phase": phase, "conditions": [condition]}}, "/status")


def let_go(plane: ControlPlane, namespace: str, uids: Iterable[str]) -> None:
    """Wait until pods are gone, and end meanwhile those in the namespace that are on their way out: one that was bound
    stays until its kubelet has stopped it.
    """
    wanted = set(uids)

    def gone() -> bool:
        left = []
        for pod in listed(plane, "v1", "Pod", namespace):
            metadata = pod["metadata"]
            if "deletionTimestamp" in metadata:
                path = path_of("v1", "Pod", namespace, metadata["name"])
                plane.http.delete(path, params={"gracePeriodSeconds": "0"})
            if metadata["uid"] in wanted:
                left.append(metadata["name"])
        assert not left, f"still there: {left}"
        return True

    eventually(gone, "the pods are gone")
